//! The handshake end to end, and what it must refuse.

use super::*;
use crate::wire::{
    HEADER_BYTES, HandshakeHeader, Header, Hello, INIT_BYTES, Name, Reader, VERSION, WireMode,
    Writer,
};
use crate::{Random, Time};
use std::net::SocketAddr;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn hello(from: &str, to: &str) -> Hello {
    Hello {
        version: VERSION,
        wire: WireMode::Encrypted,
        cipher_aes: true,
        session: 0x1111_0000 + from.len() as u32,
        from: name(from),
        to: name(to),
        bundle: 5,
        peer_bundle: 0,
        receive_buffer_bytes: 8 << 20,
        features: 0,
        verdict: None,
    }
}

fn shared(text: &str) -> Identity {
    Identity::shared(name(text))
}

/// A first message that shows the cluster key alone.
fn ask(hello: &Hello, random: &mut Random) -> Initiator {
    let identity = Identity::shared(hello.from);
    Initiator::new(&key(), &identity, None, hello, random)
}

fn key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

fn random() -> Random {
    Random::from_seed([4; 32])
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Both ends' keys after a handshake of `a` (initiator) and `b`.
fn shake(a: &Hello, b: &Hello) -> (SessionKeys, SessionKeys) {
    shake_as(a, b, [&shared("n0"), &shared("n1")], None)
}

/// The same between nodes that may have key pairs; the initiator knows `public` of `b`.
fn shake_as(
    a: &Hello,
    b: &Hello,
    identities: [&Identity; 2],
    public: Option<PublicKey>,
) -> (SessionKeys, SessionKeys) {
    let mut random = random();
    let mut initiator = Initiator::new(&key(), identities[0], public, a, &mut random);
    let init = initiator.datagram();
    let (heard, responder) = Responder::read(&key(), identities[1], init, &mut random).unwrap();
    assert_eq!(heard, *a);
    let (response, theirs) = responder.respond(b);
    assert!(response.len() <= initiator.datagram().len());
    let (heard, ours) = initiator.on_response(&response).unwrap();
    assert_eq!(heard, *b);
    (ours, theirs)
}

/// A packet of 100 payload bytes, unsealed.
fn packet(keys: &SessionKeys, path: u8, number: u64) -> Vec<u8> {
    let mut packet = vec![0; HEADER_BYTES + 100 + keys.trailer_bytes];
    let mut w = Writer::new(&mut packet);
    let session = 77;
    Header {
        path,
        session,
        number,
    }
    .write(&mut w);
    (0..100).for_each(|i| w.u8(i));
    packet
}

fn modes() -> Vec<(SessionKeys, SessionKeys)> {
    [
        (WireMode::Encrypted, true),
        (WireMode::Encrypted, false),
        (WireMode::Plain, true),
    ]
    .into_iter()
    .map(|(wire, cipher_aes)| {
        let a = Hello {
            wire,
            ..hello("n0", "n1b")
        };
        let b = Hello {
            wire,
            cipher_aes,
            ..hello("n1b", "n0")
        };
        shake(&a, &b)
    })
    .collect()
}

#[test]
fn what_one_end_seals_the_other_opens_in_all_wire_modes() {
    for (a, b) in modes() {
        for (from, to) in [(&a, &b), (&b, &a)] {
            let mut packet = packet(from, 3, 1 << 40);
            from.seal.seal(&mut packet);
            let payload = to.open.open(&mut packet).unwrap();
            assert_eq!(payload.len(), 100);
            assert!((0..100).all(|i| payload[usize::from(i)] == i));
        }
    }
}

#[test]
fn ciphers_are_chosen_by_both_ends() {
    let names: Vec<_> = modes().iter().map(|(a, _)| a.seal.cipher()).collect();
    assert_eq!(names, ["AES-128-GCM", "ChaCha20-Poly1305", "plain"]);
}

#[test]
fn a_packet_altered_anywhere_is_refused() {
    for (a, b) in modes() {
        let mut sealed = packet(&a, 0, 1);
        a.seal.seal(&mut sealed);
        // In the clear it is UDP that sees whether records were altered.
        let first = match a.seal.cipher() {
            "plain" => sealed.len() - a.trailer_bytes,
            _ => 0,
        };
        for at in first..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 0x20;
            assert_eq!(b.open.open(&mut altered), Err(OpenError::NotAuthentic));
        }
        for len in 0..sealed.len() {
            assert!(b.open.open(&mut sealed[..len].to_vec()).is_err());
        }
    }
}

#[test]
fn a_packet_is_not_opened_by_its_sender_or_another_session() {
    for ((a, _), (other, _)) in modes().into_iter().zip(modes()) {
        let mut sealed = packet(&a, 0, 1);
        a.seal.seal(&mut sealed);
        assert!(a.open.open(&mut sealed.clone()).is_err());
        assert!(other.open.open(&mut sealed).is_err());
    }
}

#[test]
fn path_and_number_are_part_of_the_nonce() {
    let (a, _) = shake(&hello("n0", "n1b"), &hello("n1b", "n0"));
    let sealed = |path, number| {
        let mut packet = packet(&a, path, number);
        a.seal.seal(&mut packet);
        packet[HEADER_BYTES..].to_vec()
    };
    assert_ne!(sealed(0, 1), sealed(1, 1));
    assert_ne!(sealed(0, 1), sealed(0, 2));
    assert_eq!(sealed(0, 1), sealed(0, 1));
}

#[test]
fn only_holders_of_the_key_are_heard() {
    let initiator = ask(&hello("n0", "n1"), &mut random());
    let stranger = ClusterKey::new([8; 32]);
    assert!(init_is_from_key_holder(&key(), initiator.datagram()));
    assert!(!init_is_from_key_holder(&stranger, initiator.datagram()));
    let refused = Responder::read(
        &stranger,
        &shared("n1"),
        initiator.datagram(),
        &mut random(),
    );
    assert_eq!(refused.err(), Some(HandshakeError::WrongKey));
    assert!(!init_is_from_key_holder(&key(), &[]));
    assert!(!init_is_from_key_holder(&key(), &[1; 9000]));
}

#[test]
fn another_version_is_named() {
    let initiator = ask(&hello("n0", "n1"), &mut random());
    let mut datagram = initiator.datagram().to_vec();
    datagram[6..8].copy_from_slice(&9u16.to_be_bytes());
    key().sign(&mut datagram);
    let refused = Responder::read(&key(), &shared("n1"), &datagram, &mut random());
    assert_eq!(
        refused.err(),
        Some(HandshakeError::WrongVersion { theirs: 9 })
    );
}

#[test]
fn wrong_wire_and_wrong_names_are_told_apart() {
    let said = hello("n0", "n1");
    assert_eq!(said.check(&name("n1"), WireMode::Encrypted), Ok(()));
    assert_eq!(
        said.check(&name("n1"), WireMode::Plain),
        Err(HandshakeError::WrongWire {
            theirs: WireMode::Encrypted
        })
    );
    assert_eq!(
        said.check(&name("n2"), WireMode::Encrypted),
        Err(HandshakeError::WrongDestination { wanted: name("n1") })
    );

    let mut initiator = ask(&said, &mut random());
    let (_, responder) =
        Responder::read(&key(), &shared("n1"), initiator.datagram(), &mut random()).unwrap();
    let (response, _) = responder.respond(&hello("n2", "n0"));
    assert_eq!(
        initiator.on_response(&response).err(),
        Some(HandshakeError::WrongPeer {
            answered: name("n2")
        })
    );
}

#[test]
fn wrong_responses_leave_the_initiator_usable() {
    let mut random = random();
    let said = hello("n0", "n1");
    let mut initiator = ask(&said, &mut random);
    let (_, responder) =
        Responder::read(&key(), &shared("n1"), initiator.datagram(), &mut random).unwrap();
    let (response, _) = responder.respond(&hello("n1", "n0"));

    // Altered anywhere, with and without a right MAC; the answer to another handshake; cut off.
    for at in 0..response.len() {
        let mut altered = response.clone();
        altered[at] ^= 1;
        assert!(initiator.on_response(&altered).is_err());
        key().sign(&mut altered);
        if altered != response {
            assert!(initiator.on_response(&altered).is_err());
        }
        assert!(initiator.on_response(&response[..at]).is_err());
    }
    let other = ask(&said, &mut random);
    let (_, responder) =
        Responder::read(&key(), &shared("n1"), other.datagram(), &mut random).unwrap();
    let (stale, _) = responder.respond(&hello("n1", "n0"));
    assert_eq!(
        initiator.on_response(&stale).err(),
        Some(HandshakeError::NotThisHandshake)
    );

    assert!(initiator.on_response(&response).is_ok());
    assert_eq!(
        initiator.on_response(&response).err(),
        Some(HandshakeError::NotThisHandshake)
    );
}

#[test]
fn cookies_are_for_one_init_one_address_and_four_minutes() {
    let mut random = random();
    let mut jar = CookieJar::new(&mut random, Time::ZERO);
    let here = address("10.77.0.1:7577");
    let mut initiator = ask(&hello("n0", "n1"), &mut random);
    assert!(!jar.valid(Time::ZERO, here, initiator.datagram()));

    let now = Time::from_ms(119_000);
    let cookie = jar.make(now, here, initiator.datagram(), &key()).unwrap();
    assert!(cookie.len() <= INIT_BYTES);
    initiator.on_cookie(&cookie).unwrap();
    let init = initiator.datagram();
    assert!(init_is_from_key_holder(&key(), init));
    assert!(Responder::read(&key(), &shared("n1"), init, &mut random).is_ok());
    assert!(jar.valid(now, here, init));
    assert!(!jar.valid(now, address("10.77.0.2:7577"), init));
    assert!(!jar.valid(now, address("10.77.0.1:7578"), init));
    assert!(!jar.valid(now, address("[::1]:7577"), init));
    assert!(jar.valid(Time::from_ms(121_000), here, init));
    assert!(!jar.valid(Time::from_ms(245_000), here, init));

    let mut other = ask(&hello("n0", "n1"), &mut random);
    other.on_cookie(&cookie).unwrap();
    assert!(!jar.valid(now, here, other.datagram()));
}

#[test]
fn a_jar_unused_for_long_forgets_both_secrets() {
    let mut random = random();
    let mut jar = CookieJar::new(&mut random, Time::ZERO);
    let here = address("10.77.0.1:7577");
    let mut initiator = ask(&hello("n0", "n1"), &mut random);
    let cookie = jar
        .make(Time::ZERO, here, initiator.datagram(), &key())
        .unwrap();
    initiator.on_cookie(&cookie).unwrap();
    assert!(!jar.valid(Time::from_ms(240_000), here, initiator.datagram()));
}

#[test]
fn cookies_of_strangers_or_other_handshakes_change_nothing() {
    let mut random = random();
    let mut jar = CookieJar::new(&mut random, Time::ZERO);
    let here = address("10.77.0.1:7577");
    let mut initiator = ask(&hello("n0", "n1"), &mut random);
    let before = initiator.datagram().to_vec();
    let stranger = ClusterKey::new([1; 32]);
    let cookie = jar.make(Time::ZERO, here, &before, &stranger).unwrap();
    assert_eq!(initiator.on_cookie(&cookie), Err(HandshakeError::WrongKey));
    let longer = ask(&hello("node", "n1"), &mut random);
    let cookie = jar
        .make(Time::ZERO, here, longer.datagram(), &key())
        .unwrap();
    assert_eq!(
        initiator.on_cookie(&cookie),
        Err(HandshakeError::NotThisHandshake)
    );
    assert!(jar.make(Time::ZERO, here, &[1; 40], &key()).is_none());
    assert_eq!(initiator.datagram(), before);
}

#[test]
fn all_randomness_comes_from_the_seed() {
    let datagram = |seed| {
        let mut random = Random::from_seed([seed; 32]);
        let initiator = ask(&hello("n0", "n1"), &mut random);
        initiator.datagram().to_vec()
    };
    assert_eq!(datagram(1), datagram(1));
    assert_ne!(datagram(1), datagram(2));
}

#[test]
fn the_clear_header_is_what_a_node_routes_by() {
    let initiator = ask(&hello("n0", "n1"), &mut random());
    let header = HandshakeHeader::read(&mut Reader::new(initiator.datagram())).unwrap();
    assert_eq!(header.session, hello("n0", "n1").session);
    assert_eq!(header.version, VERSION);
}

/// A node with the key pair of these bytes.
fn holder(text: &str, private: u8) -> Identity {
    let public = public_key(&[private; 32]);
    Identity::new(name(text), Some([private; 32]), Some(public)).unwrap()
}

#[test]
fn each_end_knows_the_key_of_the_other() {
    let (n0, n1) = (holder("n0", 1), holder("n1", 2));
    let named = |text: &str| public_key(&key().private_of(&name(text)));
    let cases = [
        (&shared("n0"), &shared("n1"), None, [None, None]),
        (
            &n0,
            &n1,
            Some(public_key(&[2; 32])),
            [Some(public_key(&[1; 32])), Some(public_key(&[2; 32]))],
        ),
        (
            &n0,
            &shared("n1"),
            None,
            [Some(public_key(&[1; 32])), Some(named("n1"))],
        ),
        (
            &n0,
            &n1,
            None,
            [Some(public_key(&[1; 32])), Some(named("n1"))],
        ),
        (
            &shared("n0"),
            &n1,
            Some(public_key(&[2; 32])),
            [Some(named("n0")), Some(public_key(&[2; 32]))],
        ),
    ];
    for (a, b, public, [of_a, of_b]) in cases {
        let (said, answer) = (hello("n0", "n1"), hello("n1", "n0"));
        let mut random = random();
        let mut initiator = Initiator::new(&key(), a, public, &said, &mut random);
        let init = initiator.datagram();
        assert_eq!(init.len(), INIT_BYTES);
        let (heard, responder) = Responder::read(&key(), b, init, &mut random).unwrap();
        assert_eq!((heard, responder.peer()), (said, of_a));
        let (response, theirs) = responder.respond(&answer);
        // Wrong ones first: they leave the initiator as it was.
        for at in [8, 40, 100, response.len() - 40] {
            let mut altered = response.clone();
            altered[at] ^= 1;
            key().sign(&mut altered);
            let refused = initiator.on_response(&altered).err();
            assert_eq!(refused, Some(HandshakeError::NotThisHandshake));
        }
        let (heard, ours) = initiator.on_response(&response).unwrap();
        assert_eq!((heard, initiator.peer()), (answer, of_b));
        let mut packet = packet(&ours, 0, 1);
        ours.seal.seal(&mut packet);
        assert!(theirs.open.open(&mut packet).is_ok());
    }
}

#[test]
fn only_the_holder_of_the_key_that_is_meant_reads_a_first_message() {
    let mut random = random();
    let n0 = holder("n0", 1);
    let means =
        |public| Initiator::new(&key(), &n0, public, &hello("n0", "n1"), &mut self::random());
    let init = means(Some(public_key(&[2; 32])));
    let mut read = |identity: &Identity, init: &Initiator| {
        Responder::read(&key(), identity, init.datagram(), &mut random).err()
    };
    assert_eq!(read(&holder("n1", 2), &init), None);
    let refused = Some(HandshakeError::NotThisKey);
    assert_eq!(read(&holder("n1", 3), &init), refused);
    assert_eq!(read(&shared("n1"), &init), refused);
    let to_anyone = means(None);
    assert_eq!(read(&holder("n1", 3), &to_anyone), None);
    assert_eq!(read(&shared("n1"), &to_anyone), None);
    assert_eq!(read(&shared("n2"), &to_anyone), refused);
}

#[test]
fn the_proof_is_part_of_the_handshake() {
    let mut random = random();
    let identities = [shared("n1"), holder("n1", 2)];
    let public = public_key(&[2; 32]);
    for (identity, public) in [
        (shared("n0"), None),
        (holder("n0", 1), None),
        (holder("n0", 1), Some(public)),
    ] {
        let init = Initiator::new(&key(), &identity, public, &hello("n0", "n1"), &mut random);
        for proof in 0..=3 {
            let mut altered = init.datagram().to_vec();
            if core::mem::replace(&mut altered[8], proof) == proof {
                continue;
            }
            key().sign(&mut altered);
            for identity in &identities {
                assert!(Responder::read(&key(), identity, &altered, &mut random).is_err());
            }
        }
    }
}
