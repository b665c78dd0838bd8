//! Numbers that name things.

use crate::limits::{LINKS_MAX, PATHS_MAX};

/// A link of this node, the network it is on, and the path to any peer over it:
/// one number for all three, the same at both ends (0 to [`LINKS_MAX`] − 1). Paths through other nodes,
/// which are on no link, have the numbers behind those.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId(pub u8);

impl LinkId {
    /// The link as an index into per-link arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether it is the number of a path through other nodes.
    pub const fn is_relayed(self) -> bool {
        self.index() >= LINKS_MAX
    }

    /// Its bit in a set of paths; none for a number that no path has.
    pub(crate) const fn bit(self) -> u16 {
        if self.index() < PATHS_MAX {
            1 << self.0
        } else {
            0
        }
    }
}

/// A peer, numbered by [`Node::add_peer`](crate::Node::add_peer). Never used again
/// for another peer while the node lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u32);

/// A stream within a bundle. The node whose name sorts first opens even ones,
/// the other odd ones. They do not run out: a million a second last for 70,000 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);
