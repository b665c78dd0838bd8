//! When each peer wants to be looked at again: a heap in which a peer's place is known, so that an
//! entry is changed in O(log n), and only those that are due are looked at.

use crate::{PeerId, Time};

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

/// The next timeout of each peer that has one.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Earliest first: nobody is due before who stands at half his place.
    heap: Vec<(Time, PeerId)>,
    /// Of each peer (by its number): where it stands in `heap`.
    places: Vec<u32>,
}

impl Timers {
    /// When the first one is due.
    pub fn first(&self) -> Option<Time> {
        self.heap.first().map(|(at, _)| *at)
    }

    /// `peer` is due at `at`; never if that is [`Time::NEVER`].
    pub fn set(&mut self, peer: PeerId, at: Time) {
        let index = peer.0 as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, NOWHERE);
        }
        let place = self.places[index] as usize;
        match (place != NOWHERE as usize, at != Time::NEVER) {
            (false, false) => return,
            (false, true) => {
                self.places[index] = self.heap.len() as u32;
                self.heap.push((at, peer));
                self.rise(self.heap.len() - 1);
            }
            (true, true) => {
                let before = core::mem::replace(&mut self.heap[place].0, at);
                match at < before {
                    true => self.rise(place),
                    false => self.sink(place),
                }
            }
            (true, false) => self.remove(place),
        }
        debug_assert!(self.is_sound_at(index));
    }

    /// Takes out who is due at `now` or before: some one of those that have waited longest.
    pub fn pop_due(&mut self, now: Time) -> Option<PeerId> {
        let (at, peer) = *self.heap.first()?;
        if at > now {
            return None;
        }
        self.remove(0);
        debug_assert!(self.first().is_none_or(|next| next >= at));
        Some(peer)
    }

    fn remove(&mut self, place: usize) {
        let (_, peer) = self.heap.swap_remove(place);
        self.places[peer.0 as usize] = NOWHERE;
        if let Some(&(_, moved)) = self.heap.get(place) {
            self.places[moved.0 as usize] = place as u32;
            self.rise(place);
            self.sink(self.places[moved.0 as usize] as usize);
            debug_assert!(self.is_sound_at(moved.0 as usize));
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above] <= self.heap[place] {
                break;
            }
            self.swap(above, place);
            place = above;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2];
            let below = below.into_iter().filter(|below| *below < self.heap.len());
            let Some(first) = below.min_by_key(|below| self.heap[*below]) else {
                return;
            };
            if self.heap[place] <= self.heap[first] {
                return;
            }
            self.swap(first, place);
            place = first;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            self.places[self.heap[place].1.0 as usize] = place as u32;
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(Time, PeerId)>()
            + self.places.capacity() * size_of::<u32>()
    }

    /// Whether the peer stands where it is thought to, between those that are due before and after it.
    fn is_sound_at(&self, index: usize) -> bool {
        let place = self.places[index] as usize;
        if place == NOWHERE as usize {
            return true;
        }
        let (entry, after) = (self.heap[place], [2 * place + 1, 2 * place + 2]);
        let sorted = |a: usize, b: usize| self.heap.get(b).is_none_or(|b| self.heap[a] <= *b);
        entry.1.0 as usize == index
            && (place == 0 || sorted((place - 1) / 2, place))
            && after.iter().all(|after| sorted(place, *after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn whoever_is_due_is_told_in_order_however_often_entries_change() {
        const PEERS: u64 = 200;
        let mut random = Random::from_seed([5; 32]);
        let mut timers = Timers::default();
        let mut wanted = [Time::NEVER; PEERS as usize];
        for round in 0..3_000 {
            let peer = random.below(PEERS) as usize;
            let at = match random.below(4) {
                0 => Time::NEVER,
                _ => Time::from_ms(random.below(1000)),
            };
            timers.set(PeerId(peer as u32), at);
            wanted[peer] = at;
            let first = wanted.iter().copied().min().filter(|at| *at < Time::NEVER);
            assert_eq!(timers.first(), first);
            if round % 100 == 99 {
                let now = Time::from_ms(random.below(500));
                let mut told: Vec<usize> =
                    core::iter::from_fn(|| timers.pop_due(now).map(|p| p.0 as usize)).collect();
                let times = told.iter().map(|peer| wanted[*peer]);
                assert!(times.is_sorted());
                told.sort_unstable();
                let due = (0..PEERS as usize).filter(|peer| wanted[*peer] <= now);
                assert_eq!(told, due.collect::<Vec<_>>());
                told.iter().for_each(|peer| wanted[*peer] = Time::NEVER);
            }
        }
    }
}
