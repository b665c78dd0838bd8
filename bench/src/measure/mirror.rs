//! Small messages of the library, mirrored or not, to and fro across failures.

use std::thread::sleep;
use std::time::Duration;

use super::failover::FAILURES;
use super::two_nodes;
use crate::helper::Pair;
use crate::pingpong::Latency;
use crate::{Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabError, LinkSpec};

const LASTING: Duration = Duration::from_millis(1500);
const FAILS_AFTER: Duration = Duration::from_millis(700);
const TITLE: &str = "Round trips of 16 bytes by the library across a failure, 2 × 1 Gb/s";

/// Each failure, `times` times over all of them, with the mirror and without; and as often no failure.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let note = format!(
        "One message after the other, each answered, {} ms; of each run the longest round trip. {} runs each; \
         the failures are those of the streams, in turn.",
        LASTING.as_millis(),
        settings.times
    );
    let columns = ["what", "p50, µs", "longest, p50, µs", "longest of all, µs"];
    let mut table = Table::new(TITLE, note, &columns);
    for (what, mirror, fails) in [
        ("no failure, mirrored", true, false),
        ("a failure, mirrored", true, true),
        ("a failure, each by one link", false, true),
    ] {
        let (mut usual, mut longest) = (Samples::default(), Samples::default());
        for time in 0..settings.times {
            let failure = fails.then_some(time);
            let latency = once(settings, mirror, failure)?;
            let round_trip = |half_us: fn(&Latency) -> f64| {
                latency
                    .as_ref()
                    .map_or(f64::NAN, |latency| 2.0 * half_us(latency))
            };
            usual.0.push(round_trip(|latency| latency.p50_us));
            longest.0.push(round_trip(|latency| latency.longest_us));
        }
        let of_all = Samples(longest.max().into_iter().collect());
        table.rows.push(vec![
            what.into(),
            usual.into(),
            longest.into(),
            of_all.into(),
        ]);
    }
    Ok(Report {
        tables: vec![table],
        ..Report::default()
    })
}

fn once(
    settings: &Settings,
    mirror: bool,
    failure: Option<usize>,
) -> Result<Option<Latency>, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let way = Way::Library {
        wire: Wire::Encrypted,
        spins: true,
    };
    let arena = Arena::up(way, &config, &settings.tabane)?;
    let options: Vec<_> = mirror.then(|| "--mirror".to_owned()).into_iter().collect();
    let pair = Pair::start_with(settings, &arena, ("ping", "echo"), LASTING, &options)?;
    sleep(FAILS_AFTER);
    if let Some(time) = failure {
        FAILURES[time % FAILURES.len()].begin(&arena)?;
    }
    let (latency, ()): (Option<Latency>, ()) = pair.results()?;
    Ok(latency)
}
