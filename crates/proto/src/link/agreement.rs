//! The two ends' verdicts on a path, and how each learns of the other's.

use core::time::Duration;

use super::thresholds::REPEAT;
use crate::Time;
use crate::wire::{LinkVerdict, Witness};

/// This end's verdict: repeated to the peer until it is confirmed. Generation 0, "up", goes without saying.
#[derive(Debug)]
pub struct OwnVerdict {
    verdict: LinkVerdict,
    witness: Witness,
    generation: u32,
    /// When to say it (again); `None` once confirmed.
    say_at: Option<Time>,
    wait: Duration,
}

impl OwnVerdict {
    pub const fn new() -> OwnVerdict {
        OwnVerdict {
            verdict: LinkVerdict::Up,
            witness: Witness::ProbesAnswered,
            generation: 0,
            say_at: None,
            wait: REPEAT,
        }
    }

    pub fn is_down(&self) -> bool {
        self.verdict == LinkVerdict::Down
    }

    pub const fn witness(&self) -> Witness {
        self.witness
    }

    /// Changes the verdict.
    pub const fn change(&mut self, now: Time, verdict: LinkVerdict, witness: Witness) {
        self.verdict = verdict;
        self.witness = witness;
        self.generation = self.generation.wrapping_add(1);
        self.say_at = Some(now);
        self.wait = REPEAT;
    }

    /// What is to be said now, if anything: generation, verdict, witness.
    /// It is said again after twice as long each time, at most `wait_max`.
    pub fn poll(&mut self, now: Time, wait_max: Duration) -> Option<(u32, LinkVerdict, Witness)> {
        self.say_at.filter(|&at| at <= now)?;
        self.say_at = Some(now + self.wait);
        self.wait = (self.wait * 2).min(wait_max);
        Some((self.generation, self.verdict, self.witness))
    }

    /// If it is still to be said, it is said at once, and soon again.
    pub const fn hasten(&mut self, now: Time) {
        if self.say_at.is_some() {
            self.say_at = Some(now);
            self.wait = REPEAT;
        }
    }

    /// The peer knows it.
    pub const fn on_confirmed(&mut self, generation: u32) {
        if generation == self.generation {
            self.say_at = None;
        }
    }

    pub const fn say_at(&self) -> Option<Time> {
        self.say_at
    }
}

/// The peer's verdict, as last heard.
#[derive(Debug)]
pub struct PeerVerdict {
    verdict: LinkVerdict,
    witness: Witness,
    generation: u32,
}

impl PeerVerdict {
    pub const fn new() -> PeerVerdict {
        PeerVerdict {
            verdict: LinkVerdict::Up,
            witness: Witness::ProbesAnswered,
            generation: 0,
        }
    }

    /// What told the peer.
    pub const fn witness(&self) -> Witness {
        self.witness
    }

    pub fn is_down(&self) -> bool {
        self.verdict == LinkVerdict::Down
    }

    /// Takes a verdict unless it is older than the one known. Returns whether it differs.
    pub fn hear(&mut self, generation: u32, verdict: LinkVerdict, witness: Witness) -> bool {
        if generation.wrapping_sub(self.generation) as i32 <= 0 {
            return false;
        }
        self.generation = generation;
        self.witness = witness;
        let changed = self.verdict != verdict;
        self.verdict = verdict;
        changed
    }
}
