//! Bundles that are made when something is to be carried, and let rest when they are idle.
//!
//! A bundle that this node does not keep for the mesh's sake ([`crate::mesh::Few`]) goes through others. Once it carries much it may
//! have the links to its peer, too. One that *rests* has neither keys nor paths, but all of what is carried: numbers,
//! streams, what the program has not read. Both ends know its names, so it goes on where it was.
//!
//! A rest loses nothing, so no end has to ask the other whether it may rest: what was begun at the same moment is sent
//! again when the bundle goes on. A node lets a bundle rest in the same way to make room for another one. The bundle's
//! names tell how often it rested. So a lost goodbye does no harm, and the handshake needs no further field.

use super::session::HANDSHAKE_PATIENCE;
use crate::link::thresholds::RECHECK;
use core::time::Duration;

use super::{Bundle, CLOSE_RESTS, PEER_SILENT_MAX, Paths, PeerState};
use crate::LinkId;
use crate::Time;
use crate::context::Context;
use crate::limits::LINKS_MAX;
use crate::mesh::{Lately, WORTH_LINKS, Wish};
use crate::wire::{Record, RelayRecord};

/// A bundle that carried nothing for this long rests.
const IDLE_AFTER: Duration = Duration::from_secs(300);
/// Frames that wait for a session, in bytes.
const HELD_FRAMES_BYTES: usize = 128 * 1024;

/// What is noted of a bundle that is there only while it is wanted.
#[derive(Debug)]
pub(super) struct Demand {
    /// It has the links to the peer, since when; `None`: it goes through others.
    links_since: Option<Time>,
    /// Somebody wants it to be there, though nothing waits for it yet.
    is_asked_for: bool,
    /// When it carried something last.
    carried_at: Time,
    /// What it carried.
    carried: Lately,
    asked_at: Option<Time>,
}

impl Demand {
    pub fn new(now: Time) -> Box<Demand> {
        Box::new(Demand {
            links_since: None,
            is_asked_for: false,
            carried_at: now,
            carried: Lately::new(now),
            asked_at: None,
        })
    }
}

impl Bundle {
    /// Whether links lead to the peer, as far as there are any: else it is reached through others.
    pub fn has_links(&self) -> bool {
        let without = |demand: &Demand| demand.links_since.is_none();
        !self.demand.as_deref().is_some_and(without)
    }

    /// Whether it is there only while something is to be carried.
    pub const fn is_on_demand(&self) -> bool {
        self.demand.is_some()
    }

    /// Whether it is to be there, and is sought if it is not.
    pub(super) fn is_wanted(&self) -> bool {
        let asked_for = |demand: &Demand| demand.is_asked_for;
        self.demand.as_deref().is_none_or(asked_for) || !self.ops.is_idle()
    }

    /// Whether nothing is to be done about it until it is wanted.
    pub(super) fn is_at_rest(&self) -> bool {
        let s = &self.sessions;
        s.current.is_none() && s.unconfirmed.is_none() && !self.is_wanted()
    }

    /// It is to be there, since something is about to be carried.
    pub fn ask_for(&mut self) {
        let is_there = self.sessions.current.is_some();
        if let Some(demand) = self.demand.as_mut().filter(|_| !is_there) {
            demand.is_asked_for = true;
        }
    }

    /// Whether the node keeps it for the mesh's sake from now on.
    pub fn set_kept(&mut self, now: Time, kept: bool, context: &mut Context) {
        if kept && self.demand.take().is_some() {
            self.rebuild_links(now, context);
            self.hasten(now);
        }
        if !kept && self.demand.is_none() {
            self.demand = Some(Demand::new(now));
            let has_links = self.sessions.current.is_some();
            self.demand
                .iter_mut()
                .for_each(|d| d.links_since = has_links.then_some(now));
            if !has_links {
                self.begin_rest(now, context);
            }
        }
    }

    /// The links to the peer are used from now on, if it is on demand.
    pub fn use_links(&mut self, now: Time, context: &Context) {
        if let Some(demand) = self.demand.as_mut().filter(|d| d.links_since.is_none()) {
            demand.links_since = Some(now);
            self.rebuild_links(now, context);
            let links = self.paths.iter_mut().filter(|(id, _)| !id.is_relayed());
            links.for_each(|(_, p)| p.path.request_probe());
        }
    }

    pub(super) fn rebuild_links(&mut self, now: Time, context: &Context) {
        for link in 0..LINKS_MAX {
            self.rebuild_path(now, LinkId(link as u8), context);
        }
    }

    /// So many bytes were carried, either way.
    pub(super) fn note_carried(&mut self, now: Time, bytes: usize, context: &mut Context) {
        let peer = self.peer;
        let Some(demand) = &mut self.demand else {
            return;
        };
        let lately = demand.carried.add(now, bytes as u64);
        demand.carried_at = now;
        if demand.links_since.is_some() {
            return;
        }
        context.mesh.note_relayed(now, peer, bytes as u64);
        let asked = demand.asked_at.is_some_and(|at| now.since(at) < RECHECK);
        if lately >= WORTH_LINKS && !asked {
            demand.asked_at = Some(now);
            context.mesh.wish(peer, Wish::Links);
        }
    }

    /// What it carried lately, in bytes.
    pub fn carried_lately(&self, now: Time) -> u64 {
        let demand = self.demand.as_deref();
        demand.map_or(0, |demand| demand.carried.bytes(now))
    }

    /// Asks the peer for links, or answers it.
    pub fn say_of_links(&mut self, word: &'static [u8]) {
        let code = RelayRecord::LINKS;
        self.reply(None, Record::Extension { code, data: word });
    }

    /// When something is to be looked at that has to do with demand.
    pub(super) fn demand_timeout(&self) -> Option<Time> {
        let demand = self.demand.as_deref()?;
        let is_met = self.sessions.current.is_some();
        let idle = demand.carried_at + IDLE_AFTER;
        let idle = (!self.is_wanted() && !self.is_clear()).then_some(idle);
        let links = demand.links_since.filter(|_| !is_met);
        let links = links.map(|since| since + RECHECK);
        let stranded = self.sought_since().filter(|_| demand.links_since.is_none());
        let asked = demand.asked_at.map_or(Time::ZERO, |at| at + RECHECK);
        let stranded = stranded.map(|since| (since + HANDSHAKE_PATIENCE).max(asked));
        [idle, links, stranded].into_iter().flatten().min()
    }

    /// Since when the peer has been sought in vain.
    fn sought_since(&self) -> Option<Time> {
        let is_met = self.sessions.current.is_some();
        self.sessions.asked_since().filter(|_| !is_met)
    }

    /// Whether there is nothing that a rest would give back.
    fn is_clear(&self) -> bool {
        self.sessions.numbers().next().is_none() && self.path_mask() == 0
    }

    /// Lets it rest if it has been idle; looks for another way to a peer that is not met.
    pub(super) fn tend_demand(&mut self, now: Time, context: &mut Context) {
        if self.demand_timeout().is_none_or(|at| at > now) {
            return;
        }
        let (peer, is_wanted) = (self.peer, self.is_wanted());
        let (is_met, sought) = (self.sessions.current.is_some(), self.sought_since());
        let Some(demand) = &mut self.demand else {
            return;
        };
        let in_vain = demand
            .links_since
            .is_some_and(|since| now >= since + RECHECK);
        if !is_wanted && now >= demand.carried_at + IDLE_AFTER {
            self.let_rest(now, context);
        } else if in_vain && !is_met {
            demand.links_since = None;
            self.rebuild_links(now, context);
        } else if sought.is_some() {
            demand.asked_at = Some(now);
            if !self.uses_relays() {
                context.mesh.wish(peer, Wish::Stranded);
            }
        }
    }

    /// What is said of a peer to which there is no session, and that is not known to be gone.
    pub(super) const fn state_unmet(&self) -> PeerState {
        match self.is_on_demand() {
            true => PeerState::OnDemand,
            false => PeerState::Connecting,
        }
    }

    /// There is a session.
    pub(super) fn demand_is_met(&mut self, now: Time) {
        if let Some(demand) = &mut self.demand {
            demand.is_asked_for = false;
            demand.carried_at = now;
        }
    }

    /// Whether a bundle that rested is sought, and the peer has not been found for so long that it is taken for gone.
    pub(super) fn is_missed(&self, now: Time) -> bool {
        let sought = self.sought_since().filter(|_| self.sessions.rests);
        sought.is_some_and(|since| now >= since + PEER_SILENT_MAX)
    }

    /// Whether frames wait for a session that is being made, as it is on demand: a few.
    pub fn holds_frames(&self) -> bool {
        let is_sought = self.is_on_demand() && self.state != PeerState::Down;
        is_sought && self.ops.queued_frame_bytes() < HELD_FRAMES_BYTES
    }

    /// It rests from now on, and the peer is told.
    pub fn let_rest(&mut self, now: Time, context: &mut Context) {
        self.say_goodbye(now, CLOSE_RESTS, context);
        self.begin_rest(now, context);
    }

    /// It rests from now on: what is under way is to be sent again when it goes on.
    pub(super) fn begin_rest(&mut self, now: Time, context: &mut Context) {
        for number in self.sessions.numbers() {
            context.sessions.remove(&number);
        }
        self.sessions.rest(now);
        if self.uses_relays() {
            self.rest(now);
        }
        self.release_paths(now);
        (self.paths, self.parked) = (Paths::default(), Paths::default());
        if let Some(demand) = &mut self.demand {
            (demand.links_since, demand.is_asked_for) = (None, false);
            demand.carried = Lately::new(now);
            self.relays = None;
        }
        self.tell_near(now, context);
        context.mesh.ends_doubt(self.peer);
        (self.lost_links, self.ways_at) = (false, Time::NEVER);
        // Who was told that the peer is gone is to hear when it is back.
        if self.state != PeerState::Down {
            self.state = self.state_unmet();
            self.since = now;
        }
        self.busy_until = Time::NEVER;
        self.trim();
        self.rebuild_links(now, context);
    }

    /// What is in flight on any path is to be sent again.
    pub(super) fn release_paths(&mut self, now: Time) {
        for p in self.paths.values_mut().chain(self.parked.values_mut()) {
            p.path.begin_again(now, &mut self.fates);
        }
        self.deliver_fates(now);
        self.mirror.clear();
        self.replies.clear();
    }
}
