//! The two Noise handshakes with our own randomness (Noise Protocol Framework, revision 34).
//! NNpsk0: ephemeral keys only, admission by the pre-shared key. IKpsk1: the same and key pairs
//! of both ends.
//!
//! The cluster file decides which of the two is used. If neither end has `public` there, it is NNpsk0, which costs what
//! the handshake cost before there were key pairs. If one end has it, it is IKpsk1, and both ends show a key pair: an end
//! without one takes the key pair that everybody can derive from the cluster key and its name (`identity.rs`;
//! SECURITY.md, docs/protocol.md 4).

use super::session::{self, SessionKeys};
use super::{ClusterKey, PrivateKey, PublicKey};
use crate::Random;
use crate::wire::{HELLO_BYTES, Hello, INIT_NOISE_BYTES, Proof, Reader, VERSION, Writer};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState, types};
use std::sync::Mutex;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Of the recommended patterns with key pairs of both ends and a pre-shared key, the one that has two
/// messages and needs all three keys in the first.
const PATTERN_WITH_KEYS: &str = "Noise_IKpsk1_25519_ChaChaPoly_BLAKE2s";

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

/// Inputs of a side, except its randomness.
pub(super) enum Side<'a> {
    Initiator {
        /// Its private key and the responder's public one; none of both with
        /// [`Proof::ClusterKey`].
        keys: Option<(&'a PrivateKey, &'a PublicKey)>,
    },
    Responder {
        private: Option<&'a PrivateKey>,
    },
}

impl Noise {
    pub(super) fn new(
        key: &ClusterKey,
        proof: Proof,
        side: &Side<'_>,
        random: &mut Random,
    ) -> Noise {
        // Version and proof are bound to the keys: nobody can make two ends assume different ones.
        let mut prologue = *b"tabane\0\0\0";
        prologue[6..8].copy_from_slice(&VERSION.to_be_bytes());
        prologue[8] = proof as u8;
        let (pattern, psk_position) = match proof {
            Proof::ClusterKey => (PATTERN, 0),
            Proof::OwnKey | Proof::NamedKey => (PATTERN_WITH_KEYS, 1),
        };
        let state = pattern.parse().and_then(|params| {
            let resolver = Resolver(Mutex::new(random.fork()));
            let builder = Builder::with_resolver(params, Box::new(resolver))
                .prologue(&prologue)?
                .psk(psk_position, key.psk())?;
            match side {
                Side::Initiator { keys: None } => builder.build_initiator(),
                Side::Initiator {
                    keys: Some((private, public)),
                } => builder
                    .local_private_key(*private)?
                    .remote_public_key(*public)?
                    .build_initiator(),
                Side::Responder { private: None } => builder.build_responder(),
                Side::Responder {
                    private: Some(private),
                } => builder.local_private_key(*private)?.build_responder(),
            }
        });
        Noise(state.expect("patterns and primitives are fixed and compiled in"))
    }

    /// The other end's public key, once its message was read; `None` if it proved none.
    pub(super) fn peer(&self) -> Option<PublicKey> {
        self.0.get_remote_static()?.try_into().ok()
    }

    /// Writes the next message, carrying `hello`, to the begin of `message`. Returns its length.
    pub(super) fn write(&mut self, hello: &Hello, message: &mut [u8]) -> usize {
        let mut payload = [0; HELLO_BYTES];
        hello.write(&mut Writer::new(&mut payload));
        self.0
            .write_message(&payload, message)
            .expect("it is our turn, and the message has room")
    }

    /// The peer's next message; `None` if it is not authentic (the state is then
    /// as before) or its Hello malformed.
    pub(super) fn read(&mut self, message: &[u8]) -> Option<Hello> {
        // `snow` wants a little more room than the payload has.
        let mut payload = [0; INIT_NOISE_BYTES];
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
