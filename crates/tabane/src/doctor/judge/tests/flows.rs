//! What a `[[flow]]` holds back is told, and no fault.

use super::*;
use crate::status::FlowStatus;

/// So many bytes a second went of traffic with this rate.
fn sent(facts: &mut Facts, rate_bps: Option<u64>, bytes_per_s: u64) {
    let flow = |bytes| FlowStatus {
        which: "tcp port 873".to_owned(),
        how: "at most 200mbit".to_owned(),
        link: None,
        rate_bps,
        bytes,
        connections: 0,
        packets_dropped: 0,
    };
    let bytes = (bytes_per_s as f64 * facts.seconds) as u64;
    let daemon = facts.daemon.as_mut().expect("runs");
    daemon.first.node.flows = vec![flow(1000)];
    daemon.last.node.flows = vec![flow(1000 + bytes)];
}

#[test]
fn traffic_at_its_rate_is_told() {
    let found = with(|facts| sent(facts, Some(200_000_000), 25_000_000));
    let finding = only(&found, Cause::FlowRate, Severity::Note);
    assert!(
        finding.what.contains("tcp port 873") && finding.what.contains("at most 200mbit"),
        "{finding:#?}"
    );
    assert!(finding.evidence[0].contains("200.0 Mb/s"), "{finding:#?}");
}

#[test]
fn traffic_below_its_rate_or_without_one_is_not() {
    assert_eq!(with(|facts| sent(facts, Some(200_000_000), 20_000_000)), []);
    assert_eq!(with(|facts| sent(facts, None, 25_000_000)), []);
}
