//! The tabane protocol as a pure state machine: no clock, no socket, no thread,
//! no randomness of its own.
//!
//! Sending goes down the folders, receiving up: [`op`] → [`segment`] → [`link`] →
//! [`wire`].
#![forbid(unsafe_code)]

pub mod bundle;
pub mod crypto;
mod id;
pub mod limits;
pub mod link;
pub mod op;
mod random;
pub mod segment;
mod time;
pub mod wire;

pub use id::{LinkId, PeerId, StreamId};
pub use random::Random;
pub use time::Time;
