//! Any datagrams from someone without the key: no answer, no event, no memory.
use crate::nodes::{address, drain, node};
use tabane_proto::wire::WireMode;
use tabane_proto::{LinkId, Time};

/// Feeds it `noise`.
pub fn run(noise: &[u8]) {
    let (mut node, _) = node(0, WireMode::Encrypted);
    let now = Time::ZERO;
    drain(&mut node, now);
    let memory_bytes = node.memory_bytes();
    for piece in noise.chunks(300) {
        let mut datagram = piece.to_vec();
        node.handle_datagram(now, LinkId(0), address(9, 0), &mut datagram);
        assert!(drain(&mut node, now).is_empty(), "a stranger was answered");
    }
    assert_eq!(node.memory_bytes(), memory_bytes, "a stranger costs memory");
}
