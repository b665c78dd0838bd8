//! Who is admitted, and how packets are sealed. Nothing here is home-made: the
//! handshake is Noise (`snow`), the ciphers, MACs and key derivation are `ring`'s.
//!
//! The way of a session: [`Initiator`] and [`Responder`] exchange one datagram
//! each (two more if the responder wants a cookie first, [`CookieJar`]), and
//! both end with [`SessionKeys`].

mod cookie;
mod echo;
mod handshake;
mod identity;
mod key;
mod noise;
mod session;
#[cfg(test)]
mod tests;

pub use cookie::{COOKIE_SECRET_LIFETIME, CookieJar};
pub use echo::{ECHO_BYTES, echo, echo_reply, echo_token};
pub use handshake::{
    HandshakeError, Initiator, Responder, init_is_from_key_holder, init_of_other_version,
    say_version,
};
pub use identity::{Identity, IdentityError, PrivateKey, PublicKey, public_key};
pub use key::ClusterKey;
pub use session::{
    KEY_PACKETS_MAX, OpenError, OpenKey, REKEY_AFTER, REKEY_PACKETS, SealKey, SessionKeys,
    TRAILER_BYTES_MAX,
};
