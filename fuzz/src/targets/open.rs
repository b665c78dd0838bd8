//! Opening forged packets: never succeeds, never panics, in all wire modes.
use std::sync::OnceLock;
use tabane_proto::Random;
use tabane_proto::crypto::{ClusterKey, Initiator, OpenKey, Responder};
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
    };
    let key = ClusterKey::new([5; 32]);
    let mut random = Random::from_seed([6; 32]);
    let mut initiator = Initiator::new(&key, &hello("a", "b"), &mut random);
    let (_, responder) = Responder::read(&key, initiator.datagram(), &mut random).unwrap();
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
