//! A stream across every failure, kept millisecond by millisecond.

use super::failover::{FAILURES, Failure, Seen, across};
use crate::timeline::{Recorded, judge};
use crate::{Report, Settings, Table, digits};
use tabane_lab::LabError;
use tabane_lab::cluster::Wire;
use tabane_lab::ways::Way;

/// Of so many runs, the one with the middle gap is kept.
const RUNS_MAX: usize = 3;
const WAYS: [Way; 3] = [Way::Tabane(Wire::Encrypted), Way::Mptcp, Way::BalanceRr];

/// On 2 links of 1 Gb/s, every way and every failure.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    let names = WAYS.map(|way| way.to_string());
    let mut columns = vec!["failure"];
    columns.extend(names.iter().map(String::as_str));
    let note = "Longest time in which nothing arrived while the failure lasted (800 ms), in the runs that are drawn, ms.";
    let mut table = Table::new("Timelines across failures, 2 × 1 Gb/s", note, &columns);
    for failure in FAILURES {
        let mut row = vec![failure.to_string().into()];
        for way in WAYS {
            let seen = representative(settings, way, failure, &mut report)?;
            row.push(
                seen.as_ref()
                    .map_or("–".into(), |seen| digits(gap_ms(seen)).into()),
            );
            if let Some(seen) = seen {
                let (failed_ns, healed_ns) = (seen.failed_ns, seen.healed_ns);
                let kept = Recorded::of(way, failure, &seen.timeline, failed_ns, healed_ns);
                report.timelines.push(kept);
            }
        }
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(report)
}

/// The run whose gap is in the middle of all; none if all failed.
fn representative(
    settings: &Settings,
    way: Way,
    failure: Failure,
    report: &mut Report,
) -> Result<Option<Seen>, LabError> {
    let mut runs = Vec::new();
    for _ in 0..settings.rounds.min(RUNS_MAX) {
        match across(settings, way, 0, failure) {
            Ok(Ok(seen)) => runs.push(seen),
            Ok(Err(error)) => eprintln!("bench: {way}, {failure}: no timeline: {error}"),
            Err(error) if matches!(way, Way::Tabane(_)) => return Err(error),
            Err(error) => {
                report.leave_out(format!("timelines of {way}, {failure}"), &error);
                break;
            }
        }
    }
    runs.sort_by(|a, b| gap_ms(a).total_cmp(&gap_ms(b)));
    let middle = runs.len() / 2;
    Ok(runs.into_iter().nth(middle))
}

fn gap_ms(seen: &Seen) -> f64 {
    // The rate of one link does not matter to the gap.
    judge(
        &seen.timeline,
        &seen.sent,
        seen.failed_ns,
        seen.healed_ns,
        1.0,
    )
    .gap_ms
}
