//! Cookies: a stranger proves that it receives at its address before a node
//! computes for it (after RFC 9000, section 8.1.2 and WireGuard, section 5.3).
//! No state is kept per stranger.

use super::ClusterKey;
use crate::wire::{
    COOKIE_BYTES, COOKIE_DATAGRAM_BYTES, CookieParts, HandshakeHeader, InitParts, Kind, VERSION,
    Writer,
};
use crate::{Random, Time};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ring::hmac;

/// How long one cookie secret makes cookies; for as long again they are taken.
pub const COOKIE_SECRET_LIFETIME: Duration = Duration::from_secs(120);

/// Makes cookies and knows its own again.
pub struct CookieJar {
    random: Random,
    current: hmac::Key,
    previous: hmac::Key,
    since: Time,
}

impl CookieJar {
    /// A jar with fresh secrets.
    pub fn new(random: &mut Random, now: Time) -> CookieJar {
        let mut random = random.fork();
        CookieJar {
            current: secret(&mut random),
            previous: secret(&mut random),
            random,
            since: now,
        }
    }

    /// The [`Kind::Cookie`] datagram for this Init from this address; `None` if
    /// it is no Init. The caller has checked
    /// [`init_is_from_key_holder`](super::init_is_from_key_holder).
    pub fn make(
        &mut self,
        now: Time,
        from: SocketAddr,
        init: &[u8],
        key: &ClusterKey,
    ) -> Option<Vec<u8>> {
        self.rotate(now);
        let parts = InitParts::read(init).ok()?;
        let header = HandshakeHeader {
            kind: Kind::Cookie,
            session: parts.header.session,
            version: VERSION,
        };
        let mut cookie = [0; COOKIE_BYTES];
        let asked = cookie_input(from, init)?;
        cookie.copy_from_slice(hmac::sign(&self.current, &asked).as_ref());
        let mut datagram = vec![0; COOKIE_DATAGRAM_BYTES];
        CookieParts { header, cookie }.write(&mut Writer::new(&mut datagram));
        key.sign(&mut datagram);
        Some(datagram)
    }

    /// Whether this Init carries a cookie that was made for it and this address
    /// two to four minutes ago at most.
    pub fn valid(&mut self, now: Time, from: SocketAddr, init: &[u8]) -> bool {
        self.rotate(now);
        let Ok(parts) = InitParts::read(init) else {
            return false;
        };
        cookie_input(from, init).is_some_and(|asked| {
            [&self.current, &self.previous]
                .iter()
                .any(|key| hmac::verify(key, &asked, &parts.cookie).is_ok())
        })
    }

    fn rotate(&mut self, now: Time) {
        let age = now.since(self.since);
        if age < COOKIE_SECRET_LIFETIME {
            return;
        }
        let fresh = secret(&mut self.random);
        self.previous = core::mem::replace(&mut self.current, fresh);
        if age >= 2 * COOKIE_SECRET_LIFETIME {
            self.previous = secret(&mut self.random);
        }
        self.since = now;
    }
}

impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieJar(..)")
    }
}

fn secret(random: &mut Random) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &random.array::<32>())
}

/// What a cookie authenticates: IPv6 (or mapped IPv4) address, port, and the
/// Init up to its cookie. `None` if that part is missing.
fn cookie_input(from: SocketAddr, init: &[u8]) -> Option<[u8; 18 + InitParts::COOKIE_OFFSET]> {
    let address = match from.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut input = [0; 18 + InitParts::COOKIE_OFFSET];
    input[..16].copy_from_slice(&address.octets());
    input[16..18].copy_from_slice(&from.port().to_be_bytes());
    input[18..].copy_from_slice(init.get(..InitParts::COOKIE_OFFSET)?);
    Some(input)
}
