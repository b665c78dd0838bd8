//! Packets for the virtual NIC that go elsewhere, or do not arrive.

use tabane_io::netlink::{Interface, InterfaceAddress};

use super::*;
use crate::doctor::facts::{Leaves, VnicFacts, VnicWay};

/// With `tab0`, and this way to n1.
fn with_way(change: impl Fn(&mut VnicWay, &mut Facts)) -> Vec<Finding> {
    with(|facts| {
        facts.vnic = Some(VnicFacts {
            name: "tab0".to_owned(),
            address: "10.99.0.1/24".to_owned(),
            device: Some(Interface {
                index: 7,
                name: "tab0".to_owned(),
                mac: None,
                mtu: 62_000,
                up: true,
                carrier: true,
                addresses: vec![InterfaceAddress {
                    ip: "10.99.0.1".parse().expect("an address"),
                    prefix: 24,
                }],
            }),
        });
        let pings = Pings {
            sent: 5,
            answered: 5,
        };
        let mut way = VnicWay {
            peer: "n1".to_owned(),
            address: "10.99.0.2".parse().expect("an address"),
            leaves: Leaves::By("tab0".to_owned()),
            pings: Some(pings),
            is_forbidden: false,
        };
        change(&mut way, facts);
        facts.vnic_ways = vec![way];
    })
}

fn unanswered(way: &mut VnicWay) {
    way.pings = Some(Pings {
        sent: 5,
        answered: 0,
    });
}

#[test]
fn a_way_that_is_right_is_no_finding() {
    assert!(with_way(|_, _| {}).is_empty());
    let no_pings = with_way(|way, _| way.pings = None);
    assert!(
        no_pings.is_empty(),
        "pinging is not permitted: {no_pings:?}"
    );
}

#[test]
fn packets_that_go_past_the_bundle() {
    let found = with_way(|way, _| {
        (way.leaves, way.pings) = (Leaves::By("eth0".to_owned()), None);
    });
    let finding = only(&found, Cause::VnicRoute, Severity::Degraded);
    assert!(finding.evidence[0].contains("10.99.0.2 (n1) out by eth0"));
    assert!(finding.mend[0].contains("ip route get 10.99.0.2"));
    let found = with_way(|way, _| {
        let why = "Network is unreachable".to_owned();
        (way.leaves, way.pings) = (Leaves::Nowhere(why), None);
    });
    let finding = only(&found, Cause::VnicRoute, Severity::Unreachable);
    assert!(finding.evidence[0].contains("Network is unreachable"));
}

#[test]
fn a_firewall_drops_what_goes_over_the_bundle() {
    let found = with_way(|way, _| unanswered(way));
    let finding = only(&found, Cause::VnicFirewall, Severity::Degraded);
    assert!(finding.evidence[0].contains("none of 5 at 10.99.0.2"));
    let found = with_way(|way, _| {
        way.pings = Some(Pings::default());
        way.is_forbidden = true;
    });
    let finding = only(&found, Cause::VnicFirewall, Severity::Degraded);
    assert!(finding.evidence[0].contains("does not let pings"));
}

#[test]
fn who_answers_no_pings_at_all_is_not_suspected() {
    let found = with_way(|way, facts| {
        unanswered(way);
        for path in &mut facts.paths {
            path.small = None;
        }
    });
    assert!(!found.iter().any(|it| it.cause == Cause::VnicFirewall));
}
