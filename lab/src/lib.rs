//! A virtual cluster on one machine: nodes and switches as network
//! namespaces, line rates, delays and faults, as root or as an ordinary user.
//!
//! ```text
//!    n0                         switch 0                        n1
//!   ┌──────────┐   cable   ┌──────────────────┐   cable   ┌──────────┐
//!   │ eth0 ────┼───────────┼─ p0 ─ bridge ─ p1┼───────────┼──── eth0 │
//!   │          │           └──────────────────┘           │          │
//!   │ eth1 ────┼───────────  switch 1, likewise ──────────┼──── eth1 │
//!   └──────────┘                                          └──────────┘
//! ```
//! Node `k` has `10.77.LINK.(k+1)/24` on `ethLINK`. Each cable is a veth pair
//! with `tc tbf` at both ends; each switch is a bridge in a namespace of its
//! own. A link with a delay has our emulator (`emulator/`) in each cable. A lab with an outside
//! ([`LabConfig::outside`]) has a network beside the links, with clients on it.
//!
//! One *holder* process owns every namespace of a lab through open
//! descriptors. Nothing is pinned in the file system, so when the holder dies,
//! however it dies, the kernel removes everything.
//!
//! ```no_run
//! use tabane_lab::{Fault, Lab, LabConfig};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lab = Lab::up(&LabConfig::default())?;
//! let ping = lab.command(0, "ping").args(["-c1", "10.77.0.2"]).status()?;
//! assert!(ping.success());
//! lab.fail(0, Fault::Silent, None)?;
//! lab.heal(0)?;
//! # Ok(()) }
//! ```

pub mod cli;
pub mod cluster;
mod config;
mod counters;
pub mod demo;
mod emulator;
mod error;
mod fault;
pub mod flood;
mod holder;
mod inject;
pub mod interrupt;
mod lab;
pub mod mpi;
mod namespace;
mod outside;
pub mod pattern;
pub mod peers;
mod processes;
mod state;
pub mod svg;
mod sys;
pub mod tools;
pub mod ways;
mod wiring;

pub use config::{LINKS_MAX, LabConfig, LinkSpec, NODES_MAX};
pub use counters::PortCounters;
pub use error::LabError;
pub use fault::Fault;
pub use inject::Injection;
pub use lab::Lab;
pub use outside::{OUTSIDE_ADDRESSES, OUTSIDE_DEVICE, OutsideSpec};
pub use state::{Summary, list};
pub use sys::monotonic_ns;
