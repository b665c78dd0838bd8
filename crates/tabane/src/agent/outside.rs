//! Programs and the outside address: their ports there, and the TUN by which they leave.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use tabane_io::outside::Tun;
use tabane_proto::gateway::{self, Refused};
use tabane_proto::wire::NodeId;
use tabane_proto::{Node, Time};

use crate::gateway::Given;
use crate::gateway::devices::RealWay;

use super::place::{Awaited, Ends, Held};
use super::words::{Claim, Transport};
use super::{Agent, Kind, token};

const fn transport_of(transport: Transport) -> gateway::Transport {
    match transport {
        Transport::Tcp => gateway::Transport::Tcp,
        Transport::Udp => gateway::Transport::Udp,
    }
}

impl Agent {
    /// The programs of a place leave by this TUN, if they and this node are of one mind about the outside addresses.
    ///
    /// # Errors
    /// Why the place has to end. The descriptor comes back then.
    pub(super) fn open_outside(
        &mut self,
        index: usize,
        outside: &[IpAddr],
        descriptor: OwnedFd,
    ) -> Result<(), (&'static str, OwnedFd)> {
        let Some(gateway) = &mut self.gateway else {
            return Err(("this node's cluster has no gateway (any more)", descriptor));
        };
        if gateway.addresses() != outside {
            return Err(("the cluster's outside addresses are others", descriptor));
        }
        let tun = Tun::from_descriptor(descriptor)
            .map_err(|other| ("what is to lead outside is no TUN", other))?;
        let uid = self.places[index].uid;
        let tun = self.closing.lend(uid, tun);
        let token = token(Kind::Tunnel, index);
        match RealWay::watched(tun, &self.poller, token) {
            Ok(way) => gateway.begin(index, uid, Box::new(way)),
            Err(_) => self.must_end(index, "its way outside cannot be watched"),
        }
        Ok(())
    }

    /// Asks the gateway for a port, if it is one of the outside address; returns the number of the answer.
    pub(super) fn ask_gateway(
        &mut self,
        now: Time,
        node: &mut Node,
        index: usize,
        claim: &Claim,
    ) -> Option<u32> {
        let address = claim.address;
        let may_have = self
            .claimant(index, address.ip())
            .is_some_and(|who| who.may_have(address.port()));
        // Programs that may not have it get their error elsewhere.
        let gateway = self.gateway.as_mut().filter(|_| may_have)?;
        gateway.claim(
            now,
            node,
            index,
            transport_of(claim.transport),
            (address.ip(), address.port()),
            (claim.only_v6, claim.reuse_port),
        )
    }

    /// Another place of this node that has a port of the outside address.
    pub(super) fn holder_outside(
        &self,
        index: usize,
        (transport, number): (Transport, u16),
    ) -> Option<usize> {
        let gateway = self.gateway.as_ref()?;
        gateway.holder(transport_of(transport), number, index)
    }

    /// The programs of a place have a port no more.
    pub(super) fn release_outside(
        &mut self,
        now: Time,
        node: &mut Node,
        index: usize,
        (transport, number): (Transport, u16),
    ) {
        if let Some(gateway) = &mut self.gateway {
            gateway.release(now, node, index, transport_of(transport), number);
        }
    }

    /// A program connects to a port of the outside address that nobody has in its namespace: asks the gateway who has it.
    pub(super) fn ask_whose(&mut self, now: Time, node: &mut Node, index: usize, ends: Ends) {
        let port = gateway::Port {
            transport: gateway::Transport::Tcp,
            family: match ends.1.is_ipv4() {
                true => gateway::Family::V4,
                false => gateway::Family::V6,
            },
            number: ends.1.port(),
        };
        let asked = self
            .gateway
            .as_mut()
            .and_then(|gateway| gateway.ask_owner(now, node, port));
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        match asked {
            Some(asked) => {
                if let Some(held) = place.held.get_mut(&ends) {
                    held.awaited = Awaited::Owner(asked);
                }
            }
            // The program's kernel repeats it.
            None => drop(place.held.remove(&ends)),
        }
    }

    /// The gateway says which node has it, if any.
    fn owner_is(&mut self, now: Time, node: &mut Node, asked: u32, owner: Option<NodeId>) {
        let is_it = |held: &Held| matches!(held.awaited, Awaited::Owner(of) if of == asked);
        for (index, ends) in self.waiting_for(is_it) {
            let peer = owner.map(|owner| self.gateway.as_ref().and_then(|it| it.peer(owner)));
            match peer {
                Some(Some(peer)) => self.ask_peer(now, node, index, ends, peer),
                Some(None) => self.go_within_node(now, index, ends),
                None => {
                    let error = io::ErrorKind::ConnectionRefused.into();
                    self.conclude(now, index, ends, Err(error));
                }
            }
        }
    }

    /// The program of a place, if its supervisor has named it.
    pub fn command(&self, place: usize) -> Option<String> {
        let program = self.places.get(place)?.program.as_ref()?;
        Some(program.command.clone())
    }

    /// A turn of the loop: packets go outside and come from there, and ports are had or not. Returns whether there is more to do at once.
    pub(super) fn turn_outside(&mut self, now: Time, node: &mut Node) -> bool {
        let Some(gateway) = &mut self.gateway else {
            return false;
        };
        let is_eager = gateway.turn(now, node);
        let mut answers: Vec<(u32, Result<Given, Refused>)> = Vec::new();
        while let Some(answer) = gateway.poll_claimed() {
            answers.push(answer);
        }
        let mut owners = Vec::new();
        while let Some(owner) = gateway.poll_owner() {
            owners.push(owner);
        }
        while let Some((place, to, packet)) = gateway.poll_given() {
            let capture = self.places.get(place).and_then(|it| it.capture.as_ref());
            // A packet that is lost here might have been lost anywhere.
            let _ = capture.map(|capture| capture.give(&packet, to));
        }
        for (id, result) in answers {
            self.gateway_answered(now, node, id, result);
        }
        for (id, owner) in owners {
            self.owner_is(now, node, id, owner);
        }
        is_eager
    }
}
