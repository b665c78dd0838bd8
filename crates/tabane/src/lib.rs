//! The program `tabane`: command line, cluster file, daemon, virtual NIC, status.
//!
//! A library only so that its parts can be tested and so that `main.rs` is a
//! single call; other programs use `libtabane`.
#![forbid(unsafe_code)]

pub mod agent;
pub mod bench;
pub mod bugreport;
pub mod bulk;
pub mod cli;
mod closing;
mod companion;
pub mod daemon;
pub mod doctor;
pub mod exit_codes;
mod flow_rules;
pub mod gateway;
mod here;
pub mod init;
pub mod json_lines;
mod log;
pub mod manual;
pub mod metrics;
pub mod mpi;
pub mod names;
pub mod ping;
pub mod place;
pub mod run;
pub mod say;
pub mod status;
pub mod steer;
pub mod top;
pub mod topo;
pub mod trace;
pub mod vswitch;
