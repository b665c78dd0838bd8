//! Paths on standby are given copies now and then, lest nobody notices that they
//! have become better.
//!
//! A slow path's first packets after a rest may pass at once, out of what its link
//! saved up meanwhile (a token bucket: 128 KB and more). So one that was slow and
//! seems fast is tried with longer and longer trains, until one is longer than that.
//! Copies go as fast as the path's window lets them, so that they fill no queue. On a
//! far path a train fills the window: what is under way in a round trip is all that its
//! rate can be seen by.
//!
//! Several paths on standby take turns, one train at a time.

use crate::link::thresholds::RATE_PACKETS;
use core::time::Duration;

use super::schedule::{Standby, StandbyPath};
use super::trials::Trials;
use crate::limits::PATHS_MAX;
use crate::{LinkId, Time};

/// Packets of a train that shows a near path's rate: …
const TRAIN_PACKETS: u32 = RATE_PACKETS;
/// … doubled on a path that seems no longer slow, up to this: more than a slow link saves up (a token bucket of 128 KB), …
pub(super) const TRAIN_PACKETS_MAX: u32 = 128;
/// A path on standby because it is late is tried often, so its trains are shorter.
const TRAIN_PACKETS_LATE: u32 = 32;
/// The first trains of a path follow soon on each other, for the estimate of a path that has just begun may be bad. Then
/// the pauses double …
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// … to this.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A path that got nothing while other paths carried this many bytes of bulk is never chosen.
const NEVER_CHOSEN_BYTES: u64 = 1 << 20;

/// When which path is explored.
#[derive(Debug)]
pub(super) struct Explorer {
    /// When a train is due, of whichever path.
    next_at: Time,
    trains: [Trains; PATHS_MAX],
    /// The path explored now, and how many packets it is still to be given.
    under_way: Option<(LinkId, u32)>,
    trials: Trials,
    /// What other paths were given since each was last given anything of its own, in bytes.
    given_others: [u64; PATHS_MAX],
}

/// When one path is given its next train, and how long that is.
#[derive(Clone, Copy, Debug)]
struct Trains {
    next_at: Time,
    pause: Duration,
    train: u32,
}

impl Trains {
    const FIRST: Trains = Trains {
        next_at: Time::ZERO,
        pause: PAUSE_MIN,
        train: TRAIN_PACKETS,
    };
}

impl Explorer {
    pub fn new(now: Time) -> Explorer {
        Explorer {
            next_at: now,
            trains: [Trains::FIRST; PATHS_MAX],
            under_way: None,
            trials: Trials::default(),
            given_others: [0; PATHS_MAX],
        }
    }

    /// Whether the next train is due: not before the last one has gone, or could not in
    /// all that time.
    pub fn is_due(&self, now: Time) -> bool {
        let has_gone = self.under_way.is_none_or(|(_, packets)| packets == 0);
        now >= self.next_at && (has_gone || now >= self.next_at + PAUSE_MAX)
    }

    /// Paths that were slow and may still be.
    pub const fn trials(&self) -> &Trials {
        &self.trials
    }

    /// A path is given `bytes` of its own to carry.
    pub fn on_content(&mut self, now: Time, id: LinkId, bytes: usize) {
        self.trials.carry(now, id, bytes);
        for others in &mut self.given_others {
            *others = others.saturating_add(bytes as u64);
        }
        self.given_others[id.index()] = 0;
    }

    /// Whether a path is given nothing of its own, though it may be.
    pub const fn is_never_chosen(&self, id: LinkId) -> bool {
        self.given_others[id.index()] > NEVER_CHOSEN_BYTES
    }

    /// Begins a train on the path on standby that has waited longest, if it is due.
    pub fn begin(&mut self, now: Time, on_standby: &[StandbyPath]) {
        self.trials.acquit();
        self.under_way = None;
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
        let up_to = |most| path.window_packets.clamp(TRAIN_PACKETS, most);
        (trains.train, trains.pause) = match path.why {
            Standby::Slow => {
                self.trials.begin(now, path.id, path.rate);
                (up_to(TRAIN_PACKETS_MAX), (trains.pause * 2).min(PAUSE_MAX))
            }
            Standby::OnTrial => {
                if trains.train == TRAIN_PACKETS_MAX {
                    self.trials.end(path.id);
                }
                ((trains.train * 2).min(TRAIN_PACKETS_MAX), PAUSE_MIN)
            }
            // With a full window: less would never show that it can do more.
            Standby::Unsettled => (up_to(TRAIN_PACKETS_MAX), PAUSE_MIN),
            Standby::Late | Standby::NeverChosen => (up_to(TRAIN_PACKETS_LATE), PAUSE_MIN),
        };
        trains.next_at = now + trains.pause;
        self.under_way = Some((path.id, trains.train));
    }

    /// The path that is to get a copy of the packet just made, if any; `has_room` is asked
    /// whether it takes one now.
    pub fn next_copy(&mut self, has_room: impl FnOnce(LinkId) -> bool) -> Option<LinkId> {
        let (path, packets) = self
            .under_way
            .as_mut()
            .filter(|(_, packets)| *packets > 0)?;
        if !has_room(*path) {
            return None;
        }
        *packets -= 1;
        Some(*path)
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
        assert!(!explorer.trials().is_on(PATH));
    }

    #[test]
    fn a_path_is_no_longer_slow_when_a_long_train_has_shown_it() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        train(&mut explorer, &mut now, Standby::Slow);
        for packets in [16, 32, 64, 128] {
            assert!(explorer.trials().is_on(PATH));
            assert_eq!(train(&mut explorer, &mut now, Standby::OnTrial), packets);
        }
        train(&mut explorer, &mut now, Standby::OnTrial);
        assert!(!explorer.trials().is_on(PATH));
    }

    #[test]
    fn a_path_that_only_seemed_fast_begins_its_trial_anew() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        train(&mut explorer, &mut now, Standby::Slow);
        train(&mut explorer, &mut now, Standby::OnTrial);
        assert_eq!(train(&mut explorer, &mut now, Standby::Slow), 8);
        assert_eq!(train(&mut explorer, &mut now, Standby::OnTrial), 16);
        assert!(explorer.trials().is_on(PATH));
    }

    #[test]
    fn a_trial_that_was_broken_off_begins_anew() {
        let mut now = Time::from_ms(1000);
        let mut explorer = Explorer::new(now);
        train(&mut explorer, &mut now, Standby::Slow);
        for _ in 0..4 {
            train(&mut explorer, &mut now, Standby::OnTrial);
        }
        explorer.begin(now, &[]);
        now += PAUSE_MIN;
        assert_eq!(train(&mut explorer, &mut now, Standby::OnTrial), 16);
        assert!(explorer.trials().is_on(PATH));
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
    fn a_path_is_never_chosen_while_others_carry_and_it_does_not() {
        let mut explorer = Explorer::new(Time::ZERO);
        explorer.on_content(Time::ZERO, LinkId(0), NEVER_CHOSEN_BYTES as usize);
        assert!(!explorer.is_never_chosen(PATH));
        explorer.on_content(Time::ZERO, LinkId(0), 1);
        assert!(explorer.is_never_chosen(PATH) && !explorer.is_never_chosen(LinkId(0)));
        explorer.on_content(Time::ZERO, PATH, 1);
        assert!(!explorer.is_never_chosen(PATH));
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
