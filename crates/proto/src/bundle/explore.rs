//! A path is used if the bundle gains by it ([`super::schedule`]); the others, on standby, are tried now and then.
//!
//! A path on standby is given a *train*: copies of what goes over the others, as fast as its window lets them, so that
//! they fill no queue. On a far path a train fills the window: what is under way in a round trip is all that its rate can
//! be seen by. Trains follow soon on each other while something may change, and ever more rarely while nothing does.
//! Several paths take turns, one train at a time.
//!
//! A slow path's first packets after a rest may pass at once, out of what its link saved up meanwhile (a token bucket:
//! 128 KB and more). So a path that was slow is *doubted*: another rate is believed only after a whole train that is longer
//! than what is saved up.

use core::time::Duration;

use super::schedule::{Standby, StandbyPath};
use crate::limits::PATHS_MAX;
use crate::link::thresholds::RATE_PACKETS;
use crate::{LinkId, Time};

/// Packets of a train that shows a near path's rate, …
const TRAIN_PACKETS: u32 = RATE_PACKETS;
/// … of one that fills a far path's window at most, and of one that is longer than what a slow link saves up (a token bucket
/// of 128 KB).
const TRAIN_PACKETS_MAX: u32 = 128;
/// The first trains of a path follow soon on each other, for the estimate of a path that has just begun may be bad. Then
/// the pauses double …
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// … to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// When which path is explored, and what was found.
#[derive(Debug)]
pub(super) struct Explorer {
    /// When a train is due, of whichever path.
    next_at: Time,
    trains: [Trains; PATHS_MAX],
    under_way: Option<Train>,
    doubted: Doubted,
    /// What other paths were given since each was last given anything of its own, in bytes.
    given_others: [u64; PATHS_MAX],
}

/// What each path carried when it was slow, in bytes per second; infinite for a path that was not, or showed since that it
/// no longer is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubted([f64; PATHS_MAX]);

impl Doubted {
    const NONE: Doubted = Doubted([f64::INFINITY; PATHS_MAX]);

    /// The rate that is believed of a path that seems to carry `rate`, both in bytes per second.
    pub fn believed(&self, id: LinkId, rate: f64) -> f64 {
        rate.min(self.0[id.index()])
    }

    /// Whether a path was slow, and has not shown yet that it no longer is.
    pub fn has(&self, id: LinkId) -> bool {
        self.0[id.index()].is_finite()
    }
}

/// When one path is given its next train.
#[derive(Clone, Copy, Debug)]
struct Trains {
    next_at: Time,
    pause: Duration,
    /// Whether its last train was a trial, and has gone whole.
    passed_trial: bool,
}

/// A train under way.
#[derive(Clone, Copy, Debug)]
struct Train {
    path: LinkId,
    /// Packets that have not gone yet.
    packets: u32,
    /// Whether it shows that the path is no longer slow, if it seems so when it has gone.
    is_trial: bool,
}

impl Trains {
    const FIRST: Trains = Trains {
        next_at: Time::ZERO,
        pause: PAUSE_MIN,
        passed_trial: false,
    };
}

impl Explorer {
    pub fn new(now: Time) -> Explorer {
        Explorer {
            next_at: now,
            trains: [Trains::FIRST; PATHS_MAX],
            under_way: None,
            doubted: Doubted::NONE,
            given_others: [0; PATHS_MAX],
        }
    }

    /// Whether the next train is due: not before the last one has gone, or could not in
    /// all that time.
    pub fn is_due(&self, now: Time) -> bool {
        let has_gone = self.under_way.is_none_or(|train| train.packets == 0);
        now >= self.next_at && (has_gone || now >= self.next_at + PAUSE_MAX)
    }

    /// Paths that were slow and may still be.
    pub const fn doubted(&self) -> &Doubted {
        &self.doubted
    }

    /// A path is given `bytes` of its own to carry.
    pub fn on_content(&mut self, id: LinkId, bytes: usize) {
        for others in &mut self.given_others {
            *others = others.saturating_add(bytes as u64);
        }
        self.given_others[id.index()] = 0;
    }

    /// What other paths were given since this one was last given anything of its own, in bytes.
    pub const fn given_others_bytes(&self, id: LinkId) -> u64 {
        self.given_others[id.index()]
    }

    /// Begins a train on the path on standby that has waited longest, if it is due.
    pub fn begin(&mut self, now: Time, on_standby: &[StandbyPath]) {
        if let Some(train) = self.under_way.take() {
            self.trains[train.path.index()].passed_trial = train.is_trial && train.packets == 0;
        }
        self.next_at = now + PAUSE_MIN;
        for (i, trains) in self.trains.iter_mut().enumerate() {
            if !on_standby.iter().any(|path| path.id.index() == i) {
                *trains = Trains::FIRST;
            }
        }
        let due_at =
            |trains: &[Trains; PATHS_MAX], path: &StandbyPath| trains[path.id.index()].next_at;
        let next = on_standby
            .iter()
            .min_by_key(|path| due_at(&self.trains, path));
        let Some(path) = next else {
            return;
        };
        if due_at(&self.trains, path) <= now {
            self.explore(now, path);
        }
        let next = on_standby
            .iter()
            .map(|path| due_at(&self.trains, path))
            .min();
        self.next_at = next.unwrap_or(now).max(now + PAUSE_MIN);
    }

    /// Begins a train on this path.
    fn explore(&mut self, now: Time, path: &StandbyPath) {
        let trains = &mut self.trains[path.id.index()];
        let doubted = &mut self.doubted.0[path.id.index()];
        let full = path.window_packets.clamp(TRAIN_PACKETS, TRAIN_PACKETS_MAX);
        let later = (trains.pause * 2).min(PAUSE_MAX);
        let (packets, pause) = match path.why {
            Standby::Slow => {
                *doubted = path.rate;
                (full, later)
            }
            Standby::OnTrial if trains.passed_trial => {
                *doubted = f64::INFINITY;
                (full, PAUSE_MIN)
            }
            Standby::OnTrial => (TRAIN_PACKETS_MAX, PAUSE_MIN),
            Standby::Unsettled => (full, PAUSE_MIN),
            Standby::Late | Standby::NeverChosen => (full, PAUSE_MIN),
        };
        trains.pause = pause;
        trains.next_at = now + pause;
        self.under_way = Some(Train {
            path: path.id,
            packets,
            is_trial: path.why == Standby::OnTrial,
        });
    }

    /// The path that is to get a copy of the packet just made, if any; `has_room` is asked
    /// whether it takes one now.
    pub fn next_copy(&mut self, has_room: impl FnOnce(LinkId) -> bool) -> Option<LinkId> {
        let train = self.under_way.as_mut()?;
        if train.packets == 0 || !has_room(train.path) {
            return None;
        }
        train.packets -= 1;
        Some(train.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: LinkId = LinkId(1);

    /// The path is on standby, and its window is so many packets.
    const fn on_standby(why: Standby, window_packets: u32) -> [StandbyPath; 1] {
        [StandbyPath {
            id: PATH,
            why,
            rate: 1e6,
            window_packets,
        }]
    }

    fn train(explorer: &mut Explorer, now: &mut Time, why: Standby) -> usize {
        *now = explorer.next_at;
        explorer.begin(*now, &on_standby(why, 1));
        core::iter::from_fn(|| explorer.next_copy(|_| true)).count()
    }

    #[test]
    fn a_slow_path_is_tried_ever_more_rarely() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        let begins: Vec<Time> = (0..9)
            .map(|_| {
                assert_eq!(train(&mut explorer, &mut now, Standby::Slow), 8);
                now
            })
            .collect();
        assert_eq!(begins[1].since(begins[0]), PAUSE_MIN * 2);
        assert_eq!(begins[8].since(begins[7]), PAUSE_MAX);
    }

    #[test]
    fn a_train_fills_the_window_of_a_far_path() {
        for (window_packets, packets) in [(0, 8), (50, 50), (1000, 128)] {
            let mut explorer = Explorer::new(Time::ZERO);
            explorer.begin(Time::ZERO, &on_standby(Standby::Slow, window_packets));
            let copies = core::iter::from_fn(|| explorer.next_copy(|_| true));
            assert_eq!(copies.count(), packets);
        }
    }

    #[test]
    fn what_may_yet_become_faster_is_tried_soon_and_with_a_full_window() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        for _ in 0..9 {
            explorer.begin(now, &on_standby(Standby::Unsettled, 90));
            let copies = core::iter::from_fn(|| explorer.next_copy(|_| true));
            assert_eq!(copies.count(), 90);
            assert_eq!(explorer.next_at.since(now), PAUSE_MIN);
            now = explorer.next_at;
        }
        assert!(!explorer.doubted().has(PATH));
    }

    #[test]
    fn a_path_is_no_longer_slow_when_a_long_train_has_shown_it() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        train(&mut explorer, &mut now, Standby::Slow);
        assert_eq!(train(&mut explorer, &mut now, Standby::OnTrial), 128);
        assert!(explorer.doubted().has(PATH));
        assert_eq!(explorer.doubted().believed(PATH, 100e6), 1e6);
        train(&mut explorer, &mut now, Standby::OnTrial);
        assert_eq!(explorer.doubted().believed(PATH, 100e6), 100e6);
        assert!(!explorer.doubted().has(PATH));
    }

    #[test]
    fn a_path_that_only_seemed_fast_begins_its_trial_anew() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        train(&mut explorer, &mut now, Standby::Slow);
        train(&mut explorer, &mut now, Standby::OnTrial);
        assert_eq!(train(&mut explorer, &mut now, Standby::Slow), 8);
        train(&mut explorer, &mut now, Standby::OnTrial);
        assert!(explorer.doubted().has(PATH));
    }

    #[test]
    fn a_trial_that_was_broken_off_begins_anew() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        train(&mut explorer, &mut now, Standby::Slow);
        train(&mut explorer, &mut now, Standby::OnTrial);
        explorer.begin(now, &[]);
        now += PAUSE_MIN;
        train(&mut explorer, &mut now, Standby::OnTrial);
        assert!(explorer.doubted().has(PATH));
    }

    #[test]
    fn several_paths_on_standby_take_turns() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        let [late] = on_standby(Standby::Late, 32);
        let all = [LinkId(0), PATH, LinkId(3)].map(|id| StandbyPath { id, ..late });
        let mut explored = Vec::new();
        for _ in 0..6 {
            explorer.begin(now, &all);
            explored.extend(explorer.next_copy(|_| true));
            now = explorer.next_at;
        }
        assert_eq!(explored[..3], all.map(|path| path.id));
        assert_eq!(explored[3..], all.map(|path| path.id));
    }

    #[test]
    fn what_others_carried_is_counted_until_a_path_carries_something_itself() {
        let mut explorer = Explorer::new(Time::ZERO);
        explorer.on_content(LinkId(0), 1_000);
        explorer.on_content(LinkId(0), 1_000);
        assert_eq!(explorer.given_others_bytes(PATH), 2_000);
        assert_eq!(explorer.given_others_bytes(LinkId(0)), 0);
        explorer.on_content(PATH, 1);
        assert_eq!(explorer.given_others_bytes(PATH), 0);
    }

    #[test]
    fn a_train_waits_for_room_but_not_for_ever() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        explorer.begin(now, &on_standby(Standby::Slow, 1));
        assert_eq!(explorer.next_copy(|_| false), None);
        now += PAUSE_MIN * 2;
        assert!(!explorer.is_due(now));
        assert_eq!(explorer.next_copy(|_| true), Some(PATH));
        assert!(explorer.is_due(now + PAUSE_MAX));
    }
}
