//! What is mirrored does not feel a failure.

use tabane_proto::op::Policy;
use tabane_sim::mirrored::Mirrored;
use tabane_sim::net::{MS, Ns};

const RTT: Ns = MS / 5;
const SEEDS: u64 = 20;

fn longest_wait(seed: u64, policy: Policy) -> Ns {
    let mirrored = Mirrored {
        seed,
        failures: 50,
        rtt: RTT,
        every: MS,
        policy,
    };
    let wait = mirrored.longest_wait();
    wait.unwrap_or_else(|violation| panic!("{mirrored:?}: {violation}"))
}

/// 1000 failures: whichever link dies, and however, no message takes longer than a round trip.
#[test]
fn whichever_link_dies_no_message_is_late() {
    for seed in 0..SEEDS {
        let wait = longest_wait(seed, Policy::Mirror);
        assert!(wait <= RTT, "seed {seed}: {wait} ns");
    }
}

/// The same messages by one link each do feel it: else the failures were none.
#[test]
fn without_a_mirror_some_are_late() {
    let wait = longest_wait(0, Policy::Stripe);
    assert!(wait > 10 * RTT, "{wait} ns");
}
