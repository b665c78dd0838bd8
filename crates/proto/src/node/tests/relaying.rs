//! What comes through other nodes, or is to go through this one, and cannot.

use super::*;
use crate::wire::{NodeId, STEPS_MAX, Steps, relayed_data};

const RELAYED: u8 = 0x50;
const REFUSED: u8 = 0x60;

/// Two nodes that relay; node 0 knows a third one that is not there.
fn pair(forwards: bool) -> (Pair, PeerId) {
    let with = |node| NodeConfig {
        features: FEATURE_RELAYS,
        relay: RelayConfig {
            forwards,
            ..RelayConfig::default()
        },
        ..config(node, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([with(0), with(1)]);
    let absent = pair.nodes[0].add_peer(pair.now, peer(2)).unwrap();
    pair.nodes[1].add_peer(pair.now, peer(2)).unwrap();
    pair.run(Duration::from_millis(50));
    pair.assert_up();
    (pair, absent)
}

/// The numbers of nodes 0, 1 and 2.
fn ids(pair: &Pair, absent: PeerId) -> [NodeId; 3] {
    let mesh = &pair.nodes[0].context.mesh;
    let of = |peer| mesh.id(peer).unwrap();
    [mesh.me(), of(pair.peers[0]), of(absent)]
}

/// Why node 0 drops a datagram that node 1 says goes this way.
fn dropped(pair: &mut Pair, nodes: &[NodeId], at: u8, datagram: &[u8]) -> Vec<Rejection> {
    let steps = Steps::new(nodes, at).unwrap();
    let data = relayed_data(&steps, datagram);
    hand_in(pair, RELAYED, &data)
}

fn hand_in(pair: &mut Pair, code: u8, data: &[u8]) -> Vec<Rejection> {
    let from = pair.peers[0];
    let node = &mut pair.nodes[0];
    let count = |node: &Node| Rejection::ALL.map(|reason| node.node_stats().rejected(reason));
    let before = count(node);
    assert!(node.context.mesh.arrives(from, code, data));
    node.tend_mesh(pair.now);
    let after = count(node);
    let counted = Rejection::ALL.into_iter().enumerate();
    let new = counted.filter(|(place, _)| after[*place] > before[*place]);
    new.map(|(_, reason)| reason).collect()
}

#[test]
fn what_comes_from_another_neighbour_than_the_way_says_is_dropped() {
    let (mut pair, absent) = pair(true);
    let [me, neighbour, far] = ids(&pair, absent);
    let datagram = [0x10; 60];
    for (nodes, at) in [
        ([neighbour, far, me], 2),
        ([far, me, neighbour], 1),
        ([far, neighbour, me], 1),
        ([NodeId(4711), neighbour, me], 2),
    ] {
        let why = dropped(&mut pair, &nodes, at, &datagram);
        assert_eq!(why, [Rejection::Misrouted], "{nodes:?} {at}");
    }
}

#[test]
fn what_is_of_no_session_is_dropped_at_its_end() {
    let (mut pair, absent) = pair(true);
    let [me, neighbour, far] = ids(&pair, absent);
    let way = [far, neighbour, me];
    for (kind, why) in [
        (0x10, Rejection::UnknownSession),
        (0x01, Rejection::Malformed),
        (0x03, Rejection::Malformed),
        (0x77, Rejection::Malformed),
    ] {
        let datagram = [kind; 60];
        assert_eq!(dropped(&mut pair, &way, 2, &datagram), [why], "{kind}");
    }
}

#[test]
fn what_cannot_be_relayed_is_counted_and_its_sender_told() {
    for forwards in [true, false] {
        let (mut pair, absent) = pair(forwards);
        let [me, neighbour, far] = ids(&pair, absent);
        let way = [neighbour, me, far];
        let received = pair.nodes[1].node_stats().datagrams_received;
        let why = dropped(&mut pair, &way, 1, &[0x10; 60]);
        assert_eq!(why, [Rejection::NotRelayed]);
        pair.settle();
        assert_eq!(pair.nodes[1].node_stats().datagrams_received, received + 1);
        // No more often than now and then, however much comes.
        for _ in 0..100 {
            dropped(&mut pair, &way, 1, &[0x10; 60]);
        }
        pair.settle();
        assert_eq!(pair.nodes[1].node_stats().datagrams_received, received + 1);
        assert_eq!(pair.nodes[0].node_stats().relayed, 0);
        assert_eq!(pair.nodes[1].node_stats().rejected(Rejection::Misrouted), 0);
    }
}

#[test]
fn a_refusal_from_who_was_not_asked_is_dropped() {
    let (mut pair, absent) = pair(true);
    let [me, neighbour, far] = ids(&pair, absent);
    let refused = |nodes: [NodeId; 3]| {
        let mut data = relayed_data(&Steps::new(&nodes, 0).unwrap(), &[]);
        data.extend([1, 0]);
        data
    };
    let of_another = refused([me, far, neighbour]);
    assert_eq!(
        hand_in(&mut pair, REFUSED, &of_another),
        [Rejection::Misrouted]
    );
    assert!(hand_in(&mut pair, REFUSED, &refused([me, neighbour, far])).is_empty());
}

#[test]
fn broken_records_are_counted_as_such() {
    let (mut pair, _) = pair(true);
    let before = pair.nodes[0].node_stats().bad_record;
    for data in [&[][..], &[1, STEPS_MAX as u8 + 1], &[1; 40]] {
        assert!(hand_in(&mut pair, RELAYED, data).is_empty());
    }
    assert_eq!(pair.nodes[0].node_stats().bad_record, before + 3);
}

#[test]
fn a_peer_without_the_feature_is_told_nothing_of_relays() {
    let with = |features, node| NodeConfig {
        features,
        ..config(node, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([with(FEATURE_RELAYS, 0), with(0, 1)]);
    pair.nodes[0].add_peer(pair.now, peer(2)).unwrap();
    pair.run(Duration::from_secs(1));
    pair.assert_up();
    assert_eq!(pair.nodes[0].context.mesh.neighbours().count(), 0);
}
