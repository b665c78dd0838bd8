//! Each cause from made-up facts, and nothing from healthy ones.

mod alike;
mod flows;
mod frames;
mod moments;
mod mpi;
mod names;
mod outside;
mod shared;
mod steering;
mod vnic;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tabane_io::probe::KnockAnswer;

use super::judge;
use crate::doctor::facts::{Device, Facts, Flow, Machine, OwnLink, PathFacts, Pings, Watched};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::StatusReport;

const SECONDS: f64 = 3.0;

fn path(link: u8) -> Value {
    json!({
        "link": link, "local": format!("10.77.{link}.1"),
        "remote": format!("10.77.{link}.2:7577"), "state": "up",
        "since_unix_ms": 0, "since_s": 100, "why": null, "rtt_us": 120,
        "tx_rate_mbps": 0.0, "rx_rate_mbps": 0.0, "capacity_mbps": 940.0,
        "capacity_proven": true, "loss_percent": 0.0, "tx_packets": 1000,
        "tx_bytes": 1_000_000, "tx_lost_packets": 0, "tx_copies_left_out": 0, "rx_packets": 1000,
        "rx_bytes": 1_000_000, "resent_bytes": 0, "mtu_bytes": 1472
    })
}

fn own_link(link: u8) -> Value {
    json!({
        "link": link, "address": format!("10.77.{link}.1:7577"),
        "device": format!("eth{link}"), "up": true,
        "receive_buffer_bytes": 8 << 20, "send_buffer_bytes": 2 << 20,
        "rx_receives": 1000, "rx_datagrams": 1000, "rx_dropped": 0,
        "tx_piecewise": 0, "tx_refused": 0, "icmp_errors": 0
    })
}

fn report() -> StatusReport {
    let value = json!({
        "schema": 1,
        "node": {
            "name": "n0", "version": "0.1.0", "uptime_s": 1000, "wire": "encrypted",
            "limits_hit": {}, "vnic": null, "pid": 7, "busy_us": 1_000_000,
            "links": [own_link(0), own_link(1)]
        },
        "peers": [{
            "name": "n1", "state": "up", "since_unix_ms": 0, "since_s": 100, "why": null,
            "session_age_s": 100, "memory_bytes": 1, "paths": [path(0), path(1)]
        }]
    });
    serde_json::from_value(value).expect("a report")
}

fn device(link: u8) -> Device {
    let on = ["tx-checksum-ipv4", "tx-generic-segmentation", "rx-gro"];
    Device {
        name: format!("eth{link}"),
        index: 2 + u32::from(link),
        mac: Some([2, 0, 0, 0, link, 1]),
        mtu_bytes: 1500,
        up: true,
        carrier: true,
        prefix: 24,
        speed_mbps: Some(1000),
        half_duplex: false,
        physical: true,
        features: Some(on.map(str::to_owned).to_vec()),
        errors: BTreeMap::new(),
    }
}

/// Two links to one peer, all well, idle.
fn healthy() -> Facts {
    let link = |number: u8| OwnLink {
        number,
        address: Some(format!("10.77.{number}.1").parse().expect("an address")),
        device: Some(device(number)),
        ..OwnLink::default()
    };
    let pings = |count| {
        Some(Pings {
            sent: count,
            answered: count,
        })
    };
    let way = |link: u8| PathFacts {
        peer: "n1".to_owned(),
        link,
        remote: format!("10.77.{link}.2:7577").parse().expect("an address"),
        small: pings(150),
        lost_times: None,
        large: pings(5),
        knock: None,
        macs: Some(vec![[2, 0, 0, 0, link, 2]]),
        its_macs: Vec::new(),
        neighbour: Some([2, 0, 0, 0, link, 2]),
        neighbour_failed: false,
        own_device: None,
    };
    Facts {
        seconds: SECONDS,
        daemon: Some(Watched {
            first: report(),
            between: Vec::new(),
            seconds: SECONDS,
            last: report(),
        }),
        node: Some("n0".to_owned()),
        port: 7577,
        links: vec![link(0), link(1)],
        paths: vec![way(0), way(1)],
        machine: Machine {
            clock_read_ns: 30.0,
            wall_unix_s: 1_800_000_000,
            ..Machine::default()
        },
        ..Facts::default()
    }
}

/// A fault.
type Change<'a, T> = &'a dyn Fn(&mut T);

/// Healthy facts with a fault.
fn with(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = healthy();
    change(&mut facts);
    judge(&facts)
}

fn last(facts: &mut Facts) -> &mut StatusReport {
    &mut facts.daemon.as_mut().expect("a daemon").last
}

fn both(facts: &mut Facts, change: impl Fn(&mut StatusReport)) {
    let watched = facts.daemon.as_mut().expect("a daemon");
    change(&mut watched.first);
    change(&mut watched.last);
}

/// The path on link 1 is down, and nothing of the peer arrives there.
fn dead(facts: &mut Facts) {
    both(facts, |r| {
        r.peers[0].paths[1].state = crate::status::PathState::Down
    });
    facts.paths[1].small = Some(Pings {
        sent: 150,
        answered: 0,
    });
    facts.paths[1].large = Some(Pings {
        sent: 5,
        answered: 0,
    });
    facts.paths[1].macs = Some(Vec::new());
    facts.paths[1].knock = Some(KnockAnswer::Silence);
}

#[track_caller]
fn only(found: &[Finding], cause: Cause, severity: Severity) -> &Finding {
    let [finding] = found else {
        panic!("{found:#?}")
    };
    assert_eq!(
        (finding.cause, finding.severity),
        (cause, severity),
        "{found:#?}"
    );
    assert!(
        !finding.evidence.is_empty() && !finding.mend.is_empty(),
        "{found:#?}"
    );
    assert!(!finding.cost.is_empty(), "{found:#?}");
    finding
}

#[test]
fn healthy_facts_give_no_findings() {
    assert_eq!(with(|_| {}), []);
    let busy = with(|facts| {
        let last = last(facts);
        last.node.busy_us += 1_000_000;
        for path in &mut last.peers[0].paths {
            path.tx_packets += 200_000;
            path.tx_lost_packets += 300;
        }
        for link in &mut last.node.links {
            link.rx_datagrams += 200_000;
            link.rx_receives += 10_000;
        }
    });
    assert_eq!(busy, []);
}

#[test]
fn a_dead_link_and_a_dead_peer() {
    let found = with(dead);
    let finding = only(&found, Cause::LinkDead, Severity::Degraded);
    assert_eq!(
        (&finding.links[..], &finding.peers[..]),
        (&[1][..], &["n1".to_owned()][..])
    );
    assert_eq!(finding.cost_share, 0.5);

    let found = with(|facts| {
        dead(facts);
        both(facts, |r| {
            r.peers[0].state = crate::status::PeerState::Down;
            r.peers[0].paths[0].state = crate::status::PathState::Down;
        });
        let dead = facts.paths[1].clone();
        (facts.paths[0].small, facts.paths[0].macs) = (dead.small, dead.macs);
    });
    let finding = only(&found, Cause::LinkDead, Severity::Unreachable);
    assert_eq!(finding.links, [0, 1]);
    assert!(finding.what.contains("on any link"), "{}", finding.what);
}

#[test]
fn a_link_that_is_dead_before_the_daemon_noticed() {
    let found = with(|facts| {
        dead(facts);
        both(facts, |r| {
            r.peers[0].paths[1].state = crate::status::PathState::Up
        });
    });
    assert_eq!(found[0].cause, Cause::LinkDead, "{found:#?}");
    // Whoever answers ARP but no ping does not answer pings: no finding.
    let found = with(|facts| {
        facts.paths[1].small = Some(Pings {
            sent: 150,
            answered: 0,
        })
    });
    assert_eq!(found, []);
}

#[test]
fn what_comes_back_tells_why_a_link_is_silent() {
    let cases: [(Change<Facts>, Cause); 10] = [
        (
            // The other cable: and neighbours answer on any of their NICs.
            &|f| {
                f.paths[1].macs = Some(vec![[2, 0, 0, 0, 1, 2]]);
                let seen = BTreeMap::from([("10.77.1.2".parse().expect("an address"), 9)]);
                f.links[0].arrivals = Some(seen);
            },
            Cause::SwappedLinks,
        ),
        (
            &|f| last(f).peers[0].paths[1].rx_packets += 20,
            Cause::OneWay,
        ),
        (
            &|f| {
                f.paths[1].small = Some(Pings {
                    sent: 150,
                    answered: 150,
                })
            },
            Cause::FirewallThere,
        ),
        (
            &|f| f.paths[1].macs = Some(vec![[2, 0, 0, 0, 1, 2]]),
            Cause::FirewallThere,
        ),
        (
            &|f| f.paths[1].knock = Some(KnockAnswer::Prohibited),
            Cause::FirewallThere,
        ),
        (
            &|f| f.paths[1].knock = Some(KnockAnswer::Closed),
            Cause::FirewallThere,
        ),
        (
            &|f| f.paths[1].knock = Some(KnockAnswer::RefusedHere),
            Cause::FirewallHere,
        ),
        (
            &|f| last(f).node.links[1].tx_refused += 3,
            Cause::FirewallHere,
        ),
        (
            &|f| {
                let seen = BTreeMap::from([("10.77.1.2".parse().expect("an address"), 9)]);
                f.links[1].arrivals = Some(seen);
            },
            Cause::FirewallHere,
        ),
        (
            &|f| {
                let seen = BTreeMap::from([("10.77.1.2".parse().expect("an address"), 9)]);
                f.links[1].arrivals = Some(seen);
                last(f).node.links[1].rx_datagrams += 9;
            },
            Cause::OneWay,
        ),
    ];
    for (index, (change, cause)) in cases.into_iter().enumerate() {
        let found = with(|facts| {
            dead(facts);
            change(facts);
        });
        assert_eq!(found.len(), 1, "{index}: {found:#?}");
        assert_eq!(found[0].cause, cause, "{index}: {found:#?}");
    }
}

#[test]
fn a_peer_without_a_daemon() {
    let found = with(|facts| {
        both(facts, |r| {
            r.peers[0].state = crate::status::PeerState::Connecting;
            r.peers[0]
                .paths
                .iter_mut()
                .for_each(|p| p.state = crate::status::PathState::Down);
        });
        facts
            .paths
            .iter_mut()
            .for_each(|p| p.knock = Some(KnockAnswer::Closed));
    });
    let finding = only(&found, Cause::NoDaemonThere, Severity::Unreachable);
    assert_eq!(finding.links, [0, 1]);
}

#[test]
fn own_interfaces() {
    let cases: [(Change<OwnLink>, Cause); 3] = [
        (&|l| l.device = None, Cause::AddressMissing),
        (
            &|l| l.device.as_mut().expect("one").up = false,
            Cause::LinkOff,
        ),
        (
            &|l| l.device.as_mut().expect("one").carrier = false,
            Cause::NoCarrier,
        ),
    ];
    for (change, cause) in cases {
        let found = with(|facts| {
            dead(facts);
            change(&mut facts.links[1]);
        });
        only(&found, cause, Severity::Degraded);
    }
}

#[test]
fn handshakes_with_another_key() {
    let found = with(|facts| {
        both(facts, |r| {
            r.peers[0].state = crate::status::PeerState::Connecting;
            for path in &mut r.peers[0].paths {
                path.state = crate::status::PathState::Connecting;
            }
        });
        last(facts).node.dropped.insert("stranger".to_owned(), 6);
    });
    let finding = only(&found, Cause::WrongKey, Severity::Unreachable);
    assert_eq!(finding.links, [0, 1]);
}

#[test]
fn refusals_are_explained_once() {
    let refused = |reason: &str, link: u8| {
        json!({
            "address": format!("10.77.{link}.2:7577"), "link": link, "peer": "n1",
            "reason": reason, "text": "why", "count": 3, "first_unix_ms": 0,
            "last_unix_ms": 0, "last_s": 1
        })
    };
    for (reason, cause) in [
        ("wrong_key", Cause::WrongKey),
        ("wrong_identity", Cause::WrongIdentity),
        ("wrong_version", Cause::WrongVersion),
        ("wrong_wire", Cause::WrongWire),
        ("own_name", Cause::NameConflict),
        ("duplicate_name", Cause::NameConflict),
        ("unknown_node", Cause::FilesDiffer),
        ("wrong_link", Cause::SwappedLinks),
    ] {
        let found = with(|facts| {
            both(facts, |r| {
                r.peers[0].state = crate::status::PeerState::Connecting;
                r.peers[0].paths.iter_mut().for_each(|p| {
                    p.state = crate::status::PathState::Connecting;
                });
                let entries = json!([refused(reason, 0), refused(reason, 1)]);
                r.refused = serde_json::from_value(entries).expect("entries");
            });
        });
        let finding = only(&found, cause, Severity::Unreachable);
        assert_eq!(
            (&finding.links[..], finding.evidence.len()),
            (&[0, 1][..], 2)
        );
    }
}

#[test]
fn networks_and_addresses() {
    let found = with(|facts| facts.links[0].heard_on = vec![1]);
    only(&found, Cause::SharedNetwork, Severity::Degraded);
    let found = with(|facts| facts.links[1].device.as_mut().expect("one").prefix = 8);
    only(&found, Cause::SharedNetwork, Severity::Degraded);
    let found = with(|facts| facts.links[1].device.as_mut().expect("one").index = 2);
    only(&found, Cause::SharedNetwork, Severity::Degraded);
    let found = with(|facts| facts.links[1].claimants = vec![[9; 6]]);
    only(&found, Cause::AddressConflict, Severity::Unreachable);
    let found = with(|facts| {
        facts.paths[1].macs = Some(vec![[2, 0, 0, 0, 1, 2], [9; 6]]);
    });
    only(&found, Cause::AddressConflict, Severity::Unreachable);
    let found = with(|facts| {
        dead(facts);
        facts.paths[1].macs = Some(vec![[2, 0, 0, 0, 1, 2]]);
        facts.paths[1].neighbour = Some([9; 6]);
    });
    let finding = only(&found, Cause::WrongNeighbour, Severity::Degraded);
    assert!(
        finding.mend[0].contains("ip neigh del 10.77.1.2 dev eth1"),
        "{found:#?}"
    );
    // One that answers with a NIC that the file does not know, and for its other addresses with both, is none.
    let own = [[2, 0, 0, 0, 1, 2], [9; 6]];
    for known in 1..=2 {
        let found = with(|facts| {
            facts.paths[1].macs = Some(own.to_vec());
            facts.paths[1].its_macs = own[..known].to_vec();
        });
        assert_eq!(found.is_empty(), known == 2, "{found:?}");
    }
    // Nor is one that answers with both its NICs on one network.
    let found = with(|facts| {
        facts.paths[1].macs = Some(vec![[2, 0, 0, 0, 1, 2], [2, 0, 0, 0, 0, 2]]);
    });
    assert_eq!(found, []);
}

#[test]
fn altered_packets() {
    let found = with(|facts| facts.machine.checksum_errors = 1);
    let finding = only(&found, Cause::AlteredPackets, Severity::Slow);
    assert!(finding.evidence[0].contains("the kernel dropped 1 datagram of UDP"));
    let forge = |count| {
        with(move |facts| {
            last(facts).node.dropped.insert("forged".to_owned(), count);
        })
    };
    only(&forge(3), Cause::AlteredPackets, Severity::Slow);
    only(&forge(100_000), Cause::Flood, Severity::Note);
}

#[test]
fn loss() {
    let lose = |sent: u64, lost: u64| {
        with(move |facts| {
            let path = &mut last(facts).peers[0].paths[1];
            path.tx_packets += sent;
            path.tx_lost_packets += lost;
        })
    };
    let found = lose(10_000, 500);
    let finding = only(&found, Cause::LossyLink, Severity::Slow);
    assert_eq!((&finding.links[..], finding.cost_share), (&[1][..], 0.025));
    assert_eq!(lose(10_000, 50), []);
    let late = with(|facts| {
        let path = &mut last(facts).peers[0].paths[1];
        path.tx_packets += 10_000;
        (path.tx_lost_packets, path.tx_late_packets) = (500, 490);
    });
    assert_eq!(late, [], "given up too early is not lost");
    assert_eq!(lose(400, 100), [], "too few to tell; pings tell");
    let ping = |answered| {
        with(move |f| {
            f.paths[1].small = Some(Pings {
                sent: 150,
                answered,
            })
        })
    };
    only(&ping(140), Cause::LossyLink, Severity::Slow);
    assert_eq!(ping(148), []);
}

/// So much was sent on a path while it was watched.
fn carry(facts: &mut Facts, link: usize, mbps: f64) {
    let path = &mut last(facts).peers[0].paths[link];
    path.tx_bytes += (SECONDS * mbps * 1e6 / 8.0) as u64;
    path.tx_packets += 10_000;
}

#[test]
fn speed() {
    let capacity = |mbps: f64, proven: bool| {
        with(move |facts| {
            both(facts, |r| {
                let path = &mut r.peers[0].paths[1];
                (path.capacity_mbps, path.capacity_proven) = (Some(mbps), proven);
            });
            carry(facts, 0, 900.0);
            carry(facts, 1, mbps * 0.95);
        })
    };
    let found = capacity(94.0, true);
    let finding = only(&found, Cause::SlowLink, Severity::Slow);
    assert!(finding.what.contains("94 Mb/s"), "{}", finding.what);
    assert_eq!(capacity(94.0, false), []);
    assert_eq!(capacity(700.0, true), []);
    // So slow that it is given copies only.
    assert_eq!(capacity(9.0, true)[0].cause, Cause::SlowLink);
    let device =
        |change: fn(&mut Device)| with(move |f| change(f.links[1].device.as_mut().expect("one")));
    only(
        &device(|d| d.speed_mbps = Some(100)),
        Cause::SlowLink,
        Severity::Slow,
    );
    assert_eq!(
        device(|d| (d.speed_mbps, d.physical) = (Some(100), false)),
        []
    );
    assert_eq!(device(|d| d.speed_mbps = None), []);
    only(
        &device(|d| d.half_duplex = true),
        Cause::HalfDuplex,
        Severity::Slow,
    );
}

#[test]
fn mtu() {
    let found = with(|facts| {
        facts.links[1].device.as_mut().expect("one").mtu_bytes = 9000;
        facts.paths[1].large = Some(Pings {
            sent: 5,
            answered: 0,
        });
    });
    let finding = only(&found, Cause::Mtu, Severity::Slow);
    assert!(finding.mend[1].contains("mtu 1500"), "{found:#?}");
    let found = with(|facts| {
        both(facts, |r| r.peers[0].paths[1].mtu_bytes = 1372);
        facts.paths[1].large = None;
    });
    let finding = only(&found, Cause::Mtu, Severity::Slow);
    assert!(finding.evidence[0].contains("1400"), "{found:#?}");
    let young = with(|facts| {
        both(facts, |r| {
            (r.peers[0].paths[1].mtu_bytes, r.peers[0].paths[1].since_s) = (1372, 1);
        });
        facts.paths[1].large = None;
    });
    assert_eq!(young, [], "it still searches");
}

#[test]
fn processor_buffers_and_offloads() {
    let found = with(|facts| last(facts).node.busy_us += 2_900_000);
    only(&found, Cause::Cpu, Severity::Slow);
    let starved = with(|facts| {
        last(facts).node.busy_us += 2_900_000;
        facts.machine.daemon_ran_share = Some(0.4);
        facts.machine.daemon_waited_share = Some(0.55);
    });
    let finding = only(&starved, Cause::Cpu, Severity::Slow);
    assert!(finding.what.contains("does not get enough"), "{starved:#?}");
    let waiting = with(|f| {
        f.machine.daemon_waited_share = Some(0.5);
        f.machine.daemon_ran_share = Some(0.1);
        let path = &mut last(f).peers[0].paths[1];
        path.capacity_mbps = Some(400.0);
    });
    only(&waiting, Cause::Cpu, Severity::Note);
    only(
        &with(|f| f.machine.softirq_share_max = 0.9),
        Cause::Cpu,
        Severity::Note,
    );
    only(
        &with(|f| f.machine.stolen_share = 0.3),
        Cause::Cpu,
        Severity::Note,
    );

    let small = |facts: &mut Facts| {
        both(facts, |r| {
            r.node.links[0].receive_buffer_bytes = Some(212_992)
        });
    };
    let found = with(small);
    let finding = only(&found, Cause::Buffers, Severity::Note);
    assert!(
        finding.mend[0].contains("net.core.rmem_max=8388608"),
        "{found:#?}"
    );
    let found = with(|facts| {
        small(facts);
        facts.machine.socket_drops = 40;
    });
    only(&found, Cause::Buffers, Severity::Slow);
    only(
        &with(|f| f.machine.socket_drops = 40),
        Cause::Cpu,
        Severity::Slow,
    );

    let without = |feature: &'static str| {
        with(move |facts| {
            let device = facts.links[1].device.as_mut().expect("one");
            device
                .features
                .as_mut()
                .expect("known")
                .retain(|f| f != feature);
        })
    };
    for feature in ["tx-checksum-ipv4", "tx-generic-segmentation", "rx-gro"] {
        let found = without(feature);
        assert_eq!(only(&found, Cause::Offloads, Severity::Slow).links, [1]);
    }
    only(
        &with(|f| last(f).node.links[0].tx_piecewise += 9),
        Cause::Offloads,
        Severity::Slow,
    );
    let virtual_without_gro = |each: u64| {
        with(move |facts| {
            let device = facts.links[1].device.as_mut().expect("one");
            device.physical = false;
            device
                .features
                .as_mut()
                .expect("known")
                .retain(|f| f != "rx-gro");
            let link = &mut last(facts).node.links[1];
            link.rx_datagrams += 100_000;
            link.rx_receives += 100_000 / each;
        })
    };
    assert_eq!(virtual_without_gro(20), []);
    only(&virtual_without_gro(1), Cause::Offloads, Severity::Slow);
}

/// Of a program that waits for the receiver's window most of the time.
fn window_limited() -> Flow {
    Flow {
        local: "10.99.0.1:5000".parse().expect("an address"),
        remote: "10.99.0.2:5001".parse().expect("an address"),
        busy_s: 3.0,
        window_limited_s: 2.7,
        unread_bytes_min: 0,
        sent_bytes: 1_000_000,
        received_bytes: 0,
    }
}

#[test]
fn programs() {
    let flow = window_limited();
    let watched = |flow: Flow| with(move |facts| facts.flows = vec![flow]);
    only(&watched(flow.clone()), Cause::SlowProgram, Severity::Slow);
    let busy = Flow {
        window_limited_s: 0.3,
        ..flow.clone()
    };
    assert_eq!(watched(busy), []);
    let unread = Flow {
        unread_bytes_min: 1 << 20,
        busy_s: 0.0,
        window_limited_s: 0.0,
        ..flow.clone()
    };
    only(&watched(unread), Cause::SlowProgram, Severity::Slow);
    let full = with(|facts| {
        facts.flows = vec![flow];
        for path in &mut last(facts).peers[0].paths {
            path.tx_bytes += (SECONDS * 930e6 / 8.0) as u64;
        }
    });
    assert_eq!(full, [], "everybody waits for a bundle that is full");
}

/// A connection of `reader`'s that has not been read for so long.
fn unread(reader: &str, pid: u32, since_s: u64) -> Value {
    json!({
        "reader": reader, "pid": pid, "uid": 1000, "command": "sleeper",
        "local": "10.99.0.1:5001", "remote": format!("10.99.0.2:{}", 40_000 + since_s), "peer": "n1",
        "bytes": 262_144, "since_unix_ms": 0, "since_s": since_s
    })
}

#[test]
fn programs_that_do_not_read() {
    let found = |listed: Vec<Value>| {
        let status = json!({
            "connections": listed.len(), "bytes": 1, "longest_s": 1, "of_users": [], "listed": listed
        });
        let status = serde_json::from_value(status).expect("a status");
        with(move |facts| last(facts).node.run.unread = status)
    };
    assert_eq!(found(vec![unread("program", 42, 2)]), []);
    let two = found(vec![unread("program", 42, 40), unread("program", 42, 30)]);
    let finding = only(&two, Cause::UnreadProgram, Severity::Slow);
    assert_eq!(finding.peers, ["n1"]);
    assert_eq!(
        finding.what,
        "Program sleeper (42) has not read from 10.99.0.2:40040 for 40 s"
    );
    assert!(
        finding.evidence[0].starts_with("256 KiB wait here"),
        "{:?}",
        finding.evidence
    );
    assert!(
        finding.evidence[0].contains("2 are not read, and 512 KiB"),
        "{:?}",
        finding.evidence
    );
    let there = found(vec![unread("peer", 42, 40)]);
    let finding = only(&there, Cause::UnreadProgram, Severity::Slow);
    assert!(
        finding.mend[0].starts_with("on n1: `tabane status`"),
        "{:?}",
        finding.mend
    );
    // Of each program one, and not of all.
    let many: Vec<_> = (0..20).map(|pid| unread("program", pid, 40)).collect();
    assert_eq!(found(many).len(), 5);
}

#[test]
fn clocks() {
    only(
        &with(|f| f.machine.clock_read_ns = 1700.0),
        Cause::Clock,
        Severity::Slow,
    );
    only(
        &with(|f| f.machine.wall_jump_s = -3600.0),
        Cause::Clock,
        Severity::Note,
    );
    only(
        &with(|f| f.machine.wall_unix_s = 1000),
        Cause::Clock,
        Severity::Note,
    );
}

#[test]
fn without_a_daemon() {
    let found = with(|facts| {
        facts.daemon = None;
        facts.links[0].port_taken = true;
        facts.file_problems = vec!["c.toml:1: unknown key".to_owned()];
    });
    let causes: Vec<Cause> = found.iter().map(|f| f.cause).collect();
    assert_eq!(
        causes,
        [Cause::NoDaemon, Cause::ClusterFile, Cause::PortTaken]
    );
    let found = with(|facts| {
        facts.daemon = None;
        facts.daemon_trouble = Some("it says nothing".to_owned());
    });
    only(&found, Cause::DaemonSilent, Severity::Unreachable);
}

#[test]
fn the_worst_comes_first() {
    let found = with(|facts| {
        dead(facts);
        facts.machine.wall_jump_s = 9.0;
        facts.paths[0].small = Some(Pings {
            sent: 150,
            answered: 100,
        });
        facts.links[0].claimants = vec![[9; 6]];
    });
    let causes: Vec<Cause> = found.iter().map(|f| f.cause).collect();
    let order = [
        Cause::AddressConflict,
        Cause::LinkDead,
        Cause::LossyLink,
        Cause::Clock,
    ];
    assert_eq!(causes, order);
}
