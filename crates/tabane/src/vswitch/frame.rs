//! The layout of frames of the virtual NIC. The only place here that knows offsets of Ethernet, IP
//! and their neighbour protocols.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tabane_io::checksum::{fold, pseudo_header, sum};

use super::Mac;

/// Length of the `virtio_net_hdr` in front of every frame
/// (`linux/virtio_net.h`, without `num_buffers`: what a TAP with `IFF_VNET_HDR` uses).
pub const VNET_HDR_BYTES: usize = 10;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_ARP: u16 = 0x0806;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

/// An Ethernet header without tags, and a tag.
pub(crate) const ETHERNET_BYTES: usize = 14;
pub(super) const TAG_BYTES: usize = 4;

/// Most VLAN tags of a frame: as many as IEEE 802.1ad has.
const TAGS_MAX: usize = 2;

pub(crate) const PROTOCOL_ICMP: u8 = 1;
pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;

/// An Ethernet frame, tags skipped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ethernet<'a> {
    pub(super) destination: Mac,
    pub(super) source: Mac,
    /// Of the payload, behind any tags; never that of a tag.
    pub(super) ethertype: u16,
    /// Whether it has a VLAN tag. Then it does not belong to the network of the vnic addresses.
    pub(super) tagged: bool,
    /// Length of the Ethernet header, tags included.
    pub(super) header_bytes: usize,
    pub(super) payload: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// `None` if `frame` (with its `virtio_net_hdr`) is too short, or has more than [`TAGS_MAX`]
    /// tags: the kernel takes off as many as there are, if they have the number 0.
    pub(super) fn parse(frame: &'a [u8]) -> Option<Self> {
        let frame = frame.get(VNET_HDR_BYTES..)?;
        let (destination, rest) = frame.split_first_chunk()?;
        let (source, mut rest) = rest.split_first_chunk()?;
        let mut ethertype = take_u16(&mut rest)?;
        let mut tags = 0;
        while ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ {
            tags += 1;
            if tags > TAGS_MAX {
                return None;
            }
            take_u16(&mut rest)?;
            ethertype = take_u16(&mut rest)?;
        }
        Some(Self {
            destination: *destination,
            source: *source,
            ethertype,
            tagged: tags > 0,
            header_bytes: frame.len() - rest.len(),
            payload: rest,
        })
    }

    /// Is it for several stations (broadcast is one kind of multicast)?
    pub(super) fn is_multicast(&self) -> bool {
        self.destination[0] & 1 == 1
    }
}

fn take_u16(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u16::from_be_bytes(*bytes))
}

/// The `N` bytes at `offset`.
pub(crate) fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// An ARP packet for IPv4 over Ethernet (RFC 826).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arp {
    pub(crate) is_request: bool,
    pub(crate) sender_mac: Mac,
    pub(crate) sender: Ipv4Addr,
    pub(crate) target: Ipv4Addr,
}

impl Arp {
    /// Hardware Ethernet, protocol IPv4, addresses of 6 and 4 bytes.
    const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        if bytes_at(payload, 0)? != Self::KIND {
            return None;
        }
        Some(Self {
            is_request: match bytes_at(payload, 6)? {
                [0, 1] => true,
                [0, 2] => false,
                _ => return None,
            },
            sender_mac: bytes_at(payload, 8)?,
            sender: bytes_at::<4>(payload, 14)?.into(),
            target: bytes_at::<4>(payload, 24)?.into(),
        })
    }

    /// The whole frame that tells `self`'s sender that its target has `mac`.
    pub(crate) fn reply_frame(&self, mac: Mac) -> Vec<u8> {
        let to = (self.sender_mac, self.sender);
        Self::frame(self.sender_mac, [0, 2], (mac, self.target), to)
    }

    /// The frame with which `sender` asks everybody who has `target`.
    pub(crate) fn request_frame(sender: (Mac, Ipv4Addr), target: Ipv4Addr) -> Vec<u8> {
        const BROADCAST: Mac = [0xff; 6];
        Self::frame(BROADCAST, [0, 1], sender, (Mac::default(), target))
    }

    fn frame(
        to: Mac,
        operation: [u8; 2],
        sender: (Mac, Ipv4Addr),
        target: (Mac, Ipv4Addr),
    ) -> Vec<u8> {
        let mut frame = start_frame(to, sender.0, ETHERTYPE_ARP);
        frame.extend_from_slice(&Self::KIND);
        frame.extend_from_slice(&operation);
        for (mac, address) in [sender, target] {
            frame.extend_from_slice(&mac);
            frame.extend_from_slice(&address.octets());
        }
        frame
    }
}

/// A question or an answer of IPv6 neighbour discovery (RFC 4861).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) kind: NeighbourKind,
    /// The IPv6 source; unspecified for duplicate address detection.
    pub(crate) source: Ipv6Addr,
    /// The address in question.
    pub(crate) target: Ipv6Addr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NeighbourKind {
    Solicitation,
    Advertisement,
}

impl Neighbour {
    /// `None` for everything else. The checksum is not looked at: in a frame of our own kernel it
    /// may be left to offload.
    pub(crate) fn of(packet: &Packet<'_>) -> Option<Self> {
        let (IpAddr::V6(source), PROTOCOL_ICMPV6, Piece::Whole) =
            (packet.source, packet.protocol, packet.piece)
        else {
            return None;
        };
        let kind = match packet.content.first()? {
            135 => NeighbourKind::Solicitation,
            136 => NeighbourKind::Advertisement,
            _ => return None,
        };
        Some(Self {
            kind,
            source,
            target: bytes_at::<16>(packet.content, 8)?.into(),
        })
    }

    /// The answer to the sender of this solicitation, whose MAC is `asker`, that the target has
    /// `mac` (RFC 4861 sections 4.4, 7.2.4).
    pub(crate) fn reply_frame(&self, asker: Mac, mac: Mac) -> Vec<u8> {
        const SOLICITED: u8 = 0x40;
        match self.source.is_unspecified() {
            true => Self::announcement_frame(self.target, mac),
            false => Self::advertisement(self.target, mac, (asker, self.source), SOLICITED),
        }
    }

    /// The whole frame that tells everybody, unasked, that `target` has `mac`.
    pub(crate) fn announcement_frame(target: Ipv6Addr, mac: Mac) -> Vec<u8> {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        Self::advertisement(target, mac, (multicast_mac(ALL_NODES), ALL_NODES), 0)
    }

    fn advertisement(target: Ipv6Addr, mac: Mac, to: (Mac, Ipv6Addr), flags: u8) -> Vec<u8> {
        const OVERRIDE: u8 = 0x20;
        const TARGET_LINK_LAYER: u8 = 2;
        let message = Self::message(
            136,
            flags | OVERRIDE,
            target,
            Some((TARGET_LINK_LAYER, mac)),
        );
        icmpv6_frame((mac, target), to, message)
    }

    /// The frame with which `from`, whose MAC is `mac`, asks who has `target`; or, without an
    /// address, whether anybody has (RFC 4861 section 4.3, RFC 4862 section 5.4.2).
    pub(crate) fn solicitation_frame(
        mac: Mac,
        from: Option<Ipv6Addr>,
        target: Ipv6Addr,
    ) -> Vec<u8> {
        const SOURCE_LINK_LAYER: u8 = 1;
        // RFC 4291 section 2.7.1.
        let [.., a, b] = target.segments();
        let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a & 0xff, b);
        let option = from.map(|_| (SOURCE_LINK_LAYER, mac));
        let from = from.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let message = Self::message(135, 0, target, option);
        icmpv6_frame((mac, from), (multicast_mac(to), to), message)
    }

    /// Without its checksum.
    fn message(kind: u8, flags: u8, target: Ipv6Addr, option: Option<(u8, Mac)>) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
        message.extend_from_slice(&target.octets());
        if let Some((option, mac)) = option {
            // One unit of 8 bytes.
            message.extend_from_slice(&[option, 1]);
            message.extend_from_slice(&mac);
        }
        message
    }
}

/// RFC 2464 section 7.
fn multicast_mac(ip: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = ip.octets();
    [0x33, 0x33, a, b, c, d]
}

/// The whole frame of a message between neighbours, which has no checksum yet.
fn icmpv6_frame(from: (Mac, Ipv6Addr), to: (Mac, Ipv6Addr), mut message: Vec<u8>) -> Vec<u8> {
    let sum = icmpv6_checksum(from.1, to.1, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = start_frame(to.0, from.0, ETHERTYPE_IPV6);
    let length = message.len() as u8;
    frame.extend_from_slice(&[0x60, 0, 0, 0, 0, length, PROTOCOL_ICMPV6, 255]);
    frame.extend_from_slice(&from.1.octets());
    frame.extend_from_slice(&to.1.octets());
    frame.extend(message);
    frame
}

/// An empty `virtio_net_hdr` (no offloads) and an Ethernet header.
fn start_frame(destination: Mac, source: Mac, ethertype: u16) -> Vec<u8> {
    let mut frame = vec![0; VNET_HDR_BYTES];
    frame.extend_from_slice(&destination);
    frame.extend_from_slice(&source);
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame
}

/// RFC 4443 section 2.3, over the pseudo-header of RFC 8200 section 8.1. 0 over
/// a message that bears the right checksum.
pub(super) fn icmpv6_checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let pseudo = pseudo_header(from.into(), to.into(), PROTOCOL_ICMPV6, message.len());
    !fold(pseudo + sum(message))
}

/// Which piece of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All of it.
    Whole,
    /// A fragment that begins where the packet does, and may be all of it.
    First,
    /// A later fragment.
    Later,
}

/// An IP packet, or a fragment of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Protocol of the content, behind the extension headers; for [`Piece::Later`], and if these
    /// headers are cut off or too many, the last one named.
    pub(crate) protocol: u8,
    pub(crate) piece: Piece,
    /// Its differentiated services code point (RFC 2474), 0 to 63.
    pub(crate) dscp: u8,
    /// How many routers it may still pass.
    pub(crate) hops: u8,
    /// Length of the headers in front of the content.
    pub(crate) header_bytes: usize,
    /// The content, including Ethernet's padding, if any.
    pub(crate) content: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The IP packet of a frame; `None` if it has none, or the header is cut off.
    pub(super) fn of(ethernet: &Ethernet<'a>) -> Option<Self> {
        match ethernet.ethertype {
            ETHERTYPE_IPV4 => Self::of_ipv4(ethernet.payload),
            ETHERTYPE_IPV6 => Self::of_ipv6(ethernet.payload),
            _ => None,
        }
    }

    /// The IP packet at the beginning of these bytes; `None` if there is none, or the header is cut
    /// off.
    pub(crate) fn of_ip(packet: &'a [u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_ipv4(packet),
            _ => Self::of_ipv6(packet),
        }
    }

    /// RFC 791.
    fn of_ipv4(packet: &'a [u8]) -> Option<Self> {
        let header: [u8; 20] = bytes_at(packet, 0)?;
        let header_bytes = usize::from(header[0] & 0xf) * 4;
        if header[0] >> 4 != 4 || header_bytes < header.len() {
            return None;
        }
        let place = u16::from_be_bytes(bytes_at(&header, 6)?);
        let (more, offset) = (place & 0x2000 != 0, place & 0x1fff);
        Some(Self {
            source: Ipv4Addr::from(bytes_at::<4>(&header, 12)?).into(),
            destination: Ipv4Addr::from(bytes_at::<4>(&header, 16)?).into(),
            protocol: header[9],
            dscp: header[1] >> 2,
            hops: header[8],
            piece: match (offset, more) {
                (0, false) => Piece::Whole,
                (0, true) => Piece::First,
                _ => Piece::Later,
            },
            header_bytes,
            content: packet.get(header_bytes..)?,
        })
    }

    /// RFC 8200.
    fn of_ipv6(packet: &'a [u8]) -> Option<Self> {
        let header: [u8; 40] = bytes_at(packet, 0)?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let (protocol, header_bytes, piece) = behind_extensions(packet, header[6]);
        Some(Self {
            source: Ipv6Addr::from(bytes_at::<16>(&header, 8)?).into(),
            destination: Ipv6Addr::from(bytes_at::<16>(&header, 24)?).into(),
            protocol,
            piece,
            dscp: (header[0] & 0xf) << 2 | header[1] >> 6,
            hops: header[7],
            header_bytes,
            content: packet.get(header_bytes..).unwrap_or_default(),
        })
    }

    /// The sum of the pseudo header, for the content's checksum.
    pub(crate) fn pseudo_sum(&self) -> u64 {
        pseudo_header(
            self.source,
            self.destination,
            self.protocol,
            self.content.len(),
        )
    }

    /// Whether a frame carries UDP, or a fragment of it.
    pub(super) fn is_of_udp(ethernet: &Ethernet<'a>) -> bool {
        Self::of(ethernet).is_some_and(|packet| packet.protocol == PROTOCOL_UDP)
    }

    /// Whether it would tell this host of a router or a better route, or, in fragments, of an
    /// address (fragments must be ignored, RFC 6980). Also if that is possible as far as can be
    /// seen.
    pub(super) fn is_of_routers(&self) -> bool {
        const ICMP_REDIRECT: u8 = 5;
        const ROUTER_ADVERTISEMENT: u8 = 134;
        const REDIRECT: u8 = 137;
        // Nothing comes of the later ones without the first.
        if self.piece == Piece::Later {
            return false;
        }
        match (self.protocol, self.content.first()) {
            (PROTOCOL_ICMP, kind) if self.source.is_ipv4() => {
                kind.is_none_or(|kind| *kind == ICMP_REDIRECT)
            }
            (PROTOCOL_ICMPV6, Some(&kind)) if self.source.is_ipv6() => match self.piece {
                Piece::Whole => kind == ROUTER_ADVERTISEMENT || kind == REDIRECT,
                _ => (133..=REDIRECT).contains(&kind),
            },
            (PROTOCOL_ICMPV6, None) => self.source.is_ipv6(),
            // More than are looked behind, or cut off.
            (protocol, _) => self.source.is_ipv6() && EXTENSIONS.contains(&protocol),
        }
    }
}

/// Fields that distinguish flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowKey {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: u8,
    /// Source and destination port; zeros if they cannot be read, or the packet is a fragment (only
    /// the first one has them).
    pub(super) ports: [u8; 4],
}

/// Protocols whose first four bytes are the ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [PROTOCOL_TCP, PROTOCOL_UDP, 33, 132, 136];

impl FlowKey {
    /// Of all fragments of a packet the same.
    pub(super) fn of(packet: &Packet<'_>) -> Self {
        let is_fragment = packet.piece != Piece::Whole;
        let has_ports = !is_fragment && WITH_PORTS.contains(&packet.protocol);
        let ports = has_ports.then(|| bytes_at(packet.content, 0));
        Self {
            source: packet.source,
            destination: packet.destination,
            // In IPv6, only the first fragment shows the protocol behind further extension headers.
            protocol: match packet.source {
                IpAddr::V6(_) if is_fragment => FRAGMENT,
                _ => packet.protocol,
            },
            ports: ports.flatten().unwrap_or_default(),
        }
    }
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// The extension headers that the kernel looks behind unasked.
const EXTENSIONS: [u8; 4] = [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION];

/// Most of them looked behind; a packet with all that RFC 8200 has, in its order, has six.
const EXTENSIONS_MAX: usize = 8;

/// The protocol behind the extension headers, its offset, and which piece of a packet this is. For
/// a later piece, parsing stops at the fragment header. If the headers are cut off, or too many,
/// the protocol is that of one of them.
fn behind_extensions(packet: &[u8], first: u8) -> (u8, usize, Piece) {
    let (mut protocol, mut offset, mut piece) = (first, 40, Piece::Whole);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&protocol) {
            break;
        }
        let Some([next, length, place @ ..]) = bytes_at::<4>(packet, offset) else {
            break;
        };
        if protocol != FRAGMENT {
            offset += 8 + 8 * usize::from(length);
            protocol = next;
            continue;
        }
        offset += 8;
        protocol = next;
        piece = Piece::First;
        if u16::from_be_bytes(place) & !0b111 != 0 {
            piece = Piece::Later;
            break;
        }
    }
    (protocol, offset, piece)
}
