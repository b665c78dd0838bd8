//! Units, the common mechanism of frames and messages: numbered in their flow,
//! cut into pieces, rejoined at the other end.

mod receive;
mod send;

pub(super) use receive::{Arrival, Partials};
pub(super) use send::Units;

/// When the last unit goes, this many slots are kept; further ones are freed.
const SLOTS_KEPT: usize = 256;
