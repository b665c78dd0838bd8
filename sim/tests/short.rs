//! Processes that get little processor time.

use tabane_sim::net::MS;
use tabane_sim::processor::Shortage;
use tabane_sim::short::Pair;
use tabane_sim::snapshot::Traffic;

/// What the sender left in the queue of one link came while it waited for its processor, and passed for a sign that it
/// could have answered on the other one: the receiver declared that one failed.
#[test]
fn waiting_for_the_processor_fails_no_link() {
    for (seed, begins) in [(3, 300 * MS), (8, 0), (1, 0), (2, 0)] {
        for short in [[true, false], [false, true], [true, true]] {
            let pair = Pair {
                seed,
                mbps: 100,
                short,
                shortage: Shortage {
                    runs_ns: 0,
                    waits_min_ns: 5 * MS,
                    waits_max_ns: 80 * MS,
                },
                begins,
                ends: 1000 * MS,
            };
            let carried = pair.carries(Traffic::Frames);
            let carried = carried.unwrap_or_else(|violation| panic!("{pair:?}: {violation}"));
            assert!(carried > 0, "{pair:?}");
        }
    }
}
