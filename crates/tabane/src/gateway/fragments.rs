//! Fragments of packets: only the first says to which conversation they belong.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::packet::Seen;

/// The most fragmented packets known at once: at 1 Gb/s, fragments arrive within the time of a few
/// packets.
const KNOWN_MAX: usize = 256;

/// Which packet, of those between two.
type Key = (IpAddr, IpAddr, u32);

/// Decisions about first fragments.
#[derive(Debug)]
pub struct Fragments<D> {
    known: VecDeque<(Key, D)>,
}

impl<D> Default for Fragments<D> {
    fn default() -> Fragments<D> {
        Fragments {
            known: VecDeque::new(),
        }
    }
}

impl<D: Copy> Fragments<D> {
    /// Stores the decision about a packet for its fragments, if this is the first.
    pub fn note(&mut self, seen: &Seen, decided: D) {
        let Some(fragment) = seen.fragment else {
            return;
        };
        if self.known.len() == KNOWN_MAX {
            self.known.pop_front();
        }
        self.known
            .push_back(((seen.from, seen.to, fragment), decided));
    }

    /// The decision about the first of these fragments.
    pub fn find(&self, seen: &Seen) -> Option<D> {
        let key = (seen.from, seen.to, seen.fragment?);
        let mut newest_first = self.known.iter().rev();
        newest_first
            .find(|(known, _)| *known == key)
            .map(|(_, decided)| *decided)
    }
}
