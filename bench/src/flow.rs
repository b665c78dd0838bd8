//! Streams that arrive at the same time, and how they share what there is.

use serde::{Deserialize, Serialize};

/// Width of the intervals that are noted, milliseconds.
pub const INTERVAL_MS: u64 = 10;

/// A stream as its receiver saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// When its first byte came; one clock for all of a measurement.
    pub first_ns: Option<u64>,
    /// Width of the intervals, milliseconds.
    pub interval_ms: u64,
    /// Bytes in each interval from then on.
    pub interval_bytes: Vec<u64>,
}

impl Flow {
    /// Some bytes came now.
    pub fn note(&mut self, now_ns: u64, bytes: u64) {
        self.interval_ms = INTERVAL_MS;
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let interval = (now_ns.saturating_sub(first_ns) / (INTERVAL_MS * 1_000_000)) as usize;
        if self.interval_bytes.len() <= interval {
            self.interval_bytes.resize(interval + 1, 0);
        }
        self.interval_bytes[interval] += bytes;
    }

    /// Bytes that came within a time, both ends in nanoseconds of the clock.
    pub fn bytes_within(&self, from_ns: u64, until_ns: u64) -> u64 {
        let Some(first_ns) = self.first_ns else {
            return 0;
        };
        let width_ns = self.interval_ms.max(1) * 1_000_000;
        let index = |at: u64| (at.saturating_sub(first_ns) / width_ns) as usize;
        let end = index(until_ns).min(self.interval_bytes.len());
        let begin = index(from_ns).min(end);
        self.interval_bytes[begin..end].iter().sum()
    }
}

/// The rates of flows, Mb/s, in the `seconds` that begin `omit_s` after the
/// last of them began.
pub fn rates_mbps(flows: &[Flow], omit_s: f64, seconds: f64) -> Vec<f64> {
    let last_ns = flows.iter().filter_map(|flow| flow.first_ns).max();
    let from_ns = last_ns.unwrap_or(0) + (omit_s * 1e9) as u64;
    let until_ns = from_ns + (seconds * 1e9) as u64;
    let rate = |flow: &Flow| flow.bytes_within(from_ns, until_ns) as f64 * 8.0 / seconds / 1e6;
    flows.iter().map(rate).collect()
}

/// How fairly they share: 1 if all have the same, 1/n if one has everything
/// (Jain, Chiu, Hawe: A quantitative measure of fairness, DEC-TR-301, 1984).
pub fn jain_index(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 {
        return 0.0;
    }
    sum * sum / (rates.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn flow(first_ms: u64, interval_bytes: &[u64]) -> Flow {
        Flow {
            first_ns: Some(first_ms * MS),
            interval_ms: 10,
            interval_bytes: interval_bytes.to_vec(),
        }
    }

    #[test]
    fn only_what_came_within_the_time_counts() {
        let flow = flow(1000, &[1, 2, 4, 8]);
        assert_eq!(flow.bytes_within(1010 * MS, 1030 * MS), 6);
        assert_eq!(flow.bytes_within(0, 2000 * MS), 15);
        assert_eq!(flow.bytes_within(1050 * MS, 1060 * MS), 0);
        assert_eq!(Flow::default().bytes_within(0, 1), 0);
    }

    #[test]
    fn what_comes_is_noted_when_it_comes() {
        let mut noted = Flow::default();
        for (at_ms, bytes) in [(1000, 1), (1009, 2), (1020, 4)] {
            noted.note(at_ms * MS, bytes);
        }
        assert_eq!(noted, flow(1000, &[3, 0, 4]));
    }

    #[test]
    fn rates_are_of_the_time_all_run() {
        let flows = [flow(0, &[1000; 10]), flow(20, &[0, 2000, 2000, 0])];
        assert_eq!(rates_mbps(&flows, 0.01, 0.02), [0.8, 1.6]);
    }

    #[test]
    fn jain_tells_fair_from_unfair() {
        assert_eq!(jain_index(&[2.0; 8]), 1.0);
        assert_eq!(jain_index(&[3.0, 0.0]), 0.5);
        assert_eq!(jain_index(&[]), 0.0);
        assert_eq!(jain_index(&[0.0]), 0.0);
    }
}
