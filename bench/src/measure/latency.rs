//! Half round trips of small messages.

use std::time::Duration;

use super::two_nodes;
use crate::helper::Pair;
use crate::pingpong::{Latency, MESSAGE_BYTES};
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::{Arena, Way, arenas};
use tabane_lab::{LabError, LinkSpec};

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
    let figures = half_round_trips(settings, &ways)?;
    let title = format!("Half round trip of {MESSAGE_BYTES} bytes, 2 × 1 Gb/s, else idle");
    let columns = ["way", "p50, µs", "p99, µs", "p50 × TCP, one link"];
    let mut table = Table::new(title, "", &columns);
    let base = figures[0].p50_us.clone();
    for Figures {
        way,
        p50_us,
        p99_us,
    } in &figures
    {
        let name = way.to_string();
        let ratio = p50_us.over(&base);
        table.rows.push(vec![
            name.into(),
            p50_us.clone().into(),
            p99_us.clone().into(),
            ratio.into(),
        ]);
    }
    let mut goals = Vec::new();
    for (index, most) in [(1, 1.5), (3, 2.0), (4, 1.1), (5, 0.5)] {
        let ratio = figures[index].p50_us.over(&base).median();
        let what = format!(
            "Half round trip of {MESSAGE_BYTES} bytes, p50: {} over TCP on one link",
            figures[index].way
        );
        goals.push(Goal::new(what, ratio, Bound::AtMost(most)));
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

/// Half round trips on one way, one figure a round.
pub struct Figures {
    /// The way.
    pub way: Way,
    /// Half of them are shorter.
    pub p50_us: Samples,
    /// One in a hundred is longer.
    pub p99_us: Samples,
}

/// Those of [`MESSAGE_BYTES`] bytes on these ways, in turn.
pub fn half_round_trips(settings: &Settings, ways: &[Way]) -> Result<Vec<Figures>, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let arenas = arenas(ways, &config, &settings.tabane)?;
    let new = |arena: &Arena| Figures {
        way: arena.way(),
        p50_us: Samples::default(),
        p99_us: Samples::default(),
    };
    let mut figures: Vec<_> = arenas.iter().map(new).collect();
    for _ in 0..settings.rounds {
        for (arena, figures) in arenas.iter().zip(&mut figures) {
            let lasting = Duration::from_secs_f64(settings.seconds / 2.0);
            let pair = Pair::start(settings, arena, ("ping", "echo"), lasting)?;
            let (latency, ()): (Option<Latency>, ()) = pair.results()?;
            let push = |to: &mut Samples, of: fn(&Latency) -> f64| {
                to.0.push(latency.as_ref().map_or(f64::NAN, of));
            };
            push(&mut figures.p50_us, |latency| latency.p50_us);
            push(&mut figures.p99_us, |latency| latency.p99_us);
        }
    }
    Ok(figures)
}
