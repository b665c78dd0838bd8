//! Content that is meant for one link, beside other content.

use super::*;

const BYTES: usize = 500_000;

#[test]
fn a_stream_goes_over_the_link_it_is_meant_for_while_that_works() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    for link in [0, 1] {
        assert_eq!(pair.carry_by(BYTES, Policy::Link(LinkId(link))), 1 << link);
    }
    pair.dead = 0b10;
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.carry_by(BYTES, Policy::Link(LinkId(1))), 0b01);
    // It is back.
    pair.dead = 0;
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.carry_by(BYTES, Policy::Link(LinkId(1))), 0b10);
}

#[test]
fn a_link_that_dies_amid_a_stream_that_is_meant_for_it_holds_it_back_for_a_moment() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.dead = 0b10;
    assert_ne!(pair.carry_by(BYTES, Policy::Link(LinkId(1))) & 0b01, 0);
}

#[test]
fn no_such_link_is_any_link() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    for link in [7, 8, 200] {
        assert_eq!(pair.carry_by(BYTES, Policy::Link(LinkId(link))), 0b11);
    }
}

#[test]
fn who_is_meant_for_a_link_and_who_may_use_any_do_not_hold_each_other_back() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let (now, to) = (pair.now, pair.peers[0]);
    // Nobody reads these, so they have something to send all the time.
    for policy in [
        Policy::Stripe,
        Policy::Link(LinkId(0)),
        Policy::Link(LinkId(1)),
    ] {
        let stream = pair.nodes[0].open_stream(now, to, 1, policy).unwrap();
        for _ in 0..100 {
            let _ = pair.nodes[0].write_stream(now, to, stream, &[7; 64 << 10]);
        }
    }
    assert_eq!(pair.carry_by(BYTES, Policy::Stripe), 0b11);
    for link in [0, 1] {
        let links = pair.carry_by(BYTES, Policy::Link(LinkId(link)));
        assert_ne!(links & 1 << link, 0);
    }
}

#[test]
fn a_frame_goes_over_the_link_it_is_meant_for() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    for (flow, link) in [(3, 0), (3, 1), (4, 1), (4, 0), (3, 0)] {
        let before = pair.seen.len();
        let policy = Policy::Link(LinkId(link));
        let sent =
            pair.nodes[0].send_frame(pair.now, pair.peers[0], (flow, policy), frame(1200, 1));
        assert_eq!(sent, Ok(()));
        pair.run(Duration::from_millis(5));
        assert_eq!(pair.frames(1), [frame(1200, 1)]);
        let full = pair.seen[before..]
            .iter()
            .filter(|(.., bytes)| bytes.len() > 1000);
        let links: Vec<u8> = full.map(|(link, ..)| link.0).collect();
        assert_eq!(links, [link], "flow {flow}");
    }
}

#[test]
fn another_policy_holds_for_what_waits_already() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let (now, to) = (pair.now, pair.peers[0]);
    let stream = pair.nodes[0].open_stream(now, to, 1, Policy::Link(LinkId(0)));
    let stream = stream.unwrap();
    for link in [1, 0, 1] {
        let written = pair.nodes[0].write_stream(pair.now, to, stream, &[7; 5000]);
        assert_eq!(written, Ok(5000));
        let set = pair.nodes[0].set_stream_policy(to, stream, Policy::Link(LinkId(link)));
        assert_eq!(set, Ok(()));
        let before = pair.seen.len();
        pair.run(Duration::from_millis(5));
        let full = pair.seen[before..]
            .iter()
            .filter(|(.., bytes)| bytes.len() > 1000);
        assert!(full.clone().count() > 0);
        assert!(full.clone().all(|(of, ..)| of.0 == link));
    }
}

#[test]
fn a_mirrored_frame_outlives_a_link_without_a_gap() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    for dead in [0b01, 0b10] {
        pair.dead = dead;
        for n in 0..5 {
            let to = pair.peers[0];
            let sent = pair.nodes[0].send_frame(pair.now, to, (3, Policy::Mirror), frame(5000, n));
            assert_eq!(sent, Ok(()));
            pair.settle();
            assert!(
                pair.frames(1) == [frame(5000, n)],
                "frame {n} at once, before the link is known to be dead"
            );
            pair.run(Duration::from_millis(1));
        }
        pair.dead = 0;
        pair.run(Duration::from_secs(5));
    }
}
