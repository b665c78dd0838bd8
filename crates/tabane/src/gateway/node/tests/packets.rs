//! Packets of the simulated kernels: built and read here, by nothing of the gateway's own.

use std::net::{IpAddr, SocketAddr};

use tabane_io::checksum::{fold, pseudo_header, sum};

use super::Mac;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const HDR_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;

/// What is said in a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// None: it is of UDP.
    pub tcp: Option<Header>,
    pub data: Vec<u8>,
}

/// What TCP says in front of its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
    pub window: u16,
    /// By how many bits windows are shifted, of what begins a connection.
    pub shift: Option<u8>,
}

impl Header {
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

fn ip_header(from: IpAddr, to: IpAddr, protocol: u8, content_bytes: usize) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = vec![0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, protocol, 0, 0];
            ip[2..4].copy_from_slice(&(20 + content_bytes as u16).to_be_bytes());
            ip.extend(from.octets());
            ip.extend(to.octets());
            let checksum = !fold(sum(&ip));
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            ip
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend((content_bytes as u16).to_be_bytes());
            ip.extend([protocol, 64]);
            ip.extend(from.octets());
            ip.extend(to.octets());
            ip
        }
        _ => unreachable!("both ends are of one family"),
    }
}

impl Said {
    const fn protocol(&self) -> u8 {
        if self.tcp.is_some() { TCP } else { UDP }
    }

    /// The transport's header and its data, without a checksum; and where that is.
    fn content(&self) -> (Vec<u8>, usize) {
        let mut content = Vec::new();
        content.extend(self.from.port().to_be_bytes());
        content.extend(self.to.port().to_be_bytes());
        let sum_at = match &self.tcp {
            Some(tcp) => {
                content.extend(tcp.sequence.to_be_bytes());
                content.extend(tcp.acknowledged.to_be_bytes());
                let words = if tcp.shift.is_some() { 6 } else { 5 };
                content.extend([words << 4, tcp.flags]);
                content.extend(tcp.window.to_be_bytes());
                content.extend([0; 4]);
                if let Some(shift) = tcp.shift {
                    content.extend([1, 3, 3, shift]);
                }
                16
            }
            None => {
                content.extend((8 + self.data.len() as u16).to_be_bytes());
                content.extend([0, 0]);
                6
            }
        };
        content.extend(&self.data);
        (content, sum_at)
    }

    /// As it is on the wire, from IP on.
    pub fn packet(&self) -> Vec<u8> {
        let (mut content, sum_at) = self.content();
        let (from, to) = (self.from.ip(), self.to.ip());
        let pseudo = pseudo_header(from, to, self.protocol(), content.len());
        let checksum = !fold(pseudo + sum(&content));
        content[sum_at..sum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        [ip_header(from, to, self.protocol(), content.len()), content].concat()
    }

    /// As a kernel hands it to a TUN: a `virtio_net_hdr` in front, the checksum still to be made, and what is longer than a packet of the wire to be cut.
    pub fn offloaded(&self, segment_bytes: usize) -> Vec<u8> {
        let Some(tcp) = &self.tcp else {
            return [vec![0; HDR_BYTES], self.packet()].concat();
        };
        let (mut content, sum_at) = self.content();
        let (from, to) = (self.from.ip(), self.to.ip());
        let pseudo = pseudo_header(from, to, TCP, content.len());
        content[sum_at..sum_at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
        let ip = ip_header(from, to, TCP, content.len());
        let header_bytes = content.len() - self.data.len();
        let mut header = vec![NEEDS_CSUM, 0];
        header.extend(((ip.len() + header_bytes) as u16).to_le_bytes());
        let is_long = self.data.len() > segment_bytes;
        debug_assert!(!is_long || !tcp.has(SYN));
        let size = if is_long { segment_bytes as u16 } else { 0 };
        if is_long {
            header[1] = if from.is_ipv4() { GSO_TCPV4 } else { GSO_TCPV6 };
        }
        header.extend(size.to_le_bytes());
        header.extend((ip.len() as u16).to_le_bytes());
        header.extend((sum_at as u16).to_le_bytes());
        [header, ip, content].concat()
    }

    /// Reads a packet of the wire, from IP on. `None`: it is of neither TCP nor UDP.
    ///
    /// # Errors
    /// A checksum is wrong.
    pub fn parse(packet: &[u8]) -> Result<Option<Said>, String> {
        let is_v4 = packet[0] >> 4 == 4;
        let (ip_bytes, protocol) = if is_v4 {
            (20, packet[9])
        } else {
            (40, packet[6])
        };
        if protocol != TCP && protocol != UDP {
            return Ok(None);
        }
        let ip = |at: usize, bytes: usize| -> IpAddr {
            match bytes {
                4 => <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap().into(),
                _ => <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into(),
            }
        };
        let (from, to) = match is_v4 {
            true => (ip(12, 4), ip(16, 4)),
            false => (ip(8, 16), ip(24, 16)),
        };
        let content = &packet[ip_bytes..];
        let pseudo = pseudo_header(from, to, protocol, content.len());
        if fold(pseudo + sum(content)) != 0xffff || is_v4 && fold(sum(&packet[..20])) != 0xffff {
            return Err(format!("a checksum from {from} to {to} is wrong"));
        }
        let word = |at: usize| u16::from_be_bytes([content[at], content[at + 1]]);
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        let tcp = (protocol == TCP).then(|| Header {
            sequence: long(4),
            acknowledged: long(8),
            flags: content[13],
            window: word(14),
            shift: (content[12] >> 4 == 6).then(|| content[23]),
        });
        let data_at = match protocol {
            TCP => usize::from(content[12] >> 4) * 4,
            _ => 8,
        };
        Ok(Some(Said {
            from: (from, word(0)).into(),
            to: (to, word(2)).into(),
            tcp,
            data: content[data_at..].to_vec(),
        }))
    }
}

/// What a device puts on its wire of a frame with a `virtio_net_hdr`: cut and summed.
pub fn cut(frame: &[u8]) -> Vec<Vec<u8>> {
    let (header, wire) = frame.split_at(HDR_BYTES);
    if header[0] & NEEDS_CSUM == 0 {
        return vec![wire.to_vec()];
    }
    let (ethernet, packet) = wire.split_at(ETHERNET_BYTES);
    let word = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let transport_at = word(6) - ETHERNET_BYTES;
    let content = &packet[transport_at..];
    let header_bytes = usize::from(content[12] >> 4) * 4;
    let data = &content[header_bytes..];
    let each = if header[1] == 0 {
        data.len().max(1)
    } else {
        word(4)
    };
    let mut said = unsummed(packet);
    let (first, flags) = (said.tcp.map_or(0, |tcp| tcp.sequence), content[13]);
    let mut frames = Vec::new();
    let mut at = 0;
    loop {
        let end = (at + each).min(data.len());
        if let Some(tcp) = &mut said.tcp {
            tcp.sequence = first.wrapping_add(at as u32);
            tcp.flags = if end < data.len() {
                flags & !FIN
            } else {
                flags
            };
        }
        said.data = data[at..end].to_vec();
        frames.push([ethernet, &said.packet()].concat());
        at = end;
        if at == data.len() {
            return frames;
        }
    }
}

/// What a packet says whose checksum is still to be made.
fn unsummed(packet: &[u8]) -> Said {
    let mut packet = packet.to_vec();
    let is_v4 = packet[0] >> 4 == 4;
    let at = if is_v4 { 20 } else { 40 };
    let pseudo = u16::from_be_bytes([packet[at + 16], packet[at + 17]]);
    packet[at + 16..at + 18].fill(0);
    let checksum = !fold(u64::from(pseudo) + sum(&packet[at..]));
    packet[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
    Said::parse(&packet)
        .expect("a sum that is to be completed covers all")
        .expect("TCP alone is offloaded")
}

/// In front of a packet of IP.
pub fn ethernet(to: Mac, from: Mac, packet: &[u8]) -> Vec<u8> {
    let ethertype: u16 = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    [&to[..], &from[..], &ethertype.to_be_bytes()[..], packet].concat()
}
