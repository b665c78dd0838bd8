//! Two nodes on a network that delivers at once, or not at all.

mod absent;
mod diagnosis;
mod events;
mod guests;
mod identities;
mod joining;
mod keys;
mod membership;
mod memory;
mod policies;
mod rejections;
mod relaying;
mod surveys;
mod swapped;
mod tracing;
mod turns;

use core::time::Duration;
use std::net::SocketAddr;

use super::*;
use crate::RelayConfig;
use crate::bundle::PeerState;
use crate::context::*;
use crate::op::{OpError, OpEvent, OpLimits, Policy};
use crate::wire::{INIT_BYTES, WireMode};

/// A datagram on its way: link, from, to, bytes.
type Datagram = (LinkId, SocketAddr, SocketAddr, Vec<u8>);

struct Pair {
    now: Time,
    nodes: [Node; 2],
    peers: [PeerId; 2],
    events: [Vec<Event>; 2],
    /// The driver of node 0 does not collect its events.
    deaf: bool,
    /// Links that lose everything.
    dead: u8,
    /// Handshakes pass, and nothing else.
    passes_handshakes_only: bool,
    /// Everything that was ever sent.
    seen: Vec<Datagram>,
}

fn address(node: usize, link: u8) -> SocketAddr {
    SocketAddr::from(([10, 77, link, node as u8 + 1], 7577))
}

fn config(node: usize, key: u8, wire: WireMode) -> NodeConfig {
    let link = |link| LinkConfig {
        id: LinkId(link),
        address: address(node, link),
        datagram_bytes_max: 1472,
    };
    NodeConfig {
        name: format!("n{node}"),
        keys: vec![[key; 32]],
        private: None,
        public: None,
        wire,
        cipher_aes: true,
        receive_buffer_bytes: 4 << 20,
        links: vec![link(0), link(1)],
        op_limits: OpLimits::default(),
        features: 0,
        relay: RelayConfig::default(),
        guests: None,
        congestion: crate::CongestionControl::default(),
    }
}

fn peer(node: usize) -> PeerConfig {
    let mut addresses = [None; LINKS_MAX];
    addresses[0] = Some(address(node, 0));
    addresses[1] = Some(address(node, 1));
    PeerConfig {
        name: format!("n{node}"),
        addresses,
        public: None,
    }
}

impl Pair {
    fn new(configs: [NodeConfig; 2]) -> Pair {
        let now = Time::from_ms(1000);
        let mut index = 0u8;
        let mut nodes = configs.map(|config| {
            index += 1;
            Node::new(now, config, [index; 32]).unwrap()
        });
        let peers = [
            nodes[0].add_peer(now, peer(1)).unwrap(),
            nodes[1].add_peer(now, peer(0)).unwrap(),
        ];
        Pair {
            now,
            nodes,
            deaf: false,
            peers,
            events: Default::default(),
            dead: 0,
            passes_handshakes_only: false,
            seen: Vec::new(),
        }
    }

    fn connected(wire: WireMode) -> Pair {
        let mut pair = Pair::new([config(0, 7, wire), config(1, 7, wire)]);
        pair.run(Duration::from_millis(50));
        pair.assert_up();
        pair
    }

    /// A node of the same name takes its place, and knows nothing of before.
    fn restart(&mut self, node: usize) {
        let config = config(node, 7, WireMode::Encrypted);
        self.nodes[node] = Node::new(self.now, config, [9; 32]).unwrap();
        self.peers[node] = self.nodes[node].add_peer(self.now, peer(1 - node)).unwrap();
    }

    fn assert_up(&self) {
        for n in 0..2 {
            assert_eq!(self.state(n), PeerState::Up, "node {n}");
        }
    }

    fn state(&self, node: usize) -> PeerState {
        self.nodes[node].peer_stats(self.peers[node]).unwrap().state
    }

    /// Everything `node` has to send now.
    fn drain(&mut self, node: usize) -> Vec<Datagram> {
        let mut buffer = vec![0; 65_535];
        let mut all = Vec::new();
        while let Some(t) = self.nodes[node].poll_transmit(self.now, &mut buffer) {
            for datagram in buffer[..t.bytes].chunks(t.segment_bytes) {
                all.push((t.link, address(node, t.link.0), t.to, datagram.to_vec()));
            }
        }
        while !(self.deaf && node == 0)
            && let Some(event) = self.nodes[node].poll_event()
        {
            self.events[node].push(event);
        }
        all
    }

    /// Exchanges datagrams until nobody has anything to say.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut any = false;
            for node in 0..2 {
                for datagram in self.drain(node) {
                    any = true;
                    self.seen.push(datagram.clone());
                    let (link, from, to, mut bytes) = datagram;
                    let dies = self.passes_handshakes_only && bytes[0] == Kind::Data as u8;
                    if self.dead & (1 << link.0) == 0 && !dies && to == address(1 - node, link.0) {
                        self.nodes[1 - node].handle_datagram(self.now, link, from, &mut bytes);
                    }
                }
            }
            if !any {
                return;
            }
        }
        panic!("the nodes never stop talking");
    }

    /// Lets time pass in steps, as timers ask.
    fn run(&mut self, for_: Duration) {
        let end = self.now + for_;
        loop {
            self.settle();
            let due = self.nodes.iter_mut().filter_map(Node::poll_timeout).min();
            let next = due.unwrap_or(end).max(self.now + Duration::from_micros(10));
            if next >= end {
                self.now = end;
                return;
            }
            self.now = next;
            for node in &mut self.nodes {
                node.handle_timeout(self.now);
            }
        }
    }

    /// As [`Pair::run`], but every datagram takes a millisecond.
    fn run_slowly(&mut self, for_ms: u32) {
        for _ in 0..for_ms {
            for node in &mut self.nodes {
                node.handle_timeout(self.now);
            }
            let sent = [self.drain(0), self.drain(1)];
            self.now += Duration::from_millis(1);
            for (node, datagrams) in sent.into_iter().enumerate() {
                for (link, from, _, mut bytes) in datagrams {
                    self.nodes[1 - node].handle_datagram(self.now, link, from, &mut bytes);
                }
            }
        }
    }

    /// Each calls, and what is under way arrives in any order.
    fn call_and_cross(&mut self, random: &mut Random) {
        let mut under_way = Vec::new();
        for node in &mut self.nodes {
            node.call_absent(self.now);
        }
        // Not all that are absent are called at once.
        self.now += Duration::from_millis(50);
        for node in &mut self.nodes {
            node.handle_timeout(self.now);
        }
        for _ in 0..60 {
            for node in 0..2 {
                under_way.extend(self.drain(node).into_iter().map(|d| (1 - node, d)));
            }
            if under_way.is_empty() {
                return;
            }
            let next = random.below(under_way.len() as u64) as usize;
            let (to, (link, from, _, mut bytes)) = under_way.swap_remove(next);
            self.now += Duration::from_micros(random.below(20));
            self.nodes[to].handle_datagram(self.now, link, from, &mut bytes);
        }
    }

    /// Each sends the other one a message.
    fn send_messages(&mut self) {
        for node in 0..2 {
            let policy = Policy::default();
            let (now, to) = (self.now, self.peers[node]);
            let sent = self.nodes[node].send_message(now, to, 0, None, &[7; 100], policy);
            sent.unwrap();
        }
    }

    /// How many messages each has received, which are taken.
    fn messages_that_came(&mut self) -> [usize; 2] {
        [0, 1].map(|node| {
            let from = self.peers[node];
            let next = || self.nodes[node].receive_message(self.now, from);
            core::iter::from_fn(next).count()
        })
    }

    fn send_frame(&mut self, from: usize, frame: Vec<u8>) {
        self.nodes[from]
            .send_frame(self.now, self.peers[from], (3, Policy::Auto), frame)
            .unwrap();
    }

    fn frames(&mut self, node: usize) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| self.nodes[node].receive_frame().map(|(_, f)| f)).collect()
    }

    /// Sends a frame each way and expects it to arrive.
    fn carries(&mut self, salt: u8) {
        for node in [0, 1] {
            self.send_frame(node, frame(3000, salt));
        }
        self.run(Duration::from_millis(20));
        for node in [0, 1] {
            assert_eq!(self.frames(node), [frame(3000, salt)], "node {node}");
        }
    }

    /// Node 0 no longer accepts the key that its session rests on, and the grace of that has passed: both were told,
    /// and do not connect again.
    fn assert_ended_by_key(&mut self) {
        let reasons = [DownReason::KeyRemoved, DownReason::Closed { code: 2 }];
        for (node, reason) in reasons.into_iter().enumerate() {
            let peer = self.peers[node];
            let down = Event::PeerDown { peer, reason };
            assert!(self.events[node].contains(&down), "node {node}");
        }
        self.run(Duration::from_secs(30));
        assert_eq!([self.state(0), self.state(1)], [PeerState::Connecting; 2]);
    }
}

fn frame(len: usize, salt: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31) ^ salt)
        .collect()
}

#[test]
fn connects_and_carries_frames_encrypted_and_plain() {
    for wire in [WireMode::Encrypted, WireMode::Plain] {
        let mut pair = Pair::connected(wire);
        let sent: Vec<_> = [60, 1500, 62_000, 350_000].map(|len| frame(len, 1)).into();
        for f in &sent {
            pair.send_frame(0, f.clone());
            pair.send_frame(1, f.clone());
        }
        pair.run(Duration::from_millis(20));
        assert_eq!(pair.frames(1), sent);
        assert_eq!(pair.frames(0), sent);
        let clear = pair
            .seen
            .iter()
            .any(|(_, _, _, d)| d.windows(60).any(|w| w == sent[0]));
        assert_eq!(clear, wire == WireMode::Plain, "{wire:?}");
    }
}

#[test]
fn both_links_carry_bulk_and_one_dead_link_loses_nothing() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.seen.clear();
    for n in 0..20 {
        pair.send_frame(0, frame(62_000, n));
    }
    pair.run(Duration::from_millis(5));
    for link in [0, 1] {
        let on_link = pair
            .seen
            .iter()
            .filter(|(l, f, ..)| l.0 == link && *f == address(0, link));
        assert!(on_link.count() > 300, "link {link} is used");
    }
    assert_eq!(pair.frames(1).len(), 20);
    pair.dead = 0b10;
    for n in 0..20 {
        pair.send_frame(0, frame(62_000, n));
        pair.run(Duration::from_millis(2));
    }
    pair.run(Duration::from_millis(60));
    let received = pair.frames(1);
    assert_eq!(received.len(), 20);
    assert!(
        received
            .iter()
            .zip(0..)
            .all(|(f, n)| *f == frame(62_000, n))
    );
}

#[test]
fn a_dead_link_is_reported_by_both_and_comes_back() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.run(Duration::from_millis(100));
    pair.events = Default::default();
    pair.dead = 0b01;
    pair.run(Duration::from_secs(10));
    pair.dead = 0;
    pair.run(Duration::from_secs(2));
    for node in 0..2 {
        let changes: Vec<_> = pair.events[node]
            .iter()
            .filter_map(|e| match e {
                Event::LinkDown { link, .. } => Some((link.0, false)),
                Event::LinkUp { link, .. } => Some((link.0, true)),
                _ => None,
            })
            .collect();
        assert_eq!(changes, [(0, false), (0, true)], "node {node}");
    }
    pair.assert_up();
}

#[test]
fn a_restarted_peer_is_taken_up_and_reported() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.restart(1);
    pair.events = Default::default();
    pair.run(Duration::from_millis(300));
    let again = |e: &Event| {
        matches!(
            e,
            Event::PeerUp {
                restarted: true,
                ..
            }
        )
    };
    assert!(pair.events[0].iter().any(again), "{:?}", pair.events[0]);
    pair.send_frame(0, frame(100, 1));
    pair.send_frame(1, frame(100, 2));
    pair.run(Duration::from_millis(10));
    assert_eq!(pair.frames(1), [frame(100, 1)]);
    assert_eq!(pair.frames(0), [frame(100, 2)]);
}

#[test]
fn a_goodbye_is_reported_at_once() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.nodes[1].close(pair.now);
    pair.run(Duration::from_millis(1));
    let closed = Event::PeerDown {
        peer: pair.peers[0],
        reason: DownReason::Closed { code: 0 },
    };
    assert!(pair.events[0].contains(&closed), "{:?}", pair.events[0]);
}

#[test]
fn what_came_before_a_goodbye_is_told_before_it() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let to_0 = pair.peers[1];
    pair.events = Default::default();
    let policy = Policy::Stripe;
    let sent = pair.nodes[1].send_message(pair.now, to_0, 0, None, &[3; 100], policy);
    sent.unwrap();
    let mut datagrams = pair.drain(1);
    pair.nodes[1].close(pair.now);
    datagrams.extend(pair.drain(1));
    // All come at once, as they do to a program that was not run for a while.
    for (link, from, _, mut bytes) in datagrams {
        pair.nodes[0].handle_datagram(pair.now, link, from, &mut bytes);
    }
    pair.drain(0);
    let place = |wanted: fn(&Event) -> bool| pair.events[0].iter().position(wanted);
    let ready = place(|e| {
        let event = &OpEvent::MessageReady;
        matches!(e, Event::Op { event: told, .. } if told == event)
    });
    let down = place(|e| matches!(e, Event::PeerDown { .. }));
    assert!(ready.is_some() && ready < down, "{:?}", pair.events[0]);
}

#[test]
fn keys_are_renewed_without_a_gap_in_what_is_carried() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let renewed = |pair: &Pair| {
        pair.nodes[0]
            .peer_stats(pair.peers[0])
            .unwrap()
            .session_since
    };
    let first = renewed(&pair);
    for n in 0..70 {
        pair.run(Duration::from_secs(10));
        pair.send_frame(0, frame(5000, n));
        pair.run(Duration::from_millis(5));
        assert_eq!(pair.frames(1), [frame(5000, n)], "after {n} × 10 s");
    }
    assert!(renewed(&pair) > first);
    let restarted = |e: &Event| {
        matches!(
            e,
            Event::PeerUp {
                restarted: true,
                ..
            }
        )
    };
    assert!(!pair.events.iter().flatten().any(restarted));
}

#[test]
fn strangers_get_silence_and_key_holders_with_another_wire_a_reason() {
    let mut pair = Pair::new([
        config(0, 7, WireMode::Encrypted),
        config(1, 8, WireMode::Encrypted),
    ]);
    pair.run(Duration::from_secs(3));
    assert!(
        pair.seen.iter().all(|(.., d)| d.len() == INIT_BYTES),
        "only first messages"
    );
    assert!(pair.nodes[0].node_stats().rejected(Rejection::Stranger) > 0);
    assert_eq!(pair.state(0), PeerState::Connecting);

    let mut pair = Pair::new([
        config(0, 7, WireMode::Encrypted),
        config(1, 7, WireMode::Plain),
    ]);
    pair.run(Duration::from_secs(3));
    let told = |e: &Event| matches!(e, Event::Refused { .. });
    assert!(pair.events.iter().any(|events| events.iter().any(told)));
}

#[test]
fn replayed_datagrams_change_nothing() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.send_frame(0, frame(5000, 1));
    pair.run(Duration::from_millis(10));
    assert_eq!(pair.frames(1).len(), 1);
    let recorded = pair.seen.clone();
    pair.events = Default::default();
    for (link, from, to, bytes) in recorded {
        let node = usize::from(to.port() == 7577 && to == address(1, link.0));
        let mut once_more = bytes.clone();
        pair.nodes[node].handle_datagram(pair.now, link, from, &mut once_more);
        let mut bent = bytes;
        let at = bent.len() / 2;
        bent[at] ^= 1;
        pair.nodes[node].handle_datagram(pair.now, link, from, &mut bent);
    }
    assert!(pair.frames(1).is_empty() && pair.frames(0).is_empty());
    pair.run(Duration::from_millis(200));
    pair.assert_up();
    let noise = |e: &&Event| !matches!(e, Event::Refused { .. });
    assert_eq!(pair.events.iter().flatten().find(noise), None);
    pair.send_frame(0, frame(100, 5));
    pair.run(Duration::from_millis(10));
    assert_eq!(pair.frames(1), [frame(100, 5)]);
}

#[test]
fn a_flood_of_handshakes_meets_cookies_and_no_answer_is_larger() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let init = pair
        .seen
        .iter()
        .find(|(.., d)| d.len() == INIT_BYTES)
        .unwrap()
        .clone();
    let from: SocketAddr = "10.77.0.99:1".parse().unwrap();
    for _ in 0..1000 {
        let mut bytes = init.3.clone();
        pair.nodes[1].handle_datagram(pair.now, LinkId(0), from, &mut bytes);
    }
    let answers = pair.drain(1);
    assert!(
        pair.nodes[1]
            .node_stats()
            .rejected(Rejection::AskedForCookie)
            > 0
    );
    assert!(answers.iter().all(|(.., d)| d.len() <= INIT_BYTES));
    pair.run(Duration::from_millis(100));
    pair.assert_up();
}

#[test]
fn an_address_that_changes_is_followed() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let moved: SocketAddr = "10.77.0.77:7577".parse().unwrap();
    pair.send_frame(1, frame(100, 1));
    for (link, from, _, mut bytes) in pair.drain(1) {
        let from = if link.0 == 0 { moved } else { from };
        pair.nodes[0].handle_datagram(pair.now, link, from, &mut bytes);
    }
    // A question goes there, and nothing else before it is answered.
    let there = |sent: Vec<Datagram>| -> (Vec<Datagram>, Vec<Datagram>) {
        let on_link = sent.into_iter().filter(|d| d.0.0 == 0);
        on_link.partition(|d| d.2 == moved)
    };
    pair.send_frame(0, frame(62_000, 1));
    let (question, rest) = there(pair.drain(0));
    assert!(
        question.len() == 1 && question[0].3.len() < 64,
        "{question:?}"
    );
    assert!(rest.iter().any(|d| d.3.len() > 1_000));
    for (link, from, _, mut bytes) in question {
        pair.nodes[1].handle_datagram(pair.now, link, from, &mut bytes);
    }
    for (link, from, _, mut bytes) in pair.drain(1) {
        let from = if link.0 == 0 { moved } else { from };
        pair.nodes[0].handle_datagram(pair.now, link, from, &mut bytes);
    }
    pair.now += Duration::from_millis(300);
    pair.nodes[0].handle_timeout(pair.now);
    let (moved_to, rest) = there(pair.drain(0));
    assert!(!moved_to.is_empty() && rest.is_empty(), "{rest:?}");
}

/// Whoever copies packets and is faster than they are diverts nothing, and has no more sent to where nobody is than
/// three times what came from there.
#[test]
fn a_copy_from_elsewhere_diverts_nothing() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let elsewhere: SocketAddr = "10.77.0.77:7577".parse().unwrap();
    let (mut came, mut sent) = (0, 0);
    for n in 0..100 {
        pair.send_frame(1, frame(100, n));
        pair.send_frame(0, frame(5_000, n));
        for (link, _, _, bytes) in pair.drain(1).into_iter().filter(|d| d.0.0 == 0) {
            came += bytes.len();
            let copy = &mut bytes.clone();
            pair.nodes[0].handle_datagram(pair.now, link, elsewhere, copy);
        }
        for (_, _, to, bytes) in pair.drain(0) {
            sent += if to == elsewhere { bytes.len() } else { 0 };
            assert!(to != elsewhere || bytes.len() < 64, "{bytes:?}");
        }
        assert!(sent <= 3 * came, "{sent} > 3 * {came}");
        pair.now += Duration::from_millis(3);
    }
    assert!(came > 0 && sent > 0);
}

/// The same of a first message: its answer counts, too.
#[test]
fn a_copied_first_message_has_little_sent_to_where_nobody_is() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let elsewhere: SocketAddr = "10.77.0.77:7577".parse().unwrap();
    // Node 1 calls nobody now, so that it answers at once.
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    pair.run(Duration::from_millis(10));
    pair.dead = 1;
    pair.peers[0] = pair.nodes[0].add_peer(pair.now, peer(1)).unwrap();
    let sent = pair.drain(0);
    let first = sent
        .into_iter()
        .find(|d| d.0.0 == 0 && d.3.len() == INIT_BYTES);
    let mut copy = first.unwrap().3;
    let came = copy.len();
    pair.nodes[1].handle_datagram(pair.now, LinkId(0), elsewhere, &mut copy);
    pair.run(Duration::from_secs(5));
    pair.assert_up();
    let there = pair.seen.iter().filter(|d| d.2 == elsewhere);
    let sent: usize = there.map(|d| d.3.len()).sum();
    assert!(sent > came / 2 && sent <= 3 * came, "{sent} of {came}");
}

#[test]
fn a_removed_peer_and_a_removed_link_are_forgotten() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.nodes[0].set_link(pair.now, LinkId(1), None).unwrap();
    pair.run(Duration::from_millis(200));
    assert_eq!(
        pair.nodes[0].peer_stats(pair.peers[0]).unwrap().paths.len(),
        1
    );
    pair.send_frame(0, frame(100, 1));
    pair.run(Duration::from_millis(10));
    assert_eq!(pair.frames(1), [frame(100, 1)]);
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    pair.run(Duration::from_millis(10));
    assert!(pair.nodes[0].peer_stats(pair.peers[0]).is_none());
    let closed = Event::PeerDown {
        peer: pair.peers[1],
        reason: DownReason::Closed { code: 1 },
    };
    assert!(pair.events[1].contains(&closed));
}

#[test]
fn streams_and_messages_survive_a_dying_link() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let data = frame(3_000_000, 9);
    let id = pair.nodes[0]
        .open_stream(pair.now, pair.peers[0], 42, Policy::Stripe)
        .unwrap();
    let (mut written, mut read) = (0, Vec::new());
    let mut buffer = vec![0; 100_000];
    for turn in 0..4000u32 {
        if written < data.len() {
            let peer = pair.peers[0];
            written += pair.nodes[0]
                .write_stream(pair.now, peer, id, &data[written..])
                .unwrap();
            if written == data.len() {
                pair.nodes[0].finish_stream(pair.now, peer, id).unwrap();
            }
        }
        if turn < 50 {
            let message = turn.to_be_bytes();
            let policy = [Policy::Stripe, Policy::Mirror, Policy::Auto][turn as usize % 3];
            pair.nodes[0]
                .send_message(
                    pair.now,
                    pair.peers[0],
                    7,
                    Some(u64::from(turn)),
                    &message,
                    policy,
                )
                .unwrap();
        }
        pair.dead = if turn > 5 { 0b01 } else { 0 };
        pair.run(Duration::from_millis(1));
        let (now, peer) = (pair.now, pair.peers[1]);
        match pair.nodes[1].read_stream(now, peer, id, &mut buffer) {
            Ok(got) => read.extend_from_slice(&buffer[..got.len]),
            // Not opened yet, or read to its end.
            Err(OpError::UnknownStream) => {}
            Err(error) => panic!("{error}"),
        }
        if read.len() == data.len() && turn > 60 {
            break;
        }
    }
    assert!(read == data, "the stream arrives whole and unchanged");
    for turn in 0..50u32 {
        let message = pair.nodes[1]
            .receive_message(pair.now, pair.peers[1])
            .unwrap();
        assert_eq!(
            (message.tag, &message.data[..]),
            (Some(u64::from(turn)), &turn.to_be_bytes()[..])
        );
    }
    let opened = |e: &Event| {
        matches!(
            e,
            Event::Op {
                event: OpEvent::StreamOpened { service: 42, .. },
                ..
            }
        )
    };
    assert!(pair.events[1].iter().any(opened));
}

#[test]
fn a_link_that_works_is_reported_once_whoever_starts_first() {
    for late in [0, 1] {
        for wait_ms in [0, 30, 150, 1000] {
            let mut pair = Pair::new([0, 1].map(|n| config(n, 7, WireMode::Encrypted)));
            let early = 1 - late;
            // The late one does not run yet: what it had to say is not heard.
            let start = pair.now;
            while pair.now < start + Duration::from_millis(wait_ms) {
                pair.now += Duration::from_millis(1);
                pair.nodes[early].handle_timeout(pair.now);
                pair.drain(early);
            }
            pair.nodes[late] =
                Node::new(pair.now, config(late, 7, WireMode::Encrypted), [9; 32]).unwrap();
            pair.peers[late] = pair.nodes[late].add_peer(pair.now, peer(early)).unwrap();
            pair.run_slowly(2500);
            for events in &pair.events {
                let up = |e: &&Event| matches!(e, Event::LinkUp { .. } | Event::PeerUp { .. });
                assert_eq!(
                    events.iter().filter(up).count(),
                    3,
                    "{late} {wait_ms}: {events:?}"
                );
            }
        }
    }
}
