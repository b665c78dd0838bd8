//! One path, as the bundle sees it: what is sent and received on it, and whether it is alive.

use std::collections::VecDeque;

use core::time::Duration;

use super::congestion::CongestionControl;
use super::flight::Flight;
use super::liveness::{Counts, Liveness, PathControl, PathEvent, PathState, Progress, Watch};
use super::received::Received;
use super::sent::Decided;
use super::stats::PathStats;
use super::thresholds::{ACK_DELAY_CROWDED, ACK_DELAY_MAX};
use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN};
use crate::segment::{Content, Fate};
use crate::wire::{Ack, LinkVerdict, Witness};
use crate::{LinkId, Time};

/// Packets that a path which is asked at a quick pace keeps room for.
const SENT_KEPT: usize = 64;
/// Events kept for a driver that does not ask.
const EVENTS_MAX: usize = 16;

/// What a path is told at its beginning.
#[derive(Clone, Copy, Debug)]
pub struct PathConfig {
    /// The peer's UDP receive buffer, in bytes: at most half of it is ever in flight.
    pub receive_buffer_bytes: u64,
    /// Datagram size that passes for certain.
    pub datagram_bytes_min: usize,
    /// Largest datagram that the interface passes: the upper end of the MTU search.
    pub datagram_bytes_max: usize,
    /// What decides how much may be in flight.
    pub congestion: CongestionControl,
}

impl Default for PathConfig {
    fn default() -> PathConfig {
        PathConfig {
            receive_buffer_bytes: 4 << 20,
            datagram_bytes_min: DATAGRAM_BYTES_MIN,
            datagram_bytes_max: DATAGRAM_BYTES_MAX,
            congestion: CongestionControl::default(),
        }
    }
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckResult {
    /// Packets that wanted it acknowledged for the first time. More than none: tell the other paths
    /// ([`Path::on_others_progress`]).
    pub packets_acked: u32,
    /// Bytes of them that were in flight or given up.
    pub bytes_acked: u64,
    /// Packets it showed to be lost.
    pub packets_lost: u32,
    /// Whether it speaks of packets never sent, and was ignored: the peer is broken.
    pub is_invalid: bool,
}

/// One path of a bundle.
#[derive(Debug)]
pub struct Path {
    id: LinkId,
    flight: Flight,
    received: Received,
    liveness: Liveness,
    /// Occasions for an answer up to the newest packet that was answered.
    acked_occasions: u64,
    /// When the newest packet was sent that was answered in any way.
    answered_sent: Time,
    /// Occasions since then whose silence means nothing, for all paths were silent together.
    excused: u64,
    /// The next number the peer will use, as it last said.
    peer_next: u64,
    events: VecDeque<PathEvent>,
    announced_up: Option<bool>,
    since: Time,
    counted: Counted,
}

/// What is counted here of the path's figures; the rest is counted in its [`Flight`].
#[derive(Debug, Default)]
struct Counted {
    packets_received: u64,
    bytes_received: u64,
    duplicates: u64,
    copies_left_out: u64,
    failures: u64,
}

impl Path {
    /// A path that nothing is known of yet. It asks for a probe at once.
    pub fn new(id: LinkId, now: Time, config: &PathConfig) -> Path {
        Path {
            id,
            flight: Flight::new(now, config),
            received: Received::new(),
            liveness: Liveness::new(now),
            acked_occasions: 0,
            answered_sent: Time::ZERO,
            excused: 0,
            peer_next: 0,
            events: VecDeque::new(),
            announced_up: None,
            since: now,
            counted: Counted::default(),
        }
    }

    /// The link, and so the network, this path is on.
    pub const fn id(&self) -> LinkId {
        self.id
    }

    /// What is sent here: how fast the path is, and how much it may be given now.
    pub const fn flight(&self) -> &Flight {
        &self.flight
    }

    // ---- sending ----

    /// A packet was handed over under [`next_number`](Flight::next_number). `ack_eliciting`: the peer is to answer it
    /// (content or an unpadded probe), so that it counts against the window and its silence is noticed.
    pub fn on_sent(
        &mut self,
        now: Time,
        datagram_bytes: usize,
        contents: &[Content],
        ack_eliciting: bool,
    ) {
        // Probes on a failed path are nobody's loss.
        let eliciting = ack_eliciting && (!self.liveness.is_down() || !contents.is_empty());
        self.flight
            .on_sent(now, datagram_bytes, contents, eliciting);
        if eliciting {
            let has_content = !contents.is_empty();
            self.liveness.on_sent(now, has_content, self.flight.rtt());
        }
    }

    /// A copy was to go here that there was no room for.
    pub const fn copy_left_out(&mut self) {
        self.counted.copies_left_out += 1;
    }

    /// The peer is crowded and grants this much, in bytes per second; infinite: it only asks for
    /// [`take_waited`](Path::take_waited).
    pub fn on_grant(&mut self, now: Time, bytes_per_s: f64) {
        self.flight.on_grant(now, bytes_per_s);
    }

    /// Counts what may be sent by now.
    pub fn refill(&mut self, now: Time) {
        self.flight.refill(now);
    }

    /// How long packets wait in queues on their way, when the crowded peer is to be told.
    pub fn take_waited(&mut self, now: Time) -> Option<Duration> {
        self.flight.take_waited(now)
    }

    // ---- acknowledgements from the peer ----

    /// The peer says what arrived, in a packet that came on this path itself. Content whose fate is decided by it is
    /// pushed to `fates`.
    pub fn on_ack(&mut self, now: Time, ack: &Ack, fates: &mut Vec<(Content, Fate)>) -> AckResult {
        self.on_ack_via(now, ack, self.id, fates)
    }

    /// [`on_ack`](Path::on_ack), in a packet that came on path `via`: round trips that end on different paths must
    /// not be compared with each other.
    pub fn on_ack_via(
        &mut self,
        now: Time,
        ack: &Ack,
        via: LinkId,
        fates: &mut Vec<(Content, Fate)>,
    ) -> AckResult {
        if ack.largest >= self.flight.next_number() {
            return AckResult {
                is_invalid: true,
                ..AckResult::default()
            };
        }
        let Some(acked) = self.flight.on_ack(now, ack, via, fates) else {
            return AckResult::default();
        };
        if let Some(occasions) = acked.occasions {
            self.acked_occasions = self.acked_occasions.max(occasions);
            self.excused = 0;
        }
        self.answered(now, acked.sent, acked.others_wait);
        AckResult {
            packets_acked: acked.packets,
            bytes_acked: acked.bytes,
            packets_lost: acked.lost,
            is_invalid: false,
        }
    }

    // ---- timers ----

    /// When [`on_timeout`](Path::on_timeout) or [`poll_control`](Path::poll_control) has something to do. The
    /// acknowledgement's own deadline is [`ack_deadline`](Path::ack_deadline).
    /// `open`: its socket takes datagrams.
    pub fn next_timeout(&self, open: bool) -> Option<Time> {
        let flight = self.flight.next_timeout();
        flight.into_iter().chain(self.live_timeout(open)).min()
    }

    /// Does what is due. All datagrams that have arrived must have been handled before.
    pub fn on_timeout(&mut self, now: Time, fates: &mut Vec<(Content, Fate)>) {
        if self.flight.on_timeout(now, fates) && !self.liveness.is_down() {
            self.liveness.on_overdue();
            self.liveness.request_probe();
        }
        self.judge(now, fates);
        self.flight.forget(now);
    }

    // ---- receiving ----

    /// This end is crowded and grants what the peer sends here, or no longer is.
    pub fn set_crowded(&mut self, crowded: bool) {
        self.received.set_delay_max(match crowded {
            true => ACK_DELAY_CROWDED,
            false => ACK_DELAY_MAX,
        });
    }

    /// Whether a packet of this number may be opened: neither seen before nor too old.
    pub fn may_accept(&self, number: u64) -> bool {
        self.received.may_accept(number)
    }

    /// Whether it is too old to tell whether it was seen before.
    pub fn is_too_old(&self, number: u64) -> bool {
        self.received.is_too_old(number)
    }

    /// Whether no packet of this number or a higher one has arrived.
    pub fn is_newest(&self, number: u64) -> bool {
        number >= self.received.next_number()
    }

    /// A packet was authenticated. Returns `false` if it is a duplicate and must be dropped.
    pub fn on_received(
        &mut self,
        now: Time,
        number: u64,
        datagram_bytes: usize,
        ack_eliciting: bool,
    ) -> bool {
        if !self.received.on_received(now, number, ack_eliciting) {
            self.counted.duplicates += 1;
            return false;
        }
        self.counted.packets_received += 1;
        self.counted.bytes_received += datagram_bytes as u64;
        let more_sent = self.peer_next > self.received.next_number();
        self.liveness.on_arrival(now, more_sent, self.flight.rtt());
        true
    }

    /// Whether something arrived that the peer wants acknowledged. Worth a look whenever a packet is built anyway.
    pub const fn ack_pending(&self) -> bool {
        self.received.ack_pending()
    }

    /// When an acknowledgement must go at the latest.
    pub const fn ack_deadline(&self) -> Option<Time> {
        self.received.ack_deadline()
    }

    /// The acknowledgement to send now, on any path, preferably this one.
    pub fn take_ack(&mut self, now: Time) -> Option<Ack> {
        self.received.take_ack(now, self.id.0)
    }

    /// Figures for the operator.
    pub fn stats(&self) -> PathStats {
        let flight = self.flight.stats();
        PathStats {
            packets_received: self.counted.packets_received,
            bytes_received: self.counted.bytes_received,
            duplicates: self.counted.duplicates,
            copies_left_out: self.counted.copies_left_out,
            probes_answered: self.liveness.probes.answered_ever(),
            probe_rtt: self.liveness.probes.last_rtt(),
            failures: self.counted.failures,
            memory_bytes: flight.memory_bytes + self.received.heap_bytes() + size_of::<Path>(),
            ..flight
        }
    }

    // ---- alive or not ----

    /// State by both ends' verdicts.
    pub fn state(&self) -> PathState {
        self.liveness.state()
    }

    /// When the last packet of the peer's came here, or the path began.
    pub fn last_heard(&self) -> Time {
        self.liveness.last_arrival()
    }

    /// Whether content may be scheduled here without hesitation. If no path of the bundle carries, a
    /// [`Suspect`](PathState::Suspect) one is to be used.
    pub fn carries(&self) -> bool {
        self.state() == PathState::Up
    }

    /// When the path last came up or failed (or began).
    pub const fn since(&self) -> Time {
        self.since
    }

    /// Who told the present state. [`Witness::Peer`] if only the peer says "down".
    pub fn witness(&self) -> Witness {
        if self.liveness.peer.is_down() && !self.liveness.own.is_down() {
            Witness::Peer
        } else {
            self.liveness.own.witness()
        }
    }

    /// What the peer's own verdict on this path rests on.
    pub const fn peer_witness(&self) -> Witness {
        self.liveness.peer.witness()
    }

    /// A handshake was just completed on this path: it works both ways. `rtt` as the handshake took.
    pub fn on_validated(&mut self, now: Time, rtt: Option<Duration>) {
        self.liveness.on_validated();
        if let Some(rtt) = rtt {
            self.flight.on_round_trip(now, rtt, self.id);
        }
        self.announce(now);
    }

    /// The peer's address on this path changed: nothing measured holds any more.
    pub fn on_new_address(&mut self, now: Time) {
        self.flight.measure_anew(now);
        self.liveness.request_probe();
    }

    /// The link, once gone, is there again, perhaps another one: nothing measured holds any more. Numbers go on.
    pub fn on_new_link(&mut self, now: Time, config: &PathConfig) {
        self.on_new_address(now);
        self.flight.set_link(now, config);
        self.liveness.on_link_back(now);
    }

    /// What the path leads through is another one now: nothing known of it holds any more. Numbers go on.
    pub fn begin_anew(&mut self, now: Time, config: &PathConfig, fates: &mut Vec<(Content, Fate)>) {
        self.flight.set_link(now, config);
        self.begin_again(now, fates);
    }

    /// The path was not used for a while, or will not be: what is in flight is carried elsewhere, and whether it works is
    /// to be seen anew. Numbers go on.
    pub fn begin_again(&mut self, now: Time, fates: &mut Vec<(Content, Fate)>) {
        self.flight.release_all(fates);
        self.flight.measure_anew(now);
        self.liveness.begin_again(now);
        self.acked_occasions = self.flight.occasions(now).0;
        self.excused = 0;
        self.announced_up = None;
        self.events.clear();
    }

    // ---- what a trace tells ----

    /// Whether what becomes of packets is noted for [`drain_decided`](Path::drain_decided).
    pub fn note_decided(&mut self, on: bool) {
        self.flight.note_decided(on);
    }

    /// What became of which packet since it was last asked.
    pub fn drain_decided(&mut self) -> impl Iterator<Item = (u64, Decided)> {
        self.flight.drain_decided()
    }

    /// This end's verdict and the peer's, and what told each.
    pub fn verdicts(&self) -> [(LinkVerdict, Witness); 2] {
        let verdict = |is_down| match is_down {
            true => LinkVerdict::Down,
            false => LinkVerdict::Up,
        };
        let (own, peer) = (&self.liveness.own, &self.liveness.peer);
        [
            (verdict(own.is_down()), own.witness()),
            (verdict(peer.is_down()), peer.witness()),
        ]
    }

    // ---- what is heard ----

    /// [`Record::Sent`](crate::wire::Record::Sent) about this path arrived on any path.
    pub fn on_peer_sent(&mut self, now: Time, next_number: u64) {
        self.peer_next = self.peer_next.max(next_number);
        if self.peer_next > self.received.next_number() && !self.liveness.is_down() {
            self.liveness.on_missing(now, self.flight.rtt());
        }
    }

    /// How long an answer can take here before it is missed.
    pub fn patience(&self) -> Duration {
        self.flight.rtt().patience()
    }

    /// Another path of this bundle showed life. To be called for every path but the one that did.
    /// `patience`: how long an answer can take on that one ([`patience`](Path::patience)).
    pub fn on_others_progress(&mut self, now: Time, progress: Progress, patience: Duration) {
        let rtt = self.flight.rtt();
        let silent_since = self
            .liveness
            .on_others_progress(now, progress, patience, rtt);
        if let Some(silent_since) = silent_since {
            let (all, before) = self.flight.occasions(silent_since - self.patience());
            self.excused += all - before.max(self.acked_occasions);
        }
    }

    /// A packet sent here at the time `sent` was answered for the first time; whether newer ones still wait.
    fn answered(&mut self, now: Time, sent: Time, others_wait: bool) {
        self.answered_sent = self.answered_sent.max(sent);
        self.liveness
            .on_progress(now, sent, others_wait, self.flight.rtt());
    }

    /// When the newest packet was sent here that was answered.
    pub const fn answered_sent(&self) -> Time {
        self.answered_sent
    }

    /// Whether this path is silent and nobody can tell if that is its own fault: the other paths should be probed
    /// ([`request_probe`](Path::request_probe)).
    pub fn lacks_comparison(&self, now: Time) -> bool {
        self.liveness.lacks_comparison(now)
    }

    /// Whether and how the path is watched from now on.
    pub const fn watch(&mut self, watch: Watch) {
        self.liveness.watch(watch);
    }

    /// Whether the other end is to ask whether the path works while it is idle, and this one only if that does not.
    pub const fn set_yields(&mut self, yields: bool) {
        self.liveness.set_yields(yields);
    }

    /// Whether no path to the peer works, and none has for long.
    pub fn set_away(&mut self, now: Time, away: bool) {
        self.liveness.set_away(now, away);
    }

    /// [`Record::Probe`](crate::wire::Record::Probe) arrived on this path.
    pub const fn on_probed(&mut self, now: Time) {
        self.liveness.on_probed(now);
    }

    /// A probe goes out on another path: if this one is watched or idle, it is probed along.
    pub fn ask_along(&mut self, now: Time) {
        self.liveness.ask_along(now, self.flight.rtt());
    }

    /// Whether a probe is due.
    pub fn is_probe_due(&self, now: Time) -> bool {
        self.liveness.probe_at(self.flight.rtt()) <= now
    }

    /// Asks for a probe at once (at most one per millisecond is sent).
    pub const fn request_probe(&mut self) {
        self.liveness.request_probe();
    }

    /// [`Record::ProbeReply`](crate::wire::Record::ProbeReply) arrived on this path; whether others work. Returns
    /// whether it was awaited: then tell the other paths ([`on_others_progress`](Path::on_others_progress),
    /// [`Progress::Acks`]).
    pub fn on_probe_reply(
        &mut self,
        now: Time,
        token: u32,
        datagram_bytes: usize,
        others_work: bool,
    ) -> bool {
        if self.flight.on_mtu_reply(now, token, datagram_bytes) {
            return true;
        }
        let Some(rtt) = self.liveness.probes.on_reply(now, token) else {
            return false;
        };
        self.flight.on_round_trip(now, rtt, self.id);
        let (all, answered) = self.flight.occasions(now - rtt);
        self.acked_occasions = self.acked_occasions.max(answered);
        self.excused = 0;
        self.answered(now, now - rtt, all > answered);
        if self.liveness.on_answered(now, others_work) {
            self.flight.search_mtu_again(now);
        }
        self.announce(now);
        true
    }

    /// The driver says whether the kernel considers the link usable.
    pub fn on_kernel(&mut self, now: Time, up: bool, fates: &mut Vec<(Content, Fate)>) {
        if up {
            self.liveness.on_link_back(now);
        } else if !self.liveness.own.is_down() {
            self.fail(now, Witness::KernelLink, fates);
        }
    }

    /// The kernel refused a datagram of this size as too long for the link.
    pub fn on_refused(&mut self, now: Time, datagram_bytes: usize) {
        self.flight.on_refused(now, datagram_bytes);
    }

    /// [`Record::LinkState`](crate::wire::Record::LinkState) about this path arrived on any path. Always to be
    /// confirmed, with the generation it bore.
    pub fn on_peer_verdict(
        &mut self,
        now: Time,
        generation: u32,
        verdict: LinkVerdict,
        witness: Witness,
        fates: &mut Vec<(Content, Fate)>,
    ) {
        if !self.liveness.peer.hear(generation, verdict, witness) {
            return;
        }
        if verdict == LinkVerdict::Down {
            self.flight.release_all(fates);
        }
        self.liveness.on_change();
        self.announce(now);
    }

    /// [`Record::LinkStateAck`](crate::wire::Record::LinkStateAck) about this path arrived on any path.
    pub const fn on_link_state_ack(&mut self, generation: u32) {
        self.liveness.own.on_confirmed(generation);
    }

    // ---- judging ----

    /// Judges every silence that is due.
    fn judge(&mut self, now: Time, fates: &mut Vec<(Content, Fate)>) {
        if self
            .liveness
            .judge_at(self.flight.rtt())
            .is_none_or(|at| at > now)
        {
            return;
        }
        let (_, old_enough) = self.flight.occasions(now - self.patience());
        let unanswered = old_enough.saturating_sub(self.acked_occasions + self.excused);
        let counts = Counts {
            unanswered,
            loss_ratio: self.flight.loss_ratio(),
            content_waits: self.flight.carries_content(),
            peer_next: self.peer_next,
            received_next: self.received.next_number(),
        };
        if let Some(witness) = self.liveness.judge(now, self.flight.rtt(), &counts) {
            self.fail(now, witness, fates);
        } else if !self.liveness.is_down() && self.liveness.stands_out(now, &counts) {
            self.flight.release(fates);
        }
    }

    fn fail(&mut self, now: Time, witness: Witness, fates: &mut Vec<(Content, Fate)>) {
        self.liveness.fail(now, witness);
        self.flight.release_all(fates);
        self.announce(now);
    }

    /// Tells the application of a change of the state that both ends agree on.
    fn announce(&mut self, now: Time) {
        let up = match self.liveness.state() {
            PathState::Untested => return,
            PathState::Up | PathState::Suspect => true,
            PathState::Down => false,
        };
        if self.announced_up == Some(up) {
            return;
        }
        self.announced_up = Some(up);
        self.since = now;
        let witness = self.witness();
        let event = if up {
            self.flight.restart(now);
            PathEvent::Up { witness, at: now }
        } else {
            self.counted.failures += 1;
            PathEvent::Down { witness, at: now }
        };
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// What happened to the path, oldest first.
    pub fn poll_event(&mut self) -> Option<PathEvent> {
        self.events.pop_front()
    }

    // ---- what is to be said ----

    /// Control to be sent now; to be asked until it is `None`. What is returned counts as sent. `token` is random.
    /// `open`: the path's socket takes datagrams, so that it may be a probe.
    pub fn poll_control(&mut self, now: Time, token: u32, open: bool) -> Option<PathControl> {
        if let Some((generation, verdict, witness)) = self.liveness.poll_verdict(now) {
            return Some(PathControl::LinkState {
                generation,
                verdict,
                witness,
            });
        }
        if !open {
            return None;
        }
        if self.is_probe_due(now) {
            self.liveness.on_probe_sent(now, token, self.flight.rtt());
            self.flight.shrink(match self.liveness.is_idle() {
                true => 0,
                false => SENT_KEPT,
            });
            return Some(PathControl::Probe {
                token,
                pad_to_bytes: 0,
            });
        }
        if self.state() != PathState::Up {
            return None;
        }
        let (pad_to_bytes, token) = self.flight.poll_mtu(now, token)?;
        Some(PathControl::Probe {
            token,
            pad_to_bytes,
        })
    }

    /// Whether a probe is due to settle whether this path has failed, or another one.
    pub fn asks_in_doubt(&self, now: Time) -> bool {
        let is_in_doubt = match self.state() {
            PathState::Suspect => true,
            PathState::Up => self.liveness.is_probe_wanted(),
            PathState::Untested | PathState::Down => false,
        };
        is_in_doubt && self.is_probe_due(now)
    }

    /// It is not sent now, and due again as if it had been.
    pub const fn put_off_probe(&mut self, now: Time) {
        self.liveness.probes.put_off(now);
    }

    /// When liveness or the MTU search has something to do; probes only if the path's socket is `open`.
    fn live_timeout(&self, open: bool) -> Option<Time> {
        let probe = match open {
            true => self.liveness.probe_at(self.flight.rtt()),
            false => Time::NEVER,
        };
        let verdict = self.liveness.own.say_at().unwrap_or(Time::NEVER);
        let judge = self
            .liveness
            .judge_at(self.flight.rtt())
            .unwrap_or(Time::NEVER);
        let mtu = match self.state() {
            PathState::Up if open => self.flight.mtu_timeout(),
            _ => Time::NEVER,
        };
        let first = probe.min(verdict).min(judge).min(mtu);
        (first != Time::NEVER).then_some(first)
    }
}
