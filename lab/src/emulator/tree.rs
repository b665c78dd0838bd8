//! Trees of store-and-forward switches: a frame is passed on when it is there whole, as by any Ethernet switch but
//! not by the kernel's bridges, which take 3 to 5 µs whatever its size.
//!
//! All switches of a link are in here, and only the nodes' cables are devices. A frame's way is computed by the time at which it
//! came, by the kernel's clock, and by what else waited at each port then: so it is put in where it goes at the right time, however late
//! this process was woken on the way.
//! ```text
//! eth0 ─── p0 ─ leaf 0 ─┬─ root ─┬─ leaf 1 ─ p2 ─── eth0
//!              p1 ──────┘        └─ …
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::packet::PacketSocket;
use super::queue::FRAME_BYTES_MAX;
use crate::namespace::Place;
use crate::{sys, wiring};

/// What a wire carries around a frame: preamble, checksum, gap.
const AROUND_BYTES: u64 = 24;
/// A port drops what would wait longer than this.
const QUEUE_NS: u64 = 50_000_000;
/// In front of a frame.
const VIRTIO_HEADER_BYTES: usize = 10;
/// Frames taken from one node before the others get their turn.
const TURN_FRAMES: usize = 64;
/// Ports from a node to another one of the same leaf, and of another one.
const NEAR: usize = 2;
const FAR: usize = 4;

/// A frame on its way.
#[derive(Debug)]
struct Flight {
    from: usize,
    to: usize,
    /// Ports that it has passed.
    passed: usize,
    frame: Vec<u8>,
}

/// The switches of one link.
#[derive(Debug)]
pub(crate) struct Tree {
    link: usize,
    nodes: Vec<PacketSocket>,
    /// The leaf of each node.
    leaf_of: Vec<usize>,
    bits_per_s: u64,
    /// Until when each port sends: those of the nodes, those to the nodes, those to the root, those from it.
    busy_ns: Vec<u64>,
    /// When something happens to which flight, in order; what happens at the same time in the order in which it came.
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    count: u64,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

impl Tree {
    /// With so many nodes on each leaf.
    pub fn new(switch: &Place, link: usize, leaves: &[usize], bits_per_s: u64) -> io::Result<Tree> {
        let leaf_of = leaves.iter().enumerate();
        let leaf_of: Vec<usize> = leaf_of
            .flat_map(|(leaf, nodes)| std::iter::repeat_n(leaf, *nodes))
            .collect();
        let open = |node: usize| PacketSocket::stamping(switch, &wiring::port(node));
        let nodes = (0..leaf_of.len()).map(open).collect::<io::Result<_>>()?;
        Ok(Tree {
            link,
            nodes,
            busy_ns: vec![0; 2 * (leaf_of.len() + leaves.len())],
            leaf_of,
            bits_per_s,
            events: BinaryHeap::new(),
            count: 0,
            flights: Vec::new(),
            free: Vec::new(),
            buffer: vec![0; FRAME_BYTES_MAX],
        })
    }

    /// What to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.nodes.iter().map(|node| node.as_fd())
    }

    /// Takes in what has come from a node.
    pub fn take_in(&mut self, node: usize) {
        let clock = sys::Clock::read();
        for _ in 0..TURN_FRAMES {
            let Some((bytes, at_ns)) = self.nodes[node].receive_at(&mut self.buffer, &clock) else {
                return;
            };
            let shortest = VIRTIO_HEADER_BYTES + wiring::ETHERNET_HEADER_BYTES as usize;
            if !(shortest..=FRAME_BYTES_MAX).contains(&bytes) {
                continue;
            }
            match self.receiver(bytes) {
                Some(to) => self.begin(node, to, bytes, at_ns),
                None => (0..self.nodes.len())
                    .filter(|to| *to != node)
                    .for_each(|to| self.copy(node, to, bytes, at_ns)),
            }
        }
    }

    /// Whose address the frame in the buffer goes to; none: everybody's.
    fn receiver(&self, bytes: usize) -> Option<usize> {
        let to = &self.buffer[VIRTIO_HEADER_BYTES..bytes][..6];
        let node = usize::from(to[5]).checked_sub(1)?;
        let is_one = to == wiring::hardware_address(self.link, node) && node < self.nodes.len();
        is_one.then_some(node)
    }

    fn begin(&mut self, from: usize, to: usize, bytes: usize, at_ns: u64) {
        if from != to {
            self.launch(from, to, bytes, false, at_ns);
        }
    }

    /// A copy of what goes to all. It takes as long, and no room.
    fn copy(&mut self, from: usize, to: usize, bytes: usize, at_ns: u64) {
        let ports = self.ports(from, to) as u64;
        let at_ns = at_ns + ports * self.wire_ns(bytes - VIRTIO_HEADER_BYTES);
        self.launch(from, to, bytes, true, at_ns);
    }

    fn launch(&mut self, from: usize, to: usize, bytes: usize, is_copy: bool, at_ns: u64) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.flights[place] = Some(Flight {
            from,
            to,
            passed: if is_copy { self.ports(from, to) } else { 0 },
            frame: self.buffer[..bytes].to_vec(),
        });
        self.schedule(at_ns, place);
    }

    fn schedule(&mut self, at_ns: u64, place: usize) {
        self.count += 1;
        self.events.push(Reverse((at_ns, self.count, place)));
    }

    /// How long a frame is on a wire.
    fn wire_ns(&self, frame_bytes: usize) -> u64 {
        let shortest = 60;
        let bytes = frame_bytes.max(shortest) as u64 + AROUND_BYTES;
        bytes * 8_000_000_000 / self.bits_per_s
    }

    fn ports(&self, from: usize, to: usize) -> usize {
        match self.leaf_of[from] == self.leaf_of[to] {
            true => NEAR,
            false => FAR,
        }
    }

    /// The port that a flight passes next.
    fn port(&self, flight: &Flight) -> Option<usize> {
        let nodes = self.nodes.len();
        let leaves = self.busy_ns.len() / 2 - nodes;
        let left = self
            .ports(flight.from, flight.to)
            .checked_sub(flight.passed)?;
        Some(match left {
            0 => return None,
            1 => nodes + flight.to,
            2 if flight.passed > 0 => 2 * nodes + leaves + self.leaf_of[flight.to],
            3 => 2 * nodes + self.leaf_of[flight.from],
            _ => flight.from,
        })
    }

    /// Moves on everything that is due; returns when the next thing is.
    pub fn move_on(&mut self) -> Option<u64> {
        while let Some(&Reverse((at_ns, _, place))) = self.events.peek() {
            if at_ns > sys::monotonic_ns() {
                return Some(at_ns);
            }
            self.events.pop();
            let Some(mut flight) = self.flights[place].take() else {
                continue;
            };
            let Some(port) = self.port(&flight) else {
                self.nodes[flight.to].send(&flight.frame);
                self.free.push(place);
                continue;
            };
            let begins_ns = self.busy_ns[port].max(at_ns);
            if begins_ns - at_ns > QUEUE_NS {
                self.free.push(place);
                continue;
            }
            let frame_bytes = flight.frame.len() - VIRTIO_HEADER_BYTES;
            let ends_ns = begins_ns + self.wire_ns(frame_bytes);
            self.busy_ns[port] = ends_ns;
            flight.passed += 1;
            self.flights[place] = Some(flight);
            self.schedule(ends_ns, place);
        }
        None
    }
}
