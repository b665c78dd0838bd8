//! The only loop of tabane: feeds the protocol from the system, reads the clock
//! and the entropy source. Hosted by the daemon, or by a process that uses the
//! library; the host adds descriptors and takes events and frames.
//!
//! One turn of the loop: wait, take in what arrived on every link, let the host
//! put in what it has, let timers run, send what there is to send. Everything
//! that has arrived is handed in before timers run, because paths are judged in
//! timers by what came.
#![forbid(unsafe_code)]

mod batch;
mod engine;
mod host;
mod link;
mod links;
mod setback;
mod shield;
mod sieve;
mod spin;
mod system;
#[cfg(test)]
mod tests;

pub use batch::BULK_BYTES;
pub use engine::{Engine, EngineConfig, EngineError, Wait, now};
pub use host::{HOST_TOKENS, Host, LoopTurn};
pub use link::{LinkSpec, LinkStatus};
pub use setback::Setback;
pub use spin::SPIN;
