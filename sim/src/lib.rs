//! A seeded network in virtual time for tabane: faults, checkers, schedules.
#![forbid(unsafe_code)]

mod agenda;
pub mod attack;
pub mod bulk;
pub mod check;
pub mod churn;
pub mod controllers;
pub mod crowd;
pub mod failover;
pub mod faults;
pub mod host;
pub mod many;
pub mod mirrored;
pub mod mixed;
pub mod mutant;
pub mod net;
pub mod peers;
pub mod processor;
pub mod qlog;
mod random;
pub mod run;
pub mod runner;
pub mod schedule;
pub mod short;
pub mod small;
pub mod snapshot;
pub mod star;
pub mod topology;
pub mod workload;

pub use random::{Random, mix};
pub use run::{Options, Outcome, run};
pub use schedule::{Schedule, Size};
