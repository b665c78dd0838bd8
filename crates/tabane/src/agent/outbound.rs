//! Connections that begin here: held until the far end's answer is known.

use core::cell::Cell;
use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

use slab::Slab;
use tabane_io::capture::{Capture, Outward, Syn, Unreachable, has_address, reset};
use tabane_io::poll::Interest;
use tabane_proto::op::Policy;
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::opening::{CODE_BUSY, CODE_NOBODY, CODE_REFUSED, CODE_RESET, Opening, SERVICE_TCP};
use super::place::{Awaited, Ends, Held, Place, Way};
use super::relay::Far;
use super::{Agent, Attempt, Directory, Kind, Owner, WAIT_MAX, WAITS, token};
use crate::closing::Lent;

/// If a peer was never there and was sought for this long, it is not just connecting: its node is away, or
/// runs without tabane.
const PEER_NEW_MAX: Duration = Duration::from_secs(3);

/// Connections taken in from one socket before others have their turn.
pub(super) const TURN_CONNECTIONS: usize = 64;

/// The peer that a connecting socket has reached.
///
/// # Errors
/// Why it has reached nobody; or it did, and was reset since.
pub(super) fn reached_by(socket: &TcpStream) -> io::Result<SocketAddr> {
    let fails = |socket: &TcpStream| socket.take_error()?.map_or(Ok(()), Err);
    fails(socket)?;
    // If a reset comes between the two calls, report that.
    socket
        .peer_addr()
        .or_else(|gone| fails(socket).and(Err(gone)))
}

impl Agent {
    pub(super) fn take_syns(
        &mut self,
        now: Time,
        node: &mut Node,
        directory: &impl Directory,
        index: usize,
    ) {
        // The poller reports the rest.
        for _ in 0..TURN_CONNECTIONS {
            let Some(capture) = self.places.get(index).and_then(|p| p.capture.as_ref()) else {
                return;
            };
            let next = capture.next_syn();
            let Ok(Some(syn)) = self.taken(next) else {
                return;
            };
            self.hold(now, node, directory, index, syn);
        }
    }

    /// A program connects: asks the target.
    pub(super) fn hold(
        &mut self,
        now: Time,
        node: &mut Node,
        directory: &impl Directory,
        index: usize,
        syn: Syn,
    ) {
        let place = &mut self.places[index];
        let to = syn.destination.ip();
        let ends = (syn.source, syn.destination);
        if let Some(held) = place.held.get_mut(&ends) {
            held.is_repeated(syn, now);
            if let (Awaited::Admitted(_), Some(capture)) = (&held.awaited, &place.capture) {
                // The SYN was lost, or its answer.
                let _ = capture.admit(&held.syn);
            }
            return;
        }
        if !self.has_room() || !self.may_connect(index) {
            // The program's kernel repeats it.
            return;
        }
        let held = Held::new(syn, now);
        let place = &mut self.places[index];
        place.held.insert(ends, held);
        let from = ends.0.ip();
        if place.is_outside(to) {
            return self.ask_whose(now, node, index, ends);
        }
        if place.is_own(to) {
            return self.go_within_node(now, index, ends);
        }
        match directory.peer_at(to) {
            Some(peer) if directory.is_own(from) => self.ask_peer(now, node, index, ends, peer),
            // All addresses can be bound in a namespace. Whether this one is the node's, its kernel knows.
            Some(_) => {
                let from = self.places[index].is_chosen(from).then_some(from);
                self.go_plainly(now, index, ends, from);
            }
            None => self.leave(now, index, ends, Way::to(ends.1)),
        }
    }

    /// A program connects to an address of its own node, or loopback, where nobody in its namespace listens:
    /// perhaps another program of the node does.
    pub(super) fn go_within_node(&mut self, now: Time, index: usize, ends: Ends) {
        match self.way_within_node(index, ends) {
            Some(way) => self.leave(now, index, ends, way),
            None => {
                let error = io::ErrorKind::ConnectionRefused.into();
                self.conclude(now, index, ends, Err(error));
            }
        }
    }

    /// The way to an own address of a place, at its node. Without the virtual NIC (only this user's programs
    /// have a daemon) it is another of the node's addresses; `None`: there is none.
    pub(super) fn way_within_node(&mut self, index: usize, (from, to): Ends) -> Option<Way> {
        let is_here = |agent: &mut Agent, address: IpAddr| {
            let known = agent.here.entry(address);
            *known.or_insert_with(|| address.is_loopback() || has_address(address))
        };
        let own = self.places.get(index)?.own_like(to.ip());
        let at = core::iter::once(to.ip()).chain(own);
        let at: Vec<IpAddr> = at.collect();
        let at = at.into_iter().find(|at| is_here(self, *at))?;
        let is_whole = at == to.ip() && is_here(self, from.ip());
        Some(Way {
            from: is_whole.then_some(from.ip()),
            to: (at, to.port()).into(),
        })
    }

    /// Asks a node whether a program there accepts. Waits for a node that is just being connected. For one
    /// that has not been there since this one began, uses plain TCP; if that is forbidden, waits as for a
    /// host that does not answer.
    pub(super) fn ask_peer(
        &mut self,
        now: Time,
        node: &mut Node,
        place: usize,
        ends: Ends,
        peer: PeerId,
    ) {
        let Some(asking) = self.places.get_mut(place) else {
            return;
        };
        let owner = self.books.owner(asking.number);
        let opening = Opening {
            from: self.rights.shown(asking.uid, ends.0),
            to: ends.1,
        };
        let Some(held) = asking.held.get_mut(&ends) else {
            return;
        };
        if !node.has_been_connected(peer) {
            node.want(now, peer);
            let since = node.peer_stats(peer).map(|stats| stats.since);
            let is_new = since.is_some_and(|at| now.since(at) < PEER_NEW_MAX);
            if is_new || !self.rules.plain_tcp {
                held.awaited = Awaited::Peer(peer);
                return;
            }
        } else if let Some(stream) = open(now, node, peer, &opening, owner) {
            // If it is away, the stream waits for it to be back, and the program with it.
            held.awaited = Awaited::Stream(peer, stream);
            let owner = Owner::Held(place, ends);
            self.owners.insert((peer, stream), owner);
            return;
        }
        self.go_plainly(now, place, ends, None);
    }

    /// A peer is connected (again): asks it for the connections that wait for it.
    pub fn peer_up(&mut self, now: Time, node: &mut Node, peer: PeerId) {
        for (place, ends) in self.waiting_for(|held| held.awaits_peer() == Some(peer)) {
            self.ask_peer(now, node, place, ends, peer);
        }
    }

    /// Connections that have waited long enough for a peer use plain TCP.
    pub(super) fn give_peers_up(&mut self, now: Time) {
        if !self.rules.plain_tcp {
            return;
        }
        let has_waited =
            |held: &Held| held.awaits_peer().is_some() && now.since(held.since) >= PEER_NEW_MAX;
        for (place, ends) in self.waiting_for(has_waited) {
            self.go_plainly(now, place, ends, None);
        }
    }

    pub(super) fn waiting_for(&self, is_meant: impl Fn(&Held) -> bool) -> Vec<(usize, Ends)> {
        let of_place = |(index, place): (usize, &'_ Place)| {
            let held = place.held.iter().filter(|(_, held)| is_meant(held));
            held.map(move |(ends, _)| (index, *ends))
                .collect::<Vec<_>>()
        };
        self.places.iter().flat_map(of_place).collect()
    }

    /// The stream that asked another agent, or was to carry the connection, broke: that node has restarted.
    pub(super) fn broke(&mut self, now: Time, node: &mut Node, place: usize, ends: Ends) {
        let Some(held) = self.places.get_mut(place).map(|place| &mut place.held) else {
            return;
        };
        match held.get(&ends).map(|held| &held.awaited) {
            Some(Awaited::Stream(peer, _)) => {
                let peer = *peer;
                self.ask_peer(now, node, place, ends, peer);
            }
            // The program's kernel has been told already: the connection that comes out is reset.
            Some(Awaited::Admitted(_)) => drop(held.remove(&ends)),
            _ => {}
        }
    }

    /// Connects by plain TCP to another node of the cluster, or refuses if the file says so.
    fn go_plainly(&mut self, now: Time, place: usize, ends: Ends, from: Option<IpAddr>) {
        let is_outside = |place: &Place| place.is_outside(ends.1.ip());
        if self.places.get(place).is_some_and(is_outside) {
            // This address does not lead to the node that has the port.
            let error = io::ErrorKind::ConnectionRefused.into();
            return self.conclude(now, place, ends, Err(error));
        }
        if !self.rules.plain_tcp {
            self.tell_kept_from_plain(ends.1);
            let error = io::ErrorKind::ConnectionRefused.into();
            return self.conclude(now, place, ends, Err(error));
        }
        self.leave(now, place, ends, Way { from, to: ends.1 });
    }

    /// Connects plainly by this socket.
    pub(super) fn attempt(
        &mut self,
        now: Time,
        place: usize,
        ends: Ends,
        outward: Lent<Outward>,
        way: Way,
    ) {
        let connect = || outward.connect(way.from, way.to);
        let connected = self.alarm.bounds(WAIT_MAX, connect);
        if let Err(error) = connected {
            if error.kind() == io::ErrorKind::Interrupted {
                self.must_end(place, WAITS);
            }
            return self.conclude(now, place, ends, Err(error));
        }
        let plain = outward.map(TcpStream::from);
        let entry = self.attempts.vacant_entry();
        let token = token(Kind::Attempt, entry.key());
        match self.poller.register(&*plain, token, Interest::Write) {
            Ok(()) => {
                entry.insert(Attempt { plain, place, ends });
                let held = self.places.get_mut(place);
                let held = held.and_then(|place| place.held.get_mut(&ends));
                if let Some(held) = held {
                    held.awaited = Awaited::Plain;
                }
            }
            Err(error) => self.conclude(now, place, ends, Err(error)),
        }
    }

    /// A plain connection stands, or failed.
    pub(super) fn attempted(&mut self, now: Time, index: usize) {
        let Some(attempt) = self.attempts.try_remove(index) else {
            return;
        };
        let _ = self.poller.deregister(&*attempt.plain);
        let stands = match (reached_by(&attempt.plain), attempt.plain.local_addr()) {
            // A socket whose own port is its target has connected to itself: nobody listens there.
            (Ok(peer), Ok(own)) if peer == own => Err(io::ErrorKind::ConnectionRefused.into()),
            (peer, _) => peer.map(drop),
        };
        let result = stands.map(|()| Far::Plain(attempt.plain));
        self.conclude(now, attempt.place, attempt.ends, result);
    }

    /// Nobody waits any more for the attempts that this does not keep.
    pub(super) fn keep_attempts(&mut self, keeps: impl Fn(&Slab<Place>, &Attempt) -> bool) {
        let (poller, places) = (&self.poller, &self.places);
        self.attempts.retain(|_, attempt| {
            let is_kept = keeps(places, attempt);
            if !is_kept {
                // Its user may have the socket still, so that closing it is not enough.
                let _ = poller.deregister(&*attempt.plain);
            }
            is_kept
        });
    }

    /// The other agent says whether a program there accepts.
    pub(super) fn answered(&mut self, now: Time, node: &mut Node, place: usize, ends: Ends) {
        let held = self.places.get(place).and_then(|p| p.held.get(&ends));
        let Some(Awaited::Stream(peer, stream)) = held.map(|held| &held.awaited) else {
            return;
        };
        let (peer, stream) = (*peer, *stream);
        match node.read_stream(now, peer, stream, &mut [0]) {
            Ok(read) if read.len == 1 => {
                let far = Far::Stream(peer, stream);
                self.conclude(now, place, ends, Ok(far));
            }
            Ok(read) if read.fin => {
                self.owners.remove(&(peer, stream));
                self.turned_away(now, place, ends, CODE_REFUSED);
            }
            // Another event carries the reason for the reset.
            Ok(_) | Err(_) => {}
        }
    }

    /// The other agent has nobody there: perhaps the program is not under `tabane run`.
    pub(super) fn turned_away(&mut self, now: Time, place: usize, ends: Ends, code: u32) {
        let Some(p) = self.places.get_mut(place) else {
            return;
        };
        let Some(held) = p.held.get(&ends) else {
            return;
        };
        if let (CODE_RESET, Some(capture)) = (code, &p.capture) {
            // A program had accepted it, and has reset it already. The connection that comes out is reset as
            // well.
            let _ = capture.admit(&held.syn);
            p.held.remove(&ends);
            return;
        }
        if code == CODE_BUSY || code == CODE_NOBODY {
            let error = io::ErrorKind::ConnectionRefused.into();
            return self.conclude(now, place, ends, Err(error));
        }
        self.go_plainly(now, place, ends, None);
    }

    /// The far end's answer is known: passes it to the program's kernel.
    pub(super) fn conclude(
        &mut self,
        now: Time,
        place: usize,
        ends: Ends,
        result: io::Result<Far>,
    ) {
        let Some(place) = self.places.get_mut(place) else {
            return;
        };
        let Some(capture) = &place.capture else {
            return;
        };
        match result {
            Ok(far) => {
                let Some(held) = place.held.get_mut(&ends) else {
                    return;
                };
                // If this fails the program's kernel repeats the SYN, and it is tried anew.
                let _ = capture.admit(&held.syn);
                held.awaited = Awaited::Admitted(far);
                held.since = now;
            }
            Err(error) => {
                let Some(held) = place.held.remove(&ends) else {
                    return;
                };
                self.stats.refused += 1;
                // For other errors the program gets no answer, as from a silent host.
                let _ = match error.kind() {
                    io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                        capture.refuse(&held.syn)
                    }
                    // An address that does not exist, or may not be used, has no route.
                    io::ErrorKind::NetworkUnreachable
                    | io::ErrorKind::AddrNotAvailable
                    | io::ErrorKind::InvalidInput => {
                        capture.refuse_as(&held.syn, Unreachable::Network)
                    }
                    // This node's firewall does not let it pass, as a router's.
                    io::ErrorKind::HostUnreachable | io::ErrorKind::PermissionDenied => {
                        capture.refuse_as(&held.syn, Unreachable::Host)
                    }
                    _ => Ok(()),
                };
            }
        }
    }

    /// Admitted connections have come through. Returns whether there may be more.
    pub(super) fn accept(&mut self, now: Time, node: &mut Node, index: usize) -> bool {
        let accept = |agent: &Agent| {
            let place = agent.places.get(index);
            let capture = place.and_then(|place| place.capture.as_deref());
            capture.map_or(Ok(None), Capture::accept)
        };
        for _ in 0..TURN_CONNECTIONS {
            let accepted = self.accepted_by(index, accept, |(near, ..)| reset(near));
            let Some((near, source, destination)) = accepted else {
                return false;
            };
            let held = self.places[index].held.remove(&(source, destination));
            match held.map(|held| held.awaited) {
                Some(Awaited::Admitted(far)) => {
                    let ends = (source, destination);
                    self.begin(now, node, index, Lent::ours(near), far, ends);
                }
                // The carrier is gone.
                _ => reset(near),
            }
        }
        true
    }

    /// A result of accepting on a socket that the place's user has as well: if the user made it blocking,
    /// the place must end.
    pub(super) fn accepted_by<T>(
        &mut self,
        place: usize,
        accept: impl Fn(&Agent) -> io::Result<Option<T>>,
        turn_away: impl FnOnce(T),
    ) -> Option<T> {
        let has_waited = Cell::new(false);
        let accept = |agent: &Agent| {
            let accepted = agent.alarm.bounds(WAIT_MAX, || accept(agent));
            let is_late = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
            has_waited.set(accepted.as_ref().is_err_and(is_late));
            accepted
        };
        let accepted = self.accepted(accept, turn_away);
        if has_waited.get() {
            self.must_end(place, WAITS);
        }
        accepted
    }
}

/// A stream of `owner` to the agent of a peer that begins with `opening`.
fn open(
    now: Time,
    node: &mut Node,
    peer: PeerId,
    opening: &Opening,
    owner: u32,
) -> Option<StreamId> {
    let stream = node
        .open_stream(now, peer, SERVICE_TCP, Policy::Auto)
        .ok()?;
    // A stream that was just opened is there.
    let _ = node.set_stream_owner(peer, stream, owner);
    // A new stream takes so few bytes.
    node.write_stream(now, peer, stream, &opening.encode())
        .ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    const TIMES: usize = 2_000;

    #[test]
    fn a_reset_is_told_as_one_whenever_it_comes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let at = listener.local_addr().expect("is bound");
        let server = thread::spawn(move || {
            for stream in listener.incoming().take(TIMES) {
                // Closing a socket with unread data resets the connection.
                stream
                    .and_then(|stream| stream.peek(&mut [0]))
                    .expect("a byte");
            }
        });
        for _ in 0..TIMES {
            let mut socket = TcpStream::connect(at).expect("is accepted");
            socket.write_all(b"x").expect("is sent");
            let error = loop {
                if let Err(error) = reached_by(&socket) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        server.join().expect("ends");
    }
}
