//! The streams that this end opens, in the order of their numbers.
//!
//! Any packet of a stream tells the peer that all before it were opened, too. So that one packet
//! cannot make it open very many at once, this end stays within [`OPENS_MAX`] of the oldest stream
//! whose opening the peer has not acknowledged.

use crate::op::limits::OPENS_MAX;
use crate::segment::RangeSet;

#[derive(Debug)]
pub(super) struct Openings {
    /// The number of the first stream of this end: 0 or 1.
    first: u64,
    /// How many were opened.
    opened: u64,
    /// Those that the peer knows, counted from 0.
    known: RangeSet,
}

impl Openings {
    pub fn new(are_even: bool) -> Openings {
        Openings {
            first: u64::from(!are_even),
            opened: 0,
            known: RangeSet::new(),
        }
    }

    /// Whether this end opens those with even numbers.
    pub const fn are_even(&self) -> bool {
        self.first == 0
    }

    /// Whether this end opened, or may open, stream `id`.
    pub const fn is_own(&self, id: u64) -> bool {
        id % 2 == self.first
    }

    /// Whether this end has opened stream `id`, which is its own.
    pub const fn has_opened(&self, id: u64) -> bool {
        id / 2 < self.opened
    }

    /// The number of a new stream.
    pub fn open(&mut self) -> u64 {
        self.opened += 1;
        2 * (self.opened - 1) + self.first
    }

    /// Whether the peer must not hear of stream `id` yet.
    pub fn must_wait(&self, id: u64) -> bool {
        self.is_own(id) && id / 2 >= self.known.covered_to() + OPENS_MAX
    }

    /// The peer knows stream `id`, one of this end. Returns those that may be announced now.
    pub fn on_known(&mut self, id: u64) -> impl Iterator<Item = u64> + use<> {
        let before = self.known.covered_to();
        debug_assert!(self.is_own(id) && id / 2 < self.opened && !self.must_wait(id));
        self.known.insert(id / 2..id / 2 + 1);
        let first = self.first;
        let past = (self.known.covered_to() + OPENS_MAX).min(self.opened);
        (before + OPENS_MAX..past).map(move |count| 2 * count + first)
    }

    /// Memory outside of the value itself, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.known.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_far_ahead_of_the_oldest_that_is_not_known() {
        let mut openings = Openings::new(false);
        let ids: Vec<u64> = (0..2 * OPENS_MAX).map(|_| openings.open()).collect();
        assert_eq!(ids[..3], [1, 3, 5]);
        let waits = |o: &Openings| ids.iter().filter(|id| o.must_wait(**id)).count() as u64;
        assert_eq!(waits(&openings), OPENS_MAX);
        assert_eq!(openings.on_known(ids[1]).count(), 0);
        let next: Vec<u64> = openings.on_known(ids[0]).collect();
        assert_eq!(next[..], ids[OPENS_MAX as usize..][..2]);
        assert_eq!(waits(&openings), OPENS_MAX - 2);
        assert!(!openings.must_wait(1 << 60), "the peer's own");
        for id in &ids[2..OPENS_MAX as usize + 2] {
            openings.on_known(*id).count();
        }
        assert_eq!(waits(&openings), 0);
    }
}
