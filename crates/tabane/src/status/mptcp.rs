//! What a report says of the kernel's Multipath TCP.

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
