use std::net::{Ipv4Addr, Ipv6Addr};

use tabane_proto::Random;

use super::*;
use crate::vswitch::offload::NEEDS_CSUM;

pub(in crate::gateway) const V4: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)),
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 7)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];
const BOTH: [[IpAddr; 2]; 2] = [V4, V6];

/// A packet with a right header of IP in front of its content; nothing is left to be summed.
fn frame_of([from, to]: [IpAddr; 2], protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; VNET_HDR_BYTES];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0];
            ip[2..4].copy_from_slice(&(20 + content.len() as u16).to_be_bytes());
            ip.extend(from.octets());
            ip.extend(to.octets());
            let checksum = !fold(sum(&ip));
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            frame.extend(ip);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((content.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend(from.octets());
            frame.extend(to.octets());
        }
        _ => panic!("of one family"),
    }
    frame.extend(content);
    frame
}

/// A header of TCP, without its checksum; windows are shifted by 7 if it begins.
fn tcp_header(ports: [u16; 2], flags: u8) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(ports[0].to_be_bytes());
    header.extend(ports[1].to_be_bytes());
    header.extend(1_000_000_u32.to_be_bytes());
    header.extend(77_u32.to_be_bytes());
    header.extend([0x80, flags, 0x20, 0, 0, 0, 0, 0]);
    // Two that mean nothing, a window scale, the end.
    header.extend([1, 1, 3, 3, 7, 1, 0, 0]);
    header[12] = 0x70;
    header
}

fn summed(ends: [IpAddr; 2], protocol: u8, sum_at: usize, mut content: Vec<u8>) -> Vec<u8> {
    let pseudo = pseudo_header(ends[0], ends[1], protocol, content.len());
    let checksum = !fold(pseudo + sum(&content));
    content[sum_at..sum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    frame_of(ends, protocol, &content)
}

pub(in crate::gateway) fn tcp(
    ends: [IpAddr; 2],
    ports: [u16; 2],
    flags: u8,
    data: &[u8],
) -> Vec<u8> {
    let content = [&tcp_header(ports, flags), data].concat();
    summed(ends, PROTOCOL_TCP, TCP_CHECKSUM_AT, content)
}

pub(in crate::gateway) fn udp(ends: [IpAddr; 2], ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    content.extend(ports[0].to_be_bytes());
    content.extend(ports[1].to_be_bytes());
    content.extend((8 + data.len() as u16).to_be_bytes());
    content.extend([0, 0]);
    content.extend(data);
    summed(ends, PROTOCOL_UDP, UDP_CHECKSUM_AT, content)
}

/// Whether the checksum of what is behind the header of IP is right.
pub(in crate::gateway) fn is_right(frame: &[u8]) -> bool {
    let packet = Packet::of_ip(&frame[VNET_HDR_BYTES..]).unwrap();
    match packet.protocol {
        PROTOCOL_ICMP => fold(sum(packet.content)) == 0xffff,
        _ => fold(packet.pseudo_sum() + sum(packet.content)) == 0xffff,
    }
}

#[test]
fn both_ends_are_seen_from_either_side() {
    for ends in BOTH {
        let frame = tcp(ends, [5000, 80], SYN, b"");
        let seen = Seen::of(&frame).unwrap();
        let inward = seen.head(End::Destination);
        assert_eq!(
            (inward.ends.own, inward.ends.far),
            (80, (ends[0], 5000).into())
        );
        assert!(inward.flags.syn && !inward.flags.ack);
        let outward = seen.head(End::Source);
        assert_eq!(
            (outward.ends.own, outward.ends.far),
            (5000, (ends[1], 80).into())
        );
        let segment = Segment::of(&frame, &seen).unwrap();
        assert_eq!((segment.end, segment.scale), (1_000_001, Some(Some(7))));
        assert_eq!((segment.acknowledged, segment.window), (77, 0x2000));
    }
}

#[test]
fn checksums_follow_what_is_changed() {
    for ends in BOTH {
        let packets = [
            tcp(ends, [5000, 80], ACK, b"hello"),
            udp(ends, [5000, 80], b"hello"),
        ];
        for packet in packets {
            for (own, port) in [
                (End::Source, 6000),
                (End::Destination, 0xffff),
                (End::Source, 0),
            ] {
                let mut frame = packet.clone();
                let seen = Seen::of(&frame).unwrap();
                seen.set_own_port(&mut frame, own, port);
                assert!(is_right(&frame));
                assert_eq!(Seen::of(&frame).unwrap().head(own).ends.own, port);
            }
        }
        let mut frame = tcp(ends, [5000, 80], ACK, b"hello");
        let seen = Seen::of(&frame).unwrap();
        Segment::of(&frame, &seen)
            .unwrap()
            .set_window(&mut frame, 99);
        assert!(is_right(&frame));
        assert_eq!(Segment::of(&frame, &seen).unwrap().window, 99);
    }
    // Without a checksum there is none afterwards.
    let mut frame = udp(V4, [5000, 80], b"hello");
    let at = VNET_HDR_BYTES + 20 + UDP_CHECKSUM_AT;
    frame[at..at + 2].fill(0);
    Seen::of(&frame)
        .unwrap()
        .set_own_port(&mut frame, End::Source, 6000);
    assert_eq!(frame[at..at + 2], [0, 0]);
}

#[test]
fn an_error_belongs_to_what_it_tells_of() {
    let [client, own] = V4;
    let lost = tcp([own, client], [80, 5000], ACK, b"lost");
    let mut content = vec![3, 1, 0, 0, 0, 0, 0, 0];
    content.extend(&lost[VNET_HDR_BYTES..VNET_HDR_BYTES + 28]);
    let checksum = !fold(sum(&content));
    content[2..4].copy_from_slice(&checksum.to_be_bytes());
    let router: IpAddr = "192.0.2.1".parse().unwrap();
    let mut frame = frame_of([router, own], PROTOCOL_ICMP, &content);
    let seen = Seen::of(&frame).unwrap();
    assert_eq!((seen.what, seen.from), (What::Error, router));
    let head = seen.head(End::Destination);
    assert_eq!((head.ends.own, head.ends.far), (80, (client, 5000).into()));
    seen.set_own_port(&mut frame, End::Destination, 81);
    assert!(is_right(&frame));
    assert_eq!(
        Seen::of(&frame).unwrap().head(End::Destination).ends.own,
        81
    );
    // Of what another host has sent it tells us nothing.
    let foreign = frame_of([router, client], PROTOCOL_ICMP, &content);
    assert_eq!(Seen::of(&foreign).unwrap().what, What::Other);
}

#[test]
fn an_echo_has_the_port_of_who_asks() {
    for (ends, protocol, kinds) in [
        (V4, PROTOCOL_ICMP, [8, 0]),
        (V6, PROTOCOL_ICMPV6, [128, 129]),
    ] {
        for (kind, own) in kinds.into_iter().zip([End::Source, End::Destination]) {
            let mut content = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1];
            let pseudo = match protocol {
                PROTOCOL_ICMP => 0,
                _ => pseudo_header(ends[0], ends[1], protocol, 8),
            };
            let checksum = !fold(pseudo + sum(&content));
            content[2..4].copy_from_slice(&checksum.to_be_bytes());
            let mut frame = frame_of(ends, protocol, &content);
            let seen = Seen::of(&frame).unwrap();
            assert_eq!(seen.head(own).ends.own, 0x1234);
            assert_eq!(seen.head(own).ends.transport, Transport::Echo);
            seen.set_own_port(&mut frame, own, 7);
            assert_eq!(Seen::of(&frame).unwrap().head(own).ends.own, 7);
            assert!(is_right(&frame));
        }
    }
}

#[test]
fn what_ethernet_fills_up_is_no_content() {
    for ends in BOTH {
        let mut frame = tcp(ends, [5000, 80], ACK, b"");
        let bytes = frame.len();
        frame.resize(bytes + 6, 0);
        trim(&mut frame);
        assert_eq!(frame.len(), bytes);
    }
}

/// As a kernel hands it over that has not cut or summed it.
fn uncut(ends: [IpAddr; 2], protocol: u8, content: &[u8], data: &[u8], each: u16) -> Vec<u8> {
    let sum_at = if protocol == PROTOCOL_TCP {
        TCP_CHECKSUM_AT
    } else {
        UDP_CHECKSUM_AT
    };
    let mut all = [content, data].concat();
    let pseudo = fold(pseudo_header(ends[0], ends[1], protocol, all.len()));
    all[sum_at..sum_at + 2].copy_from_slice(&pseudo.to_be_bytes());
    let mut frame = frame_of(ends, protocol, &all);
    let ip_bytes = if ends[0].is_ipv4() { 20 } else { 40 };
    let header = Header {
        flags: NEEDS_CSUM,
        gso_type: match (protocol, ends[0]) {
            (PROTOCOL_TCP, IpAddr::V4(_)) => GSO_TCPV4,
            (PROTOCOL_TCP, IpAddr::V6(_)) => GSO_TCPV6,
            _ => GSO_UDP_L4,
        },
        hdr_len: ip_bytes + content.len(),
        gso_size: each,
        csum_start: ip_bytes,
        csum_offset: sum_at,
    };
    frame[..VNET_HDR_BYTES].copy_from_slice(&header.encode());
    frame
}

#[test]
fn pieces_are_what_the_whole_was() {
    let data: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
    for ends in BOTH {
        let frame = uncut(
            ends,
            PROTOCOL_TCP,
            &tcp_header([80, 5000], ACK | PSH | FIN | CWR),
            &data,
            1400,
        );
        let cuts = Cuts::of(&frame).unwrap();
        let (mut from, mut got, mut packets) = (0, Vec::<u8>::new(), 0);
        while from < cuts.content_bytes(&frame) {
            let bytes = cuts.piece_bytes(data.len() - from, 3000);
            let mut piece = Vec::new();
            cuts.write_headers(&frame, from, bytes, &mut piece);
            let content = &data[from..from + bytes];
            piece.extend(content);
            got.extend(content);
            let seen = Seen::of(&piece).unwrap();
            let segment = Segment::of(&piece, &seen).unwrap();
            let is_last = from + bytes == data.len();
            let behind = 1_000_000 + (from + bytes) as u32 + u32::from(is_last);
            assert_eq!((segment.end, seen.flags.fin), (behind, is_last));
            let flags = piece[segment.at + TCP_FLAGS_AT];
            assert_eq!((flags & CWR != 0, flags & PSH != 0), (from == 0, is_last));
            // Made by whoever sends it, over what is in its place.
            let packet = Packet::of_ip(&piece[VNET_HDR_BYTES..]).unwrap();
            let sum_at = TCP_CHECKSUM_AT;
            assert_eq!(
                bytes_at(packet.content, sum_at).map(u16::from_be_bytes),
                Some(fold(packet.pseudo_sum()))
            );
            if ends == V4 {
                let ip = &piece[VNET_HDR_BYTES..VNET_HDR_BYTES + 20];
                assert_eq!(fold(sum(ip)), 0xffff);
                assert_eq!(u16::from_be_bytes([ip[4], ip[5]]), 0x1234 + packets);
            }
            let header = Header::parse(&piece).unwrap();
            assert_eq!(header.gso_type == GSO_NONE, bytes <= 1400);
            from += bytes;
            packets += bytes.div_ceil(1400) as u16;
        }
        assert_eq!(got, data);
        let datagrams = uncut(
            ends,
            PROTOCOL_UDP,
            &[0, 80, 1, 1, 0x27, 0x18, 0, 0],
            &data,
            1000,
        );
        let cuts = Cuts::of(&datagrams).unwrap();
        let mut piece = Vec::new();
        cuts.write_headers(&datagrams, 2000, 3000, &mut piece);
        let packet = Packet::of_ip(&piece[VNET_HDR_BYTES..]).unwrap();
        assert_eq!(
            bytes_at(packet.content, 4).map(u16::from_be_bytes),
            Some(3008)
        );
    }
    assert_eq!(Cuts::of(&tcp(V4, [1, 2], ACK, &data)), None);
}

#[test]
fn fragments_of_a_packet_are_known_by_their_number() {
    let mut frame = udp(V4, [5000, 53], b"hello");
    frame[VNET_HDR_BYTES + 6] = 0x20;
    let first = Seen::of(&frame).unwrap();
    assert_eq!((first.what, first.fragment), (What::Said, Some(0x1234)));
    frame[VNET_HDR_BYTES + 6] = 0;
    frame[VNET_HDR_BYTES + 7] = 3;
    let later = Seen::of(&frame).unwrap();
    assert_eq!((later.what, later.fragment), (What::Fragment, Some(0x1234)));
    let fragment = [
        &[PROTOCOL_UDP, 0, 0, 1, 0, 0, 0x56, 0x78][..],
        &[0x13, 0x88, 0, 53, 0, 8, 0, 0],
    ]
    .concat();
    let first = Seen::of(&frame_of(V6, 44, &fragment)).unwrap();
    assert_eq!((first.what, first.fragment), (What::Said, Some(0x5678)));
    assert_eq!(first.head(End::Destination).ends.own, 53);
}

#[test]
fn no_bytes_make_it_panic() {
    let mut random = Random::from_seed([5; 32]);
    for round in 0..200_000_u32 {
        let mut frame = vec![0; random.below(200) as usize];
        random.fill(&mut frame);
        let is_v4 = round % 2 == 0;
        let set = |frame: &mut Vec<u8>, at: usize, byte| {
            if let Some(place) = frame.get_mut(VNET_HDR_BYTES + at) {
                *place = byte;
            }
        };
        set(&mut frame, 0, if is_v4 { 0x45 } else { 0x60 });
        let protocol = [6, 17, 1, 58, 44, 0][random.below(6) as usize];
        set(&mut frame, if is_v4 { 9 } else { 6 }, protocol);
        let kind = [3, 8, 0, 1, 128, 129][random.below(6) as usize];
        set(&mut frame, if is_v4 { 20 } else { 40 }, kind);
        if let [flags, gso_type, ..] = &mut frame[..] {
            *flags &= 1;
            *gso_type = [GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, GSO_NONE][random.below(4) as usize];
        }
        let port = random.u32() as u16;
        trim(&mut frame);
        if let Some(seen) = Seen::of(&frame) {
            let mut changed = frame.clone();
            for own in [End::Source, End::Destination] {
                seen.head(own);
                seen.set_own_port(&mut changed, own, port);
            }
            if let Some(segment) = Segment::of(&frame, &seen) {
                segment.set_window(&mut changed, port);
            }
        }
        if let Some(cuts) = Cuts::of(&frame) {
            let content = cuts.content_bytes(&frame);
            let from = random.below(content as u64 + 1) as usize;
            let bytes = cuts.piece_bytes(content - from, port.into());
            cuts.write_headers(&frame, from, bytes, &mut Vec::new());
        }
    }
}
