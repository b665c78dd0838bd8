//! A gateway that serves, and how it is asked.

use std::collections::{BTreeMap, BTreeSet};

use tabane_proto::gateway::{Claim, Port, Refused, Said};
use tabane_proto::{Node, PeerId, Time};

use super::super::claims::Ask;
use super::super::front::Owner;
use super::super::programs::Place;
use super::super::roster::Roster;
use super::super::serving::Serving;
use super::Serves;
use super::programs::Door;

/// A gateway that serves.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) serving: Serving,
    /// Nodes that have not told yet what they have, and until when to wait for them.
    pub(super) learning: BTreeSet<PeerId>,
    pub(super) learns_until: Time,
    /// They have, or it is over.
    pub(super) has_learned: bool,
    /// Claims that wait for that.
    pub(super) deferred: Vec<(PeerId, u32, Port, Claim)>,
    /// The device may have something to read.
    pub(super) readable: bool,
    pub(super) writes: bool,
}

impl Service {
    pub(super) fn learns(&self, now: Time) -> bool {
        !self.learning.is_empty() && now < self.learns_until
    }

    pub(super) fn learns_of(&self, now: Time, peer: PeerId) -> bool {
        self.learns(now) && self.learning.contains(&peer)
    }

    /// A node has told what it has, or cannot.
    pub(super) fn has_told(&mut self, now: Time, peer: PeerId) {
        if self.learning.remove(&peer) {
            self.serving.has_told(now, Owner::Peer(peer));
        }
    }
}

/// Asks whichever gateway serves.
pub(super) struct Asker<'a> {
    pub(super) now: Time,
    pub(super) node: &'a mut Node,
    pub(super) roster: &'a mut Roster,
    pub(super) serves: Option<Serves>,
    pub(super) doors: &'a BTreeMap<Place, Door>,
    pub(super) service: Option<&'a mut Service>,
}

impl Ask for Asker<'_> {
    fn ask(&mut self, id: u32, port: Port, claim: Claim) -> Option<Result<u16, Refused>> {
        match (self.serves?, self.service.as_deref_mut()) {
            (Serves::Here, Some(service)) if !service.learns(self.now) => {
                let serving = &mut service.serving;
                Some(
                    serving
                        .front
                        .claim(&mut serving.machine, Owner::Here, port, claim),
                )
            }
            (Serves::Here, _) => None,
            (Serves::Peer(peer), _) => {
                let said = Said::Claim { id, port, claim };
                self.roster.say(self.now, self.node, peer, said);
                None
            }
        }
    }

    fn tell_free(&mut self, port: Port) {
        match (self.serves, self.service.as_deref_mut()) {
            (Some(Serves::Here), Some(service)) => {
                let serving = &mut service.serving;
                serving
                    .front
                    .release(&mut serving.machine, Owner::Here, port);
            }
            (Some(Serves::Peer(peer)), _) => {
                self.roster
                    .say(self.now, self.node, peer, Said::Released { port });
            }
            _ => {}
        }
    }

    fn tell_name(&mut self, place: Place, port: Port) {
        let command = self.doors.get(&place).and_then(|door| door.command);
        // This node knows what its own are called.
        if let (Some(Serves::Peer(peer)), Some(command)) = (self.serves, command) {
            self.roster
                .say(self.now, self.node, peer, Said::Named { port, command });
        }
    }
}
