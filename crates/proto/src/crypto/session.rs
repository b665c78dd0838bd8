//! Sealing and opening packets in place.

use super::key::expand;
use crate::wire::{HEADER_BYTES, Hello, WireMode};
use core::fmt;
use core::time::Duration;
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf;

/// Bytes behind an encrypted packet's payload: the AEAD tag.
const TAG_BYTES: usize = 16;
/// Bytes behind a plain packet's payload: the token.
const PLAIN_TRAILER_BYTES: usize = 8;
/// The longest trailer of all wire modes.
pub const TRAILER_BYTES_MAX: usize = TAG_BYTES;

/// Packets sent under one key, over all paths, after which a new handshake is due.
pub const REKEY_PACKETS: u64 = 1 << 26;
/// Age of a session after which a new handshake is due.
pub const REKEY_AFTER: Duration = Duration::from_secs(600);
/// Packets after which a key must not seal any more. With jumbo packets these
/// are 2^37.2 blocks: an attacker's advantage against AES-GCM stays below 2^-53
/// (RFC 9001, appendix B.1 with σ²/2^128).
pub const KEY_PACKETS_MAX: u64 = 1 << 28;

const _: () = assert!(REKEY_PACKETS < KEY_PACKETS_MAX);

/// What a handshake ends with: one key per direction.
#[derive(Debug)]
pub struct SessionKeys {
    /// For packets to the peer.
    pub seal: SealKey,
    /// For packets from the peer.
    pub open: OpenKey,
    /// Bytes that sealing needs behind the payload: 16 encrypted, 8 plain.
    pub trailer_bytes: usize,
}

/// Seals packets of one direction of one session.
pub struct SealKey(Key);

/// Opens packets of one direction of one session.
pub struct OpenKey(Key);

/// Why a packet was not opened. Nothing of it may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Shorter than header and trailer.
    TooShort,
    /// Not sealed with this key, or altered on the way.
    NotAuthentic,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenError::TooShort => "packet shorter than its header and trailer",
            OpenError::NotAuthentic => "packet not from the peer, or altered on the way",
        })
    }
}

impl core::error::Error for OpenError {}

enum Key {
    Aead {
        key: Box<LessSafeKey>,
        iv: [u8; 12],
    },
    /// That nothing was altered on the way is left to the checksum of UDP, which the devices make and check.
    Plain {
        token: [u8; PLAIN_TRAILER_BYTES],
    },
}

impl SealKey {
    /// Seals `packet` in place: header, payload, and room for the trailer, whose
    /// bytes are overwritten. The header stays readable; its path and number make
    /// the nonce, so that no two packets sealed with one key may have the same.
    ///
    /// # Panics
    /// If `packet` is shorter than header and trailer.
    #[inline]
    pub fn seal(&self, packet: &mut [u8]) {
        match &self.0 {
            Key::Aead { key, iv } => {
                let (header, rest) = split_header(packet).expect("a packet has a header");
                let (payload, trailer) = rest
                    .split_last_chunk_mut::<TAG_BYTES>()
                    .expect("a packet has room for its trailer");
                let tag = key
                    .seal_in_place_separate_tag(nonce(iv, header), Aad::from(header), payload)
                    .expect("a datagram is far shorter than what a nonce can cover");
                trailer.copy_from_slice(tag.as_ref());
            }
            Key::Plain { token } => {
                let (body, trailer) = packet
                    .split_last_chunk_mut::<PLAIN_TRAILER_BYTES>()
                    .expect("a packet has room for its trailer");
                assert!(body.len() >= HEADER_BYTES, "a packet has a header");
                *trailer = *token;
            }
        }
    }
}

impl OpenKey {
    /// Opens `packet` in place and returns its payload.
    ///
    /// # Errors
    /// Too short, or not sealed by the peer's [`SealKey`]; the content of
    /// `packet` is then void.
    #[inline]
    pub fn open<'a>(&self, packet: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        match &self.0 {
            Key::Aead { key, iv } => {
                let (header, sealed) = split_header(packet).ok_or(OpenError::TooShort)?;
                if sealed.len() < TAG_BYTES {
                    return Err(OpenError::TooShort);
                }
                key.open_in_place(nonce(iv, header), Aad::from(header), sealed)
                    .map_err(|_| OpenError::NotAuthentic)
            }
            Key::Plain { token } => {
                let (_, rest) = split_header(packet).ok_or(OpenError::TooShort)?;
                let (payload, trailer) = rest
                    .split_last_chunk_mut::<PLAIN_TRAILER_BYTES>()
                    .ok_or(OpenError::TooShort)?;
                match trailer == token {
                    true => Ok(payload),
                    false => Err(OpenError::NotAuthentic),
                }
            }
        }
    }
}

/// The nonce of the packet with this header: five zero bytes, path, number (both
/// as they stand in the header), combined with the direction's secret IV by XOR
/// (RFC 9001, section 5.3).
#[inline]
fn nonce(iv: &[u8; 12], header: [u8; HEADER_BYTES]) -> Nonce {
    let [_, path, _, _, _, _, a, b, c, d, e, f] = header;
    let unique = [0, 0, 0, 0, 0, path, a, b, c, d, e, f];
    Nonce::assume_unique_for_key(core::array::from_fn(|i| iv[i] ^ unique[i]))
}

#[inline]
fn split_header(packet: &mut [u8]) -> Option<([u8; HEADER_BYTES], &mut [u8])> {
    let (header, rest) = packet.split_first_chunk_mut::<HEADER_BYTES>()?;
    Some((*header, rest))
}

/// The keys that follow from a handshake: its hash, the two keys of Noise's
/// Split() in the order of this end, and what both ends said.
pub(super) fn derive(
    hash: &[u8],
    send: &[u8; 32],
    receive: &[u8; 32],
    ours: &Hello,
    theirs: &Hello,
) -> SessionKeys {
    let aes = ours.cipher_aes && theirs.cipher_aes;
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, hash);
    let key = |secret: &[u8; 32]| {
        let secret = salt.extract(secret);
        match ours.wire {
            WireMode::Encrypted => Key::aead(&secret, aes),
            WireMode::Plain => Key::Plain {
                token: expand(&secret, b"tabane plain token"),
            },
        }
    };
    SessionKeys {
        seal: SealKey(key(send)),
        open: OpenKey(key(receive)),
        trailer_bytes: match ours.wire {
            WireMode::Encrypted => TAG_BYTES,
            WireMode::Plain => PLAIN_TRAILER_BYTES,
        },
    }
}

impl Key {
    fn aead(secret: &hkdf::Prk, aes: bool) -> Key {
        let unbound = if aes {
            let key: [u8; 16] = expand(secret, b"tabane aes-128-gcm key");
            UnboundKey::new(&AES_128_GCM, &key)
        } else {
            let key: [u8; 32] = expand(secret, b"tabane chacha20-poly1305 key");
            UnboundKey::new(&CHACHA20_POLY1305, &key)
        };
        Key::Aead {
            key: Box::new(LessSafeKey::new(
                unbound.expect("the key has the cipher's length"),
            )),
            iv: expand(secret, b"tabane iv"),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Key::Aead { key, .. } if *key.algorithm() == AES_128_GCM => "AES-128-GCM",
            Key::Aead { .. } => "ChaCha20-Poly1305",
            Key::Plain { .. } => "plain",
        }
    }
}

impl SealKey {
    /// The cipher, for `status`: `AES-128-GCM`, `ChaCha20-Poly1305` or `plain`.
    pub fn cipher(&self) -> &'static str {
        self.0.name()
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({}, ..)", self.0.name())
    }
}

impl fmt::Debug for OpenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenKey({}, ..)", self.0.name())
    }
}
