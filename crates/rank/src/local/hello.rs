//! The hello with which an endpoint hands a ring to another one of its node, and the names by which they find each other.
//!
//! Names are abstract ones of unix sockets: they belong to the network namespace, there is no file, and they vanish with the
//! process. Only holders of the key can derive them from an address.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ring::hmac;

use crate::Address;

/// Beginning of a hello: type and version.
const MAGIC: [u8; 4] = *b"tbn\x01";
const MAC_BYTES: usize = 32;
/// Bytes by which a reader tests whether it can read the writer's memory.
pub const PROBE_BYTES: usize = 16;

/// Proves the key, and makes names.
pub struct Keyed(hmac::Key);

/// An endpoint's hello with a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The writer of the ring.
    pub from: Address,
    /// Address of these bytes in the writer's memory.
    pub probe_at: u64,
    /// The bytes.
    pub probe: [u8; PROBE_BYTES],
}

impl Hello {
    /// The authenticated part.
    pub fn body(&self) -> Vec<u8> {
        let mut body = self.probe_at.to_ne_bytes().to_vec();
        body.extend(self.probe);
        body.extend(self.from.as_bytes());
        body
    }
}

impl Keyed {
    pub fn new(key: &[u8; 32]) -> Keyed {
        Keyed(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    fn mac(&self, what: &str, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(what.as_bytes());
        parts.iter().for_each(|part| context.update(part));
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }

    /// The name of one of an endpoint's sockets, without the zero byte before it.
    pub fn name(&self, what: &str, of: &Address) -> String {
        let mac = self.mac(what, &[of.as_bytes()]);
        let digits = mac.iter().take(16).map(|byte| format!("{byte:02x}"));
        format!("tabane-{}", digits.collect::<String>())
    }

    /// The same as a path.
    pub fn path(&self, what: &str, of: &Address) -> PathBuf {
        let name = format!("\0{}", self.name(what, of));
        PathBuf::from(OsStr::from_bytes(name.as_bytes()))
    }

    /// A hello to this endpoint.
    pub fn write(&self, hello: &Hello, to: &Address) -> Vec<u8> {
        self.prove(&hello.body(), to)
    }

    /// The body of a hello, with the proof of the key.
    pub fn prove(&self, body: &[u8], to: &Address) -> Vec<u8> {
        let mac = self.mac("hello", &[to.as_bytes(), body]);
        [&MAGIC[..], &mac, body].concat()
    }

    /// Parses a hello to this endpoint; `None`: its sender does not have the key, or it is for somebody else.
    pub fn read(&self, message: &[u8], to: &Address) -> Option<Hello> {
        let body = message.strip_prefix(&MAGIC)?;
        let (mac, body) = body.split_first_chunk::<MAC_BYTES>()?;
        // Only processes of this user can send here, so timing does not matter.
        if *mac != self.mac("hello", &[to.as_bytes(), body]) {
            return None;
        }
        let (at, rest) = body.split_first_chunk()?;
        let (probe, from) = rest.split_first_chunk()?;
        Some(Hello {
            from: Address::from_bytes(from).ok()?,
            probe_at: u64::from_ne_bytes(*at),
            probe: *probe,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whom_it_is_for_and_who_has_the_key_reads_a_hello() {
        let ip = "10.77.0.1".parse().expect("is one");
        let [a, b, c] = [1, 2, 3].map(|n| Address::new(&[(0, ip)], 4000, n).expect("is one"));
        let (ours, theirs) = (Keyed::new(&[1; 32]), Keyed::new(&[2; 32]));
        let hello = Hello {
            from: a,
            probe_at: 77,
            probe: [5; PROBE_BYTES],
        };
        let said = ours.write(&hello, &b);
        assert_eq!(ours.read(&said, &b), Some(hello));
        assert_eq!(ours.read(&said, &c), None);
        assert_eq!(theirs.read(&said, &b), None);
        for cut in 0..said.len() {
            assert_eq!(ours.read(&said[..cut], &b), None);
        }
        assert_ne!(ours.name("x", &a), ours.name("x", &b));
        assert_ne!(ours.name("x", &a), theirs.name("x", &a));
        assert_ne!(ours.name("x", &a), ours.name("y", &a));
    }
}
