//! A program's network namespace, seen by the agent.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};

use tabane_io::capture::{Capture, Syn, connection_from, source_for};
use tabane_io::credentials::{Credentials, peer_groups};
use tabane_io::failure::says_nothing;
use tabane_io::handover::Handover;
use tabane_io::poll::Interest;
use tabane_io::process::user_of;
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::opening::CODE_RESET;
use super::relay::{Far, give_up};
use super::spares::Spares;
use super::words::{COMMAND_CHARS_MAX, ToAgent, ToSupervisor, Transport};
use super::{Agent, Kind, PLACES_MAX, UNSAID_MAX, WAIT_MAX, token};
use crate::closing::Lent;

/// An admitted connection comes at once, or the program has given up.
const ADMITTED_MAX: Duration = Duration::from_secs(5);
/// A kernel repeats a SYN after a second, and then after at most twice as long as before (RFC 6298
/// sections 2 and 5.5).
const SYN_PAUSE: Duration = Duration::from_secs(1);
/// How much later than that a repeated one may be seen. If it is later still, it is one that begins.
const SYN_LATE_MAX: Duration = Duration::from_secs(1);
/// How often datagrams are taken in that a program sent before it ended: more than its kernel keeps of them.
const LAST_TURNS: usize = 256;
/// How long a program may take to begin that has connected.
const BEGIN_MAX: Duration = Duration::from_secs(5);
/// How often the sockets of a place may fail from one look to the next.
const FAILURES_MAX: u32 = 64;
/// Addresses of a place.
const OWN_MAX: usize = 64;
/// Outside addresses: one of a family.
const OUTSIDE_MAX: usize = 2;
/// The message to a program whose user may not use the daemon.
const NOT_HERE: &str = "`[run]` of the cluster file does not let this user use `tabane run` here";
/// Words of one supervisor, and programs that begin, before others have their turn.
const TURN_WORDS: usize = 64;

/// Of a connection: its source and its destination.
pub type Ends = (SocketAddr, SocketAddr);

/// How something leaves its namespace plainly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// From this address of the node, if it matters.
    pub from: Option<IpAddr>,
    pub to: SocketAddr,
}

impl Way {
    /// To there.
    pub const fn to(to: SocketAddr) -> Way {
        Way { from: None, to }
    }
}

/// What a new connection from here waits for.
#[derive(Debug)]
pub enum Awaited {
    /// The answer of another node's agent, by this stream.
    Stream(PeerId, StreamId),
    /// Another node, which is only just being connected to.
    Peer(PeerId),
    /// The gateway's answer about the owner of the outside port.
    Owner(u32),
    /// A socket by which it may leave its namespace.
    Socket(Way),
    /// A plain connection of this node.
    Plain,
    /// The program's kernel, which has been told.
    Admitted(Far),
}

/// A program's connection that nobody has answered yet.
#[derive(Debug)]
pub struct Held {
    pub syn: Syn,
    pub awaited: Awaited,
    pub since: Time,
    /// When the program's kernel last sent the SYN.
    seen: Time,
    /// How long it had not sent it before.
    pause: Duration,
}

impl Held {
    /// A SYN that was sent just now.
    pub const fn new(syn: Syn, now: Time) -> Held {
        Held {
            syn,
            awaited: Awaited::Plain,
            since: now,
            seen: now,
            pause: SYN_PAUSE,
        }
    }

    /// The program's kernel has repeated it, or a program that gave up tries again.
    pub fn is_repeated(&mut self, syn: Syn, now: Time) {
        self.pause = now.since(self.seen).max(SYN_PAUSE);
        (self.syn, self.seen) = (syn, now);
    }

    /// Whether somebody still waits for an answer; otherwise the program has given up connecting.
    pub fn is_wanted(&self, now: Time) -> bool {
        match self.awaited {
            Awaited::Admitted(_) => now.since(self.since) < ADMITTED_MAX,
            _ => now.since(self.seen) < self.pause * 2 + SYN_LATE_MAX,
        }
    }

    /// The node that it waits for.
    pub const fn awaits_peer(&self) -> Option<PeerId> {
        match self.awaited {
            Awaited::Peer(peer) => Some(peer),
            _ => None,
        }
    }

    /// The stream that it waits for, or that is to carry it.
    pub const fn stream(&self) -> Option<(PeerId, StreamId)> {
        match self.awaited {
            Awaited::Stream(peer, stream) | Awaited::Admitted(Far::Stream(peer, stream)) => {
                Some((peer, stream))
            }
            _ => None,
        }
    }
}

/// One namespace.
#[derive(Debug)]
pub struct Place {
    pub supervisor: Lent<Handover>,
    /// No other place has it, or had it before.
    pub number: u64,
    /// Whose program it is.
    pub uid: u32,
    /// The connecting process: the program itself, before it became that, or a process that stays beside
    /// it.
    pid: i32,
    /// The program, once its supervisor has named it.
    pub program: Option<Program>,
    /// Its sockets, once its supervisor has handed them over.
    pub capture: Option<Lent<Capture>>,
    /// The addresses it has, with the lengths of their networks' prefixes.
    own: Vec<(IpAddr, u8)>,
    /// The cluster's outside addresses, if it has them.
    outside: Vec<IpAddr>,
    /// When it was welcomed.
    since: Time,
    /// Messages for which its supervisor had no room.
    pub unsaid: VecDeque<Unsaid>,
    /// How often a socket of its has failed since the last look.
    failures: u32,
    pub held: HashMap<Ends, Held>,
    /// Sockets that are being connected to programs here.
    pub reaching: usize,
    /// Sockets that it has ready.
    pub spares: Spares,
}

/// Words that wait.
#[derive(Debug)]
pub struct Unsaid {
    words: Vec<u8>,
    /// They answer something.
    is_answer: bool,
}

/// The program of a namespace. It may have ended while others that it started go on.
#[derive(Clone, Debug)]
pub struct Program {
    pub pid: u32,
    pub command: String,
}

impl Place {
    fn new(now: Time, supervisor: Lent<Handover>, who: Credentials, number: u64) -> Place {
        Place {
            supervisor,
            number,
            uid: who.uid,
            pid: who.pid,
            since: now,
            failures: 0,
            program: None,
            capture: None,
            own: Vec::new(),
            outside: Vec::new(),
            unsaid: VecDeque::new(),
            held: HashMap::new(),
            reaching: 0,
            spares: Spares::default(),
        }
    }

    /// Sends waiting messages, as far as there is room; `false`: the supervisor is gone.
    pub fn say(&mut self) -> bool {
        while let Some(said) = self.unsaid.front() {
            match self.supervisor.send(&said.words, &[]) {
                Ok(()) => drop(self.unsaid.pop_front()),
                Err(error) => {
                    return error.kind() == io::ErrorKind::WouldBlock || says_nothing(&error);
                }
            }
        }
        true
    }

    /// How many answers wait until its supervisor has room.
    pub fn unread_answers(&self) -> usize {
        self.unsaid.iter().filter(|unsaid| unsaid.is_answer).count()
    }

    /// Descriptors of its connections that nobody has accepted yet.
    pub fn pending(&self) -> usize {
        self.held.len() + self.reaching
    }

    pub fn has_begun(&self) -> bool {
        self.capture.is_some()
    }

    /// Whether this address is one of its own.
    pub fn has(&self, address: IpAddr) -> bool {
        self.own.iter().any(|(own, _)| *own == address) || self.outside.contains(&address)
    }

    /// Whether this is the cluster's outside address.
    pub fn is_outside(&self, address: IpAddr) -> bool {
        self.outside.contains(&address)
    }

    /// Whether a program that uses this address has chosen it: if the namespace has one address of the
    /// family, there is no choice.
    pub fn is_chosen(&self, address: IpAddr) -> bool {
        let is_of_family = |(own, _): &(IpAddr, u8)| own.is_ipv4() == address.is_ipv4();
        !self.has(address) && self.own.iter().any(is_of_family)
    }

    /// The address that packets to another one come from, if the program does not choose.
    pub fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        source_for(&self.own, destination)
    }

    /// Its own addresses of the family of this one.
    pub fn own_like(&self, address: IpAddr) -> impl Iterator<Item = IpAddr> {
        let own = self.own.iter().map(|(own, _)| *own);
        own.filter(move |own| own.is_ipv4() == address.is_ipv4() && !address.is_loopback())
    }

    /// Whether this address is of its node's own, or loopback.
    pub fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.has(address)
    }
}

/// The sockets of a namespace that are watched, and their kinds.
fn watched(capture: &Capture) -> [(BorrowedFd<'_>, Kind); 3] {
    [
        (capture.syn_descriptor(), Kind::Syn),
        (capture.accept_descriptor(), Kind::Accept),
        (capture.datagram_descriptor(), Kind::Datagrams),
    ]
}

impl Agent {
    /// Takes in programs that begin. (What they have said already may have descriptors with it: it is not
    /// closed here.)
    pub(super) fn welcome(&mut self, now: Time) {
        let accept = |agent: &Agent| agent.listener.accept();
        for _ in 0..TURN_WORDS {
            if self.closing.is_full() {
                return self.shut(true);
            }
            let Some((supervisor, who)) = self.accepted(accept, drop) else {
                return;
            };
            let supervisor = self.closing.lend(who.uid, supervisor);
            if self.only_of.is_some_and(|uid| uid != who.uid) {
                continue;
            }
            let groups = || peer_groups(&*supervisor).unwrap_or_default();
            if !self.access.has(who, groups) {
                self.stats.forbidden += 1;
                let why = NOT_HERE.to_owned();
                let _ = supervisor.send(&ToSupervisor::Ended { why }.encode(), &[]);
                continue;
            }
            let is_full = self.places.len() >= PLACES_MAX;
            self.stats.places_full += u64::from(is_full);
            if is_full || !self.may_have_place(who.uid) {
                // One that does not hear it finds the connection closed.
                let _ = supervisor.send(&ToSupervisor::Full.encode(), &[]);
                continue;
            }
            let entry = self.places.vacant_entry();
            let token = token(Kind::Supervisor, entry.key());
            let registered = self.poller.register(&*supervisor, token, Interest::Read);
            if let Err(error) = registered {
                // It finds the connection closed.
                self.stumble("a program cannot begin", &error);
                continue;
            }
            self.places_begun += 1;
            self.books.open(self.places_begun, who.uid);
            entry.insert(Place::new(now, supervisor, who, self.places_begun));
        }
    }

    /// Sends a message to the supervisor of a place, now or when it has room. `false`: it is gone, or has
    /// not read for long.
    pub(super) fn tell(&mut self, index: usize, words: &ToSupervisor) -> bool {
        let Some(place) = self.places.get_mut(index) else {
            return false;
        };
        if place.unsaid.len() >= UNSAID_MAX {
            return false;
        }
        place.unsaid.push_back(Unsaid {
            words: words.encode(),
            is_answer: matches!(words, ToSupervisor::Claimed { .. }),
        });
        let waits = place.unsaid.len() > 1;
        let is_there = waits || place.say();
        if !waits && !place.unsaid.is_empty() {
            let token = token(Kind::Supervisor, index);
            let _ = self
                .poller
                .modify(&*place.supervisor, token, Interest::ReadWrite);
        }
        is_there
    }

    /// The supervisor of a place may have room again for waiting messages.
    pub(super) fn go_on_saying(&mut self, index: usize, has_room: bool) {
        let Some(place) = self.places.get_mut(index).filter(|_| has_room) else {
            return;
        };
        // If it is gone, the next read notices it at once.
        place.say();
        if place.unsaid.is_empty() {
            let token = token(Kind::Supervisor, index);
            let _ = self
                .poller
                .modify(&*place.supervisor, token, Interest::Read);
        }
    }

    /// The supervisor of a place says something, or is gone.
    pub(super) fn hear(&mut self, now: Time, node: &mut Node, index: usize) {
        for _ in 0..TURN_WORDS {
            let Some(place) = self.places.get(index) else {
                return;
            };
            let uid = place.uid;
            let received = || place.supervisor.receive();
            let (message, mut descriptors) = match self.alarm.bounds(WAIT_MAX, received) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if says_nothing(&error) => {
                    return self.stumble("what supervisors say cannot be read", &error);
                }
                Err(_) => return self.end_place(now, node, index),
            };
            // More than it may have closed may not come of one user.
            let may_hand_over = descriptors.is_empty() || !self.closing.is_behind(uid);
            let said = ToAgent::parse(&message).filter(|_| may_hand_over);
            let is_heard = said.map(|said| self.heard(now, node, index, said, &mut descriptors));
            if !descriptors.is_empty() {
                self.closing.close(uid, descriptors);
            }
            match is_heard {
                Some(Ok(())) => {}
                Some(Err(why)) => return self.end_for(now, node, index, why),
                None => return self.end_place(now, node, index),
            }
        }
        // The poller reports the rest.
    }

    /// Handles a request of a place's supervisor. Takes the descriptors that are wanted.
    ///
    /// # Errors
    /// Why the place has to end.
    fn heard(
        &mut self,
        now: Time,
        node: &mut Node,
        index: usize,
        said: ToAgent,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<(), &'static str> {
        let uid = self.places[index].uid;
        match said {
            ToAgent::Begin {
                own,
                outside,
                pid,
                command,
            } => {
                self.begin_place(index, own, outside, descriptors)?;
                self.name_place(index, pid, &command);
            }
            ToAgent::Claim { id, claim } => self.claim(now, node, index, id, claim),
            ToAgent::Released { transport, port } => {
                self.hosted.close(index, transport, port);
                self.release_outside(now, node, index, (transport, port));
            }
            ToAgent::Looked => self.looked(now, node, index),
            ToAgent::Spares { is_v6 } => self.add_speakers(index, is_v6, descriptors),
            ToAgent::Outward { transport, is_v6 } => {
                self.add_outward(now, node, index, (transport, is_v6), descriptors);
            }
            ToAgent::Connected {
                id,
                question,
                error,
            } => {
                let error = error.map(io::Error::from_raw_os_error);
                let error = error.unwrap_or_else(|| io::ErrorKind::ConnectionRefused.into());
                let near = match descriptors.pop().map(connection_from) {
                    Some(Ok(near)) => Ok(self.closing.lend(uid, near)),
                    Some(Err(other)) => {
                        descriptors.push(other);
                        Err(error)
                    }
                    None => Err(error),
                };
                self.asked(now, node, (id, question), near);
            }
        }
        Ok(())
    }

    /// The sockets of a place are watched from now on: the program may begin.
    fn begin_place(
        &mut self,
        index: usize,
        own: Vec<(IpAddr, u8)>,
        outside: Vec<IpAddr>,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<(), &'static str> {
        if self.places[index].has_begun() {
            return Err("it has begun already");
        }
        if own.len() > OWN_MAX || outside.len() > OUTSIDE_MAX {
            return Err("it has more addresses than a node can have");
        }
        if !outside.is_empty() {
            let descriptor = descriptors.pop().ok_or("it hands over too little")?;
            let opened = self.open_outside(index, &outside, descriptor);
            opened.map_err(|(why, descriptor)| {
                descriptors.push(descriptor);
                why
            })?;
        }
        let place = &mut self.places[index];
        let capture = match Capture::from_descriptors(core::mem::take(descriptors)) {
            Ok(capture) => capture,
            Err(others) => {
                *descriptors = others;
                return Err("what it hands over is not what catches connections");
            }
        };
        place.own = own;
        place.outside = outside;
        let capture = self.closing.lend(place.uid, capture);
        let capture = place.capture.insert(capture);
        for (descriptor, kind) in watched(capture) {
            let token = token(kind, index);
            let registered = self.poller.register(descriptor, token, Interest::Read);
            registered.map_err(|_| "its sockets cannot be watched")?;
        }
        let went = place.supervisor.send(&ToSupervisor::Go.encode(), &[]);
        went.map_err(|_| "it does not listen")?;
        for is_v6 in [false, true] {
            let place = &self.places[index];
            if place.own.iter().any(|(own, _)| own.is_ipv6() == is_v6) {
                self.fill_speakers(index, is_v6);
                for transport in [Transport::Tcp, Transport::Udp] {
                    self.fill_outward(index, (transport, is_v6));
                }
            }
        }
        Ok(())
    }

    /// Sets the program of a place. The process is the one that the supervisor names if the kernel says
    /// that it is the same user's, and otherwise the one that has connected.
    fn name_place(&mut self, index: usize, said_pid: u32, command: &str) {
        let place = &mut self.places[index];
        let connected = u32::try_from(place.pid).unwrap_or_default();
        let is_its = said_pid == connected || user_of(said_pid) == Some(place.uid);
        let command = command.chars().filter(|c| !c.is_control());
        let program = Program {
            pid: if is_its { said_pid } else { connected },
            command: command.take(COMMAND_CHARS_MAX).collect(),
        };
        self.books.name(place.number, program.clone());
        if let Some(gateway) = &mut self.gateway {
            gateway.name(index, &program.command);
        }
        place.program = Some(program);
    }

    /// A watched socket of a place has an error that reading does not show. If that happens again and
    /// again, another owner of the socket does not fetch its errors. Returns whether the place must end.
    pub(super) fn is_failing(&mut self, index: usize) -> bool {
        let Some(place) = self.places.get_mut(index) else {
            return true;
        };
        place.failures += 1;
        let is_failing = place.failures > FAILURES_MAX;
        if is_failing {
            self.must_end(
                index,
                "a socket that was handed over is in error, and stays so",
            );
        }
        is_failing
    }

    /// A place is to end, before anything else is done.
    pub(super) fn must_end(&mut self, index: usize, why: &'static str) {
        if let Some(place) = self.places.get(index) {
            self.ending.push((index, place.number, why));
        }
    }

    /// Ends the places that are to.
    pub(super) fn end_misbehaved(&mut self, now: Time, node: &mut Node) {
        for (index, number, why) in core::mem::take(&mut self.ending) {
            let place = self.places.get(index);
            if place.is_some_and(|place| place.number == number) {
                self.end_for(now, node, index, why);
            }
        }
    }

    /// Ends a place because of what it has done, and tells its supervisor.
    fn end_for(&mut self, now: Time, node: &mut Node, index: usize, why: &'static str) {
        self.stats.ended += 1;
        let why = why.to_owned();
        self.tell(index, &ToSupervisor::Ended { why });
        self.end_place(now, node, index);
    }

    /// Once in a while: ends the places that do not begin; programs may begin again.
    pub(super) fn look_at_places(&mut self, now: Time, node: &mut Node) {
        self.shut(false);
        for (_, place) in &mut self.places {
            place.failures = 0;
        }
        let is_idle = |place: &Place| !place.has_begun() && now.since(place.since) >= BEGIN_MAX;
        let idle = self.places.iter().filter(|(_, place)| is_idle(place));
        let idle: Vec<usize> = idle.map(|(index, _)| index).collect();
        for index in idle {
            self.end_for(now, node, index, "it has not begun within five seconds");
        }
    }

    /// Programs that begin wait, or do no more.
    fn shut(&mut self, shut: bool) {
        if self.is_shut != shut {
            let interest = if shut {
                Interest::Nothing
            } else {
                Interest::Read
            };
            let token = token(Kind::Listener, 0);
            let set = self.poller.modify(&self.listener, token, interest);
            self.is_shut = shut && set.is_ok();
        }
    }

    /// A program and all it started have ended, or their supervisor was killed. Data that they sent before
    /// may be seen only now, and is still carried.
    fn end_place(&mut self, now: Time, node: &mut Node, index: usize) {
        let mut turns = 0..LAST_TURNS;
        while turns.next().is_some() && self.accept(now, node, index) {}
        self.begin_reached(now, node, index);
        let mut turns = 0..LAST_TURNS;
        while turns.next().is_some() && self.send_datagrams_on(now, index) {}
        let Some(mut place) = self.places.try_remove(index) else {
            return;
        };
        let _ = self.poller.deregister(&*place.supervisor);
        for (descriptor, _) in place.capture.iter().flat_map(|it| watched(it)) {
            // The supervisor may have them still, so that closing them is not enough.
            let _ = self.poller.deregister(descriptor);
        }
        for held in core::mem::take(&mut place.held).into_values() {
            if let Some((peer, stream)) = held.stream() {
                self.owners.remove(&(peer, stream));
                give_up(now, node, peer, stream, CODE_RESET);
            }
        }
        self.books.close(place.number);
        self.keep_attempts(|_, attempt| attempt.place != index);
        self.flows.forget_place(index, &self.poller);
        self.hosted.forget_place(index);
        if let Some(gateway) = &mut self.gateway {
            gateway.end(now, node, index);
        }
        self.forget_claims(index);
        self.looked(now, node, index);
        for id in self.asking(index) {
            self.ask_next(now, node, id);
        }
    }
}
