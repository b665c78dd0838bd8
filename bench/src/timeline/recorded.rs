//! A stream across a failure, kept to be drawn.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{BIN_NS, Timeline};

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
        Recorded {
            way: way.to_string(),
            failure: failure.to_string(),
            first_ms: -((failed_ns.saturating_sub(timeline.first_ns) / BIN_NS) as i64),
            healed_ms: healed_ns.saturating_sub(failed_ns) as f64 / BIN_NS as f64,
            bytes: timeline.bins.clone(),
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

    /// The last millisecond with bytes, counted from the failure.
    pub fn last_ms(&self) -> i64 {
        self.first_ms + self.bytes.len() as i64 - 1
    }
}

/// All of them side by side: a line for each millisecond since the failure, a
/// column for each stream, with the rate in Mb/s.
pub fn csv(all: &[Recorded]) -> String {
    let mut text = String::from("ms since the failure");
    for one in all {
        // Names of ours; none has a quote in it.
        let _ = write!(text, ",\"{}: {}\"", one.way, one.failure);
    }
    text.push('\n');
    text.push_str("healed at");
    for one in all {
        let _ = write!(text, ",{:.0}", one.healed_ms);
    }
    text.push('\n');
    let first_ms = all.iter().map(|one| one.first_ms).min().unwrap_or(0);
    let last_ms = all.iter().map(Recorded::last_ms).max().unwrap_or(-1);
    for ms in first_ms..=last_ms {
        let _ = write!(text, "{ms}");
        for one in all {
            let _ = write!(text, ",{:.0}", one.gbps(ms, 1) * 1e3);
        }
        text.push('\n');
    }
    text
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
        let text = csv(&[kept]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "ms since the failure,\"a way: a fault\"",
                "healed at,1",
                "-2,1000"
            ]
        );
        assert_eq!(lines.last(), Some(&"1,1000"));
    }
}
