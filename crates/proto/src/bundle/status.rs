//! What is known of a peer and its paths, for `status`.

use std::net::SocketAddr;

use super::session::InitId;
use super::{Bundle, BundlePath, PeerState};
use crate::crypto::PublicKey;
use crate::link::{Path, PathState};
use crate::op::{OpStats, Ops};
use crate::segment::{Content, Fate};
use crate::wire::{Record, Witness};
use crate::{LinkId, PathStats, PeerId, Time};
/// What is known of a path: for `status`.
#[derive(Clone, Debug)]
pub struct PathStatus {
    /// Which one.
    pub link: LinkId,
    /// Where packets go.
    pub remote: SocketAddr,
    /// Whether it works.
    pub state: PathState,
    /// Since when.
    pub since: Time,
    /// What told it.
    pub witness: Witness,
    /// Its figures.
    pub stats: PathStats,
}

/// What is known of a path through other nodes: for `status`.
#[derive(Clone, Debug)]
pub struct RelayedStatus {
    /// The path's number, for [`Node::path_stats`](crate::Node::path_stats).
    pub id: LinkId,
    /// The nodes that it leads through, in order.
    pub relays: Vec<PeerId>,
    /// Whether it works.
    pub state: PathState,
    /// Since when.
    pub since: Time,
    /// Its figures.
    pub stats: PathStats,
}

/// What is known of a peer: for `status`.
#[derive(Clone, Debug)]
pub struct PeerStats {
    /// Its name.
    pub name: String,
    /// Whether it is connected.
    pub state: PeerState,
    /// Since when.
    pub since: Time,
    /// Since when the current keys are in use, if any are.
    pub session_since: Option<Time>,
    /// The public key that the configuration has for it, if it has shown to be its holder.
    pub public: Option<PublicKey>,
    /// What both ends can beyond this version of the protocol, a bit each.
    pub features: u64,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// Those through other nodes, while they are used.
    pub relayed: Vec<RelayedStatus>,
    /// What is carried.
    pub op: OpStats,
    /// Bytes of memory held for it.
    pub memory_bytes: usize,
}

impl Bundle {
    /// Whether both ends may have a feature: while there is no session, as at rest, nobody knows.
    pub fn may_have(&self, feature: u64) -> bool {
        let session = self.sessions.current.as_ref();
        session.is_none_or(|session| session.features & feature != 0)
    }

    pub fn stats(&self) -> PeerStats {
        let session = self.sessions.current.as_ref();
        PeerStats {
            name: self.config.name.clone(),
            state: self.state,
            since: self.since,
            session_since: session.map(|s| s.since),
            public: session.and_then(|s| s.shown.public.filter(|k| self.config.public == Some(*k))),
            features: self.features(),
            paths: self
                .paths
                .iter()
                .filter(|(id, _)| !id.is_relayed())
                .map(|(id, p)| path_status(id, p))
                .collect(),
            relayed: self.relayed_status(),
            op: self.ops.stats(),
            memory_bytes: self.memory_bytes(),
        }
    }

    pub fn path_stats(&self, id: LinkId) -> Option<PathStats> {
        Some(self.paths.get(id)?.path.stats())
    }

    pub fn memory_bytes(&self) -> usize {
        let paths = self.paths.values().chain(self.parked.values());
        let beside = size_of::<BundlePath>() - size_of::<Path>();
        let paths: usize = paths.map(|p| p.path.stats().memory_bytes + beside).sum();
        let queues = self.mirror.capacity() * size_of::<(LinkId, Content)>()
            + self.replies.capacity() * size_of::<(Option<LinkId>, Record<'static>)>()
            + self.answered_inits.capacity() * size_of::<InitId>()
            + self.fates.capacity() * size_of::<(Content, Fate)>()
            + self.contents.capacity() * size_of::<Content>();
        size_of::<Bundle>() + paths + queues + self.sessions.heap_bytes() + self.ops.memory_bytes()
            - size_of::<Ops>()
            + self.relays_bytes()
            + self.trace_bytes()
    }
}

pub(super) fn path_status(link: LinkId, p: &BundlePath) -> PathStatus {
    PathStatus {
        link,
        remote: p.remote,
        state: p.path.state(),
        since: p.path.since(),
        witness: p.path.witness(),
        stats: p.path.stats(),
    }
}
