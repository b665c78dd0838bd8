//! Flows of frames: frames of one flow stay in order.

use std::net::IpAddr;
use std::time::Duration;

use tabane_cluster::FlowHeader;
use tabane_proto::Time;

use super::frame::{Ethernet, FlowKey, Packet, bytes_at};

/// A number goes to another flow when its own has been idle for this long: then its frames have
/// arrived, or were given up.
const IDLE: Duration = Duration::from_secs(1);
/// Numbers that one flow may get, as in the queues of CAKE (Høiland-Jørgensen, Täht and
/// Morton, "Piece of CAKE", IEEE LANMAN 2018), which has 8: with 16, and 100 flows in use, one
/// flow in a thousand finds none.
const WAYS: usize = 16;
const SETS: usize = 256 / WAYS;

/// The flow numbers for one peer: distinct for flows in use at the same time, as far as there
/// are enough. By a hash alone, once in 64 times a ping would share a queue with one of four
/// streams, and wait for all of it.
#[derive(Clone, Debug, Default)]
pub struct FlowNumbers {
    /// Made when the first frame comes.
    sets: Vec<Set>,
}

/// The numbers which hashes with the same lowest bits may get.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// Whose each of them is: the hash of a flow.
    hashes: [u64; WAYS],
    /// When each was last used.
    used: [Time; WAYS],
}

impl FlowNumbers {
    /// The number for the flow with this hash ([`flow_hash`]), which sends a frame now.
    ///
    /// It stays the same while the flow is in use. Flows that rest for a second may get another;
    /// if all numbers are in use, two flows share one.
    pub fn number(&mut self, now: Time, hash: u64) -> u8 {
        self.sets.resize_with(SETS, Set::default);
        let set_index = hash as usize % SETS;
        let set = &mut self.sets[set_index];
        let way = set.way(now, hash);
        set.used[way] = now;
        (set_index * WAYS + way) as u8
    }
}

impl Set {
    fn way(&mut self, now: Time, hash: u64) -> usize {
        if let Some(own) = self.hashes.iter().position(|other| *other == hash) {
            return own;
        }
        let oldest = (0..WAYS).min_by_key(|way| self.used[*way]).unwrap_or(0);
        if now.since(self.used[oldest]) >= IDLE || self.used[oldest] == Time::default() {
            self.hashes[oldest] = hash;
            return oldest;
        }
        // The same for every frame of this flow.
        (hash >> 32) as usize % WAYS
    }
}

/// The flow of a frame from the virtual NIC (with its `virtio_net_hdr`), as a hash: the same for
/// all frames of a flow, and different for different flows except one pair in 2^64.
///
/// A flow is given by IP addresses, protocol, and ports if there are any; for fragments without
/// the ports, which only the first one has; for frames without IP by the MAC addresses and the
/// ethertype. The two directions of a connection are two flows. Any bytes have a flow; nothing
/// allocates.
pub fn flow_hash(frame: &[u8]) -> u64 {
    let Some(ethernet) = Ethernet::parse(frame) else {
        return 0;
    };
    let key = Packet::of(&ethernet).map(|packet| FlowKey::of(&packet));
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

/// What a `[[flow]]` of the cluster file may look at, of a frame from the virtual NIC (with its `virtio_net_hdr`). `None`: it
/// has no IP packet. Fragments have no ports.
pub fn flow_header(frame: &[u8]) -> Option<FlowHeader> {
    let packet = Packet::of(&Ethernet::parse(frame)?)?;
    let key = FlowKey::of(&packet);
    let [a, b, c, d] = key.ports;
    Some(FlowHeader {
        protocol: key.protocol,
        addresses: [key.source, key.destination],
        ports: [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])],
        dscp: Some(packet.dscp),
    })
}

/// A multiply-and-fold hash, as in FxHash and wyhash: spreads well enough, and is no defence:
/// whoever can choose the ports of his flows may as well use one flow.
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

    fn finish(mut self) -> u64 {
        self.word(0);
        self.0
    }
}
