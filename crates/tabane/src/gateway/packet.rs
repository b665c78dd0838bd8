//! Packets of the outside in carried form: a `virtio_net_hdr`, then IP. Parses which conversation they belong to, and rewrites
//! ports, windows, and how much of a long one goes at once. Pure; the bytes are untrusted.

use std::net::{IpAddr, SocketAddr};

use tabane_io::capture::{Unreachable, unreachable};
use tabane_io::checksum::{fold, pseudo_header, sum};
use tabane_proto::gateway::{Ends, Flags, Head, Transport};

use crate::vswitch::VNET_HDR_BYTES;
use crate::vswitch::frame::{
    PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP, Packet, Piece, bytes_at,
};
use crate::vswitch::offload::{
    GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, Header, UDP_CHECKSUM_AT, UDP_HEADER_BYTES,
};

/// How much of a packet that does not arrive is returned to its sender (RFC 1812 section 4.3.2.3).
const HEAD_BYTES: usize = 548;
// RFC 9293 section 3.1.
/// Its sender says no more.
pub const FIN: u8 = 0x01;
/// A connection begins.
pub const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
/// It acknowledges something.
pub const ACK: u8 = 0x10;
const CWR: u8 = 0x80;
const TCP_HEADER_BYTES_LEAST: usize = 20;
const TCP_SEQUENCE_AT: usize = 4;
const TCP_ACKNOWLEDGED_AT: usize = 8;
const TCP_LENGTH_AT: usize = 12;
const TCP_FLAGS_AT: usize = 13;
const TCP_WINDOW_AT: usize = 14;
const TCP_CHECKSUM_AT: usize = 16;
const OPTION_END: u8 = 0;
const OPTION_NOTHING: u8 = 1;
const OPTION_WINDOW_SCALE: u8 = 3;
// RFC 792, RFC 4443.
const ICMP_HEADER_BYTES: usize = 8;
const ICMP_CHECKSUM_AT: usize = 2;
const ICMP_IDENTIFIER_AT: usize = 4;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// Destination unreachable, time exceeded, parameter problem.
const ERRORS: [u8; 3] = [3, 11, 12];
/// The same, with packet too big.
const ERRORS_V6: [u8; 4] = [1, 2, 3, 4];

/// Which end of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The sender.
    Source,
    /// Whom it is for.
    Destination,
}

/// What kind of packet it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It is one of a conversation, or the first fragment of one.
    Said,
    /// An ICMP error about a packet of a conversation.
    Error,
    /// A fragment; the first one says to which conversation it belongs.
    Fragment,
    /// Nothing that is carried.
    Other,
}

/// A packet, looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Its kind.
    pub what: What,
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// Protocol; for an error, that of the packet that it is about.
    transport: Transport,
    source: SocketAddr,
    destination: SocketAddr,
    /// TCP's flags.
    pub flags: Flags,
    /// Which fragments belong together.
    pub fragment: Option<u32>,
    /// Offset of the transport header in the frame; for an error, of the packet that it is about.
    at: usize,
    protocol: u8,
}

impl Seen {
    /// Parses a frame's packet; `None` if it is no IP packet.
    pub fn of(frame: &[u8]) -> Option<Seen> {
        let packet = Packet::of_ip(frame.get(VNET_HDR_BYTES..)?)?;
        let mut seen = Seen {
            what: What::Other,
            from: packet.source,
            to: packet.destination,
            transport: Transport::Udp,
            source: SocketAddr::new(packet.source, 0),
            destination: SocketAddr::new(packet.destination, 0),
            flags: Flags::default(),
            fragment: fragment(frame, &packet),
            at: VNET_HDR_BYTES + packet.header_bytes,
            protocol: packet.protocol,
        };
        if packet.piece == Piece::Later {
            seen.what = What::Fragment;
        } else {
            seen.look_behind(&packet);
        }
        Some(seen)
    }

    /// The headers from the view of the end `own`.
    pub fn head(&self, own: End) -> Head {
        // The packet that an error is about went the other way.
        let is_turned = self.what == What::Error;
        let (own, far) = match (own == End::Source) != is_turned {
            true => (self.source, self.destination),
            false => (self.destination, self.source),
        };
        Head {
            ends: Ends {
                transport: self.transport,
                own: own.port(),
                far,
            },
            flags: self.flags,
        }
    }

    fn look_behind(&mut self, packet: &Packet<'_>) {
        let content = packet.content;
        let is_v4 = packet.source.is_ipv4();
        match packet.protocol {
            PROTOCOL_TCP | PROTOCOL_UDP => self.take_ports(packet),
            PROTOCOL_ICMP if is_v4 => match content.first() {
                Some(&kind @ (ECHO_REQUEST | ECHO_REPLY)) => {
                    self.take_echo(content, kind == ECHO_REQUEST)
                }
                Some(kind) if ERRORS.contains(kind) => self.take_error(content),
                _ => {}
            },
            PROTOCOL_ICMPV6 if !is_v4 => match content.first() {
                Some(&kind @ (ECHO_REQUEST_V6 | ECHO_REPLY_V6)) => {
                    self.take_echo(content, kind == ECHO_REQUEST_V6);
                }
                Some(kind) if ERRORS_V6.contains(kind) => self.take_error(content),
                _ => {}
            },
            _ => {}
        }
    }

    fn take_ports(&mut self, packet: &Packet<'_>) {
        let port = |at| bytes_at(packet.content, at).map(u16::from_be_bytes);
        let (Some(source), Some(destination)) = (port(0), port(2)) else {
            return;
        };
        let is_tcp = packet.protocol == PROTOCOL_TCP;
        if is_tcp && self.what != What::Error {
            let Some(&flags) = packet.content.get(TCP_FLAGS_AT) else {
                return;
            };
            self.flags = Flags {
                syn: flags & SYN != 0,
                ack: flags & ACK != 0,
                fin: flags & FIN != 0,
                rst: flags & RST != 0,
            };
        }
        self.transport = if is_tcp {
            Transport::Tcp
        } else {
            Transport::Udp
        };
        self.source = SocketAddr::new(packet.source, source);
        self.destination = SocketAddr::new(packet.destination, destination);
        if self.what == What::Other {
            self.what = What::Said;
        }
    }

    /// The identifier is the requester's port.
    fn take_echo(&mut self, content: &[u8], is_request: bool) {
        let Some(id) = bytes_at(content, ICMP_IDENTIFIER_AT).map(u16::from_be_bytes) else {
            return;
        };
        self.transport = Transport::Echo;
        match is_request {
            true => self.source.set_port(id),
            false => self.destination.set_port(id),
        }
        if self.what == What::Other {
            self.what = What::Said;
        }
    }

    /// The packet that it is about follows, at least as far as the ports (RFC 792, RFC 4443 section 3).
    fn take_error(&mut self, content: &[u8]) {
        let told = content.get(ICMP_HEADER_BYTES..).and_then(Packet::of_ip);
        let Some(told) = told.filter(|told| told.piece != Piece::Later) else {
            return;
        };
        if told.source != self.to {
            return;
        }
        self.what = What::Error;
        self.at += ICMP_HEADER_BYTES + told.header_bytes;
        self.protocol = told.protocol;
        let is_known = match told.protocol {
            PROTOCOL_TCP | PROTOCOL_UDP => {
                self.take_ports(&told);
                told.content.len() >= 4
            }
            PROTOCOL_ICMP | PROTOCOL_ICMPV6 => {
                self.source = SocketAddr::new(told.source, 0);
                self.destination = SocketAddr::new(told.destination, 0);
                self.take_echo(told.content, true);
                told.content.len() >= ICMP_HEADER_BYTES
            }
            _ => false,
        };
        if !is_known {
            self.what = What::Other;
        }
    }

    /// Gives the end of the conversation that is here another port.
    pub fn set_own_port(&self, frame: &mut [u8], own: End, port: u16) {
        let is_turned = self.what == What::Error;
        let is_source = (own == End::Source) != is_turned;
        let port_at = if is_source { 0 } else { 2 };
        let (at, sum) = match self.transport {
            Transport::Echo => (ICMP_IDENTIFIER_AT, Sum::always(self.at + ICMP_CHECKSUM_AT)),
            Transport::Tcp => (port_at, Sum::always(self.at + TCP_CHECKSUM_AT)),
            Transport::Udp => (port_at, Sum::if_any(self.at + UDP_CHECKSUM_AT)),
        };
        if !is_turned {
            return replace(frame, self.at + at, port, sum);
        }
        // The packet in an error may be cut off before its checksum, which nobody checks. The error's own checksum covers all.
        let packet = frame.get(VNET_HDR_BYTES..).and_then(Packet::of_ip);
        let error_at = packet.map(|packet| VNET_HDR_BYTES + packet.header_bytes);
        if let Some(error_at) = error_at {
            replace(
                frame,
                self.at + at,
                port,
                Sum::always(error_at + ICMP_CHECKSUM_AT),
            );
        }
    }
}

/// Position of a checksum.
#[derive(Clone, Copy)]
struct Sum {
    at: usize,
    /// Zero means that there is none (UDP over IPv4, RFC 768).
    may_lack: bool,
}

impl Sum {
    const fn always(at: usize) -> Sum {
        Sum {
            at,
            may_lack: false,
        }
    }

    const fn if_any(at: usize) -> Sum {
        Sum { at, may_lack: true }
    }

    /// Updates it after a word that it covers has changed (RFC 1624).
    fn correct(self, frame: &mut [u8], before: u16, now: u16) {
        let Some(place) = frame.get_mut(self.at..self.at + 2) else {
            return;
        };
        let known = u16::from_be_bytes([place[0], place[1]]);
        if self.may_lack && known == 0 {
            return;
        }
        let new = !fold(u64::from(!known) + u64::from(!before) + u64::from(now));
        let new = if new == 0 && self.may_lack {
            0xffff
        } else {
            new
        };
        place.copy_from_slice(&new.to_be_bytes());
    }
}

/// Which fragments belong together, of those between the same two (RFC 791, RFC 8200 section 4.5).
fn fragment(frame: &[u8], packet: &Packet<'_>) -> Option<u32> {
    if packet.piece == Piece::Whole {
        return None;
    }
    let ip = frame.get(VNET_HDR_BYTES..)?;
    match packet.source {
        IpAddr::V4(_) => Some(u16::from_be_bytes(bytes_at(ip, 4)?).into()),
        // Its header is the last in front of the content, or of another header that the first one alone shows.
        IpAddr::V6(_) => {
            let header: [u8; 8] = bytes_at(ip, packet.header_bytes.checked_sub(8)?)?;
            Some(u32::from_be_bytes(bytes_at(&header, 4)?))
        }
    }
}

/// Replaces a word, and updates the checksum unless it is still to be computed in full.
fn replace(frame: &mut [u8], at: usize, word: u16, sum: Sum) {
    let Some(place) = frame.get_mut(at..at + 2) else {
        return;
    };
    let before = u16::from_be_bytes([place[0], place[1]]);
    place.copy_from_slice(&word.to_be_bytes());
    let is_unsummed = Header::parse(frame).is_some_and(|header| header.needs_sum());
    if !is_unsummed {
        sum.correct(frame, before, word);
    }
}

/// Takes off what stands behind the packet: Ethernet fills short ones up.
pub fn trim(frame: &mut Vec<u8>) {
    let Some(ip) = frame.get(VNET_HDR_BYTES..) else {
        return;
    };
    let word = |at| bytes_at(ip, at).map(u16::from_be_bytes).map(usize::from);
    let bytes = match ip.first().map(|first| first >> 4) {
        Some(4) => word(2),
        // 0 for packets longer than 64 KB.
        Some(6) => word(4)
            .filter(|length| *length > 0)
            .map(|length| 40 + length),
        _ => None,
    };
    if let Some(bytes) = bytes {
        frame.truncate(VNET_HDR_BYTES + bytes);
    }
}

/// TCP's sequence and acknowledgement of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    at: usize,
    /// Up to here its sender has acknowledged.
    pub acknowledged: u32,
    /// How much more it takes, to be shifted.
    pub window: u16,
    /// Behind the last byte that the packet carries; SYN and FIN count.
    pub end: u32,
    /// So many bytes of these are content.
    pub content_bytes: u32,
    /// Of what begins a connection: whether its sender wants windows to be shifted, and by how many bits.
    pub scale: Option<Option<u8>>,
}

impl Segment {
    /// `None`: no TCP, or cut off.
    pub fn of(frame: &[u8], seen: &Seen) -> Option<Segment> {
        if seen.what != What::Said || seen.protocol != PROTOCOL_TCP {
            return None;
        }
        let segment = frame.get(seen.at..)?;
        let word = |at| bytes_at(segment, at).map(u32::from_be_bytes);
        let header_bytes = usize::from(segment.get(TCP_LENGTH_AT)? >> 4) * 4;
        let options = segment.get(TCP_HEADER_BYTES_LEAST..header_bytes)?;
        let content_bytes = segment.len().saturating_sub(header_bytes) as u32;
        let counts = u32::from(seen.flags.syn) + u32::from(seen.flags.fin);
        Some(Segment {
            at: seen.at,
            acknowledged: word(TCP_ACKNOWLEDGED_AT)?,
            window: bytes_at(segment, TCP_WINDOW_AT).map(u16::from_be_bytes)?,
            end: word(TCP_SEQUENCE_AT)?
                .wrapping_add(content_bytes)
                .wrapping_add(counts),
            content_bytes,
            scale: seen.flags.syn.then(|| window_scale(options)),
        })
    }

    /// Has the packet's receiver see another window.
    pub fn set_window(&self, frame: &mut [u8], window: u16) {
        let sum = Sum::always(self.at + TCP_CHECKSUM_AT);
        replace(frame, self.at + TCP_WINDOW_AT, window, sum);
    }
}

/// RFC 7323 section 2.2.
fn window_scale(mut options: &[u8]) -> Option<u8> {
    while let [kind, rest @ ..] = options {
        let skipped = match (*kind, rest) {
            (OPTION_END, _) => break,
            (OPTION_NOTHING, _) => 1,
            (OPTION_WINDOW_SCALE, [3, shift, ..]) => return Some(*shift),
            (_, [length, ..]) => usize::from(*length).max(2),
            (_, []) => break,
        };
        options = options.get(skipped..).unwrap_or_default();
    }
    None
}

/// The ICMP error for the sender of an undeliverable IP packet, with a `virtio_net_hdr`.
pub fn does_not_arrive(packet: &[u8], why: Unreachable) -> Option<Vec<u8>> {
    let ends = Packet::of_ip(packet)?;
    let head = &packet[..packet.len().min(HEAD_BYTES)];
    let told = unreachable(ends.source, ends.destination, why, head);
    Some([&[0; VNET_HDR_BYTES][..], &told].concat())
}

/// A packet that is longer than those on the wire, which may go piece by piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cuts {
    is_tcp: bool,
    transport_at: usize,
    content_at: usize,
    /// Content of each packet on the wire.
    each_bytes: usize,
}

impl Cuts {
    /// `None`: it is one packet on the wire.
    pub fn of(frame: &[u8]) -> Option<Cuts> {
        let header = Header::parse(frame)?;
        let packet = Packet::of_ip(frame.get(VNET_HDR_BYTES..)?)?;
        let is_tcp = match (header.gso_type & !GSO_ECN, packet.protocol) {
            (GSO_TCPV4 | GSO_TCPV6, PROTOCOL_TCP) => true,
            (GSO_UDP_L4, PROTOCOL_UDP) => false,
            _ => return None,
        };
        let header_bytes = match is_tcp {
            true => usize::from(packet.content.get(TCP_LENGTH_AT)? >> 4) * 4,
            false => UDP_HEADER_BYTES,
        };
        let transport_at = VNET_HDR_BYTES + packet.header_bytes;
        let each_bytes = usize::from(header.gso_size);
        let is_right = header.needs_sum()
            && header.csum_start == packet.header_bytes
            && header_bytes <= packet.content.len()
            && (!is_tcp || header_bytes >= TCP_HEADER_BYTES_LEAST)
            && each_bytes > 0;
        is_right.then_some(Cuts {
            is_tcp,
            transport_at,
            content_at: transport_at + header_bytes,
            each_bytes,
        })
    }

    /// How much content of `left` bytes goes at once, where `most` may: whole packets of the wire, one at least.
    pub fn piece_bytes(&self, left: usize, most: usize) -> usize {
        let packets = (most / self.each_bytes).max(1);
        left.min(packets * self.each_bytes)
    }

    /// The content of all of it, in bytes.
    pub fn content_bytes(&self, frame: &[u8]) -> usize {
        frame.len() - self.content_at
    }

    /// The number of packets on the wire for this much content.
    pub const fn count(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.each_bytes)
    }

    /// The headers in front of it, in bytes, without the `virtio_net_hdr`.
    pub const fn header_bytes(&self) -> usize {
        self.content_at - VNET_HDR_BYTES
    }

    /// Writes the headers of the piece that has `bytes` of the content from `from` on; these follow.
    pub fn write_headers(&self, frame: &[u8], from: usize, bytes: usize, piece: &mut Vec<u8>) {
        let content_bytes = self.content_bytes(frame);
        piece.clear();
        piece.extend_from_slice(&frame[..self.content_at]);
        if let Some(mut header) = Header::parse(frame) {
            header.hdr_len = self.header_bytes();
            if bytes <= self.each_bytes {
                header.gso_type = GSO_NONE;
                header.gso_size = 0;
            } else if from > 0 {
                header.gso_type &= !GSO_ECN;
            }
            piece[..VNET_HDR_BYTES].copy_from_slice(&header.encode());
        }
        let segment_bytes = self.content_at - self.transport_at + bytes;
        self.write_ip(from, segment_bytes, piece);
        let at = self.transport_at;
        if self.is_tcp {
            let sequence = bytes_at(piece, at + TCP_SEQUENCE_AT).map_or(0, u32::from_be_bytes);
            let sequence = sequence.wrapping_add(from as u32);
            piece[at + TCP_SEQUENCE_AT..][..4].copy_from_slice(&sequence.to_be_bytes());
            let flags = &mut piece[at + TCP_FLAGS_AT];
            if from > 0 {
                *flags &= !CWR;
            }
            if from + bytes < content_bytes {
                *flags &= !(FIN | PSH);
            }
        } else {
            let length = (segment_bytes as u16).to_be_bytes();
            piece[at + 4..at + 6].copy_from_slice(&length);
        }
        let sum_at = at
            + if self.is_tcp {
                TCP_CHECKSUM_AT
            } else {
                UDP_CHECKSUM_AT
            };
        let pseudo = Packet::of_ip(&piece[VNET_HDR_BYTES..]).map_or(0, |packet| {
            pseudo_header(
                packet.source,
                packet.destination,
                packet.protocol,
                segment_bytes,
            )
        });
        piece[sum_at..sum_at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
    }

    /// The lengths in front of a segment; of IPv4 the identification, which counts packets, and the checksum as well.
    fn write_ip(&self, from: usize, segment_bytes: usize, piece: &mut [u8]) {
        let ip_bytes = self.transport_at - VNET_HDR_BYTES;
        let ip = &mut piece[VNET_HDR_BYTES..self.transport_at];
        if ip[0] >> 4 == 6 {
            let length = (ip_bytes - 40 + segment_bytes) as u16;
            ip[4..6].copy_from_slice(&length.to_be_bytes());
            return;
        }
        let length = (ip_bytes + segment_bytes) as u16;
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        let id = u16::from_be_bytes([ip[4], ip[5]]);
        let id = id.wrapping_add((from / self.each_bytes) as u16);
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[10..12].fill(0);
        let checksum = !fold(sum(ip));
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

#[cfg(test)]
pub(super) mod tests;
