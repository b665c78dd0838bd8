//! Nodes that call though nobody added them.

use super::rejections::{hello, init};
use super::*;
use crate::wire::Kind;

/// Of names such as `n7` everybody knows where their bearers are.
pub(super) fn locate(name: &str) -> Option<[Option<SocketAddr>; LINKS_MAX]> {
    let node = name.strip_prefix('n')?.parse().ok()?;
    Some(peer(node).addresses)
}

/// Node 0 knows nobody, and admits so many guests; node 1 is to be added to or calls it.
fn pair_with_host(count_max: usize) -> Pair {
    let host = NodeConfig {
        guests: Some(Guests::Located { count_max, locate }),
        ..config(0, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([host, config(1, 7, WireMode::Encrypted)]);
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    pair.events[0].clear();
    pair
}

fn guests(pair: &Pair) -> Vec<PeerId> {
    let guest = |event: &Event| match event {
        Event::Guest { peer, .. } => Some(*peer),
        _ => None,
    };
    pair.events[0].iter().filter_map(guest).collect()
}

#[test]
fn a_guest_is_a_peer_like_any_other() {
    let mut pair = pair_with_host(1);
    pair.run(Duration::from_millis(50));
    let [guest] = guests(&pair)[..] else {
        panic!("{:?}", pair.events[0]);
    };
    assert_eq!(pair.nodes[0].peer_named("n1"), Some(guest));
    pair.peers[0] = guest;
    pair.assert_up();
    pair.carries(1);
    for path in pair.nodes[0].peer_stats(guest).expect("is there").paths {
        assert_eq!(path.state, crate::link::PathState::Up, "both links serve");
    }
    // Removed, it may come again.
    pair.nodes[0].remove_peer(pair.now, guest);
    pair.events[0].clear();
    pair.run(Duration::from_secs(3));
    let [again] = guests(&pair)[..] else {
        panic!("{:?}", pair.events[0]);
    };
    pair.peers[0] = again;
    pair.assert_up();
}

#[test]
fn only_so_many_are_admitted_and_only_under_names_that_say_where_they_are() {
    let mut pair = pair_with_host(2);
    let mut call = |from: &str| {
        let from_there = SocketAddr::from(([10, 77, 0, 99], 7577));
        let mut init = init(7, &hello(from, "n0"));
        assert_eq!(init[0], Kind::Init as u8);
        pair.nodes[0].handle_datagram(pair.now, LinkId(0), from_there, &mut init);
        let mut last = None;
        while let Some(event) = pair.nodes[0].poll_event() {
            last = Some(event);
        }
        last
    };
    let refusal = |event: Option<Event>| match event {
        Some(Event::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let admitted = |event: Option<Event>| matches!(event, Some(Event::Guest { .. }));
    assert_eq!(
        refusal(call("stranger")),
        Refusal::UnknownNode("stranger".into())
    );
    assert!(admitted(call("n5")));
    assert!(admitted(call("n6")));
    assert_eq!(refusal(call("n7")), Refusal::TooManyGuests("n7".into()));
}

#[test]
fn beyond_some_a_guest_has_to_show_where_it_is() {
    let mut pair = pair_with_host(10_000);
    for n in 2..100 {
        // As fast as handshakes are taken without a cookie.
        pair.now += Duration::from_millis(20);
        let from = SocketAddr::from(([10, 77, 0, 99], 7577));
        let mut init = init(7, &hello(&format!("n{n}"), "n0"));
        pair.nodes[0].handle_datagram(pair.now, LinkId(0), from, &mut init);
    }
    let mut admitted = 0;
    while let Some(event) = pair.nodes[0].poll_event() {
        admitted += usize::from(matches!(event, Event::Guest { .. }));
    }
    assert_eq!(admitted, 64);
    // Who does is admitted.
    pair.run(Duration::from_millis(500));
    let guest = pair.nodes[0].peer_named("n1").expect("is a guest");
    pair.peers[0] = guest;
    pair.assert_up();
}
