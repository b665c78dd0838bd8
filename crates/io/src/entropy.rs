//! Randomness from the kernel.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// 32 bytes from the kernel's random number generator (`getrandom(2)`),
/// suitable for keys. Blocks only before the generator was seeded, that is
/// early during boot.
///
/// # Errors
/// Where the kernel has no `getrandom` (before Linux 3.17) or a seccomp filter
/// forbids it. There is no fallback: a guessable key is worse than none.
pub fn seed() -> io::Result<[u8; 32]> {
    let mut seed = [0u8; 32];
    let mut filled = 0;
    while filled < seed.len() {
        let rest = &mut seed[filled..];
        filled += retry_on_intr(|| getrandom(&mut *rest, GetRandomFlags::empty()))?;
    }
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::seed;

    #[test]
    fn two_seeds_differ() {
        assert_ne!(seed().unwrap(), seed().unwrap());
    }
}
