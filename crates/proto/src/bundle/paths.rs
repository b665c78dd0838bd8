//! The paths that a bundle has: one or two, usually. Each lies in a box of its own.

use smallvec::SmallVec;

use super::BundlePath;
use crate::LinkId;
use crate::context::{Context, LinkConfig};
use crate::limits::PATHS_MAX;
use crate::link::PathConfig;

/// What the path over a link is told at its beginning.
pub(super) fn config(
    link: &LinkConfig,
    receive_buffer_bytes: u32,
    context: &Context,
) -> PathConfig {
    PathConfig {
        receive_buffer_bytes: u64::from(receive_buffer_bytes),
        datagram_bytes_max: usize::from(link.datagram_bytes_max),
        congestion: context.config.congestion,
        ..PathConfig::default()
    }
}

/// Paths by their numbers.
#[derive(Default)]
pub(super) struct Paths {
    /// A bit for every path that exists.
    mask: u16,
    /// In the order of their numbers.
    boxes: SmallVec<[Box<BundlePath>; 2]>,
}

impl Paths {
    /// Where in `boxes` the path over `id` is.
    fn place(&self, id: LinkId) -> Option<usize> {
        let bit = id.bit();
        (self.mask & bit != 0).then(|| self.places_before(bit))
    }

    const fn places_before(&self, bit: u16) -> usize {
        (self.mask & bit.wrapping_sub(1)).count_ones() as usize
    }

    /// The path over `id`, if it exists.
    pub fn get(&self, id: LinkId) -> Option<&BundlePath> {
        Some(&self.boxes[self.place(id)?])
    }

    /// The path over `id`, if it exists.
    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut BundlePath> {
        let place = self.place(id)?;
        Some(&mut self.boxes[place])
    }

    /// Puts a path in, in the place of another one over `id` if there is one.
    pub fn put(&mut self, id: LinkId, path: Box<BundlePath>) {
        debug_assert!(id.index() < PATHS_MAX);
        if let Some(place) = self.place(id) {
            self.boxes[place] = path;
            return;
        }
        self.boxes.insert(self.places_before(id.bit()), path);
        self.mask |= id.bit();
        debug_assert_eq!(self.boxes.len(), self.mask.count_ones() as usize);
    }

    /// Takes the path over `id` out.
    pub fn take(&mut self, id: LinkId) -> Option<Box<BundlePath>> {
        let path = self.boxes.remove(self.place(id)?);
        self.mask &= !id.bit();
        Some(path)
    }

    /// A bit for every path that exists.
    pub const fn mask(&self) -> u16 {
        self.mask
    }

    /// Their numbers, ascending.
    pub fn ids(&self) -> Ids {
        Ids(self.mask)
    }

    /// All paths and their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, &BundlePath)> + Clone {
        self.ids().zip(self.values())
    }

    /// All paths and their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut BundlePath)> {
        self.ids().zip(self.values_mut())
    }

    /// All paths.
    pub fn values(&self) -> impl Iterator<Item = &BundlePath> + Clone {
        self.boxes.iter().map(|path| &**path)
    }

    /// All paths.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut BundlePath> {
        self.boxes.iter_mut().map(|path| &mut **path)
    }
}

/// The numbers whose bits are set.
#[derive(Clone, Debug)]
pub(super) struct Ids(u16);

impl Iterator for Ids {
    type Item = LinkId;

    fn next(&mut self) -> Option<LinkId> {
        if self.0 == 0 {
            return None;
        }
        let id = LinkId(self.0.trailing_zeros() as u8);
        self.0 &= self.0 - 1;
        Some(id)
    }
}
