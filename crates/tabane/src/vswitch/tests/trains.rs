//! Datagrams that arrive one by one go to the host together, and are the same.

use super::*;

const UDP: u8 = 17;

/// Whose checksum is still to be made.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sum {
    /// There is none.
    None,
    Made,
    /// That of UDP.
    Left,
    /// That of what is in the tunnel, 20 bytes behind the header of UDP; with that of UDP made, or none.
    LeftInside,
    LeftInsideAlone,
}

/// Sums all, word by word (RFC 1071), and adds the carries.
fn total(parts: &[&[u8]]) -> u16 {
    let mut all = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            all += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            all = (all & 0xffff) + (all >> 16);
        }
    }
    all as u16
}

/// What stands in front of a datagram for its checksum.
fn pseudo(packet: &[u8], datagram_bytes: usize) -> Vec<u8> {
    let addresses = if packet[0] >> 4 == 4 { 12..20 } else { 8..40 };
    let length = (datagram_bytes as u16).to_be_bytes();
    [&packet[addresses], &[0, UDP], &length].concat()
}

const INSIDE: usize = 20;

/// A datagram of peer 2 from this port, with its header.
fn datagram(is_v4: bool, port: u16, sum: Sum, content: &[u8]) -> Vec<u8> {
    let bytes = content.len() + 8;
    let length = (bytes as u16).to_be_bytes();
    let mut udp = [
        &port.to_be_bytes()[..],
        &[0x12, 0xb5],
        &length,
        &[0, 0],
        content,
    ]
    .concat();
    let inside = matches!(sum, Sum::LeftInside | Sum::LeftInsideAlone);
    if inside {
        // As a kernel leaves it: something to begin with. What it comes to does not depend on that here.
        udp[8 + INSIDE + 16..][..2].copy_from_slice(&[0x5a, 0x0f]);
    }
    let mut packet = match is_v4 {
        true => ipv4(UDP, 0, 2, &udp),
        false => ipv6(UDP, "fd99::2", &udp),
    };
    if is_v4 {
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        let sum = !total(&[&packet[..20]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&length);
    }
    let ip_bytes = packet.len() - bytes;
    let pseudo = pseudo(&packet, bytes);
    let made = match sum {
        Sum::None | Sum::LeftInsideAlone => 0,
        Sum::Left => total(&[&pseudo]),
        Sum::Made => !total(&[&pseudo, &udp]),
        Sum::LeftInside => {
            let mut whole = udp.clone();
            finish(&mut whole);
            !total(&[&pseudo, &whole])
        }
    };
    packet[ip_bytes + 6..][..2].copy_from_slice(&made.to_be_bytes());
    let (mac, ethertype) = if is_v4 {
        (own_mac(), 0x0800)
    } else {
        (mac_of(ip("fd99::1")), 0x86dd)
    };
    let mut frame = frame(mac, peer_mac(2), ethertype, &packet);
    let start = 14 + ip_bytes;
    let (flags, start, offset) = match sum {
        Sum::None | Sum::Made => (0, 0, 0),
        Sum::Left => (1, start, 6),
        _ => (1, start + 8 + INSIDE, 16),
    };
    frame[0] = flags;
    frame[6..8].copy_from_slice(&(start as u16).to_le_bytes());
    frame[8] = offset;
    frame
}

/// Makes the sum of what is in the tunnel.
fn finish(udp: &mut [u8]) {
    let inside = &mut udp[8 + INSIDE..];
    let made = !total(&[inside]);
    inside[16..18].copy_from_slice(&made.to_be_bytes());
}

/// What a program would receive of a frame, written anew: the packets' headers but for length, number and sum, and
/// the content.
fn received(frame: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (header, ethernet) = frame.split_at(VNET_HDR_BYTES);
    let mut packet = ethernet[14..].to_vec();
    let is_v4 = packet[0] >> 4 == 4;
    let ip_bytes = if is_v4 { 20 } else { 40 };
    let mut udp = packet.split_off(ip_bytes);
    assert_eq!(
        udp[4..6],
        (udp.len() as u16).to_be_bytes(),
        "the length of UDP"
    );
    let pseudo = pseudo(&packet, udp.len());
    let start = usize::from(header[6]) + usize::from(header[7]) * 256;
    if header[0] == 1 && start == 14 + ip_bytes {
        assert_eq!(
            udp[6..8],
            total(&[&pseudo]).to_be_bytes(),
            "a sum to begin with"
        );
    } else {
        if header[0] == 1 {
            finish(&mut udp);
        }
        let right = udp[6..8] == [0, 0] || total(&[&pseudo, &udp]) == 0xffff;
        assert!(right, "the sum of UDP");
    }
    if is_v4 {
        assert_eq!(total(&[&packet]), 0xffff, "the sum of IPv4");
        let length = (ip_bytes + udp.len()) as u16;
        assert_eq!(packet[2..4], length.to_be_bytes(), "the length of IPv4");
        packet[2..4].fill(0);
        packet[10..12].fill(0);
    } else {
        assert_eq!(
            packet[4..6],
            (udp.len() as u16).to_be_bytes(),
            "the length of IPv6"
        );
        packet[4..6].fill(0);
    }
    let head = [&packet[..], &udp[..4]].concat();
    let content_bytes = match header[1] {
        0 => udp.len() - 8,
        gso_type => {
            assert_eq!(gso_type, 5);
            usize::from(header[4]) + usize::from(header[5]) * 256
        }
    };
    let contents = udp[8..].chunks(content_bytes.max(1));
    contents
        .map(|content| (head.clone(), content.to_vec()))
        .collect()
}

/// What is written of these frames, each batch by itself.
fn written(batches: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut trains = Trains::default();
    let mut written = Vec::new();
    for batch in batches {
        for frame in batch {
            trains.add(frame, |frame| written.push(frame.to_vec()));
        }
        trains.leave(|frame| written.push(frame.to_vec()));
    }
    written
}

/// Content that is all different.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (number * 31 + at * 7 + at / 251) as u8)
        .collect()
}

/// Of each flow the same must be received, in its order.
fn assert_same(before: &[Vec<u8>], after: &[Vec<u8>]) {
    let by_flow = |frames: &[Vec<u8>]| {
        let mut flows = HashMap::<_, Vec<_>>::new();
        for (head, content) in frames.iter().flat_map(|frame| received(frame)) {
            flows.entry(head).or_default().push(content);
        }
        flows
    };
    assert_eq!(by_flow(before), by_flow(after));
}

#[test]
fn datagrams_of_many_flows_ride_together_and_are_the_same() {
    let sums = [
        Sum::None,
        Sum::Made,
        Sum::Left,
        Sum::LeftInside,
        Sum::LeftInsideAlone,
    ];
    for sum in sums {
        for is_v4 in [true, false] {
            // The last of each flow is shorter.
            let frame = |number: usize| {
                let bytes = if number < 72 { 1400 } else { 301 };
                datagram(is_v4, (number % 8) as u16, sum, &content(number, bytes))
            };
            let frames: Vec<_> = (0..80).map(frame).collect();
            let after = written(std::slice::from_ref(&frames));
            assert_eq!(after.len(), 8, "{sum:?}");
            assert_same(&frames, &after);
            for frame in &after {
                let ethernet = Ethernet::parse(frame).unwrap();
                assert!(offload::is_sound(frame, &ethernet), "{sum:?}");
            }
        }
    }
}

#[test]
fn flows_that_mix_lengths_and_sums_keep_their_order() {
    let sums = [Sum::None, Sum::Made, Sum::Left, Sum::LeftInside];
    let mut drawn = 7_u32;
    let mut draw = |below: usize| {
        drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (drawn >> 8) as usize % below
    };
    let batches: Vec<Vec<_>> = (0..200_usize)
        .map(|batch| {
            let frame = |at: usize| {
                let bytes = [60, 60, 1200, 1400, 9000][draw(5)] + usize::from(draw(20) == 0);
                let sum = sums[if draw(4) > 0 { 0 } else { draw(4) }];
                let content = content(batch * 100 + at, bytes);
                datagram(draw(3) > 0, draw(20) as u16, sum, &content)
            };
            (0..=batch).map(frame).collect()
        })
        .collect();
    let before = batches.concat();
    let after = written(&batches);
    assert!(
        after.len() < before.len() * 9 / 10,
        "few ride: {}",
        after.len()
    );
    assert_same(&before, &after);
}

#[test]
fn what_cannot_ride_is_written_as_it_is_and_keeps_its_place() {
    let plain = |number| datagram(true, 5, Sum::Made, &content(number, 500));
    let mut wrong = plain(2);
    *wrong.last_mut().unwrap() ^= 1;
    let mut cut = datagram(true, 5, Sum::Left, &content(2, 500));
    (cut[1], cut[2], cut[4]) = (5, 42, 100);
    let fragment = frame(
        own_mac(),
        peer_mac(2),
        0x0800,
        &ipv4(UDP, 0x2000, 2, &[0; 500]),
    );
    let mut padded = datagram(true, 5, Sum::Made, &content(2, 4));
    padded.extend([0; 14]);
    let tagged = [&plain(2)[..22], &[0x81, 0, 0, 7], &plain(2)[22..]].concat();
    for alone in [wrong, cut, fragment, padded, tagged] {
        let after = written(&[vec![plain(0), plain(1), alone.clone(), plain(3), plain(4)]]);
        assert_eq!(after.len(), 3);
        assert_eq!(after[1], alone);
        assert_same(&[plain(0), plain(1)], &after[..1]);
        assert_same(&[plain(3), plain(4)], &after[2..]);
    }
    // One alone is as it came; what is not UDP passes by.
    let other = frame(own_mac(), peer_mac(2), 0x0800, &ipv4(6, 0, 2, &[0; 500]));
    assert_eq!(written(&[vec![plain(0), other.clone()]]), [other, plain(0)]);
}

#[test]
fn a_train_is_no_longer_than_a_packet_nor_of_more_than_64() {
    for (bytes, most) in [(1400, 46), (20, 64)] {
        let frames: Vec<_> = (0..100)
            .map(|number| datagram(true, 5, Sum::None, &content(number, bytes)))
            .collect();
        let after = written(std::slice::from_ref(&frames));
        let riders: Vec<_> = after.iter().map(|frame| received(frame).len()).collect();
        let whole = 100 / most;
        assert_eq!(riders[..whole], vec![most; whole]);
        assert_same(&frames, &after);
    }
}
