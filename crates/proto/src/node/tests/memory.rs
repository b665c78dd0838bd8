//! What peers hold together is bounded for the node.

use super::*;
use crate::op::{Get, Holdings, MESSAGE_DATA_BYTES_MAX};
use crate::wire::{FEATURE_MEMORY, Stretch};

#[test]
fn a_peer_gets_through_its_largest_message_when_others_let_go() {
    let wire = WireMode::Encrypted;
    let mut pair = Pair::new([config(0, 7, wire), config(1, 7, wire)]);
    // Another peer of node 0 holds all but a little.
    let (other, most) = (PeerId(1000), OpLimits::default());
    let mut account = Account::default();
    let held = |bytes| Holdings([bytes, 0, 0, 0]);
    let budget = &mut pair.nodes[0].context.budget;
    let all = most.node_unread_bytes - (1 << 20);
    budget.settle(other, &mut account, held(all), &most.of_peer());
    pair.run(Duration::from_millis(50));
    pair.assert_up();
    let [to_1, to_0] = pair.peers;
    let large = vec![3; MESSAGE_DATA_BYTES_MAX];
    let now = pair.now;
    let policy = Policy::Stripe;
    pair.nodes[1]
        .send_message(now, to_0, 0, None, &large, policy)
        .unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.nodes[0].receive_message(pair.now, to_1), None);
    assert_eq!(pair.nodes[0].node_stats().memory_short, 1);

    let budget = &mut pair.nodes[0].context.budget;
    budget.settle(other, &mut account, held(0), &most.of_peer());
    // Whatever else happens at the node.
    pair.run(Duration::from_secs(1));
    let message = pair.nodes[0].receive_message(pair.now, to_1);
    assert_eq!(message.map(|m| m.data.len()), Some(large.len()));
}

#[test]
fn what_a_peer_holds_is_forgotten_with_it() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let ([to_1, to_0], now) = (pair.peers, pair.now);
    let node = &mut pair.nodes[1];
    let stream = node.open_stream(now, to_0, 1, Policy::Stripe).unwrap();
    node.write_stream(now, to_0, stream, &[7; 60_000]).unwrap();
    pair.run(Duration::from_millis(50));
    let idle = Budget::new(&OpLimits::default());
    assert_ne!(pair.nodes[0].context.budget.sums(), idle.sums());
    pair.nodes[0].remove_peer(pair.now, to_1);
    assert_eq!(pair.nodes[0].context.budget.sums(), idle.sums());
}

#[test]
fn a_peer_that_is_asked_for_bytes_is_not_quiet_until_it_has_answered() {
    let offering = |n| NodeConfig {
        features: FEATURE_MEMORY,
        ..config(n, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([offering(0), offering(1)]);
    pair.run(Duration::from_millis(50));
    let (now, peer) = (pair.now, pair.peers[0]);
    assert!(pair.nodes[0].is_quiet(peer));
    let from = Stretch {
        key: 1,
        base: 0,
        total: 8,
    };
    let get = Get {
        from,
        handle: 0,
        token: 5,
    };
    pair.nodes[0].get(now, peer, get).unwrap();
    let asked = pair.drain(0);
    assert!(!asked.is_empty() && !pair.nodes[0].is_quiet(peer));
    for (link, from, _, mut bytes) in asked {
        pair.nodes[1].handle_datagram(now, link, from, &mut bytes);
    }
    pair.run(Duration::from_millis(5));
    assert!(pair.nodes[0].is_quiet(peer));
}
