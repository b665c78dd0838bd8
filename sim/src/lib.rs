//! A seeded network in virtual time for tabane: faults, checkers, schedules.

pub mod net;
mod random;

pub use random::{Random, mix};
