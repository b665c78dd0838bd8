//! The gateway: the cluster's one outside address, for programs of all nodes (ARCHITECTURE.md, "The outside address").

mod begun;
mod carriage;
mod claims;
pub mod devices;
mod early;
pub mod fragments;
pub mod front;
pub mod neighbours;
mod node;
mod pace;
pub mod packet;
mod probe;
pub mod programs;
mod report;
mod roster;
pub mod serving;

pub use carriage::is_packet;
pub use claims::Given;
pub use node::{Gateway, Part};
pub use pace::Pace;
pub use report::{Held, Report};
