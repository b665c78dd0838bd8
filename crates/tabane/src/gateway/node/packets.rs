//! Packets, between programs, nodes and the device outside.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use tabane_proto::gateway::Said;
use tabane_proto::{Node, PeerId, Time};

use super::super::carriage::{Carriage, Way, take_way};
use super::super::early::Origin;
use super::super::front::Owner;
use super::super::programs::{Place, Programs};
use super::programs::Door;
use super::{Gateway, Serves};
use crate::vswitch::VNET_HDR_BYTES;

/// The most bytes, or packets, read from the programs of one place in a turn. Answers to a flood of short packets must leave as
/// fast as these arrive, or the place's device would drop most of them, and those of real clients with them.
const BYTES_PER_TURN: usize = 1 << 20;
const PACKETS_PER_TURN: usize = 256;
/// The most packets to the outside address from inside that wait for a turn.
const TURNING_MAX: usize = 1024;
/// The most bytes that wait to be carried to the gateway before programs wait.
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
                let owner = Owner::Peer(from);
                if self.hold(owner, packet) {
                    return;
                }
                let Some(service) = &mut self.serving else {
                    self.inside.carriage.lost += 1;
                    return;
                };
                if service.learns_of(now, from) {
                    service.serving.early.keep(Origin::Inside(owner), packet);
                } else {
                    service.serving.leaves(now, owner, core::mem::take(packet));
                }
            }
            Some(Way::Returned) if is_gateway => {
                let packet = core::mem::take(packet);
                self.returned.push_back(packet);
            }
            Some(Way::Inward { only_known }) if is_gateway => {
                self.inside.deliver(now, packet, only_known);
            }
            _ => self.inside.carriage.lost += 1,
        }
    }

    /// A program of a place has sent an IP packet to an outside address that its kernel does not know.
    pub fn turn_back(&mut self, place: Place, packet: &[u8]) {
        if self.turning.len() < TURNING_MAX {
            let frame = [&[0; VNET_HDR_BYTES][..], packet].concat();
            self.turning.push_back((place, frame));
        }
    }

    /// A packet for a program of a place from the outside address, which its kernel accepts only from itself: the destination,
    /// and the IP packet.
    pub fn poll_given(&mut self) -> Option<(Place, IpAddr, Vec<u8>)> {
        self.inside.given.pop_front()
    }

    /// Reads what programs send, and hands it on.
    pub(super) fn read_programs(&mut self, now: Time, node: &mut Node) {
        let serves = self.serves().map(|(whom, _)| whom);
        while let Some(mut packet) = self.returned.pop_front() {
            self.hand_on(now, node, serves, &mut packet);
        }
        while let Some((place, mut packet)) = self.turning.pop_front() {
            self.go_out(now, node, serves, (place, &mut packet));
        }
        let readable = self.inside.doors.iter().filter(|(_, door)| door.readable);
        let places: Vec<Place> = readable.map(|(place, _)| *place).collect();
        let mut packet = core::mem::take(&mut self.packet);
        for place in places {
            let mut bytes = 0;
            for _ in 0..PACKETS_PER_TURN {
                if bytes >= BYTES_PER_TURN {
                    break;
                }
                let door = self
                    .inside
                    .doors
                    .get_mut(&place)
                    .filter(|door| door.readable);
                let Some(door) = door.filter(|_| !must_wait(node, serves)) else {
                    break;
                };
                if !matches!(door.way.read(&mut packet), Ok(true)) {
                    door.readable = false;
                    break;
                }
                bytes += packet.len();
                self.go_out(now, node, serves, (place, &mut packet));
            }
        }
        self.packet = packet;
    }

    /// Sends a program's packet to the gateway, if it may go. Its buffer may be taken.
    fn go_out(
        &mut self,
        now: Time,
        node: &mut Node,
        serves: Option<Serves>,
        (place, packet): (Place, &mut Vec<u8>),
    ) {
        if self.inside.programs.leaves(now, place, packet) {
            self.hand_on(now, node, serves, packet);
        }
    }

    /// The same for a packet that may go.
    fn hand_on(
        &mut self,
        now: Time,
        node: &mut Node,
        serves: Option<Serves>,
        packet: &mut Vec<u8>,
    ) {
        if self.hold(Owner::Here, packet) {
            return;
        }
        match (serves, &mut self.serving) {
            (Some(Serves::Here), Some(service)) => {
                let packet = core::mem::take(packet);
                service.serving.leaves(now, Owner::Here, packet);
            }
            (Some(Serves::Peer(peer)), _) => {
                self.inside
                    .carriage
                    .send(now, node, peer, packet, Way::Outward);
            }
            // TCP says it again.
            _ => self.inside.carriage.lost += 1,
        }
    }

    /// Reads packets from outside, and sends those that wait for the line. Returns whether there is more to do at once.
    pub(super) fn serve(&mut self, now: Time, node: &mut Node) -> bool {
        let Some(service) = &mut self.serving else {
            return false;
        };
        let learns = service.learns(now);
        let serving = &mut service.serving;
        let inside = &mut self.inside;
        let is_of_nodes = |address: IpAddr| self.nodes_at.contains(&address);
        let mut more = false;
        if service.readable || serving.has_errors() {
            more = serving.receive(now, learns, is_of_nodes, |owner, packet, only_known| {
                inside.hand_to(now, node, owner, packet, only_known);
            });
            service.readable = more;
        }
        while let Some((owner, mut packet)) = serving.front.poll_turned() {
            inside.hand_to(now, node, owner, &mut packet, false);
        }
        serving.send(now);
        self.carried += core::mem::take(&mut serving.carried);
        more |= serving.has_errors();
        let writes = serving.is_full;
        if writes != service.writes {
            let waits = serving.line().wait_for_room(writes);
            service.writes = waits.map_or(service.writes, |()| writes);
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
        if let Some(leaving) = &mut self.leaving {
            leaving.readable = true;
        }
    }
}

/// Whether so much waits for the gateway that programs must wait.
pub(super) fn must_wait(node: &Node, serves: Option<Serves>) -> bool {
    match serves {
        Some(Serves::Peer(peer)) => node.queued_frame_bytes(peer) >= QUEUE_BYTES_MAX,
        _ => false,
    }
}

/// Those inside, as packets from outside meet them: this node's programs, and other nodes.
#[derive(Debug)]
pub(super) struct Inside {
    pub programs: Programs,
    pub doors: BTreeMap<Place, Door>,
    /// Packets for programs from the outside address itself.
    pub given: VecDeque<(Place, IpAddr, Vec<u8>)>,
    pub carriage: Carriage,
}

impl Inside {
    pub fn new(programs: Programs) -> Inside {
        Inside {
            programs,
            doors: BTreeMap::new(),
            given: VecDeque::new(),
            carriage: Carriage::default(),
        }
    }

    /// Hands a packet from outside to its owner.
    pub fn hand_to(
        &mut self,
        now: Time,
        node: &mut Node,
        owner: Owner,
        packet: &mut Vec<u8>,
        only_known: bool,
    ) {
        match owner {
            Owner::Here => self.deliver(now, packet, only_known),
            Owner::Peer(peer) => {
                let way = Way::Inward { only_known };
                self.carriage.send(now, node, peer, packet, way);
            }
        }
    }

    /// Gives a packet from outside to the program it is for.
    pub fn deliver(&mut self, now: Time, packet: &mut [u8], only_known: bool) {
        let Some((place, seen)) = self.programs.arrives(now, packet, only_known) else {
            // The place whose kernel has it answers, which makes it known again; the other places' answers are dropped.
            if !only_known && self.programs.may_be_of_before(packet) {
                for door in self.doors.values() {
                    let _ = door.way.write(packet);
                }
            }
            return;
        };
        if self.programs.addresses().contains(&seen.from) {
            if self.given.len() < TURNING_MAX {
                let packet = packet[VNET_HDR_BYTES..].to_vec();
                self.given.push_back((place, seen.to, packet));
            }
        } else if let Some(door) = self.doors.get(&place) {
            // If its kernel has no room the packet is lost, as anywhere.
            let _ = door.way.write(packet);
        }
    }
}
