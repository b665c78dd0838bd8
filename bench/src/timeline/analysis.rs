//! What a timeline says about a failure in its middle.

use serde::Serialize;

use super::{BIN_NS, Sent, Timeline};

/// Rates are judged over this long: shorter, and the line's own bursts show.
const WINDOW_NS: u64 = 50_000_000;
/// Share of one link's rate that counts as going on with it.
const ONE_LINK_SHARE: f64 = 0.95;
/// More than this many times one link's rate cannot have come over one link.
const BOTH_LINKS: f64 = 1.5;

/// How one stream bore one failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Failover {
    /// Longest time between failure and healing in which nothing arrived, ms.
    pub gap_ms: f64,
    /// From the failure until bytes arrive at 95% of one link's rate or more
    /// over the 50 ms that follow, ms.
    pub one_link_ms: Option<f64>,
    /// From healing until they arrive faster than over one link, ms.
    pub both_links_ms: Option<f64>,
    /// Bytes the sender's TCP took that never arrived, or wrong.
    pub lost_bytes: u64,
    /// The connection was reset, or ended otherwise than by its sender.
    pub is_broken: bool,
    /// Rate of the last 300 ms before the failure, Gb/s.
    pub before_gbps: f64,
    /// Rate of the second half of the failure, Gb/s.
    pub during_gbps: f64,
}

/// Judge a stream: the link failed at `failed_ns` and was healed at
/// `healed_ns`; one link alone carries `one_link_gbps`.
pub fn judge(
    timeline: &Timeline,
    sent: &Sent,
    failed_ns: u64,
    healed_ns: u64,
    one_link_gbps: f64,
) -> Failover {
    let gap_ns = longest_pause_ns(timeline, failed_ns, healed_ns);
    let reaches = |from_ns: u64, until_ns: u64, gbps: f64| {
        let starts = (from_ns..until_ns).step_by(BIN_NS as usize);
        let mut reached = starts.filter(|&at| rate_gbps(timeline, at, at + WINDOW_NS) >= gbps);
        reached.next()
    };
    let since = |begin_ns: u64| move |at: u64| (at - begin_ns) as f64 / 1e6;
    let one_link = reaches(failed_ns, healed_ns, ONE_LINK_SHARE * one_link_gbps);
    let both = reaches(healed_ns, timeline.last_ns(), BOTH_LINKS * one_link_gbps);
    let right_bytes = timeline.wrong_at.unwrap_or(timeline.bytes);
    let half_ns = failed_ns + (healed_ns - failed_ns) / 2;
    Failover {
        gap_ms: gap_ns as f64 / 1e6,
        one_link_ms: one_link.map(since(failed_ns)),
        both_links_ms: both.map(since(healed_ns)),
        lost_bytes: sent.bytes.saturating_sub(right_bytes),
        is_broken: sent.error.is_some() || timeline.error.is_some(),
        before_gbps: rate_gbps(timeline, failed_ns.saturating_sub(300_000_000), failed_ns),
        during_gbps: rate_gbps(timeline, half_ns, healed_ns),
    }
}

/// The longest pause that reaches into `from_ns..until_ns`; of it, only what is
/// inside counts.
fn longest_pause_ns(timeline: &Timeline, from_ns: u64, until_ns: u64) -> u64 {
    // Silence to the end is a pause, too, though no read ended it.
    let last_ns = timeline.last_ns();
    let at_end = (last_ns < until_ns).then_some((last_ns, until_ns));
    let pauses = timeline.pauses.iter().copied().chain(at_end);
    let inside = pauses.map(|(begin, end)| (begin.max(from_ns), end.min(until_ns)));
    let lengths = inside.filter_map(|(begin, end)| end.checked_sub(begin));
    lengths.max().unwrap_or(0)
}

fn rate_gbps(timeline: &Timeline, from_ns: u64, until_ns: u64) -> f64 {
    let bin = |at: u64| {
        let index = (at.saturating_sub(timeline.first_ns) / BIN_NS) as usize;
        index.min(timeline.bins.len())
    };
    let bins = &timeline.bins[bin(from_ns)..bin(until_ns).max(bin(from_ns))];
    let bytes: u64 = bins.iter().copied().map(u64::from).sum();
    bytes as f64 * 8.0 / (until_ns.saturating_sub(from_ns)).max(1) as f64
}

impl Timeline {
    /// When the last byte came, to the millisecond.
    fn last_ns(&self) -> u64 {
        self.first_ns + self.bins.len() as u64 * BIN_NS
    }

    /// The rate over so many seconds, from so many after the first byte on, Gb/s.
    pub fn gbps_within(&self, omit_s: f64, seconds: f64) -> f64 {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let from_ns = self.first_ns + ns(omit_s);
        rate_gbps(self, from_ns, from_ns + ns(seconds))
    }

    /// The rate of the second half, Gb/s.
    pub fn steady_gbps(&self) -> f64 {
        let half_ns = self.first_ns + self.bins.len() as u64 / 2 * BIN_NS;
        rate_gbps(self, half_ns, self.last_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// Of one millisecond at 1 Gb/s.
    const ONE: u32 = 125_000;

    /// Two links for 500 ms, a gap of 30, one link for 470, two for 500; the
    /// first byte came at 1 s.
    fn stream() -> Timeline {
        let mut timeline = Timeline {
            first_ns: 1000 * MS,
            pauses: vec![(1100 * MS, 1105 * MS), (1500 * MS, 1530 * MS)],
            ..Timeline::default()
        };
        for ms in 0..1500 {
            let links = match ms {
                500..530 => 0,
                530..1000 => 1,
                _ => 2,
            };
            timeline.bins.push(links * ONE);
        }
        timeline.bytes = timeline.bins.iter().copied().map(u64::from).sum();
        timeline
    }

    #[test]
    fn a_failure_in_the_middle_is_judged() {
        let timeline = stream();
        let sent = Sent {
            bytes: timeline.bytes,
            error: None,
        };
        let failover = judge(&timeline, &sent, 1500 * MS, 2000 * MS, 1.0);
        assert_eq!(failover.gap_ms, 30.0);
        // The 50 ms from here on have 2 of the gap.
        assert_eq!(failover.one_link_ms, Some(28.0));
        assert_eq!(failover.both_links_ms, Some(0.0));
        assert_eq!((failover.lost_bytes, failover.is_broken), (0, false));
        assert_eq!(failover.before_gbps, 2.0);
        assert_eq!(failover.during_gbps, 1.0);
    }

    #[test]
    fn a_stream_that_stops_never_recovers_and_loses() {
        let mut timeline = stream();
        timeline.bins.truncate(500);
        timeline.pauses.truncate(1);
        timeline.bytes = 500 * 2 * u64::from(ONE);
        timeline.error = Some("reset".into());
        let sent = Sent {
            bytes: timeline.bytes + 1000,
            error: None,
        };
        let failover = judge(&timeline, &sent, 1500 * MS, 2000 * MS, 1.0);
        assert_eq!(failover.gap_ms, 500.0);
        assert_eq!(failover.one_link_ms, None);
        assert_eq!(failover.both_links_ms, None);
        assert_eq!((failover.lost_bytes, failover.is_broken), (1000, true));
    }

    #[test]
    fn only_the_part_of_a_pause_within_the_failure_counts() {
        let timeline = stream();
        assert_eq!(longest_pause_ns(&timeline, 1510 * MS, 2000 * MS), 20 * MS);
        assert_eq!(longest_pause_ns(&timeline, 1600 * MS, 2000 * MS), 0);
    }
}
