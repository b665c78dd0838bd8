//! Half round trips of small messages.

use std::time::Duration;

use super::two_nodes;
use crate::bench::helper::Pair;
use crate::bench::pingpong::{Latency, MESSAGE_BYTES};
use crate::bench::ways::{Way, arenas};
use crate::bench::{Bound, Goal, Report, Samples, Settings, Table};
use crate::cluster::Wire;
use crate::{LabError, LinkSpec};

/// On 2 links of 1 Gb/s, nothing else going on.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let wire = Wire::Encrypted;
    let ways = [
        Way::Tcp { link: 0 },
        Way::Tabane(wire),
        Way::Tabane(Wire::Plain),
        Way::Run(wire),
        Way::Library { wire, spins: false },
        Way::Library { wire, spins: true },
    ];
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let arenas = arenas(&ways, &config, &settings.tabane)?;
    let mut figures = vec![(Samples::default(), Samples::default()); arenas.len()];
    for _ in 0..settings.rounds {
        for (arena, (p50, p99)) in arenas.iter().zip(&mut figures) {
            let lasting = Duration::from_secs_f64(settings.seconds / 2.0);
            let pair = Pair::start(settings, arena, ("ping", "echo"), lasting)?;
            let (latency, ()): (Option<Latency>, ()) = pair.results()?;
            p50.0
                .push(latency.map_or(f64::NAN, |latency| latency.p50_us));
            p99.0
                .push(latency.map_or(f64::NAN, |latency| latency.p99_us));
        }
    }
    let title = format!("Half round trip of {MESSAGE_BYTES} bytes, 2 × 1 Gb/s, else idle");
    let columns = ["way", "p50, µs", "p99, µs", "p50 × TCP, one link"];
    let mut table = Table::new(title, "", &columns);
    let base = figures[0].0.clone();
    for (arena, (p50, p99)) in arenas.iter().zip(&figures) {
        let name = arena.way().to_string();
        let ratio = p50.over(&base);
        table.rows.push(vec![
            name.into(),
            p50.clone().into(),
            p99.clone().into(),
            ratio.into(),
        ]);
    }
    let mut goals = Vec::new();
    for (index, most) in [(1, 1.5), (3, 2.0), (4, 1.1), (5, 0.5)] {
        let ratio = figures[index].0.over(&base).median();
        let what = format!(
            "Half round trip of {MESSAGE_BYTES} bytes, p50: {} over TCP on one link",
            arenas[index].way()
        );
        goals.push(Goal::new(what, ratio, Bound::AtMost(most)));
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}
