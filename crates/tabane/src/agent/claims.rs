//! Ports that programs ask for.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use tabane_proto::{Node, Time};

use super::hosted::{Claimant, Denied};
use super::place::Place;
use super::words::{Claim, EACCES, EADDRINUSE, ToSupervisor};
use super::{Agent, Kind, UNREAD_ANSWERS_MAX, UNSAID_MAX, token};

/// Programs that wait until it is known whether another one still has the port they want; further
/// ones are told that it has.
pub const CLAIMS_MAX: usize = 1024;

/// So many of one place.
const CLAIMS_OF_PLACE_MAX: usize = 64;
/// How long a supervisor is waited for that was asked which ports its programs have. One that does not
/// answer keeps them.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// A program waits for a port that another had.
#[derive(Debug)]
pub(super) struct Waiting {
    place: usize,
    id: u64,
    claim: Claim,
    /// The place that is asked.
    asked: usize,
    since: Time,
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
        match self.take_port(index, &claim) {
            Err(Denied::Taken(other)) if self.asks_whether_taken(index, other) => {
                self.claims.push(Waiting {
                    place: index,
                    id,
                    claim,
                    asked: other,
                    since: now,
                });
            }
            result => {
                self.answer_claim(index, id, result);
                if self.is_returning(now) {
                    self.ask_returned(now, node);
                }
            }
        }
    }

    /// A place has said which ports its programs still have, or is gone.
    pub(super) fn looked(&mut self, other: usize) {
        let (known, waiting) = std::mem::take(&mut self.claims)
            .into_iter()
            .partition::<Vec<_>, _>(|claim| claim.asked == other);
        self.claims = waiting;
        for Waiting {
            place, id, claim, ..
        } in known
        {
            let result = self.take_port(place, &claim);
            self.answer_claim(place, id, result);
        }
    }

    /// The program of a place waits no more.
    pub(super) fn forget_claims(&mut self, place: usize) {
        self.claims.retain(|claim| claim.place != place);
    }

    fn take_port(&mut self, index: usize, claim: &Claim) -> Result<u16, Denied> {
        let Some(who) = self.claimant(index, claim.address.ip()) else {
            return Ok(claim.address.port());
        };
        let token = |port| token(Kind::Hosted, port);
        self.hosted.claim(who, claim, &self.poller, token)
    }

    /// Who it is that wants a port at an address.
    pub(super) fn claimant(&self, index: usize, address: IpAddr) -> Option<Claimant> {
        let place = self.places.get(index)?;
        Some(Claimant {
            place: index,
            uid: place.uid,
            rights: self.rights,
            has_address: place.has(address),
        })
    }

    /// A program of a place has accepted what came to a port.
    pub(super) fn lend_port(&mut self, index: usize, to: SocketAddr) {
        if let Some(who) = self.claimant(index, to.ip()) {
            let token = |port| token(Kind::Hosted, port);
            self.hosted.lend(who, to, &self.poller, token);
        }
    }

    /// Those who have waited long enough for a supervisor are told that the port is taken.
    pub(super) fn give_claims_up(&mut self, now: Time) {
        let has_waited = |claim: &Waiting| now.since(claim.since) >= LOOK_MAX;
        let (late, waiting) = std::mem::take(&mut self.claims)
            .into_iter()
            .partition::<Vec<_>, _>(has_waited);
        self.claims = waiting;
        for claim in late {
            self.stats.unanswered += 1;
            let taken = Err(Denied::Taken(claim.asked));
            self.answer_claim(claim.place, claim.id, taken);
        }
    }

    /// Whether the place that has a port is asked if it still has, for another place.
    fn asks_whether_taken(&mut self, place: usize, other: usize) -> bool {
        let of_place = self.claims.iter().filter(|claim| claim.place == place);
        let is_share = of_place.count() < CLAIMS_OF_PLACE_MAX;
        self.stats.share_full += u64::from(!is_share);
        if !is_share || self.claims.len() >= CLAIMS_MAX {
            return false;
        }
        // One that is gone cannot be asked any more; when that is noticed its ports are free.
        let is_going = |place: &Place| place.unsaid.len() < UNSAID_MAX;
        self.tell(other, &ToSupervisor::Look) || self.places.get(other).is_some_and(is_going)
    }

    fn answer_claim(&mut self, index: usize, id: u64, result: Result<u16, Denied>) {
        let (port, error) = match result {
            Ok(port) => (port, None),
            Err(Denied::Taken(_)) => (0, Some(EADDRINUSE)),
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
