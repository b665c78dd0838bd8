//! The loop and its links on a network in memory, in the kernel's place.

mod engine;
pub(crate) mod fake;
mod links;
