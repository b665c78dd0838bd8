//! Handling of the peer's records.

use std::collections::VecDeque;

use super::queue::Source;
use super::{Ops, Reach, Violation};
use crate::Time;
use crate::wire::{MemoryRecord, StreamSegment, UnitClass, UnitSegment};

impl Ops {
    /// A piece of a frame or message came.
    ///
    /// # Errors
    /// [`Violation`].
    #[inline]
    pub fn on_unit(&mut self, now: Time, seg: &UnitSegment<'_>) -> Result<(), Violation> {
        match seg.class {
            UnitClass::Frame => self.frames_in.on_piece(now, seg, &mut self.shared),
            UnitClass::Message => self.messages_in.on_piece(seg, &mut self.shared),
        }
    }

    /// The peer says something of a memory operation.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_memory(
        &mut self,
        record: &MemoryRecord<'_>,
        reach: &mut Reach,
    ) -> Result<(), Violation> {
        let memory = self.memory.get_or_insert_default();
        memory.on_record(record, reach, &mut self.shared)
    }

    /// A piece of a stream came.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_stream(&mut self, now: Time, seg: &StreamSegment<'_>) -> Result<(), Violation> {
        self.set_time(now);
        self.streams.on_segment(seg, &mut self.shared)
    }

    /// The peer gave up sending on a stream.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_stream_reset(
        &mut self,
        _now: Time,
        id: u64,
        code: u32,
        final_offset: u64,
    ) -> Result<(), Violation> {
        self.streams
            .on_reset(id, code, final_offset, &mut self.shared)
    }

    /// The peer wants no more of a stream.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_stream_stop(&mut self, _now: Time, id: u64, code: u32) -> Result<(), Violation> {
        self.streams.on_stop(id, code, &mut self.shared)
    }

    /// The peer admits bytes of a stream up to `limit`, which is `window` ahead of what it has read.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_stream_window(
        &mut self,
        now: Time,
        id: u64,
        limit: u64,
        window: u64,
    ) -> Result<(), Violation> {
        self.set_time(now);
        self.streams
            .on_window(now, id, limit, window, &mut self.shared)
    }

    /// The peer admits bytes of all streams together up to `limit`, which is `window` ahead of what it has
    /// read.
    pub fn on_bundle_window(&mut self, limit: u64, window: u64) {
        if self.shared.send_window.on_limit(limit, window) {
            let waiting = core::mem::take(&mut self.shared.send_window.waiting);
            self.resume(waiting);
            self.streams.on_bundle_window(&mut self.shared);
        }
    }

    /// The peer admits messages of a total cost up to `limit`, which is `window` ahead of what it has
    /// fetched.
    pub fn on_message_window(&mut self, limit: u64, window: u64) {
        if self.shared.message_send_window.on_limit(limit, window) {
            let waiting = core::mem::take(&mut self.shared.message_send_window.waiting);
            self.resume(waiting);
        }
    }

    /// Each to the front, the last first: the first that asked is the first to go on.
    fn resume(&mut self, waiting: VecDeque<Source>) {
        for source in waiting.into_iter().rev() {
            self.with_state(source, |turns, state| turns.resume(source, state));
        }
    }
}
