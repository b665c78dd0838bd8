//! Frames on their way out.

use std::collections::VecDeque;

use crate::Time;
use crate::op::Policy;
use crate::op::limits::{FRAME_LIFETIME, OpLimits};
use crate::op::queue::{Source, Turn, Written};
use crate::op::shared::Shared;
use crate::op::unit::Units;
use crate::segment::{LARGE_BUFFER_BYTES, SMALL_BUFFER_BYTES};
use crate::wire::{UnitClass, Writer};

/// One of the 256 flows.
#[derive(Debug, Default)]
struct Flow {
    /// Slots of frames not yet sent completely, in order.
    queue: VecDeque<u32>,
    next_sequence: u32,
    turn: Turn,
}

/// All frames from acceptance until they are acknowledged or too old.
#[derive(Debug, Default)]
pub(in crate::op) struct FrameSender {
    pub units: Units,
    /// As many as the highest flow used so far.
    flows: Vec<Flow>,
    /// Bytes never sent.
    queued_bytes: usize,
    /// Frames sent completely once, oldest first, with their generation and when that was.
    /// Acknowledged ones stay until they are at the front.
    sent: VecDeque<(u32, u32, Time)>,
}

impl FrameSender {
    /// Whether a frame of `bytes` would be accepted.
    pub fn has_room(&self, bytes: usize, limits: &OpLimits) -> bool {
        let queue_room = self.queued_bytes == 0
            || self.queued_bytes.saturating_add(bytes) <= limits.frame_queue_bytes;
        let memory_room = self.units.held_bytes() == 0
            || self.units.held_bytes().saturating_add(bytes) <= limits.frame_held_bytes;
        queue_room && memory_room
    }

    /// Queues a frame. A short frame in a large buffer moves to a small one, so
    /// that what is held is about what is counted.
    pub fn push(&mut self, flow: u8, frame: Vec<u8>, shared: &mut Shared) {
        let frame =
            if frame.len() <= SMALL_BUFFER_BYTES && frame.capacity() >= LARGE_BUFFER_BYTES / 2 {
                let mut small = shared.pool.take(frame.len());
                small.extend_from_slice(&frame);
                shared.pool.give(frame);
                small
            } else {
                frame
            };
        self.queued_bytes += frame.len();
        let index = usize::from(flow);
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, Flow::default);
        }
        let to = &mut self.flows[index];
        let sequence = to.next_sequence;
        to.next_sequence = sequence.wrapping_add(1);
        let slot = self.units.insert(
            UnitClass::Frame,
            Policy::Auto,
            u32::from(flow),
            sequence,
            frame,
        );
        to.queue.push_back(slot);
        shared.turns.wake(Source::Frames(flow), &mut to.turn);
    }

    /// The turn of `flow`.
    pub fn turn(&mut self, flow: u8) -> &mut Turn {
        &mut self.flows[usize::from(flow)].turn
    }

    /// Writes the next new piece of `flow`.
    #[inline]
    pub fn write_next(
        &mut self,
        now: Time,
        flow: u8,
        shared: &mut Shared,
        w: &mut Writer<'_>,
    ) -> Written {
        let from = &mut self.flows[usize::from(flow)];
        let Some(&slot) = from.queue.front() else {
            return Written::Nothing;
        };
        let Some((content, len, last)) = self.units.write_next(slot, w) else {
            return Written::NoRoom;
        };
        self.queued_bytes -= len as usize;
        shared.turns.spend(len as usize, last);
        if last {
            shared.stats.frames_sent += 1;
            from.queue.pop_front();
            if from.queue.is_empty() {
                shared.turns.rest(&mut from.turn);
            }
            let generation = self.units.generation(slot);
            self.sent.push_back((slot, generation, now));
        }
        Written::Content(content)
    }

    /// A piece arrived.
    #[inline]
    pub fn on_acked(
        &mut self,
        slot: u32,
        generation: u32,
        offset: u32,
        len: u32,
        shared: &mut Shared,
    ) {
        if self.units.on_acked(slot, generation, offset, len) {
            shared.pool.give(self.units.remove(slot));
            self.forget_done();
        }
    }

    /// Takes frames that are done off the front of those sent.
    fn forget_done(&mut self) {
        while let Some(&(slot, generation, _)) = self.sent.front() {
            if self.units.find(slot, generation).is_some() {
                break;
            }
            self.sent.pop_front();
        }
    }

    /// Gives up frames that are too old.
    pub fn expire(&mut self, now: Time, shared: &mut Shared) {
        while let Some(&(slot, generation, sent)) = self.sent.front() {
            if self.units.find(slot, generation).is_some() {
                if now < sent + FRAME_LIFETIME {
                    break;
                }
                shared.pool.give(self.units.remove(slot));
                shared.stats.frames_given_up += 1;
            }
            self.sent.pop_front();
        }
    }

    /// When [`expire`](FrameSender::expire) has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        self.sent.front().map(|s| s.2 + FRAME_LIFETIME)
    }

    /// Bytes never sent.
    pub const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Starts afresh: all flows begin at 0. Takes out the frames of which nothing was
    /// sent yet, with their flows and in order, and counts the others. Slots keep their
    /// generations, so that the fate of what was sent before means nothing.
    pub fn drain(&mut self, shared: &mut Shared) -> Vec<(u8, Vec<u8>)> {
        let mut unsent = Vec::new();
        for flow in &mut self.flows {
            for slot in flow.queue.drain(..) {
                let unit = self.units.get(slot);
                let (untouched, number) = (unit.is_unsent(), unit.flow as u8);
                let data = self.units.remove(slot);
                if untouched {
                    unsent.push((number, data));
                } else {
                    shared.stats.frames_given_up += 1;
                    shared.pool.give(data);
                }
            }
        }
        while let Some((slot, generation, _)) = self.sent.pop_front() {
            if self.units.find(slot, generation).is_some() {
                shared.stats.frames_given_up += 1;
                shared.pool.give(self.units.remove(slot));
            }
        }
        self.flows.clear();
        self.queued_bytes = 0;
        unsent
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let queues: usize = self.flows.iter().map(|f| f.queue.capacity()).sum();
        self.units.memory_bytes()
            + self.flows.capacity() * size_of::<Flow>()
            + queues * size_of::<u32>()
            + self.sent.capacity() * size_of::<(u32, u32, Time)>()
    }
}
