//! Retries at growing intervals, of what the kernel could not do: devices, `tab0`, the keeper. A failure is told once.

use core::time::Duration;

/// First retry interval.
pub(crate) const FIRST: Duration = Duration::from_millis(500);
/// Longest retry interval.
const LAST: Duration = Duration::from_secs(16);

/// An action that is repeated, and may be failing now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setback(Option<Duration>);

impl Setback {
    /// It failed: returns how long to wait before the next try.
    pub fn pause(&mut self) -> Duration {
        let pause = self.0.map_or(FIRST, |pause| (pause * 2).min(LAST));
        *self.0.insert(pause)
    }

    /// Whether the last try failed.
    #[must_use]
    pub const fn lasts(&self) -> bool {
        self.0.is_some()
    }

    /// It succeeded. Returns whether it had failed before.
    pub const fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_ever_further_apart_until_one_succeeds() {
        let mut setback = Setback::default();
        let pauses: Vec<_> = (0..7).map(|_| setback.pause().as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 16_000]);
        assert!(setback.lasts() && setback.end());
        assert!(!setback.lasts() && !setback.end());
        assert_eq!(setback.pause(), FIRST);
    }
}
