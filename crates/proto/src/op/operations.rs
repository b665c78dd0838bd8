//! The application's operations: send and receive frames, messages, streams.

use super::{Get, Message, OpError, Ops, Policy, Put, Read};
use crate::limits::FRAME_BYTES_MAX;
use crate::{StreamId, Time};

/// Frames.
impl Ops {
    /// An empty buffer for a frame, with room for a full TSO packet or more. Reserve what you need: the capacity
    /// is kept when it comes back.
    pub fn frame_buffer(&mut self) -> Vec<u8> {
        self.shared.pool.take_largest()
    }

    /// As [`frame_buffer`](Ops::frame_buffer), but `None` rather than allocating.
    pub fn spare_buffer(&mut self) -> Option<Vec<u8>> {
        self.shared.pool.take_spare()
    }

    /// Takes back the buffer of a received frame or message.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.shared.pool.give(buffer);
    }

    /// Whether [`send_frame`](Ops::send_frame) would accept a frame of `bytes`.
    pub fn has_frame_room(&self, bytes: usize) -> bool {
        self.frames_out.has_room(bytes, &self.shared.limits)
    }

    /// Sends a frame in one of 256 flows. Frames of a flow arrive in order;
    /// one that cannot arrive in time does not arrive.
    ///
    /// A frame that cannot be one (empty, or longer than [`FRAME_BYTES_MAX`])
    /// is dropped and counted in [`OpStats::frames_dropped`](super::OpStats::frames_dropped).
    ///
    /// # Errors
    /// The queue is full, and not [standing](Ops::frames_stand): the frame is given back; stop
    /// reading frames until [`has_frame_room`](Ops::has_frame_room).
    pub fn send_frame(
        &mut self,
        now: Time,
        flow: u8,
        policy: Policy,
        frame: Vec<u8>,
    ) -> Result<(), Vec<u8>> {
        if frame.is_empty() || frame.len() > FRAME_BYTES_MAX {
            self.shared.stats.frames_dropped += 1;
            self.shared.pool.give(frame);
            return Ok(());
        }
        if !self.has_frame_room(frame.len()) {
            self.frames_out.expire(now, &mut self.shared);
            self.frames_out.crowd_out(frame.len(), &mut self.shared);
            if !self.has_frame_room(frame.len()) {
                return Err(frame);
            }
        }
        self.frames_out
            .push(now, (flow, policy), frame, &mut self.shared);
        Ok(())
    }

    /// Bytes of frames accepted and never sent so far.
    pub const fn queued_frame_bytes(&self) -> usize {
        self.frames_out.queued_bytes()
    }

    /// Whether more frames are sent than the paths carry, and have been for a while: some flow has a standing
    /// queue. Then bring in frames that wait elsewhere, because here no flow waits for another.
    pub const fn frames_stand(&self) -> bool {
        self.frames_out.stands()
    }

    /// The next frame from the peer, in order. Give it to
    /// [`recycle`](Ops::recycle) when done with.
    #[inline]
    pub fn receive_frame(&mut self) -> Option<Vec<u8>> {
        self.frames_in.pop()
    }
}

/// Messages.
impl Ops {
    /// Sends a message in a flow: messages of a flow arrive in order, each exactly
    /// once while the bundle lives. There may be
    /// [`MESSAGE_FLOWS_MAX`](super::MESSAGE_FLOWS_MAX) flows. An empty message is one.
    ///
    /// # Errors
    /// [`OpError::TooLarge`] beyond [`MESSAGE_DATA_BYTES_MAX`](super::MESSAGE_DATA_BYTES_MAX),
    /// [`OpError::TooManyFlows`], or [`OpError::Full`]: wait for
    /// [`OpEvent::MessageRoom`](super::OpEvent::MessageRoom).
    pub fn send_message(
        &mut self,
        flow: u32,
        tag: Option<u64>,
        data: &[u8],
        policy: Policy,
    ) -> Result<(), OpError> {
        self.send_message_with(flow, tag, data.len(), policy, |unit| {
            unit.extend_from_slice(data);
        })
    }

    /// As [`send_message`](Ops::send_message), of `len` bytes that are not in one place: `fill` appends them.
    ///
    /// # Errors
    /// As [`send_message`](Ops::send_message); `fill` is not called then.
    pub fn send_message_with(
        &mut self,
        flow: u32,
        tag: Option<u64>,
        len: usize,
        policy: Policy,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), OpError> {
        self.messages_out
            .push((flow, tag), len, fill, policy, &mut self.shared)
    }

    /// The next message from the peer. Until it is fetched it uses the
    /// window granted to the peer.
    pub fn receive_message(&mut self) -> Option<Message> {
        self.messages_in.pop(&mut self.shared)
    }
}

/// Memory.
impl Ops {
    /// Begins a put; [`OpEvent::Operation`](super::OpEvent::Operation) reports its end. Until then its bytes must
    /// not change.
    ///
    /// # Errors
    /// [`OpError::TooLarge`] beyond [`OPERATION_BYTES_MAX`](crate::wire::OPERATION_BYTES_MAX); [`OpError::Full`] while
    /// [`OPERATIONS_MAX`](crate::wire::OPERATIONS_MAX) are under way.
    pub fn put(&mut self, put: Put) -> Result<(), OpError> {
        let memory = self.memory.get_or_insert_default();
        memory.put(put, &mut self.shared)
    }

    /// Begins a get; [`OpEvent::Operation`](super::OpEvent::Operation) reports its end. Until then its
    /// destination must not be used.
    ///
    /// # Errors
    /// As [`put`](Ops::put).
    pub fn get(&mut self, get: Get) -> Result<(), OpError> {
        let memory = self.memory.get_or_insert_default();
        memory.get(get, &mut self.shared)
    }
}

impl Ops {
    /// The peer has no memory operations, or has restarted: operations under way are broken.
    pub fn break_memory(&mut self) {
        if let Some(mut memory) = self.memory.take() {
            memory.reset(&mut self.shared);
        }
    }
}

/// Streams.
impl Ops {
    /// Opens a stream, at once: the peer learns of it even if nothing is written.
    ///
    /// # Errors
    /// [`OpError::TooManyStreams`].
    pub fn open_stream(&mut self, service: u32, policy: Policy) -> Result<StreamId, OpError> {
        self.streams.open(service, policy, &mut self.shared)
    }

    /// Changes how this end's data is spread over the paths; streams that the peer opened begin with
    /// [`Policy::Stripe`].
    ///
    /// # Errors
    /// [`OpError::UnknownStream`].
    pub fn set_stream_policy(&mut self, id: StreamId, policy: Policy) -> Result<(), OpError> {
        self.streams.set_policy(id, policy, &mut self.shared)
    }

    /// Sets a stream's owner. Bytes that the streams of one owner hold unread, or written beyond the peer's
    /// window, are counted together, and leave room for other owners. 0, the initial value, is no owner.
    ///
    /// # Errors
    /// [`OpError::UnknownStream`].
    pub fn set_stream_owner(&mut self, id: StreamId, owner: u32) -> Result<(), OpError> {
        self.streams.set_owner(id, owner, &mut self.shared)
    }

    /// Takes bytes to be sent; returns how many. If that is not all of them,
    /// [`OpEvent::Writable`](super::OpEvent::Writable) follows when there is room.
    ///
    /// # Errors
    /// [`OpError::UnknownStream`]; [`OpError::Closed`] if it was finished, reset or stopped.
    pub fn write_stream(&mut self, id: StreamId, data: &[u8]) -> Result<usize, OpError> {
        self.streams.write(id, data, &mut self.shared)
    }

    /// As [`Ops::write_stream`], for `wanted` bytes that are not in memory yet: `fill` puts them where
    /// they are sent from.
    ///
    /// # Errors
    /// As [`Ops::write_stream`].
    pub fn fill_stream(
        &mut self,
        id: StreamId,
        wanted: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, OpError> {
        self.streams.fill(id, wanted, fill, &mut self.shared)
    }

    /// Ends this end's direction. [`OpEvent::Finished`](super::OpEvent::Finished) reports that the peer has all
    /// of it.
    ///
    /// # Errors
    /// [`OpError::UnknownStream`]; [`OpError::Closed`] if it was finished, reset or stopped before.
    pub fn finish_stream(&mut self, id: StreamId) -> Result<(), OpError> {
        self.streams.finish(id, &mut self.shared)
    }

    /// Aborts sending: undelivered data is lost. The other direction goes on, unless the peer has not heard of
    /// the stream yet: then it never will, and its direction is reset too.
    ///
    /// # Errors
    /// [`OpError::UnknownStream`]; [`OpError::Closed`] if everything arrived, or it was reset before.
    pub fn reset_stream(&mut self, id: StreamId, code: u32) -> Result<(), OpError> {
        self.streams.reset(id, code, &mut self.shared)
    }

    /// Aborts receiving: unread data is lost, and the peer is asked to stop sending.
    ///
    /// # Errors
    /// [`OpError::UnknownStream`]; [`OpError::Closed`] if it ended or was stopped before.
    pub fn stop_stream(&mut self, id: StreamId, code: u32) -> Result<(), OpError> {
        self.streams.stop(id, code, &mut self.shared)
    }

    /// Reads what is there. If nothing was read and the end is not reached, wait for
    /// [`OpEvent::Readable`](super::OpEvent::Readable).
    ///
    /// A stream is forgotten when its end was read and all this end wrote was acknowledged.
    ///
    /// # Errors
    /// [`OpError::UnknownStream`]; [`OpError::Reset`] if the peer reset its direction; [`OpError::Closed`] if
    /// this end stopped it.
    pub fn read_stream(&mut self, id: StreamId, into: &mut [u8]) -> Result<Read, OpError> {
        self.streams.read(id, into, &mut self.shared)
    }

    /// Like [`Ops::read_stream`], without a buffer: `take` borrows what is there.
    ///
    /// # Errors
    /// As [`Ops::read_stream`].
    pub fn take_stream(
        &mut self,
        id: StreamId,
        take: impl FnOnce(&[u8]) -> usize,
    ) -> Result<Read, OpError> {
        self.streams.take(id, take, &mut self.shared)
    }

    /// How many bytes of a stream have arrived in order and were not read.
    pub fn readable_bytes(&self, id: StreamId) -> usize {
        self.streams.readable_bytes(id)
    }

    /// Whether [`read_stream`](Ops::read_stream) has something to say of a stream: bytes, the end,
    /// or an error.
    pub fn is_readable(&self, id: StreamId) -> bool {
        self.streams.is_readable(id)
    }
}
