//! Links that differ, lose or delay.

use std::time::Duration;

use super::race::{find, race};
use super::two_nodes;
use crate::{Bound, Cell, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

const CUBIC: Congestion = Congestion::Cubic;

/// The link beside one of 1 Gb/s.
fn others() -> Vec<(&'static str, LinkSpec)> {
    let lossy = |loss_percent| LinkSpec {
        loss_percent,
        ..LinkSpec::default()
    };
    let slow = LinkSpec {
        delay: Duration::from_millis(5),
        ..LinkSpec::default()
    };
    vec![
        ("250 Mb/s", LinkSpec::mbit(250)),
        ("10 Mb/s", LinkSpec::mbit(10)),
        ("1 Gb/s, 5% lost", lossy(5.0)),
        ("1 Gb/s, 30% lost", lossy(30.0)),
        ("1 Gb/s, 5 ms more", slow),
    ]
}

/// Each beside one link of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let columns = [
        "1 Gb/s and",
        "TCP, that link, Gb/s",
        "TCP, best link",
        "MPTCP",
        "tabane",
        "tabane × best link",
        "tabane × sum",
    ];
    let note = "One cubic stream; tabane is encrypted.";
    let mut table = Table::new("Links that differ, lose or delay", note, &columns);
    let mut goals = Vec::new();
    for (name, other) in others() {
        let row = one(settings, other)?;
        let ratio = row.tabane.over(&row.best);
        let to_sum = row.tabane.over(&row.sum);
        if name == "250 Mb/s" {
            let what = format!("1 Gb/s and {name}: tabane over the sum");
            goals.push(Goal::new(what, to_sum.median(), Bound::AtLeast(0.93)));
        }
        let what = format!("1 Gb/s and {name}: tabane over the best link alone");
        goals.push(Goal::new(what, ratio.median(), Bound::AtLeast(0.98)));
        let cells = [row.other, row.best, row.mptcp, row.tabane, ratio, to_sum];
        let mut row = vec![name.into()];
        row.extend(cells.map(Cell::from));
        table.rows.push(row);
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

struct Row {
    other: Samples,
    best: Samples,
    sum: Samples,
    mptcp: Samples,
    tabane: Samples,
}

fn one(settings: &Settings, other: LinkSpec) -> Result<Row, LabError> {
    let tabane = Way::Tabane(Wire::Encrypted);
    let mut ways = vec![Way::Tcp { link: 0 }, Way::Mptcp, tabane];
    // A connection over a link that loses much may not even come about.
    if other.loss_percent == 0.0 {
        ways.push(Way::Tcp { link: 1 });
    }
    let config = two_nodes(vec![LinkSpec::default(), other]);
    let entries = race(settings, &config, &ways, &[CUBIC], false)?;
    let of = |way| find(&entries, way, CUBIC).map(|entry| entry.gbps());
    let first = of(Way::Tcp { link: 0 }).unwrap_or_default();
    let second = of(Way::Tcp { link: 1 });
    let both = |join: fn(f64, f64) -> f64| match &second {
        None => first.clone(),
        Some(second) => {
            let pairs = first.0.iter().zip(&second.0);
            Samples(pairs.map(|(&a, &b)| join(a, b)).collect())
        }
    };
    Ok(Row {
        best: both(f64::max),
        sum: both(|a, b| a + b),
        other: second.clone().unwrap_or_default(),
        mptcp: of(Way::Mptcp).unwrap_or_default(),
        tabane: of(tabane).unwrap_or_default(),
    })
}
