//! Clusters of more nodes than a node may have bundles over links with.

use std::time::Duration;
use tabane_proto::{PeerState, bundles_needed};
use tabane_sim::many::{Layout, Many, Pattern, exchange, measure};

const START: Duration = Duration::from_millis(100);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// So many nodes, a while after they have started.
fn started(hosts: usize, bundles_max: u16) -> Many {
    assert!(bundles_needed(hosts) <= usize::from(bundles_max));
    let mut many = Many::new(hosts, Some(bundles_max), START);
    many.run(SECOND);
    many
}

/// Everybody sends everybody a message, which arrives.
fn all_to_all(many: &mut Many, hosts: usize) {
    let before: Vec<u64> = (0..hosts).map(|host| many.messages(host)).collect();
    for distance in 1..hosts {
        for from in 0..hosts {
            assert!(many.message(from, (from + distance) % hosts, &[7; 100]));
        }
        many.run(20 * MS);
    }
    many.run(2 * SECOND);
    for (host, before) in before.into_iter().enumerate() {
        assert_eq!(many.messages(host) - before, hosts as u64 - 1, "{host}");
    }
}

/// Nobody ever had more bundles over links than that, and nothing was lost.
fn assert_kept_to(many: &Many, hosts: usize, bundles_max: usize) {
    for host in 0..hosts {
        let most = many.direct_max(host);
        assert!(most <= bundles_max, "{host} had {most}");
        assert_eq!(many.node(host).bundle_count().limit, Some(bundles_max));
    }
    assert_eq!(many.losses, 0);
}

#[test]
fn everybody_reaches_everybody_over_few_bundles() {
    const HOSTS: usize = 72;
    let mut many = started(HOSTS, 16);
    for host in 0..HOSTS {
        let direct = many.node(host).bundle_count().direct;
        assert!(direct <= bundles_needed(HOSTS), "{host}: {direct}");
    }
    all_to_all(&mut many, HOSTS);
    assert_kept_to(&many, HOSTS, 16);
}

#[test]
fn a_cluster_within_the_limit_connects_all_at_once() {
    const HOSTS: usize = 9;
    let mut many = Many::new(HOSTS, Some(8), START);
    many.run(SECOND);
    for host in 0..HOSTS {
        assert_eq!(many.node(host).bundle_count().direct, HOSTS - 1);
        assert_eq!(many.node(host).bundle_count().limit, None);
    }
    many.run(600 * SECOND);
    assert!((0..HOSTS).all(|host| many.node(host).bundle_count().direct == HOSTS - 1));
}

#[test]
fn what_is_idle_rests_and_goes_on_where_it_was() {
    const HOSTS: usize = 24;
    let mut many = started(HOSTS, 8);
    for _ in 0..2 {
        all_to_all(&mut many, HOSTS);
        let used = (0..HOSTS).map(|host| many.node(host).memory_bytes());
        let used: usize = used.sum();
        many.run(320 * SECOND);
        for host in 0..HOSTS {
            let others = (0..HOSTS).filter(|other| *other != host);
            let up = others.filter(|other| many.state(host, *other) == Some(PeerState::Up));
            assert_eq!(up.count(), many.node(host).bundle_count().direct, "{host}");
        }
        let rests: usize = (0..HOSTS).map(|host| many.node(host).memory_bytes()).sum();
        assert!(rests * 3 < used * 2, "{rests} of {used} bytes");
    }
    all_to_all(&mut many, HOSTS);
    assert_kept_to(&many, HOSTS, 8);
}

/// Sends so many kilobytes, paced as a link of 100 Mb/s would.
fn carry(many: &mut Many, pairs: &[(usize, usize)], kilobytes: usize) {
    for _ in 0..kilobytes / 10 {
        for (from, to) in pairs {
            assert!(many.message(*from, *to, &[7; 10_000]));
        }
        many.run(MS);
    }
    many.run(SECOND);
}

#[test]
fn who_carries_much_gets_the_links_as_far_as_there_are_any() {
    const HOSTS: usize = 24;
    let mut many = started(HOSTS, 8);
    assert!(!many.is_direct(0, 20));
    carry(&mut many, &[(0, 20)], 100);
    assert!(!many.is_direct(0, 20), "it was not much");
    carry(&mut many, &[(0, 20)], 2_000);
    assert!(many.is_direct(0, 20) && many.is_direct(20, 0));
    // Whoever comes later and carries as much does not take them away.
    let to_20: Vec<_> = (0..12).map(|from| (from, 20)).collect();
    carry(&mut many, &to_20, 1_000);
    assert!(many.is_direct(0, 20));
    assert!(many.node(20).node_stats().links_refused > 0);
    // Whoever carries far more does.
    many.run(60 * SECOND);
    let from = (1..12).find(|from| !many.is_direct(*from, 20));
    let from = from.expect("there is not room for all");
    carry(&mut many, &[(from, 20)], 2_000);
    assert!(many.is_direct(from, 20));
    assert_eq!(many.messages(20), 10 + 200 + 1_200 + 200);
    assert_kept_to(&many, HOSTS, 8);
}

#[test]
fn who_is_left_goes_on_when_others_are_gone() {
    const HOSTS: usize = 24;
    let mut many = started(HOSTS, 8);
    let gone = [3, 9, 14];
    gone.iter().for_each(|host| many.kill(*host));
    let left: Vec<usize> = (0..HOSTS).filter(|host| !gone.contains(host)).collect();
    for from in &left {
        for to in left.iter().filter(|to| *to != from) {
            assert!(many.message(*from, *to, &[7; 100]));
        }
    }
    many.run(20 * SECOND);
    for host in &left {
        assert_eq!(many.messages(*host), left.len() as u64 - 1, "{host}");
        assert!(many.direct_max(*host) <= 8);
    }
}

#[test]
fn a_cluster_that_starts_at_once_costs_each_node_little() {
    let figures = measure(256);
    let all_up = figures.all_up.expect("all are there");
    assert!(all_up <= SECOND, "{figures}");
    assert!(figures.arrived.expect("all messages arrive") <= SECOND);
    assert!(figures.bundles.1 <= bundles_needed(256), "{figures}");
    assert!(figures.mesh_bytes <= 64 * 1024, "{figures}");
    assert!(figures.idle_datagrams <= 40.0, "{figures}");
    assert_eq!(figures.losses, 0);
}

/// 32 nodes fill the trunks between their switches all at once. Nobody takes that for links that have failed, and fills them with
/// questions, with what is sent again, or with what others are to relay. (Simulated time. Of these three each takes 350 ms and more
/// if it has no bound.)
#[test]
fn full_trunks_get_empty_again() {
    let layout = Layout {
        switches: 4,
        nodes_each: 8,
        trunk_mbps: 250,
    };
    let exchanged = exchange(layout, None, Pattern::All, (16 * 1024, 1));
    let took = exchanged[0].time.expect("ends");
    assert!(took < 300 * MS, "{}", exchanged[0]);
}
