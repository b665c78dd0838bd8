//! Units on their way in: rejoined from pieces in any order, with one copy.

use super::SLOTS_KEPT;
use crate::op::Violation;
use crate::op::limits::{RANGES_MAX, USEFUL_BYTES};
use crate::segment::{Pool, RangeSet};
use crate::wire::{UnitClass, UnitSegment};

/// No slot.
const NONE: u32 = u32::MAX;

/// A unit some of whose pieces have arrived.
#[derive(Debug)]
struct Partial {
    /// Bytes up to the highest that arrived; those in gaps are zero until they come.
    data: Vec<u8>,
    have: RangeSet,
    total: u32,
    flow: u32,
    sequence: u32,
    /// Slots of the units whose first pieces arrived just before and just after this
    /// one's.
    older: u32,
    newer: u32,
}

impl Partial {
    /// Maximum number of separate ranges: senders cut pieces of at least
    /// [`USEFUL_BYTES`], except the last of a lost range.
    fn ranges_max(&self) -> usize {
        (self.total as usize / USEFUL_BYTES + 2).min(RANGES_MAX)
    }
}

/// Effect of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::op) enum Arrival {
    /// All its bytes were there.
    Duplicate,
    /// The unit still has gaps.
    Incomplete,
    /// The unit is whole.
    Complete,
}

/// All units being rejoined, in slots that are used again.
#[derive(Debug)]
pub(in crate::op) struct Partials {
    slots: Vec<Partial>,
    free: Vec<u32>,
    /// The units whose first pieces arrived first and last.
    oldest: u32,
    newest: u32,
    /// Memory of the units' data and gaps.
    held_bytes: usize,
}

impl Default for Partials {
    fn default() -> Partials {
        Partials {
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            held_bytes: 0,
        }
    }
}

impl Partials {
    /// Allocates a slot for the unit of `seg`, of which no piece had arrived.
    pub fn insert(&mut self, seg: &UnitSegment<'_>, pool: &mut Pool) -> u32 {
        let partial = Partial {
            data: match seg.class {
                UnitClass::Frame => pool.take(seg.total as usize),
                UnitClass::Message => pool.take_close(seg.total as usize),
            },
            have: RangeSet::new(),
            total: seg.total,
            flow: seg.flow,
            sequence: seg.sequence,
            older: self.newest,
            newer: NONE,
        };
        self.held_bytes += partial.data.capacity();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = partial;
                slot
            }
            None => {
                self.slots.push(partial);
                self.slots.len() as u32 - 1
            }
        };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.slots[newest as usize].newer = slot,
        }
        self.newest = slot;
        slot
    }

    /// Puts a piece in its place.
    ///
    /// # Errors
    /// Another length than the pieces before it said, a piece beyond the length, or too
    /// many gaps. Nothing changed then.
    #[inline]
    pub fn on_piece(&mut self, slot: u32, seg: &UnitSegment<'_>) -> Result<Arrival, Violation> {
        let partial = &mut self.slots[slot as usize];
        if seg.total != partial.total {
            return Err(Violation::UnitLength);
        }
        if partial.have.range_count() >= partial.ranges_max() {
            return Err(Violation::TooScattered);
        }
        let start = seg.offset as usize;
        let end = start + seg.data.len();
        let before = partial.have.heap_bytes();
        let new = partial.have.insert(start as u64..end as u64);
        self.held_bytes += partial.have.heap_bytes() - before;
        if new == 0 {
            return Ok(Arrival::Duplicate);
        }
        place(&mut partial.data, start, seg.data);
        Ok(if partial.have.covered() == u64::from(partial.total) {
            Arrival::Complete
        } else {
            Arrival::Incomplete
        })
    }

    /// Whether the unit is whole.
    pub fn is_complete(&self, slot: u32) -> bool {
        let partial = &self.slots[slot as usize];
        partial.have.covered() == u64::from(partial.total)
    }

    /// Flow and number of the unit whose first piece arrived first.
    pub fn oldest(&self) -> Option<(u32, u32)> {
        let partial = self.slots.get(self.oldest as usize)?;
        Some((partial.flow, partial.sequence))
    }

    /// Takes a unit out, whole or not, and returns its buffer.
    pub fn remove(&mut self, slot: u32) -> Vec<u8> {
        let partial = &mut self.slots[slot as usize];
        let data = core::mem::take(&mut partial.data);
        self.held_bytes -= data.capacity() + partial.have.heap_bytes();
        partial.have = RangeSet::new();
        let (older, newer) = (partial.older, partial.newer);
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        self.free.push(slot);
        if self.free.len() == self.slots.len() && self.slots.len() > SLOTS_KEPT {
            debug_assert_eq!(self.held_bytes, 0);
            self.slots = Vec::new();
            self.free = Vec::new();
        }
        data
    }

    /// Memory of the units' data and gaps, in bytes.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.held_bytes
            + self.slots.capacity() * size_of::<Partial>()
            + self.free.capacity() * size_of::<u32>()
    }
}

/// Copies `piece` to `start`. Pieces in order are appended, so that each byte is
/// written once; only gaps are temporarily filled with zeros.
#[inline]
fn place(data: &mut Vec<u8>, start: usize, piece: &[u8]) {
    if start > data.len() {
        data.resize(start, 0);
    }
    let overlap = piece.len().min(data.len() - start);
    let (inside, beyond) = piece.split_at(overlap);
    data[start..start + overlap].copy_from_slice(inside);
    data.extend_from_slice(beyond);
}
