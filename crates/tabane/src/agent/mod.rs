//! The agent: carries the TCP connections of programs under `tabane run`. Part of the daemon's
//! loop.
//!
//! Each program (with all it starts) is in a network namespace of its own, a [`Place`]: the
//! supervisor that `tabane run` leaves there hands its sockets over and stays for what can only be
//! done within. A connection begins as a [`Held`](place::Held) SYN, becomes a [`Relay`] when the
//! far end has accepted, or is refused as the far end refuses. What comes from another node's
//! agent is an [`Inbound`] until a program here has accepted it.

mod claims;
mod correspondents;
mod datagrams;
mod flows;
mod hosted;
mod inbound;
mod opening;
mod outbound;
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
use tabane_io::capture::Capture;
use tabane_io::handover::HandoverListener;
use tabane_io::poll::{Interest, Poller, Ready};
use tabane_proto::op::OpEvent;
use tabane_proto::{Node, PeerId, StreamId, Time};

pub use opening::{CODE_REFUSED, Opening, SERVICE_TCP};
pub use words::{Claim, ToAgent, ToSupervisor, Transport};

use claims::Waiting;
use flows::Flows;
use hosted::Hosted;
use inbound::Inbound;
use opening::CODE_RESET;
use place::{Awaited, Place};
use relay::{Far, Relay, Standing, give_up};

/// Where supervisors connect to.
pub const SOCKET_NAME: &str = "tabane-run";
/// The same of a daemon that runs for programs of this user alone.
pub fn socket_of_user(uid: u32) -> String {
    format!("{SOCKET_NAME}-{uid}")
}

/// What a read from a program takes at once.
const BUFFER_BYTES: usize = 256 * 1024;
/// Places at once; further ones are turned away.
pub const PLACES_MAX: usize = 1024;
/// Words to a supervisor that wait until it has room for them; further ones are not said.
const UNSAID_MAX: usize = 65_536;
/// Connections at once over all places; further ones are refused.
pub const RELAYS_MAX: usize = 65_536;
/// A connection that nobody wants any more is forgotten after this: longer than any kernel
/// repeats a SYN.
const HELD_MAX: Duration = Duration::from_secs(150);
/// An admitted connection comes at once, or the program has given up.
const ADMITTED_MAX: Duration = Duration::from_secs(5);
/// What claiming a port fails with if the system does not say.
const EACCES: i32 = 13;
const EADDRINUSE: i32 = 98;
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
    Datagrams,
    Flow,
    Hosted,
}

const KINDS: [Kind; 11] = [
    Kind::Listener,
    Kind::Supervisor,
    Kind::Syn,
    Kind::Accept,
    Kind::Attempt,
    Kind::Inbound,
    Kind::Near,
    Kind::Plain,
    Kind::Datagrams,
    Kind::Flow,
    Kind::Hosted,
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
    /// How many questions there were whether a program listens.
    questions: u64,
    relays: Slab<Relay>,
    flows: Flows,
    hosted: Hosted,
    claims: Vec<Waiting>,
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
            questions: 0,
            relays: Slab::new(),
            flows: Flows::default(),
            hosted: Hosted::default(),
            claims: Vec::new(),
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

    /// How many pairs of ends there are that datagrams are sent between.
    pub fn flows(&self) -> usize {
        self.flows.len()
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
            Kind::Supervisor => {
                self.go_on_saying(index, ready.writable);
                self.hear(now, node, index);
            }
            Kind::Syn => self.take_syns(now, node, directory, index),
            Kind::Accept => self.accept(now, node, index),
            Kind::Attempt => self.attempted(now, index),
            Kind::Inbound => self.reached(now, node, index),
            Kind::Near | Kind::Plain => self.relay(now, node, index),
            Kind::Datagrams => self.send_datagrams_on(now, index),
            Kind::Flow => self.give_datagrams_back(now, index),
            Kind::Hosted => self.take_in(now, node, index),
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
            (Owner::Inbound(index), Some(_)) => drop(self.forget_inbound(index)),
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

    /// Says something to the supervisor of a place, now or when it has room; `false`: it is gone.
    fn tell(&mut self, index: usize, words: &ToSupervisor) -> bool {
        let Some(place) = self.places.get_mut(index) else {
            return false;
        };
        if place.unsaid.len() >= UNSAID_MAX {
            return false;
        }
        place.unsaid.push_back(words.encode());
        let waits = place.unsaid.len() > 1;
        let is_there = waits || place.say();
        if !waits && !place.unsaid.is_empty() {
            let token = token(Kind::Supervisor, index);
            let _ = self
                .poller
                .modify(&place.supervisor, token, Interest::ReadWrite);
        }
        is_there
    }

    fn go_on_saying(&mut self, index: usize, has_room: bool) {
        let Some(place) = self.places.get_mut(index).filter(|_| has_room) else {
            return;
        };
        // If it is gone, it says nothing any more, which is noticed at once.
        place.say();
        if place.unsaid.is_empty() {
            let token = token(Kind::Supervisor, index);
            let _ = self.poller.modify(&place.supervisor, token, Interest::Read);
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
                    let datagrams = token(Kind::Datagrams, index);
                    let registered = [
                        (capture.syn_descriptor(), syn),
                        (capture.accept_descriptor(), accept),
                        (capture.datagram_descriptor(), datagrams),
                    ]
                    .into_iter()
                    .try_for_each(|(fd, token)| poller.register(fd, token, Interest::Read));
                    if registered.is_err() || place.begin(capture, own).is_err() {
                        break;
                    }
                }
                Some(ToAgent::Claim { id, claim }) => self.claim(index, id, claim),
                Some(ToAgent::Released { transport, port }) => {
                    self.hosted.close(index, transport, port);
                }
                Some(ToAgent::Looked) => self.looked(index),
                Some(ToAgent::Connected { id, question }) => {
                    let near = descriptors.into_iter().next().map(TcpStream::from);
                    self.asked(now, node, (id, question), near);
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
        self.flows.forget_place(index);
        self.hosted.forget_place(index);
        self.forget_claims(index);
        self.looked(index);
        let waiting: Vec<usize> = self.inbound.iter().map(|(id, _)| id).collect();
        for id in waiting {
            if self.inbound[id].asks() == Some(index) {
                self.ask_next(now, node, id);
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

    // ---- what is too old ----

    fn forget_old(&mut self, now: Time, node: &mut Node) {
        self.flows.forget_old(now);
        self.hosted.forget_old(now);
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
