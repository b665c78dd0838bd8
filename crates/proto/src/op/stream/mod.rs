//! Byte streams: both directions, each with its own end (RFC 9000 sections 2 to 4).
//!
//! A stream is forgotten when both halves are done; what still comes for it is
//! ignored. Streams are told apart from forgotten ones by their order: a node opens
//! its streams in order of their ids, so when one comes, all before it are expected.

mod bound;
mod peer;
mod receive;
mod rest;
mod send;
mod sending;
mod table;

use super::limits::STREAM_FIRST_BYTES;
use super::queue::Source;
use super::shared::{Control, Shared};
use super::{CODE_REFUSED, OpError, OpEvent, Policy, Read};
use crate::StreamId;
use crate::segment::ChunkPool;
use receive::ReceiveHalf;
pub use rest::Rest;
use send::SendHalf;
use table::Table;

/// No stream's window grows beyond this part of what the peer is granted in all.
const STREAMS_IN_SHARE: u64 = 8;

/// One stream.
#[derive(Debug)]
struct Stream {
    id: u32,
    /// What it was opened for, if this end opened it; else 0, and means nothing.
    service: u32,
    /// Whom what it holds counts for; 0: nobody in particular.
    owner: u32,
    /// Whether the application knows it: it opened it, or was told of it.
    known: bool,
    send: SendHalf,
    receive: ReceiveHalf,
}

/// All streams of a bundle.
#[derive(Debug)]
pub(super) struct Streams {
    table: Table,
    /// The id of the next stream that this end opens.
    next_own: u32,
    /// One past the highest stream of the peer known so far, in its order.
    next_peer: u32,
    /// Streams of this end that are not forgotten.
    own_count: usize,
    /// Streams of the peer that are not forgotten.
    peer_count: usize,
    /// Bytes never sent.
    queued_bytes: u64,
    /// Bytes sent and not acknowledged.
    in_flight_bytes: u64,
    /// Bytes lost and not sent again yet.
    lost_bytes: u64,
    /// Bytes written and not known to have arrived.
    kept_bytes: u64,
    /// Streams that this end ended, of whose end the peer is not known to know.
    ends_owed: u64,
    /// Memory of what is known of gaps in what the peer sends.
    gaps_bytes: usize,
    /// Streams whose application found no room since all streams together keep too much.
    out_of_room: Vec<u32>,
}

impl Streams {
    pub fn new(opens_even: bool) -> Streams {
        Streams {
            table: Table::default(),
            next_own: u32::from(!opens_even),
            next_peer: u32::from(opens_even),
            own_count: 0,
            peer_count: 0,
            queued_bytes: 0,
            in_flight_bytes: 0,
            lost_bytes: 0,
            kept_bytes: 0,
            ends_owed: 0,
            gaps_bytes: 0,
            out_of_room: Vec::new(),
        }
    }

    /// See [`Ops::open_stream`](super::Ops::open_stream).
    pub fn open(
        &mut self,
        service: u32,
        policy: Policy,
        shared: &mut Shared,
    ) -> Result<StreamId, OpError> {
        if self.own_count >= shared.limits.streams_max {
            return Err(OpError::TooManyStreams);
        }
        let id = self.next_own;
        self.next_own = id.checked_add(2).ok_or(OpError::TooManyStreams)?;
        self.own_count += 1;
        self.table.insert(Stream {
            id,
            service,
            owner: 0,
            known: true,
            send: SendHalf::new(policy, true),
            receive: ReceiveHalf::new(),
        });
        self.wake(id, shared);
        Ok(StreamId(id))
    }

    /// See [`Ops::set_stream_policy`](super::Ops::set_stream_policy).
    pub fn set_policy(&mut self, id: StreamId, policy: Policy) -> Result<(), OpError> {
        self.known(id)?.send.policy = policy;
        Ok(())
    }

    /// See [`Ops::set_stream_owner`](super::Ops::set_stream_owner).
    pub fn set_owner(&mut self, id: StreamId, owner: u32) -> Result<(), OpError> {
        self.known(id)?.owner = owner;
        Ok(())
    }

    /// See [`Ops::write_stream`](super::Ops::write_stream).
    pub fn write(
        &mut self,
        id: StreamId,
        data: &[u8],
        shared: &mut Shared,
    ) -> Result<usize, OpError> {
        let len = self.room(id, data.len(), shared)?;
        let stream = self.known(id)?;
        stream.send.write(&data[..len], &mut shared.chunks);
        self.on_written(id, len, shared);
        Ok(len)
    }

    /// See [`Ops::fill_stream`](super::Ops::fill_stream).
    pub fn fill(
        &mut self,
        id: StreamId,
        wanted: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
        shared: &mut Shared,
    ) -> Result<usize, OpError> {
        let room = self.room(id, wanted, shared)?;
        if room == 0 {
            return Ok(0);
        }
        let stream = self.known(id)?;
        let len = stream.send.fill(room, &mut shared.chunks, fill);
        self.on_written(id, len, shared);
        Ok(len)
    }

    /// The application has written so many bytes.
    fn on_written(&mut self, id: StreamId, len: usize, shared: &mut Shared) {
        self.queued_bytes += len as u64;
        self.kept_bytes += len as u64;
        if len > 0 {
            self.wake(id.0, shared);
        }
    }

    /// How many of so many bytes can be written now. If not all, the application waits for room.
    fn room(&mut self, id: StreamId, wanted: usize, shared: &Shared) -> Result<usize, OpError> {
        let limits = &shared.limits;
        let all_room = (limits.streams_send_bytes as u64).saturating_sub(self.kept_bytes);
        let stream = self.known(id)?;
        if !stream.send.is_open() {
            return Err(OpError::Closed);
        }
        let kept_room = (limits.stream_send_bytes as u64).saturating_sub(stream.send.kept_bytes());
        let queue_max = stream.send.queue_bound.bytes(limits.stream_queue_bytes);
        let queue_room = queue_max.saturating_sub(stream.send.queued_bytes());
        let all_room = all_room.max(STREAM_FIRST_BYTES.saturating_sub(stream.send.written));
        let own_room = kept_room.min(queue_room);
        let room = own_room.min(all_room).min(wanted as u64) as usize;
        if room < wanted {
            stream.send.was_full = true;
            if all_room < own_room {
                self.wait_for_room(id.0);
            }
        }
        Ok(room)
    }

    /// See [`Ops::finish_stream`](super::Ops::finish_stream).
    pub fn finish(&mut self, id: StreamId, shared: &mut Shared) -> Result<(), OpError> {
        let stream = self.known(id)?;
        if !stream.send.is_open() {
            return Err(OpError::Closed);
        }
        self.change(id.0, |stream| stream.send.finish());
        self.wake(id.0, shared);
        Ok(())
    }

    /// See [`Ops::reset_stream`](super::Ops::reset_stream).
    pub fn reset(&mut self, id: StreamId, code: u32, shared: &mut Shared) -> Result<(), OpError> {
        let stream = self.known(id)?;
        if stream.send.reset.is_some() || stream.send.is_done() {
            return Err(OpError::Closed);
        }
        self.give_up_sending(id.0, code, shared);
        Ok(())
    }

    /// See [`Ops::stop_stream`](super::Ops::stop_stream).
    pub fn stop(&mut self, id: StreamId, code: u32, shared: &mut Shared) -> Result<(), OpError> {
        let stream = self.known(id)?;
        if stream.receive.is_done() || stream.receive.stop.is_some() {
            return Err(OpError::Closed);
        }
        self.give_up_receiving(id.0, code, shared);
        self.forget_if_done(id.0, shared);
        Ok(())
    }

    /// See [`Ops::read_stream`](super::Ops::read_stream).
    pub fn read(
        &mut self,
        id: StreamId,
        into: &mut [u8],
        shared: &mut Shared,
    ) -> Result<Read, OpError> {
        self.reading(id, shared, |receive, pool| receive.read(into, pool))
    }

    /// See [`Ops::take_stream`](super::Ops::take_stream).
    pub fn take(
        &mut self,
        id: StreamId,
        take: impl FnOnce(&[u8]) -> usize,
        shared: &mut Shared,
    ) -> Result<Read, OpError> {
        self.reading(id, shared, |receive, pool| receive.take(take, pool))
    }

    /// Has the application read what has arrived.
    fn reading(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        read: impl FnOnce(&mut ReceiveHalf, &mut ChunkPool) -> Read,
    ) -> Result<Read, OpError> {
        // Of a small share a few readers that stand still would leave nothing.
        let share = shared.receive_window.share() / STREAMS_IN_SHARE;
        let window_max = shared.limits.stream_window_bytes_max.min(share);
        let stream = self.known(id)?;
        if let Some(code) = stream.receive.reset {
            return Err(OpError::Reset(code));
        }
        if stream.receive.stop.is_some() {
            return Err(OpError::Closed);
        }
        let read = read(&mut stream.receive, &mut shared.chunks);
        if stream.receive.raise_limit(window_max) && !stream.receive.window_queued {
            stream.receive.window_queued = true;
            shared.control.push_back(Control::StreamWindow(id.0));
        }
        shared.stats.stream_bytes_read += read.len as u64;
        shared.credit(read.len as u64);
        if read.fin {
            self.forget_if_done(id.0, shared);
        }
        Ok(read)
    }

    /// See [`Ops::is_readable`](super::Ops::is_readable).
    pub fn is_readable(&self, id: StreamId) -> bool {
        let stream = self.table.get(id.0).filter(|stream| stream.known);
        stream.is_none_or(|Stream { receive, .. }| {
            receive.reset.is_some() || receive.stop.is_some() || receive.has_news()
        })
    }

    /// See [`Ops::readable_bytes`](super::Ops::readable_bytes).
    pub fn readable_bytes(&self, id: StreamId) -> usize {
        let stream = self.table.get(id.0).filter(|stream| stream.known);
        stream.map_or(0, |stream| stream.receive.readable_bytes())
    }

    /// The stream, if the application may speak of it.
    fn known(&mut self, id: StreamId) -> Result<&mut Stream, OpError> {
        self.table
            .get_mut(id.0)
            .filter(|stream| stream.known)
            .ok_or(OpError::UnknownStream)
    }

    /// A stream may have something new to send.
    fn wake(&mut self, id: u32, shared: &mut Shared) {
        if let Some(stream) = self.table.get_mut(id)
            && stream.send.has_new()
        {
            shared.turns.wake(Source::Stream(id), &mut stream.send.turn);
        }
    }

    /// Gives up sending on a stream and tells the peer.
    fn give_up_sending(&mut self, id: u32, code: u32, shared: &mut Shared) {
        self.change(id, |stream| {
            stream.send.give_up(code, &mut shared.chunks);
            shared.turns.rest(&mut stream.send.turn);
            shared.control.push_back(Control::Reset(id));
        });
        self.offer_room(id, shared);
    }

    /// Gives up receiving on a stream, and tells the peer unless it has said everything.
    fn give_up_receiving(&mut self, id: u32, code: u32, shared: &mut Shared) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        self.gaps_bytes -= stream.receive.gaps_bytes();
        let credit = stream.receive.on_stop(code, &mut shared.chunks);
        if !stream.receive.is_done() {
            shared.control.push_back(Control::Stop(id));
        }
        shared.credit(credit);
    }

    /// Changes a stream's sending half and keeps the sums over all streams.
    fn change<R>(&mut self, id: u32, change: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let stream = self.table.get_mut(id)?;
        let sums = |send: &SendHalf| {
            [
                send.queued_bytes(),
                send.in_flight_bytes(),
                send.lost.covered(),
                send.kept_bytes(),
                u64::from(send.owes_end()),
            ]
        };
        let before = sums(&stream.send);
        let result = change(stream);
        let after = sums(&stream.send);
        let totals = [
            &mut self.queued_bytes,
            &mut self.in_flight_bytes,
            &mut self.lost_bytes,
            &mut self.kept_bytes,
            &mut self.ends_owed,
        ];
        for ((total, before), after) in totals.into_iter().zip(before).zip(after) {
            *total = *total - before + after;
        }
        Some(result)
    }

    /// Tells the applications of stream `id`, and of those that wait for others to
    /// have less, that there is a good part of the room for writing, if they wait for it.
    fn offer_room(&mut self, id: u32, shared: &mut Shared) {
        self.offer_room_to(id, shared);
        while self.kept_bytes <= all_kept_max(shared)
            && let Some(id) = self.out_of_room.pop()
        {
            if let Some(stream) = self.table.get_mut(id) {
                stream.send.in_room_list = false;
            }
            self.offer_room_to(id, shared);
        }
    }

    fn offer_room_to(&mut self, id: u32, shared: &mut Shared) {
        let kept_max = shared.limits.stream_send_bytes as u64 / 4 * 3;
        let Some(stream) = self.table.get_mut(id).filter(|s| s.send.was_full) else {
            return;
        };
        let send = &stream.send;
        let queue_max = send.queue_bound.bytes(shared.limits.stream_queue_bytes) / 2;
        let has_own_room = send.kept_bytes() <= kept_max && send.queued_bytes() <= queue_max;
        if !send.is_open() || (has_own_room && self.kept_bytes <= all_kept_max(shared)) {
            stream.send.was_full = false;
            stream.send.queue_bound.on_offered();
            shared.events.push_back(OpEvent::Writable(StreamId(id)));
        } else if has_own_room {
            self.wait_for_room(id);
        }
    }

    /// Stream `id` waits for room of all streams together.
    fn wait_for_room(&mut self, id: u32) {
        if let Some(stream) = self.table.get_mut(id)
            && !stream.send.in_room_list
        {
            stream.send.in_room_list = true;
            self.out_of_room.push(id);
        }
    }

    /// Forgets a stream that is over in both directions.
    fn forget_if_done(&mut self, id: u32, shared: &mut Shared) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        if !stream.send.is_done() || !stream.receive.is_done() {
            return;
        }
        shared.turns.rest(&mut stream.send.turn);
        self.gaps_bytes -= stream.receive.gaps_bytes();
        self.table.remove(id);
        if self.is_own(id) {
            self.own_count -= 1;
        } else {
            self.peer_count -= 1;
        }
    }

    /// Whether this end opened, or may open, the stream.
    fn is_own(&self, id: u32) -> bool {
        id % 2 == self.next_own % 2
    }

    /// Starts afresh: all streams end, and the application is told, with what it has not read yet.
    pub fn restart(&mut self, shared: &mut Shared) {
        let fresh = Streams::new(self.next_own.is_multiple_of(2));
        let streams = core::mem::replace(self, fresh).table.into_streams();
        for stream in streams.filter(|stream| stream.known) {
            shared.broken(StreamId(stream.id), Rest::of(stream.receive));
        }
    }

    /// Bytes never sent.
    pub const fn queued_bytes(&self) -> usize {
        self.queued_bytes as usize
    }

    /// Bytes sent and not acknowledged.
    pub const fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes as usize
    }

    /// Bytes lost and not sent again yet.
    pub const fn lost_bytes(&self) -> usize {
        self.lost_bytes as usize
    }

    /// Streams that this end ended, of whose end the peer is not known to know.
    pub const fn ends_owed(&self) -> u64 {
        self.ends_owed
    }

    /// Streams not forgotten.
    pub const fn count(&self) -> usize {
        self.own_count + self.peer_count
    }

    /// Memory held, in bytes. Looks at every stream.
    pub fn memory_bytes(&self) -> usize {
        let heap: usize = self
            .table
            .iter()
            .map(|s| s.send.heap_bytes() + s.receive.heap_bytes())
            .sum();
        self.table.memory_bytes() + self.out_of_room.capacity() * size_of::<u32>() + heap
    }
}

/// What all streams together may keep for there to be a good part of the room again.
const fn all_kept_max(shared: &Shared) -> u64 {
    shared.limits.streams_send_bytes as u64 / 4 * 3
}
