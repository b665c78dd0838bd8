//! The Noise handshake NNpsk0 with our own randomness (Noise Protocol Framework,
//! revision 34): ephemeral keys only, admission by the pre-shared key.

use super::ClusterKey;
use super::session::{self, SessionKeys};
use crate::Random;
use crate::wire::{HELLO_BYTES, Hello, NOISE_BYTES, Reader, VERSION, Writer};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState, types};
use std::sync::Mutex;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// `snow`'s primitives, but randomness from the caller.
struct Resolver(Mutex<Random>);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn types::Random>> {
        Some(Box::new(self.0.lock().ok()?.fork()))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn types::Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn types::Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn types::Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

impl types::Random for Random {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.fill(dest);
        Ok(())
    }
}

/// One side of a handshake.
pub(super) struct Noise(HandshakeState);

impl Noise {
    pub(super) fn initiator(key: &ClusterKey, random: &mut Random) -> Noise {
        Noise::build(key, random, true)
    }

    pub(super) fn responder(key: &ClusterKey, random: &mut Random) -> Noise {
        Noise::build(key, random, false)
    }

    fn build(key: &ClusterKey, random: &mut Random, initiator: bool) -> Noise {
        // The version is bound to the keys: nobody can make two ends believe in different ones.
        let mut prologue = *b"tabane\0\0";
        prologue[6..].copy_from_slice(&VERSION.to_be_bytes());
        let state = PATTERN.parse().and_then(|params| {
            let resolver = Resolver(Mutex::new(random.fork()));
            let builder = Builder::with_resolver(params, Box::new(resolver))
                .prologue(&prologue)?
                .psk(0, key.psk())?;
            if initiator {
                builder.build_initiator()
            } else {
                builder.build_responder()
            }
        });
        Noise(state.expect("pattern and primitives are fixed and compiled in"))
    }

    /// The next message, carrying `hello`.
    pub(super) fn write(&mut self, hello: &Hello) -> [u8; NOISE_BYTES] {
        let mut payload = [0; HELLO_BYTES];
        hello.write(&mut Writer::new(&mut payload));
        let mut message = [0; NOISE_BYTES];
        self.0
            .write_message(&payload, &mut message)
            .expect("it is our turn, and the message has room");
        message
    }

    /// The peer's next message; `None` if it is not authentic (the state is then
    /// as before) or its Hello malformed.
    pub(super) fn read(&mut self, message: &[u8; NOISE_BYTES]) -> Option<Hello> {
        // `snow` wants a little more room than the payload has.
        let mut payload = [0; NOISE_BYTES];
        let len = self.0.read_message(message, &mut payload).ok()?;
        Hello::read(&mut Reader::new(payload.get(..len)?)).ok()
    }

    /// The session's keys, after both messages.
    pub(super) fn keys(&mut self, ours: &Hello, theirs: &Hello) -> SessionKeys {
        let (to_responder, to_initiator) = self.0.dangerously_get_raw_split();
        let hash = self.0.get_handshake_hash();
        let (send, receive) = if self.0.is_initiator() {
            (to_responder, to_initiator)
        } else {
            (to_initiator, to_responder)
        };
        session::derive(hash, &send, &receive, ours, theirs)
    }
}
