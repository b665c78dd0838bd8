//! Byte streams: both directions, each with its own end (RFC 9000 sections 2 to 4).
//!
//! A stream is forgotten when both halves are done; later records for it are ignored. Their order
//! distinguishes new streams from forgotten ones: a node opens its streams in order of their ids, so
//! when one comes, all before it are expected.

mod bound;
mod counts;
mod openings;
mod peer;
mod receive;
mod rest;
mod room;
mod send;
mod sending;
mod table;

use std::collections::VecDeque;

use super::limits::{REPORT_AFTER, REPORT_BYTES, STREAM_PART};
use super::queue::Source;
use super::shared::{Control, Shared};
use super::{CODE_REFUSED, OpError, OpEvent, Policy, Read};
use crate::segment::ChunkPool;
use crate::{StreamId, Time};
use counts::{Counts, Sums};
use openings::Openings;
use receive::ReceiveHalf;
pub use rest::Rest;
use room::Waiters;
use send::SendHalf;
use table::Table;

/// Of so many streams all are looked at, in builds with debug assertions, to check what is known of them.
#[cfg(debug_assertions)]
const CHECKED_MAX: usize = 16;

/// One stream.
#[derive(Debug)]
struct Stream {
    id: u64,
    /// The service, if this end opened it; else 0, without meaning.
    service: u32,
    /// The owner, for the counts; 0: nobody.
    owner: u32,
    /// Whether the application knows it: it opened it, or got an event.
    known: bool,
    /// Whether anything came that says what became of it at the end that opened it.
    heard: bool,
    send: SendHalf,
    receive: ReceiveHalf,
    /// What the sums contain for it.
    counted: Counts,
}

/// All streams of a bundle.
#[derive(Debug)]
pub(super) struct Streams {
    table: Table,
    sums: Sums,
    waiters: Waiters,
    openings: Openings,
    /// One past the highest stream of the peer known so far, in its order.
    next_peer: u64,
    /// The peer's streams that are known to be open, and of whose opening nothing has come yet.
    unheard: u64,
    /// Streams of this end that are not forgotten.
    own_count: usize,
    /// Streams of the peer that are not forgotten.
    peer_count: usize,
    /// Streams whose reading progress is to be reported soon; and when.
    reports: VecDeque<(Time, u64)>,
}

impl Streams {
    pub fn new(opens_even: bool) -> Streams {
        Streams {
            table: Table::default(),
            sums: Sums::default(),
            waiters: Waiters::default(),
            openings: Openings::new(opens_even),
            next_peer: u64::from(opens_even),
            unheard: 0,
            own_count: 0,
            peer_count: 0,
            reports: VecDeque::new(),
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
        let id = self.openings.open();
        self.own_count += 1;
        self.table.insert(Stream {
            id,
            service,
            owner: 0,
            known: true,
            heard: true,
            send: SendHalf::new(policy, true),
            receive: ReceiveHalf::new(),
            counted: Counts::default(),
        });
        self.wake(id, shared);
        Ok(StreamId(id))
    }

    /// See [`Ops::set_stream_policy`](super::Ops::set_stream_policy).
    pub fn set_policy(
        &mut self,
        id: StreamId,
        policy: Policy,
        shared: &mut Shared,
    ) -> Result<(), OpError> {
        let send = &mut self.known(id)?.send;
        send.policy = policy;
        (shared.turns).set_policy(Source::Stream(id.0), &mut send.state, policy);
        Ok(())
    }

    /// See [`Ops::set_stream_owner`](super::Ops::set_stream_owner).
    pub fn set_owner(
        &mut self,
        id: StreamId,
        owner: u32,
        shared: &mut Shared,
    ) -> Result<(), OpError> {
        self.known(id)?;
        if let Some(stream) = self.table.get_mut(id.0)
            && !self.sums.set_owner(stream, owner)
        {
            shared.stats.owners_full += 1;
        }
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

    /// The application has written `len` bytes.
    fn on_written(&mut self, id: StreamId, len: usize, shared: &mut Shared) {
        self.count(id.0);
        if len > 0 {
            self.wake(id.0, shared);
        }
    }

    /// See [`Ops::finish_stream`](super::Ops::finish_stream).
    pub fn finish(&mut self, id: StreamId, shared: &mut Shared) -> Result<(), OpError> {
        let stream = self.known(id)?;
        if !stream.send.is_open() {
            return Err(OpError::Closed);
        }
        self.change(id.0, |stream| stream.send.finish());
        self.release_offer(id.0, shared);
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

    /// Lets the application read what has arrived.
    fn reading(
        &mut self,
        id: StreamId,
        shared: &mut Shared,
        read: impl FnOnce(&mut ReceiveHalf, &mut ChunkPool) -> Read,
    ) -> Result<Read, OpError> {
        let stream = self.known(id)?;
        if let Some(code) = stream.receive.reset {
            return Err(OpError::Reset(code));
        }
        if stream.receive.stop.is_some() {
            return Err(OpError::Closed);
        }
        let read = read(&mut stream.receive, &mut shared.chunks);
        stream.receive.on_read(shared.now);
        self.count(id.0);
        shared.stats.stream_bytes_read += read.len as u64;
        shared.credit(read.len as u64);
        self.tell_window(id.0, shared);
        self.check();
        if read.fin {
            self.forget_if_done(id.0, shared);
        }
        Ok(read)
    }

    /// Reports a stream's reading progress and new limit to the peer, if that is worth a record; else
    /// later.
    fn tell_window(&mut self, id: u64, shared: &mut Shared) {
        let window = &shared.receive_window;
        let free = window.share().saturating_sub(window.unread());
        let Some(stream) = self.table.get(id) else {
            return;
        };
        // With a small share, a few readers that stand still would leave nothing.
        let owner = self.sums.of_owner(stream.owner);
        let free = room::left_to_owner(free, owner.map(|owner| owner.unread_here));
        let part = (window.share() / (2 * STREAM_PART)).min(free / STREAM_PART);
        let window_max = shared.limits.stream_window_bytes_max.min(part);
        // While the peer has little left, it must know exactly who reads.
        let is_scarce = window.unused() < window.share() / 4 * 3;
        let worth = if is_scarce { 1 } else { REPORT_BYTES };
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let receive = &mut stream.receive;
        if receive.is_report_due(is_scarce) {
            receive.raise_limit(window_max);
            if !core::mem::replace(&mut receive.window_queued, true) {
                shared.control.push_back(Control::StreamWindow(id));
            }
        } else if receive.unreported_bytes() >= worth && !receive.report_queued {
            receive.report_queued = true;
            self.reports.push_back((shared.now + REPORT_AFTER, id));
        }
    }

    /// Reports progress that had no better occasion; and offers to other writers the room that the first
    /// did not use.
    pub fn on_timeout(&mut self, shared: &mut Shared) {
        while let Some(&(at, id)) = self.reports.front() {
            if shared.now < at {
                break;
            }
            self.reports.pop_front();
            let Some(stream) = self.table.get_mut(id) else {
                continue;
            };
            let receive = &mut stream.receive;
            receive.report_queued = false;
            if receive.unreported_bytes() > 0
                && !core::mem::replace(&mut receive.window_queued, true)
            {
                receive.report();
                shared.control.push_back(Control::StreamWindow(id));
            }
        }
        self.offer_room_in_line(shared);
        self.check();
    }

    /// When [`on_timeout`](Streams::on_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let reports = self.reports.front().map(|report| report.0);
        reports.into_iter().chain(self.waiters.next_timeout()).min()
    }

    /// The peer admits more of all streams together.
    pub fn on_bundle_window(&mut self, shared: &mut Shared) {
        self.waiters.see_all();
        self.offer_room_in_line(shared);
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
    fn wake(&mut self, id: u64, shared: &mut Shared) {
        if self.openings.must_wait(id) {
            return;
        }
        if let Some(stream) = self.table.get_mut(id)
            && stream.send.has_new()
        {
            shared
                .turns
                .wake(Source::Stream(id), &mut stream.send.state);
        }
    }

    /// Tells the peer that a direction of a stream was given up.
    fn tell(&self, id: u64, control: Control, shared: &mut Shared) {
        if !self.openings.must_wait(id) {
            shared.control.push_back(control);
        }
    }

    /// The peer knows that this end opened stream `id`: others may be opened now.
    fn on_opening_known(&mut self, id: u64, shared: &mut Shared) {
        for id in self.openings.on_known(id) {
            self.wake(id, shared);
            let Some(stream) = self.table.get(id) else {
                continue;
            };
            if stream.send.reset.is_some() {
                shared.control.push_back(Control::Reset(id));
            }
            if stream.receive.stop.is_some() {
                shared.control.push_back(Control::Stop(id));
            }
        }
    }

    /// Gives up sending on a stream and tells the peer.
    fn give_up_sending(&mut self, id: u64, code: u32, shared: &mut Shared) {
        let given_up = self.change(id, |stream| {
            stream.send.give_up(code, &mut shared.chunks);
            shared.turns.rest(&mut stream.send.state);
        });
        if given_up.is_some() {
            self.tell(id, Control::Reset(id), shared);
        }
        self.release_offer(id, shared);
    }

    /// Stream `id` needs no room for writing any more.
    fn release_offer(&mut self, id: u64, shared: &mut Shared) {
        if let Some(stream) = self.table.get_mut(id) {
            self.waiters.take_back(stream);
        }
        self.offer_room(id, shared);
    }

    /// Gives up receiving on a stream, and tells the peer unless it has said everything.
    fn give_up_receiving(&mut self, id: u64, code: u32, shared: &mut Shared) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let credit = stream.receive.on_stop(code, &mut shared.chunks);
        let is_done = stream.receive.is_done();
        self.count(id);
        if !is_done {
            self.tell(id, Control::Stop(id), shared);
        }
        shared.credit(credit);
    }

    /// A stream may have changed: keeps the sums.
    #[inline]
    fn count(&mut self, id: u64) {
        if let Some(stream) = self.table.get_mut(id) {
            self.sums.count(stream);
        }
    }

    /// Changes a stream and keeps the sums.
    fn change<R>(&mut self, id: u64, change: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let stream = self.table.get_mut(id)?;
        let result = change(stream);
        self.sums.count(stream);
        Some(result)
    }

    /// Forgets a stream that is over in both directions.
    fn forget_if_done(&mut self, id: u64, shared: &mut Shared) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        if !stream.send.is_done() || !stream.receive.is_done() {
            return;
        }
        shared.turns.rest(&mut stream.send.state);
        self.waiters.take_back(stream);
        self.sums.forget(stream);
        self.unheard -= u64::from(!stream.heard);
        self.table.remove(id);
        if self.openings.is_own(id) {
            self.own_count -= 1;
        } else {
            self.peer_count -= 1;
        }
        self.waiters.see_all();
    }

    /// Checks the sums against the streams, where that is quick.
    pub fn check(&self) {
        #[cfg(debug_assertions)]
        if self.table.len() <= CHECKED_MAX {
            debug_assert!(self.sums.are_right(self.table.iter()), "{self:?}");
            debug_assert_eq!(self.table.len(), self.own_count + self.peer_count);
            let unheard = self.table.iter().filter(|stream| !stream.heard).count();
            debug_assert_eq!(unheard as u64, self.unheard);
            let offered: u64 = self.table.iter().map(|s| s.send.offered_bytes).sum();
            debug_assert!(self.waiters.is_right(offered));
        }
    }

    /// Restarts: all streams end, and the application learns of it and gets their unread data.
    pub fn restart(&mut self, shared: &mut Shared) {
        let fresh = Streams::new(self.openings.are_even());
        let streams = core::mem::replace(self, fresh).table.into_streams();
        for stream in streams.filter(|stream| stream.known) {
            shared.broken(StreamId(stream.id), Rest::of(stream.receive));
        }
    }

    /// Bytes never sent.
    pub const fn queued_bytes(&self) -> usize {
        self.sums.all.queued as usize
    }

    /// Bytes of one stream never sent.
    pub fn queued_bytes_of(&self, id: StreamId) -> u64 {
        let stream = self.table.get(id.0);
        stream.map_or(0, |stream| stream.send.queued_bytes())
    }

    /// Bytes sent and not acknowledged.
    pub const fn in_flight_bytes(&self) -> usize {
        self.sums.all.in_flight as usize
    }

    /// Bytes lost and not sent again yet.
    pub const fn lost_bytes(&self) -> usize {
        self.sums.all.lost as usize
    }

    /// Bytes written and not known to have arrived.
    pub const fn kept_bytes(&self) -> usize {
        self.sums.all.kept as usize
    }

    /// Bytes within the peer's windows that are not known to have been read, except a few of each stream
    /// that it would not report.
    #[cfg(test)]
    pub const fn unread_there(&self) -> u64 {
        self.sums.all.unread_there
    }

    /// Whether the sums are zero.
    #[cfg(test)]
    pub fn sums_are_empty(&self) -> bool {
        self.sums.memory_bytes() == 0 && self.sums.all == Counts::default()
    }

    /// Streams whose FIN or RESET the peer has not acknowledged.
    pub const fn ends_owed(&self) -> u64 {
        self.sums.all.ends_owed
    }

    /// Streams not forgotten.
    pub const fn count_open(&self) -> usize {
        self.own_count + self.peer_count
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.waiters.trim();
        self.reports.shrink_to(2 * self.reports.len());
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + self.sums.memory_bytes()
            + self.waiters.memory_bytes()
            + self.reports.capacity() * size_of::<(Time, u64)>()
            + self.openings.memory_bytes()
            + (self.sums.all.sending_heap_bytes + self.sums.all.receiving_heap_bytes) as usize
    }
}
