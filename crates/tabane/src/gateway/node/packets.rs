//! Packets, between programs, nodes and the device outside.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tabane_io::poll::Interest;
use tabane_proto::gateway::Said;
use tabane_proto::{Node, PeerId, Time};

use super::super::carriage::{Way, take_way};
use super::super::early::Origin;
use super::super::front::Owner;
use super::super::programs::{Place, Programs};
use super::programs::Door;
use super::{Gateway, Serves};

/// Packets that are read from the programs of one place in a turn.
const PACKETS_PER_TURN: usize = 16;
/// What may wait to be carried to the gateway before programs wait.
const QUEUE_BYTES_MAX: usize = 1 << 20;

impl Gateway {
    /// A packet that another node has carried here.
    pub fn carried(&mut self, now: Time, from: PeerId, packet: &mut Vec<u8>) {
        let is_gateway = self
            .roster
            .id(from)
            .is_some_and(|id| self.part.electorate.gateways.contains(&id));
        match take_way(packet) {
            Some(Way::Outward) => {
                let Some(service) = &mut self.serving else {
                    self.carriage.lost += 1;
                    return;
                };
                let owner = Owner::Peer(from);
                if service.learns_of(now, from) {
                    service.serving.early.keep(Origin::Inside(owner), packet);
                } else {
                    service.serving.leaves(now, owner, core::mem::take(packet));
                }
            }
            Some(Way::Inward { only_known }) if is_gateway => {
                deliver(now, &mut self.programs, &self.doors, packet, only_known);
            }
            _ => self.carriage.lost += 1,
        }
    }

    /// Reads what programs send, and hands it on.
    pub(super) fn read_programs(&mut self, now: Time, node: &mut Node) {
        let serves = self.serves().map(|(whom, _)| whom);
        for (place, door) in self.doors.iter_mut().filter(|(_, door)| door.readable) {
            for count in 0.. {
                if count == PACKETS_PER_TURN || must_wait(node, serves) {
                    break;
                }
                let packet = &mut self.packet;
                if !matches!(door.tun.read(packet), Ok(true)) {
                    door.readable = false;
                    break;
                }
                if self.programs.leaves(now, *place, packet).is_none() {
                    continue;
                }
                match (serves, &mut self.serving) {
                    (Some(Serves::Here), Some(service)) => {
                        let packet = core::mem::take(packet);
                        service.serving.leaves(now, Owner::Here, packet);
                    }
                    (Some(Serves::Peer(peer)), _) => {
                        self.carriage.send(now, node, peer, packet, Way::Outward);
                    }
                    // TCP says it again.
                    _ => self.carriage.lost += 1,
                }
            }
        }
    }

    /// Reads what comes from outside, and sends what waits for the line. Returns whether there is more to do at once.
    pub(super) fn serve(&mut self, now: Time, node: &mut Node) -> bool {
        let Some(service) = &mut self.serving else {
            return false;
        };
        let learns = service.learns(now);
        let serving = &mut service.serving;
        let (programs, doors, carriage) = (&mut self.programs, &self.doors, &mut self.carriage);
        let is_of_nodes = |address: IpAddr| self.inside.contains(&address);
        let mut more = false;
        if service.readable || serving.has_errors() {
            more = serving.receive(
                now,
                learns,
                is_of_nodes,
                |owner, packet, only_known| match owner {
                    Owner::Here => deliver(now, programs, doors, packet, only_known),
                    Owner::Peer(peer) => {
                        carriage.send(now, node, peer, packet, Way::Inward { only_known });
                    }
                },
            );
            service.readable = more;
        }
        serving.send(now);
        more |= serving.has_errors();
        let writes = serving.is_full;
        if writes != service.writes {
            let interest = if writes {
                Interest::Write
            } else {
                Interest::Nothing
            };
            service.writes = self
                .poller
                .modify(serving.outside().sender(), self.part.token + 1, interest)
                .map_or(service.writes, |()| writes);
        }
        while let Some((owner, inside, outer)) = serving.front.poll_translated() {
            match owner {
                Owner::Here => drop(self.outer.insert(inside, outer)),
                Owner::Peer(peer) => {
                    let said = Said::Translated { inside, outer };
                    self.roster.say(now, node, peer, said);
                }
            }
        }
        more
    }

    /// The device outside can be read.
    pub fn can_receive(&mut self) {
        if let Some(service) = &mut self.serving {
            service.readable = true;
        }
    }
}

/// Whether so much waits for the gateway that programs have to wait.
pub(super) fn must_wait(node: &Node, serves: Option<Serves>) -> bool {
    match serves {
        Some(Serves::Peer(peer)) => node.queued_frame_bytes(peer) >= QUEUE_BYTES_MAX,
        _ => false,
    }
}

/// Gives a packet from outside to the program it is for.
pub(super) fn deliver(
    now: Time,
    programs: &mut Programs,
    doors: &BTreeMap<Place, Door>,
    packet: &mut [u8],
    only_known: bool,
) {
    if let Some(place) = programs.arrives(now, packet, only_known)
        && let Some(door) = doors.get(&place)
    {
        // What its kernel has no room for is lost, as anywhere.
        let _ = door.tun.write(packet);
    }
}
