//! Any records from a peer in good standing: nothing panics, memory stays
//! within its bounds, and the node still talks to that peer afterwards.
//!
//! Plain wire, because there a packet can be made from what was seen of others:
//! header, records, token, CRC-32C (docs/protocol.md, section 6).
use std::time::Duration;

use crate::nodes::{address, drain, node, talk};
use tabane_proto::Time;
use tabane_proto::wire::WireMode;

const NUMBER: std::ops::Range<usize> = 6..12;
const TRAILER_BYTES: usize = 8;
/// Above all limits of one peer together (`OpLimits::default`).
const MEMORY_BYTES_MAX: usize = 400 << 20;

/// Feeds it `noise`.
pub fn run(noise: &[u8]) {
    let mut nodes = [node(0, WireMode::Plain).0, node(1, WireMode::Plain).0];
    let (seen, mut now) = talk(&mut nodes, Time::ZERO, Duration::from_millis(30));
    let seen = seen.expect("two nodes connect within 30 ms");
    let end = seen.bytes.len();
    let token = &seen.bytes[end - TRAILER_BYTES..end - TRAILER_BYTES + 4];
    let mut number =
        u64::from_be_bytes(seen.bytes[4..12].try_into().expect("8 bytes")) & ((1 << 48) - 1);
    // 0xff ends a packet, so that the fuzzer decides how many there are.
    for records in noise.split(|&byte| byte == 0xff) {
        number += 1;
        let mut packet = seen.bytes[..12].to_vec();
        packet[NUMBER].copy_from_slice(&number.to_be_bytes()[2..]);
        packet.extend_from_slice(records);
        packet.extend_from_slice(token);
        let crc = crc_fast::crc32_iscsi(&packet);
        packet.extend_from_slice(&crc.to_be_bytes());
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
