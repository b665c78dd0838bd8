//! The cluster key: whoever has it belongs to the cluster.

use super::{PublicKey, public_key};
use crate::wire::{MAC_BYTES, Name};
use core::fmt;
use ring::{hkdf, hmac};
use std::sync::Arc;

/// The key that all nodes of a cluster share, and what follows from it.
/// (Sessions and handshakes keep it, so it is shared and not copied.)
#[derive(Clone)]
pub struct ClusterKey(Arc<Derived>);

struct Derived {
    /// The pre-shared key of the Noise handshake.
    psk: [u8; 32],
    mac: hmac::Key,
    cluster: hkdf::Prk,
}

impl ClusterKey {
    /// The key of 32 secret bytes (the cluster file's `key`).
    pub fn new(secret: [u8; 32]) -> ClusterKey {
        let cluster = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tabane").extract(&secret);
        let mac: [u8; 32] = expand(&cluster, b"tabane mac");
        ClusterKey(Arc::new(Derived {
            psk: expand(&cluster, b"tabane psk"),
            mac: hmac::Key::new(hmac::HMAC_SHA256, &mac),
            cluster,
        }))
    }

    /// The pre-shared key of the Noise handshake.
    pub(super) fn psk(&self) -> &[u8; 32] {
        &self.0.psk
    }

    /// The private key of a node that has none of its own: whoever has the cluster key knows it.
    pub(super) fn private_of(&self, name: &Name) -> [u8; 32] {
        expand_all(
            &self.0.cluster,
            &[b"tabane node ", name.as_str().as_bytes()],
        )
    }

    /// The public half of [`private_of`](ClusterKey::private_of).
    pub(crate) fn public_of(&self, name: &Name) -> PublicKey {
        public_key(&self.private_of(name))
    }

    /// Fills the last [`MAC_BYTES`] of a handshake datagram with the MAC of those before.
    pub(super) fn sign(&self, datagram: &mut [u8]) {
        let (body, mac) = datagram.split_at_mut(datagram.len() - MAC_BYTES);
        mac.copy_from_slice(hmac::sign(&self.0.mac, body).as_ref());
    }

    /// Whether `datagram` ends with the right MAC.
    pub(super) fn signed(&self, datagram: &[u8]) -> bool {
        datagram
            .split_last_chunk::<MAC_BYTES>()
            .is_some_and(|(body, mac)| hmac::verify(&self.0.mac, body, mac).is_ok())
    }
}

impl PartialEq for ClusterKey {
    fn eq(&self, other: &ClusterKey) -> bool {
        // Both keys are this node's own, so timing does not matter.
        self.psk() == other.psk()
    }
}

impl Eq for ClusterKey {}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

/// `N` bytes by HKDF-Expand (RFC 5869) with `label` as info.
pub(super) fn expand<const N: usize>(key: &hkdf::Prk, label: &[u8]) -> [u8; N] {
    expand_all(key, &[label])
}

/// As [`expand`], with several parts of the info, one behind the other.
fn expand_all<const N: usize>(key: &hkdf::Prk, info: &[&[u8]]) -> [u8; N] {
    struct Bytes(usize);
    impl hkdf::KeyType for Bytes {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut out = [0; N];
    key.expand(info, Bytes(N))
        .and_then(|okm| okm.fill(&mut out))
        .expect("HKDF-SHA256 gives up to 8160 bytes");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_verifies() {
        let mut datagram = [3; 60];
        ClusterKey::new([1; 32]).sign(&mut datagram);
        assert!(ClusterKey::new([1; 32]).signed(&datagram));
        assert!(!ClusterKey::new([2; 32]).signed(&datagram));
        datagram[0] ^= 1;
        assert!(!ClusterKey::new([1; 32]).signed(&datagram));
        assert!(!ClusterKey::new([1; 32]).signed(&datagram[..20]));
    }

    #[test]
    fn debug_output_has_no_secret() {
        assert_eq!(format!("{:?}", ClusterKey::new([1; 32])), "ClusterKey(..)");
    }
}
