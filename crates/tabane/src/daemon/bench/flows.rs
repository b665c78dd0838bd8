//! What either end of a measurement sends and takes in while it goes on.

use tabane_proto::op::Policy;
use tabane_proto::{LinkId, Node, PeerId, StreamId, Time};

use crate::agent::give_up;
use crate::bench::words::{CODE_OVER, DATAGRAM_BYTES, make_datagram};

/// Written at a time.
static BLOCK: [u8; 128 * 1024] = [0; 128 * 1024];
/// Blocks written to a stream in one turn of the loop: others have their turn then.
const BLOCKS_MAX: usize = 16;
/// Datagrams wait for others' frames, and not the other way round: no more of them are sent while this much waits.
const DATAGRAMS_QUEUED_BYTES: usize = 128 * 1024;
/// If others have more than this to send to the peer, they get all links again.
const OTHERS_BYTES: usize = 16 * 1024;

/// What was counted since the daemon began.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub taken_bytes: u64,
    pub datagrams_sent: u64,
    pub datagrams_taken: u64,
    pub in_the_way: u64,
}

/// A stream that this end writes as fast as it goes.
#[derive(Debug)]
struct Give {
    peer: PeerId,
    stream: StreamId,
    /// Over this link alone.
    link: Option<LinkId>,
    is_full: bool,
}

/// Everything under way.
#[derive(Debug, Default)]
pub struct Flows {
    gives: Vec<Give>,
    /// The streams that ask for datagrams.
    datagrams: Vec<(PeerId, StreamId)>,
    takes: Vec<(PeerId, StreamId)>,
    echoes: Vec<(PeerId, StreamId)>,
    pub counts: Counts,
}

impl Flows {
    /// Writes a stream from now on; over one link alone, if that is asked for.
    pub fn give(&mut self, node: &mut Node, peer: PeerId, stream: StreamId, link: Option<LinkId>) {
        if link.is_some() {
            node.confine(peer, link);
        }
        self.gives.push(Give {
            peer,
            stream,
            link,
            is_full: false,
        });
    }

    /// Sends datagrams from now on, until this stream is over.
    pub fn give_datagrams(&mut self, peer: PeerId, stream: StreamId) {
        self.datagrams.push((peer, stream));
    }

    /// Reads and counts a stream from now on.
    pub fn take(&mut self, peer: PeerId, stream: StreamId) {
        self.takes.push((peer, stream));
    }

    /// Sends back what comes on a stream from now on.
    pub fn echo(&mut self, peer: PeerId, stream: StreamId) {
        self.echoes.push((peer, stream));
    }

    /// How many streams there are.
    pub const fn count(&self) -> usize {
        self.gives.len() + self.datagrams.len() + self.takes.len() + self.echoes.len()
    }

    /// A stream whose first line was read has begun; `rest` came behind it.
    pub fn begin(
        &mut self,
        now: Time,
        node: &mut Node,
        (peer, stream): (PeerId, StreamId),
        rest: &[u8],
    ) {
        if self.takes.contains(&(peer, stream)) {
            self.counts.taken_bytes += rest.len() as u64;
        }
        if self.echoes.contains(&(peer, stream)) {
            let _ = node.write_stream(now, peer, stream, rest);
        }
        self.readable(now, node, peer, stream);
    }

    /// Something came on a stream. Returns whether the stream is one of these.
    pub fn readable(&mut self, now: Time, node: &mut Node, peer: PeerId, stream: StreamId) -> bool {
        let this = (peer, stream);
        let is_echo = self.echoes.contains(&this);
        let counts = self.takes.contains(&this);
        if !is_echo && !counts && !self.sends_on(peer, stream) {
            return false;
        }
        loop {
            let mut came = Vec::new();
            let read = node.take_stream(now, peer, stream, |bytes| {
                if is_echo {
                    came.extend_from_slice(bytes);
                }
                bytes.len()
            });
            let len = read.map_or(0, |read| read.len);
            if counts {
                self.counts.taken_bytes += len as u64;
            }
            if !came.is_empty() {
                // A few bytes at a time: there is room, or the other end does not read what it asked for.
                let _ = node.write_stream(now, peer, stream, &came);
            }
            if len == 0 {
                return true;
            }
        }
    }

    /// A stream takes bytes again.
    pub fn writable(&mut self, peer: PeerId, stream: StreamId) {
        let is_it = |give: &&mut Give| (give.peer, give.stream) == (peer, stream);
        self.gives
            .iter_mut()
            .filter(is_it)
            .for_each(|give| give.is_full = false);
    }

    fn sends_on(&self, peer: PeerId, stream: StreamId) -> bool {
        let is_it = |give: &Give| (give.peer, give.stream) == (peer, stream);
        self.gives.iter().any(is_it) || self.datagrams.contains(&(peer, stream))
    }

    /// A stream is over. Returns whether it was one of these.
    pub fn over(&mut self, node: &mut Node, peer: PeerId, stream: StreamId) -> bool {
        let this = (peer, stream);
        let is_its = self.sends_on(peer, stream)
            || self.takes.contains(&this)
            || self.echoes.contains(&this);
        let (gone, left) = core::mem::take(&mut self.gives)
            .into_iter()
            .partition(|give| (give.peer, give.stream) == this);
        self.gives = left;
        let gone: Vec<Give> = gone;
        if gone.iter().any(|give| give.link.is_some()) {
            node.confine(peer, None);
        }
        for streams in [&mut self.datagrams, &mut self.takes, &mut self.echoes] {
            streams.retain(|of| *of != this);
        }
        is_its
    }

    /// Ends everything.
    pub fn end(&mut self, now: Time, node: &mut Node) {
        let gives = self.gives.drain(..).map(|give| {
            if give.link.is_some() {
                node.confine(give.peer, None);
            }
            (give.peer, give.stream)
        });
        let mut streams: Vec<(PeerId, StreamId)> = gives.collect();
        for of in [&mut self.datagrams, &mut self.takes, &mut self.echoes] {
            streams.append(of);
        }
        for (peer, stream) in streams {
            give_up(now, node, peer, stream, CODE_OVER);
        }
    }

    /// Sends what there is room for. Returns whether there is more to send at once.
    pub fn turn(&mut self, now: Time, node: &mut Node) -> bool {
        let mut is_eager = false;
        for give in &mut self.gives {
            give.make_way(node, &mut self.counts);
            is_eager |= give.write(now, node);
        }
        if let Some(&(peer, _)) = self.datagrams.first() {
            while node.queued_frame_bytes(peer) + DATAGRAM_BYTES <= DATAGRAMS_QUEUED_BYTES {
                let mut frame = node.frame_buffer();
                frame.clear();
                make_datagram(&mut frame);
                if let Err(frame) = node.send_frame(now, peer, (0, Policy::Auto), frame) {
                    node.recycle_frame(frame);
                    break;
                }
                self.counts.datagrams_sent += 1;
            }
        }
        is_eager
    }

    /// Whether there is room for more datagrams, so that the loop must not wait.
    pub fn wants(&self, node: &Node) -> bool {
        let peer = self.datagrams.first();
        peer.is_some_and(|(peer, _)| {
            node.is_connected(*peer)
                && node.queued_frame_bytes(*peer) + DATAGRAM_BYTES <= DATAGRAMS_QUEUED_BYTES / 2
        })
    }
}

impl Give {
    /// Lets go of the link if others have something to send to the peer.
    fn make_way(&mut self, node: &mut Node, counts: &mut Counts) {
        let own_bytes = node.queued_stream_bytes(self.peer, self.stream);
        let others_bytes = node.queued_bytes(self.peer).saturating_sub(own_bytes);
        if self.link.is_some() && others_bytes > OTHERS_BYTES {
            self.link = None;
            node.confine(self.peer, None);
            counts.in_the_way += 1;
        }
    }

    /// Writes until there is no room, or others have their turn: then there is more.
    fn write(&mut self, now: Time, node: &mut Node) -> bool {
        for _ in 0..BLOCKS_MAX {
            if self.is_full {
                return false;
            }
            // A stream that is over is told of by an event.
            let written = node.write_stream(now, self.peer, self.stream, &BLOCK);
            self.is_full = written.is_ok_and(|len| len < BLOCK.len()) || written.is_err();
        }
        !self.is_full
    }
}

#[cfg(test)]
mod tests {
    use tabane_proto::limits::LINKS_MAX;
    use tabane_proto::op::OpLimits;
    use tabane_proto::wire::WireMode;
    use tabane_proto::{CongestionControl, LinkConfig, NodeConfig, PeerConfig, RelayConfig};

    use super::*;

    const NOW: Time = Time::from_ms(1000);

    /// A node that reaches nobody, and its peer: what is written waits.
    fn node() -> (Node, PeerId) {
        let address = |node: u8| ([10, 77, 0, node], 7577).into();
        let config = NodeConfig {
            name: "n0".to_owned(),
            keys: vec![[7; 32]],
            private: None,
            public: None,
            wire: WireMode::Encrypted,
            cipher_aes: true,
            receive_buffer_bytes: 4 << 20,
            links: vec![LinkConfig {
                id: LinkId(0),
                address: address(1),
                datagram_bytes_max: 1472,
            }],
            op_limits: OpLimits::default(),
            features: 0,
            relay: RelayConfig::default(),
            guests: None,
            congestion: CongestionControl::default(),
        };
        let mut node = Node::new(NOW, config, [1; 32]).expect("is right");
        let mut addresses = [None; LINKS_MAX];
        addresses[0] = Some(address(2));
        let peer = PeerConfig {
            name: "n1".to_owned(),
            addresses,
            public: None,
        };
        let peer = node.add_peer(NOW, peer).expect("is right");
        (node, peer)
    }

    fn open(node: &mut Node, peer: PeerId) -> StreamId {
        let opened = node.open_stream(NOW, peer, 1, Policy::Stripe);
        opened.expect("can be opened")
    }

    #[test]
    fn others_get_all_links_as_soon_as_they_have_something_to_send() {
        for others_wait in [false, true] {
            let (mut node, peer) = node();
            let (own, other) = (open(&mut node, peer), open(&mut node, peer));
            if others_wait {
                let written = node.write_stream(NOW, peer, other, &BLOCK);
                assert!(written.is_ok_and(|len| len > OTHERS_BYTES), "{written:?}");
            }
            let mut flows = Flows::default();
            flows.give(&mut node, peer, own, Some(LinkId(0)));
            // What it has written itself is not in its way.
            flows.turn(NOW, &mut node);
            flows.turn(NOW, &mut node);
            assert!(node.queued_stream_bytes(peer, own) > 0);
            assert_eq!(flows.counts.in_the_way, u64::from(others_wait));
            assert_eq!(flows.gives[0].link.is_none(), others_wait);
        }
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let (mut node, peer) = node();
        let mut flows = Flows::default();
        let streams = [(); 3].map(|()| open(&mut node, peer));
        flows.give(&mut node, peer, streams[0], None);
        flows.take(peer, streams[1]);
        flows.echo(peer, streams[2]);
        assert_eq!(flows.count(), 3);
        assert!(flows.over(&mut node, peer, streams[1]));
        assert!(!flows.over(&mut node, peer, streams[1]));
        assert_eq!(flows.count(), 2);
        flows.end(NOW, &mut node);
        assert_eq!(flows.count(), 0);
        // Nothing is sent on any of them any more.
        assert!(!flows.turn(NOW, &mut node));
    }

    #[test]
    fn no_datagram_goes_to_who_is_not_connected() {
        let (mut node, peer) = node();
        let stream = open(&mut node, peer);
        let mut flows = Flows::default();
        flows.give_datagrams(peer, stream);
        flows.turn(NOW, &mut node);
        assert_eq!(flows.counts.datagrams_sent, 0);
        assert!(!flows.wants(&node));
    }
}
