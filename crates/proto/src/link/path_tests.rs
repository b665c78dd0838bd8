//! A path as its bundle uses it, over toy links.

use super::toy::{Toy, Wire, ms, us};
use super::{PathEvent, PathState};
use crate::wire::Witness;

/// Bulk from end 0 over one link for a second: bytes that arrived and the longest queue.
fn bulk(wire: Wire, warm_ms: u64, run_ms: u64) -> (f64, core::time::Duration) {
    let mut toy = Toy::new(&[wire], 1);
    toy.run_for(ms(300));
    toy.ends[0].backlog = u64::MAX;
    toy.run_for(ms(warm_ms));
    let before = toy.ends[1].got_bytes;
    toy.wires[0][0].queue_max = core::time::Duration::ZERO;
    toy.run_for(ms(run_ms));
    let got = (toy.ends[1].got_bytes - before) as f64;
    let possible = toy.wires[0][0].bytes_per_s * run_ms as f64 / 1e3 * (1430.0 / 1538.0);
    (got / possible, toy.wires[0][0].queue_max)
}

#[test]
fn fills_links_of_every_kind_with_a_short_queue() {
    for (mbit, delay) in [
        (10.0, us(100)),
        (100.0, us(50)),
        (1000.0, us(15)),
        (1000.0, us(100)),
        (1000.0, ms(5)),
        (100.0, ms(50)),
        (10_000.0, us(30)),
        (40_000.0, us(15)),
    ] {
        let run = if delay > ms(1) { 2000 } else { 500 };
        let (share, queue) = bulk(Wire::new(mbit, delay), run, run);
        println!("{mbit} Mb/s {delay:?}: {share:.3} queue {queue:?}");
        assert!(share > 0.95, "{mbit} Mb/s {delay:?}: {share}");
    }
}

#[test]
fn silent_failure_is_found_and_healed() {
    let mut toy = Toy::new(&[Wire::new(1000.0, us(50)), Wire::new(1000.0, us(50))], 2);
    toy.run_for(ms(300));
    assert_eq!(toy.state(0, 0), PathState::Up);
    toy.ends[0].backlog = u64::MAX;
    toy.run_for(ms(500));
    toy.ends[1].longest_gap = ms(0);
    let at = toy.now;
    toy.both(1, |w| w.silent = true);
    let found = toy.run_until(at + ms(500), |t| {
        t.state(0, 1) == PathState::Down && t.state(1, 1) == PathState::Down
    });
    println!(
        "found after {:?}: {:?} {:?}",
        toy.now - at,
        toy.ends[0].events,
        toy.ends[1].events
    );
    assert!(found);
    assert!(toy.now - at < ms(25));
    toy.run_for(ms(1000));
    let at = toy.now;
    toy.both(1, |w| w.silent = false);
    let back = toy.run_until(at + ms(2000), |t| {
        t.state(0, 1) == PathState::Up && t.state(1, 1) == PathState::Up
    });
    println!(
        "back after {:?}, longest gap {:?}",
        toy.now - at,
        toy.ends[1].longest_gap
    );
    assert!(back && toy.now - at < ms(400));
    let downs = toy.ends[0]
        .events
        .iter()
        .filter(|e| matches!(e.1, PathEvent::Down { .. }))
        .count();
    assert_eq!(downs, 1);
    let _ = Witness::Peer;
}
