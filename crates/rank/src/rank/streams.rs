//! Transfers between neighbours that take more than a moment.

use tabane_io::shared_memory::Stretch as Memory;
use tabane_proto::wire::{PutTarget, Stretch};

use crate::Peer;

/// A transfer that takes more than a moment.
pub(super) struct Stream {
    pub peer: Peer,
    /// The token of the end that began it.
    pub token: u64,
    pub work: Work,
    /// Bytes of how many.
    pub done: u64,
    pub total: u64,
    /// It waits for room.
    pub waits: bool,
}

pub(super) enum Work {
    /// A put of this end's, record by record.
    Give(PutTarget),
    /// A peer's get, record by record.
    Serve(Stretch),
    /// A get of this end's, from the peer's memory.
    Fetch(Vec<Memory>),
    /// A peer's put, from its memory.
    Take(PutTarget, Vec<Memory>),
}

impl Work {
    /// Whether the peer has begun it.
    pub const fn is_theirs(&self) -> bool {
        matches!(self, Work::Serve(_) | Work::Take(..))
    }
}

/// Result of a step of a stream.
pub(super) enum Step {
    /// There is no room now.
    Waits,
    /// There is more to do.
    Goes,
    /// It is over.
    Over,
}
