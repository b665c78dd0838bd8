//! A node's knowledge of the gateway, for its status.

use core::time::Duration;
use std::net::IpAddr;

use tabane_proto::gateway::{Command, Port};
use tabane_proto::wire::NodeId;

use super::programs::Place;
use super::serving::Carried;

/// All of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The node that serves.
    pub serving: Option<NodeId>,
    /// For how long this node has known it.
    pub since: Duration,
    /// The other gateways, and whether they could.
    pub standby: Vec<(NodeId, bool)>,
    /// Whether this node could serve; `None`: it is no gateway.
    pub is_ready: Option<bool>,
    /// Why it could not, or what is wrong while it does, in words.
    pub trouble: Option<String>,
    /// The voters, and those that have not lent their vote to this node, which wants it.
    pub voters: Vec<NodeId>,
    /// As well.
    pub voters_missing: Vec<NodeId>,
    /// Ways to the rest of the world, and whether each answers, if this node serves and that is known.
    pub routers: Vec<(IpAddr, Option<bool>)>,
    /// Ports: on the serving gateway all, on others those of their programs.
    pub ports: Vec<Held>,
    /// Ports that were refused since one has as many as one may.
    pub ports_refused: u64,
    /// Conversations, of the same.
    pub conversations: usize,
    /// Bytes that wait for the line, if this node serves.
    pub queued_bytes: Option<usize>,
    /// What was carried while this node served.
    pub carried: Carried,
    /// Packets that went nowhere, and why.
    pub dropped: Vec<(&'static str, u64)>,
}

/// A port with an owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Which.
    pub port: Port,
    /// By a program of this node.
    pub node: NodeId,
    /// Whose program, if it is here.
    pub place: Option<Place>,
    /// Its program's name, if that is elsewhere and its node has reported it.
    pub command: Option<Command>,
    /// Connections that it has been given.
    pub connections: u32,
}
