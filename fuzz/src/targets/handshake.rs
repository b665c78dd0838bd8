//! Handshake datagrams with a right MAC (the fuzzer cannot guess one), handed to
//! both ends: nothing but the right answer is accepted, and both can go on.
use ring::hmac;
use tabane_proto::crypto::{
    ClusterKey, CookieJar, Identity, Initiator, Responder, echo_token, init_is_from_key_holder,
    init_of_other_version, public_key,
};
use tabane_proto::wire::{
    EXTENSION_BYTES_MAX, HELLO_BYTES, Hello, Reader, VERSION, WireMode, Writer,
};
use tabane_proto::{Random, Time};

/// The keys of `crates/proto/tests/vectors/handshake.hex`.
const CLUSTER_KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut i = 0;
    while i < 32 {
        key[i] = i as u8;
        i += 1;
    }
    key
};
const MAC_KEY: [u8; 32] = [
    0x6f, 0x27, 0x18, 0x45, 0xf8, 0xaa, 0xd6, 0x5b, 0x4d, 0x80, 0xf7, 0x47, 0xef, 0x34, 0xef, 0xff,
    0x1f, 0xa6, 0xc9, 0x21, 0xa8, 0x86, 0xe1, 0x34, 0x92, 0x08, 0xc7, 0x98, 0x46, 0xa3, 0x40, 0xec,
];

fn hello(from: &str, to: &str) -> Hello {
    Hello {
        version: VERSION,
        wire: WireMode::Encrypted,
        cipher_aes: true,
        session: 0xa1a2_a3a4,
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        bundle: 1,
        peer_bundle: 0,
        receive_buffer_bytes: 8 << 20,
        features: 0,
        verdict: None,
    }
}

/// Feeds it `body`.
pub fn run(body: &[u8]) {
    if let Ok(hello) = Hello::read(&mut Reader::new(body)) {
        let mut again = [0; HELLO_BYTES];
        hello.write(&mut Writer::new(&mut again));
        // The extension is for versions to come: passed over.
        let known = HELLO_BYTES - 2 - EXTENSION_BYTES_MAX;
        assert_eq!(again[..known], body[..known]);
    }

    let mut datagram = body.to_vec();
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &MAC_KEY), body);
    datagram.extend_from_slice(mac.as_ref());

    let key = ClusterKey::new(CLUSTER_KEY);
    let mut random = Random::from_seed([3; 32]);
    let private = [2; 32];
    let public = public_key(&private);
    let name = "node-one".parse().unwrap();
    let me = Identity::new(name, Some(private), Some(public)).unwrap();
    let _ = init_is_from_key_holder(&key, &datagram);
    let _ = init_of_other_version(&datagram);
    // Its MAC stands behind the header.
    if let Some((header, padding)) = body.split_first_chunk::<8>() {
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &MAC_KEY), header);
        let _ = echo_token(&key, &[header, mac.as_ref(), padding].concat());
    }
    let _ = Responder::read(&key, &me, &datagram, &mut random);

    let mut jar = CookieJar::new(&mut random, Time::ZERO);
    let from = "[::1]:7577".parse().unwrap();
    let _ = jar.make(Time::ZERO, from, &datagram, &key);
    assert!(!jar.valid(Time::ZERO, from, &datagram));

    for public in [None, Some(public)] {
        let caller = Identity::shared("n0".parse().unwrap());
        let asks = hello("n0", "node-one");
        let mut initiator = Initiator::new(&key, &caller, public, &asks, &mut random);
        let _ = initiator.on_cookie(&datagram);
        assert!(initiator.on_response(&datagram).is_err());
        // The right answer still counts.
        let init = initiator.datagram();
        let (_, responder) = Responder::read(&key, &me, init, &mut random).unwrap();
        let (response, _) = responder.respond(&hello("node-one", "n0"));
        assert!(initiator.on_response(&response).is_ok());
    }
}
