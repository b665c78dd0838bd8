//! Processes that get little processor time: the links are sound, and thought to be.

use tabane_sim::bulk::Traffic;
use tabane_sim::net::MS;
use tabane_sim::processor::Shortage;
use tabane_sim::short::Pair;

/// What a stream gets, in Mb/s, over two links of 1 Gb/s between processes that run for 3 ms and then wait for 5 ms to
/// so many: the mean of several seeds, as one alone is a matter of when they wait at first.
fn carries_mbps(short: [bool; 2], waits_max_ms: u64) -> f64 {
    const SEEDS: u64 = 4;
    let carried = (1..=SEEDS).map(|seed| carries_of(seed, short, waits_max_ms));
    carried.sum::<f64>() / SEEDS as f64
}

fn carries_of(seed: u64, short: [bool; 2], waits_max_ms: u64) -> f64 {
    let pair = Pair {
        seed,
        mbps: 1000,
        short,
        shortage: Shortage {
            runs_ns: 3 * MS,
            waits_min_ns: 5 * MS,
            waits_max_ns: waits_max_ms * MS,
        },
        begins: 0,
        ends: 1500 * MS,
    };
    let carried = pair.carries(Traffic::Stream);
    let bytes = carried.unwrap_or_else(|violation| panic!("{pair:?}: {violation}"));
    bytes as f64 * 8e-6 / 1.5
}

/// One window for each wait passed for what the links can do, and the next window was smaller: 200 to 900 Mb/s.
#[test]
fn waiting_for_the_processor_is_no_slow_link() {
    for short in [[true, false], [false, true], [true, true]] {
        for (waits_max_ms, mbps_min) in [(30, 1300.0), (80, 600.0)] {
            let mbps = carries_mbps(short, waits_max_ms);
            assert!(mbps > mbps_min, "{short:?} {waits_max_ms}: {mbps}");
        }
    }
}

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

/// Round trips that were spent waiting for the processor ended the start-up of the far link early, and what it was
/// tried with from then on was too little to show that it can do more: it was never used.
#[test]
fn a_far_link_is_used_however_slowly_it_began() {
    for seed in [0, 4, 9, 13] {
        let pair = Pair {
            seed,
            mbps: 1000,
            short: [true, true],
            shortage: Shortage {
                runs_ns: 3 * MS,
                waits_min_ns: 0,
                waits_max_ns: 3 * MS,
            },
            begins: 0,
            ends: 900 * MS,
        };
        let carried = pair.carries_farther(Traffic::Stream, 20 * MS, 800 * MS);
        let bytes = carried.unwrap_or_else(|violation| panic!("{pair:?}: {violation}"));
        let of_one_link = bytes as f64 * 8.0 / 0.1 / 1e9;
        assert!(of_one_link > 1.6, "{of_one_link}: {pair:?}");
    }
}
