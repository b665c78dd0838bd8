//! Peers, links and addresses that come and go while something is carried; and
//! machines that are not who they say.

use super::*;
use crate::wire::Kind;

#[test]
fn peers_that_come_and_go_leave_nothing_behind() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let other = |n: usize| PeerConfig {
        name: format!("other{n}"),
        ..peer(5)
    };
    pair.nodes[0].add_peer(pair.now, other(0)).unwrap();
    let memory = pair.nodes[0].memory_bytes();
    for n in 1..500 {
        let added = pair.nodes[0].add_peer(pair.now, other(n)).unwrap();
        assert!(added.0 <= 3, "numbers are used again: {added:?}");
        pair.run(Duration::from_millis(5));
        pair.nodes[0].remove_peer(pair.now, added);
        pair.run(Duration::from_millis(5));
        let removed = Event::PeerDown {
            peer: added,
            reason: DownReason::Removed,
        };
        assert!(pair.events[0].contains(&removed));
        pair.events[0].clear();
    }
    assert!(pair.nodes[0].memory_bytes() < 2 * memory);
    assert!(pair.nodes[0].session_numbers().len() < 8);
    pair.assert_up();
}

#[test]
fn the_number_of_a_removed_peer_is_not_given_away_before_its_events_are_collected() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    let early = pair.nodes[0].add_peer(pair.now, peer(2)).unwrap();
    assert_ne!(early, pair.peers[0]);
    pair.settle();
    let late = pair.nodes[0].add_peer(pair.now, peer(3)).unwrap();
    assert_eq!(late, pair.peers[0]);
}

#[test]
fn a_removed_peer_is_refused_with_the_reason_and_taken_up_when_it_is_back() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    pair.run(Duration::from_secs(3));
    let unknown = Refusal::UnknownNode("n1".into());
    let told = |e: &&Event| matches!(e, Event::Refused { why, .. } if *why == unknown);
    assert!(pair.events[0].iter().any(|e| told(&e)));
    assert_eq!(pair.state(1), PeerState::Connecting);
    pair.peers[0] = pair.nodes[0].add_peer(pair.now, peer(1)).unwrap();
    pair.run(Duration::from_secs(3));
    pair.assert_up();
    pair.send_frame(1, frame(3000, 1));
    pair.run(Duration::from_millis(20));
    assert_eq!(pair.frames(0), [frame(3000, 1)]);
}

#[test]
fn links_come_and_go_under_what_is_carried() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let config = config(0, 7, WireMode::Encrypted);
    let paths = |pair: &Pair| pair.nodes[0].peer_stats(pair.peers[0]).unwrap().paths;
    for n in 0..20u8 {
        let link = LinkId(n % 2);
        pair.nodes[0].set_link(pair.now, link, None).unwrap();
        for node in [0, 1] {
            pair.send_frame(node, frame(62_000, n));
        }
        pair.run(Duration::from_millis(300));
        assert_eq!(paths(&pair).len(), 1);
        let back = Some(config.links[link.index()]);
        pair.nodes[0].set_link(pair.now, link, back).unwrap();
        pair.run(Duration::from_millis(1500));
        for node in [0, 1] {
            assert_eq!(pair.frames(node), [frame(62_000, n)], "round {n}");
        }
        assert_eq!(paths(&pair).len(), 2);
    }
    let down = |e: &&Event| matches!(e, Event::PeerDown { .. });
    assert_eq!(pair.events.iter().flatten().find(down), None);
    let up = |p: &crate::PathStatus| p.state == crate::link::PathState::Up;
    pair.run(Duration::from_secs(12));
    assert!(paths(&pair).iter().all(up));
}

#[test]
fn a_path_that_is_configured_later_is_used() {
    let only_0 = PeerConfig {
        addresses: {
            let mut addresses = peer(1).addresses;
            addresses[1] = None;
            addresses
        },
        ..peer(1)
    };
    let configs = [0, 1].map(|n| config(n, 7, WireMode::Encrypted));
    let mut pair = Pair::new(configs);
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    pair.drain(0);
    pair.peers[0] = pair.nodes[0].add_peer(pair.now, only_0).unwrap();
    pair.run(Duration::from_secs(3));
    pair.assert_up();
    let to = Some(address(1, 1));
    pair.nodes[0].set_peer_address(pair.now, pair.peers[0], LinkId(1), to);
    pair.run(Duration::from_secs(3));
    for node in [0, 1] {
        let stats = pair.nodes[node].peer_stats(pair.peers[node]).unwrap();
        let up = |p: &&crate::PathStatus| p.state == crate::link::PathState::Up;
        assert_eq!(stats.paths.iter().filter(up).count(), 2, "node {node}");
    }
}

/// A straggler makes an address that the peer has left its candidate again; when the
/// node has moved, too, nothing else is ever heard.
#[test]
fn the_configured_address_is_tried_in_every_second_round() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let left: SocketAddr = "10.77.0.99:7577".parse().unwrap();
    pair.send_frame(1, frame(62_000, 1));
    for (link, _, _, mut bytes) in pair.drain(1) {
        pair.nodes[0].handle_datagram(pair.now, link, left, &mut bytes);
    }
    pair.dead = 3;
    pair.seen.clear();
    pair.run(Duration::from_secs(20));
    let firsts = pair.seen.iter().filter(|(link, from, _, bytes)| {
        *link == LinkId(0) && *from == address(0, 0) && bytes[0] == Kind::Init as u8
    });
    let to: Vec<SocketAddr> = firsts.map(|(_, _, to, _)| *to).collect();
    assert_eq!(to[..4], [left, address(1, 0), left, address(1, 0)]);
    pair.dead = 0;
    pair.run(Duration::from_secs(3));
    pair.assert_up();
}

/// A session was begun, but no path had worked yet when the peer forgot it and does not know
/// where this node is.
#[test]
fn a_peer_that_forgot_a_young_session_is_called_again() {
    let mut pair = Pair::new([0, 1].map(|n| config(n, 7, WireMode::Encrypted)));
    let deliver = |pair: &mut Pair, to: usize| {
        for (link, from, _, mut bytes) in pair.drain(1 - to) {
            pair.nodes[to].handle_datagram(pair.now, link, from, &mut bytes);
        }
    };
    while pair.nodes[0]
        .peer_stats(pair.peers[0])
        .unwrap()
        .session_since
        .is_none()
    {
        deliver(&mut pair, 1);
        deliver(&mut pair, 0);
    }
    deliver(&mut pair, 1);
    // The peer's probe arrives, and its answers do not.
    let (link, from, _, mut bytes) = pair.drain(1).swap_remove(0);
    pair.nodes[0].handle_datagram(pair.now, link, from, &mut bytes);
    assert_eq!(pair.state(0), PeerState::Connecting);
    pair.nodes[1].remove_peer(pair.now, pair.peers[1]);
    pair.drain(1);
    let elsewhere = PeerConfig {
        addresses: peer(7).addresses,
        ..peer(0)
    };
    pair.peers[1] = pair.nodes[1].add_peer(pair.now, elsewhere).unwrap();
    pair.run(Duration::from_secs(12));
    pair.assert_up();
}

#[test]
fn clocks_years_apart_do_no_harm() {
    // No datagram bears a date: of time, only differences are known to a node.
    let mut pair = Pair::new([0, 1].map(|n| config(n, 7, WireMode::Encrypted)));
    const YEARS: Duration = Duration::from_secs(20 * 365 * 86_400);
    let config = config(1, 7, WireMode::Encrypted);
    let mut ahead = Node::new(pair.now + YEARS, config, [2; 32]).unwrap();
    ahead.add_peer(pair.now + YEARS, peer(0)).unwrap();
    let mut buffer = vec![0; 65_535];
    let mut arrived = 0;
    for n in 0..3000u32 {
        let now = [pair.now, pair.now + YEARS];
        for (from, to) in [(0, 1), (1, 0)] {
            let mut nodes = [&mut pair.nodes[0], &mut ahead];
            nodes[from].handle_timeout(now[from]);
            if n > 1000 && n % 100 == 0 {
                let sent =
                    nodes[from].send_frame(now[from], PeerId(0), (1, Policy::Auto), frame(9000, 1));
                assert!(sent.is_ok(), "connected");
            }
            while let Some(t) = nodes[from].poll_transmit(now[from], &mut buffer) {
                for datagram in buffer[..t.bytes].chunks_mut(t.segment_bytes) {
                    let source = address(from, t.link.0);
                    nodes[to].handle_datagram(now[to], t.link, source, datagram);
                }
            }
            while let Some(event) = nodes[from].poll_event() {
                assert!(!matches!(
                    event,
                    Event::Refused { .. } | Event::PeerDown { .. }
                ));
            }
            arrived += core::iter::from_fn(|| nodes[to].receive_frame()).count();
        }
        pair.now += Duration::from_millis(1);
    }
    assert_eq!(arrived, 38);
}

#[test]
fn a_second_machine_of_one_name_is_refused_while_the_first_is_there() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let from: SocketAddr = "10.77.0.99:7577".parse().unwrap();
    let mut twin = Node::new(pair.now, config(1, 7, WireMode::Encrypted), [5; 32]).unwrap();
    twin.add_peer(pair.now, peer(0)).unwrap();
    let mut buffer = vec![0; 65_535];
    for _ in 0..300 {
        pair.run(Duration::from_millis(10));
        twin.handle_timeout(pair.now);
        while let Some(t) = twin.poll_transmit(pair.now, &mut buffer) {
            let mut datagram = buffer[..t.bytes].to_vec();
            if t.link.0 == 0 {
                pair.nodes[0].handle_datagram(pair.now, t.link, from, &mut datagram);
            }
        }
        // What goes to the twin's address.
        for (link, source, to, mut datagram) in pair.drain(0) {
            if to == from {
                twin.handle_datagram(pair.now, link, source, &mut datagram);
            } else {
                pair.nodes[1].handle_datagram(pair.now, link, source, &mut datagram);
            }
        }
    }
    let why = Refusal::DuplicateName {
        name: "n1".into(),
        other: address(1, 0),
    };
    let link = LinkId(0);
    let told = Event::Refused { link, from, why };
    assert!(pair.events[0].contains(&told), "{:?}", pair.events[0]);
    let down = |e: &&Event| matches!(e, Event::PeerDown { .. });
    assert_eq!(
        pair.events[0].iter().find(down),
        None,
        "the first one stays"
    );
    pair.assert_up();
}

#[test]
fn a_link_that_is_taken_away_and_given_back_has_not_failed() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.run(Duration::from_millis(500));
    pair.events[0].clear();
    let link = config(0, 7, WireMode::Encrypted).links[1];
    pair.nodes[0].set_link(pair.now, LinkId(1), None).unwrap();
    pair.run(Duration::from_secs(1));
    pair.nodes[0]
        .set_link(pair.now, LinkId(1), Some(link))
        .unwrap();
    pair.run(Duration::from_secs(2));
    let told: Vec<_> = pair.events[0].drain(..).collect();
    assert!(
        matches!(
            told[..],
            [Event::LinkUp {
                link: LinkId(1),
                ..
            }]
        ),
        "{told:?}"
    );
    pair.assert_up();
}
