//! The checksum of IP, TCP, UDP and ICMPv6 (RFC 1071).

use std::net::IpAddr;

/// The sum of `bytes` as words of 16 bits, with the carries still to be added; an odd one is the upper half of
/// a word.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    // Words of 32 bits: RFC 1071 section 2 (B) and (C) shows that it is the same.
    let words: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    words + u64::from(u32::from_be_bytes(last))
}

/// The pseudo header's sum for a message of UDP, TCP or ICMPv6 (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub fn pseudo_header(from: IpAddr, to: IpAddr, protocol: u8, message_bytes: usize) -> u64 {
    let address = |address: IpAddr| match address {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    };
    address(from) + address(to) + u64::from(protocol) + message_bytes as u64
}

/// With all carries.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_rfc() {
        // RFC 1071 section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        assert_eq!(
            fold(sum(&bytes[..7])),
            fold(sum(&[&bytes[..7], &[0]].concat()))
        );
        assert_eq!(fold(sum(&[0xff; 1500])), 0xffff);
    }
}
