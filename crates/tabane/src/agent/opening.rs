//! The first bytes of a stream that carries a TCP connection: its two addresses (docs/protocol.md,
//! 9.6.2). Pure.

use std::net::{IpAddr, SocketAddr};

/// The service of streams that carry TCP connections: "TCP".
pub const SERVICE_TCP: u32 = 0x5443_5000;
/// Nothing listens there, or nothing that the agent reaches.
pub const CODE_REFUSED: u32 = 1;
/// As many connections as may be wait there already.
pub const CODE_BUSY: u32 = 2;
/// The program's connection was reset.
pub const CODE_RESET: u32 = 0x5253_5400;
/// The stream was not opened as this version does.
pub const CODE_MALFORMED: u32 = 4;
/// A program listened there and does no more: a plain connection would not find it either.
pub const CODE_NOBODY: u32 = 5;
/// Longest encoding in bytes.
pub const OPENING_BYTES_MAX: usize = 38;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 2;

/// Both ends of a TCP connection, as the program that connects sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// The end that connects.
    pub from: SocketAddr,
    /// The end that listens.
    pub to: SocketAddr,
}

/// The first bytes are not those of an [`Opening`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl Opening {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let family = if self.to.is_ipv4() { 4 } else { 6 };
        let mut bytes = vec![VERSION, family];
        for end in [self.from, self.to] {
            match end.ip() {
                IpAddr::V4(ip) => bytes.extend(ip.octets()),
                IpAddr::V6(ip) => bytes.extend(ip.octets()),
            }
            bytes.extend(end.port().to_be_bytes());
        }
        bytes
    }

    /// Reads the first bytes of a stream: `None` if more are needed.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(bytes: &[u8]) -> Result<Option<Opening>, Malformed> {
        let [version, family, rest @ ..] = bytes else {
            return Ok(None);
        };
        let octets = match (*version, *family) {
            (VERSION, 4) => 4,
            (VERSION, 6) => 16,
            _ => return Err(Malformed),
        };
        let end_bytes = octets + 2;
        let (Some(from), Some(to)) = (rest.get(..end_bytes), rest.get(end_bytes..2 * end_bytes))
        else {
            return Ok(None);
        };
        Ok(Some(Opening {
            from: end(from).ok_or(Malformed)?,
            to: end(to).ok_or(Malformed)?,
        }))
    }

    /// How many bytes are still to be read, as far as the first ones say: never one of those behind it.
    pub fn missing_bytes(bytes: &[u8]) -> usize {
        let octets = match bytes.get(1) {
            None => return HEADER_BYTES - bytes.len(),
            Some(4) => 4,
            Some(_) => 16,
        };
        (HEADER_BYTES + 2 * (octets + 2)).saturating_sub(bytes.len())
    }
}

fn end(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_at_checked(bytes.len().checked_sub(2)?)?;
    let ip: IpAddr = match ip.len() {
        4 => <[u8; 4]>::try_from(ip).ok()?.into(),
        _ => <[u8; 16]>::try_from(ip).ok()?.into(),
    };
    Some(SocketAddr::new(
        ip,
        u16::from_be_bytes(port.try_into().ok()?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_when_all_of_it_is_there() {
        for (from, to) in [
            ("10.77.0.1:40000", "10.99.0.2:80"),
            ("[fd77::1]:1", "[fd77::2]:65535"),
        ] {
            let opening = Opening {
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
            };
            let bytes = opening.encode();
            for cut in [2, 3, bytes.len() - 1] {
                assert_eq!(Opening::missing_bytes(&bytes[..cut]), bytes.len() - cut);
            }
            assert!(bytes.len() <= OPENING_BYTES_MAX);
            for cut in 0..bytes.len() {
                assert_eq!(Opening::decode(&bytes[..cut]), Ok(None));
            }
            let mut longer = bytes.clone();
            longer.extend(b"data");
            assert_eq!(Opening::decode(&longer), Ok(Some(opening)));
        }
    }

    #[test]
    fn another_version_or_family_is_malformed() {
        for bytes in [[0, 4], [2, 4], [1, 5], [0xff, 0xff]] {
            assert_eq!(Opening::decode(&bytes), Err(Malformed));
        }
    }
}
