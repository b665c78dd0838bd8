//! `libtabane-vipl.so` and `vipl.h`: the VI Provider Library (Virtual Interface Architecture 1.0; Intel Virtual Interface
//! Developer's Guide 1.0) over all links of a node.
//!
//! It stands on [`tabane_rank`]. A NIC is an endpoint of its own; a connection of two VIs is a *line* at each end, a number
//! that is never used twice, by which messages are matched. What the two ends say to set one up is in [`wire`]; where a process is
//! that waits for a discriminator, at a node of which only the address is known, [`rendezvous`] finds out. A send is a message
//! to the peer's line; a descriptor of the receive queue a buffer that waits for one. Memory is written and read by the
//! endpoint's own puts and gets.
//!
//! What a NIC has is behind one lock ([`state`]). The thread that asks or waits runs the endpoint; a thread of the NIC's
//! own does while none does, and calls the program's handlers ([`nic`]).

pub mod abi;
mod address;
pub mod calls;
mod completion;
mod connect;
mod cq;
#[doc(hidden)]
pub mod foreign;
mod guard;
mod memory;
mod names;
mod nic;
mod queue;
mod rendezvous;
mod state;
#[cfg(test)]
mod tests;
mod vi;
mod wire;
mod work;
