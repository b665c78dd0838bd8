//! One path, as the bundle sees it: liveness, verdicts, MTU probes.

use core::time::Duration;

use super::liveness::{Counts, PathControl, PathEvent, PathState, Progress, Watch};
use super::mtu::Mtu;
use super::path::{Path, PathConfig};
use crate::Time;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::segment::{Content, Fate};
use crate::wire::{LinkVerdict, Witness};

/// Packets that a path which is asked at a quick pace keeps room for.
const SENT_KEPT: usize = 64;
/// Events kept for a driver that does not ask.
const EVENTS_MAX: usize = 16;

impl Path {
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
    pub fn on_proven(&mut self, now: Time, rtt: Option<Duration>) {
        self.liveness.prove();
        if let Some(rtt) = rtt {
            self.rtt.sample(now, rtt, self.id);
        }
        self.announce(now);
    }

    /// The peer's address on this path changed: nothing measured holds any more.
    pub fn on_new_address(&mut self, now: Time) {
        self.rtt = super::rtt::Rtt::new(now);
        self.congestion.restart(now);
        self.liveness.request_probe();
    }

    /// The link, once gone, is there again, perhaps another one: nothing measured holds any more. Numbers go on.
    pub fn on_new_link(&mut self, now: Time, config: &PathConfig) {
        self.on_new_address(now);
        let max = config.datagram_bytes_max.min(DATAGRAM_BYTES_MAX);
        self.mtu = Mtu::new(now, config.datagram_bytes_min, max);
        self.congestion.set_packet_bytes(self.mtu.current());
        self.liveness.on_link_back(now);
    }

    // ---- what is heard ----

    /// [`Record::Sent`](crate::wire::Record::Sent) about this path arrived on any path.
    pub fn on_peer_sent(&mut self, now: Time, next_number: u64) {
        self.peer_next = self.peer_next.max(next_number);
        if self.peer_next > self.received.next_number() && !self.liveness.is_down() {
            self.liveness.on_missing(now, &self.rtt);
        }
    }

    /// How long an answer can take here before it is missed.
    pub fn patience(&self) -> Duration {
        self.rtt.patience()
    }

    /// Another path of this bundle showed life. To be called for every path but the one that did.
    /// `patience`: how long an answer can take on that one ([`patience`](Path::patience)).
    pub fn on_others_progress(&mut self, now: Time, progress: Progress, patience: Duration) {
        let silent_since = self.liveness.on_others_progress(now, progress, patience);
        if let Some(silent_since) = silent_since {
            let before = self.sent.occasions_by(silent_since - self.rtt.patience());
            self.excused += self.sent.occasions() - before.max(self.acked_occasions);
        }
    }

    /// A packet sent here at the time `sent` was answered for the first time; whether newer ones still wait.
    pub(super) fn answered(&mut self, now: Time, sent: Time, others_wait: bool) {
        self.answered_sent = self.answered_sent.max(sent);
        self.liveness.on_progress(now, sent, others_wait, &self.rtt);
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
        self.liveness.ask_along(now, &self.rtt);
    }

    /// Whether a probe is due.
    pub fn is_probe_due(&self, now: Time) -> bool {
        self.liveness.probe_at(&self.rtt) <= now
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
        if self.mtu.on_reply(now, token, datagram_bytes) {
            self.congestion.set_packet_bytes(self.mtu.current());
            return true;
        }
        let Some(rtt) = self.liveness.probes.on_reply(now, token) else {
            return false;
        };
        self.rtt.sample(now, rtt, self.id);
        let answered = self.sent.occasions_by(now - rtt);
        self.acked_occasions = self.acked_occasions.max(answered);
        self.excused = 0;
        let others_wait = self.sent.occasions() > answered;
        self.answered(now, now - rtt, others_wait);
        if self.liveness.on_answered(now, others_work) {
            self.mtu.search_again(now);
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
        self.mtu.on_refused(now, datagram_bytes);
        self.congestion.set_packet_bytes(self.mtu.current());
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
            self.release_all(fates);
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
    pub(super) fn judge(&mut self, now: Time, fates: &mut Vec<(Content, Fate)>) {
        if self.liveness.judge_at(&self.rtt).is_none_or(|at| at > now) {
            return;
        }
        let old_enough = now - self.rtt.patience();
        let unanswered = self
            .sent
            .occasions_by(old_enough)
            .saturating_sub(self.acked_occasions + self.excused);
        let counts = Counts {
            unanswered,
            loss_ratio: self.loss_ratio.get(),
            content_waits: self.sent.carries_content(),
            peer_next: self.peer_next,
            received_next: self.received.next_number(),
        };
        if let Some(witness) = self.liveness.judge(now, &self.rtt, &counts) {
            self.fail(now, witness, fates);
        } else if !self.liveness.is_down() && self.liveness.stands_out(now, &counts) {
            self.release(fates);
        }
    }

    fn fail(&mut self, now: Time, witness: Witness, fates: &mut Vec<(Content, Fate)>) {
        self.liveness.fail(now, witness);
        self.release_all(fates);
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
            self.congestion.restart(now);
            PathEvent::Up { witness, at: now }
        } else {
            self.stats.failures += 1;
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
            self.liveness.on_probe_sent(now, token, &self.rtt);
            if self.sent.in_flight_packets() == 0 {
                self.sent.shrink(match self.liveness.is_idle() {
                    true => 0,
                    false => SENT_KEPT,
                });
            }
            return Some(PathControl::Probe {
                token,
                pad_to_bytes: 0,
            });
        }
        if self.state() != PathState::Up {
            return None;
        }
        let patience = self.rtt.patience();
        let ratio = self.loss_ratio.get();
        let pad_to_bytes = self.mtu.poll(now, token, patience, ratio)?;
        Some(PathControl::Probe {
            token,
            pad_to_bytes,
        })
    }

    /// When liveness or the MTU search has something to do; probes only if the path's socket is `open`.
    pub(super) fn live_timeout(&self, open: bool) -> Option<Time> {
        let probe = match open {
            true => self.liveness.probe_at(&self.rtt),
            false => Time::NEVER,
        };
        let verdict = self.liveness.own.say_at().unwrap_or(Time::NEVER);
        let judge = self.liveness.judge_at(&self.rtt).unwrap_or(Time::NEVER);
        let mtu = match self.state() {
            PathState::Up if open => self.mtu.next_timeout(),
            _ => Time::NEVER,
        };
        let first = probe.min(verdict).min(judge).min(mtu);
        (first != Time::NEVER).then_some(first)
    }
}
