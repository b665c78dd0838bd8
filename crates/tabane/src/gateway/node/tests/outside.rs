//! The outside's network: a switch that learns where addresses of Ethernet are, and clients with kernels of their own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tabane_proto::Time;

use super::packets::{Said, ethernet};
use super::{ADDRESSES, Mac};
use crate::gateway::neighbours::{Hop, Neighbours, Told};
use crate::vswitch::VNET_HDR_BYTES;
use crate::vswitch::frame::ETHERNET_BYTES;

/// A place at the switch.
pub type Port = usize;

/// A switch.
#[derive(Debug, Default)]
pub struct Switch {
    known: BTreeMap<Mac, Port>,
}

impl Switch {
    /// A frame comes in at a port. Those at which it goes out, of so many.
    pub fn passes(&mut self, from: Port, frame: &[u8], ports: usize) -> Vec<Port> {
        let mac = |at: usize| -> Mac { frame[at..at + 6].try_into().expect("an address") };
        let (to, source) = (mac(0), mac(6));
        self.known.insert(source, from);
        match self.known.get(&to) {
            Some(port) if to[0] & 1 == 0 => vec![*port],
            _ => (0..ports).filter(|port| *port != from).collect(),
        }
    }

    /// A cable is out: what was behind it is not known any more.
    pub fn unplugged(&mut self, port: Port) {
        self.known.retain(|_, known| *known != port);
    }
}

/// A client.
#[derive(Debug)]
pub struct Client {
    pub mac: Mac,
    neighbours: Neighbours,
}

pub fn client_address(client: usize, is_v4: bool) -> IpAddr {
    match is_v4 {
        true => Ipv4Addr::new(203, 0, 113, 10 + client as u8).into(),
        false => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10 + client as u16).into(),
    }
}

impl Client {
    pub fn new(client: usize) -> Client {
        let mac = [2, 0, 0, 0, 2, client as u8];
        let own = [
            (client_address(client, true), 24),
            (client_address(client, false), 64),
        ];
        Client {
            mac,
            neighbours: Neighbours::new(mac, &own, &[]),
        }
    }

    /// Its kernel sends something: the frames that go now.
    pub fn sends(&mut self, now: Time, said: &Said) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let hop = self
            .neighbours
            .look_up(now, said.to.ip(), &mut |question: Vec<u8>| {
                frames.push(question[VNET_HDR_BYTES..].to_vec());
            });
        match hop {
            Hop::Known(to) => frames.push(ethernet(to, self.mac, &said.packet())),
            Hop::Asked(hop) => {
                let frame = ethernet(Mac::default(), self.mac, &said.packet());
                self.neighbours
                    .keep(hop, [vec![0; VNET_HDR_BYTES], frame].concat());
            }
            Hop::Nowhere => {}
        }
        frames
    }

    /// A frame comes. Frames that it sends for that, and the packet, if it is one for its kernel.
    pub fn hears<'a>(&mut self, now: Time, frame: &'a [u8]) -> (Vec<Vec<u8>>, Option<&'a [u8]>) {
        if frame[0] & 1 == 0 && frame[..6] != self.mac {
            return (Vec::new(), None);
        }
        let behind = &frame[ETHERNET_BYTES..];
        let received = [&[0; VNET_HDR_BYTES][..], behind].concat();
        let told = match frame[12..14] == [8, 6] {
            true => Some(self.neighbours.hear_arp(now, &received)),
            false => self.neighbours.hear_neighbour(now, &received),
        };
        match told {
            Some(Told { answer, ready, .. }) => {
                let frames = answer.into_iter().chain(ready);
                (
                    frames
                        .map(|frame| frame[VNET_HDR_BYTES..].to_vec())
                        .collect(),
                    None,
                )
            }
            None => (Vec::new(), Some(behind)),
        }
    }
}

/// Whether a frame speaks for the outside addresses.
pub fn speaks_for_cluster(frame: &[u8]) -> bool {
    let own = |ip: IpAddr| ADDRESSES.iter().any(|(address, _)| *address == ip);
    let behind = &frame[ETHERNET_BYTES..];
    if frame[12..14] == [8, 6] {
        return crate::vswitch::frame::Arp::parse(behind).is_some_and(|arp| own(arp.sender.into()));
    }
    crate::vswitch::frame::Packet::of_ip(behind).is_some_and(|packet| own(packet.source))
}
