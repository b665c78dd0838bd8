//! The report on the cluster's outside address.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The cluster's gateway, as this node knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// The node that serves; `null`: none is known to.
    pub serving: Option<String>,
    /// Since when, seconds; as long as this node has known it.
    pub since_s: u64,
    /// The outside addresses.
    pub addresses: Vec<IpAddr>,
    /// The device of this node that leads outside, if it is a gateway.
    pub interface: Option<String>,
    /// Whether this node could serve; `null`: it is no gateway.
    #[serde(default)]
    pub ready: Option<bool>,
    /// Why this gateway cannot serve, or what is wrong while it does, in words; `null`: nothing.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The rate of the line, Mb/s, if the file or the device says it.
    pub rate_mbps: Option<u64>,
    /// How the queue in front of the line is kept: `fair` or `kernel`.
    pub queue: String,
    /// How long what waits for the line takes to leave, microseconds; `null`: this node does not serve, or the rate is not known.
    pub queue_us: Option<u64>,
    /// The outside device's queueing discipline, as tc(8) calls it; `null`: this node is no gateway, or its device is off.
    #[serde(default)]
    pub qdisc: Option<String>,
    /// Bytes that wait there, of all senders.
    #[serde(default)]
    pub qdisc_queued_bytes: Option<u64>,
    /// What this node has sent outside as a gateway since its daemon started, bytes of IP.
    #[serde(default)]
    pub tx_bytes: u64,
    /// What came from outside for programs, in the same way.
    #[serde(default)]
    pub rx_bytes: u64,
    /// Conversations: on the gateway that serves all, on others those of their own programs.
    pub connections: usize,
    /// The nodes that vote for the one that serves.
    #[serde(default)]
    pub voters: Vec<String>,
    /// Those of them that have not lent their vote to this node, which serves, or has asked for them in vain.
    #[serde(default)]
    pub voters_missing: Vec<String>,
    /// The ways to the rest of the world, if this node serves.
    #[serde(default)]
    pub routers: Vec<RouterStatus>,
    /// The gateways that do not serve.
    pub standby: Vec<StandbyStatus>,
    /// Ports that are claimed: on the gateway that serves all, on others those of their own programs.
    pub ports: Vec<PortStatus>,
    /// Ports that were refused since the daemon started, for a node had as many as one may have.
    #[serde(default)]
    pub ports_refused: u64,
    /// Packets that went nowhere since the daemon started, by reason; only those that did.
    pub dropped: std::collections::BTreeMap<String, u64>,
}

/// A way to the rest of the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterStatus {
    /// The router.
    pub address: IpAddr,
    /// Whether it answers when it is asked where it is; `null`: not known yet.
    pub answers: Option<bool>,
}

/// A gateway that stands by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyStatus {
    /// The node.
    pub node: String,
    /// It has its device, and the right to use it.
    pub ready: bool,
}

/// A port of the outside address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStatus {
    /// `tcp` or `udp`.
    pub transport: String,
    /// 4 or 6: the outside address.
    pub family: u8,
    /// Its number.
    pub port: u16,
    /// The node whose program has it.
    pub node: String,
    /// What program that is, where this node knows it. Of a program elsewhere it is what the other node says.
    pub command: Option<String>,
    /// Connections that it has been given and that are not over.
    pub connections: u32,
}
