//! Any frames, from the virtual NIC and from peers, in the switch.
use std::net::IpAddr;

use tabane_cluster::mac_of;
use tabane_program::vswitch::{VSwitch, flow_hash};

/// Feeds it `frame`.
pub fn run(frame: &[u8]) {
    let ip = |last: u8| IpAddr::from([10, 99, 0, last]);
    let switch = VSwitch::new(mac_of(ip(1)), ip(1), &[(0, ip(2)), (1, ip(3))]);
    let _ = flow_hash(frame);
    let _ = switch.classify(frame);
    let from_both = switch.accept(frame, 0) && switch.accept(frame, 1);
    assert!(
        !from_both || frame.len() < 24 || frame[16..22] != mac_of(ip(2)),
        "a node speaks as another"
    );
}
