//! Whom others reach, as they state it (`docs/protocol.md`, 7.13), and who is to hear of that.

use super::{Known, Mesh, TELL_AFTER};
use crate::segment::News;
use crate::wire::Reach;
use crate::{PeerId, Time};

impl Mesh {
    /// The known statement of a node.
    pub fn reach(&self, peer: PeerId) -> Option<&Reach> {
        self.nodes.get(&peer)?.reach.as_ref()
    }

    /// Whether a node reaches another one, by its statement or, without one, by expectation.
    pub(super) fn reaches(&self, node: &Known, other: &Known) -> Option<bool> {
        self.reaches_by(node.reach.as_ref(), node, other)
    }

    /// As [`reaches`](Mesh::reaches), by a statement of the node that is given.
    fn reaches_by(&self, said: Option<&Reach>, node: &Known, other: &Known) -> Option<bool> {
        match (said, &self.plan) {
            (Some(reach), _) => Some(reach.reaches(other.id)),
            (None, Some(plan)) => Some(plan.keeps(node.place, other.place)),
            (None, None) => self.alike.then_some(true),
        }
    }

    /// The links of a node that are up, as it says, a bit each, if it says anything.
    pub fn links_up(&self, peer: PeerId) -> Option<u8> {
        Some(self.reach(peer)?.links)
    }

    /// Whether to tell `neighbour` what is known of `node`: not if it is `node`, or hears from `node` directly.
    pub fn is_news_to(&self, neighbour: PeerId, node: PeerId) -> bool {
        let (Some(reach), Some(id)) = (self.reach(node), self.id(neighbour)) else {
            return false;
        };
        neighbour != node && !reach.reaches(id)
    }

    /// Whether `neighbour` hears directly what `node` says.
    pub fn hears(&self, neighbour: PeerId, node: PeerId) -> bool {
        self.hears_by(self.reach(node), neighbour, node)
    }

    /// As [`hears`](Mesh::hears), by a statement of the node that is given.
    pub fn hears_by(&self, said: Option<&Reach>, neighbour: PeerId, node: PeerId) -> bool {
        let of = |peer| self.nodes.get(&peer);
        let both = of(node).zip(of(neighbour));
        both.and_then(|(node, neighbour)| self.reaches_by(said, node, neighbour)) == Some(true)
    }

    /// Nodes about which `neighbour`, which has just come, may know less, or more: even about itself, if it has restarted.
    pub fn all_news_to(&self, neighbour: PeerId) -> impl Iterator<Item = News> {
        let listens = self.listens(neighbour);
        let is_told = move |(node, known): &(&PeerId, &Known)| {
            let is_new = **node == neighbour || self.is_news_to(neighbour, **node);
            listens && known.reach.is_some() && is_new
        };
        let told = self.nodes.iter().filter(is_told).map(|(node, _)| *node);
        let is_far = |node: &&PeerId| !self.nodes.get(*node).is_some_and(Known::is_reached);
        let sought = self.asked_for.keys().filter(is_far).copied();
        told.map(News::Reach).chain(sought.map(News::Sought))
    }

    /// `from` reports whom a node reaches. Returns whether it knows less than is known here.
    pub fn on_reach(&mut self, now: Time, from: PeerId, reach: Reach) -> bool {
        if reach.node == self.me {
            // This node said it before it restarted.
            if reach.version >= self.version.max(1) && self.told.as_ref() != Some(&reach) {
                self.version = reach.version;
                // Others may have refused what was said since, of the same version: it is said anew, under the next one.
                self.told = None;
                self.tell_after(now, TELL_AFTER);
                if let Some(switches) = reach.switches.filter(|_| self.switches.is_none()) {
                    self.set_switches(now, switches);
                }
            }
            return false;
        }
        let Some(&node) = self.ids.get(&reach.node) else {
            return false;
        };
        let Some(known) = self.nodes.get_mut(&node) else {
            return false;
        };
        if let Some(before) = &known.reach
            && reach.version <= before.version
        {
            // After a restart a node may have made two statements of one version: tell it, and it makes a new one.
            let is_older = reach.version < before.version;
            return is_older || from == node && reach != *before;
        }
        let switches = reach.switches;
        let before = known.reach.replace(reach);
        self.has_moved |= before.as_ref().and_then(|before| before.switches) != switches;
        self.asked_for.remove(&node);
        self.news.push((node, from, before));
        self.look_soon(now);
        false
    }
}
