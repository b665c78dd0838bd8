//! Datagrams outside of the bundle, by which processes of a job find each other: only holders of the job's key read and write
//! them.
//!
//! They are sealed (ChaCha20-Poly1305) under a key derived from the job's, each under its own nonce, and all have one length: a
//! stranger is not answered, learns nothing, and cannot use anybody for amplification.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;

/// The beginning of each datagram: its kind and version.
pub type Magic = [u8; 4];

/// Bytes that are sealed.
pub const PLAIN_BYTES: usize = 128;
/// Length of a datagram: magic, nonce, sealed content, tag.
pub const DATAGRAM_BYTES: usize = size_of::<Magic>() + NONCE_LEN + PLAIN_BYTES + 16;

/// Seals and opens datagrams.
pub struct Seal {
    magic: Magic,
    key: LessSafeKey,
}

/// Thirty-two unpredictable bytes.
pub fn random() -> Option<[u8; 32]> {
    tabane_io::entropy::seed().ok()
}

impl Seal {
    /// A seal under the job's key, for this purpose.
    pub fn new(key: &[u8; 32], purpose: &str, magic: Magic) -> Option<Seal> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        let own = hmac::sign(&key, purpose.as_bytes());
        let key = UnboundKey::new(&CHACHA20_POLY1305, own.as_ref()).ok()?;
        Some(Seal {
            magic,
            key: LessSafeKey::new(key),
        })
    }

    /// A datagram with these bytes, and zeros behind them. None: they are too many, or there is no randomness.
    pub fn seal(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let random = random()?;
        let (nonce, _) = random.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = plain.to_vec();
        if sealed.len() > PLAIN_BYTES {
            return None;
        }
        sealed.resize(PLAIN_BYTES, 0);
        let nonce_used = Nonce::assume_unique_for_key(*nonce);
        let aad = Aad::from(self.magic);
        (self
            .key
            .seal_in_place_append_tag(nonce_used, aad, &mut sealed))
        .ok()?;
        Some([&self.magic[..], nonce, &sealed].concat())
    }

    /// The content of a datagram. `None`: it is none of this job's.
    pub fn open(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        let whole = (datagram.len() == DATAGRAM_BYTES).then_some(datagram)?;
        let (nonce, sealed) = whole.strip_prefix(&self.magic)?.split_first_chunk()?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let aad = Aad::from(self.magic);
        let bytes = self.key.open_in_place(nonce, aad, &mut sealed).ok()?.len();
        sealed.truncate(bytes);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: Magic = *b"test";

    fn seal(key: u8, purpose: &str) -> Seal {
        Seal::new(&[key; 32], purpose, MAGIC).expect("a key")
    }

    #[test]
    fn who_has_the_key_understands() {
        let seal = seal(1, "a test");
        for plain in [&b""[..], b"so", &[7; PLAIN_BYTES]] {
            let datagram = seal.seal(plain).expect("seals");
            assert_eq!(datagram.len(), DATAGRAM_BYTES);
            let opened = seal.open(&datagram).expect("opens");
            assert_eq!(&opened[..plain.len()], plain);
            assert!(opened[plain.len()..].iter().all(|byte| *byte == 0));
        }
        assert_eq!(seal.seal(&[7; PLAIN_BYTES + 1]), None);
    }

    #[test]
    fn nobody_else_does() {
        let own = seal(1, "a test");
        let datagram = own.seal(b"so").expect("seals");
        assert_eq!(seal(2, "a test").open(&datagram), None);
        assert_eq!(seal(1, "another").open(&datagram), None);
        for index in 0..datagram.len() {
            let mut changed = datagram.clone();
            changed[index] ^= 1;
            assert_eq!(own.open(&changed), None, "{index}");
        }
        assert_eq!(own.open(&datagram[1..]), None);
        assert_ne!(datagram, own.seal(b"so").expect("seals"));
    }
}
