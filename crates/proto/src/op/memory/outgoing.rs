//! Outgoing memory operations: this end's puts, and answers to the peer's gets.

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

use super::owed::Owed;
use super::regions::RegionId;
use super::{Put, Reach, done, weight};
use crate::op::limits::USEFUL_BYTES;
use crate::op::queue::{Source, SourceState, Written};
use crate::op::shared::Shared;
use crate::op::{OpError, OpEvent, Violation};
use crate::segment::{Content, RangeSet};
use crate::wire::{
    MemoryStatus, OPERATIONS_MAX, OperationKind, PutTarget, Stretch, Writer, piece_header_bytes,
    put_header_bytes, write_answer_header, write_put_header,
};

/// A finished put, in `puts`.
const OVER: u32 = u32::MAX;

/// What bytes are sent for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// A put of this end.
    Put {
        operation: u32,
        target: PutTarget,
        token: u64,
        /// The peer has some piece, and so knows where all others go.
        is_known: bool,
    },
    /// The peer asked for it.
    Answer {
        number: u64,
        region: RegionId,
        base: u64,
        /// The key to notify the program with, if it wants that.
        told: Option<u64>,
    },
}

/// Bytes of the program's memory on their way out.
#[derive(Debug)]
struct Transfer {
    live: bool,
    in_lost_list: bool,
    generation: u32,
    purpose: Purpose,
    handle: u64,
    /// How many bytes there are.
    total: u64,
    owed: Owed,
    state: SourceState,
}

impl Transfer {
    /// The position of its byte `offset` in the handle.
    fn place(&self, offset: u64) -> u64 {
        match self.purpose {
            Purpose::Put { .. } => offset,
            Purpose::Answer { base, .. } => base + offset,
        }
    }

    /// Writes as much of `range` as fits, if that is useful; returns how much that is.
    fn write(&self, range: Range<u64>, reach: &Reach, w: &mut Writer<'_>) -> Option<u64> {
        let offset = range.start;
        let wanted = (range.end.min(self.total)).saturating_sub(offset);
        let header = match &self.purpose {
            Purpose::Put {
                target, is_known, ..
            } => put_header_bytes(Some(target).filter(|_| !is_known), offset),
            Purpose::Answer { .. } => piece_header_bytes(offset),
        };
        let room = w.room().checked_sub(header)?;
        let bytes = wanted
            .min(room as u64)
            .min(u64::from(u16::MAX) - header as u64);
        if bytes < wanted && bytes < USEFUL_BYTES as u64 {
            return None;
        }
        match &self.purpose {
            Purpose::Put {
                operation,
                target,
                is_known,
                ..
            } => {
                let target = Some(target).filter(|_| !is_known);
                write_put_header(*operation, target, offset, bytes as usize, w);
            }
            Purpose::Answer { number, .. } => {
                write_answer_header(*number as u32, offset, bytes as usize, w);
            }
        }
        let space = w.space(bytes as usize);
        reach.memory.read(self.handle, self.place(offset), space);
        Some(weight(bytes))
    }

    /// Whether its source still exists.
    fn is_admitted(&self, reach: &Reach) -> bool {
        match self.purpose {
            Purpose::Put { .. } => true,
            Purpose::Answer { region, .. } => reach.regions.find(region).is_some(),
        }
    }
}

/// All that is sent, in slots that are used again.
#[derive(Debug, Default)]
pub(in crate::op) struct Outgoing {
    slots: Vec<Transfer>,
    free: Vec<u32>,
    next_generation: u32,
    /// Slots of this end's puts from the oldest unfinished one on, [`OVER`] for finished ones.
    puts: VecDeque<u32>,
    /// The number of the first of them.
    first_put: u64,
    /// Gets of the peer that have come.
    seen: RangeSet,
    /// The slots of answers that the peer may not have.
    answers: BTreeMap<u64, u32>,
    queued_bytes: u64,
    in_flight_bytes: u64,
    lost_bytes: u64,
    heap_bytes: usize,
}

/// The number near `near` whose last 32 bits are `number`.
pub(super) fn extended(near: u64, number: u32) -> u64 {
    let ahead = number.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(ahead.into())
}

impl Outgoing {
    /// Begins a put.
    ///
    /// # Errors
    /// [`OpError::Full`].
    pub fn put(&mut self, put: Put, shared: &mut Shared) -> Result<(), OpError> {
        if self.puts.len() >= OPERATIONS_MAX as usize {
            return Err(OpError::Full);
        }
        let operation = (self.first_put + self.puts.len() as u64) as u32;
        let purpose = Purpose::Put {
            operation,
            target: put.target,
            token: put.token,
            is_known: false,
        };
        let slot = self.insert(purpose, put.handle, put.target.to.total, shared);
        self.puts.push_back(slot);
        Ok(())
    }

    /// The peer asks for bytes. A repeated request does nothing.
    ///
    /// # Errors
    /// [`Violation::TooManyOperations`].
    pub fn on_get(
        &mut self,
        operation: u32,
        open: u16,
        from: Stretch,
        reach: &Reach,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let first_unseen = self.seen.covered_from(0);
        let number = extended(first_unseen, operation);
        if number < first_unseen || self.seen.contains(number..number + 1) {
            shared.stats.pieces_duplicate += 1;
            return Ok(());
        }
        if number - first_unseen >= u64::from(OPERATIONS_MAX) {
            return Err(Violation::TooManyOperations);
        }
        self.seen.insert(number..number + 1);
        // The peer has all that it asked for before these.
        let still_open = self.answers.split_off(&number.saturating_sub(open.into()));
        for slot in core::mem::replace(&mut self.answers, still_open).into_values() {
            self.end_answer(slot, shared);
        }
        match reach.regions.admit(&from, false) {
            Ok((region, found)) => {
                let purpose = Purpose::Answer {
                    number,
                    region,
                    base: found.offset_of(from.base),
                    told: found.is_told.then_some(from.key),
                };
                let slot = self.insert(purpose, found.handle, from.total, shared);
                self.answers.insert(number, slot);
            }
            Err(status) => refuse(number, status, shared),
        }
        Ok(())
    }

    /// A put of this end has ended.
    ///
    /// # Errors
    /// [`Violation::UnknownOperation`].
    pub fn on_done(
        &mut self,
        operation: u32,
        status: MemoryStatus,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let number = extended(self.first_put, operation);
        let Some(index) = number.checked_sub(self.first_put) else {
            return Ok(());
        };
        let put = self.puts.get_mut(index as usize);
        let slot = core::mem::replace(put.ok_or(Violation::UnknownOperation)?, OVER);
        if slot == OVER {
            return Ok(());
        }
        if let Purpose::Put { token, .. } = self.slots[slot as usize].purpose {
            let event = OpEvent::Operation { token, status };
            shared.events.push_back(event);
        }
        self.remove(slot, shared);
        while self.puts.front() == Some(&OVER) {
            self.puts.pop_front();
            self.first_put += 1;
        }
        Ok(())
    }

    fn insert(&mut self, purpose: Purpose, handle: u64, total: u64, shared: &mut Shared) -> u32 {
        let generation = self.next_generation;
        self.next_generation = generation.wrapping_add(1);
        let transfer = Transfer {
            live: true,
            in_lost_list: false,
            generation,
            purpose,
            handle,
            total,
            owed: Owed::new(weight(total)),
            state: SourceState::default(),
        };
        self.queued_bytes += weight(total);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = transfer;
                slot
            }
            None => {
                self.slots.push(transfer);
                self.slots.len() as u32 - 1
            }
        };
        let state = &mut self.slots[slot as usize].state;
        shared.turns.wake(Source::Transfer(slot, generation), state);
        slot
    }

    /// The peer has all that it asked for.
    fn end_answer(&mut self, slot: u32, shared: &mut Shared) {
        let transfer = &self.slots[slot as usize];
        if let Purpose::Answer {
            told: Some(key), ..
        } = transfer.purpose
        {
            let bytes = transfer.total;
            shared.events.push_back(OpEvent::Read { key, bytes });
        }
        self.remove(slot, shared);
    }

    fn remove(&mut self, slot: u32, shared: &mut Shared) {
        let transfer = &mut self.slots[slot as usize];
        shared.turns.rest(&mut transfer.state);
        transfer.live = false;
        let unsent = transfer.owed.unsent();
        self.queued_bytes -= unsent.end - unsent.start;
        self.in_flight_bytes -= transfer.owed.in_flight_bytes();
        self.lost_bytes -= transfer.owed.lost_bytes();
        self.heap_bytes -= transfer.owed.heap_bytes();
        transfer.owed = Owed::new(0);
        self.free.push(slot);
    }

    fn find(&mut self, slot: u32, generation: u32) -> Option<&mut Transfer> {
        let transfer = self.slots.get_mut(slot as usize)?;
        Some(transfer).filter(|t| t.live && t.generation == generation)
    }

    /// Turn state of a slot's operation.
    pub fn state(&mut self, slot: u32, generation: u32) -> Option<&mut SourceState> {
        self.find(slot, generation).map(|t| &mut t.state)
    }

    /// Writes the next piece that was never sent.
    pub fn write_next(
        &mut self,
        slot: u32,
        generation: u32,
        reach: &Reach,
        shared: &mut Shared,
        w: &mut Writer<'_>,
    ) -> Written {
        let Some(transfer) = self.find(slot, generation) else {
            return Written::Nothing;
        };
        let unsent = transfer.owed.unsent();
        if unsent.is_empty() {
            return Written::Nothing;
        }
        if !transfer.is_admitted(reach) {
            self.give_up(slot, shared);
            return Written::Nothing;
        }
        let offset = unsent.start;
        let Some(bytes) = transfer.write(unsent, reach, w) else {
            return Written::NoRoom;
        };
        transfer.owed.sent(bytes);
        shared.turns.spend(bytes as usize, true);
        if transfer.owed.unsent().is_empty() {
            shared.turns.rest(&mut transfer.state);
        }
        self.queued_bytes -= bytes;
        self.in_flight_bytes += bytes;
        Written::Content(content(slot, generation, offset, bytes))
    }

    /// The source region of an answer is gone.
    fn give_up(&mut self, slot: u32, shared: &mut Shared) {
        if let Purpose::Answer { number, .. } = self.slots[slot as usize].purpose {
            self.answers.remove(&number);
            refuse(number, MemoryStatus::BadKey, shared);
        }
        self.remove(slot, shared);
    }

    /// Whether something of it is lost. If not, it is noted as out of the list.
    pub fn has_lost(&mut self, slot: u32, generation: u32) -> bool {
        let Some(transfer) = self.find(slot, generation) else {
            return false;
        };
        transfer.in_lost_list = transfer.owed.first_lost().is_some();
        transfer.in_lost_list
    }

    /// Writes the first lost piece again. `None` if it does not fit, or nothing is left.
    pub fn write_lost(
        &mut self,
        slot: u32,
        generation: u32,
        reach: &Reach,
        shared: &mut Shared,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        let transfer = self.find(slot, generation)?;
        let lost = transfer.owed.first_lost()?;
        if !transfer.is_admitted(reach) {
            self.give_up(slot, shared);
            return None;
        }
        let offset = lost.start;
        let bytes = transfer.write(lost, reach, w)?;
        let before = transfer.owed.heap_bytes();
        transfer.owed.sent_again(bytes);
        let after = transfer.owed.heap_bytes();
        self.heap_bytes = self.heap_bytes + after - before;
        self.lost_bytes -= bytes;
        Some(content(slot, generation, offset, bytes))
    }

    /// Writes the first unacknowledged part of what was sent before, as much as fits.
    pub fn write_again(
        &mut self,
        (slot, generation): (u32, u32),
        range: Range<u64>,
        reach: &Reach,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        let transfer = self.find(slot, generation)?;
        let gap = transfer.owed.first_unacked(range)?;
        if !transfer.is_admitted(reach) {
            return None;
        }
        let offset = gap.start;
        let bytes = transfer.write(gap, reach, w)?;
        Some(content(slot, generation, offset, bytes))
    }

    /// A piece arrived.
    pub fn on_acked(&mut self, slot: u32, generation: u32, range: Range<u64>, shared: &mut Shared) {
        let Some(transfer) = self.find(slot, generation) else {
            return;
        };
        let owed = &mut transfer.owed;
        let before = (owed.in_flight_bytes(), owed.lost_bytes(), owed.heap_bytes());
        let has_all = owed.on_acked(range);
        let after = (owed.in_flight_bytes(), owed.lost_bytes(), owed.heap_bytes());
        let answered = match &mut transfer.purpose {
            Purpose::Put { is_known, .. } => {
                *is_known = true;
                None
            }
            Purpose::Answer { number, .. } => Some(*number).filter(|_| has_all),
        };
        self.in_flight_bytes = self.in_flight_bytes + after.0 - before.0;
        self.lost_bytes = self.lost_bytes + after.1 - before.1;
        self.heap_bytes = self.heap_bytes + after.2 - before.2;
        if let Some(number) = answered {
            self.answers.remove(&number);
            self.end_answer(slot, shared);
        }
    }

    /// A piece is lost. Returns whether it is new among those with lost pieces.
    pub fn on_lost(&mut self, slot: u32, generation: u32, range: Range<u64>) -> bool {
        let Some(transfer) = self.find(slot, generation) else {
            return false;
        };
        let owed = &mut transfer.owed;
        let before = (owed.lost_bytes(), owed.heap_bytes());
        owed.on_lost(range);
        let after = (owed.lost_bytes(), owed.heap_bytes());
        let is_new = after.0 > 0 && !transfer.in_lost_list;
        transfer.in_lost_list |= is_new;
        self.lost_bytes = self.lost_bytes + after.0 - before.0;
        self.heap_bytes = self.heap_bytes + after.1 - before.1;
        is_new
    }

    /// Bytes never sent.
    pub const fn queued_bytes(&self) -> usize {
        self.queued_bytes as usize
    }

    /// Bytes sent and not known to have arrived.
    pub const fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes as usize
    }

    /// Bytes lost and not sent again.
    pub const fn lost_bytes(&self) -> usize {
        self.lost_bytes as usize
    }

    /// The peer restarted: the outcome of this end's puts is unknown.
    pub fn reset(&mut self, shared: &mut Shared) {
        for transfer in self.slots.iter_mut().filter(|transfer| transfer.live) {
            shared.turns.rest(&mut transfer.state);
        }
        for slot in self.puts.drain(..).filter(|slot| *slot != OVER) {
            if let Purpose::Put { token, .. } = self.slots[slot as usize].purpose {
                let status = MemoryStatus::Broken;
                let event = OpEvent::Operation { token, status };
                shared.events.push_back(event);
            }
        }
        let next_generation = self.next_generation;
        *self = Outgoing {
            next_generation,
            ..Outgoing::default()
        };
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        if self.free.len() == self.slots.len() {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
        self.puts.shrink_to(2 * self.puts.len());
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap_bytes
            + self.slots.capacity() * size_of::<Transfer>()
            + (self.free.capacity() + self.puts.capacity()) * size_of::<u32>()
            + self.seen.heap_bytes()
            + self.answers.len() * size_of::<(u64, u32)>() * 2
    }
}

fn content(slot: u32, generation: u32, offset: u64, bytes: u64) -> Content {
    Content::Transfer {
        slot,
        generation,
        offset,
        len: bytes as u32,
    }
}

/// Refuses the peer's request.
fn refuse(number: u64, status: MemoryStatus, shared: &mut Shared) {
    shared.stats.accesses_refused += 1;
    let told = done(OperationKind::Get, number as u32, status);
    shared.tell_end(told);
}
