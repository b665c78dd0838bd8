//! What a supervisor and the agent say to each other: a message of JSON each.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// From the supervisor of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "lowercase")]
pub enum ToAgent {
    /// With the sockets of a namespace, which has these addresses.
    Begin {
        /// They stay within.
        own: Vec<IpAddr>,
    },
    /// A program begins to listen at an address. It goes on when it is answered.
    Listen {
        /// For the answer.
        id: u64,
        /// The address and port.
        address: SocketAddr,
    },
    /// The answer to [`ToSupervisor::Connect`], with the socket if there is one.
    Connected {
        /// That of the question.
        id: usize,
    },
}

/// To the supervisor of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "lowercase")]
pub enum ToSupervisor {
    /// The program may begin.
    Go,
    /// The answer to [`ToAgent::Listen`].
    Listening {
        /// That of the question.
        id: u64,
        /// The error number that it is to fail with, if it is.
        error: Option<i32>,
    },
    /// Make a socket that speaks for `from`, and connect it to `to`.
    Connect {
        /// For the answer.
        id: usize,
        /// A program on another node.
        from: SocketAddr,
        /// A program here, if it listens.
        to: SocketAddr,
    },
}

impl ToAgent {
    /// Reads a message; `None` if it is none.
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
    /// Reads a message; `None` if it is none.
    pub fn parse(message: &[u8]) -> Option<ToSupervisor> {
        serde_json::from_slice(message).ok()
    }

    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        // These types have only string keys, so this does not fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
