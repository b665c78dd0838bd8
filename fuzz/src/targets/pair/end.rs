//! One of the two nodes, and the driver and program that use it.

use std::net::SocketAddr;

use tabane_proto::op::{OpError, OpEvent, OpLimits, Policy};
use tabane_proto::wire::WireMode;
use tabane_proto::{Event, LinkId, Node, PeerId, StreamId, Time};

use super::ledger::{Ledger, NUMBER_BYTES, Stream, Way, content, policy};
use super::{Content, Manage, Nonsense, Wires};
use crate::nodes::{self, BURST_BYTES, LINKS};

/// More than a node has to say in one go, with the limits below.
const TRANSMITS_MAX: usize = 5_000;
/// A timer may be due so often at one instant.
const TIMEOUTS_MAX: usize = 100;
/// A program holds no more of streams and messages, so that a run stays short.
const STREAMS_MAX: usize = 64;
/// What tracking packets may take on one path.
const PATH_BYTES: usize = 4 << 20;

/// Small, so that they are met.
fn limits() -> OpLimits {
    OpLimits {
        frame_queue_bytes: 64 << 10,
        frame_held_bytes: 1 << 20,
        frame_reassembly_bytes: 1 << 20,
        message_queue_bytes: 256 << 10,
        stream_send_bytes: 64 << 10,
        stream_queue_bytes: 32 << 10,
        streams_send_bytes: 256 << 10,
        stream_window_bytes_max: 1 << 20,
        bundle_window_bytes: 2 << 20,
        streams_max: 8,
        pool_bytes: 256 << 10,
        ..OpLimits::default()
    }
}

fn memory_bytes_max() -> usize {
    let l = limits();
    let content = l.frame_queue_bytes
        + l.frame_held_bytes
        + l.frame_reassembly_bytes
        + l.message_queue_bytes
        + l.streams_send_bytes
        + l.bundle_window_bytes as usize
        + l.message_window_bytes() as usize
        + l.pool_bytes;
    content * 5 / 4 + LINKS * PATH_BYTES
}

pub struct End {
    index: usize,
    wire: WireMode,
    node: Node,
    peer: Option<PeerId>,
    source_port: u16,
    /// How often it was started.
    starts: u8,
    /// Whether to tell what happens.
    trace: bool,
    buffer: Vec<u8>,
}

impl End {
    pub fn new(index: usize, wire: WireMode, trace: bool) -> End {
        let (node, peer) = nodes::node_with(Time::ZERO, index, wire, limits(), 0);
        End {
            index,
            wire,
            node,
            peer: Some(peer),
            source_port: 7577,
            starts: 0,
            trace,
            buffer: vec![0; BURST_BYTES],
        }
    }

    fn restart(&mut self, now: Time, ledger: &mut Ledger) {
        self.starts = self.starts.wrapping_add(1);
        let (node, peer) = nodes::node_with(now, self.index, self.wire, limits(), self.starts);
        self.node = node;
        self.peer = Some(peer);
        ledger.restarted(self.index);
    }

    pub fn datagram(&mut self, now: Time, link: LinkId, source: SocketAddr, bytes: &mut [u8]) {
        self.node.handle_datagram(now, link, source, bytes);
    }

    pub fn due(&mut self) -> Option<Time> {
        self.node.poll_timeout()
    }

    pub fn timeouts(&mut self, now: Time, wires: &mut Wires, ledger: &mut Ledger) {
        for round in 0.. {
            if self.node.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
            assert!(round < TIMEOUTS_MAX, "a timer is due for ever");
            self.node.handle_timeout(now);
            self.drain(now, wires, ledger);
        }
    }

    /// Takes out all that the node has to say.
    pub fn drain(&mut self, now: Time, wires: &mut Wires, ledger: &mut Ledger) {
        let mut sent = 0;
        while let Some(t) = self.node.poll_transmit(now, &mut self.buffer) {
            let link = t.link.index();
            let source = SocketAddr::new(nodes::address(self.index, link).ip(), self.source_port);
            for datagram in self.buffer[..t.bytes].chunks(t.segment_bytes) {
                wires.send(self.index, link, source, datagram);
            }
            sent += 1;
            assert!(sent < TRANSMITS_MAX, "a node does not stop talking");
        }
        while let Some(event) = self.node.poll_event() {
            if self.trace {
                eprintln!("{now:?}: n{}: {event:?}", self.index);
            }
            match event {
                Event::PeerUp { restarted, .. } => {
                    ledger.ups[self.index] += 1;
                    let known = ledger.restarts > 0;
                    assert!(!restarted || known, "a restart that was none");
                }
                Event::Op { peer, event } if Some(peer) == self.peer => self.heard(event, ledger),
                _ => {}
            }
        }
        while let Some((_, frame)) = self.node.receive_frame() {
            ledger.frames.arrived(self.index, None, None, &frame);
            self.node.recycle_frame(frame);
        }
        let held = self.node.memory_bytes();
        assert!(held <= memory_bytes_max(), "{held} bytes held");
    }

    fn heard(&self, event: OpEvent, ledger: &mut Ledger) {
        let side = self.index;
        let mut give_up = |id, writer: usize| {
            if let Some(stream) = ledger.find(side, id) {
                stream.ways[writer].given_up = true;
            }
        };
        match event {
            OpEvent::StreamOpened { id, service } => ledger.opened(side, id, service),
            OpEvent::Reset { id, .. } => give_up(id, 1 - side),
            OpEvent::Stopped { id, .. } => give_up(id, side),
            OpEvent::Broken(id) => ledger.broken(side, id),
            OpEvent::MessagesBroken { .. } => ledger.messages_broken(side),
            OpEvent::Readable(_)
            | OpEvent::Writable(_)
            | OpEvent::Finished(_)
            | OpEvent::MessageReady
            | OpEvent::MessageRoom
            | OpEvent::Operation { .. }
            | OpEvent::Written { .. }
            | OpEvent::Read { .. } => {}
        }
    }

    /// A program does something.
    pub fn content(&mut self, now: Time, what: Content, ledger: &mut Ledger) {
        let Some(peer) = self.peer else { return };
        let side = self.index;
        match what {
            Content::Open(way) => self.open(now, peer, way, ledger),
            Content::Write(back, bytes) => self.write(now, peer, (back, bytes), ledger),
            Content::Read(back, bytes) => {
                if let Some(stream) = ledger.stream(side, back) {
                    self.read(now, stream, usize::from(bytes), ledger);
                }
            }
            Content::Finish(back) => {
                if let Some((service, id)) = ledger.stream(side, back)
                    && self.node.finish_stream(now, peer, id).is_ok()
                {
                    ledger.streams[service].ways[side].finished = true;
                }
            }
            Content::Reset(back) => {
                if let Some((service, id)) = ledger.stream(side, back)
                    && self.node.reset_stream(now, peer, id, 7).is_ok()
                {
                    ledger.streams[service].ways[side].given_up = true;
                }
            }
            Content::Stop(back) => {
                if let Some((service, id)) = ledger.stream(side, back)
                    && self.node.stop_stream(now, peer, id, 8).is_ok()
                {
                    ledger.streams[service].ways[1 - side].given_up = true;
                }
            }
            Content::Message(flow, bytes, tagged, way) => {
                let data = ledger.messages.make(usize::from(bytes) * 4);
                let (flow, tag) = (u32::from(flow % 4), tagged.then_some(u64::MAX));
                let sent = self
                    .node
                    .send_message(now, peer, flow, tag, &data, policy(way));
                match sent {
                    Ok(()) => ledger.messages.sent(side, flow, tag, data.len()),
                    Err(why) => assert_eq!(why, OpError::Full),
                }
            }
            Content::Messages(count) => self.read_messages(now, usize::from(count), ledger),
            Content::Frame(flow, bytes) => {
                let data = ledger.frames.make(usize::from(bytes) * 2);
                let (flow, bytes) = (flow % 4, data.len());
                if self
                    .node
                    .send_frame(now, peer, (flow, policy(flow)), data)
                    .is_ok()
                {
                    ledger.frames.sent(side, flow.into(), None, bytes);
                }
            }
        }
    }

    fn open(&mut self, now: Time, peer: PeerId, way: u8, ledger: &mut Ledger) {
        let service = ledger.streams.len();
        if service == STREAMS_MAX {
            return;
        }
        let opened = self
            .node
            .open_stream(now, peer, service as u32, policy(way));
        match opened {
            Ok(id) => {
                ledger.number(self.index, id);
                let mut ids = [None; 2];
                ids[self.index] = Some(id);
                let ways = [Way::default(); 2];
                ledger.streams.push(Stream {
                    opener: self.index,
                    ids,
                    ways,
                });
            }
            Err(why) => assert_eq!(why, OpError::TooManyStreams),
        }
    }

    fn write(&mut self, now: Time, peer: PeerId, (back, bytes): (u8, u16), ledger: &mut Ledger) {
        let Some((service, id)) = ledger.stream(self.index, back) else {
            return;
        };
        let way = &mut ledger.streams[service].ways[self.index];
        let key = Stream::key(service, self.index);
        let data = content(key, way.written, usize::from(bytes) * 16);
        if let Ok(taken) = self.node.write_stream(now, peer, id, &data) {
            assert!(!way.finished || taken == 0);
            way.written += taken as u64;
        }
    }

    fn read(&mut self, now: Time, stream: (usize, StreamId), bytes: usize, ledger: &mut Ledger) {
        let Some(peer) = self.peer else { return };
        let (service, id) = stream;
        let mut buffer = vec![0; bytes];
        if let Ok(read) = self.node.read_stream(now, peer, id, &mut buffer) {
            ledger.read(self.index, service, &buffer[..read.len], read.fin);
        }
    }

    fn read_messages(&mut self, now: Time, count: usize, ledger: &mut Ledger) {
        let Some(peer) = self.peer else { return };
        for _ in 0..count {
            let Some(message) = self.node.receive_message(now, peer) else {
                return;
            };
            ledger.message(self.index, &message);
        }
    }

    /// Reads everything that is there.
    pub fn read_all(&mut self, now: Time, ledger: &mut Ledger) {
        self.read_messages(now, usize::MAX, ledger);
        for service in 0..ledger.streams.len() {
            if let Some(id) = ledger.streams[service].ids[self.index] {
                self.read(now, (service, id), 1 << 20, ledger);
            }
        }
    }

    /// An operator or the kernel does something.
    pub fn manage(&mut self, now: Time, what: Manage, ledger: &mut Ledger) {
        let id = |link: bool| LinkId(link.into());
        let other = |link: bool| nodes::address(1 - self.index, link.into());
        match what {
            Manage::Carrier(link, up) => self.node.handle_link(now, id(link), up),
            Manage::Blocked(link, blocked) => self.node.set_link_blocked(id(link), blocked),
            Manage::Refused(link, bytes) => {
                self.node.handle_refused(now, id(link), bytes.into());
            }
            Manage::LinkGone(link) => self.set_link(now, link, None),
            Manage::LinkThere(link, more) => {
                self.set_link(now, link, Some(1232 + u16::from(more)));
            }
            Manage::NoAddress(link) => {
                if let Some(peer) = self.peer {
                    self.node.set_peer_address(now, peer, id(link), None);
                }
            }
            Manage::Address(link) => {
                let address = other(link);
                if let Some(peer) = self.peer {
                    self.node
                        .set_peer_address(now, peer, id(link), Some(address));
                }
            }
            Manage::Roam => self.source_port ^= 1,
            Manage::Crash => self.restart(now, ledger),
            Manage::Close => {
                self.node.close(now);
                self.drain(now, &mut Wires::default(), ledger);
                self.restart(now, ledger);
            }
            Manage::Remove => {
                if let Some(peer) = self.peer.take() {
                    self.node.remove_peer(now, peer);
                    ledger.restarted(self.index);
                }
            }
            Manage::Add => self.add(now),
        }
    }

    fn set_link(&mut self, now: Time, link: bool, datagram_bytes_max: Option<u16>) {
        let config = datagram_bytes_max.map(|bytes| nodes::link(self.index, link.into(), bytes));
        let id = LinkId(link.into());
        self.node
            .set_link(now, id, config)
            .expect("the link is right");
    }

    fn add(&mut self, now: Time) {
        if self.peer.is_none() {
            let peer = self.node.add_peer(now, nodes::peer(1 - self.index));
            self.peer = Some(peer.expect("it is not there yet"));
        }
    }

    /// Makes everything work again.
    pub fn mend(&mut self, now: Time, ledger: &mut Ledger) {
        self.add(now);
        for link in [false, true] {
            self.manage(now, Manage::LinkThere(link, 240), ledger);
            self.manage(now, Manage::Carrier(link, true), ledger);
            self.manage(now, Manage::Blocked(link, false), ledger);
            self.manage(now, Manage::Address(link), ledger);
        }
    }

    /// A driver does what none should.
    pub fn nonsense(&mut self, now: Time, what: Nonsense) {
        let peer = self.peer.unwrap_or(PeerId(u32::MAX));
        let node = &mut self.node;
        match what {
            Nonsense::Timeout => node.handle_timeout(now),
            Nonsense::Stream(id) => {
                // Above all that a program opens here.
                let id = StreamId(u64::from(id | 1 << 20));
                assert!(node.write_stream(now, peer, id, &[1]).is_err());
                assert!(node.read_stream(now, peer, id, &mut [0]).is_err());
                assert!(node.finish_stream(now, peer, id).is_err());
                assert!(node.reset_stream(now, peer, id, 0).is_err());
                assert!(node.stop_stream(now, peer, id, 0).is_err());
            }
            Nonsense::Peer(id) => {
                // Above all that were added here.
                let id = PeerId(id | 1 << 20);
                node.remove_peer(now, id);
                node.set_peer_address(now, id, LinkId(0), None);
                assert!(node.open_stream(now, id, 0, policy(0)).is_err());
                assert!(node.receive_message(now, id).is_none());
                assert!(
                    node.send_frame(now, id, (0, Policy::Auto), vec![1])
                        .is_err()
                );
                assert!(node.peer_stats(id).is_none());
            }
            Nonsense::Link(id, bytes) => {
                // Above all that there are.
                let id = LinkId(id | LINKS as u8);
                node.handle_link(now, id, id.0 & 1 == 0);
                node.set_link_blocked(id, false);
                node.handle_refused(now, id, bytes.into());
                node.set_peer_address(now, peer, id, None);
                let _ = node.set_link(now, id, None);
                node.handle_datagram(now, id, nodes::address(9, 0), &mut [0x10; 40]);
            }
            Nonsense::Frame(empty) => {
                let bytes = if empty { 0 } else { (512 << 10) + 1 };
                let _ = node.send_frame(now, peer, (0, Policy::Auto), vec![0; bytes]);
            }
            Nonsense::Message(more) => {
                let bytes = (1 << 20) + (more as usize & 0xffff) - NUMBER_BYTES;
                let said = node.send_message(now, peer, 0, None, &vec![0; bytes], policy(0));
                assert!(said.is_err());
            }
        }
    }
}
