//! The system calls of tabane behind small safe interfaces.
//!
//! This room knows nothing of the protocol: it moves batches of datagrams
//! ([`udp`]), tells what the kernel says about links ([`netlink`]), readiness
//! and time ([`poll`], [`clock`]), and gives seeds ([`entropy`]).
//!
//! Linux only. Everything is non-blocking unless its documentation says
//! otherwise, and meant to be driven by one loop on one thread.

pub mod clock;
pub mod entropy;
pub mod netlink;
pub mod poll;
mod sys;
pub mod udp;

#[cfg(test)]
mod namespace;
