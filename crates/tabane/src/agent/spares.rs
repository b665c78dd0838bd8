//! Sockets that a place has ready, so that its supervisor need not be asked for each: those that speak for programs of
//! other nodes to the place's programs, and those by which its programs leave their namespace and have their ports
//! outside.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use tabane_io::capture::{Outward, Speaker};
use tabane_io::handover::DESCRIPTORS_MAX;
use tabane_proto::{Node, Time};

use super::Agent;
use super::datagrams::tell_nowhere;
use super::flows;
use super::place::{Awaited, Ends, Way};
use super::words::{ToSupervisor, Transport};
use crate::closing::Lent;

/// Sockets that speak for programs of other nodes, which a place has ready.
const SPEAKERS: usize = 8;
/// Number of ready sockets by which programs leave and have ports, of each kind: this many connections, first datagrams
/// and ports need not wait. (They also serve a program that has ended meanwhile, when nobody would make any more.)
const OUTWARD: usize = 2;
/// Most that it has, of all kinds: as many as come at once find room.
pub(super) const SPARES_MAX: usize = 6 * DESCRIPTORS_MAX;

/// Sockets of one kind, and what waits for one.
#[derive(Debug)]
struct Pool<T, W> {
    ready: Vec<T>,
    waiting: VecDeque<W>,
    /// More are on their way.
    is_asked: bool,
}

impl<T, W> Default for Pool<T, W> {
    fn default() -> Pool<T, W> {
        Pool {
            ready: Vec::new(),
            waiting: VecDeque::new(),
            is_asked: false,
        }
    }
}

impl<T, W> Pool<T, W> {
    /// How many to ask for now, if any, so that `ready` of them are left besides those that connections here, and
    /// others, wait for.
    fn ask(&mut self, ready: usize, others: usize) -> Option<usize> {
        let wanted = ready + self.waiting.len() + others;
        if self.is_asked || self.ready.len() + ready / 2 > wanted {
            return None;
        }
        self.is_asked = true;
        Some((wanted - self.ready.len()).min(DESCRIPTORS_MAX))
    }

    /// One has come. Given back: there is no room for it.
    fn add(&mut self, one: T) -> Option<T> {
        if self.ready.len() >= DESCRIPTORS_MAX {
            return Some(one);
        }
        self.ready.push(one);
        None
    }
}

/// Kind of a socket by which programs leave, or have ports: protocol, and whether IPv6.
pub(super) type SocketKind = (Transport, bool);

/// A first datagram, and its ends.
type First = (flows::Ends, Vec<u8>);

/// All that a place has, of IPv4 and of IPv6.
#[derive(Debug, Default)]
pub(super) struct Spares {
    speakers: [Pool<Lent<Speaker>, ()>; 2],
    streams: [Pool<Lent<Outward>, Ends>; 2],
    datagrams: [Pool<Lent<Outward>, First>; 2],
}

impl Spares {
    /// Ready sockets of a kind by which programs leave, or have ports.
    fn outward(&mut self, (transport, is_v6): SocketKind) -> &mut Vec<Lent<Outward>> {
        match transport {
            Transport::Tcp => &mut self.streams[usize::from(is_v6)].ready,
            Transport::Udp => &mut self.datagrams[usize::from(is_v6)].ready,
        }
    }

    /// Whether a datagram waits for a socket: then those behind it do, in the namespace's own queue.
    pub fn hold_datagrams(&self) -> bool {
        self.datagrams.iter().any(|pool| !pool.waiting.is_empty())
    }
}

impl Agent {
    /// A socket to connect to a program of a place, if there is one. There soon will be others.
    pub(super) fn take_speaker(&mut self, index: usize, is_v6: bool) -> Option<Lent<Speaker>> {
        let place = self.places.get_mut(index)?;
        let speaker = place.spares.speakers[usize::from(is_v6)].ready.pop();
        self.fill_speakers(index, is_v6);
        speaker
    }

    /// Asks for such sockets, if there are few.
    pub(super) fn fill_speakers(&mut self, index: usize, is_v6: bool) {
        let place = self.places.get_mut(index);
        let count =
            place.and_then(|place| place.spares.speakers[usize::from(is_v6)].ask(SPEAKERS, 0));
        if let Some(count) = count {
            self.tell(index, &ToSupervisor::Spare { count, is_v6 });
        }
    }

    /// They have come. Takes the descriptors that are wanted.
    pub(super) fn add_speakers(&mut self, index: usize, is_v6: bool, come: &mut Vec<OwnedFd>) {
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        let pool = &mut place.spares.speakers[usize::from(is_v6)];
        pool.is_asked = false;
        for descriptor in core::mem::take(come) {
            match Speaker::from_descriptor(descriptor) {
                Ok(speaker) => drop(pool.add(self.closing.lend(place.uid, speaker))),
                Err(other) => come.push(other),
            }
        }
    }

    /// A held connection leaves its namespace plainly: now, or as soon as there is a socket for it.
    pub(super) fn leave(&mut self, now: Time, index: usize, ends: Ends, way: Way) {
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        let Some(held) = place.held.get_mut(&ends) else {
            return;
        };
        held.awaited = Awaited::Socket(way);
        let family = usize::from(ends.1.is_ipv6());
        place.spares.streams[family].waiting.push_back(ends);
        self.serve_waiting(now, index, Transport::Tcp, ends.1.is_ipv6());
    }

    /// A first datagram leaves its namespace: likewise.
    pub(super) fn send_first(&mut self, now: Time, ends: flows::Ends, data: Vec<u8>) {
        let (index, _, to) = ends;
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        let pool = &mut place.spares.datagrams[usize::from(to.is_ipv6())];
        pool.waiting.push_back((ends, data));
        self.serve_waiting(now, index, Transport::Udp, to.is_ipv6());
    }

    /// Sockets by which a place's programs leave have come; none if they could not be made. Takes the descriptors that
    /// are wanted.
    pub(super) fn add_outward(
        &mut self,
        now: Time,
        node: &mut Node,
        index: usize,
        kind: SocketKind,
        come: &mut Vec<OwnedFd>,
    ) {
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        let (transport, is_v6) = kind;
        let is_tcp = transport == Transport::Tcp;
        match is_tcp {
            true => place.spares.streams[usize::from(is_v6)].is_asked = false,
            false => place.spares.datagrams[usize::from(is_v6)].is_asked = false,
        }
        let mut is_any = false;
        for descriptor in core::mem::take(come) {
            match Outward::from_descriptor(descriptor, is_tcp, is_v6, self.network) {
                Ok(outward) => {
                    is_any = true;
                    let outward = self.closing.lend(place.uid, outward);
                    let ready = place.spares.outward(kind);
                    if ready.len() < DESCRIPTORS_MAX {
                        ready.push(outward);
                    }
                }
                Err(other) => come.push(other),
            }
        }
        if is_any {
            self.serve_waiting(now, index, transport, is_v6);
            self.serve_claims(now, node, index, kind);
        } else {
            self.has_none(index, kind);
        }
        self.watch_datagrams(index);
    }

    /// Sockets of a kind cannot be had for a place. They are asked for again when something is to leave.
    fn has_none(&mut self, index: usize, kind: SocketKind) {
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        let family = usize::from(kind.1);
        // The programs' kernel repeats their SYNs; a datagram is lost.
        match kind.0 {
            Transport::Tcp => {
                for ends in place.spares.streams[family].waiting.drain(..) {
                    place.held.remove(&ends);
                }
            }
            Transport::Udp => place.spares.datagrams[family].waiting.clear(),
        }
        self.fail_claims(index, kind);
    }

    /// A socket of a place's user for a port, if there is one.
    pub(super) fn take_outward(&mut self, index: usize, kind: SocketKind) -> Option<Lent<Outward>> {
        if self.network.is_none() {
            // Of which network namespace a user's is cannot be known: one of the daemon's own does instead.
            let own = Outward::new(kind.0 == Transport::Tcp, kind.1);
            return own.ok().map(Lent::ours);
        }
        self.places.get_mut(index)?.spares.outward(kind).pop()
    }

    /// It was not wanted, if it is still there. There soon will be others.
    pub(super) fn give_back_outward(
        &mut self,
        index: usize,
        kind: SocketKind,
        spare: Option<Lent<Outward>>,
    ) {
        if let (Some(spare), Some(place), true) =
            (spare, self.places.get_mut(index), self.network.is_some())
        {
            place.spares.outward(kind).push(spare);
        }
        self.fill_outward(index, kind);
    }

    /// Gives sockets to waiting connections, as far as there are any, and asks for more.
    fn serve_waiting(&mut self, now: Time, index: usize, transport: Transport, is_v6: bool) {
        match transport {
            Transport::Tcp => self.connect_waiting(now, index, is_v6),
            Transport::Udp => self.send_waiting(now, index, is_v6),
        }
        self.fill_outward(index, (transport, is_v6));
    }

    /// Asks for sockets by which programs leave, if few are left.
    pub(super) fn fill_outward(&mut self, index: usize, kind: SocketKind) {
        let claims = self.claims_for(index, kind);
        let Some(place) = self.places.get_mut(index) else {
            return;
        };
        let (transport, is_v6) = kind;
        let family = usize::from(is_v6);
        let count = match transport {
            Transport::Tcp => place.spares.streams[family].ask(OUTWARD, claims),
            Transport::Udp => place.spares.datagrams[family].ask(OUTWARD, claims),
        };
        if let Some(count) = count {
            let asked = ToSupervisor::Outward {
                count,
                transport,
                is_v6,
            };
            self.tell(index, &asked);
        }
    }

    fn connect_waiting(&mut self, now: Time, index: usize, is_v6: bool) {
        while let Some(place) = self.places.get_mut(index) {
            let pool = &mut place.spares.streams[usize::from(is_v6)];
            let Some(ends) = pool.waiting.front().copied() else {
                return;
            };
            // A connection that was given up, or waits for something else by now, needs none.
            let way = match place.held.get(&ends).map(|held| &held.awaited) {
                Some(Awaited::Socket(way)) => *way,
                _ => {
                    pool.waiting.pop_front();
                    continue;
                }
            };
            let Some(outward) = pool.ready.pop() else {
                return;
            };
            pool.waiting.pop_front();
            self.attempt(now, index, ends, outward, way);
        }
    }

    fn send_waiting(&mut self, now: Time, index: usize, is_v6: bool) {
        while let Some(place) = self.places.get_mut(index) {
            let Some(capture) = &place.capture else {
                return;
            };
            let pool = &mut place.spares.datagrams[usize::from(is_v6)];
            let Some((ends, data)) = pool.waiting.front() else {
                return;
            };
            let ends = *ends;
            if let Some(sent) = self.flows.send(now, ends, capture, data) {
                tell_nowhere(capture, ends.1, ends.2, sent);
            } else {
                let Some(outward) = pool.ready.pop() else {
                    return;
                };
                if self.begin_flow(now, ends, outward) {
                    // It is sent at the next turn of this loop.
                    continue;
                }
            }
            if let Some(place) = self.places.get_mut(index) {
                let pool = &mut place.spares.datagrams[usize::from(is_v6)];
                pool.waiting.pop_front();
            }
        }
    }
}
