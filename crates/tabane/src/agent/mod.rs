//! The agent: carries the TCP connections of programs under `tabane run`. Part of the daemon's
//! loop.
//!
//! Each program (with all it starts) is in a network namespace of its own, a [`Place`]: the
//! supervisor that `tabane run` leaves there hands its sockets over and stays for what can only be
//! done within. A connection begins as a [`Held`](place::Held) SYN, becomes a [`Relay`] when the
//! far end has accepted, or is refused as the far end refuses. What comes from another node's
//! agent is an [`Inbound`] until a program here has accepted it.

mod opening;
mod pipe;
mod place;
mod relay;
mod words;

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

use slab::Slab;
use tabane_io::capture::{Capture, Syn, connect_plainly};
use tabane_io::handover::HandoverListener;
use tabane_io::poll::{Interest, Poller, Ready};
use tabane_proto::op::{OpEvent, Policy};
use tabane_proto::{Node, PeerId, StreamId, Time};

pub use opening::{CODE_MALFORMED, CODE_REFUSED, Opening, SERVICE_TCP};
pub use words::{ToAgent, ToSupervisor};

use opening::{CODE_BUSY, CODE_RESET, OPENING_BYTES_MAX};
use place::{Awaited, Held, Place};
use relay::{Far, Relay, Standing};

/// Where supervisors connect to.
pub const SOCKET_NAME: &str = "tabane-run";
/// What a read from a program takes at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// Places at once; further ones are turned away.
pub const PLACES_MAX: usize = 1024;
/// Connections at once over all places; further ones are refused.
pub const RELAYS_MAX: usize = 65_536;
/// A connection that nobody wants any more is forgotten after this: longer than any kernel
/// repeats a SYN.
const HELD_MAX: Duration = Duration::from_secs(150);
/// An admitted connection comes at once, or the program has given up.
const ADMITTED_MAX: Duration = Duration::from_secs(5);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a token of the poller is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Listener = 1,
    Supervisor,
    Syn,
    Accept,
    Attempt,
    Inbound,
    Near,
    Plain,
}

const KINDS: [Kind; 8] = [
    Kind::Listener,
    Kind::Supervisor,
    Kind::Syn,
    Kind::Accept,
    Kind::Attempt,
    Kind::Inbound,
    Kind::Near,
    Kind::Plain,
];

const fn token(kind: Kind, index: usize) -> u64 {
    (kind as u64) << 56 | index as u64
}

fn kind_of(token: u64) -> Option<(Kind, usize)> {
    let kind = KINDS.into_iter().find(|kind| *kind as u64 == token >> 56)?;
    Some((kind, (token & u64::from(u32::MAX)) as usize))
}

/// Whose a stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// Of a held connection: the place and its ends.
    Held(usize, SocketAddr, SocketAddr),
    Inbound(usize),
    Relay(usize),
}

/// A plain connection that a held one waits for.
#[derive(Debug)]
struct Attempt {
    plain: TcpStream,
    place: usize,
    source: SocketAddr,
    destination: SocketAddr,
}

/// A stream of another node's agent that no program here has accepted yet.
#[derive(Debug)]
struct Inbound {
    peer: PeerId,
    stream: StreamId,
    bytes: Vec<u8>,
    opening: Option<Opening>,
    /// Places to be asked still.
    places: Vec<usize>,
    /// The socket to the program that is being connected.
    near: Option<TcpStream>,
}

/// What was counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AgentStats {
    /// Connections that were carried by a bundle.
    pub carried: u64,
    /// Connections of programs to elsewhere, carried by plain TCP.
    pub plain: u64,
    /// Connections that were refused, by the far end or since nobody was there.
    pub refused: u64,
    /// Connections that came from programs of other nodes.
    pub accepted: u64,
}

/// Who another node is, by its addresses.
pub trait Directory {
    /// The peer that has this address, for programs: that of its virtual NIC or of a link.
    fn peer_at(&self, address: IpAddr) -> Option<PeerId>;
}

/// The agent of a node.
pub struct Agent {
    poller: Arc<Poller>,
    listener: HandoverListener,
    places: Slab<Place>,
    attempts: Slab<Attempt>,
    inbound: Slab<Inbound>,
    relays: Slab<Relay>,
    owners: HashMap<(PeerId, StreamId), Owner>,
    /// Relays that had more to move than one turn.
    eager: VecDeque<usize>,
    buffer: Vec<u8>,
    look_at: Time,
    /// What was counted.
    pub stats: AgentStats,
}

impl Agent {
    /// Listens for supervisors.
    ///
    /// # Errors
    /// `AddrInUse`: another agent runs in this network namespace.
    pub fn new(poller: &Arc<Poller>, name: &str) -> io::Result<Agent> {
        let listener = HandoverListener::bind(name)?;
        poller.register(&listener, token(Kind::Listener, 0), Interest::Read)?;
        Ok(Agent {
            poller: Arc::clone(poller),
            listener,
            places: Slab::new(),
            attempts: Slab::new(),
            inbound: Slab::new(),
            relays: Slab::new(),
            owners: HashMap::new(),
            eager: VecDeque::new(),
            buffer: vec![0; BUFFER_BYTES],
            look_at: Time::ZERO,
            stats: AgentStats::default(),
        })
    }

    /// Is this token one of its own? Then call [`Agent::ready`].
    pub fn owns(token: u64) -> bool {
        kind_of(token).is_some()
    }

    /// How many programs there are (with all they started).
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// How many connections are carried now.
    pub fn relays(&self) -> usize {
        self.relays.len()
    }

    /// One of its descriptors is ready.
    pub fn ready(&mut self, now: Time, node: &mut Node, directory: &impl Directory, ready: Ready) {
        let Some((kind, index)) = kind_of(ready.token) else {
            return;
        };
        match kind {
            Kind::Listener => self.welcome(),
            Kind::Supervisor => self.hear(now, node, index),
            Kind::Syn => self.take_syns(now, node, directory, index),
            Kind::Accept => self.accept(now, node, index),
            Kind::Attempt => self.attempted(now, index),
            Kind::Inbound => self.reached(now, node, index),
            Kind::Near | Kind::Plain => self.relay(now, node, index),
        }
    }

    /// Something happened to a stream. Returns whether it was one of its own.
    pub fn event(&mut self, now: Time, node: &mut Node, peer: PeerId, event: OpEvent) -> bool {
        let (stream, broken) = match event {
            OpEvent::StreamOpened { id, service } => {
                if service == SERVICE_TCP {
                    self.opened(now, node, peer, id);
                }
                return service == SERVICE_TCP;
            }
            OpEvent::Readable(id) | OpEvent::Writable(id) | OpEvent::Finished(id) => (id, None),
            OpEvent::Reset { id, code } => (id, Some(code)),
            OpEvent::Stopped { id, code } => (id, Some(code)),
            OpEvent::Broken(id) => (id, Some(CODE_RESET)),
            OpEvent::MessagesBroken { .. } | OpEvent::MessageReady | OpEvent::MessageRoom => {
                return false;
            }
        };
        let Some(&owner) = self.owners.get(&(peer, stream)) else {
            return false;
        };
        match (owner, broken) {
            (Owner::Relay(index), None) => self.relay(now, node, index),
            (Owner::Relay(index), Some(_)) => self.reset(now, node, index),
            (Owner::Inbound(index), None) => self.read_opening(now, node, index),
            (Owner::Inbound(index), Some(_)) => self.forget_inbound(index),
            (Owner::Held(place, source, destination), None) => {
                self.answered(now, node, place, source, destination);
            }
            (Owner::Held(place, source, destination), Some(code)) => {
                self.owners.remove(&(peer, stream));
                self.turned_away(now, place, source, destination, code);
            }
        }
        true
    }

    /// Once a turn of the loop: goes on with what was interrupted, forgets what is too old.
    /// Returns whether there is more to do at once.
    pub fn turn(&mut self, now: Time, node: &mut Node) -> bool {
        for _ in 0..self.eager.len() {
            if let Some(index) = self.eager.pop_front() {
                self.relay(now, node, index);
            }
        }
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.forget_old(now, node);
        }
        !self.eager.is_empty()
    }

    // ---- places ----

    fn welcome(&mut self) {
        while let Ok(Some((supervisor, who))) = self.listener.accept() {
            if self.places.len() >= PLACES_MAX {
                continue;
            }
            let entry = self.places.vacant_entry();
            let token = token(Kind::Supervisor, entry.key());
            if self
                .poller
                .register(&supervisor, token, Interest::Read)
                .is_ok()
            {
                entry.insert(Place::new(supervisor, who));
            }
        }
    }

    /// The supervisor of a place says something, or is gone.
    fn hear(&mut self, now: Time, node: &mut Node, index: usize) {
        loop {
            let Some(place) = self.places.get_mut(index) else {
                return;
            };
            let (message, descriptors) = match place.supervisor.receive() {
                Ok(received) if received.0.is_empty() => break,
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => break,
            };
            match ToAgent::parse(&message) {
                Some(ToAgent::Begin { own }) => {
                    let Ok(descriptors) = descriptors.try_into() else {
                        break;
                    };
                    let capture = Capture::from_descriptors(descriptors);
                    let syn = token(Kind::Syn, index);
                    let accept = token(Kind::Accept, index);
                    let poller = &self.poller;
                    let registered = poller
                        .register(capture.syn_descriptor(), syn, Interest::Read)
                        .and_then(|()| {
                            poller.register(capture.accept_descriptor(), accept, Interest::Read)
                        });
                    if registered.is_err() || place.begin(capture, own).is_err() {
                        break;
                    }
                }
                Some(ToAgent::Connected { id }) => {
                    let near = descriptors.into_iter().next().map(TcpStream::from);
                    self.asked(now, node, id, near);
                }
                None => break,
            }
        }
        self.end_place(now, node, index);
    }

    /// A program and all it started have ended, or their supervisor was killed.
    fn end_place(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(place) = self.places.try_remove(index) else {
            return;
        };
        for held in place.held.into_values() {
            if let Some((peer, stream)) = held.stream() {
                self.owners.remove(&(peer, stream));
                give_up(now, node, peer, stream, CODE_RESET);
            }
        }
        self.attempts.retain(|_, attempt| attempt.place != index);
        let waiting: Vec<usize> = self.inbound.iter().map(|(id, _)| id).collect();
        for id in waiting {
            if self.inbound[id].places.last() == Some(&index) {
                self.asked(now, node, id, None);
            }
        }
    }

    // ---- connections that begin here ----

    fn take_syns(&mut self, now: Time, node: &mut Node, directory: &impl Directory, index: usize) {
        loop {
            let Some(capture) = self.places.get(index).and_then(|p| p.capture.as_ref()) else {
                return;
            };
            let Ok(Some(syn)) = capture.next_syn() else {
                return;
            };
            self.hold(now, node, directory, index, syn);
        }
    }

    /// A program connects: asks whoever it wants.
    fn hold(
        &mut self,
        now: Time,
        node: &mut Node,
        directory: &impl Directory,
        index: usize,
        syn: Syn,
    ) {
        let place = &mut self.places[index];
        let (source, destination) = (syn.source, syn.destination);
        if place.is_own(destination.ip()) || place.held.contains_key(&(source, destination)) {
            // It stays within, or is repeated while the far end is asked.
            return;
        }
        let peer = directory.peer_at(destination.ip());
        let peer = peer.filter(|peer| node.is_connected(*peer));
        let stream = peer.and_then(|peer| {
            let opening = Opening {
                from: source,
                to: destination,
            };
            open(now, node, peer, &opening)
        });
        let awaited = match stream {
            Some((peer, stream)) => {
                let owner = Owner::Held(index, source, destination);
                self.owners.insert((peer, stream), owner);
                Awaited::Stream(peer, stream)
            }
            None => Awaited::Plain,
        };
        let held = Held {
            syn,
            awaited,
            since: now,
        };
        self.places[index].held.insert((source, destination), held);
        if stream.is_none() {
            self.attempt(now, index, source, destination);
        }
    }

    /// Connects plainly, from this node.
    fn attempt(&mut self, now: Time, place: usize, source: SocketAddr, destination: SocketAddr) {
        let entry = self.attempts.vacant_entry();
        let token = token(Kind::Attempt, entry.key());
        let attempt = connect_plainly(destination).and_then(|plain| {
            self.poller.register(&plain, token, Interest::Write)?;
            Ok(Attempt {
                plain,
                place,
                source,
                destination,
            })
        });
        match attempt {
            Ok(attempt) => drop(entry.insert(attempt)),
            Err(error) => self.conclude(now, place, source, destination, Err(error)),
        }
    }

    /// A plain connection stands, or failed.
    fn attempted(&mut self, now: Time, index: usize) {
        let Some(attempt) = self.attempts.try_remove(index) else {
            return;
        };
        let _ = self.poller.deregister(&attempt.plain);
        let result = match attempt.plain.take_error() {
            Ok(None) => Ok(Far::Plain(attempt.plain)),
            Ok(Some(error)) | Err(error) => Err(error),
        };
        self.conclude(
            now,
            attempt.place,
            attempt.source,
            attempt.destination,
            result,
        );
    }

    /// The other agent says whether a program there accepts.
    fn answered(
        &mut self,
        now: Time,
        node: &mut Node,
        place: usize,
        source: SocketAddr,
        destination: SocketAddr,
    ) {
        let held = self
            .places
            .get(place)
            .and_then(|p| p.held.get(&(source, destination)));
        let Some(Awaited::Stream(peer, stream)) = held.map(|held| &held.awaited) else {
            return;
        };
        let (peer, stream) = (*peer, *stream);
        match node.read_stream(now, peer, stream, &mut [0]) {
            Ok(read) if read.len == 1 => {
                let far = Far::Stream(peer, stream);
                self.conclude(now, place, source, destination, Ok(far));
            }
            Ok(read) if !read.fin => {}
            _ => self.turned_away(now, place, source, destination, CODE_REFUSED),
        }
    }

    /// The other agent has nobody there: perhaps a program that is not under `tabane run`.
    fn turned_away(
        &mut self,
        now: Time,
        place: usize,
        source: SocketAddr,
        destination: SocketAddr,
        code: u32,
    ) {
        let Some(p) = self.places.get_mut(place) else {
            return;
        };
        let Some(held) = p.held.get_mut(&(source, destination)) else {
            return;
        };
        if code == CODE_BUSY {
            let error = io::ErrorKind::ConnectionRefused.into();
            return self.conclude(now, place, source, destination, Err(error));
        }
        held.awaited = Awaited::Plain;
        self.attempt(now, place, source, destination);
    }

    /// It is known what the far end says: the program's kernel learns it.
    fn conclude(
        &mut self,
        now: Time,
        place: usize,
        source: SocketAddr,
        destination: SocketAddr,
        result: io::Result<Far>,
    ) {
        let Some(place) = self.places.get_mut(place) else {
            return;
        };
        let Some(capture) = &place.capture else {
            return;
        };
        let key = (source, destination);
        match result {
            Ok(far) => {
                let Some(held) = place.held.get_mut(&key) else {
                    return;
                };
                // If this fails the program's kernel repeats the SYN, and it is tried anew.
                let _ = capture.admit(&held.syn);
                held.awaited = Awaited::Admitted(far);
                held.since = now;
            }
            Err(error) => {
                let Some(held) = place.held.remove(&key) else {
                    return;
                };
                self.stats.refused += 1;
                if is_refusal(&error) {
                    let _ = capture.refuse(&held.syn);
                }
            }
        }
    }

    /// Admitted connections have come through.
    fn accept(&mut self, now: Time, node: &mut Node, index: usize) {
        loop {
            let Some(place) = self.places.get_mut(index) else {
                return;
            };
            let Some(capture) = &place.capture else {
                return;
            };
            let Ok(Some((near, source, destination))) = capture.accept() else {
                return;
            };
            match place.held.remove(&(source, destination)) {
                Some(Held {
                    awaited: Awaited::Admitted(far),
                    ..
                }) => self.begin(now, node, near, far),
                // Nobody asked for it: it is gone with its socket.
                _ => drop(near),
            }
        }
    }

    /// Both sides stand: carries what they say.
    fn begin(&mut self, now: Time, node: &mut Node, near: TcpStream, far: Far) {
        match far {
            Far::Stream(..) => self.stats.carried += 1,
            Far::Plain(_) => self.stats.plain += 1,
        }
        let index = self.relays.vacant_key();
        let registered = self
            .poller
            .register(&near, token(Kind::Near, index), Interest::Nothing);
        let registered = registered.and_then(|()| match &far {
            Far::Plain(plain) => {
                self.poller
                    .register(plain, token(Kind::Plain, index), Interest::Nothing)
            }
            Far::Stream(..) => Ok(()),
        });
        let relay = Relay::new(near, far);
        if registered.is_err() || self.relays.len() >= RELAYS_MAX {
            return relay.reset(now, node);
        }
        if let Some(stream) = relay.stream() {
            self.owners.insert(stream, Owner::Relay(index));
        }
        self.relays.insert(relay);
        self.relay(now, node, index);
    }

    // ---- connections that stand ----

    fn relay(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(relay) = self.relays.get_mut(index) else {
            return;
        };
        match relay.turn(now, node, &mut self.buffer) {
            Standing::Goes { eager } => {
                let (near, plain) = (token(Kind::Near, index), token(Kind::Plain, index));
                if relay.watch(&self.poller, near, plain).is_err() {
                    self.reset(now, node, index);
                } else if eager && !self.eager.contains(&index) {
                    self.eager.push_back(index);
                }
            }
            Standing::Over => drop(self.remove(index)),
            Standing::Reset => self.reset(now, node, index),
        }
    }

    fn reset(&mut self, now: Time, node: &mut Node, index: usize) {
        if let Some(relay) = self.remove(index) {
            relay.reset(now, node);
        }
    }

    fn remove(&mut self, index: usize) -> Option<Relay> {
        let relay = self.relays.try_remove(index)?;
        let _ = self.poller.deregister(relay.near());
        if let Some(plain) = relay.plain() {
            let _ = self.poller.deregister(plain);
        }
        if let Some(stream) = relay.stream() {
            self.owners.remove(&stream);
        }
        Some(relay)
    }

    // ---- connections that come from other nodes ----

    fn opened(&mut self, now: Time, node: &mut Node, peer: PeerId, stream: StreamId) {
        let index = self.inbound.insert(Inbound {
            peer,
            stream,
            bytes: Vec::new(),
            opening: None,
            places: Vec::new(),
            near: None,
        });
        self.owners.insert((peer, stream), Owner::Inbound(index));
        self.read_opening(now, node, index);
    }

    fn read_opening(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(inbound) = self.inbound.get_mut(index) else {
            return;
        };
        if inbound.opening.is_some() {
            return;
        }
        // The data behind it waits until a program has accepted.
        loop {
            let wanted = match Opening::decode(&inbound.bytes) {
                Ok(Some(opening)) => {
                    inbound.opening = Some(opening);
                    break;
                }
                Ok(None) => Opening::missing_bytes(&inbound.bytes),
                Err(_) => return self.refuse(now, node, index, CODE_MALFORMED),
            };
            let mut piece = [0; OPENING_BYTES_MAX];
            let (peer, stream) = (inbound.peer, inbound.stream);
            match node.read_stream(now, peer, stream, &mut piece[..wanted]) {
                Ok(read) if read.len > 0 => inbound.bytes.extend(&piece[..read.len]),
                Ok(read) if !read.fin => return,
                _ => return self.refuse(now, node, index, CODE_MALFORMED),
            }
        }
        inbound.places = self
            .places
            .iter()
            .filter(|(_, p)| p.has_begun())
            .map(|(i, _)| i)
            .collect();
        self.ask(now, node, index);
    }

    /// Asks the last of the places whether a program there listens.
    fn ask(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(inbound) = self.inbound.get_mut(index) else {
            return;
        };
        let Some(opening) = inbound.opening else {
            return;
        };
        while let Some(place) = inbound.places.last() {
            let asked = ToSupervisor::Connect {
                id: index,
                from: opening.from,
                to: opening.to,
            };
            let place = self.places.get(*place);
            if place.is_some_and(|p| p.supervisor.send(&asked.encode(), &[]).is_ok()) {
                return;
            }
            inbound.places.pop();
        }
        self.refuse(now, node, index, CODE_REFUSED);
    }

    /// A place has a socket that is connected or being connected, or nobody listens there.
    fn asked(&mut self, now: Time, node: &mut Node, index: usize, near: Option<TcpStream>) {
        let Some(inbound) = self.inbound.get_mut(index) else {
            return;
        };
        let Some(near) = near else {
            inbound.places.pop();
            return self.ask(now, node, index);
        };
        let token = token(Kind::Inbound, index);
        if self.poller.register(&near, token, Interest::Write).is_err() {
            return self.refuse(now, node, index, CODE_BUSY);
        }
        inbound.near = Some(near);
    }

    /// The program's kernel has answered.
    fn reached(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(inbound) = self.inbound.get_mut(index) else {
            return;
        };
        let Some(near) = inbound.near.take() else {
            return;
        };
        let _ = self.poller.deregister(&near);
        if !matches!(near.take_error(), Ok(None)) {
            inbound.places.pop();
            return self.ask(now, node, index);
        }
        let (peer, stream) = (inbound.peer, inbound.stream);
        self.forget_inbound(index);
        // A stream that was just opened takes a byte, or is broken, of which an event tells.
        let _ = node.write_stream(now, peer, stream, &[0]);
        self.stats.accepted += 1;
        self.begin(now, node, near, Far::Stream(peer, stream));
    }

    fn refuse(&mut self, now: Time, node: &mut Node, index: usize, code: u32) {
        if let Some(inbound) = self.inbound.get(index) {
            let (peer, stream) = (inbound.peer, inbound.stream);
            give_up(now, node, peer, stream, code);
        }
        self.forget_inbound(index);
    }

    fn forget_inbound(&mut self, index: usize) {
        if let Some(inbound) = self.inbound.try_remove(index) {
            self.owners.remove(&(inbound.peer, inbound.stream));
        }
    }

    // ---- what is too old ----

    fn forget_old(&mut self, now: Time, node: &mut Node) {
        for (_, place) in &mut self.places {
            place.held.retain(|_, held| {
                let age = now.since(held.since);
                let keeps = match held.awaited {
                    Awaited::Admitted(_) => age < ADMITTED_MAX,
                    _ => age < HELD_MAX,
                };
                if !keeps && let Some((peer, stream)) = held.stream() {
                    self.owners.remove(&(peer, stream));
                    give_up(now, node, peer, stream, CODE_RESET);
                }
                keeps
            });
        }
    }
}

/// A stream to the agent of a peer that begins with `opening`.
fn open(now: Time, node: &mut Node, peer: PeerId, opening: &Opening) -> Option<(PeerId, StreamId)> {
    let stream = node
        .open_stream(now, peer, SERVICE_TCP, Policy::Auto)
        .ok()?;
    // A new stream takes so few bytes.
    node.write_stream(now, peer, stream, &opening.encode())
        .ok()?;
    Some((peer, stream))
}

fn give_up(now: Time, node: &mut Node, peer: PeerId, stream: StreamId, code: u32) {
    // A half that is over already needs no end.
    let _ = node.reset_stream(now, peer, stream, code);
    let _ = node.stop_stream(now, peer, stream, code);
}

/// Whether the far end said no; otherwise it said nothing, and the program goes on waiting as it
/// would for a host that does not answer.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}
