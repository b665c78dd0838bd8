//! The address of an endpoint.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The most links in an address.
const LINKS_MAX: usize = 8;
/// The most bytes of an address: what a node's name has room for.
pub(crate) const BYTES_MAX: usize = 47;
/// Bytes before the links' addresses: kind, links, port, instance.
const HEAD_BYTES: usize = 12;
/// The digits of a name: six bits each (RFC 4648, section 5).
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The address and identity of an endpoint: all that another process must know. At most 48 bytes long.
///
/// ```text
///  0      1       2      4            12
///  ┌──────┬───────┬──────┬────────────┬───────────────────────┐
///  │ kind │ links │ port │ instance   │ an address each link  │
///  └──────┴───────┴──────┴────────────┴───────────────────────┘
/// ```
/// `kind`: 4 or 6, the links' addresses are of IPv4 (4 bytes each) or IPv6 (16 each). `links`: one bit for each network
/// that it has a link on. `instance`: random, so that another endpoint at the same place is distinguished. An address of
/// 16 bytes takes two places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    len: u8,
    bytes: [u8; BYTES_MAX],
}

/// Bytes that are no [`Address`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadAddress;

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the address of a tabane endpoint")
    }
}

impl core::error::Error for BadAddress {}

impl Address {
    /// The address of an instance that uses `port` on all of these links (number and address), as many of them as find
    /// room. Those of another family than the first one's are left out.
    ///
    /// # Errors
    /// No link, or one of a number above 7, or one number twice.
    pub fn new(links: &[(u8, IpAddr)], port: u16, instance: u64) -> Result<Address, BadAddress> {
        let mut sorted = links.to_vec();
        sorted.sort_unstable_by_key(|(number, _)| *number);
        let is_v4 = links.first().ok_or(BadAddress)?.1.is_ipv4();
        let (mut mask, mut tail) = (0u8, Vec::new());
        for (number, address) in sorted {
            let bit = 1u8.checked_shl(number.into()).ok_or(BadAddress)?;
            if mask & bit != 0 || port == 0 {
                return Err(BadAddress);
            }
            let octets = match address {
                IpAddr::V4(v4) if is_v4 => v4.octets().to_vec(),
                IpAddr::V6(v6) if !is_v4 => v6.octets().to_vec(),
                _ => continue,
            };
            if HEAD_BYTES + tail.len() + octets.len() <= BYTES_MAX {
                mask |= bit;
                tail.extend(octets);
            }
        }
        let mut bytes = vec![if is_v4 { 4 } else { 6 }, mask];
        bytes.extend(port.to_be_bytes());
        bytes.extend(instance.to_be_bytes());
        bytes.extend(tail);
        Address::from_bytes(&bytes)
    }

    /// Parses an address; trailing bytes are ignored.
    ///
    /// # Errors
    /// It is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Address, BadAddress> {
        let (&kind, &mask) = (
            bytes.first().ok_or(BadAddress)?,
            bytes.get(1).ok_or(BadAddress)?,
        );
        let each = match kind {
            4 => 4,
            6 => 16,
            _ => return Err(BadAddress),
        };
        let len = HEAD_BYTES + each * mask.count_ones() as usize;
        let whole = bytes.get(..len).ok_or(BadAddress)?;
        if mask == 0 || len > BYTES_MAX || whole[2..4] == [0, 0] {
            return Err(BadAddress);
        }
        let mut address = Address {
            len: len as u8,
            bytes: [0; BYTES_MAX],
        };
        address.bytes[..len].copy_from_slice(whole);
        Ok(address)
    }

    /// The bytes to be given to others.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The number that tells it from others at the same place.
    pub fn instance(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.bytes[4..HEAD_BYTES]);
        u64::from_be_bytes(bytes)
    }

    /// Where it is on each network.
    pub fn links(&self) -> [Option<SocketAddr>; LINKS_MAX] {
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        let (kind, mask) = (self.bytes[0], self.bytes[1]);
        let each = if kind == 4 { 4 } else { 16 };
        let mut tail = self.as_bytes()[HEAD_BYTES..].chunks_exact(each);
        core::array::from_fn(|number| {
            if mask & (1 << number) == 0 {
                return None;
            }
            let octets = tail.next()?;
            let address: IpAddr = match kind {
                4 => Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into(),
                _ => Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into(),
            };
            Some(SocketAddr::new(address, port))
        })
    }

    /// As the name of a node.
    pub fn to_name(&self) -> String {
        let mut name = String::new();
        for three in self.as_bytes().chunks(3) {
            let [a, b, c] = [0, 1, 2].map(|n| u32::from(three.get(n).copied().unwrap_or(0)));
            let bits = a << 16 | b << 8 | c;
            for digit in 0..=three.len() {
                let value = bits >> (18 - 6 * digit) & 63;
                name.push(char::from(DIGITS[value as usize]));
            }
        }
        name
    }

    /// The address that is this node's name.
    ///
    /// # Errors
    /// None is: [`to_name`](Address::to_name) makes no such name.
    pub fn from_name(name: &str) -> Result<Address, BadAddress> {
        let mut bytes = Vec::new();
        for four in name.as_bytes().chunks(4) {
            let mut bits = 0u32;
            for digit in four {
                let value = DIGITS.iter().position(|d| d == digit).ok_or(BadAddress)?;
                bits = bits << 6 | value as u32;
            }
            bits <<= 6 * (4 - four.len());
            bytes.extend(&bits.to_be_bytes()[1..four.len()]);
        }
        let address = Address::from_bytes(&bytes)?;
        // Each has one name only.
        if address.to_name() == name {
            Ok(address)
        } else {
            Err(BadAddress)
        }
    }
}

/// Its first link, port and the beginning of its instance number: enough to tell ranks apart.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.links().into_iter().flatten().next();
        match first {
            Some(first) => write!(f, "{first}#{:04x}", self.instance() >> 48),
            None => f.write_str("nowhere"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 77, last, 1).into()
    }

    #[test]
    fn an_address_comes_back_from_its_bytes_and_its_name() {
        for count in 1..=8 {
            let links: Vec<_> = (0..count).map(|n| (n, v4(n))).collect();
            let address = Address::new(&links, 40_001, u64::MAX / 3).expect("is one");
            assert_eq!(Address::from_bytes(address.as_bytes()), Ok(address));
            let name = address.to_name();
            assert!(name.len() <= 63, "{name}");
            assert_eq!(Address::from_name(&name), Ok(address));
            for (number, ip) in links {
                let there = SocketAddr::new(ip, 40_001);
                assert_eq!(address.links()[usize::from(number)], Some(there));
            }
        }
    }

    #[test]
    fn links_keep_their_numbers() {
        let address = Address::new(&[(5, v4(5)), (2, v4(2))], 1, 7).expect("is one");
        let links = address.links();
        assert_eq!(links[2], Some((v4(2), 1).into()));
        assert_eq!(links[5], Some((v4(5), 1).into()));
        assert_eq!(links.iter().flatten().count(), 2);
        assert_eq!(address.to_string(), "10.77.2.1:1#0000");
    }

    #[test]
    fn of_ipv6_there_is_room_for_two() {
        let v6 = |n: u16| IpAddr::from(Ipv6Addr::new(0xfd00, n, 0, 0, 0, 0, 0, 1));
        let links: Vec<_> = (0..3).map(|n| (n, v6(n.into()))).collect();
        let address = Address::new(&links, 1, 7).expect("is one");
        assert_eq!(address.links().iter().flatten().count(), 2);
        assert_eq!(Address::from_name(&address.to_name()), Ok(address));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let good = Address::new(&[(0, v4(0))], 9, 7).expect("is one");
        for len in 0..good.as_bytes().len() {
            assert_eq!(
                Address::from_bytes(&good.as_bytes()[..len]),
                Err(BadAddress)
            );
        }
        let name = good.to_name();
        for wrong in ["", "n0", "=", &name[1..], &format!("{name}A")] {
            assert_eq!(Address::from_name(wrong), Err(BadAddress), "{wrong:?}");
        }
        assert_eq!(Address::new(&[], 1, 0), Err(BadAddress));
        assert_eq!(Address::new(&[(8, v4(0))], 1, 0), Err(BadAddress));
        assert_eq!(
            Address::new(&[(0, v4(0)), (0, v4(1))], 1, 0),
            Err(BadAddress)
        );
    }
}
