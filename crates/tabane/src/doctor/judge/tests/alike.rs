//! Faults that look alike from here, or show in one direction only.

use super::*;
use crate::status::{PathState, PeerState, RefusedStatus};

/// Nothing of n1's daemon is heard or answers, on any link; its machine answers pings.
fn quiet(facts: &mut Facts) {
    both(facts, |report| {
        for path in &mut report.peers[0].paths {
            path.state = PathState::Down;
        }
    });
    for path in &mut facts.paths {
        path.knock = Some(KnockAnswer::Silence);
    }
}

#[test]
fn a_daemon_that_hangs_there_looks_like_a_firewall() {
    let says_so = |found: &[Finding]| {
        let finding = only(found, Cause::FirewallThere, Severity::Degraded);
        let mend = finding.mend.iter().any(|m| m.contains("it hangs"));
        assert_eq!(finding.what.contains("hangs"), mend, "{found:#?}");
        mend
    };
    assert!(says_so(&with(quiet)));
    let new = with(|facts| {
        quiet(facts);
        both(facts, |r| r.peers[0].state = PeerState::Connecting);
    });
    let finding = only(&new, Cause::FirewallThere, Severity::Unreachable);
    assert!(finding.what.contains("does not have this node"), "{new:#?}");
    assert!(
        finding.mend[1].contains("`tabane reload` there"),
        "{new:#?}"
    );
    let heard = with(|facts| {
        quiet(facts);
        last(facts).peers[0].paths[0].rx_packets += 20;
    });
    assert!(!says_so(&heard), "what is heard was sent by it");
    let on_one_link = with(|facts| {
        dead(facts);
        facts.paths[1].macs = Some(vec![[2, 0, 0, 0, 1, 2]]);
    });
    assert!(!says_so(&on_one_link), "the other link works");
    let prohibited = with(|facts| {
        quiet(facts);
        for path in &mut facts.paths {
            path.knock = Some(KnockAnswer::Prohibited);
        }
    });
    assert!(!says_so(&prohibited));
}

#[test]
fn a_daemon_here_that_hangs_still_has_its_device() {
    let silent = |daemon_trouble: Option<&str>| {
        with(|facts| {
            facts.daemon = None;
            facts.daemon_trouble = daemon_trouble.map(str::to_owned);
            facts.file_problems = vec!["f:1: unknown key".to_owned()];
        })
    };
    let causes = |found: Vec<Finding>| {
        found
            .iter()
            .map(|f| (f.cause, f.severity))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        causes(silent(Some("no answer"))),
        [
            (Cause::DaemonSilent, Severity::Unreachable),
            (Cause::ClusterFile, Severity::Note)
        ]
    );
    assert_eq!(
        causes(silent(None)),
        [
            (Cause::NoDaemon, Severity::Unreachable),
            (Cause::ClusterFile, Severity::Unreachable)
        ]
    );
}

#[test]
fn large_pings_that_pass_do_not_hide_a_small_mtu() {
    let small = |since_s: u64, before: u32| {
        with(move |facts| {
            both(facts, |r| {
                let path = &mut r.peers[0].paths[1];
                (path.mtu_bytes, path.since_s) = (1372, since_s);
            });
            let watched = facts.daemon.as_mut().expect("a daemon");
            watched.first.peers[0].paths[1].mtu_bytes = before;
        })
    };
    let found = small(100, 1372);
    let finding = only(&found, Cause::Mtu, Severity::Note);
    assert!(finding.what.contains("UDP above 1400"), "{found:#?}");
    assert_eq!(small(5, 1372), [], "it searches once more");
    assert_eq!(small(100, 1232), [], "it searches now");
}

#[test]
fn loss_where_a_link_only_receives_is_seen_by_pings() {
    let pinged = |answered: u32, received_bytes: u64| {
        with(move |facts| {
            let path = &mut last(facts).peers[0].paths[1];
            path.tx_packets += 10_000;
            path.tx_bytes += 1_000_000;
            path.rx_bytes += received_bytes;
            facts.paths[1].small = Some(Pings {
                sent: 150,
                answered,
            });
        })
    };
    only(&pinged(120, 100_000_000), Cause::LossyLink, Severity::Slow);
    assert_eq!(pinged(145, 100_000_000), [], "its queue is full");
    assert_eq!(pinged(120, 1_000_000), [], "the daemon knows better");
}

#[test]
fn a_quota_of_processor_time() {
    let throttled = |share: f64| with(|facts| facts.machine.daemon_throttled_share = Some(share));
    let found = throttled(0.6);
    let finding = only(&found, Cause::Cpu, Severity::Slow);
    assert!(finding.what.contains("quota"), "{found:#?}");
    assert_eq!(throttled(0.02), []);
}

#[test]
fn a_peers_address_on_this_machine_is_no_firewall() {
    let found = with(|facts| {
        dead(facts);
        let seen = BTreeMap::from([("10.77.1.2".parse().expect("an address"), 20)]);
        facts.links[1].arrivals = Some(seen);
        facts.paths[1].own_device = Some(device(1));
    });
    let finding = only(&found, Cause::AddressConflict, Severity::Unreachable);
    assert_eq!(finding.mend[0], "`ip address del 10.77.1.2/24 dev eth1`");
}

fn refused(peer: Option<&str>, reason: &str, last_s: u64) -> RefusedStatus {
    let value = json!({
        "address": "10.77.1.2:7577", "link": 1, "peer": peer, "reason": reason,
        "text": "not as it should be", "count": 9, "first_unix_ms": 0, "last_unix_ms": 0,
        "last_s": last_s
    });
    serde_json::from_value(value).expect("a refusal")
}

#[test]
fn what_a_flood_says_accuses_nobody() {
    let said = |peer: Option<&str>, reason: &str, flood: u64| {
        let found = with(|facts| {
            last(facts)
                .node
                .dropped
                .insert("stranger".to_owned(), flood);
            last(facts).refused = vec![refused(peer, reason, 1)];
        });
        let of_it = found.into_iter().find(|f| f.cause != Cause::Flood);
        of_it.map(|f| f.severity)
    };
    assert_eq!(said(None, "wrong_version", 9_000), Some(Severity::Note));
    assert_eq!(
        said(Some("n1"), "wrong_version", 9_000),
        Some(Severity::Note)
    );
    assert_eq!(said(None, "wrong_version", 9), Some(Severity::Unreachable));
    assert_eq!(
        said(None, "wrong_link", 9),
        Some(Severity::Note),
        "nobody needs it"
    );
}

#[test]
fn links_that_are_swapped_no_more() {
    let swapped = |last_s: u64, state: PathState| {
        let found = with(|facts| {
            both(facts, |r| {
                r.peers[0].paths[1].state = state;
                r.refused = vec![refused(Some("n1"), "wrong_link", last_s)];
            });
        });
        found.iter().any(|f| f.cause == Cause::SwappedLinks)
    };
    assert!(swapped(0, PathState::Up));
    assert!(swapped(20, PathState::Down));
    assert!(!swapped(20, PathState::Up), "it was mended");
}

#[test]
fn a_nic_that_is_set_to_less_than_the_others() {
    let set = |one: u32, two: u32| {
        with(move |facts| {
            for (link, mtu) in [(0, one), (1, two)] {
                facts.links[link].device.as_mut().expect("one").mtu_bytes = mtu;
            }
            both(facts, |r| {
                for path in &mut r.peers[0].paths {
                    path.mtu_bytes = [one, two][usize::from(path.link)] - 28;
                }
            });
        })
    };
    let found = set(1500, 1300);
    only(&found, Cause::Mtu, Severity::Note);
    assert_eq!(
        set(9000, 1500),
        [],
        "an ordinary network beside one of jumbo frames"
    );
    assert_eq!(set(1400, 1400), [], "the networks are so");
}

#[test]
fn a_flood_is_no_fault_of_this_machine() {
    let flooded = |count: u64| {
        with(|facts| {
            let node = &mut last(facts).node;
            node.dropped.insert("stranger".to_owned(), count);
            (node.links[0].rx_datagrams, node.links[0].rx_receives) = (25_000, 25_000);
            facts.machine.socket_drops = 900;
            let device = facts.links[0].device.as_mut().expect("one");
            (device.physical, device.features) = (
                false,
                Some(vec![
                    "tx-checksum-ipv4".to_owned(),
                    "tx-generic-segmentation".to_owned(),
                ]),
            );
        })
    };
    let found = flooded(24_000);
    let finding = only(&found, Cause::Flood, Severity::Slow);
    assert!(finding.evidence[0].contains("stranger 24000"), "{found:#?}");
    let causes: Vec<Cause> = flooded(40).iter().map(|f| f.cause).collect();
    assert_eq!(causes, [Cause::Cpu, Cause::Offloads]);
}
