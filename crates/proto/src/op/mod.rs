//! What a bundle carries: byte streams, messages and frames, cut into segments
//! and rejoined, and bytes between the memories of both ends.
//!
//! One [`Ops`] per bundle. It knows no packets and no paths: the bundle calls it to [write
//! segments](Ops::write_segment) into packets, reports the [fate](Ops::on_fate) of their content, and
//! hands it the peer's records. Ordering belongs to the content: a stream is ordered by offset,
//! messages per flow, frames per flow with a bounded wait.
//!
//! The model of streams is RFC 9000, sections 2 to 4.

mod api;
mod frame;
mod limits;
mod memory;
mod message;
mod operations;
mod queue;
mod records;
mod sending;
mod shared;
mod stream;
#[cfg(test)]
mod tests;
mod unit;
mod window;

pub(crate) use queue::Outlet;

pub use api::{Message, OpError, OpEvent, OpStats, Policy, Read, Violation};
pub use limits::*;
pub use memory::{Get, Memory, Put, REGIONS_MAX, Reach, Region, Regions};
pub use stream::Rest;

use crate::Time;
use frame::{FrameReceiver, FrameSender};
use memory::MemoryOperations;
use message::{MessageReceiver, MessageSender};
use shared::Shared;
use stream::Streams;

/// Everything that is carried between this end and one peer.
#[derive(Debug)]
pub struct Ops {
    shared: Shared,
    frames_out: FrameSender,
    frames_in: FrameReceiver,
    messages_out: MessageSender,
    messages_in: MessageReceiver,
    streams: Streams,
    /// None before the first memory operation: most bundles have none.
    memory: Option<Box<MemoryOperations>>,
}

impl Ops {
    /// The state of a new bundle. Of the two ends exactly one has
    /// `opens_even_streams`.
    pub fn new(opens_even_streams: bool, limits: &OpLimits) -> Ops {
        Ops {
            shared: Shared::new(limits),
            frames_out: FrameSender::default(),
            frames_in: FrameReceiver::default(),
            messages_out: MessageSender::default(),
            messages_in: MessageReceiver::default(),
            streams: Streams::new(opens_even_streams),
            memory: None,
        }
    }

    /// The next thing the application should know.
    pub fn poll_event(&mut self) -> Option<OpEvent> {
        self.shared.poll_event()
    }

    /// Unread data of the stream that the last event reported as [broken](OpEvent::Broken).
    pub fn take_rest(&mut self) -> Option<Rest> {
        self.shared.rest.take()
    }

    /// How many events there are.
    pub fn waiting_events(&self) -> usize {
        self.shared.events.len()
    }

    /// Sets the time for operations that have no `now` argument.
    pub fn set_time(&mut self, now: Time) {
        self.shared.now = self.shared.now.max(now);
    }

    /// When [`on_timeout`](Ops::on_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let too_old = self.frames_out.next_timeout();
        let waited = self.frames_in.next_timeout();
        let streams = self.streams.next_timeout();
        [too_old, waited, streams].into_iter().flatten().min()
    }

    /// Gives up what is too late by now. New frames may be ready then.
    pub fn on_timeout(&mut self, now: Time) {
        self.frames_out.expire(now, &mut self.shared);
        self.frames_in.on_timeout(now, &mut self.shared);
        self.set_time(now);
        self.streams.on_timeout(&mut self.shared);
    }

    /// Its use of the memory that the node's bundles share.
    pub fn holdings(&self) -> Holdings {
        let shared = &self.shared;
        let unread = shared.receive_window.unread() + shared.message_window.unread();
        let kept = self.streams.kept_bytes()
            + self.messages_out.kept_bytes()
            + self.frames_out.units.held_bytes();
        let spare = shared.pool.memory_bytes() + shared.chunks.memory_bytes();
        let rejoined = self.frames_in.held_bytes();
        Holdings([unread, kept as u64, rejoined as u64, spare as u64])
    }

    /// Sets how much of that memory it may hold, within its own limits.
    ///
    /// The peer's limit of unread bytes in all streams together stays at least
    /// [`BUNDLE_WINDOW_BYTES_INITIAL`]; for messages it is a quarter of the share, or the smaller of the
    /// share and [`MESSAGE_WINDOW_BYTES`] if that is more. Earlier grants stay valid.
    pub fn set_share(&mut self, share: &Holdings) {
        self.shared.set_share(share);
    }

    /// The peer lost its state and restarts, so this end does. Streams end with [`OpEvent::Broken`];
    /// messages under way are lost ([`OpEvent::MessagesBroken`]); unsent frames are kept. Frames and
    /// messages received in order can still be fetched.
    ///
    /// Do not report fates of earlier content afterwards: stream ids are used again.
    pub fn reset(&mut self) {
        self.break_memory();
        let unsent = self.frames_out.drain(&mut self.shared);
        self.shared.reset();
        self.messages_out.reset(&mut self.shared);
        self.messages_in.reset(&mut self.shared);
        self.frames_in.reset(&mut self.shared);
        self.streams.restart(&mut self.shared);
        for (since, flow, policy, frame) in unsent {
            self.frames_out
                .push(since, (flow, policy), frame, &mut self.shared);
        }
    }

    /// Frees buffers kept for use again, and room that a burst took: for a bundle that has become idle.
    pub fn trim(&mut self) {
        self.shared.pool.trim();
        self.shared.chunks.trim();
        self.shared.trim();
        self.streams.trim();
        if let Some(memory) = &mut self.memory {
            memory.trim();
        }
        self.messages_in.trim();
        self.messages_out.trim();
        self.frames_in.trim();
        self.frames_out.trim();
    }

    /// Memory held for this bundle, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Ops>()
            + self.shared.memory_bytes()
            + self.frames_out.memory_bytes()
            + self.frames_in.memory_bytes()
            + self.messages_out.memory_bytes()
            + self.messages_in.memory_bytes()
            + self.streams.memory_bytes()
            + self
                .memory
                .as_ref()
                .map_or(0, |memory| memory.memory_bytes())
    }

    /// Counters, and current state.
    pub fn stats(&self) -> OpStats {
        OpStats {
            streams_open: self.streams.count_open() as u64,
            ends_owed: self.streams.ends_owed(),
            in_flight_bytes: self.in_flight_bytes() as u64,
            ..self.shared.stats
        }
    }
}
