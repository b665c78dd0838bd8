//! A peer that is known and was never met: what it takes to call it, and no more. It becomes a
//! [`Bundle`] when it first speaks, or when something is to be kept for it.

use std::net::{IpAddr, SocketAddr};

use super::session::Sessions;
use super::{Bundle, BundlePath, PeerState, PeerStats, SEEN_OFTEN, path_status, relays};
use crate::context::{Context, PeerConfig, Transmit};
use crate::crypto::PublicKey;
use crate::limits::LINKS_MAX;
use crate::link::{Path, PathState, Watch};
use crate::op::OpStats;
use crate::wire::Name;
use crate::{LinkId, PeerId, Time};

/// A peer that was never met.
pub(crate) struct Absent {
    pub peer: PeerId,
    pub name: Name,
    pub config: PeerConfig,
    pub sessions: Sessions,
    pub since: Time,
    pub watch: Watch,
    pub stopped: bool,
    pub wrong_keys: u8,
    /// It was reached through others when that was last looked at.
    pub has_way: bool,
    /// It is not called: what is to be carried to it goes through others, when there is something.
    pub on_demand: bool,
}

impl Absent {
    /// It is called at the time `first_call` if it does not call first.
    pub fn new(
        now: Time,
        first_call: Time,
        peer: PeerId,
        name: Name,
        config: PeerConfig,
        context: &mut Context,
    ) -> Absent {
        let mut sessions = Sessions::default();
        sessions.not_before = first_call;
        sessions.my_bundle = context.random.u64().max(1);
        Absent {
            peer,
            name,
            config,
            sessions,
            since: now,
            watch: Watch::None,
            has_way: false,
            on_demand: false,
            stopped: false,
            wrong_keys: 0,
        }
    }

    /// It speaks, or something is to be kept for it.
    pub fn meet(self: Box<Self>, now: Time, context: &Context) -> Box<Bundle> {
        Box::new(Bundle::new(now, *self, context))
    }

    /// A bit for every link that it can be called on.
    pub fn path_mask(&self, context: &Context) -> u16 {
        self.links(context).fold(0, |mask, id| mask | id.bit())
    }

    /// The same with ways through other nodes, once it has not answered for a while: nothing waits for it.
    fn all_paths(&self, now: Time, context: &mut Context) -> u16 {
        if !self.is_missed(now) {
            return self.path_mask(context);
        }
        let ways = context.mesh.addresses(now, self.peer, &[]).len();
        if ways == 0 {
            context.mesh.seek(self.peer, &self.name);
        }
        let relayed = ((1 << ways) - 1) << LINKS_MAX;
        self.path_mask(context) | relayed
    }

    /// Whether it has been called in vain for so long that others may know a way.
    pub fn is_missed(&self, now: Time) -> bool {
        let sessions = &self.sessions;
        sessions.is_unanswered(now, relays::LINKS_FIRST)
    }

    fn links(&self, context: &Context) -> impl Iterator<Item = LinkId> {
        let ids = (0..LINKS_MAX as u8).map(LinkId);
        ids.filter(|id| {
            if self.on_demand {
                return false;
            }
            let (ours, theirs) = (&context.links, &self.config.addresses);
            ours[id.index()].is_some() && theirs[id.index()].is_some()
        })
    }

    pub fn handle_timeout(&mut self, now: Time, context: &mut Context) {
        if self.on_demand {
            return;
        }
        // To look for ways takes work.
        let paths = match self.sessions.repeats(now) {
            true => self.all_paths(now, context),
            false => 0,
        };
        if let Some(dropped) = self.sessions.on_timeout(now, paths) {
            context.sessions.remove(&dropped);
        }
        if !self.stopped && self.sessions.wants_initiation(now, false) {
            self.call(now, context);
        }
    }

    fn call(&mut self, now: Time, context: &mut Context) {
        let paths = self.path_mask(context);
        let whom = (self.peer, self.name, self.config.public);
        self.sessions.call(now, whom, paths, context);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let calls = !self.stopped && !self.on_demand;
        self.sessions.next_timeout(true).filter(|_| calls)
    }

    /// The next first message, if a link takes it.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &Context,
    ) -> Option<Transmit> {
        let paths = self.path_mask(context) | relays::RELAYED;
        if let Some(initiation) = &mut self.sessions.initiation {
            // A link may have been taken away since.
            initiation.unsent &= paths;
        }
        let (link, _, bytes) = self.sessions.next_first_message(buffer, context)?;
        let to = match link.index().checked_sub(LINKS_MAX) {
            None => self.config.addresses[link.index()]?,
            Some(nth) => *context.mesh.addresses(now, self.peer, &[]).get(nth)?,
        };
        Some(Transmit {
            link,
            to,
            bytes,
            segment_bytes: bytes,
            peer_was_heard: false,
        })
    }

    /// A first message of the peer's came. Whether it met one of ours, which counts: then ours is repeated. (If it
    /// comes from elsewhere than the configuration says, that is to be remembered: see [`Bundle::on_init`].)
    pub fn is_crossing(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        context: &Context,
    ) -> bool {
        let ours_counts = context.config.name < self.config.name;
        let is_there = self.config.addresses.get(link.index()) == Some(&Some(from));
        if !ours_counts || !is_there || !self.sessions.awaits_peer(now) {
            return false;
        }
        if let Some(initiation) = &mut self.sessions.initiation {
            initiation.unsent |= link.bit();
        }
        true
    }

    /// Whether it is called from now on, though nothing is to be carried to it: at `at`, if it would be later.
    pub fn set_kept(&mut self, at: Time, kept: bool, context: &mut Context) {
        self.on_demand = !kept;
        if kept {
            self.sessions.hasten(at);
        } else if let Some(given_up) = self.sessions.initiation.take_if(|_| !kept) {
            context.sessions.remove(&given_up.local);
        }
    }

    /// The node's cluster keys were replaced.
    pub fn on_new_keys(&mut self, now: Time, context: &mut Context) {
        self.sessions.hasten(now);
        let initiation = self.sessions.initiation.as_ref();
        if initiation.is_some_and(|i| i.key != context.keys[0]) {
            self.call(now, context);
        }
    }

    /// If a first message of ours is under way, another one takes its place: it was made of what no longer holds.
    pub fn call_anew(&mut self, now: Time, context: &mut Context) {
        if self.sessions.initiation.is_some() {
            self.call(now, context);
        }
    }

    /// The peer's public key was replaced in the configuration.
    pub fn set_public(&mut self, now: Time, public: Option<PublicKey>, context: &mut Context) {
        if self.config.public != public {
            self.config.public = public;
            self.call_anew(now, context);
        }
    }

    /// Whether the configuration has the peer's link at this address.
    pub fn is_configured_at(&self, link: LinkId, address: IpAddr) -> bool {
        let configured = self.config.addresses.get(link.index()).copied().flatten();
        configured.is_some_and(|configured| configured.ip() == address)
    }

    /// As [`Bundle::notices_wrong_key`].
    pub fn notices_wrong_key(&mut self) -> bool {
        self.wrong_keys = self.wrong_keys.saturating_add(1);
        self.wrong_keys >= SEEN_OFTEN
    }

    /// Its paths, of which nothing is known.
    pub fn path_states(&self, context: &Context) -> impl Iterator<Item = (LinkId, PathState)> {
        self.links(context).map(|id| (id, PathState::Untested))
    }

    pub fn stats(&self, context: &Context) -> PeerStats {
        let untested = |id: LinkId| {
            let link = context.links[id.index()]?;
            let config = super::paths::config(&link, super::PEER_BUFFER_BYTES_UNKNOWN, context);
            let path = Path::new(id, self.since, &config);
            let path = BundlePath::new(path, self.config.addresses[id.index()]?);
            let mut status = path_status(id, &path);
            status.stats.memory_bytes = 0;
            Some(status)
        };
        PeerStats {
            name: self.config.name.clone(),
            state: match self.on_demand {
                true => PeerState::OnDemand,
                false => PeerState::Connecting,
            },
            since: self.since,
            session_since: None,
            public: None,
            features: 0,
            paths: self.links(context).filter_map(untested).collect(),
            relayed: Vec::new(),
            op: OpStats::default(),
            memory_bytes: self.memory_bytes(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Absent>() + self.config.name.capacity() + self.sessions.heap_bytes()
    }
}
