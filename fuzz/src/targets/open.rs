//! Opening forged packets: never succeeds, never panics, in all wire modes.
use std::sync::OnceLock;
use tabane_proto::Random;
use tabane_proto::crypto::{ClusterKey, Identity, Initiator, OpenKey, Responder, public_key};
use tabane_proto::wire::{Hello, VERSION, WireMode};

fn key(wire: WireMode, cipher_aes: bool) -> OpenKey {
    let hello = |from: &str, to: &str| Hello {
        version: VERSION,
        wire,
        cipher_aes,
        session: 1,
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        bundle: 1,
        peer_bundle: 0,
        receive_buffer_bytes: 8 << 20,
        features: 0,
        verdict: None,
    };
    let key = ClusterKey::new([5; 32]);
    let mut random = Random::from_seed([6; 32]);
    // With key pairs of both ends: what packets are sealed with does not depend on that.
    let identity = |name: &str, private: u8| {
        let private = [private; 32];
        let public = Some(public_key(&private));
        Identity::new(name.parse().unwrap(), Some(private), public).unwrap()
    };
    let (a, b) = (identity("a", 1), identity("b", 2));
    let public = Some(public_key(&[2; 32]));
    let mut initiator = Initiator::new(&key, &a, public, &hello("a", "b"), &mut random);
    let init = initiator.datagram();
    let (_, responder) = Responder::read(&key, &b, init, &mut random).unwrap();
    let (response, _) = responder.respond(&hello("b", "a"));
    initiator.on_response(&response).unwrap().1.open
}

/// Feeds it `packet`.
pub fn run(packet: &[u8]) {
    static KEYS: OnceLock<[OpenKey; 3]> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        [
            key(WireMode::Encrypted, true),
            key(WireMode::Encrypted, false),
            key(WireMode::Plain, true),
        ]
    });
    for key in keys {
        assert!(key.open(&mut packet.to_vec()).is_err());
    }
}
