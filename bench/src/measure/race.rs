//! One stream on several ways, in turn.

use crate::iperf::{self, Load, Outcome};
use crate::{Entrant, Samples, Settings, Stand, streams};
use tabane_lab::LabConfig;
use tabane_lab::LabError;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Way;

/// One contestant and its figures, one a round.
pub struct Entry {
    pub entrant: Entrant,
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
    let stands = settings.stands(ways, config)?;
    let mut entries = Vec::new();
    for stand in &stands {
        // There is no TCP whose congestion control could be chosen.
        let count = if stand.way().is_tcp() {
            congestions.len()
        } else {
            1
        };
        for &congestion in &congestions[..count] {
            let entry = Entry {
                entrant: stand.entrant,
                congestion,
                outcomes: Vec::new(),
            };
            entries.push((stand, entry));
        }
    }
    for _ in 0..settings.rounds {
        for (stand, entry) in &mut entries {
            let load = Load {
                seconds: settings.seconds,
                omit_s: 1.0,
                congestion: Some(entry.congestion),
                both_ways,
            };
            entry.outcomes.push(outcome(stand, load)?);
        }
    }
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Run one stream once, by iperf3 where there is TCP. If that fails it is told and counts as 0 Gb/s.
pub fn outcome(stand: &Stand, load: Load) -> Result<Outcome, LabError> {
    let outcome = match stand.way().is_tcp() {
        true => iperf::run(stand, load),
        false => streams::run(stand, load),
    };
    outcome.or_else(|error| match error {
        LabError::MissingTool { .. } => Err(error),
        error => {
            eprintln!("bench: counted as 0: {error}");
            Ok(Outcome::default())
        }
    })
}

/// The entry of this way, of the own build, with this congestion control.
pub fn find(entries: &[Entry], way: Way, congestion: Congestion) -> Option<&Entry> {
    entries.iter().find(|entry| {
        entry.entrant.is_own() && entry.entrant.way == way && entry.congestion == congestion
    })
}
