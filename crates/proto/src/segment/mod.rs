//! Bytes ↔ numbered segments: what a sent packet carried, and which ranges of a
//! stream or unit have arrived.

mod content;
mod ranges;

pub use content::{Content, Fate};
pub use ranges::RangeSet;
