//! Nodes with key pairs: who is accepted under a name, and what changes while they run.

use super::*;
use crate::bundle::KEY_REMOVED_GRACE;
use crate::crypto::{HandshakeError, IdentityError, PrivateKey, PublicKey, public_key};

const KEY: u8 = 7;

/// The private key of each node; 2 is a third one.
fn private(node: usize) -> PrivateKey {
    [node as u8 + 0x41; 32]
}

fn public(node: usize) -> PublicKey {
    public_key(&private(node))
}

/// One end: the key it holds, and the public keys of nodes 0 and 1 in its file.
#[derive(Clone, Copy, Debug)]
struct End {
    private: Option<PrivateKey>,
    file: [Option<PublicKey>; 2],
}

fn end(holds: Option<usize>, file: [Option<usize>; 2]) -> End {
    End {
        private: holds.map(private),
        file: file.map(|node| node.map(public)),
    }
}

/// Holds its own key, and has both in its file.
fn good(node: usize) -> End {
    end(Some(node), [Some(0), Some(1)])
}

/// The two nodes, which have not said anything yet.
fn pair_of(ends: [End; 2]) -> Pair {
    let with = |node: usize| NodeConfig {
        private: ends[node].private,
        public: ends[node].file[node],
        ..config(node, KEY, WireMode::Encrypted)
    };
    let mut pair = Pair::new([with(0), with(1)]);
    for node in [0, 1] {
        let of_peer = ends[node].file[1 - node];
        pair.nodes[node].set_peer_public(pair.now, pair.peers[node], of_peer);
    }
    pair
}

fn shown(pair: &Pair, node: usize) -> Option<PublicKey> {
    let stats = pair.nodes[node].peer_stats(pair.peers[node]);
    stats.expect("is a peer").public
}

fn refused(pair: &Pair, node: usize, why: &Refusal) -> bool {
    let same = |e: &Event| matches!(e, Event::Refused { why: told, .. } if told == why);
    pair.events[node].iter().any(same)
}

fn wrong_identity(shown: Option<PublicKey>) -> Refusal {
    let name = "n1".into();
    Refusal::WrongIdentity { name, shown }
}

#[test]
fn nodes_connect_with_and_without_key_pairs_and_know_whom_they_have() {
    for file in [
        [None, None],
        [Some(0), None],
        [None, Some(1)],
        [Some(0), Some(1)],
    ] {
        for holds in [
            [None, None],
            [Some(0), None],
            [None, Some(1)],
            [Some(0), Some(1)],
        ] {
            if (0..2).any(|n| file[n].is_some() && holds[n].is_none()) {
                continue;
            }
            let mut pair = pair_of([end(holds[0], file), end(holds[1], file)]);
            pair.run(Duration::from_millis(50));
            pair.assert_up();
            for node in [0, 1] {
                assert_eq!(shown(&pair, node), file[1 - node].map(public), "{file:?}");
            }
            pair.carries(1);
            let proof = u8::from(file != [None, None]);
            let is_init = |d: &&Datagram| d.3.len() == INIT_BYTES;
            let init = pair.seen.iter().find(is_init).expect("one began");
            assert_eq!(init.3[8] != 0, proof != 0, "{file:?}");
        }
    }
}

/// While the file is brought to one node after the other.
#[test]
fn nodes_of_which_one_has_an_older_file_connect() {
    let files = [
        [None, None],
        [Some(0), None],
        [None, Some(1)],
        [Some(0), Some(1)],
    ];
    for left in files {
        for right in files {
            let mut pair = pair_of([end(Some(0), left), end(Some(1), right)]);
            pair.run(Duration::from_secs(4));
            pair.assert_up();
            pair.carries(1);
        }
    }
}

#[test]
fn nobody_poses_as_a_node_whose_key_it_does_not_hold() {
    let everybodys = [None, Some(1)];
    // Node 1 is an impostor: it has the cluster key, and its file says what suits it.
    let impostors = [
        ("shows the cluster key alone", end(None, [None, None]), None),
        (
            "shows the key of its name",
            end(None, [Some(0), None]),
            None,
        ),
        (
            "has the file of node 2",
            end(Some(2), [Some(0), Some(2)]),
            Some(public(2)),
        ),
        (
            "has the key of the one it calls",
            end(Some(0), [Some(0), Some(0)]),
            Some(public(0)),
        ),
    ];
    for (what, impostor, shows) in impostors {
        for (holds, file) in [(Some(0), [Some(0), Some(1)]), (None, everybodys)] {
            let mut pair = pair_of([end(holds, file), impostor]);
            pair.run(Duration::from_secs(12));
            assert_eq!(pair.state(0), PeerState::Connecting, "{what}");
            let up = |e: &Event| matches!(e, Event::PeerUp { .. });
            assert!(!pair.events[0].iter().any(up), "{what}");
            assert!(!pair.events[1].iter().any(up), "{what}: node 0 answered");
            if holds.is_some() && what != "has the key of the one it calls" {
                assert!(refused(&pair, 0, &wrong_identity(shows)), "{what}");
            }
        }
    }
}

#[test]
fn a_node_is_told_that_others_look_for_another_key_than_its_own() {
    let mut pair = pair_of([end(Some(0), [Some(0), Some(2)]), good(1)]);
    pair.run(Duration::from_secs(3));
    let error = HandshakeError::NotThisKey;
    assert!(refused(&pair, 1, &Refusal::Handshake(error)));
    assert!(refused(&pair, 0, &wrong_identity(Some(public(1)))));
    assert_eq!([pair.state(0), pair.state(1)], [PeerState::Connecting; 2]);
}

#[test]
fn a_session_goes_on_when_its_peer_gets_a_public_key_and_shows_it() {
    for order in [[0, 1], [1, 0]] {
        for pace_ms in [0, 1, 300, 20_000] {
            let mut pair = pair_of([end(None, [None, None]), end(None, [None, None])]);
            pair.run(Duration::from_millis(50));
            pair.events = Default::default();
            for (salt, node) in (1..).zip(order) {
                let (own, theirs) = (public(node), public(1 - node));
                let n = &mut pair.nodes[node];
                n.set_identity(pair.now, Some(private(node)), Some(own))
                    .unwrap();
                n.set_peer_public(pair.now, pair.peers[node], Some(theirs));
                pair.run(Duration::from_millis(pace_ms));
                pair.carries(salt);
            }
            pair.run(KEY_REMOVED_GRACE * 2);
            pair.carries(9);
            for node in [0, 1] {
                assert_eq!(shown(&pair, node), Some(public(1 - node)));
            }
            let down = |e: &&Event| matches!(e, Event::PeerDown { .. });
            assert_eq!(pair.events.iter().flatten().find(down), None);
        }
    }
}

#[test]
fn a_session_ends_when_its_peer_gets_a_public_key_that_it_does_not_hold() {
    let mut pair = pair_of([good(0), good(1)]);
    pair.run(Duration::from_millis(50));
    pair.carries(1);
    pair.nodes[0].set_peer_public(pair.now, pair.peers[0], Some(public(2)));
    pair.run(KEY_REMOVED_GRACE - Duration::from_secs(1));
    pair.carries(2);
    pair.run(Duration::from_secs(2));
    pair.assert_ended_by_key();
    // Its key was replaced there, too: now the two files say the same.
    let node = &mut pair.nodes[1];
    node.set_identity(pair.now, Some(private(2)), Some(public(2)))
        .unwrap();
    pair.run(Duration::from_secs(3));
    pair.assert_up();
    assert_eq!(shown(&pair, 0), Some(public(2)));
}

#[test]
fn a_revoked_node_is_refused_though_it_has_all_its_keys() {
    let mut pair = pair_of([good(0), good(1)]);
    pair.run(Duration::from_millis(50));
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    pair.run(Duration::from_secs(3));
    assert!(refused(&pair, 0, &Refusal::UnknownNode("n1".into())));
    assert_eq!(pair.state(1), PeerState::Connecting);
}

#[test]
fn keys_are_renewed_under_what_is_carried() {
    let mut pair = pair_of([good(0), good(1)]);
    pair.run(Duration::from_millis(50));
    pair.events = Default::default();
    let first = pair.nodes[0].peer_stats(pair.peers[0]).unwrap();
    pair.run(crate::crypto::REKEY_AFTER + Duration::from_secs(5));
    pair.carries(3);
    let last = pair.nodes[0].peer_stats(pair.peers[0]).unwrap();
    assert!(last.session_since > first.session_since);
    let changed = |e: &&Event| matches!(e, Event::PeerDown { .. } | Event::PeerUp { .. });
    assert_eq!(pair.events.iter().flatten().find(changed), None);
}

#[test]
fn a_recorded_first_message_with_keys_changes_nothing() {
    let mut pair = pair_of([good(0), good(1)]);
    pair.run(Duration::from_millis(50));
    let recorded: Vec<_> = pair.seen.drain(..).filter(|d| d.3[0] == 1).collect();
    let before = pair.nodes[1].peer_stats(pair.peers[1]).unwrap();
    let elsewhere = "10.77.0.99:1".parse().unwrap();
    for (link, from, to, mut bytes) in recorded {
        let node = usize::from(to == address(1, link.0));
        for from in [from, elsewhere] {
            pair.nodes[node].handle_datagram(pair.now, link, from, &mut bytes);
        }
        let answers = pair.drain(node);
        let full = |d: &&Datagram| d.3[0] == 2;
        assert_eq!(answers.iter().find(full), None);
    }
    pair.run(Duration::from_secs(2));
    pair.carries(4);
    let after = pair.nodes[1].peer_stats(pair.peers[1]).unwrap();
    assert_eq!(after.session_since, before.session_since);
}

/// By a network that loops. A first message with keys is for the peer's eyes only.
#[test]
fn what_a_node_sent_itself_is_nobody_elses() {
    for file in [[None, None], [Some(0), None], [Some(0), Some(1)]] {
        let mut pair = pair_of([end(Some(0), file), end(Some(1), file)]);
        let (link, from, _, mut own) = pair.drain(0).remove(0);
        pair.nodes[0].handle_datagram(pair.now, link, from, &mut own);
        let rejected = |reason| pair.nodes[0].node_stats().rejected(reason);
        assert_eq!(rejected(Rejection::Reflected), 1, "{file:?}");
        assert_eq!(rejected(Rejection::Refused), 0, "{file:?}");
    }
}

#[test]
fn a_node_does_not_start_with_a_key_that_is_not_its_public_one() {
    let with = |private, public| NodeConfig {
        private,
        public,
        ..config(0, KEY, WireMode::Encrypted)
    };
    let new = |config| Node::new(Time::ZERO, config, [1; 32]).err();
    let missing = ConfigError::Identity(IdentityError::NoPrivateKey);
    assert_eq!(new(with(None, Some(public(0)))), Some(missing));
    let ours = public(1);
    let other = ConfigError::Identity(IdentityError::OtherPrivateKey { ours });
    assert_eq!(
        new(with(Some(private(1)), Some(public(0)))),
        Some(other.clone())
    );
    let mut pair = pair_of([good(0), good(1)]);
    let node = &mut pair.nodes[0];
    let set = node.set_identity(pair.now, Some(private(1)), Some(public(0)));
    assert_eq!(set, Err(other));
    pair.run(Duration::from_millis(50));
    pair.assert_up();
}

#[test]
fn who_calls_in_another_version_is_told_ours_in_fewer_bytes_and_not_endlessly() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let stranger = "10.77.0.99:7577".parse().unwrap();
    let hello = super::rejections::hello("n5", "n0");
    let other = super::rejections::with_version(super::rejections::init(KEY, &hello), 9);
    for _ in 0..1000 {
        let mut bytes = other.clone();
        pair.nodes[0].handle_datagram(pair.now, LinkId(0), stranger, &mut bytes);
    }
    let answers = pair.drain(0);
    assert!((1..=16).contains(&answers.len()), "{}", answers.len());
    assert!(
        answers
            .iter()
            .all(|d| d.2 == stranger && d.3.len() < other.len() / 4)
    );
    let theirs = 9;
    let error = HandshakeError::WrongVersion { theirs };
    assert!(refused(&pair, 0, &Refusal::Handshake(error)));
}

/// The answer of a node of another version to a first message of ours.
#[test]
fn a_node_that_answers_in_another_version_is_named() {
    let mut pair = pair_of([good(0), good(1)]);
    let init = pair.drain(0).remove(0).3;
    let key = ClusterKey::new([KEY; 32]);
    let session = u32::from_be_bytes(init[2..6].try_into().unwrap());
    let ours = crate::crypto::say_version(&key, session);
    let mut theirs = super::rejections::with_version(ours, 3);
    pair.nodes[0].handle_datagram(pair.now, LinkId(0), address(1, 0), &mut theirs);
    pair.drain(0);
    let error = HandshakeError::WrongVersion { theirs: 3 };
    assert!(refused(&pair, 0, &Refusal::Handshake(error)));
    pair.run(Duration::from_secs(3));
    pair.assert_up();
}
