//! Any frames, from the virtual NIC and from peers, in the switch.
use std::net::IpAddr;

use tabane_cluster::mac_of;
use tabane_program::vswitch::{Trains, VNET_HDR_BYTES, VSwitch, flow_hash};

/// Feeds it `frame`.
pub fn run(frame: &[u8]) {
    let ip = |last: u8| IpAddr::from([10, 99, 0, last]);
    let switch = VSwitch::new(mac_of(ip(1)), ip(1), &[(0, ip(2)), (1, ip(3))]);
    let _ = flow_hash(frame);
    let _ = switch.classify(frame);
    let from = [0, 1].map(|peer| switch.accept(frame, peer).is_ok());
    assert_ne!(from, [true, true], "a frame is of two nodes");
    if from != [false, false] {
        let own = if from[0] { ip(2) } else { ip(3) };
        is_of(frame, own);
        kernel_takes(frame);
        let mut trains = Trains::default();
        for _ in 0..3 {
            trains.add(frame, kernel_takes);
        }
        trains.leave(kernel_takes);
    }
}

/// A node speaks as itself: by its MAC, and by its address where no tag is in front.
fn is_of(frame: &[u8], own: IpAddr) {
    let ethernet = &frame[VNET_HDR_BYTES..];
    assert_eq!(ethernet[6..12], mac_of(own), "a node speaks as another");
    if ethernet[12..14] == [8, 0] {
        let source: [u8; 4] = ethernet[26..30].try_into().expect("four bytes");
        let is_a_nodes = (1..=3).contains(&source[3]) && source[..3] == [10, 99, 0];
        assert!(
            !is_a_nodes || own == IpAddr::from(source),
            "a foreign source"
        );
    }
}

/// What `virtio_net_hdr_to_skb` of Linux asks of a header, written anew.
fn kernel_takes(frame: &[u8]) {
    let (header, ethernet) = frame.split_at(VNET_HDR_BYTES);
    let word = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (hdr_len, gso_size, csum_start, csum_offset) = (word(2), word(4), word(6), word(8));
    let needs_csum = header[0] & 1 != 0;
    assert!(header[0] <= 2, "flags");
    assert!(hdr_len <= ethernet.len(), "hdr_len");
    if needs_csum {
        assert!(csum_start >= 20, "in front of where a packet may have it");
        assert!(csum_start + csum_offset + 2 <= ethernet.len(), "checksum");
    }
    let (header_bytes, sum_at) = match header[1] {
        0 => return,
        1 | 0x81 | 4 | 0x84 => (20, 16),
        5 => (8, 6),
        other => panic!("no kind of segmentation: {other}"),
    };
    assert!(needs_csum && csum_offset == sum_at, "checksum of segments");
    assert!(csum_start + header_bytes <= ethernet.len(), "a header");
    assert!(gso_size != 0 && gso_size != 0xffff, "size of segments");
    let version = match header[1] & 0x7f {
        1 => Some(4),
        4 => Some(6),
        _ => None,
    };
    let found = [14, 18, 22].map(|at| ethernet.get(at).map(|byte| byte >> 4));
    assert!(version.is_none() || found.contains(&version), "another IP");
}
