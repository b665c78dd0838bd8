//! Streams by their id.

use std::collections::BTreeMap;

use super::Stream;

/// Room for this many streams is kept.
const KEPT_MAX: usize = 256;

/// Streams by their id. The one asked for last is found at once.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Box<Stream>>>,
    free: Vec<u32>,
    by_id: BTreeMap<u64, u32>,
    /// Id and slot of the stream asked for last.
    last: Option<(u64, u32)>,
}

impl Table {
    /// Adds a stream whose id is not in the table.
    pub fn insert(&mut self, stream: Stream) {
        let id = stream.id;
        let stream = Some(Box::new(stream));
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = stream;
            slot
        } else {
            self.slots.push(stream);
            self.slots.len() as u32 - 1
        };
        self.by_id.insert(id, slot);
        self.last = Some((id, slot));
    }

    /// The stream `id`, if it is here.
    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        let slot = match self.last {
            Some((last, slot)) if last == id => slot,
            _ => {
                let slot = *self.by_id.get(&id)?;
                self.last = Some((id, slot));
                slot
            }
        };
        self.slots[slot as usize].as_deref_mut()
    }

    /// The stream `id`, if it is here.
    pub fn get(&self, id: u64) -> Option<&Stream> {
        let slot = match self.last {
            Some((last, slot)) if last == id => slot,
            _ => *self.by_id.get(&id)?,
        };
        self.slots[slot as usize].as_deref()
    }

    /// Takes the stream `id` out. A table that is nearly empty after a burst shrinks.
    pub fn remove(&mut self, id: u64) {
        if let Some(slot) = self.by_id.remove(&id) {
            self.slots[slot as usize] = None;
            self.free.push(slot);
        }
        self.last = None;
        if self.slots.len() > KEPT_MAX && self.by_id.len() < self.slots.len() / 4 {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let slots = core::mem::take(&mut self.slots);
        self.slots.reserve(2 * self.by_id.len());
        self.slots.extend(slots.into_iter().filter(Option::is_some));
        self.free = Vec::new();
        let by_slot = self.slots.iter().flatten().zip(0..);
        self.by_id = by_slot.map(|(stream, slot)| (stream.id, slot)).collect();
    }

    /// How many streams are here.
    #[cfg(debug_assertions)]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All streams, in no order that means anything.
    #[cfg(debug_assertions)]
    pub fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().filter_map(|slot| slot.as_deref())
    }

    /// All streams, taken out.
    pub fn into_streams(self) -> impl Iterator<Item = Stream> {
        self.slots.into_iter().flatten().map(|stream| *stream)
    }

    /// Memory held without what streams hold outside of themselves, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Box<Stream>>>()
            + self.free.capacity() * size_of::<u32>()
            + self.by_id.len() * (size_of::<Stream>() + 2 * size_of::<(u32, u32)>())
    }
}
