//! What this end sends on one path: what is in flight, what became of it, and so how fast the path is, how much more
//! it may be given, and how large its packets may be. Whether the path is alive is not known here
//! ([`Path`](super::Path) watches that).

use core::time::Duration;

use super::bucket::Bucket;
use super::congestion::{
    AckSample, Backoff, Congestion, Controller, PeerTime, Sampler, State as CongestionState,
};
use super::loss::{LossRatio, Reorder};
use super::mtu::Mtu;
use super::pace::Pace;
use super::path::PathConfig;
use super::rtt::{RoundTrip, Rtt};
use super::sent::{Decided, GivenUp, Lost, SentPacket, SentRing, State};
use super::stats::PathStats;
use super::thresholds::{
    ACK_DELAY_CROWDED, ACK_DELAY_MAX, LOST_KEPT, QUEUE_TARGET, TRAIN_NEWS, WAIT_MAX,
    WINDOW_INITIAL_PACKETS, WINDOW_MIN_PACKETS,
};
use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_WIDE};
use crate::segment::{Content, Fate};
use crate::trace::PathMetrics;
use crate::wire::Ack;
use crate::{LinkId, Time};

/// What an acknowledgement showed.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Packets that wanted it acknowledged for the first time.
    pub packets: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Packets it showed to be lost.
    pub lost: u32,
    /// When the newest of the packets was sent.
    pub sent: Time,
    /// Occasions for an answer up to the newest packet that was ever acknowledged, if it is among these.
    pub occasions: Option<u64>,
    /// Whether newer packets still want to be acknowledged.
    pub others_wait: bool,
}

/// What this end sends on one path.
#[derive(Debug)]
pub struct Flight {
    sent: SentRing,
    rtt: Rtt,
    reorder: Reorder,
    loss_ratio: LossRatio,
    sampler: Sampler,
    congestion: Congestion,
    mtu: Mtu,
    /// What the peer grants while many send to it.
    pace: Option<Pace>,
    /// While the least window is too much.
    backoff: Option<Backoff>,
    /// How much goes at once, while the path is far and its rate known, or less than a packet may be in flight.
    bucket: Option<Bucket>,
    /// One more than the highest number acknowledged, and when that packet was sent.
    acked_next: u64,
    acked_sent: Time,
    /// Probe timeouts since the last progress, and from when the next one counts.
    timeouts: u32,
    timeout_from: Time,
    /// What is counted here of the path's figures.
    stats: PathStats,
}

impl Flight {
    pub(super) fn new(now: Time, config: &PathConfig) -> Flight {
        let min = config.datagram_bytes_min;
        let max = config.datagram_bytes_max.min(DATAGRAM_BYTES_MAX);
        Flight {
            sent: SentRing::new(),
            rtt: Rtt::new(now),
            reorder: Reorder::new(now),
            loss_ratio: LossRatio::default(),
            sampler: Sampler::new(now),
            congestion: Congestion::new(
                config.congestion,
                now,
                DATAGRAM_BYTES_WIDE,
                config.receive_buffer_bytes / 2,
            ),
            mtu: Mtu::new(now, min, max),
            pace: None,
            backoff: None,
            bucket: None,
            acked_next: 0,
            acked_sent: Time::ZERO,
            timeouts: 0,
            timeout_from: now,
            stats: PathStats::default(),
        }
    }

    // ---- sending ----

    /// The number the next packet on this path bears.
    pub fn next_number(&self) -> u64 {
        self.sent.next_number()
    }

    /// A packet goes out under [`next_number`](Flight::next_number). `eliciting`: the peer is to answer it, so that it
    /// counts against the window.
    pub(super) fn on_sent(
        &mut self,
        now: Time,
        datagram_bytes: usize,
        contents: &[Content],
        eliciting: bool,
    ) {
        let idle = self.sent.in_flight_packets() == 0;
        let delivery = self.sampler.at_send(now, idle);
        self.sent
            .push(now, datagram_bytes, contents, eliciting, delivery);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += datagram_bytes as u64;
        self.stats.content_packets_sent += u64::from(!contents.is_empty());
        if let Some(pace) = &mut self.pace {
            pace.on_sent(datagram_bytes);
        }
        // Questions of liveness are bounded otherwise: while hardly anything goes, content would never pay for them.
        let counts = self.backoff.is_none() || !contents.is_empty();
        if let Some(bucket) = self.bucket.as_mut().filter(|_| counts) {
            bucket.on_sent(datagram_bytes);
        }
        if eliciting {
            self.congestion.on_sent(now, self.sent.in_flight_bytes());
        }
    }

    /// Whether a packet of the largest size may be sent now: the one gate. Whatever is to be acknowledged asks here
    /// first, but for what liveness needs (probes, verdicts and their answers), which has limits of its own
    /// ([`poll_control`](super::Path::poll_control)). Small packets once passed without asking: a sender of small things,
    /// one by one, then had no window at all. What is small or urgent passes others in their queue instead.
    pub fn has_room(&self) -> bool {
        self.room_bytes() >= self.mtu_bytes() as u64
    }

    /// How many more bytes may be sent now: what the window and the peer's grant leave.
    pub fn room_bytes(&self) -> u64 {
        if self.sent.is_full() {
            return 0;
        }
        let in_flight = self.sent.in_flight_bytes();
        let packet = self.mtu_bytes() as u64;
        let most = self
            .backoff
            .map_or(u64::MAX, |b| b.packets() as u64 * packet);
        let window = self.window().min(most).max(packet);
        let Some(pace) = &self.pace else {
            let at_once = self.bucket.as_ref().map_or(u64::MAX, Bucket::room_bytes);
            return window.saturating_sub(in_flight).min(at_once);
        };
        let window = window.min(pace.window(self.rtt.base()));
        window.saturating_sub(in_flight).min(pace.room_bytes())
    }

    /// The peer is crowded and grants this much, in bytes per second; infinite: it only asks for
    /// [`take_waited`](Flight::take_waited).
    pub(super) fn on_grant(&mut self, now: Time, bytes_per_s: f64) {
        let packet_bytes = self.mtu.current();
        if self.pace.is_none() {
            self.rtt.take_back(now);
            self.rtt.set_ack_delay_max(ACK_DELAY_CROWDED);
        }
        let pace = self.pace.get_or_insert_with(|| Pace::new(now));
        let was_limited = pace.is_limited();
        pace.grant(now, bytes_per_s, packet_bytes);
        if pace.is_limited() && !was_limited {
            // What it did in the crush says nothing of the path.
            self.congestion.doubt();
        }
    }

    /// Counts what may be sent by now.
    pub(super) fn refill(&mut self, now: Time) {
        self.bucket = self.bucket_rate().map(|(rate, depth, burst)| {
            let mut bucket = self.bucket.unwrap_or(Bucket::full(now));
            bucket.set(rate, depth, burst);
            bucket.refill(now);
            bucket
        });
        if let Some(pace) = &mut self.pace {
            pace.refill(now);
            if pace.has_ended(now) {
                self.pace = None;
                self.rtt.set_ack_delay_max(ACK_DELAY_MAX);
            }
        }
    }

    /// What the bucket gets in bytes per second, how deep it is, and the least that goes at once, if there is to be one.
    fn bucket_rate(&self) -> Option<(f64, f64, f64)> {
        if let Some(backoff) = self.backoff.filter(|b| b.packets() < 1.0) {
            let packet = self.mtu.current() as f64;
            // No queue is longer. (The answer of a process that was stopped for seconds is no round trip.)
            let rtt = self.rtt.smoothed().min(self.rtt.base() + WAIT_MAX);
            let rate = backoff.packets() * packet / rtt.as_secs_f64();
            return Some((rate, packet, packet));
        }
        let far = self.rtt.is_far() && self.pace.is_none();
        let pace = self.congestion.pace(&self.rtt).filter(|_| far)?;
        // The least window may be in flight as it may on a near path: what a path carried while its link was full of others says
        // nothing of later.
        let least = (WINDOW_MIN_PACKETS * self.mtu.current() as u64) as f64;
        let rate = pace.rate.max(least / self.rtt.base().as_secs_f64());
        Some((rate, pace.depth.max(least), self.burst_bytes() as f64))
    }

    /// The window, as far as timeouts leave it.
    fn window(&self) -> u64 {
        // Half as much at each timeout (in the manner of RFC 5681, section 3.1): what is released is not to follow at once what
        // was lost. An answer opens the window again.
        self.congestion.window() >> self.timeouts.min(63)
    }

    /// Something was lost, the newest of it or of what arrived beside it `sent` at that time. If the window is at its least, that
    /// was too much.
    fn back_off(&mut self, now: Time, sent: Time) {
        let least = WINDOW_MIN_PACKETS * self.mtu.current() as u64;
        // Of a path that was never answered nothing is known; of one whose peer is crowded the peer says how much it may carry.
        let counts = self.rtt.is_known() && self.pace.is_none();
        let is_least = self.window() <= least && counts;
        match &mut self.backoff {
            Some(backoff) => backoff.on_lost(now, sent),
            None => self.backoff = is_least.then(|| Backoff::new(now)),
        }
    }

    /// When there will be room again, if there is none for the sake of a grant or of what goes at once.
    pub fn room_at(&self) -> Option<Time> {
        match &self.pace {
            Some(pace) => pace.room_at(),
            // Rounded up: a moment early there would be no room, and the next moment the same.
            None => Some(self.bucket.as_ref()?.room_at()? + Duration::from_micros(1)),
        }
    }

    /// How long packets wait in queues on their way, when the crowded peer is to be told.
    pub(super) fn take_waited(&mut self, now: Time) -> Option<Duration> {
        self.pace.as_mut()?.take_waited(now)
    }

    /// What the path is thought to be able to carry, in bytes per second, or what the peer grants, if that is less; at
    /// least a guess until it was given that much.
    pub fn rate(&self) -> f64 {
        let granted = self.pace.as_ref().map_or(f64::INFINITY, Pace::rate);
        self.congestion.hoped_rate().min(granted)
    }

    /// Whether [`rate`](Flight::rate) was seen while the path had as much to carry as it could, and no longer moves.
    pub fn rate_is_settled(&self) -> bool {
        self.congestion.rate_is_settled(&self.rtt)
    }

    /// What the path does to learn how fast it is.
    pub fn congestion_state(&self) -> CongestionState {
        self.congestion.state()
    }

    /// Share of packets lost lately, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        self.loss_ratio.get()
    }

    /// How much to hand over at once: what the link carries in half a millisecond, one packet to 64 KB.
    pub fn burst_bytes(&self) -> usize {
        self.congestion.burst_bytes()
    }

    /// How long what is carried in order waits, on average, for what is sent here: the way, a short queue, and, as
    /// often as something is lost, until that is noticed and was sent again over a path with the round trip `other`.
    pub fn lag(&self, other: Duration) -> Duration {
        let again = self.rtt.base() + self.reorder.window(self.rtt.smoothed()) + other;
        let packets_per_s = self.rate() / self.mtu.current() as f64;
        let lost_meanwhile = self.loss_ratio.get() * packets_per_s * again.as_secs_f64();
        let waiting = 1.0 - (-lost_meanwhile).exp();
        self.rtt.base() + QUEUE_TARGET + (again - self.rtt.base()).mul_f64(waiting)
    }

    /// What may arrive here at most, in bytes per second.
    pub fn goodput(&self) -> f64 {
        self.rate() * (1.0 - self.loss_ratio.get())
    }

    /// The least round trip: the way there and back without queues.
    pub const fn rtt_base(&self) -> Duration {
        self.rtt.base()
    }

    /// Packets of the largest size that fit into the congestion window.
    pub fn window_packets(&self) -> u32 {
        let packets = self.congestion.window() / self.mtu.current() as u64;
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// The largest datagram to use now.
    pub const fn mtu_bytes(&self) -> usize {
        self.mtu.current()
    }

    /// Whether only small packets pass.
    pub const fn is_narrow(&self) -> bool {
        self.mtu.is_narrow()
    }

    /// Expected time in microseconds until `bytes` more, sent now, would have arrived: the queue before them, the way,
    /// and what loss costs on average.
    pub fn delivery_us(&self, bytes: u64) -> f64 {
        let rate = self.rate();
        let way = self.rtt.base().as_secs_f64() / 2.0;
        let moving = rate * (way * 2.0 + self.rtt.back().as_secs_f64());
        let ahead = (self.sent.in_flight_bytes() as f64 - moving).max(0.0);
        let loss = self.loss_ratio.get().min(0.9);
        let again = self.rtt.smoothed() + self.reorder.window(self.rtt.smoothed());
        let penalty = loss / (1.0 - loss) * again.as_secs_f64();
        ((ahead + bytes as f64) / rate + way + penalty) * 1e6
    }

    /// Bytes sent and neither answered nor given up.
    pub const fn in_flight_bytes(&self) -> u64 {
        self.sent.in_flight_bytes()
    }

    // ---- acknowledgements from the peer ----

    /// The peer says what arrived, in a packet that came on path `via`. Content whose fate is decided by it is pushed to
    /// `fates`. `None`: nothing of it is news.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        ack: &Ack,
        via: LinkId,
        fates: &mut Vec<(Content, Fate)>,
    ) -> Option<Acked> {
        let mut tally = Tally {
            arrived: PeerTime { us: ack.arrived_us },
            ..Tally::default()
        };
        self.take_words(now, ack, &mut tally, fates);
        self.take_one(now, ack.largest, &mut tally, fates);
        self.sent.advance();
        let (number, newest) = tally.newest?;
        let queue = if number == ack.largest && ack.delay_us < u16::MAX {
            let delay = Duration::from_micros(u64::from(ack.delay_us));
            let trip = RoundTrip {
                rtt: now.since(newest.sent).saturating_sub(delay),
                sent: newest.sent,
                arrived_us: ack.arrived_us,
                via,
            };
            self.sample_rtt(now, &trip)
        } else {
            Duration::MAX
        };
        let is_newest = number >= self.acked_next;
        if is_newest {
            self.acked_next = number + 1;
            self.acked_sent = newest.sent;
        }
        let lost = self.detect_losses(now, fates);
        self.reorder.lost(now, lost.packets);
        self.loss_ratio.decided(tally.packets, lost.packets);
        self.adjust_window(now, &tally, number, &newest, queue, lost.packets);
        self.adjust_backoff(now, &tally, newest.sent, queue, lost.packets);
        self.stats.bytes_acked += tally.bytes;
        self.timeouts = 0;
        self.timeout_from = now;
        let others_wait = self.sent.wants_answer_from(self.acked_next);
        self.forget(now);
        Some(Acked {
            packets: tally.packets,
            bytes: tally.bytes,
            lost: lost.packets,
            sent: newest.sent,
            occasions: is_newest.then_some(newest.occasions),
            others_wait,
        })
    }

    /// Takes a round trip; returns how much of it was waiting on the way there.
    fn sample_rtt(&mut self, now: Time, trip: &RoundTrip) -> Duration {
        if self.pace.is_some() {
            self.rtt.keep_least(now);
        }
        let queue = self.rtt.sample_ack(now, trip);
        if let (Some(queue), Some(pace)) = (self.rtt.there_at_most(), &mut self.pace)
            && let Some(longer) = pace.on_waited(now, queue)
        {
            self.rtt.lengthen(now, longer);
        }
        queue
    }

    fn adjust_window(
        &mut self,
        now: Time,
        tally: &Tally,
        number: u64,
        newest: &SentPacket,
        queue: Duration,
        lost: u32,
    ) {
        let flight = self
            .sampler
            .delivered(now, tally.bytes, newest, tally.arrived);
        let train = self.sampler.train();
        // The train only counts if it tells something else: it is the less certain.
        let is_news = train > self.congestion.rate() * TRAIN_NEWS && self.rtt.is_far();
        let sample = AckSample {
            rate: if is_news { train } else { flight },
            bytes: tally.bytes,
            packets: tally.packets,
            queue,
            lost,
            number,
            sent: newest.sent,
            arrived: tally.arrived,
            next_number: self.sent.next_number(),
            loss_ratio: self.loss_ratio.get(),
            crowded: self.pace.is_some(),
            lost_after: self.reorder.window(self.rtt.smoothed()) + ACK_DELAY_MAX / 2,
        };
        if let Some(longer) = self.congestion.on_ack(now, &sample, &self.rtt) {
            self.rtt.lengthen(now, longer);
        }
    }

    fn adjust_backoff(&mut self, now: Time, tally: &Tally, sent: Time, queue: Duration, lost: u32) {
        let is_long = queue > QUEUE_TARGET && queue < Duration::MAX;
        if lost > 0 && is_long {
            self.back_off(now, sent);
        } else {
            let opens = |b: &mut Backoff| b.on_acked(tally.packets, queue);
            if self.backoff.take_if(opens).is_some() {
                self.bucket = None;
            }
        }
    }

    /// Takes the bitmap, oldest first, so that ranges grow in order.
    fn take_words(
        &mut self,
        now: Time,
        ack: &Ack,
        tally: &mut Tally,
        fates: &mut Vec<(Content, Fate)>,
    ) {
        let remembered = ack.largest.saturating_sub(self.sent.base());
        let count = (ack.word_count as usize)
            .min(ack.words.len())
            .min(remembered.div_ceil(64) as usize);
        for w in (0..count).rev() {
            let mut bits = ack.words[w];
            while bits != 0 {
                let bit = 63 - u64::from(bits.leading_zeros());
                bits &= !(1 << bit);
                let behind = 1 + 64 * w as u64 + bit;
                if let Some(number) = ack.largest.checked_sub(behind) {
                    self.take_one(now, number, tally, fates);
                }
            }
        }
    }

    fn take_one(
        &mut self,
        now: Time,
        number: u64,
        tally: &mut Tally,
        fates: &mut Vec<(Content, Fate)>,
    ) {
        let Some(packet) = self.sent.ack(number, fates) else {
            return;
        };
        if packet.state == State::Silent {
            return;
        }
        tally.packets += 1;
        tally.bytes += u64::from(packet.bytes);
        tally.newest = Some((number, packet));
        self.mtu.on_acked(packet.bytes as usize);
        match packet.state {
            State::Lost => self.reorder.loss_was_false(now, self.rtt.smoothed()),
            State::TimedOut => self.rtt.timeout_was_false(now.since(packet.sent)),
            _ => return,
        }
        self.loss_ratio.were_false(1);
        self.stats.packets_lost_falsely += 1;
    }

    /// Forgets what is decided, and what is lost and will not arrive any more.
    pub(super) fn forget(&mut self, now: Time) {
        self.sent.forget(now - LOST_KEPT);
    }

    // ---- loss and timers ----

    /// Gives up what was sent so long before something that arrived that it cannot be on its way (RFC 8985).
    fn detect_losses(&mut self, now: Time, fates: &mut Vec<(Content, Fate)>) -> Lost {
        let window = self.reorder.window(self.rtt.smoothed());
        let sent_by = self.acked_sent - window;
        let waited = self.rtt.recent_max() + window;
        let lost = self.sent.lose(
            self.acked_next,
            usize::MAX,
            GivenUp::Overtaken,
            |p| p.sent <= sent_by || now.since(p.sent) >= waited,
            fates,
        );
        self.count_lost(now, &lost);
        lost
    }

    fn count_lost(&mut self, now: Time, lost: &Lost) {
        self.stats.packets_lost += u64::from(lost.packets);
        self.stats.bytes_lost += lost.bytes;
        let largest = lost.largest_bytes as usize;
        let ratio = self.loss_ratio.get();
        if lost.packets > 0 && self.mtu.on_lost(now, lost.packets, largest, ratio) {
            self.congestion.set_packet_bytes(self.mtu.current());
        }
    }

    /// When packets before one that arrived are given up though nothing more is heard.
    fn loss_deadline(&self) -> Option<Time> {
        let (number, oldest) = self.sent.oldest()?;
        let window = self.reorder.window(self.rtt.smoothed());
        (number < self.acked_next).then(|| oldest.sent + (self.rtt.recent_max() + window))
    }

    /// When the silence after the newest packets is too long.
    fn probe_timeout(&self) -> Option<Time> {
        let (_, oldest) = self.sent.oldest()?;
        let most = if self.backoff.is_some() { 2 } else { 5 };
        let wait = self.rtt.patience() * (1 << self.timeouts.min(most));
        Some(oldest.sent.max(self.timeout_from) + wait)
    }

    /// When [`on_timeout`](Flight::on_timeout) has something to do.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let loss = self.loss_deadline();
        loss.into_iter().chain(self.probe_timeout()).min()
    }

    /// Gives up what is due. Returns whether the newest packets are overdue.
    pub(super) fn on_timeout(&mut self, now: Time, fates: &mut Vec<(Content, Fate)>) -> bool {
        if self.loss_deadline().is_some_and(|at| at <= now) {
            let lost = self.detect_losses(now, fates);
            self.loss_ratio.decided(0, lost.packets);
            self.congestion.on_lost(now, lost.packets, &self.rtt);
        }
        let is_overdue = self.probe_timeout().is_some_and(|at| at <= now);
        if is_overdue {
            self.on_probe_timeout(now, fates);
        }
        is_overdue
    }

    /// The newest packets are overdue: the content of the oldest is released.
    fn on_probe_timeout(&mut self, now: Time, fates: &mut Vec<(Content, Fate)>) {
        let count = (WINDOW_INITIAL_PACKETS as usize) << self.timeouts.min(8);
        let lost = self
            .sent
            .lose(u64::MAX, count, GivenUp::Overdue, |_| true, fates);
        self.count_lost(now, &lost);
        self.timeouts += 1;
        self.back_off(now, now);
        self.timeout_from = now;
        self.stats.probe_timeouts += 1;
    }

    /// Has everything that is in flight carried elsewhere; it may arrive nevertheless.
    pub(super) fn release(&mut self, fates: &mut Vec<(Content, Fate)>) {
        let lost = self
            .sent
            .lose(u64::MAX, usize::MAX, GivenUp::Released, |_| true, fates);
        self.stats.packets_lost += u64::from(lost.packets);
        self.stats.bytes_lost += lost.bytes;
    }

    /// Gives everything up that is in flight: the path has failed.
    pub(super) fn release_all(&mut self, fates: &mut Vec<(Content, Fate)>) {
        self.release(fates);
        self.timeouts = 0;
    }

    // ---- what liveness is judged by, and what it tells ----

    /// Round trips so far.
    pub(super) const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Occasions for an answer so far, and those up to the time `by`; see [`SentRing::occasions`].
    pub(super) fn occasions(&self, by: Time) -> (u64, u64) {
        (self.sent.occasions(), self.sent.occasions_by(by))
    }

    /// Whether anything in flight carries content.
    pub(super) fn carries_content(&self) -> bool {
        self.sent.carries_content()
    }

    /// A round trip that no acknowledgement showed, but a handshake or a probe that came back by way of `via`.
    pub(super) fn on_round_trip(&mut self, now: Time, rtt: Duration, via: LinkId) {
        self.rtt.sample(now, rtt, via);
    }

    /// The path works again: what is known is kept, but the window opens from the start.
    pub(super) fn restart(&mut self, now: Time) {
        self.congestion.restart(now);
        // What failed was not full of others.
        (self.backoff, self.bucket) = (None, None);
    }

    /// The path leads elsewhere: nothing measured holds any more.
    pub(super) fn measure_anew(&mut self, now: Time) {
        self.rtt = Rtt::new(now);
        self.congestion.restart(now);
    }

    /// Gives memory back if nothing is in flight, but for that of `kept` packets.
    pub(super) fn shrink(&mut self, kept: usize) {
        if self.sent.in_flight_packets() == 0 {
            self.sent.shrink(kept);
        }
    }

    // ---- the largest packet ----

    /// The link is perhaps another one: the largest packet is to be found anew.
    pub(super) fn set_link(&mut self, now: Time, config: &PathConfig) {
        let max = config.datagram_bytes_max.min(DATAGRAM_BYTES_MAX);
        self.mtu = Mtu::new(now, config.datagram_bytes_min, max);
        self.congestion.set_packet_bytes(self.mtu.current());
    }

    /// The path may lead elsewhere: larger packets are tried again.
    pub(super) const fn search_mtu_again(&mut self, now: Time) {
        self.mtu.search_again(now);
    }

    /// The size of the MTU probe to send now, if one is due, and what it is to bear: `token`, or that of the one it
    /// repeats.
    pub(super) fn poll_mtu(&mut self, now: Time, token: u32) -> Option<(usize, u32)> {
        let patience = self.rtt.patience();
        self.mtu.poll(now, token, patience, self.loss_ratio.get())
    }

    /// When an MTU probe is due or given up.
    pub(super) fn mtu_timeout(&self) -> Time {
        self.mtu.next_timeout()
    }

    /// A probe was answered. Returns whether it was one for the MTU.
    pub(super) fn on_mtu_reply(&mut self, now: Time, token: u32, datagram_bytes: usize) -> bool {
        let is_one = self.mtu.on_reply(now, token, datagram_bytes);
        if is_one {
            self.congestion.set_packet_bytes(self.mtu.current());
        }
        is_one
    }

    /// The kernel refused a datagram of this size as too long for the link.
    pub(super) fn on_refused(&mut self, now: Time, datagram_bytes: usize) {
        self.mtu.on_refused(now, datagram_bytes);
        self.congestion.set_packet_bytes(self.mtu.current());
    }

    // ---- what a trace tells ----

    /// Whether what becomes of packets is noted for [`drain_decided`](Flight::drain_decided).
    pub(super) fn note_decided(&mut self, on: bool) {
        self.sent.note_decided(on);
    }

    /// What became of which packet since it was last asked.
    pub(super) fn drain_decided(&mut self) -> impl Iterator<Item = (u64, Decided)> {
        self.sent.drain_decided()
    }

    /// What is measured now.
    pub fn metrics(&self) -> PathMetrics {
        let us = |duration: Duration| u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
        PathMetrics {
            window_bytes: self.window(),
            in_flight_bytes: self.sent.in_flight_bytes(),
            in_flight_packets: self.sent.in_flight_packets(),
            smoothed_rtt_us: match self.rtt.is_known() {
                true => us(self.rtt.smoothed()),
                false => 0,
            },
            rtt_variation_us: us(self.rtt.variation()),
            least_rtt_us: us(self.rtt.base()),
            latest_rtt_us: self.rtt.latest().map_or(0, us),
            rate_bytes_per_s: self.congestion.known_rate(),
            loss_ratio: self.loss_ratio.get(),
            probe_timeouts: self.timeouts,
        }
    }

    /// What the peer grants while many send to it, in bytes per second, if that limits this path.
    pub fn granted(&self) -> Option<f64> {
        let limited = self.pace.as_ref().filter(|pace| pace.is_limited());
        limited.map(Pace::rate)
    }

    /// What is known here of the path's figures.
    pub(super) fn stats(&self) -> PathStats {
        PathStats {
            rtt: self.rtt.is_known().then(|| self.rtt.smoothed()),
            rtt_variation: self.rtt.variation(),
            rtt_least: self.rtt.base(),
            capacity_bytes_per_s: self.congestion.known_rate(),
            capacity_is_proven: self.congestion.rate_is_proven(),
            granted_bytes_per_s: self.granted(),
            loss_ratio: self.loss_ratio.get(),
            mtu_bytes: self.mtu.current(),
            is_narrow: self.mtu.is_narrow(),
            window_bytes: self.congestion.window(),
            in_flight_bytes: self.sent.in_flight_bytes(),
            memory_bytes: self.sent.memory_bytes(),
            ..self.stats
        }
    }
}

/// Running sums over one acknowledgement.
#[derive(Default)]
struct Tally {
    packets: u32,
    bytes: u64,
    /// Highest number newly acknowledged of those that wanted it, and the packet.
    newest: Option<(u64, SentPacket)>,
    /// When the highest number arrived there.
    arrived: PeerTime,
}
