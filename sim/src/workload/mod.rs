//! What the nodes are used for: streams, messages and frames, and applications
//! that write and read them.

mod app;
pub mod content;
mod plan;

pub use app::{App, Scene};
pub use plan::*;
