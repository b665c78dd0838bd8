//! Endpoints without configuration: messages, tags and remote memory between the processes (the *ranks*) of a job, over
//! all links of their nodes.
//!
//! An [`Endpoint`] belongs to one process and needs no daemon and no cluster file. Its identity is its [`Address`], which
//! whatever starts the job passes to the other processes. The job shares a key.
//!
//! Nothing here blocks but [`Endpoint::wait`]. [`Core::progress`] does the posted work, in the calling thread; a helper
//! thread acknowledges and retransmits while the program computes. The end of each operation is reported once, by a
//! [`Completion`].
//!
//! The model is the Virtual Interface Architecture (1.0) as in libfabric (2.6, `fi_endpoint(3)`, `fi_tagged(3)`,
//! `fi_rma(3)`, `fi_atomic(3)`); its doors are `crates/fabric` and `crates/vipl`.

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
