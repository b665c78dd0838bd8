//! Multipath TCP that is not steered.

use super::*;
use crate::status::{MptcpStatus, UnsteeredStatus};

/// What is found of steering, where the daemon says that it does not steer from this address to these peers.
fn found(local: &str, peers: &[&str]) -> Finding {
    let unsteered = UnsteeredStatus {
        local: local.parse().expect("an address"),
        peers: peers.iter().map(|name| (*name).to_owned()).collect(),
        why: "the rule".to_owned(),
        mend: "another one".to_owned(),
    };
    let mut found = with(|facts| {
        last(facts).node.mptcp = Some(MptcpStatus {
            unsteered: vec![unsteered],
            ..MptcpStatus::default()
        });
    });
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn what_is_in_the_way_of_steering_is_named_with_link_and_peer() {
    let finding = found("10.77.1.1", &["n1"]);
    assert_eq!(finding.cause, Cause::NotSteered);
    assert_eq!(
        (finding.links, finding.peers),
        (vec![1], vec!["n1".to_owned()])
    );
    assert_eq!(finding.what, "Multipath TCP on link 1 to n1 is not steered");
    assert_eq!(
        (finding.evidence, finding.mend),
        (vec!["the rule".to_owned()], vec!["another one".to_owned()])
    );
    let finding = found("10.77.9.1", &[]);
    assert!(finding.links.is_empty());
    assert_eq!(
        finding.what,
        "Multipath TCP on 10.77.9.1 to all peers is not steered"
    );
}

#[test]
fn that_nothing_is_steered_is_told() {
    let found =
        with(|facts| last(facts).node.mptcp_trouble = Some("it is switched off".to_owned()));
    let [finding] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (finding.cause, &finding.evidence[0][..]),
        (Cause::NotSteered, "it is switched off")
    );
}
