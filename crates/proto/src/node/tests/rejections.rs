//! One datagram that must not count: exactly one counter tells of it, nothing else
//! changes, nothing is sent.

use super::*;
use crate::crypto::{ClusterKey, HandshakeError, Identity, Initiator};
use crate::wire::{COOKIE_DATAGRAM_BYTES, Hello, Kind, MAC_BYTES, RESPONSE_BYTES, VERSION};
use ring::{hkdf, hmac};

const DATA: u8 = 0x10;

/// Hands one datagram to node 0, which has nothing to say before. Returns what it
/// has to say afterwards.
fn hand(
    pair: &mut Pair,
    reason: Rejection,
    (link, from): (u8, SocketAddr),
    bytes: &[u8],
) -> (Vec<Datagram>, Vec<Event>) {
    pair.drain(0);
    pair.events[0].clear();
    let peer = |pair: &Pair| format!("{:?}", pair.nodes[0].peer_stats(pair.peers[0]));
    let (before, peer_before) = (*pair.nodes[0].node_stats(), peer(pair));
    let mut copy = bytes.to_vec();
    pair.nodes[0].handle_datagram(pair.now, LinkId(link), from, &mut copy);
    let mut expected = before;
    expected.datagrams_received += 1;
    expected.reject(reason);
    assert_eq!(*pair.nodes[0].node_stats(), expected, "{reason:?}");
    assert_eq!(peer(pair), peer_before, "{reason:?}");
    (pair.drain(0), core::mem::take(&mut pair.events[0]))
}

/// As [`hand`]; node 0 has nothing to say.
fn rejects(pair: &mut Pair, reason: Rejection, at: (u8, SocketAddr), bytes: &[u8]) {
    let (sent, events) = hand(pair, reason, at, bytes);
    assert!(sent.is_empty(), "{reason:?}: {sent:?}");
    assert_eq!(events, [], "{reason:?}");
}

/// As [`rejects`]; but the driver is told why.
fn refuses(pair: &mut Pair, init: &[u8], why: Refusal) {
    let from = address(1, 0);
    let (sent, events) = hand(pair, Rejection::Refused, (0, from), init);
    assert!(sent.is_empty(), "{why:?}: {sent:?}");
    let link = LinkId(0);
    assert_eq!(events, [Event::Refused { link, from, why }]);
}

fn quiet_pair() -> Pair {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.run(Duration::from_millis(500));
    pair.settle();
    pair
}

/// A data packet from node 1 to node 0 that was not delivered.
fn undelivered(pair: &mut Pair) -> Datagram {
    pair.send_frame(1, frame(1000, 1));
    let sent = pair.drain(1);
    let found = sent
        .into_iter()
        .find(|(.., d)| d[0] == DATA && d.len() > 900);
    found.expect("the frame was sent")
}

fn delivered(pair: &Pair, wanted: impl Fn(&[u8]) -> bool) -> Datagram {
    let to_0 = |d: &&Datagram| d.2 == address(0, d.0.0) && wanted(&d.3);
    pair.seen.iter().find(to_0).expect("was sent").clone()
}

pub(super) fn hello(from: &str, to: &str) -> Hello {
    Hello {
        version: VERSION,
        wire: WireMode::Encrypted,
        cipher_aes: true,
        session: 77,
        from: Name::new(from).unwrap(),
        to: Name::new(to).unwrap(),
        bundle: 5,
        peer_bundle: 0,
        receive_buffer_bytes: 1 << 20,
        features: 0,
        verdict: None,
    }
}

pub(super) fn init(key: u8, hello: &Hello) -> Vec<u8> {
    let mut random = Random::from_seed([3; 32]);
    let key = ClusterKey::new([key; 32]);
    let initiator = Initiator::new(
        &key,
        &Identity::shared(hello.from),
        None,
        hello,
        &mut random,
    );
    initiator.datagram().to_vec()
}

/// `init`, which was made with [`KEY`], as another version would make it (docs/protocol.md, section 3).
pub(super) fn with_version(mut init: Vec<u8>, version: u16) -> Vec<u8> {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tabane").extract(&[KEY; 32]);
    let mut key = [0; 32];
    let okm = prk.expand(&[b"tabane mac"], hkdf::HKDF_SHA256).unwrap();
    okm.fill(&mut key).unwrap();
    init[6..8].copy_from_slice(&version.to_be_bytes());
    let end = init.len() - MAC_BYTES;
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &init[..end]);
    init[end..].copy_from_slice(mac.as_ref());
    init
}

const KEY: u8 = 7;

#[test]
fn malformed() {
    let mut pair = quiet_pair();
    let (link, from, _, packet) = undelivered(&mut pair);
    let at = (link.0, from);
    for bytes in [
        &[][..],
        &[0x7f; 100],
        &[0; 1400],
        &packet[..5],
        &packet[..12],
        &packet[..27],
        &[0x01, 0, 0, 0],
        &[0x02, 0, 0, 0],
        &[0x03],
    ] {
        rejects(&mut pair, Rejection::Malformed, at, bytes);
    }
}

#[test]
fn unknown_session() {
    let mut pair = quiet_pair();
    let (link, from, _, mut packet) = undelivered(&mut pair);
    packet[2] ^= 1;
    rejects(
        &mut pair,
        Rejection::UnknownSession,
        (link.0, from),
        &packet,
    );
    for kind_bytes in [RESPONSE_BYTES, COOKIE_DATAGRAM_BYTES] {
        let mut answer = vec![0x11; kind_bytes];
        answer[..2].copy_from_slice(&[if kind_bytes == RESPONSE_BYTES { 2 } else { 3 }, 0]);
        let at = (0, address(1, 0));
        rejects(&mut pair, Rejection::UnknownSession, at, &answer);
    }
}

#[test]
fn forged_or_altered_in_any_byte_or_cut_short() {
    let mut pair = quiet_pair();
    let (link, from, _, packet) = undelivered(&mut pair);
    let at = (link.0, from);
    // Kind, path and session are told apart before anything is opened.
    for byte in (6..packet.len()).step_by(7) {
        let mut bent = packet.clone();
        bent[byte] ^= 0x40;
        // An older number counts as that.
        if byte >= 12 {
            rejects(&mut pair, Rejection::Forged, at, &bent);
        }
    }
    rejects(
        &mut pair,
        Rejection::Forged,
        at,
        &packet[..packet.len() - 1],
    );
    rejects(&mut pair, Rejection::Forged, at, &packet[..28]);
    // And none of that has kept the genuine one from being taken.
    pair.nodes[0].handle_datagram(pair.now, link, from, &mut packet.clone());
    assert_eq!(pair.frames(0), [frame(1000, 1)]);
}

#[test]
fn replayed_and_too_old() {
    let mut pair = quiet_pair();
    let (link, from, _, packet) = delivered(&pair, |d| d[0] == DATA);
    rejects(&mut pair, Rejection::Replayed, (link.0, from), &packet);
    for _ in 0..40 {
        for n in 0..12 {
            pair.send_frame(1, frame(62_000, n));
        }
        pair.run(Duration::from_millis(20));
        assert_eq!(pair.frames(0).len(), 12);
    }
    pair.run(Duration::from_millis(500));
    rejects(&mut pair, Rejection::TooOld, (link.0, from), &packet);
}

#[test]
fn packets_of_another_link_are_told_when_there_are_several() {
    let mut pair = quiet_pair();
    let (link, _, _, packet) = undelivered(&mut pair);
    let other = 1 - link.0;
    let from = address(1, other);
    for _ in 0..2 {
        rejects(&mut pair, Rejection::WrongLink, (other, from), &packet);
    }
    let (sent, events) = hand(&mut pair, Rejection::WrongLink, (other, from), &packet);
    assert!(sent.is_empty());
    let why = Refusal::WrongLink { says: link };
    let told = Event::Refused {
        link: LinkId(other),
        from,
        why,
    };
    assert_eq!(events, [told]);
}

#[test]
fn another_key_is_told_only_of_an_address_in_the_configuration() {
    let mut pair = quiet_pair();
    let foreign = init(KEY + 1, &hello("n1", "n0"));
    let stranger = "10.77.0.66:7577".parse().unwrap();
    for _ in 0..100 {
        rejects(&mut pair, Rejection::Stranger, (0, stranger), &foreign);
        pair.now += Duration::from_millis(200);
    }
    let mut pair = quiet_pair();
    let at = (0, address(1, 0));
    for _ in 0..2 {
        rejects(&mut pair, Rejection::Stranger, at, &foreign);
    }
    let (sent, events) = hand(&mut pair, Rejection::Stranger, at, &foreign);
    assert!(sent.is_empty());
    let told = Event::Refused {
        link: LinkId(0),
        from: at.1,
        why: Refusal::Handshake(HandshakeError::WrongKey),
    };
    assert_eq!(events, [told]);
    // A flood of them is told of only so often.
    let told = (0..10_000).filter(|_| {
        let (_, events) = hand(&mut pair, Rejection::Stranger, at, &foreign);
        !events.is_empty()
    });
    assert!(told.count() < 20);
}

#[test]
fn key_holders_that_do_not_fit_are_told_with_the_reason() {
    let mut pair = quiet_pair();
    let p = &mut pair;
    let unknown = Refusal::UnknownNode("n9".into());
    refuses(p, &init(KEY, &hello("n9", "n0")), unknown);
    refuses(p, &init(KEY, &hello("n0", "n5")), Refusal::OwnName);
    let wanted = Name::new("n5").unwrap();
    let error = HandshakeError::WrongDestination { wanted };
    refuses(p, &init(KEY, &hello("n1", "n5")), Refusal::Handshake(error));
    let theirs = WireMode::Plain;
    let plain = Hello {
        wire: theirs,
        ..hello("n1", "n0")
    };
    let error = HandshakeError::WrongWire { theirs };
    refuses(p, &init(KEY, &plain), Refusal::Handshake(error));
    // Nobody has taken the peer for anybody else so far: it is asked for its key from now on.
    let (peer, public) = (p.peers[0], [5; 32]);
    p.nodes[0].set_peer_public(p.now, peer, Some(public));
    let (name, shown) = ("n1".into(), None);
    let why = Refusal::WrongIdentity { name, shown };
    refuses(p, &init(KEY, &hello("n1", "n0")), why);
}

/// The only ones that are answered: both ends are to know which version the other one speaks.
#[test]
fn key_holders_of_another_version_are_told_ours() {
    let mut pair = quiet_pair();
    let theirs = VERSION + 1;
    let newer = with_version(init(KEY, &hello("n1", "n0")), theirs);
    let from = address(1, 0);
    let (sent, events) = hand(&mut pair, Rejection::Refused, (0, from), &newer);
    let key = ClusterKey::new([KEY; 32]);
    let answer = crate::crypto::say_version(&key, hello("n1", "n0").session);
    assert_eq!(sent, [(LinkId(0), address(0, 0), from, answer)]);
    let why = Refusal::Handshake(HandshakeError::WrongVersion { theirs });
    let link = LinkId(0);
    assert_eq!(events, [Event::Refused { link, from, why }]);
}

#[test]
fn asked_for_cookie_and_too_many_with_one() {
    let mut pair = quiet_pair();
    let from = "10.77.0.66:7577".parse().unwrap();
    let mut random = Random::from_seed([3; 32]);
    let key = ClusterKey::new([KEY; 32]);
    let mut caller = Initiator::new(
        &key,
        &Identity::shared(hello("n9", "n0").from),
        None,
        &hello("n9", "n0"),
        &mut random,
    );
    let mut asked = None;
    for _ in 0..300 {
        let mut init = caller.datagram().to_vec();
        pair.nodes[0].handle_datagram(pair.now, LinkId(0), from, &mut init);
        asked = pair.drain(0).pop().or(asked);
    }
    let cookie = asked.expect("many were sent").3;
    let (sent, _) = hand(
        &mut pair,
        Rejection::AskedForCookie,
        (0, from),
        caller.datagram(),
    );
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].3, cookie);
    caller.on_cookie(&cookie).unwrap();
    for _ in 0..400 {
        let mut init = caller.datagram().to_vec();
        pair.nodes[0].handle_datagram(pair.now, LinkId(0), from, &mut init);
    }
    let with_cookie = caller.datagram().to_vec();
    rejects(
        &mut pair,
        Rejection::TooManyHandshakes,
        (0, from),
        &with_cookie,
    );
}

#[test]
fn first_messages_that_cross_or_come_back() {
    let mut pair = Pair::new([0, 1].map(|n| config(n, KEY, WireMode::Encrypted)));
    let own = pair.drain(0).remove(0).3;
    rejects(&mut pair, Rejection::Reflected, (0, address(1, 0)), &own);
    let from = address(1, 0);
    let theirs = pair.drain(1).remove(0).3;
    let (_, events) = hand(&mut pair, Rejection::Crossed, (0, from), &theirs);
    assert_eq!(events, []);
}

/// Both call, and each answers the other one, while nothing else gets through: they are of one state even so.
#[test]
fn what_was_sent_after_one_answer_is_not_lost_by_the_other() {
    for lost_for_ms in [50, 550, 700, 1200, 2600] {
        let mut pair = Pair::new([0, 1].map(|n| config(n, KEY, WireMode::Encrypted)));
        pair.send_messages();
        pair.passes_handshakes_only = true;
        pair.run(Duration::from_millis(lost_for_ms));
        pair.passes_handshakes_only = false;
        pair.run(Duration::from_secs(4));
        assert_eq!(pair.messages_that_came(), [1; 2], "{lost_for_ms} ms");
    }
}

/// Both have called in vain for so long that neither call counts for more. The first of them calls again, and so does the
/// other one so many milliseconds later.
fn assert_meet_when_calls_cross(restarts: Option<usize>, first: usize, later_ms: u32) {
    let case = format!("{restarts:?} restarts, {first} is first by {later_ms} ms");
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.dead = 0b11;
    pair.send_messages();
    pair.run(Duration::from_secs(20));
    if let Some(node) = restarts {
        pair.restart(node);
    }
    for node in &mut pair.nodes {
        node.call_absent(pair.now);
    }
    pair.run(Duration::from_millis(1500));
    pair.dead = 0;
    pair.nodes[first].call_absent(pair.now);
    pair.run_slowly(later_ms);
    pair.nodes[1 - first].call_absent(pair.now);
    pair.run_slowly(500);
    assert_eq!([0, 1].map(|n| pair.state(n)), [PeerState::Up; 2], "{case}");
    let expected = usize::from(restarts.is_none());
    assert_eq!(pair.messages_that_came(), [expected; 2], "{case}");
    pair.carries(1);
    pair.run(Duration::from_secs(3));
    pair.assert_up();
    pair.carries(2);
}

/// Each answers the other one, and takes the answer to its own call: they are of one session even so.
#[test]
fn calls_that_cross_late_end_in_one_session() {
    for restarts in [None, Some(0), Some(1)] {
        for later_ms in 0..5 {
            assert_meet_when_calls_cross(restarts, 0, later_ms);
            assert_meet_when_calls_cross(restarts, 1, later_ms);
        }
    }
}

/// Both have called in vain for so long that neither call counts for more, and both calls come through at once: in whichever
/// order datagrams arrive, they end with one session. (Each kept the other's keys once, and both forgot three
/// seconds later what the other one used.)
#[test]
fn calls_that_cross_in_any_order_end_in_one_session() {
    for seed in 0..=255 {
        let mut random = Random::from_seed([seed; 32]);
        let mut pair = Pair::connected(WireMode::Encrypted);
        pair.dead = 0b11;
        pair.send_messages();
        pair.run(Duration::from_secs(20));
        pair.call_and_cross(&mut random);
        pair.dead = 0;
        // Longer than former keys are kept.
        pair.run(Duration::from_secs(4));
        pair.send_messages();
        pair.run(Duration::from_millis(20));
        assert_eq!(pair.messages_that_came(), [2; 2], "seed {seed}");
    }
}

#[test]
fn answers_to_a_handshake_that_is_over() {
    let mut pair = quiet_pair();
    let late = |pair: &Pair, node: usize| {
        let to = |d: &&Datagram| d.3.len() == RESPONSE_BYTES && d.2 == address(node, d.0.0);
        pair.seen.iter().find(to).cloned()
    };
    // The node whose name sorts first begins.
    let (link, from, _, response) = late(&pair, 0).expect("node 0 was answered");
    rejects(&mut pair, Rejection::Stale, (link.0, from), &response);
}

/// Somebody on the wire repeats a first message of before after every datagram.
#[test]
fn a_recorded_first_message_puts_no_handshake_out_of_place() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let anew = |pair: &mut Pair| {
        pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
        pair.drain(0);
        pair.peers[0] = pair.nodes[0].add_peer(pair.now, peer(1)).unwrap();
    };
    // With a session at stake the peer asks for a cookie: the last first message has one.
    anew(&mut pair);
    pair.seen.clear();
    pair.run(Duration::from_millis(50));
    pair.assert_up();
    let is_first = |d: &&Datagram| d.1 == address(0, d.0.0) && d.3[0] == Kind::Init as u8;
    let recorded = pair.seen.iter().rfind(is_first).unwrap().clone();
    anew(&mut pair);
    for _ in 0..8 {
        for (link, from, _, mut bytes) in pair.drain(0) {
            pair.nodes[1].handle_datagram(pair.now, link, from, &mut bytes);
            let (link, from, _, mut bytes) = recorded.clone();
            pair.nodes[1].handle_datagram(pair.now, link, from, &mut bytes);
        }
        for (link, from, _, mut bytes) in pair.drain(1) {
            pair.nodes[0].handle_datagram(pair.now, link, from, &mut bytes);
        }
    }
    pair.assert_up();
}

#[test]
fn nothing_is_sent_to_port_0() {
    let mut pair = quiet_pair();
    let nobody = SocketAddr::new(address(1, 0).ip(), 0);
    let init = init(7, &hello("n1", "n0"));
    rejects(&mut pair, Rejection::Malformed, (0, nobody), &init);
    let (_, _, _, packet) = undelivered(&mut pair);
    rejects(&mut pair, Rejection::Malformed, (0, nobody), &packet);
}
