//! What is link 0 to one node is link 1 to the other.

use super::*;

/// Lets time pass in steps of a millisecond, which every datagram takes.
fn run_swapped(pair: &mut Pair, for_ms: u32) {
    for _ in 0..for_ms {
        for node in &mut pair.nodes {
            node.handle_timeout(pair.now);
        }
        let sent = [pair.drain(0), pair.drain(1)];
        pair.now += Duration::from_millis(1);
        for (node, datagrams) in sent.into_iter().enumerate() {
            for (link, from, _, mut bytes) in datagrams {
                let arrives = LinkId(1 - link.0);
                pair.nodes[1 - node].handle_datagram(pair.now, arrives, from, &mut bytes);
            }
        }
    }
}

/// Handshakes come through, for they do not say which link they were sent on: that connects nobody.
#[test]
fn nobody_is_connected_over_swapped_links_and_it_is_told() {
    let mut pair = Pair::new([0, 1].map(|node| config(node, 7, WireMode::Encrypted)));
    run_swapped(&mut pair, 10_000);
    let mut told = 0;
    for node in 0..2 {
        assert_eq!(pair.state(node), PeerState::Connecting);
        for event in &pair.events[node] {
            match event {
                Event::Refused {
                    link,
                    why: Refusal::WrongLink { says },
                    ..
                } => {
                    assert_eq!(says.0, 1 - link.0);
                    told += 1;
                }
                other => panic!("node {node}: {other:?}"),
            }
        }
    }
    assert!(told > 0);
}
