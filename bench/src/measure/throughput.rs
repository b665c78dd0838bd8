//! One stream: one way, both ways, and as fast as the CPU.

use super::race::{Entry, find, race};
use super::two_nodes;
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

const BOTH: [Congestion; 2] = [Congestion::Cubic, Congestion::Bbr];
const ENCRYPTED: Way = Way::Tabane(Wire::Encrypted);
const PLAIN: Way = Way::Tabane(Wire::Plain);
const TCP: Way = Way::Tcp { link: 0 };
const RUN: Way = Way::Run(Wire::Encrypted);
const RUN_PLAIN: Way = Way::Run(Wire::Plain);
const LIBRARY: Way = Way::Library {
    wire: Wire::Encrypted,
    spins: true,
};
const LIBRARY_PLAIN: Way = Way::Library {
    wire: Wire::Plain,
    spins: true,
};
const ALL: [Way; 9] = [
    TCP,
    Way::Mptcp,
    Way::BalanceRr,
    ENCRYPTED,
    PLAIN,
    RUN,
    RUN_PLAIN,
    LIBRARY,
    LIBRARY_PLAIN,
];
/// Those of tabane whose goals are stated, and what they are called.
const STATED: [(Way, &str); 3] = [
    (ENCRYPTED, "encrypted"),
    (RUN, "tabane run"),
    (LIBRARY, "library"),
];

/// Title of the table of this many links, by which it is found to be drawn.
pub fn title(links: usize) -> String {
    format!("One TCP stream, {links} × 1 Gb/s")
}

/// Likewise of links without a line rate.
pub const UNSHAPED_TITLE: &str =
    "One TCP stream, 2 links without a line rate (the CPU is the limit)";

/// On 1, 2 and 4 links of 1 Gb/s.
pub fn one_way(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    for (links, least) in [
        (1, None),
        (2, Some([1.90, 1.92, 1.95])),
        (4, Some([3.7, 3.75, 3.85])),
    ] {
        let ways: &[Way] = if links == 1 {
            &[TCP, ENCRYPTED, PLAIN, RUN, LIBRARY]
        } else {
            &ALL
        };
        let config = two_nodes(vec![LinkSpec::default(); links]);
        let entries = race(settings, &config, ways, &BOTH, false)?;
        let title = title(links);
        report.tables.push(table(&title, &entries, TCP));
        for ((way, name), least) in STATED.into_iter().zip(least.into_iter().flatten()) {
            for congestion in congestions(way) {
                let what = format!("{title}, {congestion}: {name} over TCP on one link");
                let ratio = over(&entries, way, TCP, *congestion, Entry::gbps);
                let goal = Goal::new(what, ratio, Bound::AtLeast(least));
                report.goals.push(goal);
            }
        }
    }
    Ok(report)
}

/// The library has no TCP whose congestion control could be chosen.
fn congestions(way: Way) -> &'static [Congestion] {
    match way.is_tcp() {
        true => &BOTH,
        false => &BOTH[..1],
    }
}

/// On 2 links of 1 Gb/s.
pub fn both_ways(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let entries = race(settings, &config, &ALL, &BOTH, true)?;
    let title = "One TCP stream each way at once, 2 × 1 Gb/s";
    let note = "Ratios are to the same direction of TCP on one link, also both ways at once.";
    let columns = [
        "way",
        "there, Gb/s",
        "back, Gb/s",
        "there ×",
        "back ×",
        "CPU s/GB",
    ];
    let mut table = Table::new(title, note, &columns);
    for entry in &entries {
        let Some(base) = find(&entries, TCP, entry.congestion) else {
            continue;
        };
        table.rows.push(vec![
            name(entry).into(),
            entry.gbps().into(),
            back(entry).into(),
            entry.gbps().over(&base.gbps()).into(),
            back(entry).over(&back(base)).into(),
            entry.samples(|outcome| outcome.cpu_s_per_gb).into(),
        ]);
    }
    let mut goals = Vec::new();
    for ((way, name), least) in STATED.into_iter().zip([1.85, 1.9, 1.9]) {
        for congestion in congestions(way) {
            for (direction, figure) in [
                ("there", Entry::gbps as fn(&Entry) -> Samples),
                ("back", back),
            ] {
                let what =
                    format!("{title}, {congestion}, {direction}: {name} over TCP on one link");
                let ratio = over(&entries, way, TCP, *congestion, figure);
                goals.push(Goal::new(what, ratio, Bound::AtLeast(least)));
            }
        }
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

/// On 2 links without a line rate.
pub fn unshaped(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::unshaped(); 2]);
    let ways = ALL.into_iter().filter(|way| *way != Way::BalanceRr);
    let ways: Vec<_> = ways.collect();
    let entries = race(settings, &config, &ways, &BOTH, false)?;
    let mut goals = Vec::new();
    for (way, least) in [
        (ENCRYPTED, 0.75),
        (PLAIN, 1.0),
        (LIBRARY, 1.3),
        (LIBRARY_PLAIN, 2.0),
    ] {
        let what = format!("Unshaped, cubic: {way} over MPTCP in the clear");
        let ratio = over(&entries, way, Way::Mptcp, Congestion::Cubic, Entry::gbps);
        goals.push(Goal::new(what, ratio, Bound::AtLeast(least)));
    }
    for (way, most) in [(LIBRARY, 1.2), (LIBRARY_PLAIN, 0.8)] {
        let what = format!("Unshaped: CPU for each GB, {way} over MPTCP in the clear");
        let cpu = |entry: &Entry| entry.samples(|outcome| outcome.cpu_s_per_gb);
        let ratio = over(&entries, way, Way::Mptcp, Congestion::Cubic, cpu);
        goals.push(Goal::new(what, ratio, Bound::AtMost(most)));
    }
    Ok(Report {
        tables: vec![table(UNSHAPED_TITLE, &entries, Way::Mptcp)],
        goals,
        ..Report::default()
    })
}

/// The median of one way's figure over another's.
fn over(
    entries: &[Entry],
    way: Way,
    base: Way,
    congestion: Congestion,
    figure: impl Fn(&Entry) -> Samples,
) -> Option<f64> {
    let of = |way| find(entries, way, congestion).map(&figure);
    of(way)?.over(&of(base)?).median()
}

fn table(title: &str, entries: &[Entry], base: Way) -> Table {
    let ratio = format!("× {base}");
    let columns = ["way", "Gb/s", &ratio, "CPU s/GB", "retransmits"];
    let mut table = Table::new(title, "", &columns);
    for entry in entries {
        let base = find(entries, base, entry.congestion);
        let ratio = base.map(|base| entry.gbps().over(&base.gbps()));
        table.rows.push(vec![
            name(entry).into(),
            entry.gbps().into(),
            ratio.unwrap_or_default().into(),
            entry.samples(|outcome| outcome.cpu_s_per_gb).into(),
            entry.samples(|outcome| outcome.retransmits as f64).into(),
        ]);
    }
    table
}

fn name(entry: &Entry) -> String {
    match entry.entrant.way.is_tcp() {
        false => entry.entrant.to_string(),
        true => format!("{}, {}", entry.entrant, entry.congestion),
    }
}

fn back(entry: &Entry) -> Samples {
    entry.samples(|outcome| outcome.back_gbps)
}
