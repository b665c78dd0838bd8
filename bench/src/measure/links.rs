//! One TCP stream over 1, 2, 4 and 8 links, one way and both ways.

use super::race::{Entry, find, race};
use super::two_nodes;
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

const CUBIC: Congestion = Congestion::Cubic;
const TCP: Way = Way::Tcp { link: 0 };
const ENCRYPTED: Way = Way::Tabane(Wire::Encrypted);
const WAYS: [Way; 5] = [
    TCP,
    Way::Mptcp,
    Way::BalanceRr,
    ENCRYPTED,
    Way::Tabane(Wire::Plain),
];
const COUNTS: [usize; 4] = [1, 2, 4, 8];
/// Slow enough for two processors to be both ends of eight links both ways: of
/// 200 Mb/s if the line is of 1 Gb/s.
const SLOWER: u64 = 5;
/// Of as many links as there are, each carrying what TCP carries on one.
const SHARE_OF_SUM: f64 = 0.93;

/// A table for each rate and direction.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    for both_ways in [false, true] {
        report.extend(table(settings, settings.line_mbit / SLOWER, both_ways)?);
    }
    // Where the processor is the limit there is nothing to be reached.
    let mut fast = table(settings, settings.line_mbit, false)?;
    fast.goals.clear();
    report.extend(fast);
    Ok(report)
}

fn table(settings: &Settings, mbit: u64, both_ways: bool) -> Result<Report, LabError> {
    let direction = if both_ways {
        "each way at once"
    } else {
        "one way"
    };
    let title = format!("One TCP stream {direction} over links of {mbit} Mb/s");
    let note = "Cubic. With both ways, Mb/s are those of both together. × links: what TCP carries \
        on one link, times the links.";
    let columns = [
        "links",
        "way",
        "Mb/s",
        "× TCP, one link",
        "× links",
        "CPU s/GB",
    ];
    let mut table = Table::new(&title, note, &columns);
    let mut report = Report::default();
    for links in COUNTS {
        let config = two_nodes(vec![LinkSpec::mbit(mbit); links]);
        let ways: Vec<_> = WAYS.into_iter().filter(|&way| is_one(way, links)).collect();
        let entries = race(settings, &config, &ways, &[CUBIC], both_ways)?;
        let Some(base) = find(&entries, TCP, CUBIC).map(mbps) else {
            continue;
        };
        for entry in &entries {
            let ratio = mbps(entry).over(&base);
            let share = ratio.0.iter().map(|ratio| ratio / links as f64);
            let share = Samples(share.collect());
            if entry.way == ENCRYPTED {
                let what = format!("{title}: {links} of them, encrypted over the sum");
                let bound = Bound::AtLeast(SHARE_OF_SUM);
                report.goals.push(Goal::new(what, share.median(), bound));
            }
            table.rows.push(vec![
                links.to_string().into(),
                entry.way.to_string().into(),
                mbps(entry).into(),
                ratio.into(),
                share.into(),
                entry.samples(|outcome| outcome.cpu_s_per_gb).into(),
            ]);
        }
    }
    report.tables.push(table);
    Ok(report)
}

/// Whether a way is one of its own on so many links.
fn is_one(way: Way, links: usize) -> bool {
    links > 1 || !matches!(way, Way::Mptcp | Way::BalanceRr)
}

fn mbps(entry: &Entry) -> Samples {
    entry.samples(|outcome| (outcome.gbps + outcome.back_gbps) * 1e3)
}
