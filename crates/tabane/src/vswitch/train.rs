//! UDP datagrams that arrive one by one go to the host as trains: one frame that the kernel cuts (UDP segmentation
//! offload, as for senders with `UDP_SEGMENT`, udp(7)).
//!
//! So a train passes the host's network stack once for many datagrams, which matters for tunnels (VXLAN,
//! WireGuard) and QUIC. Programs receive the same datagrams one by one.
//!
//! Of a VXLAN over two links 1.5 Gb/s arrive so, and 0.9 one by one.

use tabane_io::checksum::{fold, sum};

use super::frame::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, Ethernet, PROTOCOL_UDP, Packet, Piece, VNET_HDR_BYTES, bytes_at,
};
use super::offload::{Header, UDP_CHECKSUM_AT, UDP_HEADER_BYTES};

/// Trains at once: as many flows may arrive mixed without one ending the other's train.
const TRAINS: usize = 16;
/// Most datagrams of one (`UDP_MAX_SEGMENTS` before Linux 6.9).
const DATAGRAMS_MAX: usize = 64;
/// Longest packet.
const PACKET_BYTES_MAX: usize = 65_535;
/// Ethernet, IPv6, and the ports of UDP.
const KEY_BYTES_MAX: usize = ETHERNET_BYTES + 40 + 4;

/// The common part of a train's datagrams: the headers, without each one's own fields.
type Key = [u8; KEY_BYTES_MAX];

/// A datagram that may ride.
struct Rider<'a> {
    key: Key,
    frame: &'a [u8],
    /// Offset of the UDP header in the frame.
    udp_at: usize,
    /// A checksum still to be computed: its start, and where to write it. Not that of UDP.
    unsummed: Option<(usize, usize)>,
}

impl<'a> Rider<'a> {
    /// `None` if the frame must go alone: it is no whole UDP datagram, has options or tags, is to be cut itself,
    /// or its checksum is wrong.
    fn of(frame: &'a [u8]) -> Option<Self> {
        let ethernet = Ethernet::parse(frame)?;
        let packet = Packet::of(&ethernet)?;
        let is_v4 = ethernet.ethertype == ETHERTYPE_IPV4;
        let ip_bytes = if is_v4 { 20 } else { 40 };
        let is_plain = packet.protocol == PROTOCOL_UDP
            && packet.piece == Piece::Whole
            && packet.header_bytes == ip_bytes
            && !ethernet.tagged;
        let header = Header::parse(frame)?;
        if !is_plain || header.gso_type != 0 {
            return None;
        }
        let packet_bytes: u16 = match is_v4 {
            true => u16::from_be_bytes(bytes_at(ethernet.payload, 2)?),
            false => u16::from_be_bytes(bytes_at(ethernet.payload, 4)?).checked_add(40)?,
        };
        let datagram_bytes = u16::from_be_bytes(bytes_at(packet.content, 4)?);
        // Without padding.
        let is_exact = usize::from(packet_bytes) == ethernet.payload.len()
            && usize::from(datagram_bytes) == packet.content.len()
            && packet.content.len() > UDP_HEADER_BYTES;
        if !is_exact {
            return None;
        }
        let udp_at = VNET_HDR_BYTES + ETHERNET_BYTES + ip_bytes;
        let mut rider = Self {
            key: key(frame, is_v4, udp_at)?,
            frame,
            udp_at,
            unsummed: None,
        };
        rider.check(&header, &packet)?.then_some(rider)
    }

    /// Whether recomputing the UDP checksum hides no corruption: it is still to be computed, or absent, or right.
    /// Also notes another checksum that must be computed before.
    fn check(&mut self, header: &Header, packet: &Packet<'_>) -> Option<bool> {
        let start = VNET_HDR_BYTES + header.csum_start;
        let is_sum_of_udp = start == self.udp_at && header.csum_offset == UDP_CHECKSUM_AT;
        if header.needs_sum() && is_sum_of_udp {
            return Some(true);
        }
        let summed = if header.needs_sum() {
            // The checksum of a packet in a tunnel. The sum over its range is the complement of the current value
            // (Documentation/networking/checksum-offloads.rst, "LCO").
            let before = self.frame.get(self.udp_at + UDP_HEADER_BYTES..start)?;
            let at = start + header.csum_offset;
            let partial = u16::from_be_bytes(bytes_at(self.frame, at)?);
            if before.len() % 2 != 0 {
                return None;
            }
            self.unsummed = Some((start, at));
            sum(&self.frame[self.udp_at..start]) + u64::from(!partial)
        } else {
            sum(packet.content)
        };
        let has_none = bytes_at(packet.content, UDP_CHECKSUM_AT)? == [0, 0];
        Some(has_none || fold(packet.pseudo_sum() + summed) == 0xffff)
    }

    fn content_bytes(&self) -> usize {
        self.frame.len() - self.udp_at - UDP_HEADER_BYTES
    }
}

/// `None` if the frame is cut off.
fn key(frame: &[u8], is_v4: bool, udp_at: usize) -> Option<Key> {
    let headers = frame.get(VNET_HDR_BYTES..udp_at + 4)?;
    let mut key = [0; KEY_BYTES_MAX];
    key[..headers.len()].copy_from_slice(headers);
    // Lengths; of IPv4 the identification and the header's checksum, too.
    let own: &[(usize, usize)] = if is_v4 {
        &[(2, 6), (10, 12)]
    } else {
        &[(4, 6)]
    };
    for (from, to) in own {
        key[ETHERNET_BYTES + from..ETHERNET_BYTES + to].fill(0);
    }
    Some(key)
}

/// Makes the checksum that a frame still lacks.
fn make_sum(frame: &mut [u8], (start, at): (usize, usize)) {
    let made = !fold(sum(&frame[start..]));
    // 0 would be none.
    let made = if made == 0 { 0xffff } else { made };
    frame[at..at + 2].copy_from_slice(&made.to_be_bytes());
}

/// Datagrams of one flow.
#[derive(Debug, Default)]
struct Train {
    key: Vec<u8>,
    /// The first frame as it came, and the contents of the others. Empty: there is no train.
    frame: Vec<u8>,
    udp_at: usize,
    unsummed: Option<(usize, usize)>,
    datagrams: usize,
    /// Content of each; of the last it may be less.
    content_bytes: usize,
}

impl Train {
    fn begin(&mut self, rider: &Rider<'_>) {
        self.key.clear();
        self.key.extend_from_slice(&rider.key);
        self.frame.clear();
        self.frame.extend_from_slice(rider.frame);
        self.udp_at = rider.udp_at;
        self.unsummed = rider.unsummed;
        self.datagrams = 1;
        self.content_bytes = rider.content_bytes();
    }

    /// Whether one more may ride.
    fn has_room_for(&self, rider: &Rider<'_>) -> bool {
        let packet_bytes = self.frame.len() - VNET_HDR_BYTES - ETHERNET_BYTES;
        rider.content_bytes() <= self.content_bytes
            && packet_bytes + rider.content_bytes() <= PACKET_BYTES_MAX
    }

    /// Whether none may ride behind the last.
    fn is_full(&self) -> bool {
        let content = self.frame.len() - self.udp_at - UDP_HEADER_BYTES;
        self.datagrams == DATAGRAMS_MAX || content < self.datagrams * self.content_bytes
    }

    fn join(&mut self, rider: &Rider<'_>) {
        if let Some(unsummed) = self.unsummed.take() {
            make_sum(&mut self.frame, unsummed);
        }
        let content_at = rider.udp_at + UDP_HEADER_BYTES;
        let joined_at = self.frame.len();
        self.frame.extend_from_slice(&rider.frame[content_at..]);
        if let Some((start, at)) = rider.unsummed {
            // Within a tunnel: behind the header of UDP.
            let moved = joined_at - content_at;
            make_sum(&mut self.frame, (start + moved, at + moved));
        }
        self.datagrams += 1;
    }

    /// The frame that the kernel gets; the train is gone then.
    fn leave(&mut self, write: &mut impl FnMut(&[u8])) {
        if self.datagrams > 1 {
            self.couple();
        }
        write(&self.frame);
        self.frame.clear();
    }

    /// Makes one packet of the collected datagrams.
    fn couple(&mut self) {
        let (ip_at, udp_at) = (VNET_HDR_BYTES + ETHERNET_BYTES, self.udp_at);
        let ip_bytes = udp_at - ip_at;
        let packet_bytes = self.frame.len() - ip_at;
        let datagram_bytes = packet_bytes - ip_bytes;
        let header = Header::of_datagrams(udp_at - VNET_HDR_BYTES, self.content_bytes);
        self.frame[..VNET_HDR_BYTES].copy_from_slice(&header.encode());
        let ip = &mut self.frame[ip_at..udp_at];
        if ip_bytes == 20 {
            ip[2..4].copy_from_slice(&(packet_bytes as u16).to_be_bytes());
            ip[10..12].fill(0);
            let made = !fold(sum(ip));
            ip[10..12].copy_from_slice(&made.to_be_bytes());
        } else {
            ip[4..6].copy_from_slice(&(datagram_bytes as u16).to_be_bytes());
        }
        let pseudo = Ethernet::parse(&self.frame)
            .and_then(|ethernet| Some(Packet::of(&ethernet)?.pseudo_sum()))
            .map_or(0, fold);
        let udp = &mut self.frame[udp_at..];
        udp[4..6].copy_from_slice(&(datagram_bytes as u16).to_be_bytes());
        // The kernel adds the rest.
        udp[6..8].copy_from_slice(&pseudo.to_be_bytes());
    }
}

/// All trains of a virtual NIC.
#[derive(Debug, Default)]
pub struct Trains {
    /// Trains that have not left are in front.
    trains: [Train; TRAINS],
    count: usize,
}

impl Trains {
    /// A frame (with its `virtio_net_hdr`) that the switch accepts goes to the host, now or when its train
    /// [leaves](Trains::leave); frames of one flow keep their order.
    pub fn add(&mut self, frame: &[u8], mut write: impl FnMut(&[u8])) {
        let Some(rider) = Rider::of(frame) else {
            // Of the same flow perhaps: a fragment, a longer one that was cut from.
            if Ethernet::parse(frame).is_some_and(|it| Packet::is_of_udp(&it)) {
                self.leave(&mut write);
            }
            return write(frame);
        };
        let mut own = self.trains[..self.count].iter();
        if let Some(place) = own.position(|train| train.key == rider.key) {
            let train = &mut self.trains[place];
            if train.has_room_for(&rider) {
                train.join(&rider);
            } else {
                train.leave(&mut write);
                train.begin(&rider);
            }
            if train.is_full() {
                train.leave(&mut write);
                self.count -= 1;
                self.trains.swap(place, self.count);
            }
            return;
        }
        if self.count == TRAINS {
            self.leave(&mut write);
        }
        self.trains[self.count].begin(&rider);
        self.count += 1;
    }

    /// No more frames are at hand: sends incomplete trains.
    pub fn leave(&mut self, mut write: impl FnMut(&[u8])) {
        for train in &mut self.trains[..self.count] {
            train.leave(&mut write);
        }
        self.count = 0;
    }
}
