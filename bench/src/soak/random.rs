//! Everything random of a run comes from its seed.

use std::ops::RangeInclusive;

/// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014): small, and good enough to draw faults.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// `what` tells apart those who draw from one seed.
    pub fn new(seed: u64, what: u64) -> Random {
        let mut random = Random(seed ^ what.wrapping_mul(0xa076_1d64_78bd_642f));
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of these numbers, each as likely.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let span = (range.end() - range.start()).saturating_add(1).max(1);
        range.start() + self.next() % span
    }

    /// One of these, each as likely; the slice is not empty.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[(self.next() % choices.len() as u64) as usize]
    }

    /// Whether something of this likelihood happens, in hundredths.
    pub fn percent(&mut self, likely: u64) -> bool {
        self.next() % 100 < likely
    }

    /// Bytes without a pattern.
    pub fn fill(&mut self, block: &mut [u8]) {
        for word in block.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |seed| {
            let mut random = Random::new(seed, 1);
            (0..100).map(|_| random.within(10..=20)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).iter().all(|n| (10..=20).contains(n)));
    }
}
