//! Handshake datagrams: who may come in, and at what price.
//!
//! Cheap checks come first: a keyed checksum turns strangers away in silence,
//! then a rate limit demands a cookie before any public-key work is done or any
//! state is kept (WireGuard's scheme, Donenfeld, NDSS 2017, section 5.3). No
//! answer is larger than what asked for it.

use core::time::Duration;
use std::net::SocketAddr;

use super::joining::ASKED;
use super::{Node, Peer, met};
use crate::allowance::Allowance;
use crate::context::{Event, Guests, Refusal, Rejection};
use crate::crypto::{
    ClusterKey, HandshakeError, Responder, init_is_from_key_holder, init_of_other_version,
    say_version,
};
use crate::wire::{HandshakeHeader, Hello, Kind, NodeId, Reader, Steps};
use crate::{LinkId, Time};

/// So many handshakes, or questions that need no session, are answered at once: nodes may merely start together, and a
/// survey asks as many …
const BURST: u32 = 256;
/// … and one more handshake without a cookie for every such interval that passes.
const FREE_INTERVAL: Duration = Duration::from_millis(10);
/// Handshakes with a valid cookie come out of a second allowance, and questions that need no session out of a third: one
/// more for every such interval that passes. An attacker who holds the key, or what was recorded of who does, and can
/// receive at many addresses costs a third of a processor; a thousand peers that start at once are in within half a
/// second.
const COOKIE_INTERVAL: Duration = Duration::from_micros(500);
/// Handshakes of another key are compared with the addresses of peers, and those of another version are answered with
/// this node's: so many of each at once …
const STRANGER_BURST: u32 = 16;
/// … and one more for every such interval that passes. With very many peers the
/// comparison takes tens of microseconds.
const STRANGER_INTERVAL: Duration = Duration::from_millis(100);

/// More guests than this are admitted only if they have shown that they receive where they call from.
const GUESTS_FREE: usize = 64;

/// What admission remembers: nothing per caller.
pub(super) struct Admission {
    free: Allowance,
    with_cookie: Allowance,
    refusals: Allowance,
    strangers: Allowance,
    versions: Allowance,
    pub(super) echoes: Allowance,
}

impl Admission {
    pub const fn new() -> Admission {
        Admission {
            free: Allowance::new(BURST, FREE_INTERVAL),
            with_cookie: Allowance::new(BURST, COOKIE_INTERVAL),
            refusals: Allowance::new(BURST, FREE_INTERVAL),
            strangers: Allowance::new(STRANGER_BURST, STRANGER_INTERVAL),
            versions: Allowance::new(STRANGER_BURST, STRANGER_INTERVAL),
            echoes: Allowance::new(BURST, COOKIE_INTERVAL),
        }
    }
}

impl Node {
    pub(super) fn on_init(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        init: &[u8],
    ) -> Result<(), Rejection> {
        let mut keys = self.context.keys.iter();
        let Some(key) = keys.find(|k| init_is_from_key_holder(k, init)).cloned() else {
            return Err(self.turn_away(now, link, from, init));
        };
        if let Some(theirs) = init_of_other_version(init) {
            return Err(self.say_version(now, link, from, init, (theirs, &key)));
        }
        let has_cookie = self.cookies.valid(now, from, init);
        if !self.admission.free.take(now) {
            if !has_cookie {
                return Err(self.demand_cookie(now, link, from, init, &key));
            }
            if !self.admission.with_cookie.take(now) {
                return Err(Rejection::TooManyHandshakes);
            }
        }
        let context = &mut self.context;
        let read = Responder::read(&key, &context.identity, init, &mut context.random);
        let (hello, responder) = match read {
            Ok(read) => read,
            // A network that loops, or somebody in it, returns what this node sent.
            Err(HandshakeError::NotThisKey) if self.is_own(init) => {
                return Err(Rejection::Reflected);
            }
            Err(error) => return Err(self.refuse(now, link, from, Refusal::Handshake(error))),
        };
        if hello.is_question() && !self.is_own(init) {
            return match hello.check(&hello.to, self.context.config.wire) {
                Ok(()) => self.on_question(now, link, from, (hello, responder)),
                Err(error) => Err(self.refuse(now, link, from, Refusal::Handshake(error))),
            };
        }
        if hello.from == self.context.name {
            if self.is_own(init) {
                return Err(Rejection::Reflected);
            }
            return Err(self.refuse(now, link, from, Refusal::OwnName));
        }
        if let Err(error) = hello.check(&self.context.name, self.context.config.wire) {
            return Err(self.refuse(now, link, from, Refusal::Handshake(error)));
        }
        self.on_call(now, link, from, init, (hello, responder, key), has_cookie)
    }

    /// The first node of a way is not known here. It may be a guest who calls: what it says is read for its name alone, and then
    /// once more as any call is. It needs no cookie, since it comes out of a neighbour's session.
    pub(super) fn admit_from_afar(
        &mut self,
        now: Time,
        steps: &Steps,
        datagram: &[u8],
    ) -> Result<(), Rejection> {
        let is_call = datagram.first().copied().and_then(Kind::from_byte) == Some(Kind::Init);
        if !is_call {
            return Err(Rejection::Misrouted);
        }
        let mut keys = self.context.keys.iter();
        let key = keys.find(|key| init_is_from_key_holder(key, datagram));
        let key = key.cloned().ok_or(Rejection::Stranger)?;
        if !self.admission.free.take(now) {
            return Err(Rejection::TooManyHandshakes);
        }
        let context = &mut self.context;
        let read = Responder::read(&key, &context.identity, datagram, &mut context.random);
        let (hello, _) = read.map_err(|_| Rejection::Malformed)?;
        if NodeId::of(&hello.from) != steps.first() {
            return Err(Rejection::Misrouted);
        }
        let admitted = self.take_guest(now, hello.from);
        admitted.map(drop).map_err(|_| Rejection::Refused)
    }

    /// A first message that is well made and meant for this node: is it from who it says?
    fn on_call(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        init: &[u8],
        (hello, responder, key): (Hello, Responder, ClusterKey),
        has_cookie: bool,
    ) -> Result<(), Rejection> {
        let peer = match self.names.get(hello.from.as_str()) {
            Some(peer) => *peer,
            None if self.guests.len() >= GUESTS_FREE && !has_cookie => {
                return Err(self.demand_cookie(now, link, from, init, &key));
            }
            None => {
                let taken = match self.context.config.guests {
                    Some(Guests::Joining(_)) => {
                        self.take_joining(now, (link, from), hello.from, &responder, &key)
                    }
                    Some(Guests::Located { .. }) | None => self.take_guest(now, hello.from),
                };
                match taken {
                    Ok(peer) => peer,
                    Err(why) => return Err(self.refuse(now, link, from, why)),
                }
            }
        };
        let Some(there) = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut) else {
            return Err(Rejection::UnknownSession);
        };
        if !there.accepts(responder.peer()) {
            // The key of a name is nobody's own: nobody is to write it into a file.
            let of_name = key.public_of(&hello.from);
            let shown = responder.peer().filter(|shown| *shown != of_name);
            let name = hello.from.as_str().into();
            let why = Refusal::WrongIdentity { name, shown };
            return Err(self.refuse(now, link, from, why));
        }
        self.take_call(now, link, peer)?;
        let Some(there) = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut) else {
            return Err(Rejection::UnknownSession);
        };
        // A recorded first message must not disturb what there is: its sender
        // has to show that it is there now. (A call of this node's own goes on.)
        if there.has_keys_besides(init) && !has_cookie {
            return Err(self.demand_cookie(now, link, from, init, &key));
        }
        let elsewhere = there
            .met()
            .and_then(|b| b.is_elsewhere(now, link, from, &hello));
        if let Some(other) = elsewhere {
            let name = hello.from.as_str().into();
            let why = Refusal::DuplicateName { name, other };
            return Err(self.refuse(now, link, from, why));
        }
        if let Peer::Absent(absent) = there
            && absent.is_crossing(now, link, from, &self.context)
        {
            self.turns.touch(peer);
            return Err(Rejection::Crossed);
        }
        let call = (hello, responder, key);
        self.meet(now, peer);
        let taken = met(&mut self.peers, peer)
            .map(|bundle| bundle.on_init(now, link, from, init, call, &mut self.context));
        self.turns.touch(peer);
        taken.unwrap_or(Err(Rejection::UnknownSession))
    }

    /// A first message of another key: whoever made it gets silence. But if it comes
    /// from the address of a peer, the operator is told.
    fn turn_away(&mut self, now: Time, link: LinkId, from: SocketAddr, init: &[u8]) -> Rejection {
        if HandshakeHeader::read(&mut Reader::new(init)).is_err() {
            return Rejection::Malformed;
        }
        if self.admission.strangers.take(now)
            && let Some(peer) = self
                .peers
                .iter_mut()
                .flatten()
                .find(|peer| peer.is_configured_at(link, from.ip()))
            && peer.notices_wrong_key()
        {
            let why = Refusal::Handshake(HandshakeError::WrongKey);
            self.tell_refusal(now, link, from, why);
        }
        Rejection::Stranger
    }

    /// Whether this first message asks for a session of this node's own.
    fn is_own(&self, init: &[u8]) -> bool {
        let header = HandshakeHeader::read(&mut Reader::new(init));
        header.is_ok_and(|header| self.context.sessions.contains_key(&header.session))
    }

    /// A first message of another version: each end is to know which one the other speaks.
    fn say_version(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        init: &[u8],
        (theirs, key): (u16, &ClusterKey),
    ) -> Rejection {
        if self.admission.versions.take(now)
            && let Ok(header) = HandshakeHeader::read(&mut Reader::new(init))
        {
            let answer = say_version(key, header.session);
            self.context.answer(link, from, answer);
        }
        let why = Refusal::Handshake(HandshakeError::WrongVersion { theirs });
        self.refuse(now, link, from, why)
    }

    /// Asks the caller to repeat its first message with a cookie; keeps no state.
    fn demand_cookie(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        init: &[u8],
        key: &ClusterKey,
    ) -> Rejection {
        if let Some(cookie) = self.cookies.make(now, from, init, key) {
            self.context.answer(link, from, cookie);
        }
        Rejection::AskedForCookie
    }

    fn refuse(&mut self, now: Time, link: LinkId, from: SocketAddr, why: Refusal) -> Rejection {
        self.tell_refusal(now, link, from, why);
        Rejection::Refused
    }

    /// Tells the driver who was not admitted, unless it was told of very many just now.
    pub(super) fn tell_refusal(&mut self, now: Time, link: LinkId, from: SocketAddr, why: Refusal) {
        if self.admission.refusals.take(now) {
            self.context.event(Event::Refused { link, from, why });
        }
    }

    /// An answer or a cookie: for one of the handshakes we began.
    pub(super) fn on_handshake_answer(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        answer: &[u8],
    ) -> Result<(), Rejection> {
        let header = HandshakeHeader::read(&mut Reader::new(answer));
        let header = header.map_err(|_| Rejection::Malformed)?;
        let sessions = &self.context.sessions;
        let peer = *sessions
            .get(&header.session)
            .ok_or(Rejection::UnknownSession)?;
        self.meet(now, peer);
        let taken = match met(&mut self.peers, peer) {
            Some(bundle) => bundle.on_answer(now, link, from, answer, &mut self.context),
            None => self.on_answer_to_question(now, link, from, header.session, answer),
        };
        match taken {
            Ok(()) => {}
            Err(HandshakeError::Malformed(_)) => return Err(Rejection::Malformed),
            Err(HandshakeError::WrongKey) => return Err(Rejection::Stranger),
            Err(HandshakeError::NotThisHandshake) => return Err(Rejection::Stale),
            Err(error) => return Err(self.refuse(now, link, from, Refusal::Handshake(error))),
        }
        if peer != ASKED {
            self.turns.touch(peer);
        }
        Ok(())
    }
}
