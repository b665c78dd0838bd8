//! What a bundle carries: byte streams, messages and frames, cut into segments
//! and rejoined.
//!
//! One [`Ops`] per bundle. It knows no packets and no paths: the bundle asks it
//! to [write segments](Ops::write_segment) into packets, tells it the
//! [fate](Ops::on_fate) of what they carried, and hands it the records that came
//! from the peer. Ordering belongs to what is carried: a stream is ordered by
//! offset, messages per flow, frames per flow with a bounded wait.
//!
//! The model of streams is RFC 9000, sections 2 to 4.

mod api;
mod codec;
mod frame;
mod interim;
mod limits;
mod queue;
mod sending;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::VecDeque;

pub use api::{Message, OpError, OpEvent, OpStats, Pending, Policy, Read, Violation};
pub use limits::*;

use crate::Time;
use crate::limits::FRAME_BYTES_MAX;
use crate::segment::{LARGE_BUFFER_BYTES, Pool};
use crate::wire::{UnitClass, UnitSegment};
use frame::{FrameReceiver, FrameSender};
use queue::Turns;
use sending::Lost;

/// Everything that is carried between this end and one peer.
#[derive(Debug)]
pub struct Ops {
    limits: OpLimits,
    /// Buffers for frames and messages.
    pool: Pool,
    /// Who sends new content next.
    turns: Turns,
    /// What has lost content to be carried again, in the order of losing.
    lost: VecDeque<Lost>,
    frames_out: FrameSender,
    frames_in: FrameReceiver,
    events: VecDeque<OpEvent>,
    stats: OpStats,
}

impl Ops {
    /// The state of a new bundle. Of the two ends exactly one has
    /// `opens_even_streams`.
    pub fn new(_opens_even_streams: bool, limits: &OpLimits) -> Ops {
        Ops {
            limits: limits.clone(),
            pool: Pool::new(limits.pool_bytes),
            turns: Turns::default(),
            lost: VecDeque::new(),
            frames_out: FrameSender::default(),
            frames_in: FrameReceiver::default(),
            events: VecDeque::new(),
            stats: OpStats::default(),
        }
    }

    /// An empty buffer for a frame, with room for a full TSO packet or more:
    /// reserve what is needed, the capacity is kept when it comes back.
    pub fn frame_buffer(&mut self) -> Vec<u8> {
        self.pool.take(LARGE_BUFFER_BYTES)
    }

    /// As [`frame_buffer`](Ops::frame_buffer), but `None` rather than allocating.
    pub fn spare_buffer(&mut self) -> Option<Vec<u8>> {
        self.pool.take_spare()
    }

    /// Takes back the buffer of a received frame or message.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.pool.give(buffer);
    }

    /// Whether [`send_frame`](Ops::send_frame) would accept a frame of `bytes`.
    pub fn has_frame_room(&self, bytes: usize) -> bool {
        self.frames_out.has_room(bytes, &self.limits)
    }

    /// Sends a frame in one of 256 flows. Frames of a flow arrive in order;
    /// one that cannot arrive in time does not arrive.
    ///
    /// A frame that cannot be one (empty, or longer than [`FRAME_BYTES_MAX`])
    /// is dropped and counted in [`OpStats::frames_dropped`].
    ///
    /// # Errors
    /// The queue is full: the frame is given back; stop reading frames until
    /// [`has_frame_room`](Ops::has_frame_room).
    pub fn send_frame(&mut self, now: Time, flow: u8, frame: Vec<u8>) -> Result<(), Vec<u8>> {
        if frame.is_empty() || frame.len() > FRAME_BYTES_MAX {
            self.stats.frames_dropped += 1;
            self.pool.give(frame);
            return Ok(());
        }
        if !self.frames_out.has_room(frame.len(), &self.limits) {
            self.frames_out.expire(now, &mut self.pool, &mut self.stats);
            if !self.frames_out.has_room(frame.len(), &self.limits) {
                return Err(frame);
            }
        }
        self.frames_out
            .push(flow, frame, &mut self.turns, &mut self.pool);
        Ok(())
    }

    /// The next frame from the peer, in order. Give it to
    /// [`recycle`](Ops::recycle) when done with.
    pub fn receive_frame(&mut self) -> Option<Vec<u8>> {
        self.frames_in.pop()
    }

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<OpEvent> {
        self.events.pop_front()
    }

    /// A piece of a frame or message came.
    ///
    /// # Errors
    /// [`Violation`]; nothing changed then.
    pub fn on_unit(&mut self, now: Time, seg: &UnitSegment<'_>) -> Result<(), Violation> {
        match seg.class {
            UnitClass::Frame => {
                self.frames_in
                    .on_piece(now, seg, &self.limits, &mut self.pool, &mut self.stats)
            }
            UnitClass::Message => Err(Violation::BadMessage),
        }
    }

    /// When [`on_timeout`](Ops::on_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let out = self.frames_out.next_timeout();
        let wait = self.frames_in.next_timeout();
        out.into_iter().chain(wait).min()
    }

    /// Gives up what is too late by now. New frames may be ready then.
    pub fn on_timeout(&mut self, now: Time) {
        self.frames_out.expire(now, &mut self.pool, &mut self.stats);
        self.frames_in
            .on_timeout(now, &mut self.pool, &mut self.stats);
    }

    /// The peer lost its state and starts afresh: so does this end. Frames of
    /// which nothing was sent yet are kept; those received in order can still be fetched.
    pub fn reset(&mut self) {
        let unsent = self.frames_out.drain(&mut self.pool, &mut self.stats);
        self.turns.clear();
        self.lost.clear();
        self.frames_in.reset(&mut self.pool, &mut self.stats);
        for (flow, frame) in unsent {
            self.frames_out
                .push(flow, frame, &mut self.turns, &mut self.pool);
        }
    }

    /// Frees buffers kept for use again: for a bundle that has become idle.
    pub fn trim(&mut self) {
        self.pool.trim();
    }

    /// Memory held for this bundle, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Ops>()
            + self.pool.memory_bytes()
            + self.turns.memory_bytes()
            + self.lost.capacity() * size_of::<Lost>()
            + self.events.capacity() * size_of::<OpEvent>()
            + self.frames_out.memory_bytes()
            + self.frames_in.memory_bytes()
    }

    /// Counters.
    pub fn stats(&self) -> OpStats {
        OpStats {
            in_flight_bytes: self.in_flight_bytes() as u64,
            ..self.stats
        }
    }
}
