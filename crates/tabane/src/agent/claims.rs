//! Ports that programs ask for.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tabane_io::credentials::own_uid;
use tabane_proto::gateway::Refused;
use tabane_proto::{Node, Time};

use super::hosted::{Claimant, Denied};
use super::place::Place;
use super::spares::SocketKind;
use super::words::{Claim, EACCES, EADDRINUSE, ENOBUFS, ToSupervisor, Transport};
use super::{Agent, Kind, UNREAD_ANSWERS_MAX, UNSAID_MAX, token};
use crate::gateway::Given;

/// The most programs that wait for the check whether another one still has the port they want; further ones are
/// told that it has.
pub const CLAIMS_MAX: usize = 1024;

/// How often another port is tried for a program that takes any.
const TRIES: u8 = 8;
/// The most of them of one place, including those that wait for a socket.
const CLAIMS_OF_PLACE_MAX: usize = 64;
/// How long a supervisor is waited for that was asked which ports its programs have, or for sockets. One that does
/// not answer keeps the ports, and has none for others.
const WAITS_MAX: Duration = Duration::from_secs(5);

/// A program waits for a port.
#[derive(Debug)]
pub(super) struct Waiting {
    place: usize,
    id: u64,
    claim: Claim,
    /// Whether another place that has the port may be asked if it still has.
    may_look: bool,
    /// The gateway has given it a port for this, which it had not before.
    is_given: bool,
    /// How often another port may be tried, if the program asked for any.
    tries: u8,
    awaited: Awaited,
    since: Time,
}

/// For what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaited {
    /// Another place had the port, and is asked if it still has.
    Look(usize),
    /// A socket of its own user's.
    Socket,
    /// The gateway's answer, of this number.
    Gateway(u32),
    /// Another place of this node had the port of the outside address, and is asked if it still has.
    LookOutside(usize),
}

impl Waiting {
    /// Whether it is a place's, and waits for such a socket.
    fn awaits_socket(&self, place: usize, kind: SocketKind) -> bool {
        self.awaited == Awaited::Socket && (self.place, kind_of(&self.claim)) == (place, kind)
    }
}

/// Whether a port of the outside address that is free there is not so here.
fn is_in_use(result: &Result<u16, Denied>) -> bool {
    match result {
        Err(Denied::Taken(_)) => true,
        Err(Denied::Error(error)) => error.kind() == io::ErrorKind::AddrInUse,
        _ => false,
    }
}

/// The kind of socket that holds the port.
fn kind_of(claim: &Claim) -> SocketKind {
    (claim.transport, claim.address.is_ipv6())
}

impl Agent {
    /// A program wants a port: this node takes it, so that the program is reached as it would be.
    pub(super) fn claim(
        &mut self,
        now: Time,
        node: &mut Node,
        index: usize,
        id: u64,
        claim: Claim,
    ) {
        let waiting = Waiting {
            place: index,
            id,
            claim,
            may_look: true,
            is_given: false,
            tries: if claim.address.port() == 0 { TRIES } else { 0 },
            awaited: Awaited::Socket,
            since: now,
        };
        self.begin_claim(now, node, waiting);
    }

    /// For a port of the outside address the gateway must grant it first.
    fn begin_claim(&mut self, now: Time, node: &mut Node, waiting: Waiting) {
        if self.gateway.is_none() {
            return self.serve_claim(now, node, waiting, true);
        }
        if !self.may_wait(waiting.place) {
            return self.answer_claim(waiting.place, waiting.id, Err(Denied::Unready));
        }
        match self.ask_gateway(now, node, waiting.place, &waiting.claim) {
            Some(asked) => self.claims.push(Waiting {
                awaited: Awaited::Gateway(asked),
                ..waiting
            }),
            None => self.serve_claim(now, node, waiting, true),
        }
    }

    /// The gateway has given a port, or not.
    pub(super) fn gateway_answered(
        &mut self,
        now: Time,
        node: &mut Node,
        asked: u32,
        result: Result<Given, Refused>,
    ) {
        for mut waiting in self.take_claims(|it| it.awaited == Awaited::Gateway(asked)) {
            let error = match result {
                Ok(given) => {
                    waiting.claim.address.set_port(given.number);
                    waiting.is_given = given.is_new;
                    self.serve_claim(now, node, waiting, true);
                    continue;
                }
                Err(Refused::InUse) if self.looks_outside(&waiting) => continue,
                Err(Refused::InUse) => EADDRINUSE,
                Err(Refused::TooMany) => ENOBUFS,
            };
            let error = io::Error::from_raw_os_error(error);
            self.answer_claim(waiting.place, waiting.id, Err(Denied::Error(error)));
        }
    }

    /// Gives a program its port, or an error, or lets it wait. `may_ask`: another place that has the port may be
    /// asked.
    fn serve_claim(&mut self, now: Time, node: &mut Node, waiting: Waiting, may_ask: bool) {
        let Waiting {
            place, id, claim, ..
        } = waiting;
        let result = self.take_port(place, &claim);
        let awaited = match &result {
            Err(Denied::Taken(other)) if may_ask && self.asks_whether_taken(place, *other) => {
                Some(Awaited::Look(*other))
            }
            Err(Denied::Unready) if self.may_wait(place) => Some(Awaited::Socket),
            _ => None,
        };
        let Some(awaited) = awaited else {
            if result.is_err() && waiting.is_given {
                // It cannot have it here: others may have it.
                let port = (claim.transport, claim.address.port());
                self.release_outside(now, node, place, port);
            }
            if is_in_use(&result) && waiting.tries > 0 {
                let mut again = waiting;
                again.claim.address.set_port(0);
                again.tries -= 1;
                return self.begin_claim(now, node, again);
            }
            self.answer_claim(place, id, result);
            if self.is_returning(now) {
                self.ask_returned(now, node);
            }
            return;
        };
        self.claims.push(Waiting { awaited, ..waiting });
        self.fill_outward(place, kind_of(&claim));
    }

    /// If another place of this node has the port, asks whether it still has: a restarted server comes before the
    /// old one's end is known.
    fn looks_outside(&mut self, waiting: &Waiting) -> bool {
        let port = (waiting.claim.transport, waiting.claim.address.port());
        let Some(other) = self.holder_outside(waiting.place, port) else {
            return false;
        };
        if !waiting.may_look || !self.asks_whether_taken(waiting.place, other) {
            return false;
        }
        self.claims.push(Waiting {
            awaited: Awaited::LookOutside(other),
            may_look: false,
            ..*waiting
        });
        true
    }

    /// A place has said which ports its programs still have, or is gone.
    pub(super) fn looked(&mut self, now: Time, node: &mut Node, other: usize) {
        for waiting in self.take_claims(|it| it.awaited == Awaited::LookOutside(other)) {
            self.begin_claim(now, node, waiting);
        }
        for waiting in self.take_claims(|it| it.awaited == Awaited::Look(other)) {
            self.serve_claim(now, node, waiting, false);
        }
    }

    /// Sockets of a place's have come.
    pub(super) fn serve_claims(
        &mut self,
        now: Time,
        node: &mut Node,
        place: usize,
        kind: SocketKind,
    ) {
        for waiting in self.take_claims(|it| it.awaits_socket(place, kind)) {
            self.serve_claim(now, node, waiting, true);
        }
    }

    /// They cannot be had.
    pub(super) fn fail_claims(&mut self, place: usize, kind: SocketKind) {
        for waiting in self.take_claims(|it| it.awaits_socket(place, kind)) {
            self.answer_claim(place, waiting.id, Err(Denied::Unready));
        }
    }

    /// How many wait for such a socket of a place.
    pub(super) fn claims_for(&self, place: usize, kind: SocketKind) -> usize {
        let waiting = self.claims.iter();
        waiting.filter(|it| it.awaits_socket(place, kind)).count()
    }

    /// The program of a place waits no more.
    pub(super) fn forget_claims(&mut self, place: usize) {
        self.claims.retain(|claim| claim.place != place);
    }

    /// These wait no more.
    fn take_claims(&mut self, which: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        let claims = std::mem::take(&mut self.claims).into_iter();
        let (taken, waiting) = claims.partition(which);
        self.claims = waiting;
        taken
    }

    fn take_port(&mut self, index: usize, claim: &Claim) -> Result<u16, Denied> {
        let Some(who) = self.claimant(index, claim.address.ip()) else {
            return Ok(claim.address.port());
        };
        // If the socket is the daemon's, the kernel would let that user's programs share the port.
        let reuse_port = claim.reuse_port && (self.network.is_some() || who.uid == own_uid());
        let claim = &Claim {
            reuse_port,
            ..*claim
        };
        let mut spare = self.take_outward(index, kind_of(claim));
        let token = |port| token(Kind::Hosted, port);
        let taken = self.hosted.claim(who, claim, &mut spare, token);
        self.give_back_outward(index, kind_of(claim), spare);
        taken
    }

    /// The claimant of a port at an address.
    pub(super) fn claimant(&self, index: usize, address: IpAddr) -> Option<Claimant> {
        let place = self.places.get(index)?;
        Some(Claimant {
            place: index,
            uid: place.uid,
            rights: self.rights,
            has_address: place.has(address),
        })
    }

    /// A program of a place has accepted a connection to a port.
    pub(super) fn lend_port(&mut self, index: usize, to: SocketAddr) {
        if let Some(who) = self.claimant(index, to.ip()) {
            let kind = (Transport::Tcp, to.is_ipv6());
            let mut spare = self.take_outward(index, kind);
            let token = |port| token(Kind::Hosted, port);
            self.hosted.lend(who, to, &mut spare, token);
            self.give_back_outward(index, kind, spare);
        }
    }

    /// Tells those that have waited long enough that the port is taken, or cannot be had.
    pub(super) fn give_claims_up(&mut self, now: Time) {
        for claim in self.take_claims(|it| now.since(it.since) >= WAITS_MAX) {
            self.stats.unanswered += 1;
            let denied = match claim.awaited {
                Awaited::Look(other) | Awaited::LookOutside(other) => Denied::Taken(other),
                Awaited::Socket | Awaited::Gateway(_) => Denied::Unready,
            };
            self.answer_claim(claim.place, claim.id, Err(denied));
        }
    }

    /// Asks the place that has a port whether it still has, for another place. Returns whether it did.
    fn asks_whether_taken(&mut self, place: usize, other: usize) -> bool {
        let looks =
            |claim: &&Waiting| matches!(claim.awaited, Awaited::Look(_) | Awaited::LookOutside(_));
        let is_full = self.claims.iter().filter(looks).count() >= CLAIMS_MAX;
        if !self.may_wait(place) || is_full {
            return false;
        }
        // One that is gone cannot be asked any more; when that is noticed its ports are free.
        let is_going = |place: &Place| place.unsaid.len() < UNSAID_MAX;
        self.tell(other, &ToSupervisor::Look) || self.places.get(other).is_some_and(is_going)
    }

    /// Whether one more program of a place may wait; if not, that is counted.
    fn may_wait(&mut self, place: usize) -> bool {
        let of_place = self.claims.iter().filter(|claim| claim.place == place);
        let is_share = of_place.count() < CLAIMS_OF_PLACE_MAX;
        self.stats.share_full += u64::from(!is_share);
        is_share
    }

    fn answer_claim(&mut self, index: usize, id: u64, result: Result<u16, Denied>) {
        let (port, error) = match result {
            Ok(port) => (port, None),
            Err(Denied::Taken(_)) => (0, Some(EADDRINUSE)),
            Err(Denied::Unready) => (0, Some(ENOBUFS)),
            Err(Denied::Error(error)) => (0, Some(error.raw_os_error().unwrap_or(EACCES))),
        };
        // A supervisor that is gone is noticed elsewhere.
        self.tell(index, &ToSupervisor::Claimed { id, port, error });
        let place = self.places.get(index);
        if place.is_some_and(|place| place.unread_answers() > UNREAD_ANSWERS_MAX) {
            self.must_end(index, "it asks for ports and does not read the answers");
        }
    }
}
