//! The memory that operations reach: its owners and access rights.

use core::fmt;
use std::collections::BTreeMap;

use crate::op::OpError;
use crate::wire::{MemoryStatus, Stretch};

/// Regions that a node may have registered at once.
pub const REGIONS_MAX: usize = 1 << 21;

/// The program's memory, which the driver has. *Handles* name it, which the driver gives out: for a region, for
/// the source of a put, for the destination of a get. No access goes beyond the bytes of a handle.
pub trait Memory: Send {
    /// Copies bytes of `handle` from `offset` on.
    fn read(&self, handle: u64, offset: u64, into: &mut [u8]);

    /// Copies bytes to `handle` from `offset` on.
    fn write(&mut self, handle: u64, offset: u64, from: &[u8]);
}

/// No memory: of a node that has no region and begins no operation.
struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: u64, _: u64, into: &mut [u8]) {
        into.fill(0);
    }

    fn write(&mut self, _: u64, _: u64, _: &[u8]) {}
}

/// Memory that peers may reach, by its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// The driver's name for it.
    pub handle: u64,
    /// Its length; at most 2^62.
    pub bytes: u64,
    /// The peers' address of its first byte: 0, or its address at the owner.
    pub origin: u64,
    /// Whether peers may read it.
    pub is_readable: bool,
    /// Whether peers may write to it.
    pub is_writable: bool,
    /// Whether the program is notified of each of their puts and gets.
    pub is_told: bool,
}

impl Region {
    /// The offset of `stretch` in it, if a peer may access that, to write or to read.
    ///
    /// # Errors
    /// Why not.
    pub fn admits(&self, stretch: &Stretch, writes: bool) -> Result<u64, MemoryStatus> {
        let is_allowed = match writes {
            true => self.is_writable,
            false => self.is_readable,
        };
        if !is_allowed {
            return Err(MemoryStatus::NoAccess);
        }
        let start = stretch.base.checked_sub(self.origin);
        let start = start.ok_or(MemoryStatus::OutOfBounds)?;
        match start.checked_add(stretch.total) {
            Some(end) if end <= self.bytes => Ok(start),
            _ => Err(MemoryStatus::OutOfBounds),
        }
    }

    /// The offset in it of an admitted address.
    pub(in crate::op) const fn offset_of(&self, base: u64) -> u64 {
        base.wrapping_sub(self.origin)
    }
}

/// A region as it was when an operation began with it: one that is registered later in its place is another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::op) struct RegionId {
    slot: u32,
    generation: u32,
}

/// All regions of a node.
#[derive(Debug, Default)]
pub struct Regions {
    by_key: BTreeMap<u64, u32>,
    slots: Vec<(u32, Option<Region>)>,
    free: Vec<u32>,
}

impl Regions {
    /// Lets peers reach a region by `key`, which should be random: whoever knows it has access.
    ///
    /// # Errors
    /// [`OpError::KeyInUse`]; [`OpError::Full`]: there are [`REGIONS_MAX`].
    pub fn register(&mut self, key: u64, region: Region) -> Result<(), OpError> {
        if self.by_key.contains_key(&key) {
            return Err(OpError::KeyInUse);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() >= REGIONS_MAX => return Err(OpError::Full),
            None => {
                self.slots.push((0, None));
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize].1 = Some(region);
        self.by_key.insert(key, slot);
        Ok(())
    }

    /// Nobody reaches the region of this key from now on. Whether there was one.
    pub fn deregister(&mut self, key: u64) -> bool {
        let Some(slot) = self.by_key.remove(&key) else {
            return false;
        };
        let (generation, region) = &mut self.slots[slot as usize];
        *generation = generation.wrapping_add(1);
        *region = None;
        self.free.push(slot);
        true
    }

    /// The region of this key.
    pub fn get(&self, key: u64) -> Option<&Region> {
        let slot = self.by_key.get(&key)?;
        self.slots[*slot as usize].1.as_ref()
    }

    /// The region of a stretch, if a peer may have that, to write to it or to read it.
    pub(in crate::op) fn admit(
        &self,
        stretch: &Stretch,
        writes: bool,
    ) -> Result<(RegionId, &Region), MemoryStatus> {
        let slot = *self.by_key.get(&stretch.key).ok_or(MemoryStatus::BadKey)?;
        let (generation, region) = &self.slots[slot as usize];
        let region = region.as_ref().ok_or(MemoryStatus::BadKey)?;
        region.admits(stretch, writes)?;
        let id = RegionId {
            slot,
            generation: *generation,
        };
        Ok((id, region))
    }

    /// The region, if it is still registered.
    #[inline]
    pub(in crate::op) fn find(&self, id: RegionId) -> Option<&Region> {
        let (generation, region) = self.slots.get(id.slot as usize)?;
        region.as_ref().filter(|_| *generation == id.generation)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are no regions.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

/// The node's memory and its regions, which all its bundles reach.
pub struct Reach {
    /// The bytes.
    pub memory: Box<dyn Memory>,
    /// The regions that peers may reach.
    pub regions: Regions,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach {
            memory: Box::new(NoMemory),
            regions: Regions::default(),
        }
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.regions.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region {
        handle: 7,
        bytes: 100,
        origin: 0,
        is_readable: true,
        is_writable: false,
        is_told: false,
    };

    fn stretch(key: u64, base: u64, total: u64) -> Stretch {
        Stretch { key, base, total }
    }

    #[test]
    fn only_what_is_registered_and_allowed_is_admitted() {
        let mut regions = Regions::default();
        regions.register(5, REGION).unwrap();
        let admit = |regions: &Regions, stretch: &Stretch, writes| {
            regions.admit(stretch, writes).map(|(_, region)| *region)
        };
        let read = |stretch| admit(&regions, &stretch, false);
        assert_eq!(read(stretch(5, 0, 100)), Ok(REGION));
        assert_eq!(read(stretch(5, 100, 0)), Ok(REGION));
        assert_eq!(read(stretch(4, 0, 1)), Err(MemoryStatus::BadKey));
        assert_eq!(read(stretch(5, 1, 100)), Err(MemoryStatus::OutOfBounds));
        assert_eq!(
            read(stretch(5, u64::MAX, 2)),
            Err(MemoryStatus::OutOfBounds)
        );
        let write = admit(&regions, &stretch(5, 0, 1), true);
        assert_eq!(write, Err(MemoryStatus::NoAccess));
    }

    #[test]
    fn a_region_begins_where_its_owner_says() {
        let origin = 1 << 47;
        let region = Region { origin, ..REGION };
        for (base, total, expected) in [
            (origin, 100, Ok(0)),
            (origin + 99, 1, Ok(99)),
            (origin - 1, 1, Err(MemoryStatus::OutOfBounds)),
            (0, 1, Err(MemoryStatus::OutOfBounds)),
            (origin + 1, 100, Err(MemoryStatus::OutOfBounds)),
        ] {
            assert_eq!(region.admits(&stretch(5, base, total), false), expected);
        }
        assert_eq!(region.offset_of(origin + 99), 99);
    }

    #[test]
    fn another_region_in_its_place_is_another() {
        let mut regions = Regions::default();
        regions.register(5, REGION).unwrap();
        assert_eq!(regions.register(5, REGION), Err(OpError::KeyInUse));
        let (id, _) = regions.admit(&stretch(5, 0, 1), false).unwrap();
        assert!(regions.find(id).is_some());
        assert!(regions.deregister(5));
        assert!(!regions.deregister(5));
        assert!(regions.find(id).is_none() && regions.is_empty());
        regions.register(5, REGION).unwrap();
        assert!(regions.find(id).is_none());
        assert_eq!(regions.slots.len(), 1);
    }
}
