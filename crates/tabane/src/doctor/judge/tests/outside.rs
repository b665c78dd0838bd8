//! The outside address: each fault is named, with what would be right.

use tabane_io::netlink::{Interface, InterfaceAddress};

use super::*;
use crate::doctor::facts::OutsideFacts;
use crate::status::{GatewayStatus, RouterStatus, StandbyStatus};

fn gateway() -> GatewayStatus {
    GatewayStatus {
        serving: Some("n0".to_owned()),
        addresses: vec!["203.0.113.1".parse().expect("an address")],
        interface: Some("ext0".to_owned()),
        ready: Some(true),
        rate_mbps: Some(1000),
        queue: "fair".to_owned(),
        qdisc: Some("fq_codel".to_owned()),
        qdisc_queued_bytes: Some(3000),
        voters: ["n0", "n1", "n2"].map(str::to_owned).to_vec(),
        standby: vec![StandbyStatus {
            node: "n1".to_owned(),
            ready: true,
        }],
        ..GatewayStatus::default()
    }
}

fn outside() -> OutsideFacts {
    OutsideFacts {
        name: "ext0".to_owned(),
        device: Some(Interface {
            index: 9,
            name: "ext0".to_owned(),
            mac: Some([2, 0, 0, 0, 9, 9]),
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: vec![InterfaceAddress {
                ip: "203.0.113.1".parse().expect("an address"),
                prefix: 24,
            }],
        }),
        speed_mbps: Some(1000),
    }
}

/// A node that serves, with a fault.
fn faulty(change: impl Fn(&mut GatewayStatus, &mut OutsideFacts)) -> Vec<Finding> {
    with(|facts| {
        let (mut status, mut device) = (gateway(), outside());
        change(&mut status, &mut device);
        facts.outside = Some(device);
        both(facts, |report| report.node.gateway = Some(status.clone()));
    })
}

/// The same of one finding: its evidence, and what would be right.
fn said(found: &[Finding], cause: Cause, severity: Severity) -> (String, String) {
    let finding = only(found, cause, severity);
    (finding.evidence.join("; "), finding.mend.join("; "))
}

#[test]
fn nothing_where_all_is_well() {
    assert_eq!(faulty(|_, _| {}), []);
}

#[test]
fn nobody_serves_and_why() {
    let nobody = |change: &dyn Fn(&mut GatewayStatus, &mut OutsideFacts)| {
        let found = faulty(|status, device| {
            (status.serving, status.ready) = (None, Some(false));
            status.standby[0].ready = false;
            change(status, device);
        });
        said(&found, Cause::NoGateway, Severity::Unreachable)
    };
    let device = |device: &mut OutsideFacts| device.device.take().expect("there is one");
    let (seen, mend) = nobody(&|_, outside| drop(device(outside)));
    assert!(seen.contains("there is no device ext0"), "{seen}");
    assert!(
        mend.contains("correct `interface` of `[gateway]`"),
        "{mend}"
    );
    assert!(mend.contains("`tabane doctor` on n1"), "{mend}");
    let (seen, mend) = nobody(&|_, outside| {
        outside.device = Some(Interface {
            up: false,
            ..device(outside)
        });
    });
    assert!(seen.contains("ext0 is switched off") && mend.contains("`ip link set ext0 up`"));
    let (seen, _) = nobody(&|_, outside| {
        outside.device = Some(Interface {
            carrier: false,
            ..device(outside)
        });
    });
    assert!(seen.contains("ext0 has no carrier"), "{seen}");
    for (trouble, right) in [
        (
            "cannot read and write the device outside: Operation not permitted (os error 1)",
            "CAP_NET_ADMIN",
        ),
        (
            "another host at ext0 has 203.0.113.1",
            "take 203.0.113.1 off it",
        ),
        ("cannot make the device: no such file", "journalctl"),
    ] {
        let (seen, mend) = nobody(&|status, _| status.trouble = Some(trouble.to_owned()));
        assert!(
            seen.contains(trouble) && mend.contains(right),
            "{seen} {mend}"
        );
    }
    let (seen, mend) = nobody(&|status, _| {
        status.ready = Some(true);
        status.voters_missing = ["n1", "n2"].map(str::to_owned).to_vec();
    });
    assert!(
        seen.contains("of 3 nodes that vote, n1 and n2 did not"),
        "{seen}"
    );
    assert!(mend.contains("more than half"), "{mend}");
}

/// A node goes on believing in the gateway that it heard of last.
#[test]
fn one_that_served_last_and_is_gone_does_not_serve() {
    let found = with(|facts| {
        both(facts, |report| {
            report.node.gateway = Some(GatewayStatus {
                serving: Some("n9".to_owned()),
                interface: None,
                ready: None,
                ..gateway()
            });
        });
    });
    let (seen, mend) = said(&found, Cause::NoGateway, Severity::Unreachable);
    assert!(
        seen.contains("n9 served last, and is not connected"),
        "{seen}"
    );
    assert!(mend.contains("start tabane on n9"), "{mend}");
}

#[test]
fn nobody_stands_by() {
    let alone = faulty(|status, _| status.standby[0].ready = false);
    let (seen, mend) = said(&alone, Cause::NoStandby, Severity::Degraded);
    assert!(seen.contains("n1 says that it could not serve"), "{seen}");
    assert!(mend.contains("`tabane doctor` on n1"), "{mend}");
    // The one that should.
    let found = faulty(|status, device| {
        status.serving = Some("n1".to_owned());
        (status.standby[0].node, status.standby[0].ready) = ("n0".to_owned(), false);
        status.ready = Some(false);
        device.device = None;
    });
    let (seen, _) = said(&found, Cause::GatewayNotReady, Severity::Degraded);
    assert!(seen.contains("there is no device ext0"), "{seen}");
    // A cluster with one gateway has chosen that.
    assert_eq!(faulty(|status, _| status.standby.clear()), []);
}

#[test]
fn the_line_is_not_as_the_file_says() {
    let found = faulty(|_, device| device.speed_mbps = Some(100));
    let (seen, _) = said(&found, Cause::OutsideSlow, Severity::Slow);
    assert!(
        seen.contains("100 Mb/s, and the file says 1000 Mb/s"),
        "{seen}"
    );
    let found = faulty(|_, device| {
        let device = device.device.as_mut().expect("there is one");
        device.addresses.clear();
    });
    let (seen, _) = said(&found, Cause::OutsideAddressMissing, Severity::Degraded);
    assert!(seen.contains("does not list 203.0.113.1"), "{seen}");
    let found = faulty(|status, _| {
        status.routers = vec![RouterStatus {
            address: "203.0.113.254".parse().expect("an address"),
            answers: Some(false),
        }];
    });
    let (seen, mend) = said(&found, Cause::RouterSilent, Severity::Unreachable);
    assert!(
        seen.contains("203.0.113.254") && mend.contains("`routers`"),
        "{seen} {mend}"
    );
    let found = faulty(|status, _| {
        status.trouble = Some("another host, 02:00:00:00:00:07, has 203.0.113.1".to_owned());
    });
    said(&found, Cause::AddressConflict, Severity::Unreachable);
}

#[test]
fn much_waits_in_the_device() {
    let (seen, mend) = said(
        &faulty(|status, _| status.qdisc_queued_bytes = Some(700_000)),
        Cause::OutsideQueue,
        Severity::Slow,
    );
    assert!(seen.contains("fq_codel held up to 700000 bytes"), "{seen}");
    assert!(mend.contains("something else sends by ext0"), "{mend}");
    let found = faulty(|status, _| {
        (status.qdisc_queued_bytes, status.queue) = (Some(700_000), "kernel".to_owned());
    });
    let (_, mend) = said(&found, Cause::OutsideQueue, Severity::Slow);
    assert!(mend.contains("`queue = \"fair\"`"), "{mend}");
}

#[test]
fn nodes_have_as_many_as_they_may() {
    let found = faulty(|status, _| status.ports_refused = 3);
    let (seen, mend) = said(&found, Cause::OutsideFull, Severity::Note);
    assert!(seen.contains("3 ports refused since"), "{seen}");
    assert!(mend.contains("`ports_per_node`"), "{mend}");
    let found = with(|facts| {
        facts.outside = Some(outside());
        both(facts, |report| report.node.gateway = Some(gateway()));
        let last = last(facts).node.gateway.as_mut().expect("there is one");
        last.dropped.insert("node_full".to_owned(), 7);
    });
    let (seen, _) = said(&found, Cause::OutsideFull, Severity::Degraded);
    assert!(seen.contains("7 packets of them while"), "{seen}");
}

#[test]
fn strangers_flood_it() {
    let found = with(|facts| {
        facts.outside = Some(outside());
        both(facts, |report| {
            let mut gateway = gateway();
            gateway.dropped.insert("greylisted".to_owned(), 5);
            report.node.gateway = Some(gateway);
        });
    });
    let is_it = |finding: &Finding| finding.cause == Cause::OutsideFlood;
    assert!(!found.iter().any(is_it), "it is over");
    let found = with(|facts| {
        facts.outside = Some(outside());
        both(facts, |report| report.node.gateway = Some(gateway()));
        let last = last(facts).node.gateway.as_mut().expect("there is one");
        last.dropped.insert("greylisted".to_owned(), 90_000);
    });
    let (seen, mend) = said(&found, Cause::OutsideFlood, Severity::Degraded);
    assert!(seen.contains("90000 first SYNs dropped"), "{seen}");
    assert!(mend.contains("tcpdump"), "{mend}");
}
