//! `tabane up`: this node, in the foreground, until it is told to stop.

mod bench;
mod configured;
mod consult;
mod conversation;
mod events;
mod health;
mod lately;
mod limits;
mod lines;
mod manager;
mod members;
mod metrics;
mod naming;
mod nic;
mod outside;
mod pinging;
mod ports;
mod rates;
mod read_ahead;
mod redundancy;
mod refused;
mod reload;
mod report;
mod run;
mod steering;
mod survey;
mod tracing;

pub(crate) use configured::{add_peers, engine};
pub use run::{Life, up};
