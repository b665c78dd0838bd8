//! The wires between very many nodes: on each network the nodes' ports and, between switches with some of them each, trunks to
//! one switch in the middle. Every port stores a datagram, forwards it, and drops what its queue has no room for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tabane_proto::Time;

use crate::agenda::Datagram;

/// What a port's queue holds, in bytes.
const QUEUE_BYTES: u64 = 512 * 1024;
/// A node's socket takes nothing while so much waits for the node's own port.
const SOCKET_BYTES: u64 = 256 * 1024;
/// Ethernet, IPv4 and UDP around each datagram.
const AROUND_BYTES: usize = 66;
/// Through a switch, beside the time to store it.
const LATENCY: Duration = Duration::from_micros(5);
/// A node's port.
const NODE_MBPS: u64 = 1000;

/// What the wires are like.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Switches with nodes on each network.
    pub switches: usize,
    /// Nodes on each of them, those with the lowest numbers on the first.
    pub nodes_each: usize,
    /// What a trunk carries each way.
    pub trunk_mbps: u64,
}

#[derive(Clone, Copy)]
struct Port {
    free_at: Time,
    mbps: u64,
    lost: u64,
}

/// A datagram on its way: ordered by when it comes to its next port, or its end.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Moving {
    at: Time,
    number: u64,
    to: usize,
    /// Ports still to be passed, the last one first.
    ports: Vec<usize>,
    datagram: Datagram,
}

/// All networks.
pub(super) struct Wires {
    layout: Layout,
    networks: u8,
    ports: Vec<Port>,
    moving: BinaryHeap<Reverse<Moving>>,
    number: u64,
}

impl Wires {
    pub fn new(layout: Layout, networks: u8) -> Wires {
        let port = |mbps| Port {
            free_at: Time::ZERO,
            mbps,
            lost: 0,
        };
        let nodes = layout.switches * layout.nodes_each;
        // In and out of each node, then up and down from each switch.
        let of_one = (0..2 * nodes).map(|_| port(NODE_MBPS));
        let of_one = of_one.chain((0..2 * layout.switches).map(|_| port(layout.trunk_mbps)));
        let of_one: Vec<Port> = of_one.collect();
        Wires {
            layout,
            networks,
            ports: of_one.repeat(networks.into()),
            moving: BinaryHeap::new(),
            number: 0,
        }
    }

    /// Whether a node's socket takes nothing now on a network.
    pub fn is_full(&self, now: Time, host: usize, link: u8) -> bool {
        self.takes_from(host, link) > now
    }

    /// When one of a node's sockets that take nothing now takes something again.
    pub fn opens_at(&self, now: Time, host: usize) -> Option<Time> {
        let networks = 0..self.networks;
        let opens = networks.map(|link| self.takes_from(host, link));
        opens.filter(|at| *at > now).min()
    }

    fn takes_from(&self, host: usize, link: u8) -> Time {
        let port = self.ports[self.first_of(link) + 2 * host];
        port.free_at - Duration::from_nanos(SOCKET_BYTES * 8000 / port.mbps)
    }

    fn first_of(&self, link: u8) -> usize {
        let Layout {
            switches,
            nodes_each,
            ..
        } = self.layout;
        usize::from(link) * 2 * switches * (nodes_each + 1)
    }

    /// A node sends something to another one.
    pub fn send(&mut self, now: Time, from: usize, to: usize, datagram: Datagram) {
        let Layout {
            switches,
            nodes_each,
            ..
        } = self.layout;
        let first = self.first_of(datagram.link);
        let trunks = first + 2 * switches * nodes_each;
        let (here, there) = (from / nodes_each, to / nodes_each);
        let mut ports = vec![first + 2 * to + 1];
        if here != there {
            ports.extend([trunks + 2 * there + 1, trunks + 2 * here]);
        }
        self.number += 1;
        let moving = Moving {
            at: now,
            number: self.number,
            to,
            ports,
            datagram,
        };
        self.pass(first + 2 * from, moving);
    }

    /// What comes to a port leaves it, if the port has room for it.
    fn pass(&mut self, place: usize, mut moving: Moving) {
        let port = &mut self.ports[place];
        let waits = port.free_at.since(moving.at);
        if waits.as_nanos() as u64 * port.mbps / 8000 > QUEUE_BYTES {
            port.lost += 1;
            return;
        }
        let bits = 8 * (moving.datagram.bytes.len() + AROUND_BYTES) as u64;
        let begins = port.free_at.max(moving.at);
        port.free_at = begins + Duration::from_nanos(bits * 1000 / port.mbps);
        moving.at = port.free_at + LATENCY;
        self.moving.push(Reverse(moving));
    }

    /// When something moves next.
    pub fn next_at(&self) -> Option<Time> {
        self.moving.peek().map(|Reverse(first)| first.at)
    }

    /// Moves what is first. What comes to a node by that: to which, and when.
    pub fn step(&mut self) -> Option<(Time, usize, Datagram)> {
        let Reverse(mut moving) = self.moving.pop()?;
        let Some(place) = moving.ports.pop() else {
            return Some((moving.at, moving.to, moving.datagram));
        };
        self.pass(place, moving);
        None
    }

    /// Datagrams that a full queue dropped.
    pub fn lost(&self) -> u64 {
        self.ports.iter().map(|port| port.lost).sum()
    }
}
