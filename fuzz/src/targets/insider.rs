//! Any records from a peer in good standing: nothing panics, memory stays
//! within its bounds, and the node still talks to that peer afterwards.
//!
//! Plain wire, because there a packet can be made from what was seen of others:
//! header, records, token, CRC-32C (docs/protocol.md, section 6).
use std::time::Duration;

use crate::nodes::{PRIVATE_BYTES, address, drain, node, talk};
use tabane_proto::op::{Get, Put};
use tabane_proto::wire::{PutTarget, Stretch, WireMode};
use tabane_proto::{Node, PeerId, Time};

const NUMBER: std::ops::Range<usize> = 6..12;
const TRAILER_BYTES: usize = 8;
/// Above all limits of one peer together (`OpLimits::default`).
const MEMORY_BYTES_MAX: usize = 400 << 20;

/// A put and a get, of which only the first pieces are sent before they are answered.
fn begin_operations(node: &mut Node, now: Time, peer: PeerId) {
    let stretch = Stretch {
        key: 1,
        base: 0,
        total: PRIVATE_BYTES,
    };
    let put = Put {
        handle: 2,
        target: PutTarget {
            to: stretch,
            immediate: None,
        },
        token: 2,
    };
    let get = Get {
        from: stretch,
        handle: 3,
        token: 3,
    };
    node.put(now, peer, put).expect("there is room");
    node.get(now, peer, get).expect("there is room");
}

/// Feeds it `noise`.
pub fn run(noise: &[u8]) {
    let (other, (subject, peer)) = (node(0, WireMode::Plain).0, node(1, WireMode::Plain));
    let mut nodes = [other, subject];
    let (seen, mut now) = talk(&mut nodes, Time::ZERO, Duration::from_millis(30));
    let seen = seen.expect("two nodes connect within 30 ms");
    let end = seen.bytes.len();
    let token = &seen.bytes[end - TRAILER_BYTES..];
    let mut number =
        u64::from_be_bytes(seen.bytes[4..12].try_into().expect("8 bytes")) & ((1 << 48) - 1);
    // What it has begun itself, the insider may answer: with anything.
    begin_operations(&mut nodes[1], now, peer);
    // 0xff ends a packet, so that the fuzzer decides how many there are.
    for records in noise.split(|&byte| byte == 0xff) {
        number += 1;
        let mut packet = seen.bytes[..12].to_vec();
        packet[NUMBER].copy_from_slice(&number.to_be_bytes()[2..]);
        packet.extend_from_slice(records);
        packet.extend_from_slice(token);
        nodes[1].handle_datagram(now, seen.link, address(0, seen.link.index()), &mut packet);
        now += Duration::from_millis(1);
        nodes[1].handle_timeout(now);
        drain(&mut nodes[1], now);
    }
    assert!(
        nodes[1].memory_bytes() < MEMORY_BYTES_MAX,
        "{} bytes held",
        nodes[1].memory_bytes()
    );
}
