//! How much may be in flight: enough to keep the link busy and a short queue
//! before it, never less for random loss.
//!
//! window = rate × (least RTT + queue target + what answers wait on their way
//! back), in the manner of BBR's rate and Vegas's queue. On a LAN the queue target is many times the RTT, so that an
//! estimate that is too low raises itself within a round trip or two; on a long
//! path the target is a quarter of the RTT. While a process waits for its processor the link lives on the queue: the
//! target is as long as the wait, or one window for each wait would pass for the rate. Packets leave in bursts
//! of at most half a millisecond ([`Congestion::burst_bytes`]), and without a pacing timer, but on far paths
//! (`bucket.rs`).

use core::time::Duration;

use super::loss_cause::LossCause;
use super::rate::{AckAggregation, MaxRate, PeerTime, Settling};
use super::rtt::Rtt;
use super::thresholds::{
    ACK_DELAY_MAX, AGGREGATION_GAIN, BURST, BURST_BYTES_MAX, DRAIN_INTERVAL, DRAIN_PAUSE,
    HOPEFUL_ROUNDS, PERIOD_MIN, PERIOD_PACKETS, QUEUE_TARGET, QUEUE_TARGET_MAX, QUEUE_TARGET_MIN,
    QUEUE_TARGET_RATE, RATE_DOUBTED, RATE_INITIAL, RATE_INTERVAL_MIN, ROUND_LONG, ROUND_MIN,
    WINDOW_INITIAL_PACKETS, WINDOW_MIN_PACKETS,
};
use crate::Time;

/// What an acknowledgement says about the path's speed.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Packets newly acknowledged.
    pub packets: u32,
    /// Delivery rate in bytes per second.
    pub rate: f64,
    /// How long the newest packet waited in queues on the way there; `Duration::MAX` if that is not known.
    pub queue: Duration,
    /// Number of the newest packet acknowledged.
    pub number: u64,
    /// When it was sent.
    pub sent: Time,
    /// When it arrived there.
    pub arrived: PeerTime,
    /// The next number to be sent.
    pub next_number: u64,
    /// Packets newly found lost.
    pub lost: u32,
    /// Share of packets lost lately.
    pub loss_ratio: f64,
    /// Others send to the same port: a queue that stays is theirs.
    pub crowded: bool,
    /// How much longer than a round trip a lost packet counts as in flight.
    pub lost_after: Duration,
}

/// One round trip of judgement.
#[derive(Debug)]
struct Round {
    began: Time,
    /// It ends when a packet of this number or higher is acknowledged.
    ends_at: u64,
    /// Shortest wait in queues.
    queue: Duration,
    rate_at_start: f64,
    /// Whether the window was full all the time.
    limited: bool,
    /// Whether it was full at some time.
    filled: bool,
    /// Bytes that arrived, and those of them that had waited for longer than is aimed at.
    bytes: u64,
    bytes_late: u64,
}

impl Round {
    const fn new(now: Time, ends_at: u64, rate: f64) -> Round {
        Round {
            began: now,
            ends_at,
            queue: Duration::MAX,
            rate_at_start: rate,
            limited: true,
            filled: false,
            bytes: 0,
            bytes_late: 0,
        }
    }
}

/// A few milliseconds of arrivals: what the link does while its queue is long.
#[derive(Debug)]
struct BusyPeriod {
    began: Time,
    began_there: PeerTime,
    /// Last arrival that is counted.
    last: Time,
    last_there: PeerTime,
    bytes: u64,
    packets: u32,
    /// Shortest wait in queues.
    queue: Duration,
    limited: bool,
}

impl BusyPeriod {
    const fn new(now: Time, there: PeerTime) -> BusyPeriod {
        BusyPeriod {
            began: now,
            began_there: there,
            last: now,
            last_there: there,
            bytes: 0,
            packets: 0,
            queue: Duration::MAX,
            limited: true,
        }
    }
}

/// The window is cut for a moment so that the queue runs empty.
#[derive(Debug)]
struct Drain {
    /// What was sent since then met no queue of this path's own.
    unqueued_from: Time,
    ends_at: Time,
    /// Shortest wait of what was sent since.
    queue: Option<Duration>,
}

/// Congestion state of one path.
#[derive(Debug)]
pub struct Congestion {
    rate: MaxRate,
    settling: Settling,
    round: Round,
    window: u64,
    window_max: u64,
    packet: u64,
    /// The window is still doubling; how many rounds the rate has not grown, and the rate it must outgrow.
    startup: bool,
    rounds_without_growth: u8,
    rate_to_outgrow: f64,
    /// Rounds in which the window was full. A restart leaves them: what the path did before still counts.
    rounds_filled: u32,
    period: BusyPeriod,
    aggregation: AckAggregation,
    loss_cause: LossCause,
    /// When the window was last full: samples of packets sent before say what the link can do.
    window_full_at: Option<Time>,
    drain: Option<Drain>,
    queue_seen_empty: Time,
    drained_at: Time,
    /// The estimate when the queue was last known to be the path's own.
    rate_verified: f64,
}

impl Congestion {
    pub fn new(now: Time, packet_bytes: usize, window_max: u64) -> Congestion {
        let packet = packet_bytes as u64;
        let mut congestion = Congestion {
            rate: MaxRate::new(now),
            settling: Settling::default(),
            round: Round::new(now, 0, 0.0),
            window: 0,
            window_max,
            packet,
            startup: true,
            rounds_without_growth: 0,
            rate_to_outgrow: 0.0,
            rounds_filled: 0,
            period: BusyPeriod::new(now, PeerTime::default()),
            aggregation: AckAggregation::new(now),
            loss_cause: LossCause::new(now),
            window_full_at: None,
            drain: None,
            queue_seen_empty: now,
            drained_at: now,
            rate_verified: 0.0,
        };
        congestion.window = congestion.bounded(WINDOW_INITIAL_PACKETS * packet);
        congestion
    }

    /// The path's packets are of another size now.
    pub fn set_packet_bytes(&mut self, packet_bytes: usize) {
        self.packet = packet_bytes as u64;
        self.window = self.bounded(self.window);
    }

    /// The path begins anew (it was failed): what is known is kept, but the window opens from the start.
    pub fn restart(&mut self, now: Time) {
        self.begin_startup();
        self.period = BusyPeriod::new(now, self.period.last_there);
        self.drain = None;
        self.queue_seen_empty = now;
        self.window = self.bounded(WINDOW_INITIAL_PACKETS * self.packet);
    }

    /// What is known of the rate may be far too low.
    pub const fn doubt(&mut self) {
        self.begin_startup();
        self.rounds_filled = 0;
    }

    const fn begin_startup(&mut self) {
        self.startup = true;
        self.rounds_without_growth = 0;
        self.rate_to_outgrow = 0.0;
    }

    pub const fn window(&self) -> u64 {
        self.window
    }

    /// Delivery rate in bytes per second; a guess before the first sample.
    pub fn rate(&self) -> f64 {
        match self.rate.get() {
            r if r > 0.0 => r,
            _ => RATE_INITIAL,
        }
    }

    /// What the path may be able to do: at least a guess, while it was never given as much as it can carry.
    pub fn hoped_rate(&self) -> f64 {
        match self.rate_is_proven() {
            true => self.rate(),
            false => self.rate().max(RATE_INITIAL),
        }
    }

    /// Whether the rate is what the path can do: it was not app-limited, and takes no more than before, or was given all
    /// it takes often enough.
    pub const fn rate_is_proven(&self) -> bool {
        self.rate.is_proven() && (!self.startup || self.rounds_filled >= HOPEFUL_ROUNDS)
    }

    /// Whether the rate is what the path can do and, if it is far, has been for some rounds: of such a path a
    /// round trip only shows what was under way in it, and a burst that queues passes for a slow link.
    pub fn rate_is_settled(&self, rtt: &Rtt) -> bool {
        self.rate_is_proven() && (!rtt.is_far() || self.settling.is_settled())
    }

    /// Delivery rate in bytes per second; 0 before the first sample.
    pub const fn known_rate(&self) -> f64 {
        self.rate.get()
    }

    /// What may be sent in bytes per second, what chance takes included, once the start is over.
    pub fn rate_after_startup(&self) -> Option<f64> {
        let rate = self.rate.get() / (1.0 - self.loss_cause.chance());
        (rate > 0.0 && !self.startup).then_some(rate)
    }

    /// The queue aimed at, in bytes.
    pub fn queue_bytes(&self, rtt: &Rtt) -> f64 {
        self.rate() * self.queue_target(rtt).as_secs_f64()
    }

    /// How much to hand over at once.
    pub fn burst_bytes(&self) -> usize {
        let burst = self.rate() * BURST.as_secs_f64() * self.loss_cause.queue_scale();
        let burst = burst as usize;
        burst.clamp(self.packet as usize, BURST_BYTES_MAX)
    }

    /// Something was sent; `in_flight` includes it.
    pub fn on_sent(&mut self, now: Time, in_flight: u64) {
        if in_flight + self.burst_bytes() as u64 >= self.window {
            self.window_full_at = Some(now);
        }
    }

    /// Something arrived. Returns how much longer the way has become, if it has.
    pub fn on_ack(&mut self, now: Time, sample: &AckSample, rtt: &Rtt) -> Option<Duration> {
        let limited =
            self.drain.is_none() && self.window_full_at.is_some_and(|at| at >= sample.sent);
        if limited && self.rounds_filled == 0 {
            // What it carried until now said nothing of what it can.
            self.startup = true;
        }
        let rate = if self.startup {
            sample.rate
        } else {
            sample.rate.min(self.round.rate_at_start * 2.0)
        };
        self.rate.sample(now, rate, limited, rtt.smoothed());
        self.aggregation
            .acked(now, sample.bytes, sample.sent, rtt.base(), self.rate());
        self.round.queue = self.round.queue.min(sample.queue);
        self.round.limited &= limited;
        self.round.filled |= limited;
        self.round.bytes += sample.bytes;
        if sample.queue > self.queue_target(rtt) && sample.queue < Duration::MAX {
            self.round.bytes_late += sample.bytes;
        }
        let round_min = if self.startup {
            RATE_INTERVAL_MIN
        } else {
            ROUND_MIN
        };
        if sample.number >= self.round.ends_at && now.since(self.round.began) >= round_min {
            self.end_round(now, rtt);
            self.round = Round::new(now, sample.next_number, self.rate.get());
        }
        self.measure_period(now, sample, limited, rtt);
        let overflowed = self
            .loss_cause
            .decided(now, sample.packets, sample.lost, rtt.base());
        self.startup &= !overflowed;
        let longer = self.drain(now, sample, rtt);
        self.window = self.wanted(rtt, sample);
        longer
    }

    /// Packets were found lost without anything arriving.
    pub fn on_lost(&mut self, now: Time, packets: u32, rtt: &Rtt) {
        self.startup &= !self.loss_cause.decided(now, 0, packets, rtt.base());
    }

    fn end_round(&mut self, now: Time, rtt: &Rtt) {
        let queue = self.round.queue;
        let target = self.queue_target(rtt);
        if queue < target / 4 {
            self.queue_seen_empty = now;
        }
        self.rounds_filled += u32::from(self.round.filled);
        self.settling
            .end_round(self.rate.get(), self.round.limited, self.round.filled);
        if self.startup && self.round.limited && !self.loss_cause.is_testing() {
            self.judge_startup(queue, target);
        }
        // What comes in heaps leaves the window open in between, and the queue long all the same.
        let lasted = now.since(self.round.began);
        if lasted >= ROUND_LONG && self.round.bytes_late > self.round.bytes / 2 {
            self.startup = false;
        }
    }

    /// While the queue is long the link is busy, and what arrives is what it can do: no maximum, no waiting.
    fn measure_period(&mut self, now: Time, sample: &AckSample, limited: bool, rtt: &Rtt) {
        // After a pause of this process or the peer's, acknowledgements come in a heap: it ends with all of them.
        if now > self.period.last {
            self.judge_period(sample.next_number, rtt);
            // What arrives now waited for far less than nothing arrived: meanwhile the link was idle.
            if now.since(self.period.last) > sample.queue.saturating_add(PERIOD_MIN) {
                self.period = BusyPeriod::new(now, sample.arrived);
                self.period.limited = limited;
                return;
            }
        }
        self.period.last = now;
        self.period.last_there = sample.arrived;
        self.period.bytes += sample.bytes;
        self.period.packets += sample.packets;
        self.period.queue = self.period.queue.min(sample.queue);
        self.period.limited &= limited;
    }

    fn judge_period(&mut self, next_number: u64, rtt: &Rtt) {
        let now = self.period.last;
        let elapsed = now.since(self.period.began);
        if elapsed < PERIOD_MIN || self.period.packets < PERIOD_PACKETS {
            return;
        }
        let queue = self.period.queue;
        let target = self.queue_target(rtt);
        // An unknown queue is none.
        let is_long = queue > target + target / 2 + QUEUE_TARGET / 2 && queue < Duration::MAX;
        if self.period.limited && is_long {
            // Answers that wait longer and longer on their way back are no slowness of the way there; arrivals in a
            // heap, after a pause of the peer's, are none either.
            let there = self.period.last_there.since(self.period.began_there);
            let rate = self.period.bytes as f64 / elapsed.min(there).as_secs_f64();
            self.rate.lower(now, rate);
            self.round = Round::new(now, next_number, self.rate.get());
            self.startup = false;
        }
        self.period = BusyPeriod::new(now, self.period.last_there);
    }

    fn judge_startup(&mut self, queue: Duration, target: Duration) {
        let rate = self.rate.get();
        if rate >= self.rate_to_outgrow * 1.25 {
            self.rate_to_outgrow = rate;
            self.rounds_without_growth = 0;
        } else {
            self.rounds_without_growth += 1;
        }
        // An unknown queue is none.
        let queue_is_long = queue > target && queue < Duration::MAX;
        if self.rounds_without_growth >= 3 || queue_is_long {
            self.startup = false;
        }
    }

    /// Now and then, and when the estimate fell far, the window is cut for a moment: the path's own standing queue must
    /// not pass for distance, nor distance for a queue. Returns what is left of the queue then: it is distance.
    fn drain(&mut self, now: Time, sample: &AckSample, rtt: &Rtt) -> Option<Duration> {
        let rate = self.rate.get();
        self.rate_verified = self.rate_verified.max(rate);
        let target = self.queue_target(rtt);
        if sample.crowded {
            self.drain = None;
            self.queue_seen_empty = now;
            return None;
        }
        let Some(drain) = &mut self.drain else {
            let stale = now.since(self.queue_seen_empty) > DRAIN_INTERVAL + rtt.base() * 50;
            let doubted = rate < self.rate_verified * RATE_DOUBTED && sample.queue > target;
            if stale || (doubted && now.since(self.drained_at) > DRAIN_PAUSE) {
                let unqueued_from = now + rtt.smoothed();
                self.drain = Some(Drain {
                    unqueued_from,
                    ends_at: unqueued_from + rtt.base() + ROUND_MIN / 2,
                    queue: None,
                });
            }
            return None;
        };
        if sample.sent >= drain.unqueued_from && sample.queue < Duration::MAX {
            drain.queue = Some(drain.queue.map_or(sample.queue, |q| q.min(sample.queue)));
        }
        if now < drain.ends_at || (drain.queue.is_none() && now < drain.ends_at + DRAIN_PAUSE) {
            return None;
        }
        let left = drain.queue;
        self.drain = None;
        self.drained_at = now;
        self.queue_seen_empty = now;
        self.rate_verified = rate;
        let own = Duration::from_secs_f64((WINDOW_MIN_PACKETS * self.packet) as f64 / self.rate());
        left.filter(|&queue| queue > target / 2 + own)
    }

    /// The queue aimed at, as a time on the link. However much it is cut, it covers the time between answers.
    fn queue_target(&self, rtt: &Rtt) -> Duration {
        let rate = self.rate().max(1.0);
        let scale = (QUEUE_TARGET_RATE / rate).sqrt().sqrt();
        let usual = QUEUE_TARGET
            .mul_f64(scale)
            .clamp(QUEUE_TARGET_MIN, QUEUE_TARGET_MAX)
            .max(rtt.base() / 4);
        let aggregate_s = self.aggregation.largest_bytes() as f64 / rate;
        usual
            .max(self.aggregation.longest_wait().mul_f64(AGGREGATION_GAIN))
            .mul_f64(self.loss_cause.queue_scale())
            .max(usual.min(Duration::from_secs_f64(aggregate_s * AGGREGATION_GAIN)))
            .max(ACK_DELAY_MAX)
    }

    fn wanted(&self, rtt: &Rtt, sample: &AckSample) -> u64 {
        let rate = self.rate.get();
        if rate == 0.0 {
            return self.window;
        }
        // What chance takes behind the bottleneck is in flight as well.
        let startup = self.startup && !self.loss_cause.is_testing();
        let loss = match startup {
            true => sample.loss_ratio.min(0.5),
            false => self.loss_cause.chance(),
        };
        let sending = rate / (1.0 - loss);
        let base = rtt.base().as_secs_f64();
        if self.drain.is_some() {
            let window = (sending * base / 2.0) as u64;
            return window
                .min(self.window_max)
                .max(WINDOW_MIN_PACKETS * self.packet);
        }
        let gain = if startup { 2.0 } else { 1.0 };
        let time = base * gain
            + self.queue_target(rtt).as_secs_f64()
            + rtt.back().as_secs_f64()
            + loss * sample.lost_after.as_secs_f64();
        let window = (sending * time) as u64;
        if self.startup {
            self.bounded(window.max(WINDOW_INITIAL_PACKETS * self.packet))
        } else {
            self.bounded(window)
        }
    }

    fn bounded(&self, window: u64) -> u64 {
        let least = (WINDOW_MIN_PACKETS * self.packet).max(2 * self.burst_bytes() as u64);
        window.min(self.window_max).max(least)
    }
}
