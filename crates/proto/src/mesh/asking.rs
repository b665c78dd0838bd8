//! Where nodes know others than their peers (ranks of a job, of which there may be hundreds), nobody says whom it reaches
//! but to who asked for a way.

use super::{Mesh, TELL_AFTER, WISHES_MAX};
use crate::wire::Reach;
use crate::{PeerId, Time};

/// So many neighbours are asked for a way at once, if they say nothing of themselves: one of them is enough, and there may be hundreds.
const ASKED_AT_ONCE: usize = 4;

impl Mesh {
    /// Whether a neighbour is to be told what is news: of nodes that are alike each one, else who asked.
    pub fn listens(&self, neighbour: PeerId) -> bool {
        self.are_alike() || self.askers.contains(&neighbour)
    }

    /// The neighbours that are.
    pub fn listeners(&self) -> impl Iterator<Item = PeerId> {
        self.neighbours().filter(|peer| self.listens(*peer))
    }

    /// No way to `peer` is known. Where nodes say nothing unless they are asked, some are; whether that is so.
    pub fn seek(&mut self, peer: PeerId) -> bool {
        let asks = !self.are_alike();
        if asks && self.sought.len() < WISHES_MAX {
            self.sought.push(peer);
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

    /// Whether a node says nothing of whom it reaches, as far as is known here; then that is put so that whoever is told so and
    /// knows better says it.
    pub fn knows_nothing_of(&mut self, node: PeerId) -> bool {
        let known = self.nodes.get_mut(&node);
        let Some(known) = known.filter(|known| known.said().is_none()) else {
            return false;
        };
        known.reach = Some(Reach {
            node: known.id,
            version: 0,
            links: 0,
            unwilling: false,
            all_but: false,
            switches: None,
            nodes: Box::default(),
        });
        true
    }

    /// A neighbour asks for a way to a node that is reached here.
    pub(super) fn on_question(&mut self, now: Time, from: PeerId) {
        if self.are_alike() {
            return;
        }
        if !self.askers.contains(&from) {
            self.askers.push(from);
            // What was told before it asked, it has not heard.
            self.risen.push(from);
        }
        self.tell_after(now, TELL_AFTER);
    }
}
