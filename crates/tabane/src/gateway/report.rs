//! What a node knows of the gateway, for its status.

use core::time::Duration;

use tabane_proto::gateway::Port;
use tabane_proto::wire::NodeId;

use super::programs::Place;

/// All of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Who serves.
    pub serving: Option<NodeId>,
    /// For how long this node has known it.
    pub since: Duration,
    /// The other gateways, and whether they could.
    pub standby: Vec<(NodeId, bool)>,
    /// Ports: on the gateway that serves all, on others those of their programs.
    pub ports: Vec<Held>,
    /// Conversations, of the same.
    pub conversations: usize,
    /// What waits for the line, in bytes, if this node serves.
    pub queued_bytes: Option<usize>,
    /// Packets that went nowhere, and why.
    pub dropped: Vec<(&'static str, u64)>,
}

/// A port that is had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// Which.
    pub port: Port,
    /// By a program of this node.
    pub node: NodeId,
    /// Whose program, if it is here.
    pub place: Option<Place>,
    /// Connections that it has been given.
    pub connections: u32,
}
