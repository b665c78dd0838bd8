//! Messages between a supervisor and the agent, each in JSON.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The longest name of a program; longer ones are cut.
pub const COMMAND_CHARS_MAX: usize = 64;

/// Error of a failed claim if the system does not say (errno.h).
pub const EACCES: i32 = 13;
/// Another program has the port (errno.h).
pub const EADDRINUSE: i32 = 98;
/// No socket can be made for it (errno.h).
pub const ENOBUFS: i32 = 105;

/// The protocol of a port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A program listens there.
    Tcp,
    /// A program has bound a socket to it.
    Udp,
}

/// A port that a program wants to be reached at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// Of what.
    pub transport: Transport,
    /// The address and port; port 0: any port.
    pub address: SocketAddr,
    /// Whether IPv4 is left to others, of an address of IPv6.
    pub only_v6: bool,
    /// SO_REUSEADDR.
    pub reuse_address: bool,
    /// SO_REUSEPORT.
    pub reuse_port: bool,
    /// Only reserve it: for TCP, until the program listens.
    #[serde(default)]
    pub is_held: bool,
}

/// From the supervisor of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "lowercase")]
pub enum ToAgent {
    /// With the sockets of a namespace; also to another agent, when the one before is gone.
    Begin {
        /// Its addresses, which stay within, and the lengths of their networks' prefixes.
        own: Vec<(IpAddr, u8)>,
        /// The cluster's outside addresses, if it has them: the last descriptor is of the TUN that leads outside then.
        #[serde(default)]
        outside: Vec<IpAddr>,
        /// The process that it was made for.
        pid: u32,
        /// What that runs.
        command: String,
    },
    /// A program waits for a port.
    Claim {
        /// For the answer.
        id: u64,
        /// Which.
        claim: Claim,
    },
    /// No program here has this port any more.
    Released {
        /// Of what.
        transport: Transport,
        /// Its number.
        port: u16,
    },
    /// End of the answer to [`ToSupervisor::Look`].
    Looked,
    /// With sockets that can speak for programs of other nodes, as [`ToSupervisor::Spare`] wants.
    Spares {
        /// Whether of IPv6.
        is_v6: bool,
    },
    /// Has sockets by which programs leave this node, as [`ToSupervisor::Outward`] asks; none if
    /// they cannot be made.
    Outward {
        /// Of what.
        transport: Transport,
        /// Whether of IPv6.
        is_v6: bool,
    },
    /// The answer to [`ToSupervisor::Connect`], with the socket if there is one.
    Connected {
        /// The question's id.
        id: usize,
        /// As well.
        question: u64,
        /// The error number if there is no socket; without it nobody listens there.
        #[serde(default)]
        error: Option<i32>,
    },
}

/// To the supervisor of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "lowercase")]
pub enum ToSupervisor {
    /// The program may begin.
    Go,
    /// There are as many programs as may be.
    Full,
    /// It did what no supervisor does, and is no longer served.
    Ended {
        /// What it did, in words.
        why: String,
    },
    /// The answer to [`ToAgent::Claim`].
    Claimed {
        /// The question's id.
        id: u64,
        /// The port that it is to have; 0: whichever its kernel chooses.
        port: u16,
        /// The error number that it is to fail with, if it is.
        error: Option<i32>,
    },
    /// Another program wants a port that is taken by one here: is it still?
    Look,
    /// Make this many sockets that can speak for programs of other nodes, so that they need not
    /// be asked for one by one.
    Spare {
        /// How many.
        count: usize,
        /// Whether of IPv6.
        is_v6: bool,
    },
    /// Get this many sockets by which programs leave this node, made outside of their namespace.
    Outward {
        /// How many.
        count: usize,
        /// Of what.
        transport: Transport,
        /// Whether of IPv6.
        is_v6: bool,
    },
    /// Make a socket that speaks for `from`, and connect it to `to`: there is no spare one.
    Connect {
        /// For the answer.
        id: usize,
        /// As well: no other question has this number.
        question: u64,
        /// A program on another node.
        from: SocketAddr,
        /// A program here, if it listens.
        to: SocketAddr,
    },
}

impl ToAgent {
    /// [`ToAgent::Begin`] for a program by its path.
    pub fn begin(
        own: Vec<(IpAddr, u8)>,
        outside: Vec<IpAddr>,
        pid: u32,
        program: &OsStr,
    ) -> ToAgent {
        let name = Path::new(program).file_name().unwrap_or(program);
        let name = name.to_string_lossy();
        ToAgent::Begin {
            own,
            outside,
            pid,
            command: name.chars().take(COMMAND_CHARS_MAX).collect(),
        }
    }

    /// Of [`ToAgent::Begin`], all addresses.
    pub fn own_addresses(&self) -> Vec<IpAddr> {
        match self {
            ToAgent::Begin { own, outside, .. } => {
                let own = own.iter().map(|(address, _)| *address);
                own.chain(outside.iter().copied()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Parses a message; `None` if it is malformed.
    pub fn parse(message: &[u8]) -> Option<ToAgent> {
        serde_json::from_slice(message).ok()
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        // These types have only string keys, so this does not fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl ToSupervisor {
    /// Parses a message; `None` if it is malformed.
    pub fn parse(message: &[u8]) -> Option<ToSupervisor> {
        serde_json::from_slice(message).ok()
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        // These types have only string keys, so this does not fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
