//! Peers that were not admitted, and why.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A source address whose packets were refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedStatus {
    /// Where they came from: address and UDP port of the newest.
    pub address: SocketAddr,
    /// The link they came in on.
    pub link: u8,
    /// The node that has this address in the cluster file, if one has.
    pub peer: Option<String>,
    /// Why, for machines.
    pub reason: RefusedReason,
    /// Why, in words, and what would be right.
    pub text: String,
    /// How many at least: when very many come, not all are counted here.
    pub count: u64,
    /// When the first came, milliseconds since 1970-01-01 UTC.
    pub first_unix_ms: u64,
    /// When the newest came, milliseconds since 1970-01-01 UTC.
    pub last_unix_ms: u64,
    /// How long ago that is, seconds.
    pub last_s: u64,
}

/// Why somebody was refused. New ones may come: then it is [`Other`](RefusedReason::Other).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedReason {
    /// A node's address, but handshakes made with another key.
    WrongKey,
    /// Another version of the protocol.
    WrongVersion,
    /// One end is configured for an encrypted wire, the other for a plain one.
    WrongWire,
    /// It looks for another node at this node's address.
    WrongDestination,
    /// Another node answered at a peer's address.
    WrongPeer,
    /// Its name is not in this node's cluster file.
    UnknownNode,
    /// One of the two has another key than its `public` in the other one's cluster file.
    WrongIdentity,
    /// It has this node's own name.
    OwnName,
    /// Two machines run under one name.
    DuplicateName,
    /// It has an address of another node.
    DuplicateAddress,
    /// Its packets come over another link than the one they say.
    WrongLink,
    /// It has the key, but its handshake makes no sense.
    Malformed,
    /// One that this program does not know: the daemon is newer.
    #[serde(other)]
    Other,
}
