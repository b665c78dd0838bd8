//! Packets between a gateway and the nodes: IP packets, each in a frame of the bundle. Two bits of the `virtio_net_hdr` that
//! Linux ignores distinguish them from frames of the virtual NIC (docs/protocol.md, 9.11).

use core::hash::{Hash, Hasher};
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

use tabane_proto::op::Policy;
use tabane_proto::{Node, PeerId, Time};

use super::packet::{End, Seen};
use crate::vswitch::{FlowNumbers, VNET_HDR_BYTES};

/// To the gateway, from a program.
const OUTWARD: u8 = 0x80;
/// To a node, from outside.
const INWARD: u8 = 0x40;
/// With the latter: only if its conversation is known there.
const IF_KNOWN: u8 = 0x20;
const MARKS: u8 = OUTWARD | INWARD | IF_KNOWN;
/// Packets up to this length are copied: their buffer would hold a long one.
const COPIED_BYTES_MAX: usize = 4096;

/// Which way a packet is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the gateway.
    Outward,
    /// Back from a gateway that serves no more: to the one that does.
    Returned,
    /// From it.
    Inward {
        /// It goes nowhere if its conversation is not known there.
        only_known: bool,
    },
}

/// Whether a frame is such a packet.
pub fn is_packet(frame: &[u8]) -> bool {
    frame
        .first()
        .is_some_and(|flags| flags & (OUTWARD | INWARD) != 0)
}

/// The direction of such a frame; clears the bits that say it. `None`: it is no such frame.
pub fn take_way(frame: &mut [u8]) -> Option<Way> {
    if frame.len() <= VNET_HDR_BYTES {
        return None;
    }
    let flags = frame.first_mut()?;
    let marks = *flags & MARKS;
    *flags &= !MARKS;
    match marks {
        OUTWARD => Some(Way::Outward),
        _ if marks == OUTWARD | IF_KNOWN => Some(Way::Returned),
        INWARD => Some(Way::Inward { only_known: false }),
        _ if marks == INWARD | IF_KNOWN => Some(Way::Inward { only_known: true }),
        _ => None,
    }
}

fn put_way(frame: &mut [u8], way: Way) {
    let marks = match way {
        Way::Outward => OUTWARD,
        Way::Returned => OUTWARD | IF_KNOWN,
        Way::Inward { only_known: false } => INWARD,
        Way::Inward { only_known: true } => INWARD | IF_KNOWN,
    };
    if let Some(flags) = frame.first_mut() {
        *flags = *flags & !MARKS | marks;
    }
}

/// Hands packets to other nodes.
#[derive(Debug, Default)]
pub struct Carriage {
    flows: BTreeMap<PeerId, FlowNumbers>,
    /// Packets that a node's queue had no room for, or that was not there.
    pub lost: u64,
}

impl Carriage {
    /// Sends a packet; its buffer may be taken.
    pub fn send(
        &mut self,
        now: Time,
        node: &mut Node,
        peer: PeerId,
        packet: &mut Vec<u8>,
        way: Way,
    ) {
        put_way(packet, way);
        let hash = flow_of(packet);
        let frame = match packet.len() <= COPIED_BYTES_MAX {
            true => packet.clone(),
            false => core::mem::replace(packet, node.frame_buffer()),
        };
        let flow = self.flows.entry(peer).or_default().number(now, hash);
        if let Err(frame) = node.send_frame(now, peer, (flow, Policy::Auto), frame) {
            node.recycle_frame(frame);
            self.lost += 1;
        }
    }

    /// A peer was removed.
    pub fn forget(&mut self, peer: PeerId) {
        self.flows.remove(&peer);
    }
}

/// The flow of a packet: packets of one conversation and direction stay in order.
fn flow_of(packet: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(seen) = Seen::of(packet) {
        (seen.from, seen.to).hash(&mut hasher);
        match seen.fragment {
            // The first one, which alone has ports, must not come behind the others.
            Some(fragment) => fragment.hash(&mut hasher),
            None => {
                let ends = seen.head(End::Source).ends;
                (ends.own, ends.far.port()).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_says_which_way_it_goes_and_is_what_it_was() {
        let plain = [1; VNET_HDR_BYTES + 20];
        assert!(!is_packet(&plain) && !is_packet(&[]));
        for way in [
            Way::Outward,
            Way::Returned,
            Way::Inward { only_known: false },
            Way::Inward { only_known: true },
        ] {
            let mut frame = plain;
            put_way(&mut frame, way);
            assert!(is_packet(&frame));
            assert_eq!(take_way(&mut frame), Some(way));
            assert_eq!(frame, plain);
        }
        for marks in [OUTWARD | INWARD, MARKS, IF_KNOWN] {
            let mut frame = plain;
            frame[0] |= marks;
            assert_eq!(take_way(&mut frame), None);
        }
        assert_eq!(take_way(&mut [OUTWARD; VNET_HDR_BYTES]), None);
    }
}
