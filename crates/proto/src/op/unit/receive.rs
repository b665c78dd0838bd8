//! Units on their way in: rejoined from pieces in any order, with one copy.

use crate::Time;
use crate::op::Violation;
use crate::op::limits::RANGES_MAX;
use crate::segment::{Pool, RangeSet};
use crate::wire::UnitSegment;

/// A unit some of whose pieces have arrived.
#[derive(Debug, Default)]
struct Partial {
    /// Bytes up to the highest that arrived; those in gaps are zero until they come.
    data: Vec<u8>,
    have: RangeSet,
    total: u32,
    /// When its first piece came.
    first_arrived: Time,
}

/// What a piece did.
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
#[derive(Debug, Default)]
pub(in crate::op) struct Partials {
    slots: Vec<Partial>,
    free: Vec<u32>,
    /// Memory of the units' data.
    held_bytes: usize,
}

impl Partials {
    /// A slot for a unit of `total` bytes.
    pub fn insert(&mut self, now: Time, total: u32, pool: &mut Pool) -> u32 {
        let data = pool.take(total as usize);
        self.held_bytes += data.capacity();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Partial::default());
            self.slots.len() as u32 - 1
        });
        let partial = &mut self.slots[slot as usize];
        partial.data = data;
        partial.total = total;
        partial.first_arrived = now;
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
        if partial.have.range_count() >= RANGES_MAX {
            return Err(Violation::TooScattered);
        }
        let start = seg.offset as usize;
        let end = start + seg.data.len();
        if partial.have.insert(start as u64..end as u64) == 0 {
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

    /// When the unit's first piece came.
    pub fn first_arrived(&self, slot: u32) -> Time {
        self.slots[slot as usize].first_arrived
    }

    /// Takes a unit out, whole or not, and returns its buffer.
    pub fn remove(&mut self, slot: u32) -> Vec<u8> {
        let partial = &mut self.slots[slot as usize];
        partial.have.clear();
        let data = core::mem::take(&mut partial.data);
        self.held_bytes -= data.capacity();
        self.free.push(slot);
        data
    }

    /// Memory of the units' data, in bytes.
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

/// Copies `piece` to `start`. What comes in order is appended, so that no byte is
/// written twice; only gaps are filled with zeros for the time being.
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
