//! What a node is told before it starts, and what is wrong with it.

use core::fmt;
use std::net::SocketAddr;

use crate::LinkId;
use crate::crypto::{IdentityError, PrivateKey, PublicKey};
use crate::limits::{DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN, LINKS_MAX, NAME_BYTES_MAX};
use crate::link::CongestionControl;
use crate::mesh::{Joining, RelayConfig};
use crate::op::OpLimits;
use crate::wire::WireMode;

/// One link of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// Its number: the network it is on.
    pub id: LinkId,
    /// Where datagrams leave from and arrive.
    pub address: SocketAddr,
    /// Largest UDP payload that the interface takes (its MTU less IP and UDP
    /// headers). Path MTU discovery stays at or below it.
    pub datagram_bytes_max: u16,
}

/// Another node of the cluster, as the configuration has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerConfig {
    /// Its name: 1 to [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Its address on each network; `None` where it has none.
    pub addresses: [Option<SocketAddr>; LINKS_MAX],
    /// Its public key: with it, nobody else is accepted under its name. Without, whoever has the
    /// cluster key is.
    pub public: Option<PublicKey>,
}

impl PeerConfig {
    /// Whether somebody who has the cluster key and has shown to be the holder of `shown`, or of no
    /// key, may be this peer.
    pub(crate) fn accepts(&self, shown: Option<PublicKey>) -> bool {
        self.public.is_none() || self.public == shown
    }
}

/// Nodes that may call though no configuration names them.
#[derive(Clone, Copy, Debug)]
pub enum Guests {
    /// A name says where its bearer is.
    Located {
        /// How many there may be at once.
        count_max: usize,
        /// Where the node of a name is, on each network; `None` if no guest may bear that name.
        locate: fn(&str) -> Option<[Option<SocketAddr>; LINKS_MAX]>,
    },
    /// Nodes tell each other who they are, and may join.
    Joining(Joining),
}

/// This node.
#[derive(Clone)]
pub struct NodeConfig {
    /// Its name: 1 to [`NAME_BYTES_MAX`] bytes, the same in every node's configuration.
    pub name: String,
    /// Cluster keys. The first one is used to connect, all of them are accepted.
    pub keys: Vec<[u8; 32]>,
    /// Its own private key, if it has one.
    pub private: Option<PrivateKey>,
    /// The public key that its peers have in their configuration for it, if any.
    pub public: Option<PublicKey>,
    /// Whether packets are encrypted. Both ends must agree.
    pub wire: WireMode,
    /// Whether AES-128-GCM is fast here (the CPU has AES instructions). Used
    /// if both ends say so, ChaCha20-Poly1305 otherwise.
    pub cipher_aes: bool,
    /// Bytes the kernel can hold for one link between two reads: told to the
    /// peers, who keep less than that in flight.
    pub receive_buffer_bytes: u32,
    /// The links it has now.
    pub links: Vec<LinkConfig>,
    /// Bounds on what streams, messages and frames may hold, per peer.
    pub op_limits: OpLimits,
    /// What it can beyond the protocol's version, a bit each; in use with peers that can it, too. See
    /// [`FEATURE_MEMORY`](crate::wire::FEATURE_MEMORY) and [`FEATURE_RELAYS`](crate::wire::FEATURE_RELAYS).
    pub features: u64,
    /// Whether and how it relays what others send to others, if it has that feature.
    pub relay: RelayConfig,
    /// Who may call though it was not added; nobody without.
    pub guests: Option<Guests>,
    /// What decides how much may be in flight on each path.
    pub congestion: CongestionControl,
}

/// A configuration that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// A node's name is empty or longer than [`NAME_BYTES_MAX`] bytes.
    BadName(String),
    /// Two nodes (or this node and a peer) have the same name.
    DuplicateName(String),
    /// A link number of [`LINKS_MAX`] or more, or one given twice.
    BadLink(LinkId),
    /// A link whose largest datagram is below [`DATAGRAM_BYTES_MIN`].
    LinkTooSmall(LinkId, u16),
    /// No cluster key.
    NoKey,
    /// This node's public and private key do not belong together.
    Identity(IdentityError),
}

impl From<IdentityError> for ConfigError {
    fn from(error: IdentityError) -> ConfigError {
        ConfigError::Identity(error)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::BadName(name) => {
                write!(
                    f,
                    "node name {name:?} must have 1 to {NAME_BYTES_MAX} bytes"
                )
            }
            ConfigError::DuplicateName(name) => write!(f, "two nodes are named {name:?}"),
            ConfigError::BadLink(id) => {
                write!(
                    f,
                    "link {} is given twice or is not below {LINKS_MAX}",
                    id.0
                )
            }
            ConfigError::LinkTooSmall(id, bytes) => write!(
                f,
                "link {} carries datagrams of {bytes} bytes only; at least {DATAGRAM_BYTES_MIN} are needed",
                id.0
            ),
            ConfigError::NoKey => f.write_str("no cluster key"),
            ConfigError::Identity(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConfigError {}

impl LinkConfig {
    pub(crate) fn check(mut self) -> Result<LinkConfig, ConfigError> {
        if self.id.index() >= LINKS_MAX {
            return Err(ConfigError::BadLink(self.id));
        }
        if usize::from(self.datagram_bytes_max) < DATAGRAM_BYTES_MIN {
            return Err(ConfigError::LinkTooSmall(self.id, self.datagram_bytes_max));
        }
        self.datagram_bytes_max = self.datagram_bytes_max.min(DATAGRAM_BYTES_MAX as u16);
        Ok(self)
    }
}
