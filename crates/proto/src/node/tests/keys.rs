//! Several keys, and changing them under what is carried.

use super::*;
use crate::bundle::KEY_REMOVED_GRACE;

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];

fn pair_with(keys: [&[[u8; 32]]; 2]) -> Pair {
    let with = |node: usize| NodeConfig {
        keys: keys[node].to_vec(),
        ..config(node, 0, WireMode::Encrypted)
    };
    Pair::new([with(0), with(1)])
}

/// A frame arrives each way, and nothing was broken off.
fn carries(pair: &mut Pair, salt: u8) {
    pair.carries(salt);
    assert_unbroken(pair);
}

fn assert_unbroken(pair: &Pair) {
    let broken = |e: &&Event| {
        let restarted = Event::PeerUp {
            peer: PeerId(0),
            restarted: true,
        };
        matches!(e, Event::PeerDown { .. }) || **e == restarted
    };
    assert_eq!(pair.events.iter().flatten().find(broken), None);
}

#[test]
fn two_nodes_connect_if_either_accepts_what_the_other_uses() {
    let lists: [&[_]; 4] = [&[OLD], &[OLD, NEW], &[NEW, OLD], &[NEW]];
    for (a, b) in [(0, 1), (1, 2), (2, 3), (1, 1), (2, 2), (0, 2), (1, 3)] {
        for (left, right) in [(a, b), (b, a)] {
            for wait_ms in [0, 400] {
                let mut pair = pair_with([lists[left], lists[right]]);
                // The other one does not run yet.
                let late = pair.now + Duration::from_millis(wait_ms);
                while pair.now < late {
                    pair.now += Duration::from_millis(10);
                    pair.nodes[0].handle_timeout(pair.now);
                    pair.drain(0);
                }
                pair.run(Duration::from_secs(3));
                pair.assert_up();
                carries(&mut pair, 1);
            }
        }
    }
    let mut pair = pair_with([&[OLD], &[NEW]]);
    pair.run(Duration::from_secs(30));
    assert_eq!(pair.state(0), PeerState::Connecting);
}

/// The keys of both nodes at each moment of a change, nodes one by one in every order.
fn orders() -> Vec<Vec<(usize, Vec<[u8; 32]>)>> {
    let steps = [vec![OLD, NEW], vec![NEW, OLD], vec![NEW]];
    (0..8)
        .map(|order: usize| {
            let steps = steps.iter().enumerate();
            let one_by_one = steps.flat_map(|(i, keys)| {
                let first = order >> i & 1;
                [(first, keys.clone()), (1 - first, keys.clone())]
            });
            one_by_one.collect()
        })
        .collect()
}

#[test]
fn a_change_of_key_breaks_nothing_in_whatever_order_and_pace() {
    for pace_ms in [0, 1, 300, 2_000, 100_000] {
        for order in orders() {
            let mut pair = pair_with([&[OLD], &[OLD]]);
            pair.run(Duration::from_millis(50));
            let first = pair.nodes[0]
                .peer_stats(pair.peers[0])
                .unwrap()
                .session_since;
            for (n, (node, keys)) in order.into_iter().enumerate() {
                pair.nodes[node].set_keys(pair.now, keys).unwrap();
                pair.run(Duration::from_millis(pace_ms));
                carries(&mut pair, n as u8);
            }
            pair.run(KEY_REMOVED_GRACE * 2);
            carries(&mut pair, 99);
            let last = pair.nodes[0]
                .peer_stats(pair.peers[0])
                .unwrap()
                .session_since;
            assert!(last > first);
        }
    }
}

#[test]
fn a_node_that_restarts_amid_a_change_is_taken_up() {
    for order in orders() {
        for restarts in [0, 1] {
            let mut pair = pair_with([&[OLD], &[OLD]]);
            let mut keys = [vec![OLD], vec![OLD]];
            pair.run(Duration::from_millis(50));
            for (life, (node, new)) in (9..).zip(order.clone()) {
                keys[node] = new.clone();
                pair.nodes[node].set_keys(pair.now, new).unwrap();
                pair.run(Duration::from_millis(20));
                let config = NodeConfig {
                    keys: keys[restarts].clone(),
                    ..config(restarts, 0, WireMode::Encrypted)
                };
                pair.nodes[restarts] = Node::new(pair.now, config, [life; 32]).unwrap();
                let other = peer(1 - restarts);
                pair.peers[restarts] = pair.nodes[restarts].add_peer(pair.now, other).unwrap();
                pair.run(Duration::from_secs(4));
                pair.events = Default::default();
                pair.assert_up();
                carries(&mut pair, 3);
            }
        }
    }
}

#[test]
fn a_session_of_a_removed_key_ends_after_its_grace_and_both_are_told() {
    let mut pair = pair_with([&[OLD], &[OLD]]);
    pair.run(Duration::from_millis(50));
    pair.nodes[0].set_keys(pair.now, vec![NEW]).unwrap();
    pair.run(KEY_REMOVED_GRACE - Duration::from_secs(1));
    carries(&mut pair, 1);
    let told = |e: &&Event| matches!(e, Event::Refused { .. });
    assert!(
        pair.events[1].iter().any(|e| told(&e)),
        "another key is told while all works"
    );
    pair.run(Duration::from_secs(2));
    pair.assert_ended_by_key();
    pair.nodes[1].set_keys(pair.now, vec![NEW]).unwrap();
    pair.run(Duration::from_secs(3));
    pair.assert_up();
}

#[test]
fn no_keys_are_refused() {
    let mut pair = pair_with([&[OLD], &[OLD]]);
    let error = pair.nodes[0].set_keys(pair.now, Vec::new());
    assert_eq!(error, Err(ConfigError::NoKey));
    pair.run(Duration::from_millis(50));
    pair.assert_up();
}
