//! What a `virtio_net_hdr` asks of the kernel: to compute a checksum, to cut a packet.
//!
//! A peer's header is checked against its frame, so that no peer makes this host's kernel cut or sum
//! nonsense. The rules are those of the virtio specification (1.2, section 5.1.6) for drivers, and of Linux
//! (`virtio_net_hdr_to_skb`, `tcp_gso_segment`).

use super::frame::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, PROTOCOL_TCP, PROTOCOL_UDP, Packet, Piece,
    VNET_HDR_BYTES, bytes_at,
};

// linux/virtio_net.h
pub(crate) const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
pub(crate) const GSO_NONE: u8 = 0;
pub(crate) const GSO_TCPV4: u8 = 1;
pub(crate) const GSO_TCPV6: u8 = 4;
pub(crate) const GSO_UDP_L4: u8 = 5;
pub(crate) const GSO_ECN: u8 = 0x80;

/// Largest start of a checksum: the kernel adds its headroom and keeps the sum in 16 bits.
const CSUM_START_MAX: usize = 0x7fff;
/// Smallest start of a checksum: the kernel demands the length of an IPv4 header, whatever the frame
/// carries.
const CSUM_START_MIN: usize = 20;
/// The kernel's name for "cut where the fragments are" (`GSO_BY_FRAGS`): no size.
const GSO_BY_FRAGS: u16 = 0xffff;
/// Most segments of TCP: the kernel counts them in 16 bits.
const TCP_SEGMENTS_MAX: usize = 0xffff;
/// Most segments of UDP (`UDP_MAX_SEGMENTS`; 64 before Linux 6.9).
const UDP_SEGMENTS_MAX: usize = 128;

/// Length of the header of UDP, and where in it the checksum is.
pub(crate) const UDP_HEADER_BYTES: usize = 8;
pub(crate) const UDP_CHECKSUM_AT: usize = 6;

/// The header, as docs/protocol.md has it (little endian).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) flags: u8,
    pub(crate) gso_type: u8,
    /// How much of the frame is headers; a hint.
    pub(crate) hdr_len: usize,
    /// Bytes of content of each segment.
    pub(crate) gso_size: u16,
    /// Where in the frame the checksum begins, and its offset from there.
    pub(crate) csum_start: usize,
    pub(crate) csum_offset: usize,
}

impl Header {
    /// Of datagrams of UDP in one packet, to be cut: where UDP begins in the frame, and the content of each.
    pub(super) fn of_datagrams(udp_at: usize, content_bytes: usize) -> Self {
        Self {
            flags: NEEDS_CSUM,
            gso_type: GSO_UDP_L4,
            hdr_len: udp_at + UDP_HEADER_BYTES,
            gso_size: content_bytes as u16,
            csum_start: udp_at,
            csum_offset: UDP_CHECKSUM_AT,
        }
    }

    /// Whether a checksum is still to be made.
    pub(crate) const fn needs_sum(&self) -> bool {
        self.flags == NEEDS_CSUM
    }

    pub(crate) fn encode(&self) -> [u8; VNET_HDR_BYTES] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [
            self.hdr_len as u16,
            self.gso_size,
            self.csum_start as u16,
            self.csum_offset as u16,
        ];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let header: [u8; VNET_HDR_BYTES] = bytes_at(frame, 0)?;
        let word = |at: usize| bytes_at(&header, at).map(u16::from_le_bytes);
        Some(Self {
            flags: header[0],
            gso_type: header[1],
            hdr_len: word(2)?.into(),
            gso_size: word(4)?,
            csum_start: word(6)?.into(),
            csum_offset: word(8)?.into(),
        })
    }
}

/// Whether the header of `frame`, parsed as `ethernet`, is valid: its fields are within the frame and fit
/// its content.
pub(super) fn is_sound(frame: &[u8], ethernet: &Ethernet<'_>) -> bool {
    let Some(header) = Header::parse(frame) else {
        return false;
    };
    let frame_bytes = frame.len() - VNET_HDR_BYTES;
    if header.hdr_len > frame_bytes {
        return false;
    }
    let sum_is_sound = match header.flags {
        NEEDS_CSUM => sum_is_within(&header, ethernet, frame_bytes),
        0 | DATA_VALID => true,
        _ => false,
    };
    let cuts = header.gso_type != GSO_NONE;
    sum_is_sound && (!cuts || segments_are_sound(&header, ethernet, frame_bytes).is_some())
}

/// Whether the frame will be cut, so that its own length does not matter.
pub(super) fn is_to_be_cut(frame: &[u8]) -> bool {
    frame.get(1).is_some_and(|gso_type| *gso_type != GSO_NONE)
}

/// Does the checksum begin behind the headers in front of it, and end within the frame?
fn sum_is_within(header: &Header, ethernet: &Ethernet<'_>, frame_bytes: usize) -> bool {
    let least = match (ethernet.ethertype, Packet::of(ethernet)) {
        (ETHERTYPE_IPV4 | ETHERTYPE_IPV6, None) => return false,
        // Of IPv6 without the extension headers: within a tunnel they are another packet's.
        (ETHERTYPE_IPV6, _) => 40,
        (_, Some(packet)) => packet.header_bytes,
        (_, None) => 0,
    };
    let least = (ethernet.header_bytes + least).max(CSUM_START_MIN);
    let end = header.csum_start + header.csum_offset + 2;
    (least..=CSUM_START_MAX).contains(&header.csum_start) && end <= frame_bytes
}

/// `None` if the frame is not what the header says, or cannot be cut like that.
fn segments_are_sound(header: &Header, ethernet: &Ethernet<'_>, frame_bytes: usize) -> Option<()> {
    let is_ipv4 = ethernet.ethertype == ETHERTYPE_IPV4;
    // Offset of the checksum, of the least header, the most segments.
    let (protocol, sum_at, least_bytes, segments_max) = match header.gso_type {
        GSO_UDP_L4 => (
            PROTOCOL_UDP,
            UDP_CHECKSUM_AT,
            UDP_HEADER_BYTES,
            UDP_SEGMENTS_MAX,
        ),
        other => match (other & !GSO_ECN, is_ipv4) {
            (GSO_TCPV4, true) | (GSO_TCPV6, false) => (PROTOCOL_TCP, 16, 20, TCP_SEGMENTS_MAX),
            _ => return None,
        },
    };
    let packet = Packet::of(ethernet)?;
    let is_whole = packet.protocol == protocol && packet.piece == Piece::Whole;
    // Each segment has its own checksum, which begins at the header of TCP or UDP.
    let is_summed = header.flags == NEEDS_CSUM
        && header.csum_start == ethernet.header_bytes + packet.header_bytes
        && header.csum_offset == sum_at;
    let header_bytes = match protocol {
        PROTOCOL_TCP => usize::from(packet.content.get(12)? >> 4) * 4,
        _ => least_bytes,
    };
    let content_bytes = frame_bytes.checked_sub(header.csum_start + header_bytes)?;
    let size_is_sound = header.gso_size != 0 && header.gso_size != GSO_BY_FRAGS;
    let is_sound = is_whole && is_summed && size_is_sound && header_bytes >= least_bytes;
    let segments = content_bytes.div_ceil(usize::from(header.gso_size.max(1)));
    (is_sound && segments <= segments_max).then_some(())
}
