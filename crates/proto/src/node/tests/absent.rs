//! Peers that are not there are asked ever more rarely, and met at once when they are.

use std::collections::BTreeSet;

use super::*;

const BOTH: u8 = 0b11;

/// Two nodes that have not reached each other for so long.
fn parted(for_: Duration) -> Pair {
    let mut pair = Pair::new([
        config(0, 7, WireMode::Encrypted),
        config(1, 7, WireMode::Encrypted),
    ]);
    pair.dead = BOTH;
    pair.run(for_);
    pair.seen.clear();
    pair
}

fn sent_by_0(pair: &Pair) -> Vec<LinkId> {
    let by_0 = |d: &&Datagram| d.1 == address(0, d.0.0);
    pair.seen.iter().filter(by_0).map(|d| d.0).collect()
}

#[test]
fn it_is_asked_once_a_minute_in_the_end_and_on_one_path_after_the_other() {
    let mut pair = parted(Duration::from_secs(10));
    pair.run(Duration::from_secs(10));
    assert!(sent_by_0(&pair).len() >= 2 * 4, "still every two seconds");
    pair.run(Duration::from_secs(600));
    pair.seen.clear();
    pair.run(Duration::from_secs(1200));
    let links = sent_by_0(&pair);
    assert!((16..=26).contains(&links.len()), "{links:?}");
    assert!(links.windows(2).all(|two| two[0] != two[1]), "{links:?}");
}

#[test]
fn the_handshake_is_not_kept_meanwhile() {
    let mut pair = parted(Duration::from_secs(900));
    let mut without = 0;
    for _ in 0..60 {
        pair.run(Duration::from_secs(1));
        without += usize::from(pair.nodes[0].session_numbers().len() == 0);
    }
    assert!(without > 50, "{without} of 60 seconds");
}

#[test]
fn whoever_appears_is_met_at_once() {
    let mut pair = parted(Duration::from_secs(900));
    pair.dead = 0;
    // Node 1 starts anew, and so calls.
    pair.restart(1);
    pair.run(Duration::from_millis(50));
    pair.assert_up();
}

#[test]
fn a_network_that_works_again_is_found_by_who_asks_next() {
    let mut pair = parted(Duration::from_secs(900));
    pair.dead = 0;
    pair.run(Duration::from_secs(75));
    pair.assert_up();
}

/// What says that the peer may be there now has it asked at once.
fn assert_asked_after(tell: impl Fn(&mut Node, Time)) {
    let mut pair = parted(Duration::from_secs(900));
    pair.run(Duration::from_secs(3));
    pair.dead = 0;
    let now = pair.now;
    tell(&mut pair.nodes[0], now);
    pair.run(Duration::from_millis(50));
    pair.assert_up();
}

#[test]
fn it_is_asked_at_once_when_something_changed() {
    assert_asked_after(|node, now| {
        node.handle_link(now, LinkId(0), false);
        node.handle_link(now, LinkId(0), true);
    });
    assert_asked_after(|node, now| {
        let link = node.context.links[0];
        node.set_link(now, LinkId(0), None).unwrap();
        node.set_link(now, LinkId(0), link).unwrap();
    });
    assert_asked_after(|node, now| {
        node.set_peer_address(now, PeerId(0), LinkId(0), Some(address(1, 0)));
    });
    assert_asked_after(|node, now| node.set_keys(now, vec![[7; 32]]).unwrap());
    assert_asked_after(Node::call_absent);
}

#[test]
fn who_was_connected_and_is_away_is_asked_as_rarely_and_found_again() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.dead = BOTH;
    pair.run(Duration::from_secs(900));
    assert_eq!(pair.state(0), PeerState::Down);
    pair.seen.clear();
    pair.run(Duration::from_secs(600));
    // A first message, and a probe and the verdict on each path, once a minute.
    let sent = sent_by_0(&pair).len();
    assert!(sent <= 5 * 12, "{sent} in ten minutes");
    pair.dead = 0;
    pair.run(Duration::from_secs(75));
    pair.assert_up();
}

#[test]
fn what_the_kernel_said_before_costs_nothing() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.nodes[0].handle_link(pair.now, LinkId(0), true);
    pair.nodes[0].set_link_blocked(LinkId(0), true);
    pair.nodes[0].set_link_blocked(LinkId(0), false);
    assert!(!pair.nodes[0].may_transmit());
}

#[test]
fn first_calls_of_very_many_leave_one_after_the_other() {
    let now = Time::from_ms(1000);
    let mut node = Node::new(now, config(0, 7, WireMode::Encrypted), [3; 32]).unwrap();
    for other in 1..=500 {
        let named = PeerConfig {
            name: format!("n{other}"),
            ..peer(1)
        };
        node.add_peer(now, named).unwrap();
    }
    let mut buffer = vec![0; 65_535];
    let mut sent_in = |node: &mut Node, now: Time| {
        core::iter::from_fn(|| node.poll_transmit(now, &mut buffer)).count()
    };
    assert!(sent_in(&mut node, now) <= 8);
    let mut all = 0;
    for ms in 1..100 {
        let now = now + Duration::from_millis(ms);
        node.handle_timeout(now);
        let sent = sent_in(&mut node, now);
        assert!(sent <= 100, "{sent} at {ms} ms");
        all += sent;
    }
    assert!(all >= 2 * 490, "{all}");
}

#[test]
fn states_of_paths_and_changes_of_sessions_are_told_without_a_look_at_everything() {
    let mut pair = Pair::new([
        config(0, 7, WireMode::Encrypted),
        config(1, 7, WireMode::Encrypted),
    ]);
    let states = |pair: &Pair| -> Vec<_> { pair.nodes[0].path_states(pair.peers[0]).collect() };
    let both = |state| vec![(LinkId(0), state), (LinkId(1), state)];
    assert_eq!(states(&pair), both(PathState::Untested));
    // Node 0 sorts first: its first message counts, and the number in it stays.
    let before = pair.nodes[1].sessions_generation();
    pair.run(Duration::from_millis(50));
    assert_eq!(states(&pair), both(PathState::Up));
    let after = pair.nodes[1].sessions_generation();
    assert_ne!(before, after);
    pair.run(Duration::from_secs(20));
    assert_eq!(pair.nodes[1].sessions_generation(), after);
    assert_eq!(pair.nodes[0].path_states(PeerId(7)).count(), 0);
}

/// A firewall, say, or a peer that cannot answer on the link on which it hears.
#[test]
fn handshakes_after_which_nothing_works_are_made_once_a_second() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.passes_handshakes_only = true;
    pair.run(Duration::from_secs(10));
    pair.seen.clear();
    pair.run(Duration::from_secs(20));
    let firsts = pair.seen.iter().map(|(_, _, _, bytes)| bytes);
    let firsts = firsts.filter(|bytes| bytes[0] == Kind::Init as u8);
    let numbers: BTreeSet<&[u8]> = firsts.map(|bytes| &bytes[2..6]).collect();
    assert!((5..=45).contains(&numbers.len()), "{}", numbers.len());
    pair.passes_handshakes_only = false;
    pair.run(Duration::from_secs(3));
    pair.assert_up();
}
