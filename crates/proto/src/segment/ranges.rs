//! A set of byte ranges that is nearly always one range.

use core::ops::Range;

use smallvec::SmallVec;

/// Ranges held without an allocation of their own.
const RANGES_INLINE: usize = 4;

/// A sorted set of disjoint, non-adjacent half-open ranges.
///
/// Growing the last range, as data in order does, is one comparison; all else is a binary search. Up to four ranges
/// need no allocation, and [`clear`](RangeSet::clear) keeps the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// (start, end) of each range.
    ranges: SmallVec<[(u64, u64); RANGES_INLINE]>,
    /// Sum of their lengths.
    covered: u64,
}

impl RangeSet {
    /// The empty set.
    pub fn new() -> RangeSet {
        RangeSet::default()
    }

    /// Adds `range`; returns how many of its bytes were not in the set before. An empty range adds nothing.
    #[inline]
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        let Range { start, end } = range;
        if start >= end {
            return 0;
        }
        match self.ranges.last_mut() {
            Some(last) if start == last.1 => last.1 = end,
            Some(last) if start < last.1 => return self.insert_slow(start, end),
            _ => self.ranges.push((start, end)),
        }
        self.covered += end - start;
        end - start
    }

    /// The general case of [`insert`](RangeSet::insert).
    fn insert_slow(&mut self, start: u64, end: u64) -> u64 {
        // Of the ranges that touch the new one: the first, and one past the last.
        let first = self.ranges.partition_point(|r| r.1 < start);
        let past = first + self.ranges[first..].partition_point(|r| r.0 <= end);
        if first == past {
            self.ranges.insert(first, (start, end));
            self.covered += end - start;
            debug_assert!(self.is_sound_at(first));
            return end - start;
        }
        let merged = (
            start.min(self.ranges[first].0),
            end.max(self.ranges[past - 1].1),
        );
        let before: u64 = self.ranges[first..past].iter().map(|r| r.1 - r.0).sum();
        let new = merged.1 - merged.0 - before;
        self.ranges[first] = merged;
        self.ranges.drain(first + 1..past);
        self.covered += new;
        debug_assert!(self.is_sound_at(first));
        new
    }

    /// Takes `range` out; returns how many of its bytes were in the set.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        let Range { start, end } = range;
        if start >= end || self.ranges.is_empty() {
            return 0;
        }
        let first = self.ranges.partition_point(|r| r.1 <= start);
        let past = first + self.ranges[first..].partition_point(|r| r.0 < end);
        if first == past {
            return 0;
        }
        let before: u64 = self.ranges[first..past].iter().map(|r| r.1 - r.0).sum();
        let (left_start, right_end) = (self.ranges[first].0, self.ranges[past - 1].1);
        let left = (left_start < start).then_some((left_start, start));
        let right = (end < right_end).then_some((end, right_end));
        let mut kept = first;
        let mut after = 0;
        for piece in [left, right].into_iter().flatten() {
            after += piece.1 - piece.0;
            if kept < past {
                self.ranges[kept] = piece;
            } else {
                self.ranges.insert(kept, piece);
            }
            kept += 1;
        }
        if kept < past {
            self.ranges.drain(kept..past);
        }
        self.covered -= before - after;
        debug_assert!(self.is_sound_at(first) && self.is_sound_at(kept));
        before - after
    }

    /// Takes at most `bytes_max` bytes off the front; `None` if the set is empty.
    pub fn pop_front(&mut self, bytes_max: u64) -> Option<Range<u64>> {
        let first = self.ranges.first_mut()?;
        let start = first.0;
        let end = first.1.min(start.saturating_add(bytes_max));
        if end == first.1 {
            self.ranges.remove(0);
        } else {
            first.0 = end;
        }
        self.covered -= end - start;
        debug_assert!(self.is_sound_at(0));
        Some(start..end)
    }

    /// Whether the range at `index`, if there is one, is not empty and touches neither neighbour, and whether something
    /// is covered if there are ranges.
    fn is_sound_at(&self, index: usize) -> bool {
        let apart = |before: usize, after: usize| {
            let (before, after) = (self.ranges.get(before), self.ranges.get(after));
            before.zip(after).is_none_or(|(b, a)| b.1 < a.0)
        };
        self.ranges.get(index).is_none_or(|r| r.0 < r.1)
            && (index == 0 || apart(index - 1, index))
            && apart(index, index + 1)
            && self.ranges.is_empty() == (self.covered == 0)
    }

    /// Whether every byte of `range` is in the set (true of an empty range).
    pub fn contains(&self, range: Range<u64>) -> bool {
        if range.start >= range.end {
            return true;
        }
        let i = self.ranges.partition_point(|r| r.1 < range.end);
        self.ranges
            .get(i)
            .is_some_and(|r| r.0 <= range.start && range.end <= r.1)
    }

    /// The end of the range that `start` lies in; `start` itself if it is in none.
    pub fn covered_from(&self, start: u64) -> u64 {
        let i = self.ranges.partition_point(|r| r.1 <= start);
        match self.ranges.get(i) {
            Some(r) if r.0 <= start => r.1,
            _ => start,
        }
    }

    /// The end of the leading range if it begins at 0, else 0: everything before
    /// it is there.
    pub fn covered_to(&self) -> u64 {
        self.covered_from(0)
    }

    /// Of `range`, the first stretch that is not in the set; `None` if all is.
    pub fn first_gap(&self, range: Range<u64>) -> Option<Range<u64>> {
        let start = self.covered_from(range.start);
        if start >= range.end {
            return None;
        }
        let i = self.ranges.partition_point(|r| r.1 <= start);
        let end = self.ranges.get(i).map_or(range.end, |r| r.0.min(range.end));
        Some(start..end)
    }

    /// Sum of the lengths of all ranges, in bytes.
    pub const fn covered(&self) -> u64 {
        self.covered
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.ranges.first().map(|r| r.0..r.1)
    }

    /// All ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|r| r.0..r.1)
    }

    /// How many ranges there are.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Takes everything out; allocated room is kept.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.covered = 0;
    }

    /// Bytes of memory outside of the value itself.
    pub fn heap_bytes(&self) -> usize {
        if self.ranges.spilled() {
            self.ranges.capacity() * size_of::<(u64, u64)>()
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> RangeSet {
        let mut s = RangeSet::new();
        for r in ranges {
            s.insert(r.clone());
        }
        s
    }

    #[test]
    fn in_order_stays_one_range() {
        let s = set(&[0..10, 10..20, 20..30]);
        assert_eq!((s.range_count(), s.covered(), s.covered_to()), (1, 30, 30));
    }

    #[test]
    fn insert_counts_only_new_bytes() {
        let mut s = set(&[10..20, 30..40, 50..60]);
        assert_eq!(s.insert(15..55), 20);
        assert_eq!(s.iter().collect::<Vec<_>>(), vec![10..60]);
        assert_eq!(s.insert(12..40), 0);
        assert_eq!(s.insert(5..5), 0);
    }

    #[test]
    fn pop_front_takes_at_most_what_is_asked() {
        let mut s = set(&[5..10, 20..30]);
        assert_eq!(s.pop_front(3), Some(5..8));
        assert_eq!(s.pop_front(100), Some(8..10));
        assert_eq!(s.pop_front(100), Some(20..30));
        assert_eq!(s.pop_front(100), None);
        assert_eq!(s.covered(), 0);
    }

    #[test]
    fn gaps() {
        let s = set(&[0..10, 20..30]);
        assert_eq!(s.first_gap(5..40), Some(10..20));
        assert_eq!(s.first_gap(25..40), Some(30..40));
        assert_eq!(s.first_gap(22..28), None);
        assert_eq!(s.first_gap(12..15), Some(12..15));
        assert_eq!(s.covered_from(25), 30);
        assert_eq!(s.covered_from(15), 15);
    }

    /// Against a plain array of booleans, over many random operations.
    #[test]
    fn agrees_with_a_bitmap() {
        const N: usize = 64;
        let mut seed = 1u32;
        let mut random = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % n
        };
        for _ in 0..500 {
            let mut s = RangeSet::new();
            let mut bits = [false; N];
            for _ in 0..60 {
                let a = random(N as u32) as usize;
                let b = a + random((N - a) as u32 + 1) as usize;
                let range = a as u64..b as u64;
                let had = bits[a..b].iter().filter(|x| **x).count() as u64;
                assert_eq!(s.contains(range.clone()), had == (b - a) as u64);
                let gap = (a..b).find(|i| !bits[*i]).map(|start| {
                    let end = (start..b).find(|i| bits[*i]).unwrap_or(b);
                    start as u64..end as u64
                });
                assert_eq!(s.first_gap(range.clone()), gap);
                if random(3) == 0 {
                    assert_eq!(s.remove(range), had);
                    bits[a..b].fill(false);
                } else {
                    assert_eq!(s.insert(range), (b - a) as u64 - had);
                    bits[a..b].fill(true);
                }
                assert_eq!(s.covered(), bits.iter().filter(|x| **x).count() as u64);
                let ranges: Vec<_> = s.iter().collect();
                assert!(ranges.windows(2).all(|w| w[0].end < w[1].start));
                assert!(ranges.iter().all(|r| r.start < r.end));
            }
        }
    }
}
