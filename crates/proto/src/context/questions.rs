//! How often a node asks on paths in doubt.

use crate::link::thresholds::PROBE_SUSPECT;
use crate::time::part;
use core::time::Duration;

use crate::Time;

/// Bundles that share a switch which fails are as quick as one if they are no more than this. Of more bundles that are
/// in doubt together, most often not the links are at fault: what is between is full, and each question makes it fuller.
const BUNDLES: u32 = 8;
/// What all bundles together may ask at once: twice each …
const AT_ONCE: u32 = 2 * BUNDLES;
/// … and how often after that. A bundle asks once in [`PROBE_SUSPECT`] on a link.
const EVERY: Duration = part(PROBE_SUSPECT, BUNDLES);

/// Questions on paths in doubt, of all bundles.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    left: u32,
    /// When the last one was added.
    at: Time,
}

impl Questions {
    /// Whether one may be asked now; then it counts.
    pub fn take(&mut self, now: Time) -> bool {
        let earned = now.since(self.at).as_nanos() / EVERY.as_nanos();
        if earned > 0 {
            self.left = AT_ONCE.min(self.left.saturating_add(earned as u32));
            self.at = now;
        }
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_asked_at_once_and_then_as_many_as_time_gives() {
        let mut questions = Questions::default();
        let mut asked = |from_ms: u64, to_ms: u64| {
            let times = (from_ms * 1000..to_ms * 1000).step_by(10);
            times
                .filter(|us| questions.take(Time::from_ns(us * 1000)))
                .count()
        };
        assert_eq!(asked(1000, 1001), 16 + 14);
        let in_a_second = asked(1001, 2001);
        assert!((13_000..17_000).contains(&in_a_second), "{in_a_second}");
        assert_eq!(asked(5000, 5001), 16 + 14);
    }
}
