//! Outgoing frames.
//!
//! A standing queue accepts everything: a flow that sends much delays no flow that sends little, if
//! the frames of both queue here and not somewhere before. The excess is dropped from the front of the
//! flow that causes it (RFC 8290 section 4.1.3).

use std::collections::VecDeque;

use crate::Time;
use crate::op::Policy;
use crate::op::limits::{FRAME_LIFETIME, OpLimits};
use crate::op::queue::{Source, SourceState, Written};
use crate::op::shared::Shared;
use crate::op::unit::Units;
use crate::segment::{LARGE_BUFFER_BYTES, SMALL_BUFFER_BYTES};
use crate::wire::{UnitClass, Writer};

use super::sojourn::Sojourn;

/// A frame not yet sent completely.
#[derive(Debug)]
struct Waiting {
    slot: u32,
    since: Time,
}

/// One of the 256 flows.
#[derive(Debug, Default)]
struct Flow {
    /// In order.
    queue: VecDeque<Waiting>,
    /// Bytes never sent.
    queued_bytes: usize,
    /// Of the next frame to be begun.
    next_sequence: u32,
    state: SourceState,
    sojourn: Sojourn,
}

/// All frames from acceptance until they are acknowledged or too old.
#[derive(Debug, Default)]
pub(in crate::op) struct FrameSender {
    pub units: Units,
    /// As many as the highest flow used so far.
    flows: Vec<Flow>,
    /// Bytes never sent.
    queued_bytes: usize,
    /// Number of flows with a standing queue.
    standing: usize,
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

    /// Whether the frames of a flow have all been late for a while: those before them, and
    /// not a burst, are more than is sent.
    pub const fn stands(&self) -> bool {
        self.standing > 0
    }

    /// Makes room for a frame of `bytes` in a queue that stands, if it or the memory is full: frames
    /// of the flow that holds most are dropped.
    pub fn crowd_out(&mut self, bytes: usize, shared: &mut Shared) {
        while self.stands() && !self.has_room(bytes, &shared.limits) {
            let flows = 0..self.flows.len();
            let most = flows.max_by_key(|index| self.flows[*index].queued_bytes);
            if !most.is_some_and(|index| self.drop_oldest(index, shared)) {
                break;
            }
            shared.stats.frames_crowded_out += 1;
        }
    }

    /// Queues a frame. A short frame in a large buffer moves to a small one, so that memory use is
    /// about what is counted. When much waits, every frame moves to a fitting buffer, because a device
    /// reads each into a buffer for the longest.
    pub fn push(
        &mut self,
        now: Time,
        (flow, policy): (u8, Policy),
        frame: Vec<u8>,
        shared: &mut Shared,
    ) {
        let is_short = frame.len() <= SMALL_BUFFER_BYTES;
        let is_large = frame.capacity() >= LARGE_BUFFER_BYTES / 2;
        let is_scarce = self.units.held_bytes() > shared.limits.frame_held_bytes / 2;
        let is_scarce = is_scarce || self.stands();
        let frame = if is_large && is_short {
            let mut small = shared.pool.take(frame.len());
            small.extend_from_slice(&frame);
            shared.pool.give(frame);
            small
        } else if is_large && is_scarce && frame.len() < frame.capacity() / 2 {
            let fitting = frame.as_slice().to_vec();
            shared.pool.give(frame);
            fitting
        } else {
            frame
        };
        let bytes = frame.len();
        self.queued_bytes += bytes;
        let index = usize::from(flow);
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, Flow::default);
        }
        let to = &mut self.flows[index];
        // It is numbered when it is begun: until then it may be dropped without a gap.
        let (class, flow_number) = (UnitClass::Frame, u32::from(flow));
        let slot = self.units.insert(class, policy, flow_number, 0, frame);
        if to.queue.is_empty() {
            // Otherwise those before it go where they were meant to, and it behind them.
            (shared.turns).set_policy(Source::Frames(flow), &mut to.state, policy);
        }
        to.queue.push_back(Waiting { slot, since: now });
        to.queued_bytes += bytes;
        shared.turns.wake(Source::Frames(flow), &mut to.state);
    }

    /// Drops the oldest unsent frame of a flow. Returns whether there was one.
    fn drop_oldest(&mut self, index: usize, shared: &mut Shared) -> bool {
        let from = &mut self.flows[index];
        let unsent = |w: &Waiting| self.units.get(w.slot).is_unsent();
        // One at most was begun, and is in front.
        let Some(place) = from.queue.iter().take(2).position(unsent) else {
            return false;
        };
        let Some(waiting) = from.queue.remove(place) else {
            return false;
        };
        let data = self.units.remove(waiting.slot);
        from.queued_bytes -= data.len();
        self.queued_bytes -= data.len();
        shared.pool.give(data);
        self.rest_if_empty(index, shared);
        true
    }

    /// A frame left a flow's queue: perhaps it was the last.
    fn rest_if_empty(&mut self, index: usize, shared: &mut Shared) {
        let from = &mut self.flows[index];
        if from.queue.is_empty() {
            shared.turns.rest(&mut from.state);
            self.standing -= usize::from(from.sojourn.stands());
            from.sojourn.on_empty();
            shared.turns.set_short(self.stands());
        }
    }

    /// The turn state of `flow`.
    pub fn state(&mut self, flow: u8) -> &mut SourceState {
        &mut self.flows[usize::from(flow)].state
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
        let index = usize::from(flow);
        let Some(slot) = self.front(now, index, shared) else {
            return Written::Nothing;
        };
        let begins = self.units.get(slot).is_unsent();
        let Some((content, len, last)) = self.units.write_next(slot, w) else {
            return Written::NoRoom;
        };
        let from = &mut self.flows[index];
        from.next_sequence = from.next_sequence.wrapping_add(u32::from(begins));
        from.queued_bytes -= len as usize;
        self.queued_bytes -= len as usize;
        shared.turns.spend(len as usize, last);
        if last {
            shared.stats.frames_sent += 1;
            from.queue.pop_front();
            self.rest_if_empty(index, shared);
            let generation = self.units.generation(slot);
            self.sent.push_back((slot, generation, now));
        }
        Written::Content(content)
    }

    /// The next frame of the flow whose turn it is: one that is partly sent, or else the oldest that
    /// is not overdue.
    #[inline]
    fn front(&mut self, now: Time, index: usize, shared: &mut Shared) -> Option<u32> {
        loop {
            let from = &mut self.flows[index];
            let &Waiting { slot, since } = from.queue.front()?;
            if !self.units.get(slot).is_unsent() {
                return Some(slot);
            }
            let stood = from.sojourn.stands();
            let is_overdue = from.sojourn.on_turn(now, since, from.queue.len() - 1);
            self.standing += usize::from(from.sojourn.stands());
            self.standing -= usize::from(stood);
            shared.turns.set_short(self.standing > 0);
            if !is_overdue {
                self.units.number(slot, from.next_sequence);
                return Some(slot);
            }
            self.drop_oldest(index, shared);
            shared.stats.frames_overdue += 1;
        }
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

    /// Restarts: all flows begin at 0. Returns the unsent frames in order, with their queueing times,
    /// flows and policies, and counts the others as given up. Slots keep their generations, so that fates of
    /// earlier content are ignored.
    pub fn drain(&mut self, shared: &mut Shared) -> Vec<(Time, u8, Policy, Vec<u8>)> {
        let mut unsent = Vec::new();
        for flow in &mut self.flows {
            for Waiting { slot, since } in flow.queue.drain(..) {
                let unit = self.units.get(slot);
                let (untouched, number, policy) = (unit.is_unsent(), unit.flow as u8, unit.policy);
                let data = self.units.remove(slot);
                if untouched {
                    unsent.push((since, number, policy, data));
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
        self.standing = 0;
        unsent
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.units.trim();
        self.sent.shrink_to(2 * self.sent.len());
        for flow in &mut self.flows {
            flow.queue.shrink_to(2 * flow.queue.len());
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let queues: usize = self.flows.iter().map(|f| f.queue.capacity()).sum();
        self.units.memory_bytes()
            + self.flows.capacity() * size_of::<Flow>()
            + queues * size_of::<Waiting>()
            + self.sent.capacity() * size_of::<(u32, u32, Time)>()
    }
}
