//! Connections that come from elsewhere: from programs under `tabane run` on other nodes, and from
//! plain ones. Held until a program here has accepted.

use core::time::Duration;
use std::io;
use std::net::{SocketAddr, TcpStream};

use tabane_io::capture::reset;
use tabane_io::poll::Interest;
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::books::{OF_PLACE, is_within_share};
use super::opening::{
    CODE_BUSY, CODE_MALFORMED, CODE_NOBODY, CODE_REFUSED, CODE_RESET, OPENING_BYTES_MAX, Opening,
};
use super::outbound::reached_by;
use super::relay::{Far, give_up, reset_far};
use super::words::ToSupervisor;
use super::{Agent, Directory, Kind, Owner, WAIT_MAX, WAITS, token};
use crate::closing::Lent;

/// For this long after its start an agent refuses nobody: the programs of its predecessor are coming
/// back.
const RETURNING_MAX: Duration = Duration::from_secs(2);

/// How long to wait for a supervisor that was asked to connect, or for another node's agent that opened a
/// stream: they have nothing else to do.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// No question has this number.
const ANSWERED: u64 = 0;

/// A connection from elsewhere that no program here has accepted yet.
#[derive(Debug)]
pub(super) struct Inbound {
    far: Far,
    bytes: Vec<u8>,
    opening: Option<Opening>,
    /// Places to be asked still, the last first.
    places: Vec<usize>,
    /// One that was asked had the port, and listens there no more.
    had_port: bool,
    /// The number of the last question: the answer to another is not for this connection, which may
    /// have the place of one that was given up.
    question: u64,
    /// When it was asked.
    asked_at: Time,
    /// The socket to the program that is being connected.
    near: Option<Lent<TcpStream>>,
}

impl Inbound {
    /// Whether it comes from another node's agent.
    const fn is_carried(&self) -> bool {
        matches!(self.far, Far::Stream(..))
    }

    /// Whether nobody is being asked now.
    const fn waits(&self) -> bool {
        self.opening.is_some() && self.places.is_empty() && self.near.is_none()
    }

    /// The place that is being asked.
    fn asks(&self) -> Option<usize> {
        self.places.last().copied()
    }
}

impl Agent {
    /// Another node's agent opens a stream for a connection.
    pub(super) fn opened(
        &mut self,
        now: Time,
        node: &mut Node,
        directory: &impl Directory,
        peer: PeerId,
        stream: StreamId,
    ) {
        if !self.has_room() || !self.may_open(peer) {
            return give_up(now, node, peer, stream, CODE_BUSY);
        }
        *self.openings.entry(peer).or_default() += 1;
        let index = self.inbound.insert(Inbound {
            far: Far::Stream(peer, stream),
            bytes: Vec::new(),
            opening: None,
            places: Vec::new(),
            had_port: false,
            question: ANSWERED,
            asked_at: now,
            near: None,
        });
        self.owners.insert((peer, stream), Owner::Inbound(index));
        self.read_opening(now, node, directory, index);
    }

    /// Whether a node may open one more connection that nobody here has accepted yet; if not, counts
    /// that. No node can use up all the room.
    fn may_open(&mut self, peer: PeerId) -> bool {
        let of_peer = self.openings.get(&peer).copied().unwrap_or_default();
        let free = self.free_descriptors();
        self.is_share(is_within_share(of_peer, free, OF_PLACE))
    }

    /// Refuses streams whose first bytes, which say what is wanted, do not come.
    pub(super) fn refuse_unsaid(&mut self, now: Time, node: &mut Node) {
        let is_late = |it: &Inbound| it.opening.is_none() && now.since(it.asked_at) >= ANSWER_MAX;
        let late = self.inbound.iter().filter(|(_, it)| is_late(it));
        let late: Vec<usize> = late.map(|(index, _)| index).collect();
        for index in late {
            self.stats.unanswered += 1;
            self.refuse(now, node, index, CODE_MALFORMED);
        }
    }

    /// A plain connection has come to a listener of a place.
    pub(super) fn came(
        &mut self,
        now: Time,
        node: &mut Node,
        place: usize,
        plain: TcpStream,
        opening: Opening,
    ) {
        if !self.has_room() {
            return reset(plain);
        }
        let index = self.inbound.insert(Inbound {
            far: Far::Plain(Lent::ours(plain)),
            bytes: Vec::new(),
            opening: Some(opening),
            places: vec![place],
            had_port: false,
            question: ANSWERED,
            asked_at: now,
            near: None,
        });
        self.ask(now, node, index);
    }

    pub(super) fn read_opening(
        &mut self,
        now: Time,
        node: &mut Node,
        directory: &impl Directory,
        index: usize,
    ) {
        let Some(inbound) = self.inbound.get_mut(index) else {
            return;
        };
        let (Far::Stream(peer, stream), None) = (&inbound.far, inbound.opening) else {
            return;
        };
        // The data behind it waits until a program has accepted.
        let Opening { from, to } = loop {
            let wanted = match Opening::decode(&inbound.bytes) {
                Ok(Some(opening)) => break opening,
                Ok(None) => Opening::missing_bytes(&inbound.bytes),
                Err(_) => return self.refuse(now, node, index, CODE_MALFORMED),
            };
            let mut piece = [0; OPENING_BYTES_MAX];
            match node.read_stream(now, *peer, *stream, &mut piece[..wanted]) {
                Ok(read) if read.len > 0 => inbound.bytes.extend(&piece[..read.len]),
                Ok(read) if !read.fin => return,
                _ => return self.refuse(now, node, index, CODE_MALFORMED),
            }
        };
        // Servers trust addresses (their own host's above all): only plain TCP speaks for others.
        let is_outside = |end: SocketAddr| {
            let gateway = self.gateway.as_ref();
            gateway.is_some_and(|gateway| gateway.addresses().contains(&end.ip()))
        };
        // Programs of all nodes speak from the outside address to each other there.
        let is_from_there =
            directory.peer_at(from.ip()) == Some(*peer) && directory.is_own(to.ip());
        if !(is_from_there || is_outside(from) && is_outside(to)) {
            self.stats.misaddressed += 1;
            return self.refuse(now, node, index, CODE_REFUSED);
        }
        inbound.opening = Some(Opening { from, to });
        self.ask_anew(now, node, index);
    }

    /// The places to ask for a connection to a port of this node, the last one first: those of the port's
    /// user, and among them first those that have said that they listen there. If the port is nobody's,
    /// all places (each only if it [could have it](Agent::may_be_asked)), but none while the
    /// predecessor's programs are coming back: one of them may have it.
    fn places_for(&self, now: Time, to: SocketAddr) -> Vec<usize> {
        let holders = self.hosted.holders(to);
        let user = holders.first().map(|(uid, _)| *uid);
        if user.is_none() && self.is_returning(now) {
            return Vec::new();
        }
        let begun = self.places.iter().filter(|(_, place)| place.has_begun());
        let of_user = begun.filter(|(_, place)| user.is_none_or(|uid| place.uid == uid));
        let mut places: Vec<_> = of_user.map(|(index, _)| index).collect();
        places.sort_by_key(|place| holders.iter().any(|(_, holder)| holder == place));
        places
    }

    /// Whether a connection from another node may be offered to a place: only if its user has the port at
    /// this node, or could have it. (A connection to a port of this node belongs to the place that has
    /// it.)
    fn may_be_asked(&self, place: usize, to: SocketAddr) -> bool {
        let who = self.claimant(place, to.ip());
        who.is_some_and(|who| self.hosted.could_listen(who, to))
    }

    /// Whether the predecessor's programs may still be coming back.
    pub(super) fn is_returning(&self, now: Time) -> bool {
        now.since(self.started) < RETURNING_MAX
    }

    /// Asks the last of the places whether a program there listens.
    fn ask(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(opening) = self.inbound.get(index).and_then(|it| it.opening) else {
            return;
        };
        self.questions += 1;
        self.inbound[index].question = self.questions;
        self.inbound[index].asked_at = now;
        let asked = ToSupervisor::Connect {
            id: index,
            question: self.questions,
            from: opening.from,
            to: opening.to,
        };
        while let Some(place) = self.inbound[index].asks() {
            if self.inbound[index].is_carried() && !self.may_be_asked(place, opening.to) {
                self.pass_user_over(index, place);
                continue;
            }
            match self.connect_spare(place, opening) {
                Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.pass_over(index);
                }
                Some(near) => return self.asked(now, node, (index, self.questions), near),
                None if self.tell(place, &asked) => return,
                None => self.pass_over(index),
            }
        }
        if self.is_returning(now) && self.inbound[index].is_carried() {
            return;
        }
        let had_port = self.inbound[index].had_port;
        let code = match had_port || !self.hosted.holders(opening.to).is_empty() {
            true => CODE_NOBODY,
            false => CODE_REFUSED,
        };
        self.refuse(now, node, index, code);
    }

    /// Connects to a program of a place; `None`: its supervisor has to be asked.
    fn connect_spare(
        &mut self,
        place: usize,
        opening: Opening,
    ) -> Option<io::Result<Lent<TcpStream>>> {
        let speaker = self.take_speaker(place, opening.to.is_ipv6())?;
        let connect = || speaker.connect(opening.from, opening.to);
        let error = match self.alarm.bounds(WAIT_MAX, connect) {
            Ok(()) => return Some(Ok(speaker.map(TcpStream::from))),
            Err(error) => error,
        };
        match error.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::AddrInUse
            | io::ErrorKind::AddrNotAvailable => None,
            // It was made to wait.
            io::ErrorKind::Interrupted => {
                self.must_end(place, WAITS);
                Some(Err(io::ErrorKind::ConnectionRefused.into()))
            }
            _ => Some(Err(error)),
        }
    }

    /// Nobody listens in the place that was asked, or it is gone.
    fn pass_over(&mut self, index: usize) {
        let Some(inbound) = self.inbound.get_mut(index) else {
            return;
        };
        if let (Some(place), Some(opening)) = (inbound.places.pop(), inbound.opening) {
            inbound.had_port |= self.hosted.doubt(place, opening.to);
        }
    }

    /// The user of this place could not have the port: nor could others of its places.
    fn pass_user_over(&mut self, index: usize, place: usize) {
        let user = |place: usize| self.places.get(place).map(|place| place.uid);
        let passed_over = user(place);
        if let Some(inbound) = self.inbound.get_mut(index) {
            inbound
                .places
                .retain(|it| *it != place && user(*it) != passed_over);
        }
    }

    /// A place has a port (again): perhaps somebody has waited for it.
    pub(super) fn ask_returned(&mut self, now: Time, node: &mut Node) {
        for index in self.waiting_for_place() {
            self.ask_anew(now, node, index);
        }
    }

    /// Nobody comes back any more: refuses waiting connections that no present place accepts.
    pub(super) fn refuse_waiting(&mut self, now: Time, node: &mut Node) {
        if !self.is_returning(now) {
            self.ask_returned(now, node);
        }
    }

    fn ask_anew(&mut self, now: Time, node: &mut Node, index: usize) {
        let opening = self.inbound.get(index).and_then(|it| it.opening);
        if let Some(opening) = opening {
            self.inbound[index].places = self.places_for(now, opening.to);
            self.ask(now, node, index);
        }
    }

    fn waiting_for_place(&self) -> Vec<usize> {
        let waiting = self.inbound.iter().filter(|(_, inbound)| inbound.waits());
        waiting.map(|(index, _)| index).collect()
    }

    /// A place's answer: a socket that is connected or connecting, or an error.
    pub(super) fn asked(
        &mut self,
        now: Time,
        node: &mut Node,
        (index, question): (usize, u64),
        near: io::Result<Lent<TcpStream>>,
    ) {
        let inbound = self.inbound.get_mut(index);
        let Some(inbound) = inbound.filter(|it| it.question == question) else {
            return;
        };
        // There is one answer.
        inbound.question = ANSWERED;
        let near = match near {
            Ok(near) => near,
            Err(error) => return self.is_not_reached(now, node, index, &error),
        };
        let token = token(Kind::Inbound, index);
        let asked = inbound.asks().filter(|place| self.may_connect(*place));
        let watched = |_: &usize| self.poller.register(&near, token, Interest::Write).is_ok();
        let Some(asked) = asked.filter(watched) else {
            return self.refuse(now, node, index, CODE_BUSY);
        };
        let inbound = &mut self.inbound[index];
        inbound.near = Some(near);
        let place = &mut self.places[asked];
        place.reaching += 1;
        if let Far::Stream(peer, stream) = inbound.far {
            // If it is gone, an event is yet to tell.
            let owner = self.books.owner(place.number);
            let _ = node.set_stream_owner(peer, stream, owner);
        }
    }

    /// Passes over places whose supervisors do not answer: one that is stopped, or refuses to, holds up
    /// nobody who asks for another.
    pub(super) fn pass_silent_over(&mut self, now: Time, node: &mut Node) {
        let is_silent = |it: &Inbound| {
            let waits = it.near.is_none() && it.asks().is_some();
            waits && now.since(it.asked_at) >= ANSWER_MAX
        };
        let silent = self.inbound.iter().filter(|(_, it)| is_silent(it));
        let silent: Vec<usize> = silent.map(|(index, _)| index).collect();
        for index in silent {
            self.stats.unanswered += 1;
            // Whether a program listens is not known: it keeps its port.
            self.inbound[index].places.pop();
            self.ask(now, node, index);
        }
    }

    /// The socket to a program is no longer being connected.
    fn take_near(&mut self, index: usize) -> Option<Lent<TcpStream>> {
        let inbound = self.inbound.get_mut(index)?;
        let near = inbound.near.take()?;
        let place = inbound.asks().and_then(|place| self.places.get_mut(place));
        if let Some(place) = place {
            place.reaching -= 1;
        }
        let _ = self.poller.deregister(&near);
        Some(near)
    }

    /// A place could not be connected to.
    fn is_not_reached(&mut self, now: Time, node: &mut Node, index: usize, error: &io::Error) {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => self.ask_next(now, node, index),
            // A program had accepted it, and has reset it already.
            io::ErrorKind::ConnectionReset => self.refuse(now, node, index, CODE_RESET),
            // Whether a program listens is not known: it keeps its port.
            _ => self.refuse(now, node, index, CODE_BUSY),
        }
    }

    /// Connections for which a place is being asked.
    pub(super) fn asking(&self, place: usize) -> Vec<usize> {
        let asking = |(_, inbound): &(usize, &Inbound)| inbound.asks() == Some(place);
        let asking = self.inbound.iter().filter(asking);
        asking.map(|(index, _)| index).collect()
    }

    /// Programs of a place that has ended were reached: they may have said all they had to.
    pub(super) fn begin_reached(&mut self, now: Time, node: &mut Node, place: usize) {
        for index in self.asking(place) {
            self.reached(now, node, index);
        }
    }

    /// Nobody listens in the place that was asked.
    pub(super) fn ask_next(&mut self, now: Time, node: &mut Node, index: usize) {
        self.pass_over(index);
        self.ask(now, node, index);
    }

    /// The program's kernel has answered.
    pub(super) fn reached(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(near) = self.take_near(index) else {
            return;
        };
        if let Err(error) = reached_by(&near) {
            return self.is_not_reached(now, node, index, &error);
        }
        let inbound = self.inbound.get(index);
        let asked = inbound.and_then(|it| Some((it.asks()?, it.opening?)));
        let (Some((place, Opening { from, to })), Some(far)) = (asked, self.forget_inbound(index))
        else {
            return;
        };
        if let Far::Stream(peer, stream) = far {
            // A stream that was just opened takes a byte, unless it is broken, which an event reports.
            let _ = node.write_stream(now, peer, stream, &[0]);
            self.stats.accepted += 1;
            self.lend_port(place, to);
        }
        self.begin(now, node, place, near, far, (from, to));
    }

    fn refuse(&mut self, now: Time, node: &mut Node, index: usize, code: u32) {
        if let Some(far) = self.forget_inbound(index) {
            reset_far(far, now, node, code);
        }
    }

    pub(super) fn forget_inbound(&mut self, index: usize) -> Option<Far> {
        drop(self.take_near(index));
        let inbound = self.inbound.try_remove(index)?;
        if let Far::Stream(peer, stream) = inbound.far {
            self.owners.remove(&(peer, stream));
            if let Some(openings) = self.openings.get_mut(&peer) {
                *openings -= 1;
            }
        }
        Some(inbound.far)
    }
}
