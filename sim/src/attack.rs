//! The attacker: sits in the network, keeps packets, and sends them again, changed
//! or elsewhere. It has no key.

use crate::net::{Network, Ns, Packet};
use crate::random::Random;
use std::net::{IpAddr, SocketAddr};
use tabane_proto::wire::{HEADER_BYTES, Kind};

/// Packets it keeps.
const KEPT_MAX: usize = 64;

/// The first byte of a packet of a session, and where its session number is.
const DATA: u8 = Kind::Data as u8;
const SESSION: core::ops::Range<usize> = 2..6;
/// The end of a packet in the clear.
const TOKEN_BYTES: usize = 8;

/// So many of all packets are overtaken by a copy.
const OVERTAKEN_PERCENT: u32 = 2;
/// The last number of the addresses that it makes packets come from, and at which no host is.
const STRANGER: u8 = 200;

/// An address of the attacker's on a link.
pub fn strangers_address(link: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 77, link as u8, STRANGER], port))
}

/// Whether an address is one of the attacker's.
pub fn is_strangers(address: SocketAddr) -> bool {
    matches!(address.ip(), IpAddr::V4(ip) if ip.octets()[3] == STRANGER)
}

/// The attacker.
#[derive(Debug)]
pub struct Attacker {
    kept: Vec<Packet>,
    random: Random,
    /// Packets are in the clear: whoever sees one can forge any, so what the attacker alters is what it would have to guess without.
    in_clear: bool,
    seen: u64,
    /// How many packets it has sent.
    pub sent: u64,
}

impl Attacker {
    /// An attacker that has seen nothing.
    pub fn new(random: Random, in_clear: bool) -> Attacker {
        Attacker {
            kept: Vec::new(),
            random,
            in_clear,
            seen: 0,
            sent: 0,
        }
    }

    /// Sees a packet pass, and may keep it: every packet with the same chance, but
    /// handshakes always.
    pub fn see(&mut self, packet: &Packet) {
        self.seen += 1;
        let handshake = packet.bytes.first().is_some_and(|kind| *kind != 0x10);
        if self.kept.len() < KEPT_MAX {
            self.kept.push(packet.clone());
        } else if handshake || self.random.below(self.seen) < KEPT_MAX as u64 {
            let place = self.random.below(KEPT_MAX as u64) as usize;
            self.kept[place] = packet.clone();
        }
    }

    /// A packet passes: now and then its copy, from elsewhere, is there first.
    pub fn overtake(&mut self, packet: &Packet) -> Option<Packet> {
        if !self.random.percent(OVERTAKEN_PERCENT) {
            return None;
        }
        self.sent += 1;
        let mut copy = packet.clone();
        copy.from_host = None;
        copy.source = self.stranger(packet.link);
        Some(copy)
    }

    /// A packet to be put in front of a host's socket now.
    pub fn strike(&mut self, network: &Network) -> Option<Packet> {
        if self.kept.is_empty() {
            return None;
        }
        let place = self.random.below(self.kept.len() as u64) as usize;
        let mut packet = self.kept[place].clone();
        packet.from_host = None;
        if self.random.percent(30) {
            self.redirect(&mut packet, network);
        }
        if self.random.percent(25) {
            packet.source = self.stranger(packet.link);
        }
        match self.random.below(6) {
            0 | 1 => {}
            2 => {
                let to = self.random.below(packet.bytes.len() as u64 + 1);
                packet.bytes.truncate(to as usize);
            }
            3 | 4 if self.in_clear && packet.bytes.first() == Some(&DATA) => {
                let end = packet.bytes.len();
                let guessed = match self.random.percent(50) {
                    true => SESSION,
                    false => end.saturating_sub(TOKEN_BYTES)..end,
                };
                self.flip(&mut packet.bytes, guessed);
            }
            3 => self.flip(&mut packet.bytes, 0..usize::MAX),
            4 => self.flip(&mut packet.bytes, 0..HEADER_BYTES),
            _ => self.invent(&mut packet.bytes),
        }
        packet.destination = network.port(packet.to_host, packet.link).address?;
        self.sent += 1;
        Some(packet)
    }

    /// To another host, or on another link.
    fn redirect(&mut self, packet: &mut Packet, network: &Network) {
        packet.to_host = self.random.below(network.hosts() as u64) as usize;
        packet.link = self.random.below(network.links() as u64) as usize;
    }

    fn stranger(&mut self, link: usize) -> SocketAddr {
        strangers_address(link, self.random.between(1024, 60_000) as u16)
    }

    fn flip(&mut self, bytes: &mut [u8], range: core::ops::Range<usize>) {
        let end = bytes.len().min(range.end);
        let count = end.saturating_sub(range.start) as u64;
        if count > 0 {
            let at = range.start + self.random.below(count) as usize;
            bytes[at] ^= 1 << self.random.below(8);
        }
    }

    /// Something that begins like a packet.
    fn invent(&mut self, bytes: &mut Vec<u8>) {
        let keep = self.random.pick(&[0, 1, 6, 12]).min(bytes.len());
        let len = self.random.below(1500) as usize;
        bytes.resize(len.max(keep), 0);
        for byte in &mut bytes[keep..] {
            *byte = self.random.u64() as u8;
        }
        if keep == 0
            && let Some(first) = bytes.first_mut()
        {
            *first = self.random.pick(&[0x01, 0x02, 0x03, 0x10, 0x00]);
        }
    }

    /// When it strikes next, on average `every_ns` later.
    pub fn next_strike(&mut self, now: Ns, every_ns: Ns) -> Ns {
        now + 1 + self.random.below(2 * every_ns)
    }
}
