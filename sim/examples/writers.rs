//! Many writers that all want more room than there is: how many are told of it in a turn, and how long
//! the longest step takes. `cargo run --release -p tabane-sim --example writers -- 50000`

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tabane_proto::op::{OpEvent, OpLimits, Policy};
use tabane_proto::wire::WireMode;
use tabane_proto::{
    Event, LinkConfig, LinkId, Node, NodeConfig, PeerConfig, PeerId, RelayConfig, Time,
};

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, node as u8 + 1], 7577))
}

fn node(index: usize) -> (Node, PeerId) {
    let config = NodeConfig {
        name: format!("n{index}"),
        keys: vec![[7; 32]],
        private: None,
        public: None,
        wire: WireMode::Plain,
        cipher_aes: true,
        receive_buffer_bytes: 4 << 20,
        links: vec![LinkConfig {
            id: LinkId(0),
            address: address(index),
            datagram_bytes_max: 8972,
        }],
        op_limits: OpLimits::default(),
        features: 0,
        relay: RelayConfig::default(),
        guests: None,
        congestion: tabane_proto::CongestionControl::default(),
    };
    let mut node = Node::new(Time::ZERO, config, [index as u8; 32]).expect("a right configuration");
    let mut peer = PeerConfig {
        name: format!("n{}", 1 - index),
        addresses: Default::default(),
        public: None,
    };
    peer.addresses[0] = Some(address(1 - index));
    let id = node.add_peer(Time::ZERO, peer).expect("a right peer");
    (node, id)
}

/// The longest single call of a driver.
struct Longest(Duration);

impl Longest {
    fn of<R>(&mut self, act: impl FnOnce() -> R) -> R {
        let begin = Instant::now();
        let result = act();
        self.0 = self.0.max(begin.elapsed());
        result
    }
}

/// Carries what the first has to send, of node `at`, to the second.
fn carry(
    now: Time,
    (from, to): (&mut Node, &mut Node),
    at: usize,
    buffer: &mut [u8],
    step: &mut Longest,
) {
    for _ in 0..64 {
        let Some(t) = step.of(|| from.poll_transmit(now, buffer)) else {
            break;
        };
        for datagram in buffer[..t.bytes].chunks_mut(t.segment_bytes) {
            step.of(|| to.handle_datagram(now, LinkId(0), address(at), datagram));
        }
    }
    if from.poll_timeout().is_some_and(|due| due <= now) {
        step.of(|| from.handle_timeout(now));
    }
}

fn main() {
    let count: usize = std::env::args()
        .nth(1)
        .map_or(50_000, |n| n.parse().expect("a number"));
    let ((mut sender, to), (mut receiver, from)) = (node(0), node(1));
    let (mut now, mut buffer) = (Time::ZERO, vec![0; 65_535]);
    let (data, mut into) = (vec![1; 64 << 10], vec![0; 64 << 10]);
    let (mut told, mut most, mut step, mut longest) =
        (0, 0, Longest(Duration::ZERO), Duration::ZERO);
    let turns = 2000;
    for turn in 0..turns {
        now += Duration::from_micros(100);
        carry(now, (&mut sender, &mut receiver), 0, &mut buffer, &mut step);
        carry(now, (&mut receiver, &mut sender), 1, &mut buffer, &mut step);
        if turn == 100 {
            for _ in 0..count {
                let id = sender
                    .open_stream(now, to, 0, Policy::Stripe)
                    .expect("connected");
                sender.write_stream(now, to, id, &data).expect("open");
            }
            step = Longest(Duration::ZERO);
        }
        let begin = Instant::now();
        let mut now_told = 0;
        while let Some(event) = step.of(|| sender.poll_event()) {
            if let Event::Op {
                event: OpEvent::Writable(id),
                ..
            } = event
            {
                now_told += 1;
                step.of(|| sender.write_stream(now, to, id, &data))
                    .expect("open");
            }
        }
        if turn > 100 {
            longest = longest.max(begin.elapsed());
            most = most.max(now_told);
            told += now_told;
        }
        while let Some(event) = receiver.poll_event() {
            if let Event::Op {
                event: OpEvent::Readable(id),
                ..
            } = event
            {
                while let Ok(read) = receiver.read_stream(now, from, id, &mut into)
                    && read.len > 0
                {}
            }
        }
    }
    println!(
        "{count} writers, {turns} turns: told of room {told} times, at most {most} in a turn; \
         longest turn of the writers {longest:?}, longest single call {:?}",
        step.0
    );
}
