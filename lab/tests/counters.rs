//! Devices and switch ports tell what they have carried.

mod common;

use common::*;
use tabane_lab::LabError;

#[test]
fn what_passes_is_counted_at_both_ends_and_at_the_port() {
    let lab = lab();
    assert!(works(&lab, 0));
    let counted = |node| lab.device_counters(node, "eth0").expect("is counted");
    let (sender, receiver) = (counted(0), counted(1));
    let port = lab.port_counters(1).expect("is counted");
    assert_eq!(pings(&lab, 0, 1, 0, 10, 1000), 10);
    let (sent, received) = (counted(0).since(sender), counted(1).since(receiver));
    assert!(
        sent.tx_packets >= 10 && sent.tx_bytes >= 10 * 1000,
        "{sent:?}"
    );
    assert!(
        received.rx_packets >= 10 && received.rx_bytes >= 10 * 1000,
        "{received:?}"
    );
    assert!(sent.rx_packets >= 10, "the answers: {sent:?}");
    let after = lab.port_counters(1).expect("is counted");
    assert!(after.packets >= port.packets + 10, "{after:?}");
    assert_eq!(after.drops, 0);
    let nics = lab.nic_counters(0).expect("are counted");
    assert!(nics.tx_packets >= counted(0).tx_packets);
}

#[test]
fn what_is_not_there_is_said() {
    let lab = lab();
    let error = lab.device_counters(0, "tab7").expect_err("no such device");
    assert!(error.to_string().contains("tab7"), "{error}");
    let error = lab.port_counters(2).expect_err("no such node");
    assert!(matches!(error, LabError::NoSuchNode { .. }), "{error}");
}
