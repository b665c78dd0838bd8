//! What fails is tried again, ever later.

use core::time::Duration;

/// How long it is waited for the next try at first …
pub(crate) const FIRST: Duration = Duration::from_millis(500);
/// … and at most.
const LAST: Duration = Duration::from_secs(16);

/// Something that is done again and again, and may fail now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setback(Option<Duration>);

impl Setback {
    /// It has failed: how long to wait until it is tried again.
    pub fn pause(&mut self) -> Duration {
        let pause = self.0.map_or(FIRST, |pause| (pause * 2).min(LAST));
        *self.0.insert(pause)
    }

    /// Whether it failed when it was last tried.
    #[must_use]
    pub const fn lasts(&self) -> bool {
        self.0.is_some()
    }

    /// It has not failed this time. Returns whether it had before.
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
