//! A node's identity: its own key pair, if it has one, or the one derived from its name.

use super::ClusterKey;
use crate::wire::{Name, PUBLIC_KEY_BYTES};
use core::fmt;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};

/// The public half of a node's key pair (X25519).
pub type PublicKey = [u8; PUBLIC_KEY_BYTES];
/// The private half: 32 random bytes.
pub type PrivateKey = [u8; 32];

/// The public key of a private one (RFC 7748).
pub fn public_key(private: &PrivateKey) -> PublicKey {
    let mut pair = DefaultResolver
        .resolve_dh(&DHChoice::Curve25519)
        .expect("Curve25519 is compiled in");
    pair.set(private);
    let mut public = [0; PUBLIC_KEY_BYTES];
    public.copy_from_slice(pair.pubkey());
    public
}

/// This node's identity.
#[derive(Clone)]
pub struct Identity {
    name: Name,
    private: Option<PrivateKey>,
    /// Whether the configuration says which public key this node has.
    is_public: bool,
}

/// The configuration and the private key do not belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentityError {
    /// The configuration has a public key for this node, which has no private one.
    NoPrivateKey,
    /// The configuration has another public key for this node than that of its private one.
    OtherPrivateKey {
        /// The one that it has.
        ours: PublicKey,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IdentityError::NoPrivateKey => {
                "the configuration has a public key for this node, which has no private one"
            }
            IdentityError::OtherPrivateKey { .. } => {
                "the configuration has another public key for this node than that of its private one"
            }
        })
    }
}

impl core::error::Error for IdentityError {}

impl Identity {
    /// A node without a key pair: whoever has the cluster key can use its name.
    pub const fn shared(name: Name) -> Identity {
        Identity {
            name,
            private: None,
            is_public: false,
        }
    }

    /// A node with the key pair of `private`, if it has one. `public` is what the configuration
    /// says: without it, peers do not ask for the key.
    ///
    /// # Errors
    /// [`IdentityError`]: no peer would accept this node.
    pub fn new(
        name: Name,
        private: Option<PrivateKey>,
        public: Option<PublicKey>,
    ) -> Result<Identity, IdentityError> {
        if let Some(public) = public {
            let ours = public_key(private.as_ref().ok_or(IdentityError::NoPrivateKey)?);
            if ours != public {
                return Err(IdentityError::OtherPrivateKey { ours });
            }
        }
        Ok(Identity {
            name,
            private,
            is_public: public.is_some(),
        })
    }

    /// Whether peers may ask for the key.
    pub(super) const fn is_public(&self) -> bool {
        self.is_public
    }

    /// Its own private key.
    pub(super) const fn own_key(&self) -> Option<PrivateKey> {
        self.private
    }

    /// The private key derived from its name, for peers that know no other.
    pub(super) fn named_key(&self, key: &ClusterKey) -> PrivateKey {
        key.private_of(&self.name)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, ..)", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> Name {
        Name::new("n0").unwrap()
    }

    #[test]
    fn the_public_key_is_that_of_rfc_7748() {
        // Section 6.1, Alice.
        let alice: PrivateKey = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2,
            0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5,
            0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let expected: PublicKey = [
            0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e,
            0xf7, 0x5a, 0x0d, 0xbf, 0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e,
            0xaa, 0x9b, 0x4e, 0x6a,
        ];
        assert_eq!(public_key(&alice), expected);
    }

    #[test]
    fn a_public_key_needs_its_private_one() {
        let (private, other) = ([1; 32], public_key(&[2; 32]));
        let ours = public_key(&private);
        let new = |private, public| Identity::new(name(), private, public).err();
        assert_eq!(new(None, None), None);
        assert_eq!(new(Some(private), None), None);
        assert_eq!(new(Some(private), Some(ours)), None);
        assert_eq!(new(None, Some(ours)), Some(IdentityError::NoPrivateKey));
        let wrong = IdentityError::OtherPrivateKey { ours };
        assert_eq!(new(Some(private), Some(other)), Some(wrong));
    }

    #[test]
    fn keys_of_names_differ_by_name_and_cluster() {
        let of = |key: u8, name: &str| {
            let key = ClusterKey::new([key; 32]);
            key.private_of(&Name::new(name).unwrap())
        };
        assert_eq!(of(1, "n0"), of(1, "n0"));
        assert_ne!(of(1, "n0"), of(1, "n1"));
        assert_ne!(of(1, "n0"), of(2, "n0"));
    }

    #[test]
    fn debug_output_has_no_secret() {
        let identity = Identity::new(name(), Some([7; 32]), None).unwrap();
        assert_eq!(format!("{identity:?}"), "Identity(n0, ..)");
    }
}
