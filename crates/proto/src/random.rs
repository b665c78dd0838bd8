//! Randomness as an argument. The protocol never asks the system for entropy.

use core::fmt;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// A cryptographically strong generator (ChaCha20, RFC 8439) whose whole output
/// follows from its seed: 32 bytes of entropy in a real node, anything that can
/// be written down in a simulation.
#[derive(Clone)]
pub struct Random(ChaCha20Rng);

impl Random {
    /// The generator of `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Random {
        Random(ChaCha20Rng::from_seed(seed))
    }

    /// A new generator, independent of what this one gives from now on.
    pub fn fork(&mut self) -> Random {
        Random::from_seed(self.array())
    }

    /// 32 random bits.
    pub fn u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// 64 random bits.
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// `N` random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A number from 0 to `n` − 1; 0 if `n` is 0. Its bias is below `n` / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let mut a = Random::from_seed([7; 32]);
        let mut b = Random::from_seed([7; 32]);
        let mut c = Random::from_seed([8; 32]);
        let first = a.u64();
        assert_eq!(first, b.u64());
        assert_ne!(first, c.u64());
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut random = Random::from_seed([1; 32]);
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[random.below(10) as usize] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn a_fork_is_independent() {
        let mut a = Random::from_seed([1; 32]);
        let mut fork = a.fork();
        assert_ne!(a.u64(), fork.u64());
    }
}
