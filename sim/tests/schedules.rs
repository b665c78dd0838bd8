//! A small set of random fault schedules; `make test` runs ten thousand.

use tabane_sim::{Options, Schedule, run, runner};

#[test]
fn schedules_pass() {
    let tally = runner::run_seeds(0..300, 2, |_, _| {}, |_| {});
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
