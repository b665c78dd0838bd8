//! Units on their way out: kept until every byte is acknowledged.

use super::SLOTS_KEPT;
use crate::op::Policy;
use crate::op::limits::USEFUL_BYTES;
use crate::segment::{Content, Pool, RangeSet};
use crate::wire::{Record, UnitClass, UnitSegment, Writer};

/// A frame or message being sent.
#[derive(Debug)]
pub(in crate::op) struct Unit {
    pub class: UnitClass,
    pub policy: Policy,
    /// Whether a slot is in use.
    live: bool,
    /// Whether it stands in the list of those with lost pieces.
    pub in_lost_list: bool,
    pub flow: u32,
    sequence: u32,
    generation: u32,
    /// Everything before it was sent at least once.
    next: u32,
    /// What the peer has acknowledged.
    acked: RangeSet,
    /// What must be sent again.
    lost: RangeSet,
    data: Vec<u8>,
}

impl Unit {
    /// Its length in bytes.
    pub fn total(&self) -> u32 {
        self.data.len() as u32
    }

    /// Whether nothing of it was sent yet.
    pub fn is_unsent(&self) -> bool {
        self.next == 0
    }

    /// Bytes sent and not acknowledged.
    fn in_flight(&self) -> usize {
        self.next as usize - self.acked.covered() as usize
    }

    /// Writes a piece that starts at `offset`, is at most `len_max` long, and
    /// fits; `None` if no useful piece fits.
    #[inline]
    fn write(
        &self,
        slot: u32,
        offset: u32,
        len_max: u32,
        w: &mut Writer<'_>,
    ) -> Option<(Content, u32)> {
        let room = w.room().checked_sub(self.class.header_bytes())?;
        let len = room.min(len_max as usize).min(usize::from(u16::MAX));
        if len == 0 || (len < len_max as usize && len < USEFUL_BYTES) {
            return None;
        }
        let start = offset as usize;
        Record::Unit(UnitSegment {
            class: self.class,
            flow: self.flow,
            sequence: self.sequence,
            offset,
            total: self.total(),
            data: &self.data[start..start + len],
        })
        .write(w);
        let len = len as u32;
        let content = Content::Unit {
            class: self.class,
            slot,
            generation: self.generation,
            offset,
            len,
        };
        Some((content, len))
    }
}

/// All units being sent, in slots that are used again.
#[derive(Debug, Default)]
pub(in crate::op) struct Units {
    slots: Vec<Unit>,
    free: Vec<u32>,
    /// Of the next unit: none had it before, so that slots may go.
    next_generation: u32,
    /// Sent and not acknowledged, in bytes.
    in_flight_bytes: usize,
    /// Marked lost and not yet sent again, in bytes.
    lost_bytes: usize,
    /// Memory of the units' data.
    held_bytes: usize,
}

impl Units {
    /// Takes a unit in; `data` must not be empty. Returns its slot.
    pub fn insert(
        &mut self,
        class: UnitClass,
        policy: Policy,
        flow: u32,
        sequence: u32,
        data: Vec<u8>,
    ) -> u32 {
        self.held_bytes += data.capacity();
        let generation = self.next_generation;
        self.next_generation = generation.wrapping_add(1);
        let Some(slot) = self.free.pop() else {
            let slot = self.slots.len() as u32;
            self.slots.push(Unit {
                class,
                policy,
                live: true,
                in_lost_list: false,
                flow,
                sequence,
                generation,
                next: 0,
                acked: RangeSet::new(),
                lost: RangeSet::new(),
                data,
            });
            return slot;
        };
        let unit = &mut self.slots[slot as usize];
        unit.class = class;
        unit.policy = policy;
        unit.live = true;
        unit.flow = flow;
        unit.sequence = sequence;
        unit.generation = generation;
        unit.data = data;
        slot
    }

    /// The unit in `slot`, which is in use.
    pub fn get(&self, slot: u32) -> &Unit {
        &self.slots[slot as usize]
    }

    /// Numbers the unsent unit in `slot`.
    pub fn number(&mut self, slot: u32, sequence: u32) {
        self.slots[slot as usize].sequence = sequence;
    }

    /// The number that tells the slot's unit from former ones.
    pub fn generation(&self, slot: u32) -> u32 {
        self.slots[slot as usize].generation
    }

    /// The unit in `slot` if it is still the one of `generation`.
    #[inline]
    pub fn find(&self, slot: u32, generation: u32) -> Option<&Unit> {
        self.slots
            .get(slot as usize)
            .filter(|u| u.live && u.generation == generation)
    }

    /// Takes a unit out and returns its buffer.
    pub fn remove(&mut self, slot: u32) -> Vec<u8> {
        let unit = &mut self.slots[slot as usize];
        self.in_flight_bytes -= unit.in_flight();
        self.lost_bytes -= unit.lost.covered() as usize;
        unit.live = false;
        unit.in_lost_list = false;
        unit.next = 0;
        unit.acked.clear();
        unit.lost.clear();
        let data = core::mem::take(&mut unit.data);
        self.held_bytes -= data.capacity();
        self.free.push(slot);
        if self.len() == 0 && self.slots.len() > SLOTS_KEPT {
            debug_assert_eq!((self.in_flight_bytes, self.lost_bytes), (0, 0));
            self.slots = Vec::new();
            self.free = Vec::new();
        }
        data
    }

    /// Frees the slots if there is no unit.
    pub fn trim(&mut self) {
        if self.len() == 0 {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
    }

    /// Takes all units out.
    pub fn remove_all(&mut self, pool: &mut Pool) {
        for slot in 0..self.slots.len() as u32 {
            if self.slots.get(slot as usize).is_some_and(|unit| unit.live) {
                pool.give(self.remove(slot));
            }
        }
    }

    /// Writes the next piece that was never sent. The second value: whether
    /// that was the last.
    #[inline]
    pub fn write_next(&mut self, slot: u32, w: &mut Writer<'_>) -> Option<(Content, u32, bool)> {
        let unit = &mut self.slots[slot as usize];
        let (content, len) = unit.write(slot, unit.next, unit.total() - unit.next, w)?;
        unit.next += len;
        self.in_flight_bytes += len as usize;
        Some((content, len, unit.next == unit.total()))
    }

    /// Whether a unit still exists and has lost bytes. If it has none, it is marked as
    /// not in the list.
    pub fn has_lost(&mut self, slot: u32, generation: u32) -> bool {
        let Some(unit) = self
            .slots
            .get_mut(slot as usize)
            .filter(|u| u.live && u.generation == generation)
        else {
            return false;
        };
        unit.in_lost_list = !unit.lost.is_empty();
        unit.in_lost_list
    }

    /// Writes the first lost piece again. `None` if it does not fit, or nothing is lost.
    pub fn write_lost(&mut self, slot: u32, w: &mut Writer<'_>) -> Option<Content> {
        let unit = &mut self.slots[slot as usize];
        let range = unit.lost.first()?;
        let (content, len) = unit.write(
            slot,
            range.start as u32,
            (range.end - range.start) as u32,
            w,
        )?;
        unit.lost.pop_front(u64::from(len));
        self.lost_bytes -= len as usize;
        Some(content)
    }

    /// Writes the first unacknowledged part of `offset..offset + len`, which was sent
    /// before, as much as fits.
    pub fn write_again(
        &self,
        slot: u32,
        generation: u32,
        offset: u32,
        len: u32,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        let unit = self.slots.get(slot as usize)?;
        if !unit.live || unit.generation != generation {
            return None;
        }
        let end = offset.saturating_add(len).min(unit.next);
        let gap = unit.acked.first_gap(u64::from(offset)..u64::from(end))?;
        let (content, _) = unit.write(slot, gap.start as u32, (gap.end - gap.start) as u32, w)?;
        Some(content)
    }

    /// A piece was acknowledged. Returns whether the peer now has the whole unit.
    #[inline]
    pub fn on_acked(&mut self, slot: u32, generation: u32, offset: u32, len: u32) -> bool {
        let Some(unit) = self
            .slots
            .get_mut(slot as usize)
            .filter(|u| u.live && u.generation == generation)
        else {
            return false;
        };
        let range = u64::from(offset)..u64::from(offset) + u64::from(len);
        if !unit.lost.is_empty() {
            self.lost_bytes -= unit.lost.remove(range.clone()) as usize;
        }
        self.in_flight_bytes -= unit.acked.insert(range) as usize;
        unit.acked.covered() == u64::from(unit.total())
    }

    /// A piece is lost. Returns whether the unit is new among those with lost pieces.
    pub fn on_lost(&mut self, slot: u32, generation: u32, offset: u32, len: u32) -> bool {
        let Some(unit) = self
            .slots
            .get_mut(slot as usize)
            .filter(|u| u.live && u.generation == generation)
        else {
            return false;
        };
        let mut rest = u64::from(offset)..u64::from(offset) + u64::from(len);
        while let Some(gap) = unit.acked.first_gap(rest.clone()) {
            rest.start = gap.end;
            self.lost_bytes += unit.lost.insert(gap) as usize;
        }
        let new = !unit.lost.is_empty() && !unit.in_lost_list;
        unit.in_lost_list |= new;
        new
    }

    /// Sent and neither acknowledged nor given up, in bytes.
    pub const fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    /// Lost and to be sent again, in bytes.
    pub const fn lost_bytes(&self) -> usize {
        self.lost_bytes
    }

    /// Memory of the units' data, in bytes.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Units here.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.held_bytes
            + self.slots.capacity() * size_of::<Unit>()
            + self.free.capacity() * size_of::<u32>()
    }
}
