//! Bytes ↔ numbered segments: what a sent packet carried, and which ranges of a
//! stream or unit have arrived.

mod chunks;
mod content;
mod pool;
mod ranges;

pub use chunks::{CHUNK_BYTES, ChunkPool, Chunks};
pub use content::{Content, Fate, News};
pub use pool::{LARGE_BUFFER_BYTES, Pool, SMALL_BUFFER_BYTES};
pub use ranges::RangeSet;
