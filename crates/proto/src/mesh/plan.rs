//! Who keeps a bundle with whom, as all nodes come to by themselves, where not everybody does with everybody.

use super::Few;
use crate::PeerId;

/// [`Few`], with the peers that it speaks of.
#[derive(Debug)]
pub(super) struct Plan {
    few: Few,
    /// By place; this node is `None`.
    order: Vec<Option<PeerId>>,
    /// The place of this node.
    me: usize,
}

impl Plan {
    /// `few` is of these peers, in this order, with this node at the place `me`.
    pub fn new(few: Few, peers: &[PeerId], me: usize) -> Plan {
        let mut order: Vec<Option<PeerId>> = peers.iter().copied().map(Some).collect();
        order.insert(me, None);
        Plan { few, order, me }
    }

    /// All peers, and their places.
    pub fn places(&self) -> impl Iterator<Item = (usize, PeerId)> {
        let order = self.order.iter().enumerate();
        order.filter_map(|(place, peer)| Some((place, (*peer)?)))
    }

    /// Whether the nodes at two places keep a bundle.
    pub fn keeps(&self, one: usize, other: usize) -> bool {
        self.few.keeps(one, other)
    }

    /// Whether this node keeps one with the node at a place.
    pub fn keeps_here(&self, other: usize) -> bool {
        self.few.keeps(self.me, other)
    }

    /// The peers with which the node at a place keeps one.
    pub fn kept_of(&self, place: usize) -> Vec<PeerId> {
        let kept = self.few.kept_of(place).into_iter();
        kept.filter_map(|place| self.order[place]).collect()
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.order.capacity() * size_of::<Option<PeerId>>() + self.few.memory_bytes()
    }
}
