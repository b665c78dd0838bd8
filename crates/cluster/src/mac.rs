//! MAC addresses of virtual NICs, made from their IP addresses so that every
//! node knows every other's without asking.

use std::net::IpAddr;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The MAC address of the virtual NIC with this IP address.
///
/// Locally administered (IEEE 802 section 8.4, bit 1 of the first byte).
/// IPv4: `02:74` and the four bytes of the address, hence unique. IPv6: `06`
/// and 40 bits of the FNV-1a hash of the address; the cluster file is refused
/// should two of its nodes ever collide (1 in 20,000 for 10,000 nodes).
pub fn mac_of(address: IpAddr) -> Mac {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            [0x02, b't', a, b, c, d]
        }
        IpAddr::V6(v6) => {
            // FNV-1a, 64 bit: http://www.isthe.com/chongo/tech/comp/fnv/
            let hash = v6
                .octets()
                .iter()
                .fold(0xcbf2_9ce4_8422_2325, |h: u64, &b| {
                    (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
                });
            let folded = hash ^ (hash >> 40);
            let [_, _, _, a, b, c, d, e] = folded.to_be_bytes();
            [0x06, a, b, c, d, e]
        }
    }
}

/// As text: `02:74:0a:63:00:01`.
pub fn mac_text(mac: &Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_is_readable_in_the_mac() {
        let mac = mac_of("10.99.0.1".parse().unwrap());
        assert_eq!(mac, [0x02, 0x74, 10, 99, 0, 1]);
    }

    #[test]
    fn all_are_local_unicast_and_neighbours_differ() {
        let mut seen = std::collections::HashSet::new();
        for host in 0..20_000u32 {
            let v6 = std::net::Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(host));
            let mac = mac_of(v6.into());
            assert_eq!(mac[0] & 0b11, 0b10, "{mac:02x?}");
            assert!(seen.insert(mac), "{v6} collides");
        }
    }
}
