//! A stream across a failure, kept to be drawn.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{BIN_NS, Timeline};

/// What is kept, milliseconds since the failure.
pub const KEPT_MS: Range<i64> = -200..1800;

/// What came of one stream across one failure, each millisecond.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The way it took.
    pub way: String,
    /// What failed.
    pub failure: String,
    /// The first of the milliseconds, counted from the failure (0): negative.
    pub first_ms: i64,
    /// When it was healed, milliseconds after the failure.
    pub healed_ms: f64,
    /// Bytes that arrived in each millisecond.
    pub bytes: Vec<u32>,
}

impl Recorded {
    /// Keep what a receiver saw; the clock is that of [`Timeline`].
    pub fn of(
        way: impl ToString,
        failure: impl ToString,
        timeline: &Timeline,
        failed_ns: u64,
        healed_ns: u64,
    ) -> Recorded {
        let began_ms = -((failed_ns.saturating_sub(timeline.first_ns) / BIN_NS) as i64);
        let first_ms = began_ms.max(KEPT_MS.start);
        let kept = timeline.bins.iter().skip((first_ms - began_ms) as usize);
        Recorded {
            way: way.to_string(),
            failure: failure.to_string(),
            first_ms,
            healed_ms: healed_ns.saturating_sub(failed_ns) as f64 / BIN_NS as f64,
            bytes: kept
                .take((KEPT_MS.end - first_ms) as usize)
                .copied()
                .collect(),
        }
    }

    /// Bytes that arrived in the millisecond that began so long after the
    /// failure; none came before the first and after the last.
    pub fn bytes_at(&self, ms: i64) -> u32 {
        let index = usize::try_from(ms - self.first_ms).ok();
        index
            .and_then(|index| self.bytes.get(index))
            .copied()
            .unwrap_or(0)
    }

    /// Mean rate from `from_ms` for `count` milliseconds, Gb/s.
    pub fn gbps(&self, from_ms: i64, count: u32) -> f64 {
        let each = (from_ms..).take(count as usize).map(|ms| self.bytes_at(ms));
        let bytes: u64 = each.map(u64::from).sum();
        bytes as f64 * 8.0 / (f64::from(count.max(1)) * BIN_NS as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_the_failure() {
        let timeline = Timeline {
            first_ns: 10 * BIN_NS,
            bins: vec![125_000, 250_000, 0, 125_000],
            ..Timeline::default()
        };
        let kept = Recorded::of("a way", "a fault", &timeline, 12 * BIN_NS, 13 * BIN_NS);
        assert_eq!((kept.first_ms, kept.healed_ms), (-2, 1.0));
        assert_eq!(kept.gbps(-1, 1), 2.0);
        assert_eq!(kept.gbps(-2, 4), 1.0);
        assert_eq!(kept.bytes_at(-3) + kept.bytes_at(2), 0);
    }

    #[test]
    fn what_is_not_drawn_is_not_kept() {
        let timeline = Timeline {
            bins: (0..5000).collect(),
            ..Timeline::default()
        };
        let kept = Recorded::of("a way", "a fault", &timeline, 1000 * BIN_NS, 2000 * BIN_NS);
        assert_eq!(kept.bytes.len() as i64, KEPT_MS.end - KEPT_MS.start);
        assert_eq!((kept.first_ms, kept.bytes_at(-200)), (-200, 800));
    }
}
