//! `libtabane-vipl.so` and `vipl.h`: the VI Provider Library (Virtual Interface Architecture 1.0; Intel Virtual Interface
//! Developer's Guide 1.0) over all links of a node.
//!
//! It is based on [`tabane_rank`]. A NIC is an endpoint of its own; a connection of two VIs is a *line* at each end, a number
//! that is never reused, by which messages are matched. The messages that set one up are in [`wire`]; [`rendezvous`] finds the
//! process that waits for a discriminator, at a node of which only the address is known. A send is a message to the peer's line;
//! a descriptor of the receive queue is a buffer for one. The endpoint's own puts and gets write and read memory.
//!
//! A NIC's state is behind one lock ([`state`]). A thread that asks or waits runs the endpoint; while none does, a thread of the
//! NIC's own runs it, and calls the program's handlers ([`nic`]).

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
