//! The report on the kernel's Multipath TCP.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Multipath TCP of this network namespace, as it is steered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MptcpStatus {
    /// Connections to other nodes now.
    pub connections: usize,
    /// Subflows of these.
    #[serde(default)]
    pub subflows: usize,
    /// How often a detour was made or ended since the daemon started.
    pub steered: u64,
    /// Addresses of peers that are reached by another link than their own, which has failed.
    pub detours: Vec<DetourStatus>,
    /// What is not steered.
    #[serde(default)]
    pub unsteered: Vec<UnsteeredStatus>,
    /// The connections: as many as are listed.
    pub listed: Vec<ConnectionStatus>,
}

/// An address that is reached by another link than its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetourStatus {
    /// The address.
    pub to: IpAddr,
    /// The peer's address on that other link.
    pub via: IpAddr,
    /// Since when, milliseconds since 1970-01-01 UTC.
    pub since_unix_ms: u64,
}

/// What is not steered, and why: streams from this address to these peers stand still while its link has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsteeredStatus {
    /// This node's address on the link.
    pub local: IpAddr,
    /// The peers; none: all.
    pub peers: Vec<String>,
    /// What is in the way, in words.
    pub why: String,
    /// What would be right, in words.
    pub mend: String,
}

/// A connection of Multipath TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// The other node.
    pub peer: String,
    /// Its subflows.
    pub subflows: Vec<SubflowStatus>,
}

/// A subflow of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubflowStatus {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
}

impl UnsteeredStatus {
    /// For people: `all peers`, or up to eight by their names.
    pub fn to_whom(&self) -> String {
        const SHOWN: usize = 8;
        match self.peers.len() {
            0 => "all peers".to_owned(),
            1..=SHOWN => self.peers.join(", "),
            more => format!(
                "{} and {} more",
                self.peers[..SHOWN].join(", "),
                more - SHOWN
            ),
        }
    }
}

impl MptcpStatus {
    /// For people: `3 connections, 1 address on a detour`.
    pub fn summary(&self) -> String {
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            count => format!("{count} connections"),
        };
        match self.detours.len() {
            0 => connections,
            1 => format!("{connections}, 1 address on a detour"),
            count => format!("{connections}, {count} addresses on detours"),
        }
    }
}
