//! A small set of random fault schedules; `make test` runs ten thousand.

use std::ops::Range;

use tabane_sim::{Options, Schedule, Size, run, runner};

#[test]
fn schedules_pass() {
    all_pass(0..300, Size::default());
}

/// Everybody has a bundle with everybody: what is wrong only where there are many shows here.
#[test]
fn schedules_of_64_hosts_pass() {
    let hosts = Some(64);
    all_pass(
        0..2,
        Size {
            hosts,
            ..Size::default()
        },
    );
}

/// Room, credit and turns are shared out among many here.
#[test]
fn schedules_of_3000_streams_pass() {
    let streams = 3000;
    all_pass(
        0..2,
        Size {
            streams,
            ..Size::default()
        },
    );
}

fn all_pass(seeds: Range<u64>, size: Size) {
    let tally = runner::run_seeds(seeds, 2, size, |_, _| {}, |_| {});
    let failed: Vec<String> = tally
        .failed
        .iter()
        .map(|(seed, what)| {
            let replay = runner::how_to_replay(*seed, size);
            format!("seed {seed}: {what}\n  {replay}")
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_seed_replays_exactly_and_another_seed_is_another_run() {
    let digest = |seed| run(&Schedule::draw(seed), &Options::default()).digest;
    for seed in 0..20 {
        assert_eq!(digest(seed), digest(seed));
    }
    assert_ne!(digest(1), digest(2));
}
