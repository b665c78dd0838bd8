//! Any bytes as a packet from outside, with its `virtio_net_hdr`: where it belongs, what is changed in it, how it is cut; and what a
//! neighbour says of where it is.

use std::net::IpAddr;

use tabane_program::gateway::neighbours::Neighbours;
use tabane_program::gateway::packet::{Cuts, End, Seen, Segment, trim};
use tabane_proto::Time;

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    trim(&mut frame);
    if let Some(seen) = Seen::of(&frame) {
        let mut changed = frame.clone();
        for own in [End::Source, End::Destination] {
            let before = seen.head(own);
            seen.set_own_port(&mut changed, own, 7);
            assert_eq!(changed.len(), frame.len());
            seen.set_own_port(&mut changed, own, before.ends.own);
        }
        if let Some(segment) = Segment::of(&frame, &seen) {
            segment.set_window(&mut changed, 1);
            assert_eq!(
                Segment::of(&changed, &seen).map(|segment| segment.window),
                Some(1)
            );
        }
    }
    if let Some(cuts) = Cuts::of(&frame) {
        let content = cuts.content_bytes(&frame);
        let (mut from, mut piece) = (0, Vec::new());
        while from < content {
            let bytes = cuts.piece_bytes(content - from, 3000);
            assert!(bytes > 0 && from + bytes <= content);
            cuts.write_headers(&frame, from, bytes, &mut piece);
            from += bytes;
        }
    }
    let own: [(IpAddr, u8); 2] = [
        ([203, 0, 113, 1].into(), 24),
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), 64),
    ];
    let mut neighbours = Neighbours::new([2, 0, 0, 0, 0, 1], &own, &[]);
    for told in [
        Some(neighbours.hear_arp(Time::ZERO, bytes)),
        neighbours.hear_neighbour(Time::ZERO, bytes),
    ] {
        // No answer is longer than what asks for it, filled up as Ethernet does.
        let answered = told.and_then(|told| told.answer);
        assert!(answered.is_none_or(|answer| answer.len() <= bytes.len().max(50) + 46));
    }
}
