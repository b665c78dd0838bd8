//! Which bundles are kept, as all nodes compute it alike, where not all nodes keep bundles with each other.
//!
//! A shortcut to a group: what goes to each of many nodes of a switch is too little for links of its own, but all of it
//! together is not. So links to *one* of these nodes are asked for, by each node of this node's group to another one,
//! which saves all of it one relay (the rule of paper 002, on demand). They are used as far as `bundles` leaves room.

use core::time::Duration;
use std::collections::BTreeMap;

use super::{Few, Lately};
use crate::{PeerId, Time};

/// Relaying this many bytes costs about as much as a bundle over links costs both ends: 1.8 s of a processor for a GB, and 0.1 ms
/// at each end for a handshake. (With 512 KB a halo exchange of 64 KB found its shortcuts in the eighth round, now in the
/// second.)
pub(crate) const WORTH_LINKS: u64 = 128 * 1024;
/// Links to a group are wanted again after this time, if much still goes to it through others.
const WANT_EVERY: Duration = Duration::from_millis(250);

/// [`Few`], with the peers that it speaks of.
#[derive(Debug)]
pub(super) struct Plan {
    few: Few,
    /// By place; this node is `None`.
    order: Vec<Option<PeerId>>,
    /// The place of this node.
    me: usize,
    /// Bytes relayed to each group.
    relayed: BTreeMap<u16, Relayed>,
}

#[derive(Debug)]
struct Relayed {
    lately: Lately,
    want_at: Time,
}

impl Plan {
    /// `few` is of these peers, in this order, with this node at the place `me`.
    pub fn new(few: Few, peers: &[PeerId], me: usize) -> Plan {
        let mut order: Vec<Option<PeerId>> = peers.iter().copied().map(Some).collect();
        order.insert(me, None);
        Plan {
            few,
            order,
            me,
            relayed: BTreeMap::new(),
        }
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

    /// The peers with which the node at a place keeps a bundle.
    pub fn kept_of(&self, place: usize) -> Vec<PeerId> {
        let kept = self.few.kept_of(place).into_iter();
        kept.filter_map(|place| self.order[place]).collect()
    }

    /// `bytes` were relayed to the node at a place. If links to its group are worthwhile now, returns the member to connect to:
    /// one that no other node of this node's group chooses.
    pub fn note_relayed(&mut self, now: Time, place: usize, bytes: u64) -> Option<PeerId> {
        let group = self.few.group_of(place)?;
        let relayed = self.relayed.entry(group).or_insert(Relayed {
            lately: Lately::new(now),
            want_at: now,
        });
        if relayed.lately.add(now, bytes) < WORTH_LINKS || now < relayed.want_at {
            return None;
        }
        relayed.want_at = now + WANT_EVERY;
        let counterpart = self.few.counterpart(self.me, group)?;
        let is_kept = self.few.keeps(self.me, counterpart);
        self.order
            .get(counterpart)
            .copied()
            .flatten()
            .filter(|_| !is_kept)
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.order.capacity() * size_of::<Option<PeerId>>()
            + self.few.memory_bytes()
            + self.relayed.len() * size_of::<(u16, Relayed)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(1000);

    /// Of the node 0, of four switches with four nodes each; a node's number is its peer's.
    fn plan() -> Plan {
        let peers: Vec<_> = (1..16).map(PeerId).collect();
        let few = Few::in_groups((0..16).map(|node| node / 4));
        Plan::new(few, &peers, 0)
    }

    #[test]
    fn much_that_goes_to_a_group_is_worth_links_to_one_of_it() {
        let mut plan = plan();
        let new = (1..4).find_map(|group| {
            let counterpart = plan.few.counterpart(0, group)?;
            (!plan.keeps_here(counterpart)).then_some((group, counterpart))
        });
        let (group, counterpart) = new.expect("a group without a bundle with its counterpart");
        let group = usize::from(group);
        let members: Vec<usize> = (4 * group..4 * group + 4).collect();
        // A little to each of them is much for all.
        let each = WORTH_LINKS / 4;
        for to in &members[..3] {
            assert_eq!(plan.note_relayed(NOW, *to, each), None);
        }
        let wanted = Some(PeerId(counterpart as u32));
        assert_eq!(plan.note_relayed(NOW, members[3], each), wanted);
        assert_eq!(
            plan.note_relayed(NOW, members[3], each),
            None,
            "wanted just now"
        );
        let later = NOW + WANT_EVERY;
        assert_eq!(plan.note_relayed(later, members[0], 1), wanted);
        // Traffic of long ago does not count.
        let much_later = NOW + Duration::from_secs(600);
        assert_eq!(plan.note_relayed(much_later, members[0], 1), None);
    }

    #[test]
    fn within_its_own_group_a_node_wants_nothing() {
        let mut plan = plan();
        assert_eq!(plan.note_relayed(NOW, 3, 2 * WORTH_LINKS), None);
    }
}
