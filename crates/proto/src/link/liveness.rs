//! Whether a path is alive.
//!
//! Three silences are watched, each against the other paths' life:
//! - *unanswered*: what was sent is not acknowledged (witness: age);
//! - *missing*: what the peer says it sent does not arrive (witness: skew, paper 000 section 3.3.3);
//! - *unprobed*: probes bring nothing back on this path (a path that works one way only).
//!
//! A silence makes the path suspect first: it is probed at a quick pace and
//! given nothing new. After half of the silence that fails it, what it carries
//! is carried elsewhere, too. It fails when the silence stands out for long
//! enough and enough packets were lost in a row that chance is ruled out.

use core::time::Duration;

use super::agreement::{OwnVerdict, PeerVerdict};
use super::evidence::Silence;
use super::probes::Probes;
use super::rtt::Rtt;
use super::thresholds as t;
use crate::Time;
use crate::wire::{LinkVerdict, Witness};

/// State of a path: both ends' verdicts together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PathState {
    /// Never answered yet.
    Untested,
    /// Works.
    Up,
    /// Silent for longer than usual: it is probed, and carries nothing new while another path does.
    Suspect,
    /// Failed: only probes go there.
    Down,
}

/// A path failed or came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathEvent {
    /// It carries (again).
    Up {
        /// Who noticed.
        witness: Witness,
        /// When.
        at: Time,
    },
    /// It failed.
    Down {
        /// Who noticed.
        witness: Witness,
        /// When.
        at: Time,
    },
}

/// Whether others than the bundle have packets on a path, so that it is to be asked as if it were
/// under load though nothing is carried on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// Nobody has.
    None,
    /// This end asks.
    Asks,
    /// The other end asks; this one only if that does not.
    IsAsked,
}

/// What a path wants sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathControl {
    /// A probe, on this path and alone in its packet.
    Probe {
        /// To be repeated in the answer.
        token: u32,
        /// Pad the datagram to this length: an MTU probe, to be recorded as not eliciting. 0: no padding, eliciting.
        pad_to_bytes: usize,
    },
    /// [`Record::LinkState`](crate::wire::Record::LinkState), on this path and on one that carries.
    LinkState {
        /// Its generation.
        generation: u32,
        /// The verdict.
        verdict: LinkVerdict,
        /// What told it.
        witness: Witness,
    },
}

/// How another path of the bundle showed life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Packets sent on it up to this time were acknowledged for the first time.
    Acks(Time),
    /// Packets arrived on it.
    Arrivals,
}

/// Liveness of one path.
#[derive(Debug)]
pub struct Liveness {
    pub own: OwnVerdict,
    pub peer: PeerVerdict,
    pub probes: Probes,
    unanswered: Silence,
    missing: Silence,
    unprobed: Silence,
    /// Probes sent during the silence `unprobed`.
    unprobed_count: u32,
    /// Whether the path was ever answered (path validation, RFC 9000 section 8.2).
    validated: bool,
    /// A probe timeout passed without an answer.
    overdue: bool,
    /// A probe brought nothing back in time.
    unreturned: bool,
    last_arrival: Time,
    last_progress: Option<Time>,
    keepalive: Duration,
    watch: Watch,
    /// While the path is idle the other end asks.
    yields: bool,
    /// When the other end last sent a probe.
    probed_at: Time,
    untested_wait: Duration,
    suspect_probes: u32,
    /// Those of them since another path last showed life.
    lone_probes: u32,
    probe_wanted: bool,
    /// A probe goes out on another path, and one is to go out here with it.
    asked_along: bool,
    /// When own probing of a failed path began to be eager.
    eager_since: Time,
    /// No path to the peer works, and none has for long.
    away: bool,
    /// When probes on a failed path began to be answered.
    answered_since: Option<Time>,
    returned_at: Option<Time>,
    /// How many returns in a row failed at once.
    flaps: u32,
}

impl Liveness {
    pub fn new(now: Time) -> Liveness {
        Liveness {
            own: OwnVerdict::new(),
            peer: PeerVerdict::new(),
            probes: Probes::default(),
            unanswered: Silence::default(),
            missing: Silence::default(),
            unprobed: Silence::default(),
            unprobed_count: 0,
            validated: false,
            overdue: false,
            unreturned: false,
            last_arrival: now,
            last_progress: None,
            keepalive: t::KEEPALIVE,
            watch: Watch::None,
            yields: false,
            probed_at: Time::ZERO,
            untested_wait: t::REPEAT,
            suspect_probes: 0,
            lone_probes: 0,
            probe_wanted: false,
            asked_along: false,
            eager_since: now,
            away: false,
            answered_since: None,
            returned_at: None,
            flaps: 0,
        }
    }

    /// Whether the path works is to be seen anew: no silence counts, and no answer.
    pub fn begin_again(&mut self, now: Time) {
        let (watch, yields, away) = (self.watch, self.yields, self.away);
        let mut new = Liveness::new(now);
        core::mem::swap(&mut new.own, &mut self.own);
        core::mem::swap(&mut new.peer, &mut self.peer);
        if new.own.is_down() {
            new.own
                .change(now, LinkVerdict::Up, Witness::ProbesAnswered);
        }
        *self = Liveness {
            watch,
            yields,
            away,
            ..new
        };
    }

    pub fn state(&self) -> PathState {
        if self.own.is_down() || self.peer.is_down() {
            PathState::Down
        } else if !self.validated {
            PathState::Untested
        } else if self.overdue || self.unreturned || self.missing.half_way().is_some() {
            PathState::Suspect
        } else {
            PathState::Up
        }
    }

    pub fn is_down(&self) -> bool {
        self.own.is_down() || self.peer.is_down()
    }

    /// When something came, or the path began.
    pub const fn last_arrival(&self) -> Time {
        self.last_arrival
    }

    /// A handshake on the path validated it.
    pub const fn on_validated(&mut self) {
        self.validated = true;
    }

    // ---- what happens on the path ----

    /// A packet that wants an answer was sent.
    pub fn on_sent(&mut self, now: Time, with_content: bool, rtt: &Rtt) {
        if with_content {
            self.keepalive = t::KEEPALIVE;
        }
        if self.unanswered.since().is_none() {
            let at = self.last_progress;
            let busy = self.is_watched() || at.is_some_and(|at| now.since(at) <= t::SILENCE_BUSY);
            self.unanswered.begin(now, busy, rtt.silence());
        }
    }

    /// Packets sent up to the time `sent` were acknowledged for the first time; whether newer ones still wait.
    pub fn on_progress(&mut self, now: Time, sent: Time, others_wait: bool, rtt: &Rtt) {
        self.last_progress = Some(now);
        self.on_peer_answered(now, sent, rtt.patience());
        self.overdue = false;
        self.unanswered.end();
        if others_wait && !self.is_down() {
            self.unanswered.begin(now, true, rtt.silence());
        }
    }

    /// A packet arrived; whether the peer is known to have sent later ones.
    pub fn on_arrival(&mut self, now: Time, more_sent: bool, rtt: &Rtt) {
        self.last_arrival = now;
        self.unreturned = false;
        self.unprobed.end();
        self.missing.end();
        if more_sent && !self.is_down() {
            self.missing.begin(now, true, rtt.silence());
        }
    }

    /// The peer says that it sent packets which have not arrived.
    pub fn on_missing(&mut self, now: Time, rtt: &Rtt) {
        if self.missing.since().is_none() {
            let busy = now.since(self.last_arrival) <= t::SILENCE_BUSY;
            self.missing.begin(now, busy, rtt.silence());
        }
    }

    /// Another path, on which an answer takes up to `patience`, showed life. Returns since when, if what was sent on
    /// this one then is not to be counted as unanswered: all paths were silent together.
    pub fn on_others_progress(
        &mut self,
        now: Time,
        progress: Progress,
        patience: Duration,
        rtt: &Rtt,
    ) -> Option<Time> {
        // While others answer, this one is asked at a quick pace, so that it can be told from them.
        self.lone_probes = 0;
        match progress {
            Progress::Acks(sent) => {
                // What was answered on this path, by way of another, may have been sent earlier by so much.
                self.on_peer_answered(now, sent, patience.max(rtt.patience()));
                self.unanswered.others_progress(now, now, patience)
            }
            Progress::Arrivals => {
                self.missing.others_progress(now, now, patience);
                None
            }
        }
    }

    /// The peer answered, on any path, what was sent on one at the time `sent`: then it could have answered a probe as
    /// well. That something comes from it does not say so: it may have stood in a queue while the peer's process had
    /// no processor, and there be more in the queue of one path than in that of another.
    fn on_peer_answered(&mut self, now: Time, sent: Time, patience: Duration) {
        if self.unprobed.others_progress(now, sent, patience).is_some() {
            self.unprobed_count = 0;
        }
    }

    /// A probe timeout passed.
    pub const fn on_overdue(&mut self) {
        self.overdue = true;
    }

    /// Whether a silence cannot be judged for want of life on other paths.
    pub fn lacks_comparison(&self, now: Time) -> bool {
        self.state() == PathState::Suspect
            && (self.unanswered.lacks_comparison(now) || self.unprobed.lacks_comparison(now))
    }

    // ---- judging ----

    /// Whether the path has failed, and who says so. `unanswered` and `missing` count packets in a row.
    pub fn judge(&mut self, now: Time, rtt: &Rtt, counts: &Counts) -> Option<Witness> {
        if self.is_down() || !self.validated {
            return None;
        }
        if self.unreturned_at(rtt).is_some_and(|at| at <= now) {
            self.unreturned = true;
        }
        let least = rtt.silence();
        let needed = u64::from(t::unanswered_packets(counts.loss_ratio));
        let silent =
            self.unanswered.check(now, least, counts.peer_next) && self.stands_out(now, counts);
        if silent && counts.unanswered >= needed {
            return Some(match counts.content_waits {
                true => Witness::UnackedAge,
                false => Witness::ProbeTimeout,
            });
        }
        if self.missing.check(now, least, counts.peer_next) {
            let known = self.missing.half_way().unwrap_or(0);
            if known.saturating_sub(counts.received_next) >= u64::from(t::missing_packets()) {
                return Some(Witness::ArrivalSkew);
            }
            self.missing.recount(now, least, counts.peer_next);
        }
        let enough = t::unanswered_probes(counts.loss_ratio);
        if self.unprobed.check(now, least, 0) && self.unprobed_count >= enough {
            return Some(Witness::ProbeTimeout);
        }
        // Without comparison it takes longer.
        let long = |silence: &Silence| {
            let since = silence.since();
            since.is_some_and(|since| now.since(since) >= t::SILENCE_ALONE.max(least * 4))
        };
        let alone = long(&self.unanswered) || long(&self.unprobed);
        let since = self.unanswered.since();
        let asked = u64::from(self.suspect_probes) >= needed;
        let in_vain = since.is_some_and(|since| now.since(since) >= t::PEER_SILENT_MAX) && asked;
        (in_vain || alone && self.unprobed_count >= enough).then_some(Witness::ProbeTimeout)
    }

    /// Whether what was sent goes unanswered while others are answered, for at least half as long as fails the path:
    /// what it carries had better not wait for the other half. Chance is not ruled out; then a window's worth is
    /// carried twice.
    pub fn stands_out(&self, now: Time, counts: &Counts) -> bool {
        let half_way = self.unanswered.half_way().is_some();
        half_way && self.overdue && !self.may_wait_in_queue(now, counts)
    }

    /// Whether answers may merely stand in the peer's queue: packets come from there, and what the peer had sent here
    /// when half of the silence had passed has not all arrived. (The peer tells that in acknowledgements on other paths,
    /// every 3 ms; every 1 ms took 2% of 40 Mb/s shared by eight.) The round trip as last measured may be from before
    /// that queue was. What the peer sends to others stands there too, and is not known here: where only probes wait for
    /// an answer, there is time for that.
    fn may_wait_in_queue(&self, now: Time, counts: &Counts) -> bool {
        let since = self.unanswered.since();
        let young = since.is_some_and(|since| now.since(since) < t::SILENCE_HEARD);
        let queued = self.unanswered.half_way() > Some(counts.received_next);
        young
            && (queued || !counts.content_waits)
            && now.since(self.last_arrival) <= t::SILENCE_BUSY
    }

    /// This end's verdict becomes "down".
    pub fn fail(&mut self, now: Time, witness: Witness) {
        self.own.change(now, LinkVerdict::Down, witness);
        if let Some(at) = self.returned_at {
            let lived = now.since(at);
            if lived < t::FLAP {
                self.flaps = (self.flaps + 1).min(t::FLAPS_MAX);
            } else {
                let healed = (lived.as_millis() / t::FLAP.as_millis()) as u32;
                self.flaps = self.flaps.saturating_sub(healed);
            }
        }
        self.eager_since = now;
        self.on_change();
    }

    /// The path failed or came back by anyone's verdict: no silence counts any more.
    pub fn on_change(&mut self) {
        self.unanswered.end();
        self.missing.end();
        self.unprobed.end();
        self.overdue = false;
        self.unreturned = false;
        self.suspect_probes = 0;
        self.lone_probes = 0;
        self.answered_since = None;
        self.probes.clear();
    }

    /// How long probes must be answered before a failed path returns. Where no other works, a
    /// path that will fail again is better than none.
    fn hold(&self, others_work: bool) -> Duration {
        if !others_work {
            return t::RETURN_HOLD;
        }
        t::RETURN_HOLD * (1 << self.flaps)
    }

    /// A probe was answered; whether other paths of the bundle work. Returns whether this end's
    /// verdict becomes "up".
    pub fn on_answered(&mut self, now: Time, others_work: bool) -> bool {
        self.validated = true;
        self.suspect_probes = 0;
        self.lone_probes = 0;
        if !self.own.is_down() {
            return false;
        }
        let since = *self.answered_since.get_or_insert(now);
        if self.probes.answered() < t::RETURN_PROBES || now.since(since) < self.hold(others_work) {
            return false;
        }
        self.returned_at = Some(now);
        self.own
            .change(now, LinkVerdict::Up, Witness::ProbesAnswered);
        self.answered_since = None;
        self.keepalive = t::KEEPALIVE;
        true
    }

    /// The kernel says that the link is there again.
    pub const fn on_link_back(&mut self, now: Time) {
        self.eager_since = now;
        self.probe_wanted = true;
    }

    // ---- probing ----

    /// Whether one was asked for.
    pub const fn is_probe_wanted(&self) -> bool {
        self.probe_wanted
    }

    /// Asks for a probe soon, unless one was just sent.
    pub const fn request_probe(&mut self) {
        self.probe_wanted = true;
    }

    /// Whether no path to the peer works, and none has for long.
    pub fn set_away(&mut self, now: Time, away: bool) {
        if core::mem::replace(&mut self.away, away) && !away {
            self.own.hasten(now);
        }
    }

    /// This end's verdict if it is to be said now: generation, verdict, witness. To a peer that is away it is said
    /// ever more rarely.
    pub fn poll_verdict(&mut self, now: Time) -> Option<(u32, LinkVerdict, Witness)> {
        self.own.poll(
            now,
            match self.away {
                true => t::ABSENCE_MAX,
                false => t::REPEAT_MAX,
            },
        )
    }

    /// Whether the other end is to ask while the path is idle.
    pub const fn set_yields(&mut self, yields: bool) {
        self.yields = yields;
    }

    /// Whether the path has carried nothing for a while.
    pub fn is_idle(&self) -> bool {
        self.keepalive >= t::KEEPALIVE_IDLE && !self.is_watched()
    }

    /// Whether and how the path is watched from now on.
    pub const fn watch(&mut self, watch: Watch) {
        self.watch = watch;
    }

    fn is_watched(&self) -> bool {
        self.watch != Watch::None
    }

    /// The other end sent a probe.
    pub const fn on_probed(&mut self, now: Time) {
        self.probed_at = now;
    }

    /// A probe goes out on another path just now: a path that is watched or idle is asked along if it
    /// soon would be anyway, for the processes at both ends are awake then.
    pub fn ask_along(&mut self, now: Time, rtt: &Rtt) {
        let soon = match self.is_watched() {
            true => t::KEEPALIVE_WATCHED / 2,
            false if self.is_idle() => self.keepalive / 4,
            false => return,
        };
        if self.state() == PathState::Up && self.probe_at(rtt) <= now + soon {
            self.asked_along = true;
        }
    }

    /// When a path that works is asked again; it was last asked at the time `last`.
    fn keepalive_at(&self, last: Time) -> Time {
        // What only arrives says nothing of the way there.
        let answered = last.max(self.last_progress.unwrap_or(last));
        match self.watch {
            // One end suffices; this one asks if the other has not for longer than that waits.
            Watch::None if self.yields && self.is_idle() => {
                answered.max(self.probed_at + self.keepalive / 2) + self.keepalive
            }
            Watch::None => answered + self.keepalive,
            Watch::Asks => answered + t::KEEPALIVE_WATCHED,
            Watch::IsAsked => {
                let unasked = self.probed_at + t::KEEPALIVE_UNASKED;
                unasked.max(answered + t::KEEPALIVE_WATCHED)
            }
        }
    }

    /// When the next probe is due.
    pub fn probe_at(&self, rtt: &Rtt) -> Time {
        let Some(last) = self.probes.last_sent() else {
            return Time::ZERO;
        };
        let at = match self.state() {
            PathState::Untested => last + self.untested_wait,
            PathState::Suspect => last + self.suspect_wait(rtt),
            PathState::Up => self.keepalive_at(last),
            PathState::Down if self.answered_since.is_some() => last + t::PROBE_RETURNING,
            PathState::Down if self.away => {
                let part = last.since(self.eager_since) / t::ABSENCE_PART;
                last + part.clamp(t::REPEAT_MAX, t::ABSENCE_MAX)
            }
            PathState::Down => last + t::REPEAT_MAX,
        };
        match self.probe_wanted || self.asked_along {
            // Sooner it cannot be answered.
            true => at.min(last + t::PROBE_SUSPECT.max(rtt.smoothed())),
            false => at,
        }
    }

    /// When the lack of anything back after a probe becomes suspicious.
    fn unreturned_at(&self, rtt: &Rtt) -> Option<Time> {
        let since = self.unprobed.since().filter(|_| !self.unreturned)?;
        Some(since + rtt.patience())
    }

    fn suspect_wait(&self, rtt: &Rtt) -> Duration {
        let pace = t::PROBE_SUSPECT.max(rtt.smoothed() / 8);
        let slower = self.lone_probes.saturating_sub(t::PROBE_SUSPECT_COUNT);
        (pace * (1 << slower.min(10))).min(t::REPEAT_MAX.max(pace))
    }

    /// A probe leaves now.
    pub fn on_probe_sent(&mut self, now: Time, token: u32, rtt: &Rtt) {
        match self.state() {
            PathState::Untested => {
                self.untested_wait = (self.untested_wait * 2).min(t::PROBE_UNTESTED_MAX);
            }
            PathState::Suspect => {
                self.suspect_probes += 1;
                self.lone_probes += 1;
            }
            PathState::Up => {
                self.suspect_probes = 0;
                self.lone_probes = 0;
                if !self.probe_wanted && !self.is_watched() {
                    self.keepalive = (self.keepalive * 2).min(t::RECHECK);
                }
            }
            PathState::Down => {}
        }
        self.probe_wanted = false;
        self.asked_along = false;
        self.probes.on_sent(now, token);
        if self.is_down() {
            if self.probes.answered() == 0 {
                self.answered_since = None;
            }
            return;
        }
        if self.unprobed.since().is_none() {
            let busy = self.is_watched() || now.since(self.last_arrival) <= t::SILENCE_BUSY;
            self.unprobed.begin(now, busy, rtt.silence());
            self.unprobed_count = 0;
        }
        self.unprobed_count += 1;
    }

    /// When a silence is to be judged next.
    pub fn judge_at(&self, rtt: &Rtt) -> Option<Time> {
        if self.is_down() || !self.validated {
            return None;
        }
        let silences = [&self.unanswered, &self.missing, &self.unprobed]
            .into_iter()
            .filter_map(Silence::check_at)
            .min();
        let unreturned = self.unreturned_at(rtt);
        silences.into_iter().chain(unreturned).min()
    }
}

/// What a silence is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Packets in a row that should have been answered and were not.
    pub unanswered: u64,
    /// Share of packets lost lately.
    pub loss_ratio: f64,
    /// Whether content is among what waits.
    pub content_waits: bool,
    /// The next number the peer will send, as last heard.
    pub peer_next: u64,
    /// One more than the highest number that arrived.
    pub received_next: u64,
}
