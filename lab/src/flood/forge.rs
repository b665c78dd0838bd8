//! Making hostile frames. Offsets of Ethernet, IPv4 and UDP are known here;
//! of tabane's packets no more than their first bytes (docs/protocol.md).

use std::net::Ipv4Addr;

use clap::ValueEnum;

use super::{FloodConfig, PORT};

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// In front of the UDP payload.
pub(super) const HEADER_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;
/// Of a frame on a network with an MTU of 1500.
pub(super) const FRAME_BYTES_MAX: usize = ETHERNET_BYTES + 1500;

/// The beginning of an Init, version 2, and its length.
const INIT: [u8; 2] = [0x01, 0];
const VERSION: [u8; 2] = [0, 2];
const INIT_BYTES: usize = 397;
/// Garbage is mostly short: so there is more of it.
const GARBAGE_BYTES: u64 = 100;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// First handshake messages, well formed, of nobody: each from another source
    Handshakes,
    /// Random bytes of random length; half begin as a packet of a session does
    Garbage,
    /// Packets recorded before: whole, cut, with flipped bits, with another's session
    Copies,
    /// All of these in turn
    Mixed,
}

impl Kind {
    pub(super) fn needs_recorded(self) -> bool {
        matches!(self, Kind::Copies | Kind::Mixed)
    }
}

/// Numbers without a pattern (Marsaglia, Xorshift RNGs, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_le_bytes()[..word.len()]);
        }
    }
}

/// Makes one frame after the other.
pub(super) struct Forger {
    kind: Kind,
    link: u8,
    /// Ethernet addresses: to, from.
    stations: [[u8; 6]; 2],
    to: Ipv4Addr,
    /// Those of all nodes.
    known: Vec<Ipv4Addr>,
    recorded: Vec<Vec<u8>>,
    random: Random,
}

impl Forger {
    pub fn new(config: &FloodConfig, known: Vec<Ipv4Addr>) -> Forger {
        let station = |node: usize| [0x02, 0x7a, 0x62, 0, config.link as u8, node as u8 + 1];
        Forger {
            kind: config.kind,
            link: config.link as u8,
            stations: [station(config.to), station(config.from)],
            to: known[config.to],
            known,
            recorded: config.recorded.clone(),
            random: Random(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// Writes the next frame; returns its length.
    pub fn forge(&mut self, frame: &mut [u8; FRAME_BYTES_MAX]) -> usize {
        let kind = match self.kind {
            Kind::Mixed => [Kind::Handshakes, Kind::Garbage, Kind::Copies][self.random.below(3)],
            kind => kind,
        };
        let payload = &mut frame[HEADER_BYTES..];
        let bytes = match kind {
            Kind::Handshakes => handshake(&mut self.random, payload),
            Kind::Garbage => garbage(&mut self.random, self.link, payload),
            Kind::Copies | Kind::Mixed => copy(&mut self.random, &self.recorded, payload),
        };
        // A copy pretends to be who it was, half of the time.
        let is_known = kind == Kind::Copies && self.random.below(2) == 0;
        let source = if is_known {
            (self.known[self.random.below(self.known.len())], PORT)
        } else {
            let [a, b, c, _] = self.to.octets();
            let host = self.random.below(254) as u8 + 1;
            let port = 1024 + self.random.below(64_000) as u16;
            (Ipv4Addr::new(a, b, c, host), port)
        };
        self.headers(frame, source, bytes);
        HEADER_BYTES + bytes
    }

    fn headers(&self, frame: &mut [u8], (from, port): (Ipv4Addr, u16), payload_bytes: usize) {
        let (ethernet, rest) = frame.split_at_mut(ETHERNET_BYTES);
        ethernet[..6].copy_from_slice(&self.stations[0]);
        ethernet[6..12].copy_from_slice(&self.stations[1]);
        ethernet[12..].copy_from_slice(&[0x08, 0x00]);
        let (ip, udp) = rest.split_at_mut(IP_BYTES);
        let length = (IP_BYTES + UDP_BYTES + payload_bytes) as u16;
        ip.fill(0);
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        // Don't fragment; 64 hops; UDP.
        (ip[6], ip[8], ip[9]) = (0x40, 64, 17);
        ip[12..16].copy_from_slice(&from.octets());
        ip[16..20].copy_from_slice(&self.to.octets());
        let sum = checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        udp[..2].copy_from_slice(&port.to_be_bytes());
        udp[2..4].copy_from_slice(&PORT.to_be_bytes());
        udp[4..6].copy_from_slice(&((UDP_BYTES + payload_bytes) as u16).to_be_bytes());
        // No checksum: IPv4 allows that.
        udp[6..8].fill(0);
    }
}

/// RFC 1071.
fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn handshake(random: &mut Random, payload: &mut [u8]) -> usize {
    random.fill(&mut payload[..INIT_BYTES]);
    payload[..2].copy_from_slice(&INIT);
    payload[6..8].copy_from_slice(&VERSION);
    INIT_BYTES
}

fn garbage(random: &mut Random, link: u8, payload: &mut [u8]) -> usize {
    let bytes = (random.next() % GARBAGE_BYTES) as usize;
    random.fill(&mut payload[..bytes]);
    if bytes >= 2 && random.below(2) == 0 {
        payload[..2].copy_from_slice(&[0x10, link]);
    }
    bytes
}

fn copy(random: &mut Random, recorded: &[Vec<u8>], payload: &mut [u8]) -> usize {
    let original = &recorded[random.below(recorded.len())];
    let bytes = original.len().min(payload.len());
    payload[..bytes].copy_from_slice(&original[..bytes]);
    match random.below(4) {
        0 => {}
        1 => return random.below(bytes),
        2 => {
            let bit = random.below(8 * bytes);
            payload[bit / 8] ^= 1 << (bit % 8);
        }
        _ => {
            let other = &recorded[random.below(recorded.len())];
            if let (Some(to), Some(from)) = (payload.get_mut(1..6), other.get(1..6)) {
                to.copy_from_slice(from);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forger(kind: Kind) -> Forger {
        let config = FloodConfig {
            from: 2,
            to: 0,
            link: 1,
            kind,
            count: 1,
            recorded: vec![vec![0x10; 200], vec![0x01; 276]],
        };
        let known = (1..=3).map(|n| Ipv4Addr::new(10, 77, 1, n)).collect();
        Forger::new(&config, known)
    }

    #[test]
    fn frames_are_whole_udp_datagrams_to_the_one_who_suffers() {
        for kind in [Kind::Handshakes, Kind::Garbage, Kind::Copies, Kind::Mixed] {
            let mut forger = forger(kind);
            for _ in 0..1000 {
                let mut frame = [0; FRAME_BYTES_MAX];
                let bytes = forger.forge(&mut frame);
                assert_eq!(frame[..6], [0x02, 0x7a, 0x62, 0, 1, 1]);
                assert_eq!(checksum(&frame[14..34]), 0);
                let length = |at: usize| usize::from(frame[at]) << 8 | usize::from(frame[at + 1]);
                assert_eq!((length(16), length(38)), (bytes - 14, bytes - 34));
                assert_eq!(frame[30..34], [10, 77, 1, 1]);
            }
        }
    }
}
