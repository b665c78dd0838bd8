//! The numbers of a node's sessions, and whose they are.

use std::collections::BTreeMap;

use crate::PeerId;

/// Session numbers of ours, of handshakes under way too.
#[derive(Debug, Default)]
pub(crate) struct SessionNumbers {
    whose: BTreeMap<u32, PeerId>,
    /// Grows with every change.
    generation: u64,
}

impl SessionNumbers {
    /// Whose it is.
    pub fn get(&self, number: &u32) -> Option<&PeerId> {
        self.whose.get(number)
    }

    /// Whether it is one of ours.
    pub fn contains_key(&self, number: &u32) -> bool {
        self.whose.contains_key(number)
    }

    /// Gives the number to `peer`, if nobody has it. Returns whether that is so.
    pub fn insert(&mut self, number: u32, peer: PeerId) -> bool {
        let std::collections::btree_map::Entry::Vacant(free) = self.whose.entry(number) else {
            return false;
        };
        free.insert(peer);
        self.generation += 1;
        true
    }

    /// The number is nobody's any more.
    pub fn remove(&mut self, number: &u32) {
        self.generation += u64::from(self.whose.remove(number).is_some());
    }

    /// All, ascending.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &u32> {
        self.whose.keys()
    }

    /// Differs whenever the numbers do.
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}
