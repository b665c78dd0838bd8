//! What is small or a copy keeps to the window as bulk does: a link that is too slow for it loses next to nothing.

use tabane_sim::net::{Ns, US};
use tabane_sim::run::Passed;
use tabane_sim::small::{Small, mirrored_bulk};
use tabane_sim::workload::UnitKind;

const QUEUE_BYTES: u64 = 256 * 1024;

fn pass(kind: UnitKind, bytes: u32, every: Ns) -> Passed {
    let small = Small {
        kind,
        bytes,
        every,
        mbps: 100,
        queue_bytes: QUEUE_BYTES,
    };
    small
        .pass()
        .unwrap_or_else(|violation| panic!("{small:?}: {violation}"))
}

/// They went out at once, whatever the window: 48% and 22% were lost, and 5 MB were in flight.
#[test]
fn small_units_handed_over_faster_than_the_link_carries_are_not_lost() {
    for (kind, bytes, every) in [
        (UnitKind::Message, 1_000, 25 * US),
        (UnitKind::Message, 1_000, 70 * US),
        (UnitKind::Message, 300, 10 * US),
        (UnitKind::Frame, 1_400, 30 * US),
    ] {
        let stats = pass(kind, bytes, every).network;
        let lost = stats.lost as f64 / stats.sent as f64;
        println!(
            "{kind:?} of {bytes} bytes every {} us: {} sent, {} lost",
            every / US,
            stats.sent,
            stats.lost
        );
        assert!(lost < 0.001, "{kind:?} {bytes} {every}: {stats:?}");
    }
}

/// A link that carries them all is not slower for it.
#[test]
fn small_units_that_the_link_carries_wait_for_nothing() {
    let passed = pass(UnitKind::Message, 1_000, 200 * US);
    assert_eq!(passed.network.lost, 0);
    assert!(
        passed.longest_wait < 1_000 * US,
        "{} ns",
        passed.longest_wait
    );
}

/// Copies never asked: 88% of what the slow link was given was lost.
#[test]
fn copies_of_bulk_do_not_flood_the_slower_link() {
    let stats = mirrored_bulk(&[1000, 100], QUEUE_BYTES)
        .expect("every rule holds")
        .network;
    println!("mirrored bulk: {} sent, {} lost", stats.sent, stats.lost);
    let lost = stats.lost as f64 / stats.sent as f64;
    assert!(lost < 0.002, "{stats:?}");
}
