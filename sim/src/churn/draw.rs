//! What happens to the nodes, drawn from a seed.

use crate::net::{MS, Ns, SECOND};
use crate::random::{Random, mix};

/// Links of everybody.
pub const LINKS: usize = 2;
/// Nodes at these places are those that everybody asks for admission. They crash one at a time only.
pub const SEEDS: usize = 4;

/// Something that happens to nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A node is started at this place.
    Start(usize),
    /// It ends at once.
    Crash(usize),
    /// It leaves the cluster, and ends.
    Leave(usize),
    /// A link of it carries nothing any more, silently; or carries again.
    Silent(usize, usize, bool),
    /// Nothing passes between places of even and of odd number; or passes again.
    Parted(bool),
}

/// A run before it begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// Places for nodes.
    pub places: usize,
    /// What happens, and when.
    pub actions: Vec<(Ns, Action)>,
    /// When it ends.
    pub ends: Ns,
    /// Of a million datagrams so many are lost.
    pub loss_ppm: u64,
}

/// The run goes on for so long after the last action …
const REST: Ns = 8 * SECOND;
/// … or until who is gone for good is to be forgotten.
const REST_WHEN_GONE: Ns = super::check::FORGOTTEN_WITHIN + 5 * SECOND;

impl Plan {
    /// The run of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut r = Random::new(mix(seed));
        let places = r.between(6, 12) as usize;
        let mut plan = Plan {
            seed,
            places,
            actions: Vec::new(),
            ends: 0,
            loss_ppm: [0, 0, 100, 2_000][r.below(4) as usize],
        };
        for place in 0..places {
            let at = if place < SEEDS {
                0
            } else {
                r.below(4 * SECOND)
            };
            plan.actions.push((at, Action::Start(place)));
        }
        for place in SEEDS..places {
            plan.come_and_go(place, &mut r);
        }
        plan.seed_restarts(&mut r);
        let gone = r.below(100) < 30;
        if gone {
            plan.actions
                .push((plan.last() + SECOND, Action::Crash(places - 1)));
        }
        if r.below(100) < 40 {
            let at = r.between(5 * SECOND, 12 * SECOND);
            let lasts = if r.below(4) == 0 {
                30 * SECOND
            } else {
                r.between(100 * MS, 8 * SECOND)
            };
            plan.actions.push((at, Action::Parted(true)));
            plan.actions.push((at + lasts, Action::Parted(false)));
        }
        if r.below(100) < 50 {
            plan.crosswise(&mut r);
        }
        plan.actions.sort_by_key(|(at, _)| *at);
        plan.ends = plan.last() + if gone { REST_WHEN_GONE } else { REST };
        plan
    }

    fn last(&self) -> Ns {
        self.actions.iter().map(|(at, _)| *at).max().unwrap_or(0)
    }

    /// A node is replaced, or leaves and comes back, now and then.
    fn come_and_go(&mut self, place: usize, r: &mut Random) {
        let mut at = 5 * SECOND;
        while r.below(100) < 60 {
            at += r.between(SECOND, 10 * SECOND);
            let end = if r.below(2) == 0 {
                Action::Crash(place)
            } else {
                Action::Leave(place)
            };
            self.actions.push((at, end));
            // Who leaves takes a moment for it.
            at += r.between(SECOND, 6 * SECOND);
            self.actions.push((at, Action::Start(place)));
        }
    }

    /// One of those that are asked for admission crashes, before anything is parted.
    fn seed_restarts(&mut self, r: &mut Random) {
        if r.below(100) < 30 {
            let place = r.below(SEEDS as u64) as usize;
            let at = r.between(4 * SECOND, 5 * SECOND);
            self.actions.push((at, Action::Crash(place)));
            self.actions
                .push((at + r.between(100 * MS, 3 * SECOND), Action::Start(place)));
        }
    }

    /// Two nodes have no link in common for a while.
    fn crosswise(&mut self, r: &mut Random) {
        let at = r.between(3 * SECOND, 20 * SECOND);
        let until = at + r.between(SECOND, 6 * SECOND);
        let first = r.below(self.places as u64) as usize;
        for (place, link) in [(first, 0), ((first + 1) % self.places, 1)] {
            self.actions.push((at, Action::Silent(place, link, true)));
            self.actions
                .push((until, Action::Silent(place, link, false)));
        }
    }
}
