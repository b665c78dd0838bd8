//! A small set of random fault schedules; `make test` runs ten thousand.

use tabane_sim::{Options, Schedule, Size, run, runner};

#[test]
fn schedules_pass() {
    assert_all_pass(runner::run_seeds(
        0..300,
        2,
        Schedule::draw,
        |_, _| {},
        |_| {},
    ));
}

/// Everybody has a bundle with everybody: what is wrong only where there are many shows here.
#[test]
fn schedules_of_64_hosts_pass() {
    let size = Size {
        hosts: Some(64),
        streams: 0,
    };
    let draw = |seed| Schedule::draw_sized(seed, size);
    assert_all_pass(runner::run_seeds(0..2, 2, draw, |_, _| {}, |_| {}));
}

/// Room, credit and turns are shared out among many here.
#[test]
fn schedules_of_3000_streams_pass() {
    let size = Size {
        hosts: None,
        streams: 3000,
    };
    let draw = |seed| Schedule::draw_sized(seed, size);
    assert_all_pass(runner::run_seeds(0..2, 2, draw, |_, _| {}, |_| {}));
}

fn assert_all_pass(tally: runner::Tally) {
    let failed: Vec<String> = tally
        .failed
        .iter()
        .map(|(seed, what)| format!("seed {seed}: {what}\n  replay: sim replay {seed} --trace"))
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
