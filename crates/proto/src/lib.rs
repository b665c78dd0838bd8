//! The tabane protocol as a pure state machine: no clock, no socket, no thread,
//! no randomness of its own. Everything with an effect is an argument, so that a
//! run is replayed exactly from its seed.
//!
//! # Following a byte
//! Sending goes down the folders, receiving up: [`op`] (streams, messages,
//! frames) → [`segment`] (numbered pieces) → [`link`] (which path, how fast, is
//! it alive) → [`wire`] (bytes), sealed by [`crypto`]; [`bundle`] joins them for
//! one peer, [`Node`] holds all peers.
//!
//! # The driver contract
//! Every call that changes state is one of: *a datagram arrived*
//! ([`Node::handle_datagram`]), *a timeout passed* ([`Node::handle_timeout`],
//! [`Node::handle_link`]), *an application operation* (all others with `&mut`).
//! After each (or each batch) the driver drains, in this order, until they are
//! empty: [`Node::poll_transmit`], [`Node::poll_event`],
//! [`Node::receive_frame`]; then it asks [`Node::poll_timeout`] how long it may
//! sleep. `now` never runs backwards; `seed` is unpredictable.
#![forbid(unsafe_code)]

mod allowance;
pub mod bundle;
mod context;
pub mod crypto;
pub mod gateway;
mod id;
pub mod limits;
pub mod link;
mod mesh;
pub mod node;
pub mod op;
mod random;
pub mod segment;
mod time;
pub mod trace;
pub mod wire;

pub use bundle::{PathStatus, PeerState, PeerStats, RelayedStatus, Standby};
pub use context::{
    ConfigError, DownReason, Event, Guests, LinkConfig, NodeConfig, NodeStats, PartedWhy,
    PeerConfig, RanOut, Refusal, Rejection, Transmit,
};
pub use id::{LinkId, PeerId, StreamId};
pub use link::{CongestionControl, CongestionState, PathStats};
pub use mesh::{Joining, RelayConfig, bundles_needed, topology};
pub use node::{BUNDLES_LEAST, BundleCount, Node};
pub use random::Random;
pub use time::{GRANULARITY, Time};
