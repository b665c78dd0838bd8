//! What peers cost in memory, by what the allocator gives out: alone in its process, or others' would count.

use cap::Cap;
use std::alloc::System;
use std::time::Duration;
use tabane_sim::peers::{connected, hub_bytes};
use tabane_sim::star::Star;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// A peer that is known and never was there.
const KNOWN_BYTES_MAX: usize = 1 << 10;
/// A bundle over two links that carried something a while ago.
const IDLE_BYTES_MAX: usize = 12 << 10;
const PEERS: usize = 200;

fn bytes(star: Star) -> usize {
    hub_bytes(star, PEERS, Some(|| ALLOCATOR.allocated())).expect("they are counted")
}

#[test]
fn a_peer_that_is_known_or_idle_costs_little() {
    let mut star = Star::new(PEERS, 0);
    star.run(Duration::from_secs(900));
    let known = bytes(star);
    assert!(known <= KNOWN_BYTES_MAX, "{known} bytes");

    let mut star = connected(PEERS);
    for spoke in 1..=PEERS {
        star.message(spoke, &[7; 5000]);
        star.run(Duration::from_millis(3));
    }
    star.run(Duration::from_secs(60));
    let counted = star.hub().memory_bytes() / PEERS;
    let idle = bytes(star);
    assert!(idle <= IDLE_BYTES_MAX, "{idle} bytes");
    // What the node says of itself is true.
    assert!(counted.abs_diff(idle) * 8 < idle, "{counted} of {idle}");
}
