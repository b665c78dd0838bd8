//! Arithmetic on IP networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP network: a base address and the number of leading bits that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// First address of the network (all host bits zero).
    base: IpAddr,
    /// Length of the prefix: 0..=32 (IPv4), 0..=128 (IPv6).
    prefix: u8,
}

impl Network {
    /// The network `address` lies in; a longer prefix than the family has counts as full.
    pub fn new(address: IpAddr, prefix: u8) -> Self {
        let prefix = prefix.min(width(address));
        let keep = bits_mask(prefix, width(address));
        Self {
            base: from_bits(to_bits(address) & keep, address),
            prefix,
        }
    }

    /// The smallest network that contains all of `addresses`; `None` if there
    /// are none or they are of both families.
    pub fn covering(addresses: impl IntoIterator<Item = IpAddr>) -> Option<Self> {
        let mut addresses = addresses.into_iter();
        let first = addresses.next()?;
        let mut cover = Self::new(first, width(first));
        for address in addresses {
            if address.is_ipv4() != first.is_ipv4() {
                return None;
            }
            let differing = to_bits(cover.base) ^ to_bits(address);
            let unused = 128 - u32::from(width(first));
            let equal_bits = (differing.leading_zeros() - unused) as u8;
            cover = Self::new(first, cover.prefix.min(equal_bits));
        }
        Some(cover)
    }

    /// Length of the prefix in bits.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Does `address` lie in it?
    pub fn contains(self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4() && Self::new(address, self.prefix) == self
    }

    /// Do the two have an address in common?
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.base) || other.contains(self.base)
    }

    /// Is this an address a host may have in this network: not the network's
    /// own (IPv4, IPv6 subnet-router anycast), not the broadcast address?
    /// Networks of two addresses have neither (RFC 3021, RFC 6164).
    pub fn is_host(self, address: IpAddr) -> bool {
        let width = width(self.base);
        if !self.contains(address) || self.prefix + 1 >= width {
            return self.contains(address);
        }
        let host_mask = !bits_mask(self.prefix, width);
        let host = to_bits(address) & host_mask;
        let all_ones = host_mask & bits_all(width);
        host != 0 && (address.is_ipv6() || host != all_ones)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// Bits in an address of this family: 32 or 128.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

fn from_bits(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

fn bits_all(width: u8) -> u128 {
    u128::MAX >> (128 - u32::from(width))
}

/// The leading `prefix` of `width` bits set.
fn bits_mask(prefix: u8, width: u8) -> u128 {
    let host_bits = u32::from(width - prefix);
    bits_all(width) & u128::MAX.checked_shl(host_bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn net(text: &str) -> Network {
        let (address, prefix) = text.split_once('/').unwrap();
        Network::new(ip(address), prefix.parse().unwrap())
    }

    #[test]
    fn host_bits_are_cut_off() {
        assert_eq!(net("10.77.1.2/24").to_string(), "10.77.1.0/24");
        assert_eq!(net("10.77.1.2/0").to_string(), "0.0.0.0/0");
        assert_eq!(net("10.77.1.2/32").to_string(), "10.77.1.2/32");
        assert_eq!(net("fd00::1:2/112").to_string(), "fd00::1:0/112");
        assert_eq!(net("fd00::1/0").to_string(), "::/0");
        assert_eq!(net("10.0.0.1/200").to_string(), "10.0.0.1/32");
    }

    #[test]
    fn containing_and_overlapping() {
        assert!(net("10.0.0.0/8").contains(ip("10.255.0.1")));
        assert!(!net("10.0.0.0/8").contains(ip("11.0.0.1")));
        assert!(!net("0.0.0.0/0").contains(ip("::1")));
        assert!(net("10.0.0.0/8").overlaps(net("10.1.0.0/16")));
        assert!(net("10.1.0.0/16").overlaps(net("10.0.0.0/8")));
        assert!(!net("10.1.0.0/16").overlaps(net("10.2.0.0/16")));
        assert!(!net("::/0").overlaps(net("0.0.0.0/0")));
    }

    #[test]
    fn covering_is_the_longest_common_prefix() {
        let cover = |list: &[&str]| Network::covering(list.iter().map(|a| ip(a)));
        assert_eq!(cover(&[]), None);
        assert_eq!(cover(&["10.0.0.1", "fd00::1"]), None);
        assert_eq!(cover(&["10.0.0.1"]), Some(net("10.0.0.1/32")));
        assert_eq!(
            cover(&["10.77.0.1", "10.77.0.2"]),
            Some(net("10.77.0.0/30"))
        );
        assert_eq!(
            cover(&["10.77.0.1", "10.77.1.2", "10.77.0.3"]),
            Some(net("10.77.0.0/23"))
        );
        assert_eq!(cover(&["fd00::1", "fd00::3"]), Some(net("fd00::/126")));
        assert_eq!(cover(&["0.0.0.1", "255.0.0.1"]), Some(net("0.0.0.0/0")));
    }

    #[test]
    fn host_addresses() {
        assert!(net("10.99.0.0/24").is_host(ip("10.99.0.1")));
        assert!(!net("10.99.0.0/24").is_host(ip("10.99.0.0")));
        assert!(!net("10.99.0.0/24").is_host(ip("10.99.0.255")));
        assert!(!net("10.99.0.0/24").is_host(ip("10.98.0.1")));
        assert!(net("10.99.0.0/31").is_host(ip("10.99.0.0")));
        assert!(net("10.99.0.0/32").is_host(ip("10.99.0.0")));
        assert!(!net("fd00::/64").is_host(ip("fd00::")));
        assert!(net("fd00::/64").is_host(ip("fd00::ffff:ffff:ffff:ffff")));
        assert!(net("fd00::/127").is_host(ip("fd00::")));
    }
}
