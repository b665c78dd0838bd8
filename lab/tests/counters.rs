//! Switch ports tell what they have carried.

mod common;

use common::*;
use tabane_lab::LabError;

#[test]
fn what_passes_is_counted_at_the_port() {
    let lab = lab();
    assert!(works(&lab, 0));
    let before = lab.port_counters(1).expect("is counted");
    assert_eq!(pings(&lab, 0, 1, 0, 10, 1000), 10);
    let after = lab.port_counters(1).expect("is counted");
    assert!(after.packets >= before.packets + 10, "{after:?}");
    assert_eq!(after.drops, 0);
}

#[test]
fn what_is_not_there_is_said() {
    let error = lab().port_counters(2).expect_err("no such node");
    assert!(matches!(error, LabError::NoSuchNode { .. }), "{error}");
}
