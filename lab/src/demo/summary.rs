//! The figures at the end.

use std::fmt::Write;

use super::recording::Recording;

/// A new connection takes some time to reach its rate; it is not judged.
const START_S: f64 = 1.0;
/// The same after a change.
const SETTLE_S: f64 = 1.0;

/// What one run comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Rate while all works, before the first failure, Gb/s.
    pub whole_gbps: f64,
    /// Rate in each outage after its first second, Gb/s.
    pub outage_gbps: [f64; 2],
    /// Longest time next to nothing arrived, from the first failure on, ms.
    pub gap_ms: f64,
}

/// The figures of a run.
pub fn figures(recording: &Recording) -> Figures {
    let first_s = recording
        .outages
        .first()
        .map_or(recording.end_s(), |outage| outage.begin_s);
    let outage = |index: usize| {
        let outage = recording.outages.get(index)?;
        let settled_s = outage.begin_s + SETTLE_S.min((outage.end_s - outage.begin_s) / 2.0);
        Some(recording.gbps(settled_s, outage.end_s))
    };
    Figures {
        whole_gbps: recording.gbps(START_S.min(first_s / 2.0), first_s),
        outage_gbps: [0, 1].map(|index| outage(index).unwrap_or(0.0)),
        gap_ms: recording.longest_stall_s(first_s, recording.end_s()) * 1e3,
    }
}

/// The table of all runs.
pub fn table(recordings: &[Recording]) -> String {
    let mut text = format!(
        "{:<17} {:>10} {:>9} {:>9} {:>11} {:>10} {:>7}\n{:<17} {:>10} {:>9} {:>9} {:>11} {:>10} {:>7}\n",
        "Gb/s received",
        "both links",
        "switch 1",
        "switch 0",
        "longest gap",
        "bytes lost",
        "TCP",
        "",
        "work",
        "silent",
        "silent",
        "",
        "",
        "resent",
    );
    for recording in recordings {
        let Figures {
            whole_gbps,
            outage_gbps: [first, second],
            gap_ms,
        } = figures(recording);
        // TCP delivers everything or breaks.
        let lost = if recording.survived { "0" } else { "broken" };
        let resent = recording.retransmits.map(|count| count.to_string());
        let _ = writeln!(
            text,
            "{:<17} {whole_gbps:>10.2} {first:>9.2} {second:>9.2} {:>11} {lost:>10} {:>7}",
            recording.way.to_string(),
            time(gap_ms),
            resent.as_deref().unwrap_or("–"),
        );
    }
    text
}

/// The sentence above all: the first run against the last one, which uses one
/// link.
pub fn verdict(recordings: &[Recording]) -> Option<String> {
    let (first, last) = (recordings.first()?, recordings.last()?);
    let (own, one) = (figures(first), figures(last));
    Some(format!(
        "{} used both links at {:.2} times the rate of one; longest gap {}; {}.",
        first.way,
        own.whole_gbps / one.whole_gbps.max(1e-9),
        time(own.gap_ms),
        if first.survived {
            "0 bytes lost"
        } else {
            "the connection did not survive"
        }
    ))
}

fn time(ms: f64) -> String {
    if ms < 1000.0 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.1} s", ms / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::example;
    use super::*;

    #[test]
    fn the_figures_of_a_run() {
        let figures = figures(&example());
        assert!((figures.whole_gbps - 2.0).abs() < 0.01, "{figures:?}");
        assert!((figures.outage_gbps[0] - 1.0).abs() < 0.01, "{figures:?}");
        assert_eq!(figures.outage_gbps[1], 0.0);
        assert!((figures.gap_ms - 51.0).abs() < 2.0, "{figures:?}");
    }

    #[test]
    fn the_table_has_a_line_for_each() {
        let table = table(&[example(), example()]);
        assert_eq!(table.lines().count(), 4);
        assert!(table.contains(" 2.00 "), "{table}");
        assert!(
            table.lines().all(|line| line.chars().count() <= 80),
            "{table}"
        );
        let verdict = verdict(&[example(), example()]).expect("there are runs");
        assert!(
            verdict.contains("1.00 times") && verdict.contains("0 bytes lost"),
            "{verdict}"
        );
    }
}
