//! What a peer's `virtio_net_hdr` may ask of this host's kernel.

use super::*;

/// A `virtio_net_hdr`, as linux/virtio_net.h has it.
#[derive(Clone, Copy)]
struct Offload {
    flags: u8,
    gso_type: u8,
    hdr_len: u16,
    gso_size: u16,
    csum_start: u16,
    csum_offset: u16,
}

const NOTHING: Offload = Offload {
    flags: 0,
    gso_type: 0,
    hdr_len: 0,
    gso_size: 0,
    csum_start: 0,
    csum_offset: 0,
};
/// TCP over IPv4: Ethernet 14, IPv4 20, TCP 20 bytes.
const TCP_V4: Offload = Offload {
    flags: 1,
    gso_type: 1,
    hdr_len: 54,
    gso_size: 1448,
    csum_start: 34,
    csum_offset: 16,
};
const TCP_V6: Offload = Offload {
    gso_type: 4,
    hdr_len: 74,
    csum_start: 54,
    ..TCP_V4
};
const UDP_V4: Offload = Offload {
    gso_type: 5,
    hdr_len: 42,
    csum_offset: 6,
    ..TCP_V4
};
const UDP_V6: Offload = Offload {
    gso_type: 5,
    hdr_len: 62,
    csum_offset: 6,
    ..TCP_V6
};

/// The content of TCP and UDP here, bytes.
const CONTENT: usize = 9000;

/// The header of TCP without options, and content.
fn tcp() -> Vec<u8> {
    let mut segment = vec![0; 20 + CONTENT];
    segment[12] = 5 << 4;
    segment
}

fn udp() -> Vec<u8> {
    vec![0; 8 + CONTENT]
}

/// What the switch says of this frame of peer 2.
fn accept(offload: Offload, ethertype: u16, packet: &[u8]) -> Result<(), Refusal> {
    match ethertype {
        0x86dd => accept_by(&switch_v6(), offload, ethertype, packet),
        _ => accept_by(&switch(), offload, ethertype, packet),
    }
}

fn accept_by(
    switch: &VSwitch,
    offload: Offload,
    ethertype: u16,
    packet: &[u8],
) -> Result<(), Refusal> {
    let mut frame = frame(switch.own_mac, switch.peers[&2].0, ethertype, packet);
    frame[0] = offload.flags;
    frame[1] = offload.gso_type;
    let words = [
        offload.hdr_len,
        offload.gso_size,
        offload.csum_start,
        offload.csum_offset,
    ];
    for (at, word) in [2, 4, 6, 8].into_iter().zip(words) {
        frame[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }
    switch.accept(&frame, 2)
}

fn tcp_v4(offload: Offload) -> Result<(), Refusal> {
    accept(offload, 0x0800, &ipv4(6, 0, 2, &tcp()))
}

fn udp_v4(offload: Offload) -> Result<(), Refusal> {
    accept(offload, 0x0800, &ipv4(17, 0, 2, &udp()))
}

fn tcp_v6(offload: Offload) -> Result<(), Refusal> {
    accept(offload, 0x86dd, &ipv6(6, "fd99::2", &tcp()))
}

const REFUSED: Result<(), Refusal> = Err(Refusal::Offload);

#[test]
fn what_a_kernel_asks_for_is_accepted() {
    let udp_v6 = |offload| accept(offload, 0x86dd, &ipv6(17, "fd99::2", &udp()));
    assert_eq!(tcp_v4(NOTHING), Ok(()));
    assert_eq!(tcp_v4(TCP_V4), Ok(()));
    assert_eq!(tcp_v6(TCP_V6), Ok(()));
    assert_eq!(udp_v4(UDP_V4), Ok(()));
    assert_eq!(udp_v6(UDP_V6), Ok(()));
    // Explicit congestion notification; a checksum that was verified; one to be computed.
    let with_ecn = |offload: Offload| Offload {
        gso_type: offload.gso_type | 0x80,
        ..offload
    };
    assert_eq!(tcp_v4(with_ecn(TCP_V4)), Ok(()));
    assert_eq!(tcp_v6(with_ecn(TCP_V6)), Ok(()));
    let verified = Offload {
        flags: 2,
        ..NOTHING
    };
    assert_eq!(tcp_v4(verified), Ok(()));
    let summed = Offload {
        gso_type: 0,
        gso_size: 0,
        hdr_len: 0,
        ..TCP_V4
    };
    assert_eq!(tcp_v4(summed), Ok(()));
    // Of a packet within a packet; of one that is not IP.
    let inner = Offload {
        csum_start: 34 + 8 + 8 + 14 + 20,
        ..summed
    };
    assert_eq!(accept(inner, 0x0800, &ipv4(17, 0, 2, &udp())), Ok(()));
    assert_eq!(accept(summed, 0x8864, &[0; 1000]), Ok(()));
    // Behind options of IPv4, and extension headers of IPv6; the longest header of TCP.
    let mut optioned = ipv4(6, 0, 2, &tcp());
    optioned[0] = 0x46;
    optioned.splice(20..20, [1, 1, 1, 0]);
    let behind = |bytes, offload: Offload| Offload {
        csum_start: offload.csum_start + bytes,
        ..offload
    };
    assert_eq!(accept(behind(4, TCP_V4), 0x0800, &optioned), Ok(()));
    let mut extended = vec![6, 0, 1, 4, 0, 0, 0, 0];
    extended.extend(tcp());
    let extended = ipv6(0, "fd99::2", &extended);
    assert_eq!(accept(behind(8, TCP_V6), 0x86dd, &extended), Ok(()));
    let mut longest = tcp();
    longest[12] = 15 << 4;
    assert_eq!(accept(TCP_V4, 0x0800, &ipv4(6, 0, 2, &longest)), Ok(()));
    // Behind a tag.
    let mut tagged = vec![0, 5, 8, 0];
    tagged.extend(ipv4(6, 0, 2, &tcp()));
    assert_eq!(accept(behind(4, TCP_V4), 0x8100, &tagged), Ok(()));
    assert_eq!(accept(TCP_V4, 0x8100, &tagged), REFUSED);
}

#[test]
fn flags_and_kinds_that_no_kernel_has_are_refused() {
    for flags in 0..=255 {
        let offload = Offload { flags, ..TCP_V4 };
        let expected = if flags == 1 { Ok(()) } else { REFUSED };
        assert_eq!(tcp_v4(offload), expected, "flags {flags}");
        let plain = Offload { flags, ..NOTHING };
        let expected = if [0, 2].contains(&flags) {
            Ok(())
        } else {
            REFUSED
        };
        assert_eq!(tcp_v4(plain), expected, "flags {flags} and no more");
    }
    for gso_type in 0..=255 {
        let kind = |offload| Offload {
            gso_type,
            ..offload
        };
        let expected = |right: &[u8]| {
            if right.contains(&gso_type) {
                Ok(())
            } else {
                REFUSED
            }
        };
        assert_eq!(tcp_v4(kind(TCP_V4)), expected(&[0, 1, 0x81]), "{gso_type}");
        assert_eq!(tcp_v6(kind(TCP_V6)), expected(&[0, 4, 0x84]), "{gso_type}");
        assert_eq!(udp_v4(kind(UDP_V4)), expected(&[0, 5]), "{gso_type}");
    }
}

#[test]
fn lengths_and_offsets_beyond_the_frame_are_refused() {
    // Ethernet, IPv4, TCP, content.
    let frame_bytes = 14 + 20 + 20 + CONTENT as u16;
    for (hdr_len, expected) in [
        (0, Ok(())),
        (frame_bytes, Ok(())),
        (frame_bytes + 1, REFUSED),
        (0xffff, REFUSED),
    ] {
        let with = |offload| Offload { hdr_len, ..offload };
        assert_eq!(tcp_v4(with(TCP_V4)), expected, "hdr_len {hdr_len}");
        assert_eq!(tcp_v4(with(NOTHING)), expected, "hdr_len {hdr_len}");
    }
    let summed = |csum_start, csum_offset| {
        tcp_v4(Offload {
            flags: 1,
            csum_start,
            csum_offset,
            ..NOTHING
        })
    };
    let last = frame_bytes - 2;
    let table = [
        (34, last - 34, Ok(())),
        (34, last - 33, REFUSED),
        (last, 0, Ok(())),
        (last + 1, 0, REFUSED),
        (0xffff, 0xffff, REFUSED),
        // Within the header of IPv4, of Ethernet.
        (33, 16, REFUSED),
        (14, 16, REFUSED),
        (0, 16, REFUSED),
    ];
    for (start, offset, expected) in table {
        assert_eq!(summed(start, offset), expected, "{start} {offset}");
    }
    // Where the kernel's headroom comes on top, 16 bits are too few.
    let long = ipv4(17, 0, 2, &[0; 70_000]);
    let far = |csum_start| {
        let offload = Offload {
            flags: 1,
            csum_start,
            csum_offset: 6,
            ..NOTHING
        };
        accept(offload, 0x0800, &long)
    };
    assert_eq!((far(0x7fff), far(0x8000)), (Ok(()), REFUSED));
    // Shorter than an IP header, whatever the frame carries.
    let short = Offload {
        flags: 1,
        csum_start: 19,
        ..NOTHING
    };
    assert_eq!(accept(short, 0x8864, &[0; 100]), REFUSED);
}

#[test]
fn what_is_to_be_cut_must_be_what_it_is_said_to_be() {
    let gso_size = |gso_size, offload| Offload {
        gso_size,
        ..offload
    };
    for (size, expected) in [
        (0, REFUSED),
        (0xffff, REFUSED),
        (1, Ok(())),
        (0xfffe, Ok(())),
    ] {
        assert_eq!(tcp_v4(gso_size(size, TCP_V4)), expected, "{size}");
    }
    // UDP: 128 segments at most; TCP: as many as 16 bits count.
    let least = CONTENT.div_ceil(128) as u16;
    assert_eq!(udp_v4(gso_size(least, UDP_V4)), Ok(()));
    assert_eq!(udp_v4(gso_size(least - 1, UDP_V4)), REFUSED);
    let mut long = tcp();
    long.resize(20 + 0x2_0000, 0);
    let long = ipv4(6, 0, 2, &long);
    let cut = |size| accept(gso_size(size, TCP_V4), 0x0800, &long);
    assert_eq!((cut(1), cut(2), cut(3)), (REFUSED, REFUSED, Ok(())));
    // Where the header of TCP is, and what it is.
    for csum_start in [33, 35, 20, 0] {
        let offload = Offload {
            csum_start,
            ..TCP_V4
        };
        assert_eq!(tcp_v4(offload), REFUSED, "from {csum_start}");
    }
    for csum_offset in [0, 6, 15, 17] {
        let offload = Offload {
            csum_offset,
            ..TCP_V4
        };
        assert_eq!(tcp_v4(offload), REFUSED, "at {csum_offset}");
    }
    // Another protocol, another version of IP, a fragment, a header that is too short or cut off.
    let of = |packet: &[u8]| accept(TCP_V4, 0x0800, packet);
    assert_eq!(of(&ipv4(17, 0, 2, &tcp())), REFUSED);
    assert_eq!(accept(TCP_V4, 0x86dd, &ipv6(6, "fd99::2", &tcp())), REFUSED);
    assert_eq!(of(&ipv4(6, 0x2000, 2, &tcp())), REFUSED);
    assert_eq!(of(&ipv4(6, 1, 2, &tcp())), REFUSED);
    let mut short = tcp();
    short[12] = 4 << 4;
    assert_eq!(of(&ipv4(6, 0, 2, &short)), REFUSED);
    assert_eq!(of(&ipv4(6, 0, 2, &tcp()[..19])), REFUSED);
    let mut cut = tcp()[..59].to_vec();
    cut[12] = 15 << 4;
    let hint_aside = Offload {
        hdr_len: 0,
        ..TCP_V4
    };
    assert_eq!(accept(hint_aside, 0x0800, &ipv4(6, 0, 2, &cut)), REFUSED);
}

#[test]
fn what_is_longer_than_the_mtu_lets_pass_is_refused_unless_it_is_to_be_cut() {
    let packet = ipv4(6, 0, 2, &tcp());
    let length = packet.len() as u32;
    for (mtu, whole) in [
        (length, Ok(())),
        // A tag's worth is let pass, by the kernel as well.
        (length - 4, Ok(())),
        (length - 5, Err(Refusal::TooLong)),
        (1500, Err(Refusal::TooLong)),
    ] {
        let mut switch = switch();
        switch.set_mtu(mtu);
        let said = accept_by(&switch, NOTHING, 0x0800, &packet);
        assert_eq!(said, whole, "MTU {mtu}");
        assert_eq!(accept_by(&switch, TCP_V4, 0x0800, &packet), Ok(()));
    }
}
