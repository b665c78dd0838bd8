//! Incoming memory operations: the peer's puts, and answers to this end's gets.

use std::collections::{BTreeMap, VecDeque};

use super::outgoing::extended;
use super::regions::RegionId;
use super::{Get, Memory, Reach, done};
use crate::op::limits::RANGES_MAX;
use crate::op::shared::{Control, Shared};
use crate::op::{OpError, OpEvent, Violation};
use crate::segment::RangeSet;
use crate::wire::{MemoryRecord, MemoryStatus, OPERATIONS_MAX, OperationKind, PutTarget, Stretch};

/// Memory for the gaps of all operations with a peer, in bytes.
const GAPS_BYTES_MAX: usize = 4 << 20;

/// A put of the peer's that has begun to arrive.
#[derive(Debug)]
struct Placing {
    target: PutTarget,
    region: RegionId,
    have: RangeSet,
}

/// A get of this end's that is not over.
#[derive(Debug)]
struct Fetching {
    from: Stretch,
    handle: u64,
    token: u64,
    have: RangeSet,
}

/// All that comes.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// Puts of the peer that are over.
    over: RangeSet,
    /// Puts that have arrived in part.
    placing: BTreeMap<u64, Placing>,
    /// This end's gets from the oldest unfinished one on; `None` for finished ones.
    gets: VecDeque<Option<Fetching>>,
    /// The number of the first of them.
    first_get: u64,
    /// Memory of the gaps.
    gaps_bytes: usize,
}

/// Places the new bytes of a piece, each byte once. Offsets count from the beginning of the operation,
/// which is at `base` in the handle.
fn place(
    memory: &mut dyn Memory,
    (handle, base): (u64, u64),
    have: &mut RangeSet,
    offset: u64,
    data: &[u8],
) -> bool {
    let end = offset + data.len() as u64;
    let mut rest = offset..end;
    while let Some(gap) = have.first_gap(rest.clone()) {
        let part = (gap.start - offset) as usize..(gap.end - offset) as usize;
        memory.write(handle, base + gap.start, &data[part]);
        rest.start = gap.end;
    }
    have.insert(offset..end) > 0
}

impl Incoming {
    /// Begins a get.
    ///
    /// # Errors
    /// [`OpError::Full`].
    pub fn get(&mut self, get: Get, shared: &mut Shared) -> Result<(), OpError> {
        if self.gets.len() >= OPERATIONS_MAX as usize {
            return Err(OpError::Full);
        }
        let number = self.first_get + self.gets.len() as u64;
        self.gets.push_back(Some(Fetching {
            from: get.from,
            handle: get.handle,
            token: get.token,
            have: RangeSet::new(),
        }));
        shared.control.push_back(Control::Get(number as u32));
        Ok(())
    }

    /// The request of a get, if an answer is still wanted.
    pub fn request(&self, operation: u32) -> Option<MemoryRecord<'static>> {
        let index = extended(self.first_get, operation).checked_sub(self.first_get)?;
        let fetching = self.gets.get(index as usize)?.as_ref()?;
        Some(MemoryRecord::Get {
            operation,
            open: index as u16,
            from: fetching.from,
        })
    }

    /// Handles a piece of a put.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_put(
        &mut self,
        operation: u32,
        target: Option<PutTarget>,
        (offset, data): (u64, &[u8]),
        reach: &mut Reach,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let oldest = self.over.covered_from(0);
        let number = extended(oldest, operation);
        if number < oldest || self.over.contains(number..number + 1) {
            shared.stats.pieces_duplicate += 1;
            return Ok(());
        }
        if number - oldest >= u64::from(OPERATIONS_MAX) {
            return Err(Violation::TooManyOperations);
        }
        let Some(placing) = self.placing.remove(&number) else {
            // A peer omits the target only if it knows that this end has it.
            let target = target.ok_or(Violation::UnknownOperation)?;
            match reach.regions.admit(&target.to, true) {
                Ok((region, _)) => {
                    let have = RangeSet::new();
                    let placing = Placing {
                        target,
                        region,
                        have,
                    };
                    return self.on_piece(number, placing, (offset, data), reach, shared);
                }
                Err(status) => self.end(number, status, shared),
            }
            return Ok(());
        };
        self.gaps_bytes -= placing.have.heap_bytes();
        if target.is_some_and(|target| target != placing.target) {
            self.gaps_bytes += placing.have.heap_bytes();
            self.placing.insert(number, placing);
            return Err(Violation::UnitLength);
        }
        self.on_piece(number, placing, (offset, data), reach, shared)
    }

    fn on_piece(
        &mut self,
        number: u64,
        mut placing: Placing,
        (offset, data): (u64, &[u8]),
        reach: &mut Reach,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let to = placing.target.to;
        let mut is_told = placing.target.immediate.is_some();
        let result = if offset + data.len() as u64 > to.total {
            Err(Violation::UnitLength)
        } else if self.is_scattered(&placing.have) {
            Err(Violation::TooScattered)
        } else if let Some(region) = reach.regions.find(placing.region) {
            is_told |= region.is_told;
            let at = (region.handle, region.offset_of(to.base));
            if !place(&mut *reach.memory, at, &mut placing.have, offset, data) {
                shared.stats.pieces_duplicate += 1;
            }
            Ok(())
        } else {
            // It was deregistered meanwhile.
            self.end(number, MemoryStatus::BadKey, shared);
            return Ok(());
        };
        if result.is_ok() && placing.have.covered() == to.total {
            self.end(number, MemoryStatus::Done, shared);
            if is_told {
                shared.events.push_back(OpEvent::Written {
                    key: to.key,
                    immediate: placing.target.immediate,
                    bytes: to.total,
                });
            }
            return Ok(());
        }
        self.gaps_bytes += placing.have.heap_bytes();
        self.placing.insert(number, placing);
        result
    }

    /// A put of the peer's has ended: reports it.
    fn end(&mut self, number: u64, status: MemoryStatus, shared: &mut Shared) {
        self.over.insert(number..number + 1);
        shared.stats.accesses_refused += u64::from(status != MemoryStatus::Done);
        let told = done(OperationKind::Put, number as u32, status);
        shared.tell_end(told);
    }

    /// Whether no more gaps may be remembered. A sender whose pieces are packets does not come near.
    fn is_scattered(&self, have: &RangeSet) -> bool {
        have.range_count() >= RANGES_MAX || self.gaps_bytes > GAPS_BYTES_MAX
    }

    /// Handles a piece of the answer to a get.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_answer(
        &mut self,
        operation: u32,
        offset: u64,
        data: &[u8],
        reach: &mut Reach,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let number = extended(self.first_get, operation);
        let Some(index) = number.checked_sub(self.first_get) else {
            shared.stats.pieces_duplicate += 1;
            return Ok(());
        };
        let get = self.gets.get(index as usize);
        let Some(fetching) = get.ok_or(Violation::UnknownOperation)? else {
            shared.stats.pieces_duplicate += 1;
            return Ok(());
        };
        let total = fetching.from.total;
        if offset + data.len() as u64 > total || (data.is_empty() && total > 0) {
            return Err(Violation::UnitLength);
        }
        if self.is_scattered(&fetching.have) {
            return Err(Violation::TooScattered);
        }
        let Some(Some(fetching)) = self.gets.get_mut(index as usize) else {
            return Ok(());
        };
        let before = fetching.have.heap_bytes();
        let at = (fetching.handle, 0);
        if !place(&mut *reach.memory, at, &mut fetching.have, offset, data) {
            shared.stats.pieces_duplicate += u64::from(total > 0);
        }
        self.gaps_bytes = self.gaps_bytes + fetching.have.heap_bytes() - before;
        if fetching.have.covered() == total {
            self.end_get(index as usize, MemoryStatus::Done, shared);
        }
        Ok(())
    }

    /// The peer refuses a get.
    ///
    /// # Errors
    /// [`Violation::UnknownOperation`].
    pub fn on_get_failed(
        &mut self,
        operation: u32,
        status: MemoryStatus,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let number = extended(self.first_get, operation);
        let Some(index) = number.checked_sub(self.first_get) else {
            return Ok(());
        };
        if index >= self.gets.len() as u64 {
            return Err(Violation::UnknownOperation);
        }
        self.end_get(index as usize, status, shared);
        Ok(())
    }

    fn end_get(&mut self, index: usize, status: MemoryStatus, shared: &mut Shared) {
        if let Some(fetching) = self.gets[index].take() {
            self.gaps_bytes -= fetching.have.heap_bytes();
            let token = fetching.token;
            let event = OpEvent::Operation { token, status };
            shared.events.push_back(event);
        }
        while let Some(None) = self.gets.front() {
            self.gets.pop_front();
            self.first_get += 1;
        }
    }

    /// The peer restarted: this end's gets are broken.
    pub fn reset(&mut self, shared: &mut Shared) {
        for index in 0..self.gets.len() {
            if let Some(fetching) = &self.gets[index] {
                let (token, status) = (fetching.token, MemoryStatus::Broken);
                let event = OpEvent::Operation { token, status };
                shared.events.push_back(event);
            }
        }
        *self = Incoming::default();
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.gets.shrink_to(2 * self.gets.len());
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.gaps_bytes
            + self.over.heap_bytes()
            + self.placing.len() * size_of::<(u64, Placing)>() * 2
            + self.gets.capacity() * size_of::<Option<Fetching>>()
    }
}
