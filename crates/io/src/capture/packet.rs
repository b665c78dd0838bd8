//! IP packets made by hand, for what a socket cannot send: with another host's address as the source. Pure.

use std::net::{IpAddr, SocketAddr};

use crate::checksum::{fold, pseudo_header, sum};

/// Protocol numbers of IP.
pub(super) const TCP: u8 = 6;
/// See [`TCP`].
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;
pub(super) const ICMP_V6: u8 = 58;

const HOPS: u8 = 64;
const UDP_HEADER_BYTES: usize = 8;
/// Longest datagram: the maximum of UDP's length field.
pub(super) const DATAGRAM_BYTES_MAX: usize = 65_507;

/// An IP header, and the segment behind it. Both addresses are of one family.
pub(super) fn packet(from: IpAddr, to: IpAddr, protocol: u8, segment: &[u8]) -> Vec<u8> {
    let mut packet = header(from, to, protocol, segment.len());
    packet.extend_from_slice(segment);
    packet
}

/// A datagram from one end to the other (RFC 768), as a packet of IP.
pub fn datagram(from: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let bytes = (UDP_HEADER_BYTES + data.len()) as u16;
    let mut udp = Vec::with_capacity(usize::from(bytes));
    for number in [from.port(), to.port(), bytes, 0] {
        udp.extend_from_slice(&number.to_be_bytes());
    }
    udp.extend_from_slice(data);
    put_checksum(&mut udp, 6, UDP, from.ip(), to.ip());
    packet(from.ip(), to.ip(), UDP, &udp)
}

/// Why a packet does not arrive, by its codes in ICMP of IPv4 and of IPv6 (RFC 792; RFC 4443 section
/// 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// There is no route to its network: ENETUNREACH.
    Network,
    /// The same for datagrams: with IPv4 a connected socket always gets the error; with IPv6, as for all but [`Self::Port`], only
    /// one that has asked for it (IPV6_RECVERR).
    NetworkUnknown,
    /// Nobody there has its address: EHOSTUNREACH.
    Host,
    /// Nobody receives at its port: ECONNREFUSED.
    Port,
}

/// The ICMP error to `from`, who sent a packet with this head to `to`, that it does not arrive. It seems to come from `to`.
pub fn unreachable(from: IpAddr, to: IpAddr, why: Unreachable, head: &[u8]) -> Vec<u8> {
    let (v4, v6) = match why {
        Unreachable::Network => (0, 0),
        Unreachable::NetworkUnknown => (6, 0),
        Unreachable::Host => (1, 3),
        Unreachable::Port => (3, 4),
    };
    let (protocol, kind, code) = match from {
        IpAddr::V4(_) => (ICMP, 3, v4),
        IpAddr::V6(_) => (ICMP_V6, 1, v6),
    };
    let mut icmp = vec![kind, code, 0, 0, 0, 0, 0, 0];
    icmp.extend(head);
    match from {
        IpAddr::V4(_) => put_icmp_checksum(&mut icmp),
        IpAddr::V6(_) => put_checksum(&mut icmp, 2, protocol, to, from),
    }
    packet(to, from, protocol, &icmp)
}

/// Fills in the checksum of a message of ICMP of IPv4 (RFC 792).
pub(super) fn put_icmp_checksum(message: &mut [u8]) {
    message[2..4].fill(0);
    let sum = !fold(sum(message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

fn header(from: IpAddr, to: IpAddr, protocol: u8, payload: usize) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, HOPS, protocol, 0, 0];
            header.extend(from.octets().into_iter().chain(to.octets()));
            let bytes = (header.len() + payload) as u16;
            header[2..4].copy_from_slice(&bytes.to_be_bytes());
            let sum = !fold(sum(&header));
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        (from, to) => {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, protocol, HOPS];
            header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
            header.extend(octets(from).into_iter().chain(octets(to)));
            header
        }
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Fills in the checksum at `at` of a segment of TCP (RFC 9293 section 3.1) or UDP (RFC 768).
pub(super) fn put_checksum(segment: &mut [u8], at: usize, protocol: u8, from: IpAddr, to: IpAddr) {
    segment[at..at + 2].fill(0);
    let total = pseudo_header(from, to, protocol, segment.len()) + sum(segment);
    // A UDP checksum of 0 means that there is none: its complement is equally right.
    let checksum = match !fold(total) {
        0 => u16::MAX,
        checksum => checksum,
    };
    segment[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn headers_and_checksums_sum_up_to_all_ones() {
        for (from, to, header_bytes) in [
            ("10.77.0.1:53", "10.99.0.2:40000", 20),
            ("[fd77::1]:53", "[fd77::2]:1", 40),
        ] {
            for data in [&b""[..], b"odd", b"even"] {
                let (from, to): (SocketAddr, SocketAddr) =
                    (from.parse().unwrap(), to.parse().unwrap());
                let packet = datagram(from, to, data);
                assert_eq!(packet.len(), header_bytes + 8 + data.len());
                let udp = &packet[header_bytes..];
                assert_eq!(udp[8..], *data);
                let pseudo = match (from.ip(), to.ip()) {
                    (IpAddr::V4(a), IpAddr::V4(b)) => sum(&a.octets()) + sum(&b.octets()),
                    (a, b) => sum(&octets(a)) + sum(&octets(b)),
                };
                let total = pseudo + u64::from(UDP) + udp.len() as u64 + sum(udp);
                assert_eq!(fold(total), 0xffff);
                if header_bytes == 20 {
                    assert_eq!(fold(sum(&packet[..20])), 0xffff);
                }
            }
        }
        assert_eq!(
            header(ip("::1"), ip("::2"), TCP, 24)[4..8],
            [0, 24, TCP, HOPS]
        );
    }
}
