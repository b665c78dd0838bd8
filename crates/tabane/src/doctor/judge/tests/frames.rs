//! Frames of the virtual NIC that go nowhere.

use super::*;

/// A limit of the virtual NIC was hit so often, before and meanwhile.
fn hit(facts: &mut Facts, limit: &str, before: u64, meanwhile: u64) {
    both(facts, |report| {
        report.node.limits_hit.insert(limit.to_owned(), before);
        let vnic = json!({
            "name": "tab0", "address": "10.99.0.1/24", "mtu_bytes": 1500, "backend": "veth",
        });
        report.node.vnic = serde_json::from_value(vnic).expect("a virtual NIC");
    });
    let hits = &mut last(facts).node.limits_hit;
    hits.insert(limit.to_owned(), before + meanwhile);
}

#[test]
fn what_others_send_over_the_virtual_nic_is_told() {
    let limit = "vnic_dropped_foreign_source";
    let found = with(|facts| hit(facts, limit, 5, 3));
    let finding = only(&found, Cause::ForeignMac, Severity::Note);
    assert!(finding.evidence[0].contains("3 frames"), "{finding:?}");
    assert_eq!(with(|facts| hit(facts, limit, 5, 0)), []);
}

#[test]
fn packets_beyond_the_mtu_are_told() {
    let limit = "vnic_refused_too_long";
    let found = with(|facts| hit(facts, limit, 0, 1));
    let finding = only(&found, Cause::VnicMtu, Severity::Slow);
    assert!(finding.what.contains("1500"), "{finding:?}");
    assert_eq!(with(|facts| hit(facts, limit, 1, 0)), []);
}
