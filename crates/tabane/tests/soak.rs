//! A minute of the long run (`make soak-lab`): random faults under unmodified
//! programs, judged against what really struck.

mod common;

use std::time::Duration;

use tabane_bench::soak::{Settings, soak};

#[test]
fn programs_survive_a_minute_of_random_faults() {
    let settings = Settings {
        tabane: common::tabane().to_path_buf(),
        nodes: 3,
        links: 2,
        mbit: 200,
        seed: 2,
        length: Duration::from_secs(50),
        pause: Duration::from_secs(3),
        busy: false,
        talk: false,
    };
    let outcome = soak(&settings).expect("the lab does its part");
    let daemons = outcome.statuses.join("\n");
    assert!(
        outcome.failures.is_empty(),
        "{outcome}\n{}\n{daemons}",
        outcome.timeline
    );
    // A path whose packets wait for a processor so long is silent: by that alone
    // a machine busy with other things proves nothing.
    const STALLED: Duration = Duration::from_millis(15);
    assert!(
        outcome.false_failures.is_empty() || outcome.longest_stall > STALLED,
        "{outcome}\n{}",
        outcome.timeline
    );
    for program in ["iperf3", "rsync", "redis-benchmark", "redis check"] {
        let count = outcome.counts.get(program);
        assert!(count.is_some_and(|count| count.done > 0), "{outcome}");
    }
}
