//! Application operations: frames, streams, messages.

use super::{Node, Peer, met};
use crate::bundle::Bundle;
use crate::context::RanOut;
use crate::link::Watch;
use crate::op::{Get, Memory, Message, OpError, Policy, Put, Read, Region};
use crate::wire::FEATURE_MEMORY;
use crate::{PeerId, StreamId, Time};

/// Peers that are asked for a spare buffer before one is made.
const FRAME_PEERS_MAX: usize = 8;

/// The bundle, if its peer has memory operations as far as is known.
fn offering(bundle: &mut Bundle) -> Result<&mut Bundle, OpError> {
    match bundle.may_have(FEATURE_MEMORY) {
        true => Ok(bundle),
        false => Err(OpError::NotOffered),
    }
}

impl Node {
    /// The bundle to a peer that was ever met. To one that was not there is no stream.
    fn bundle(&mut self, peer: PeerId) -> Result<&mut Bundle, OpError> {
        match self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut) {
            Some(Peer::Met(bundle)) => Ok(bundle),
            Some(Peer::Absent(_)) => Err(OpError::UnknownStream),
            None => Err(OpError::UnknownPeer),
        }
    }

    /// Runs an operation on `peer`'s bundle, which may then have something to send.
    fn operate<R>(
        &mut self,
        now: Time,
        peer: PeerId,
        act: impl FnOnce(&mut Bundle) -> Result<R, OpError>,
    ) -> Result<R, OpError> {
        let bundle = self.bundle(peer)?;
        bundle.ops.set_time(now);
        let result = act(bundle);
        self.touch(peer);
        result
    }

    /// The same for what begins something, with a peer that was never met, too.
    fn begin<R>(
        &mut self,
        now: Time,
        peer: PeerId,
        act: impl FnOnce(&mut Bundle) -> Result<R, OpError>,
    ) -> Result<R, OpError> {
        self.settle_bundles(now);
        self.meet(now, peer);
        self.operate(now, peer, act)
    }

    /// The same for reading, of which the peer need not be told each time: who looks and finds
    /// nothing new has nothing to send.
    fn operate_reading<R>(
        &mut self,
        now: Time,
        peer: PeerId,
        act: impl FnOnce(&mut Bundle) -> Result<R, OpError>,
    ) -> Result<R, OpError> {
        let bundle = self.bundle(peer)?;
        bundle.ops.set_time(now);
        let result = act(bundle);
        if bundle.ops.has_pending() {
            self.touch(peer);
        } else {
            self.settle_account(peer);
        }
        result
    }

    /// An empty buffer for [`Node::send_frame`], out of the pool if there is one.
    pub fn frame_buffer(&mut self) -> Vec<u8> {
        while let Some(&peer) = self.frame_peers.last() {
            if let Some(spare) = met(&mut self.peers, peer).and_then(|b| b.ops.spare_buffer()) {
                return spare;
            }
            if self.frame_peers.len() == 1 {
                break;
            }
            self.frame_peers.pop();
        }
        Vec::new()
    }

    /// A frame was sent to `peer`, or came from there.
    fn note_frame(&mut self, peer: PeerId) {
        if self.frame_peers.last() == Some(&peer) {
            return;
        }
        if self.frame_peers.len() == FRAME_PEERS_MAX {
            self.frame_peers.remove(0);
        }
        self.frame_peers.push(peer);
    }

    /// Gives the buffer of a received frame back to the pool.
    pub fn recycle_frame(&mut self, buffer: Vec<u8>) {
        let used_last = self.frame_peers.last();
        if let Some(bundle) = used_last.and_then(|peer| met(&mut self.peers, *peer)) {
            bundle.ops.recycle(buffer);
        }
    }

    /// Sends one packet of the virtual NIC, spread by `policy`. Frames of one `flow` arrive in order; all of a flow should have
    /// the same policy.
    ///
    /// # Errors
    /// The frame comes back if the peer is not connected or its queue is full
    /// (counted in [`NodeStats`](crate::NodeStats)). One that is empty or longer than
    /// [`FRAME_BYTES_MAX`](crate::limits::FRAME_BYTES_MAX) is dropped and counted in
    /// [`OpStats::frames_dropped`](crate::op::OpStats::frames_dropped).
    pub fn send_frame(
        &mut self,
        now: Time,
        peer: PeerId,
        (flow, policy): (u8, Policy),
        frame: Vec<u8>,
    ) -> Result<(), Vec<u8>> {
        if !self.is_connected(peer) {
            self.want(now, peer);
        }
        let bundle = met(&mut self.peers, peer);
        let Some(bundle) = bundle.filter(|b| b.connected() || b.holds_frames()) else {
            self.context.stats.frames_unreachable += 1;
            return Err(frame);
        };
        let result = bundle.ops.send_frame(now, flow, policy, frame);
        self.context.stats.frames_queue_full += u64::from(result.is_err());
        self.note_frame(peer);
        self.touch(peer);
        result
    }

    /// Bytes of frames and streams that wait to be sent to `peer` for the first time.
    pub fn queued_bytes(&self, peer: PeerId) -> usize {
        self.known(peer).map_or(0, |b| b.ops.queued_bytes())
    }

    /// Bytes of frames that wait to be sent to `peer` for the first time.
    pub fn queued_frame_bytes(&self, peer: PeerId) -> usize {
        let bundle = self.known(peer);
        bundle.map_or(0, |b| b.ops.queued_frame_bytes())
    }

    /// Whether more frames are sent to `peer` than the paths to it carry, and have been for a
    /// while; see [`Ops::frames_stand`](crate::op::Ops::frames_stand).
    pub fn frames_stand(&self, peer: PeerId) -> bool {
        self.known(peer).is_some_and(|b| b.ops.frames_stand())
    }

    /// Whether something waits to be sent to any peer: amid bulk, more than the paths take now.
    pub fn has_more_to_send(&self) -> bool {
        let sends = |peer: &PeerId| self.known(*peer).is_some_and(|b| b.ops.has_pending());
        self.turns.has_senders() || self.turns.stale().iter().any(sends)
    }

    /// Whether others than this node's bundle have packets on the paths to `peer` (the kernel's own
    /// connections), so that a failure of one is to be found as soon as under load though the bundle
    /// is idle. Costs a probe and an answer per path every
    /// [`KEEPALIVE_WATCHED`](crate::link::thresholds::KEEPALIVE_WATCHED).
    pub fn watch(&mut self, peer: PeerId, watched: bool) {
        // One end suffices.
        let asks = self
            .peer_name(peer)
            .is_some_and(|name| self.context.config.name.as_str() < name);
        let watch = match watched {
            false => Watch::None,
            true if asks => Watch::Asks,
            true => Watch::IsAsked,
        };
        match self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut) {
            Some(Peer::Met(bundle)) => bundle.watch(watch),
            Some(Peer::Absent(absent)) => absent.watch = watch,
            None => return,
        }
        self.touch(peer);
    }

    /// Who ran out of what it sends since this was last asked.
    pub fn take_ran_out(&mut self) -> RanOut {
        core::mem::take(&mut self.context.ran_out)
    }

    /// Whether anything for programs or the virtual NIC came since this was last asked; the nodes
    /// tell each other of paths, windows and arrivals all the time.
    pub fn take_content_arrived(&mut self) -> bool {
        core::mem::take(&mut self.context.content_arrived)
    }

    /// The next packet for the virtual NIC, in order within its flow.
    pub fn receive_frame(&mut self) -> Option<(PeerId, Vec<u8>)> {
        while let Some(peer) = self.turns.first_arrival() {
            let bundle = met(&mut self.peers, peer);
            if let Some(frame) = bundle.and_then(|b| b.ops.receive_frame()) {
                self.note_frame(peer);
                return Some((peer, frame));
            }
            self.turns.on_no_arrival();
        }
        None
    }

    /// Opens a byte stream to `service` of `peer`, which is told at once.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer, or too many streams are open.
    pub fn open_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        service: u32,
        policy: Policy,
    ) -> Result<StreamId, OpError> {
        self.begin(now, peer, |b| b.ops.open_stream(service, policy))
    }

    /// Changes how a stream's content is spread over the paths from now on.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer or stream.
    pub fn set_stream_policy(
        &mut self,
        peer: PeerId,
        stream: StreamId,
        policy: Policy,
    ) -> Result<(), OpError> {
        self.bundle(peer)?.ops.set_stream_policy(stream, policy)
    }

    /// Says for whom a stream is (a user, a service): what the streams of one owner with a peer hold
    /// unread, and ahead of what the peer admits, counts together, and cannot use up what other owners
    /// need. 0, as at first, is nobody in particular.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer or stream.
    pub fn set_stream_owner(
        &mut self,
        peer: PeerId,
        stream: StreamId,
        owner: u32,
    ) -> Result<(), OpError> {
        self.bundle(peer)?.ops.set_stream_owner(stream, owner)
    }

    /// Appends to a stream; returns how many bytes were taken. 0: the buffer is
    /// full, [`OpEvent::Writable`](crate::op::OpEvent::Writable) follows.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer or stream, ended, reset or stopped.
    pub fn write_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        stream: StreamId,
        data: &[u8],
    ) -> Result<usize, OpError> {
        self.operate(now, peer, |b| b.ops.write_stream(stream, data))
    }

    /// As [`write_stream`](Node::write_stream), for `wanted` bytes that are not in memory yet: `fill`
    /// is lent the memory that they are sent from, as much as lies together and there is room for, and
    /// returns how many bytes it put there. It is not called if there is no room: then, and if there is
    /// not room for all, [`OpEvent::Writable`](crate::op::OpEvent::Writable) follows.
    ///
    /// # Errors
    /// As [`write_stream`](Node::write_stream).
    pub fn fill_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        stream: StreamId,
        wanted: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, OpError> {
        self.operate(now, peer, |b| b.ops.fill_stream(stream, wanted, fill))
    }

    /// Ends the sending half of a stream behind what was written.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer or stream, ended or reset before.
    pub fn finish_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        stream: StreamId,
    ) -> Result<(), OpError> {
        self.operate(now, peer, |b| b.ops.finish_stream(stream))
    }

    /// Gives the sending half of a stream up; what was not delivered is lost.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer or stream.
    pub fn reset_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), OpError> {
        self.operate(now, peer, |b| b.ops.reset_stream(stream, code))
    }

    /// Tells the peer that nothing more of a stream is wanted.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer or stream.
    pub fn stop_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        stream: StreamId,
        code: u32,
    ) -> Result<(), OpError> {
        self.operate(now, peer, |b| b.ops.stop_stream(stream, code))
    }

    /// Reads what has arrived of a stream.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer or stream, or reset by the peer.
    pub fn read_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        stream: StreamId,
        buffer: &mut [u8],
    ) -> Result<Read, OpError> {
        self.operate_reading(now, peer, |b| b.ops.read_stream(stream, buffer))
    }

    /// As [`read_stream`](Node::read_stream), without a buffer: `take` is lent what has arrived, as much
    /// as lies together, and returns how many bytes of it are to count as read. It is not called if
    /// there is nothing. Of what it leaves the application knows: no event says that there is more.
    ///
    /// # Errors
    /// As [`read_stream`](Node::read_stream).
    pub fn take_stream(
        &mut self,
        now: Time,
        peer: PeerId,
        stream: StreamId,
        take: impl FnOnce(&[u8]) -> usize,
    ) -> Result<Read, OpError> {
        self.operate_reading(now, peer, |b| b.ops.take_stream(stream, take))
    }

    /// How many bytes of a stream have arrived in order and were not read.
    pub fn readable_bytes(&self, peer: PeerId, stream: StreamId) -> usize {
        self.known(peer)
            .map_or(0, |bundle| bundle.ops.readable_bytes(stream))
    }

    /// Whether [`read_stream`](Node::read_stream) has something to say of a stream: bytes, the end,
    /// or an error.
    pub fn is_readable(&self, peer: PeerId, stream: StreamId) -> bool {
        self.known(peer)
            .is_none_or(|bundle| bundle.ops.is_readable(stream))
    }

    /// What memory operations read from and write to, of this end's programs: without, nothing is there. To be called
    /// before the first of them, and before a region is registered.
    pub fn set_memory(&mut self, memory: Box<dyn Memory>) {
        self.context.reach.memory = memory;
    }

    /// Lets all peers reach a region by `key`, which should be random: who knows it may.
    ///
    /// # Errors
    /// [`OpError::KeyInUse`], [`OpError::Full`].
    pub fn register_region(&mut self, key: u64, region: Region) -> Result<(), OpError> {
        self.context.reach.regions.register(key, region)
    }

    /// Nobody reaches the region of this key from now on: what is under way with it fails at its beginner's. Whether there
    /// was one.
    pub fn deregister_region(&mut self, key: u64) -> bool {
        self.context.reach.regions.deregister(key)
    }

    /// The region of this key.
    pub fn region(&self, key: u64) -> Option<&Region> {
        self.context.reach.regions.get(key)
    }

    /// Begins to put bytes into a region of `peer`'s. [`OpEvent::Operation`](crate::op::OpEvent::Operation) tells of its end;
    /// until then its bytes must stay as they are.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer, too large, or as many are under way as may be.
    pub fn put(&mut self, now: Time, peer: PeerId, put: Put) -> Result<(), OpError> {
        self.begin(now, peer, |b| offering(b)?.ops.put(put))
    }

    /// Begins to get bytes from a region of `peer`'s. [`OpEvent::Operation`](crate::op::OpEvent::Operation) tells of its end;
    /// until then where they go is not to be used.
    ///
    /// # Errors
    /// As [`put`](Node::put).
    pub fn get(&mut self, now: Time, peer: PeerId, get: Get) -> Result<(), OpError> {
        self.begin(now, peer, |b| offering(b)?.ops.get(get))
    }

    /// Sends a reliable message of at most
    /// [`MESSAGE_BYTES_MAX`](crate::limits::MESSAGE_BYTES_MAX) bytes, ordered within its flow.
    ///
    /// # Errors
    /// [`OpError`]: unknown peer, too large, or no room now.
    pub fn send_message(
        &mut self,
        now: Time,
        peer: PeerId,
        flow: u32,
        tag: Option<u64>,
        data: &[u8],
        policy: Policy,
    ) -> Result<(), OpError> {
        self.begin(now, peer, |b| b.ops.send_message(flow, tag, data, policy))
    }

    /// As [`send_message`](Node::send_message), of `len` bytes that are not in one place: `fill` appends them.
    ///
    /// # Errors
    /// As [`send_message`](Node::send_message); `fill` is not called then.
    pub fn send_message_with(
        &mut self,
        now: Time,
        peer: PeerId,
        flow: u32,
        len: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), OpError> {
        self.begin(now, peer, |b| {
            b.ops
                .send_message_with(flow, None, len, Policy::Stripe, fill)
        })
    }

    /// Whether nothing is under way to `peer` of which it is not known that it arrived.
    pub fn is_quiet(&self, peer: PeerId) -> bool {
        self.known(peer).is_none_or(Bundle::is_quiet)
    }

    /// Bytes sent to `peer` that are not known to have arrived.
    pub fn in_flight_bytes(&self, peer: PeerId) -> usize {
        self.known(peer).map_or(0, |b| b.ops.in_flight_bytes())
    }

    /// Whether something was accepted for `peer` that is not known to have arrived, or it may not know yet how an operation of its own
    /// ended.
    pub fn has_unacknowledged(&self, peer: PeerId) -> bool {
        let owes = |b: &Bundle| {
            b.ops.in_flight_bytes() + b.ops.queued_bytes() > 0 || b.ops.has_ends_untold()
        };
        self.known(peer).is_some_and(owes)
    }

    /// Gives the buffer of a received message back.
    pub fn recycle_message(&mut self, peer: PeerId, buffer: Vec<u8>) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.ops.recycle(buffer);
        }
    }

    /// The next message that `peer` sent.
    pub fn receive_message(&mut self, now: Time, peer: PeerId) -> Option<Message> {
        let ops = &mut self.bundle(peer).ok()?.ops;
        ops.set_time(now);
        let message = ops.receive_message()?;
        self.touch(peer);
        Some(message)
    }
}
