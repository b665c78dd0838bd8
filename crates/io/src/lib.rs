//! The system calls of tabane behind small safe interfaces.
//!
//! This room knows nothing of the protocol: it moves batches of datagrams
//! ([`udp`]), frames of a virtual NIC ([`vnic`]), what the kernel says about
//! links ([`netlink`]), readiness and time ([`poll`], [`notify`], [`clock`]), and the few
//! things a well-behaved daemon needs ([`signals`], [`systemd`], [`handover`],
//! [`credentials`], [`privileges`], [`entropy`], [`alarm`]); and what diagnosis needs: a look at a link from beside the daemon
//! ([`probe`], [`ethtool`]); and other programs' connections and datagrams, where they begin
//! ([`capture`], [`socket_calls`]); and memory between processes ([`shared_memory`]); and changes to files of others ([`rewrite`]). All `unsafe` of the program lives here.
//!
//! Linux only. Everything is non-blocking unless its documentation says
//! otherwise, and meant to be driven by one loop on one thread.

pub mod alarm;
pub mod capture;
pub mod checksum;
pub mod clock;
pub mod credentials;
pub mod entropy;
pub mod ethtool;
pub mod failure;
pub mod handover;
pub mod namespaces;
pub mod netlink;
pub mod notify;
pub mod outside;
pub mod poll;
pub mod privileges;
pub mod probe;
pub mod process;
pub mod rewrite;
pub mod shared_memory;
pub mod signals;
pub mod socket_calls;
pub mod sockets;
mod sys;
pub mod systemd;
mod tuntap;
pub mod udp;
pub mod users;
pub mod vnic;

#[cfg(test)]
mod isolated;
