//! One stream on several ways, in turn.

use crate::iperf::{self, Load, Outcome};
use crate::{Samples, Settings, streams};
use tabane_lab::LabConfig;
use tabane_lab::LabError;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::{Arena, Way, arenas};

/// One contestant and its figures, one a round.
pub struct Entry {
    pub way: Way,
    pub congestion: Congestion,
    outcomes: Vec<Outcome>,
}

impl Entry {
    /// One figure of every round.
    pub fn samples(&self, of: impl Fn(&Outcome) -> f64) -> Samples {
        Samples(self.outcomes.iter().map(of).collect())
    }

    /// Its rate from node 0 to node 1, Gb/s.
    pub fn gbps(&self) -> Samples {
        self.samples(|outcome| outcome.gbps)
    }
}

/// Every way with every congestion control, on labs of the same kind. A run
/// that fails is told and counts as 0 Gb/s.
pub fn race(
    settings: &Settings,
    config: &LabConfig,
    ways: &[Way],
    congestions: &[Congestion],
    both_ways: bool,
) -> Result<Vec<Entry>, LabError> {
    let arenas = arenas(ways, config, &settings.tabane)?;
    let mut entries = Vec::new();
    for arena in &arenas {
        let way = arena.way();
        // There is no TCP whose congestion control could be chosen.
        let count = if way.is_tcp() { congestions.len() } else { 1 };
        for &congestion in &congestions[..count] {
            let outcomes = Vec::new();
            entries.push((
                arena,
                Entry {
                    way,
                    congestion,
                    outcomes,
                },
            ));
        }
    }
    for _ in 0..settings.rounds {
        for (arena, entry) in &mut entries {
            let load = Load {
                seconds: settings.seconds,
                omit_s: 1.0,
                congestion: Some(entry.congestion),
                both_ways,
            };
            entry.outcomes.push(outcome(settings, arena, load)?);
        }
    }
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Run one stream once, by iperf3 where there is TCP. If that fails it is told and counts as 0 Gb/s.
pub fn outcome(settings: &Settings, arena: &Arena, load: Load) -> Result<Outcome, LabError> {
    let outcome = match arena.way().is_tcp() {
        true => iperf::run(arena, load),
        false => streams::run(settings, arena, load),
    };
    outcome.or_else(|error| match error {
        LabError::MissingTool { .. } => Err(error),
        error => {
            eprintln!("bench: counted as 0: {error}");
            Ok(Outcome::default())
        }
    })
}

/// The entry of this way with this congestion control.
pub fn find(entries: &[Entry], way: Way, congestion: Congestion) -> Option<&Entry> {
    entries
        .iter()
        .find(|entry| entry.way == way && entry.congestion == congestion)
}
