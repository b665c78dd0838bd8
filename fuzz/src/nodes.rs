//! Two nodes joined by nothing but a function call.

use std::net::SocketAddr;
use std::time::Duration;

use tabane_proto::op::{Memory, OpLimits, Region};
use tabane_proto::wire::{FEATURE_MEMORY, WireMode};
use tabane_proto::{LinkConfig, LinkId, Node, NodeConfig, PeerConfig, PeerId, RelayConfig, Time};

/// How many links the nodes have.
pub const LINKS: usize = 2;
/// What the driver contract asks of a buffer for one burst.
pub const BURST_BYTES: usize = 65_535;
/// More than two nodes have to say to each other in one go.
const DATAGRAMS_MAX: usize = 10_000;

/// A datagram on its way.
pub struct Datagram {
    /// On which link.
    pub link: LinkId,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Length of the region that every node has; its key and its handle are 1. Other handles are [`PRIVATE_BYTES`] long.
pub const REGION_BYTES: u64 = 4096;
/// See [`REGION_BYTES`].
pub const PRIVATE_BYTES: u64 = 100_000;

/// The memory of a node: nothing is touched beyond its ends.
struct Bounded;

impl Bounded {
    fn touch(handle: u64, offset: u64, bytes: usize) {
        let all = if handle == 1 {
            REGION_BYTES
        } else {
            PRIVATE_BYTES
        };
        let end = offset.checked_add(bytes as u64).expect("does not wrap");
        assert!(end <= all, "handle {handle}: {offset}..{end}");
    }
}

impl Memory for Bounded {
    fn read(&self, handle: u64, offset: u64, into: &mut [u8]) {
        Bounded::touch(handle, offset, into.len());
    }

    fn write(&mut self, handle: u64, offset: u64, from: &[u8]) {
        Bounded::touch(handle, offset, from.len());
    }
}

/// Where node `index` is on `link`.
pub fn address(index: usize, link: usize) -> SocketAddr {
    SocketAddr::from(([10, 77, link as u8, index as u8 + 1], 7577))
}

/// Link number `link` of node `index`.
pub fn link(index: usize, link: usize, datagram_bytes_max: u16) -> LinkConfig {
    LinkConfig {
        id: LinkId(link as u8),
        address: address(index, link),
        datagram_bytes_max,
    }
}

/// Node `index` as the other knows it.
pub fn peer(index: usize) -> PeerConfig {
    let mut peer = PeerConfig {
        name: format!("n{index}"),
        addresses: Default::default(),
        public: None,
    };
    for l in 0..LINKS {
        peer.addresses[l] = Some(address(index, l));
    }
    peer
}

/// Node `index` of two, and the other as its peer.
pub fn node(index: usize, wire: WireMode) -> (Node, PeerId) {
    node_with(Time::ZERO, index, wire, OpLimits::default(), 0)
}

/// As [`node`], started for the `starts`th time.
pub fn node_with(
    now: Time,
    index: usize,
    wire: WireMode,
    op_limits: OpLimits,
    starts: u8,
) -> (Node, PeerId) {
    let config = NodeConfig {
        name: format!("n{index}"),
        keys: vec![[7; 32]],
        private: None,
        public: None,
        wire,
        cipher_aes: true,
        receive_buffer_bytes: 1 << 20,
        links: (0..LINKS).map(|l| link(index, l, 1472)).collect(),
        op_limits,
        features: FEATURE_MEMORY,
        relay: RelayConfig::default(),
        guests: None,
        congestion: tabane_proto::CongestionControl::default(),
    };
    let mut seed = [index as u8; 32];
    seed[1] = starts;
    let mut node = Node::new(now, config, seed).expect("a right configuration");
    node.set_memory(Box::new(Bounded));
    let region = Region {
        handle: 1,
        bytes: REGION_BYTES,
        origin: 0,
        is_readable: true,
        is_writable: true,
        is_told: false,
    };
    node.register_region(1, region).expect("the only one");
    let id = node.add_peer(now, peer(1 - index)).expect("a right peer");
    (node, id)
}

/// Drains everything that a driver drains; returns what is to be sent.
pub fn drain(node: &mut Node, now: Time) -> Vec<Datagram> {
    let mut buffer = vec![0; BURST_BYTES];
    let mut sent = Vec::new();
    while let Some(transmit) = node.poll_transmit(now, &mut buffer) {
        let one = |bytes: &[u8]| Datagram {
            link: transmit.link,
            bytes: bytes.to_vec(),
        };
        sent.extend(
            buffer[..transmit.bytes]
                .chunks(transmit.segment_bytes)
                .map(one),
        );
        assert!(sent.len() < DATAGRAMS_MAX, "a node does not stop talking");
    }
    while node.poll_event().is_some() {}
    while let Some((_, frame)) = node.receive_frame() {
        node.recycle_frame(frame);
    }
    sent
}

/// Lets two nodes talk for `for_how_long`; returns the last data packet that
/// node 0 sent, and the time then.
pub fn talk(nodes: &mut [Node; 2], from: Time, for_how_long: Duration) -> (Option<Datagram>, Time) {
    let step = Duration::from_millis(1);
    let mut now = from;
    let mut last = None;
    while now < from + for_how_long {
        now += step;
        for sender in 0..2 {
            nodes[sender].handle_timeout(now);
            for mut datagram in drain(&mut nodes[sender], now) {
                if sender == 0 && datagram.bytes[0] == 0x10 {
                    last = Some(Datagram {
                        link: datagram.link,
                        bytes: datagram.bytes.clone(),
                    });
                }
                let source = address(sender, datagram.link.index());
                nodes[1 - sender].handle_datagram(now, datagram.link, source, &mut datagram.bytes);
            }
        }
    }
    (last, now)
}
