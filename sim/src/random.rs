//! The one source of chance in a run. Everything random comes from a seed, so a
//! seed is a run.

/// A small, fast, seeded generator (xoshiro256++, Blackman and Vigna 2019).
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

/// Mixes a word so that close inputs give unrelated outputs (splitmix64, Vigna 2015).
pub const fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Random {
        let mut word = seed;
        let mut next = || {
            word = mix(word);
            word
        };
        Random {
            state: [next(), next(), next(), next() | 1],
        }
    }

    /// An independent generator. Giving each part of the simulator its own keeps
    /// one part's use of chance from changing another's.
    pub fn fork(&mut self, label: u64) -> Random {
        Random::new(self.u64() ^ mix(label))
    }

    /// 64 random bits.
    pub fn u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number from 0 to `n` − 1; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Whether something that happens `ppm` times in a million happens now.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.chance(percent * 10_000)
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// 32 random bytes: a node's seed.
    pub fn bytes32(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.u64().to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let mut r = Random::new(seed);
            (0..8).map(|_| r.u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn ranges_are_kept_and_chances_are_about_right() {
        let mut r = Random::new(1);
        assert!((0..1000).all(|_| (3..=5).contains(&r.between(3, 5))));
        assert!((0..1000).all(|_| !r.chance(0)));
        assert!((0..1000).all(|_| r.chance(1_000_000)));
        let hits = (0..10_000).filter(|_| r.percent(30)).count();
        assert!((2_700..3_300).contains(&hits), "{hits}");
    }
}
