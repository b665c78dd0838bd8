//! Endpoints that nobody configured: messages, tags and remote memory between the processes (the *ranks*) of a
//! job, over all links of their nodes.
//!
//! An [`Endpoint`] belongs to one process, and is all that there is: no daemon, no cluster file. It is known by its
//! [`Address`], which other processes are told by whatever starts the job. What the job shares is a key.
//!
//! Nothing here blocks but [`Endpoint::wait`]. What is posted is done when [`Core::progress`] is called, by the
//! calling thread; a helper thread acknowledges and sends again while the program computes. How each operation ended is
//! told once, by a [`Completion`].
//!
//! The model is the Virtual Interface Architecture (1.0) as libfabric (2.6, `fi_endpoint(3)`, `fi_tagged(3)`, `fi_rma(3)`,
//! `fi_atomic(3)`) has it: it has doors of its own in `crates/fabric` and `crates/vipl`.

mod address;
mod api;
mod arithmetic;
pub mod door;
mod endpoint;
pub mod environment;
#[doc(hidden)]
pub mod foreign;
mod local;
mod matching;
mod memory;
mod rank;
pub mod sealed;
mod wire;

pub use address::{Address, BadAddress};
pub use api::*;
pub use endpoint::Endpoint;
