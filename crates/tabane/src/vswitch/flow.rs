//! Which frames belong together: those of one flow stay in order.

use std::net::IpAddr;

use super::frame::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, FlowKey, bytes_at};

/// The flow of a frame from the virtual NIC (with its `virtio_net_hdr`), as a
/// number that is the same for all frames of one flow and well spread over
/// different ones.
///
/// A flow is: IP addresses, protocol, and ports if there are any; for fragments
/// without the ports, which only the first of them has; for what is not IP the
/// MAC addresses and the ethertype. The two directions of a connection are two
/// flows. Any bytes have a flow; nothing allocates.
pub fn flow_of(frame: &[u8]) -> u8 {
    let Some(ethernet) = Ethernet::parse(frame) else {
        return 0;
    };
    let key = match ethernet.ethertype {
        ETHERTYPE_IPV4 => FlowKey::of_ipv4(ethernet.payload),
        ETHERTYPE_IPV6 => FlowKey::of_ipv6(ethernet.payload),
        _ => None,
    };
    let mut hash = Mix(u64::from(ethernet.ethertype));
    match key {
        Some(key) => {
            hash.address(key.source);
            hash.address(key.destination);
            hash.word(u64::from(u32::from_be_bytes(key.ports)) << 8 | u64::from(key.protocol));
        }
        None => {
            hash.mac(ethernet.source);
            hash.mac(ethernet.destination);
        }
    }
    hash.finish()
}

/// A multiply-and-fold hash, as in FxHash and wyhash; good enough to spread, and
/// no defence: who can choose the ports of his flows may as well use one flow.
struct Mix(u64);

impl Mix {
    fn word(&mut self, word: u64) {
        // Odd, from the fractional part of the golden ratio (Knuth, TAOCP 6.4).
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ word).wrapping_add(1) * u128::from(GOLDEN);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => self.word(u64::from(v4.to_bits())),
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                self.word((bits >> 64) as u64);
                self.word(bits as u64);
            }
        }
    }

    fn mac(&mut self, mac: [u8; 6]) {
        let high: [u8; 2] = bytes_at(&mac, 0).unwrap_or_default();
        let low: [u8; 4] = bytes_at(&mac, 2).unwrap_or_default();
        self.word(u64::from(u16::from_be_bytes(high)) << 32 | u64::from(u32::from_be_bytes(low)));
    }

    fn finish(mut self) -> u8 {
        self.word(0);
        (self.0 >> 56) as u8
    }
}
