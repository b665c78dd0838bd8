//! What a report says of the cluster's outside address.

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
    /// The rate of the line, Mb/s, if the file or the device says it.
    pub rate_mbps: Option<u64>,
    /// How the queue in front of the line is kept: `fair` or `kernel`.
    pub queue: String,
    /// How long what waits for the line takes to leave, microseconds; `null`: this node does not serve, or the rate is not known.
    pub queue_us: Option<u64>,
    /// Conversations: on the gateway that serves all, on others those of their own programs.
    pub connections: usize,
    /// The gateways that do not serve.
    pub standby: Vec<StandbyStatus>,
    /// Ports that are claimed: on the gateway that serves all, on others those of their own programs.
    pub ports: Vec<PortStatus>,
    /// Packets that went nowhere since the daemon started, by reason; only those that did.
    pub dropped: std::collections::BTreeMap<String, u64>,
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
    /// 4 or 6: of which of the outside addresses.
    pub family: u8,
    /// Its number.
    pub port: u16,
    /// The node whose program has it.
    pub node: String,
    /// What program that is, where this node knows it.
    pub command: Option<String>,
    /// Connections that it has been given and that are not over.
    pub connections: u32,
}
