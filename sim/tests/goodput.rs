//! The goodput table is what it was. After a wanted change of the protocol:
//! `sim snapshot --write`.

use tabane_sim::snapshot;

#[test]
fn goodput_is_as_in_the_snapshot() {
    let written = std::fs::read_to_string(snapshot::path()).expect("sim/snapshots/goodput.txt");
    let now = snapshot::table(2);
    assert!(written == now, "goodput has changed; it is now\n{now}");
}
