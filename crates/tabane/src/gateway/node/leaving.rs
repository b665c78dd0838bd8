//! A gateway that hands over on purpose loses nothing: it first sends its queue for the line, gives packets that nodes send
//! meanwhile back to them for the next gateway, and passes on what still comes from outside until all neighbours know the new
//! place of the addresses.

use core::time::Duration;
use std::net::IpAddr;

use tabane_proto::wire::NodeId;
use tabane_proto::{Node, Time};

use super::super::carriage::Way;
use super::super::front::Owner;
use super::super::serving::Serving;
use super::{Gateway, Serves};

/// Time for the line's queue to empty.
const EMPTIES_WITHIN: Duration = Duration::from_millis(40);
/// So long something may still come here from outside, or from nodes that do not know yet.
const LEAVES_WITHIN: Duration = Duration::from_millis(150);
/// The most bytes of nodes' packets that are kept meanwhile.
const HELD_BYTES_MAX: usize = 8 << 20;

/// It is about to hand over.
#[derive(Debug)]
pub(super) struct Moving {
    heir: NodeId,
    until: Time,
    held: Held,
}

/// It has.
#[derive(Debug)]
pub(super) struct Leaving {
    serving: Serving,
    until: Time,
    held: Held,
    /// The device may have something to read.
    pub(super) readable: bool,
}

#[derive(Debug, Default)]
struct Held {
    packets: Vec<(Owner, Vec<u8>)>,
    bytes: usize,
}

impl Held {
    fn keep(&mut self, owner: Owner, packet: &mut Vec<u8>) {
        // If there is no room, TCP retransmits.
        if self.bytes + packet.len() <= HELD_BYTES_MAX {
            self.bytes += packet.len();
            self.packets.push((owner, core::mem::take(packet)));
        }
    }
}

impl Moving {
    pub(super) const fn until(&self) -> Time {
        self.until
    }
}

impl Leaving {
    pub(super) const fn until(&self) -> Time {
        self.until
    }
}

impl Gateway {
    /// Another gateway is to serve, when what waits here has left.
    pub(super) fn begin_moving(&mut self, now: Time, heir: NodeId) {
        if self.moving.is_none() {
            self.moving = Some(Moving {
                heir,
                until: now + EMPTIES_WITHIN,
                held: Held::default(),
            });
        }
    }

    /// This node is to end. Returns how long that has to wait for another gateway to take over, if one can.
    pub fn begin_ending(&mut self, now: Time) -> Option<Duration> {
        let heir = self.heir(None)?;
        if self.serving.is_none() || self.moving.is_some() {
            return None;
        }
        self.begin_moving(now, heir);
        Some(EMPTIES_WITHIN + LEAVES_WITHIN)
    }

    /// Keeps a node's outgoing packet while no gateway serves. Returns whether it did.
    pub(super) fn hold(&mut self, owner: Owner, packet: &mut Vec<u8>) -> bool {
        // Once another gateway serves, only nodes that do not know it yet send here.
        let is_known = owner == Owner::Here && self.serves().is_some();
        let of_leaving = self.leaving.as_mut().map(|leaving| &mut leaving.held);
        let held = match &mut self.moving {
            Some(moving) => Some(&mut moving.held),
            None => of_leaving.filter(|_| self.serving.is_none() && !is_known),
        };
        held.map(|held| held.keep(owner, packet)).is_some()
    }

    /// Goes on with handing over.
    pub(super) fn go_on_moving(&mut self, now: Time, node: &mut Node) {
        let waits = |gateway: &Gateway| {
            let serving = gateway.serving.as_ref();
            serving.is_some_and(|service| service.serving.front.waits())
        };
        let is_due = |moving: &Moving| now >= moving.until;
        if self
            .moving
            .as_ref()
            .is_some_and(|moving| is_due(moving) || !waits(self))
        {
            self.hand_over(now, node);
        }
        self.hand_on_outside(now, node);
        self.give_back(now, node);
        if self
            .leaving
            .as_ref()
            .is_some_and(|leaving| now >= leaving.until)
        {
            self.end_leaving();
        }
    }

    fn hand_over(&mut self, now: Time, node: &mut Node) {
        let Some(moving) = self.moving.take() else {
            return;
        };
        let Some(mut service) = self.serving.take() else {
            return;
        };
        service.serving.lay_down();
        self.leaving = Some(Leaving {
            serving: service.serving,
            until: now + LEAVES_WITHIN,
            held: moving.held,
            readable: true,
        });
        self.election.hand_over(now, moving.heir);
        self.lines
            .push("serves the outside addresses no more".to_owned());
        self.say_election(now, node);
    }

    /// Passes packets that still come from outside on to nodes.
    fn hand_on_outside(&mut self, now: Time, node: &mut Node) {
        let Some(leaving) = self.leaving.as_mut().filter(|leaving| leaving.readable) else {
            return;
        };
        let inside = &mut self.inside;
        let is_of_nodes = |address: IpAddr| self.nodes_at.contains(&address);
        leaving.readable =
            leaving
                .serving
                .receive(now, false, is_of_nodes, |owner, packet, only_known| {
                    inside.hand_to(now, node, owner, packet, only_known);
                });
    }

    /// When the next gateway serves, gives nodes back what they have sent here.
    fn give_back(&mut self, now: Time, node: &mut Node) {
        let Some((Serves::Peer(next), _)) = self.serves() else {
            return;
        };
        let Some(leaving) = &mut self.leaving else {
            return;
        };
        leaving.held.bytes = 0;
        for (owner, mut packet) in core::mem::take(&mut leaving.held.packets) {
            let (to, way) = match owner {
                Owner::Here => (next, Way::Outward),
                Owner::Peer(peer) if peer == next => (next, Way::Returned),
                Owner::Peer(peer) => (peer, Way::Returned),
            };
            self.inside.carriage.send(now, node, to, &mut packet, way);
        }
    }

    /// All know by now.
    pub(super) fn end_leaving(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            leaving.serving.end();
        }
    }
}
