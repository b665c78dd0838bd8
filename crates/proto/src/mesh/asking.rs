//! Reachability on request: where nodes know others than their peers (ranks of a job, of which there may be hundreds), a node
//! says whom it reaches only to those who asked for a way, and calls whom they seek: the two may never have spoken.
//!
//! Ranks expect nothing of each other. The question has the name of the node that is sought, and the name says where a
//! rank is. Before a node that is asked called it, a job whose ranks were cut off from the beginning did not start:
//! nobody between two of them had spoken with both. Only ranks that keep few bundles (`TABANE_BUNDLES`) are told of all
//! ranks that the program names before anything is sent. They expect what nodes of a cluster do, since the same plan
//! follows from the same names.

use super::{Mesh, TELL_AFTER, WISHES_MAX};
use crate::wire::Name;
use crate::{PeerId, Time};

/// Number of neighbours that are asked for a way at once, if they say nothing by themselves: one answer is enough, and there may
/// be hundreds of neighbours.
const ASKED_AT_ONCE: usize = 4;

impl Mesh {
    /// Whether a neighbour gets news: all do if nodes are alike, else those that asked.
    pub fn listens(&self, neighbour: PeerId) -> bool {
        self.are_alike() || self.askers.contains(&neighbour)
    }

    /// The neighbours that are.
    pub fn listeners(&self) -> impl Iterator<Item = PeerId> {
        self.neighbours().filter(|peer| self.listens(*peer))
    }

    /// No way to `peer`, which has this name, is known. Returns whether neighbours must be asked because they say nothing by
    /// themselves; then some will be.
    pub fn seek(&mut self, peer: PeerId, name: &Name) -> bool {
        let asks = !self.are_alike();
        if asks && self.sought.len() < WISHES_MAX {
            self.sought.push((peer, *name));
        }
        asks
    }

    /// The neighbours that are asked next for a way to `node`.
    pub fn whom_to_ask(&mut self, node: PeerId) -> Vec<PeerId> {
        let neighbours: Vec<PeerId> = self.neighbours().filter(|n| *n != node).collect();
        let count = neighbours.len().min(ASKED_AT_ONCE);
        let first = self.asked;
        self.asked = first.wrapping_add(count);
        let nth = |n: usize| neighbours[first.wrapping_add(n) % neighbours.len()];
        (0..count).map(nth).collect()
    }

    /// Whether nothing is known here about whom a node reaches. Then this is recorded, so that neighbours that come later are
    /// asked for it as well.
    pub fn asks_for(&mut self, node: PeerId, name: Name) -> bool {
        let known = self.nodes.get(&node);
        let asks = known.is_some_and(|known| known.reach.is_none());
        if asks {
            self.asked_for.insert(node, name);
        }
        asks
    }

    /// The name of a node that others are asked for.
    pub fn name_asked_for(&self, node: PeerId) -> Option<Name> {
        self.asked_for.get(&node).copied()
    }

    /// A neighbour seeks a way to somebody: from now on it hears whom this node reaches. Returns whether nodes are asked at all.
    pub fn on_question(&mut self, now: Time, from: PeerId) -> bool {
        if self.are_alike() {
            return false;
        }
        if !self.askers.contains(&from) {
            self.askers.push(from);
            // It has not heard what was told before it asked.
            self.risen.push(from);
        }
        self.tell_after(now, TELL_AFTER);
        true
    }
}
