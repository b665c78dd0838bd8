//! What is true of one moment only accuses nobody.

use super::*;

/// What the daemon thought of link 1 meanwhile, one reading after the other.
fn thought(facts: &mut Facts, capacities: &[f64]) {
    let watched = facts.daemon.as_mut().expect("a daemon");
    let reading = |mbps: &f64| {
        let mut report = watched.last.clone();
        report.peers[0].paths[1].capacity_mbps = Some(*mbps);
        report
    };
    watched.between = capacities.iter().map(reading).collect();
}

#[test]
fn a_momentary_estimate_accuses_nobody() {
    // Two links of 20 Mb/s; tokens that were saved up pass for speed on one.
    let full = |facts: &mut Facts, capacities: [f64; 2]| {
        both(facts, |r| {
            for (path, mbps) in r.peers[0].paths.iter_mut().zip(capacities) {
                path.capacity_mbps = Some(mbps);
            }
        });
        carry(facts, 0, 19.0);
        carry(facts, 1, 19.0);
    };
    assert_eq!(with(|f| full(f, [36.0, 19.0])), []);
    assert_eq!(with(|f| full(f, [19.0, 36.0])), []);

    // One was not filled, and was thought slow for a moment only.
    let low = |capacities: &'static [f64]| {
        with(move |facts| {
            carry(facts, 0, 900.0);
            carry(facts, 1, 90.0);
            both(facts, |r| r.peers[0].paths[1].capacity_mbps = Some(94.0));
            thought(facts, capacities);
        })
    };
    assert_eq!(low(&[94.0, 94.0, 940.0, 940.0, 940.0, 94.0]), []);
    let found = low(&[94.0, 94.0, 940.0, 94.0, 94.0, 94.0]);
    only(&found, Cause::SlowLink, Severity::Slow);

    // Without load, what was thought of it some day says nothing.
    let idle = with(|facts| {
        both(facts, |r| r.peers[0].paths[1].capacity_mbps = Some(94.0));
    });
    assert_eq!(idle, []);
}

#[test]
fn short_of_processor_time_only_a_full_path_is_slow() {
    let starved = |capacity: f64, carried: f64| {
        with(move |facts| {
            facts.machine.daemon_waited_share = Some(0.5);
            both(facts, |r| {
                r.peers[0].paths[1].capacity_mbps = Some(capacity)
            });
            carry(facts, 0, 400.0);
            carry(facts, 1, carried);
        })
    };
    let causes = |found: Vec<Finding>| found.iter().map(|f| f.cause).collect::<Vec<_>>();
    assert_eq!(causes(starved(94.0, 90.0)), [Cause::SlowLink, Cause::Cpu]);
    assert_eq!(causes(starved(94.0, 50.0)), [Cause::Cpu]);
    assert_eq!(causes(starved(200.0, 190.0)), [Cause::Cpu]);
}

#[test]
fn short_of_processor_time_only_much_loss_is_told() {
    let starved = |lost: u64| {
        with(move |facts| {
            facts.machine.daemon_waited_share = Some(0.5);
            carry(facts, 1, 90.0);
            last(facts).peers[0].paths[1].tx_lost_packets += lost;
        })
    };
    only(&starved(220), Cause::Cpu, Severity::Note);
    assert_eq!(starved(1000)[0].cause, Cause::LossyLink);
}

#[test]
fn one_pause_is_no_lossy_link() {
    let lose = |after: &'static [u64]| {
        with(move |facts| {
            carry(facts, 1, 90.0);
            let watched = facts.daemon.as_mut().expect("a daemon");
            let reading = |lost: &u64| {
                let mut report = watched.last.clone();
                report.peers[0].paths[1].tx_lost_packets = *lost;
                report
            };
            watched.between = after.iter().map(reading).collect();
            watched.last = watched.between[after.len() - 1].clone();
        })
    };
    assert_eq!(lose(&[0, 0, 300, 300, 300]), []);
    let found = lose(&[0, 100, 180, 180, 300]);
    only(&found, Cause::LossyLink, Severity::Slow);
}

#[test]
fn pings_lost_in_a_row_are_no_lossy_link() {
    let lose = |times: u32| {
        with(move |facts| {
            let pings = Pings {
                sent: 50,
                answered: 41,
            };
            let path = &mut facts.paths[1];
            (path.small, path.lost_times) = (Some(pings), Some(times));
        })
    };
    assert_eq!(lose(1), []);
    only(&lose(5), Cause::LossyLink, Severity::Slow);
}

#[test]
fn a_flood_that_is_kept_off_is_no_lack_of_room() {
    let flood = |dropped: u64| {
        with(move |facts| {
            last(facts).node.dropped.insert("flood".to_owned(), 9_000);
            facts.machine.socket_drops = dropped;
        })
    };
    only(&flood(9_000), Cause::Flood, Severity::Note);
    only(&flood(9_040), Cause::Flood, Severity::Slow);
}

#[test]
fn a_flood_that_is_kept_off_is_no_firewall() {
    // 5000 packets of the flood were kept off, so many found no room, the peer's came all.
    let flood = |kept_off: u64, no_room: u64| {
        with(move |facts| {
            let [peer, stranger] = ["10.77.1.2", "10.77.1.99"].map(|a| a.parse().expect("one"));
            facts.links[1].arrivals = Some(BTreeMap::from([(peer, 9), (stranger, 9_000)]));
            dead(facts);
            let last = last(facts);
            last.node.links[1].rx_datagrams += 4_009;
            last.node.links[1].rx_dropped += no_room;
            last.node.dropped.insert("flood".to_owned(), kept_off);
        })
    };
    let is_firewall = |found: Vec<Finding>| found.iter().any(|f| f.cause == Cause::FirewallHere);
    assert!(is_firewall(flood(0, 0)));
    assert!(!is_firewall(flood(5_000, 0)));
    assert!(!is_firewall(flood(4_000, 1_000)));
}
