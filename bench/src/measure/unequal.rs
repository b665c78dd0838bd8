//! Links that differ, lose or delay.

use std::time::Duration;

use super::race::{Entry, find, race};
use super::two_nodes;
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

const CUBIC: Congestion = Congestion::Cubic;
const TABANE: Way = Way::Tabane(Wire::Encrypted);

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
    let columns = ["second link", "way", "Gb/s", "× best link", "× sum"];
    let note = "One cubic stream; the first link is of 1 Gb/s, tabane is encrypted. Best and sum are of what TCP carries on one link.";
    let mut table = Table::new("Links that differ, lose or delay", note, &columns);
    let mut goals = Vec::new();
    for (name, other) in others() {
        let entries = entries(settings, other)?;
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
        let (best, sum) = (both(f64::max), both(|a, b| a + b));
        for entry in &entries {
            let (gbps, entrant) = (entry.gbps(), entry.entrant);
            let (to_best, to_sum) = (gbps.over(&best), gbps.over(&sum));
            if entrant.is_own() && entrant.way == TABANE {
                let goal = |what: &str, share: &Samples, least| {
                    let what = format!("1 Gb/s and {name}: tabane over {what}");
                    Goal::new(what, share.median(), Bound::AtLeast(least))
                };
                if name == "250 Mb/s" {
                    goals.push(goal("the sum", &to_sum, 0.93));
                }
                goals.push(goal("the best link alone", &to_best, 0.98));
            }
            table.rows.push(vec![
                name.into(),
                entrant.to_string().into(),
                gbps.into(),
                to_best.into(),
                to_sum.into(),
            ]);
        }
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

fn entries(settings: &Settings, other: LinkSpec) -> Result<Vec<Entry>, LabError> {
    let mut ways = vec![Way::Tcp { link: 0 }];
    // A connection over a link that loses much may not even come about.
    if other.loss_percent == 0.0 {
        ways.push(Way::Tcp { link: 1 });
    }
    ways.extend([Way::Mptcp, TABANE]);
    let config = two_nodes(vec![LinkSpec::default(), other]);
    race(settings, &config, &ways, &[CUBIC], false)
}
