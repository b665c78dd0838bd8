//! A stream across every failure, kept millisecond by millisecond.

use super::failover::{FAILURES, Seen, across};
use crate::LabError;
use crate::bench::timeline::{Recorded, judge};
use crate::bench::ways::Way;
use crate::bench::{Report, Settings};
use crate::cluster::Wire;

/// Of so many runs, the one with the middle gap is kept.
const RUNS_MAX: usize = 3;
const WAYS: [Way; 3] = [Way::Tabane(Wire::Encrypted), Way::Mptcp, Way::BalanceRr];

/// On 2 links of 1 Gb/s, every way and every failure.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    for way in WAYS {
        for failure in FAILURES {
            let mut runs = Vec::new();
            for _ in 0..settings.rounds.min(RUNS_MAX) {
                match across(settings, way, failure) {
                    Ok(Ok(seen)) => runs.push(seen),
                    Ok(Err(error)) => eprintln!("bench: {way}, {failure}: no timeline: {error}"),
                    Err(error @ LabError::Io { .. }) => return Err(error),
                    Err(error) if matches!(way, Way::Tabane(_)) => return Err(error),
                    Err(error) => {
                        report.leave_out(format!("timelines of {way}, {failure}"), &error);
                        break;
                    }
                }
            }
            if let Some(seen) = middle(runs) {
                let (failed_ns, healed_ns) = (seen.failed_ns, seen.healed_ns);
                let kept = Recorded::of(way, failure, &seen.timeline, failed_ns, healed_ns);
                report.timelines.push(kept);
            }
        }
    }
    Ok(report)
}

/// The run whose longest gap is in the middle of all.
fn middle(mut runs: Vec<Seen>) -> Option<Seen> {
    let gap_ms = |seen: &Seen| {
        // The rate of one link does not matter to the gap.
        judge(
            &seen.timeline,
            &seen.sent,
            seen.failed_ns,
            seen.healed_ns,
            1.0,
        )
        .gap_ms
    };
    runs.sort_by(|a, b| gap_ms(a).total_cmp(&gap_ms(b)));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle)
}
