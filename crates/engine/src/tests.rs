//! The loop and its links on a network in memory, in the kernel's place.

mod engine;
mod fake;
mod links;
