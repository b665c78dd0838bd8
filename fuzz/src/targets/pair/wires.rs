//! The wires between two nodes: one for each link and direction, first in first
//! out unless somebody tampers.

use std::collections::VecDeque;
use std::net::SocketAddr;

use arbitrary::Arbitrary;
use tabane_proto::LinkId;

use crate::nodes::LINKS;

/// Datagrams that one wire holds; more are lost.
const WIRE_DATAGRAMS_MAX: usize = 2_048;
/// Datagrams that somebody on the wire remembers.
const SEEN_MAX: usize = 32;

/// A wire: from which node, on which link.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Wire(bool, bool);

/// What somebody does to a wire. Datagrams are named by their place in it.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Tamper {
    /// From now on nothing passes, or everything.
    Cut(bool),
    /// One is lost.
    Drop(u8),
    /// All are lost.
    DropAll,
    /// One comes twice.
    Duplicate(u8),
    /// One comes last.
    Delay(u8),
    /// A byte of one is changed.
    Flip(u8, u16, u8),
    /// One loses its end.
    Truncate(u8, u16),
    /// One goes over the other link.
    Cross(u8),
    /// One goes back to its sender.
    Reflect(u8),
    /// One seen before, on any wire, comes again here.
    Replay(u8),
}

struct Datagram {
    source: SocketAddr,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    datagrams: VecDeque<Datagram>,
    cut: bool,
}

#[derive(Default)]
pub struct Wires {
    /// By sender and link.
    queues: [[Queue; LINKS]; 2],
    /// Nothing is encrypted: that a packet was changed is seen by the checksum of UDP, and the kernel drops it.
    in_clear: bool,
    seen: VecDeque<Vec<u8>>,
}

impl Wires {
    pub fn new(in_clear: bool) -> Wires {
        Wires {
            in_clear,
            ..Wires::default()
        }
    }

    pub fn send(&mut self, from: usize, link: usize, source: SocketAddr, bytes: &[u8]) {
        if self.seen.len() == SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(bytes.to_vec());
        let bytes = bytes.to_vec();
        self.put(from, link, Datagram { source, bytes });
    }

    fn put(&mut self, from: usize, link: usize, datagram: Datagram) {
        let queue = &mut self.queues[from][link];
        if !queue.cut && queue.datagrams.len() < WIRE_DATAGRAMS_MAX {
            queue.datagrams.push_back(datagram);
        }
    }

    pub fn are_busy(&self) -> bool {
        let mut queues = self.queues.iter().flatten();
        queues.any(|queue| !queue.datagrams.is_empty())
    }

    /// All that `sender` has sent and that is still there, a link after the other.
    pub fn deliver(&mut self, sender: usize) -> Vec<(LinkId, SocketAddr, Vec<u8>)> {
        let mut arrived = Vec::new();
        for (link, queue) in self.queues[sender].iter_mut().enumerate() {
            let all = queue.datagrams.drain(..);
            arrived.extend(all.map(|d| (LinkId(link as u8), d.source, d.bytes)));
        }
        arrived
    }

    pub fn mend(&mut self) {
        let queues = self.queues.iter_mut().flatten();
        queues.for_each(|queue| queue.cut = false);
    }

    pub fn tamper(&mut self, wire: Wire, tamper: Tamper) {
        let (from, link) = (usize::from(wire.0), usize::from(wire.1));
        match tamper {
            Tamper::Cut(cut) => {
                self.queues[from][link].cut = cut;
                if cut {
                    self.queues[from][link].datagrams.clear();
                }
            }
            Tamper::DropAll => self.queues[from][link].datagrams.clear(),
            Tamper::Replay(which) => {
                let Some(bytes) = self.seen.get(usize::from(which) % SEEN_MAX).cloned() else {
                    return;
                };
                let source = crate::nodes::address(9, link);
                self.put(from, link, Datagram { source, bytes });
            }
            Tamper::Drop(n)
            | Tamper::Duplicate(n)
            | Tamper::Delay(n)
            | Tamper::Flip(n, ..)
            | Tamper::Truncate(n, _)
            | Tamper::Cross(n)
            | Tamper::Reflect(n) => self.tamper_one((from, link), usize::from(n), tamper),
        }
    }

    fn tamper_one(&mut self, (from, link): (usize, usize), n: usize, tamper: Tamper) {
        let queue = &mut self.queues[from][link].datagrams;
        let place = n % queue.len().max(1);
        let Some(mut datagram) = queue.remove(place) else {
            return;
        };
        let bytes = &mut datagram.bytes;
        let tamper = match tamper {
            Tamper::Flip(n, ..) if self.in_clear => Tamper::Drop(n),
            _ => tamper,
        };
        match tamper {
            Tamper::Duplicate(_) => {
                let copy = Datagram {
                    source: datagram.source,
                    bytes: bytes.clone(),
                };
                queue.insert(place, copy);
            }
            Tamper::Flip(_, at, mask) => {
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= mask;
            }
            Tamper::Truncate(_, to) => bytes.truncate(usize::from(to) % bytes.len() + 1),
            _ => {}
        }
        match tamper {
            Tamper::Drop(_) => {}
            Tamper::Flip(..) | Tamper::Truncate(..) => queue.insert(place, datagram),
            Tamper::Cross(_) => self.put(from, 1 - link, datagram),
            Tamper::Reflect(_) => self.put(1 - from, link, datagram),
            _ => self.put(from, link, datagram),
        }
    }
}
