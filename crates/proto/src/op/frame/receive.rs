//! Incoming frames: reassembled and put in order, with a bounded wait.

use std::collections::VecDeque;

use crate::Time;
use crate::limits::FRAME_BYTES_MAX;
use crate::op::Violation;
use crate::op::limits::{FRAME_SPAN_MAX, FRAME_WAIT};
use crate::op::shared::Shared;
use crate::op::unit::{Arrival, Partials};
use crate::wire::UnitSegment;

/// Flows there can be: a flow's number is one byte.
const FLOWS: u32 = 256;
/// No piece of this frame has come.
const NOTHING: u32 = u32::MAX;

/// One of the 256 flows.
#[derive(Debug, Default)]
struct Flow {
    /// The frame to be handed over next.
    next: u32,
    /// Slots of frame `next` and those behind it; [`NOTHING`] where no piece has come.
    ring: VecDeque<u32>,
    /// Complete frames that wait for earlier ones, and since when, in the order of
    /// completion. Delivered ones stay until they are at the front.
    waiting: VecDeque<(u32, Time)>,
    /// Whether it stands in the list of flows that wait.
    in_blocked: bool,
}

/// All frames from their first piece until they are handed over.
#[derive(Debug, Default)]
pub(in crate::op) struct FrameReceiver {
    /// As many as the highest flow used so far.
    flows: Vec<Flow>,
    partials: Partials,
    /// Whole and in order.
    ready: VecDeque<Vec<u8>>,
    /// Memory of `ready`.
    ready_bytes: usize,
    /// Flows with something waiting; some may not wait any more.
    blocked: Vec<u8>,
}

impl FrameReceiver {
    /// Handles a piece.
    ///
    /// # Errors
    /// [`Violation`]; nothing changed then.
    #[inline]
    pub fn on_piece(
        &mut self,
        now: Time,
        seg: &UnitSegment<'_>,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        check(seg)?;
        let index = seg.flow as usize;
        if self.flows.len() <= index {
            self.flows.resize_with(index + 1, Flow::default);
        }
        let mut ahead = seg.sequence.wrapping_sub(self.flows[index].next);
        if ahead > u32::MAX / 2 {
            shared.stats.frame_pieces_late += 1;
            return Ok(());
        }
        if ahead >= FRAME_SPAN_MAX {
            let end = seg.sequence.wrapping_sub(FRAME_SPAN_MAX - 1);
            self.skip_to(index, end, shared);
            ahead = seg.sequence.wrapping_sub(self.flows[index].next);
        }
        let slot = match self.flows[index].ring.get(ahead as usize) {
            Some(&slot) if slot != NOTHING => slot,
            _ => {
                if !self.make_room(seg.total as usize, shared) {
                    shared.stats.frames_dropped += 1;
                    return Ok(());
                }
                // Making room may have moved the flow on.
                ahead = seg.sequence.wrapping_sub(self.flows[index].next);
                if ahead > u32::MAX / 2 {
                    shared.stats.frame_pieces_late += 1;
                    return Ok(());
                }
                if ahead == 0 && seg.data.len() == seg.total as usize {
                    self.hand_over_whole(index, seg.data, shared);
                    return Ok(());
                }
                let slot = self.partials.insert(seg, &mut shared.pool);
                let ring = &mut self.flows[index].ring;
                while ring.len() <= ahead as usize {
                    ring.push_back(NOTHING);
                }
                ring[ahead as usize] = slot;
                slot
            }
        };
        match self.partials.on_piece(slot, seg)? {
            Arrival::Incomplete => {}
            Arrival::Duplicate => shared.stats.pieces_duplicate += 1,
            Arrival::Complete if ahead == 0 => self.deliver(index, shared),
            Arrival::Complete => self.wait(now, index, seg.sequence),
        }
        Ok(())
    }

    /// A frame that is one piece and next: no need to keep track of it.
    fn hand_over_whole(&mut self, index: usize, data: &[u8], shared: &mut Shared) {
        let mut frame = shared.pool.take(data.len());
        frame.extend_from_slice(data);
        self.ready_bytes += frame.capacity();
        self.ready.push_back(frame);
        shared.stats.frames_delivered += 1;
        let flow = &mut self.flows[index];
        flow.next = flow.next.wrapping_add(1);
        if flow.ring.pop_front().is_some() {
            self.deliver(index, shared);
        }
    }

    /// A whole frame waits for earlier ones.
    fn wait(&mut self, now: Time, index: usize, sequence: u32) {
        let flow = &mut self.flows[index];
        flow.waiting.push_back((sequence, now));
        if !flow.in_blocked {
            flow.in_blocked = true;
            self.blocked.push(index as u8);
        }
    }

    /// Hands over all frames that are whole and next.
    fn deliver(&mut self, index: usize, shared: &mut Shared) {
        let flow = &mut self.flows[index];
        while let Some(&slot) = flow.ring.front() {
            if slot == NOTHING || !self.partials.is_complete(slot) {
                break;
            }
            flow.ring.pop_front();
            flow.next = flow.next.wrapping_add(1);
            let frame = self.partials.remove(slot);
            self.ready_bytes += frame.capacity();
            self.ready.push_back(frame);
            shared.stats.frames_delivered += 1;
        }
        while let Some(&(sequence, _)) = flow.waiting.front() {
            if sequence.wrapping_sub(flow.next) <= u32::MAX / 2 {
                break;
            }
            flow.waiting.pop_front();
        }
    }

    /// Stops waiting for frames before `end`: delivers complete ones and continues from
    /// `end`.
    fn skip_to(&mut self, index: usize, end: u32, shared: &mut Shared) {
        let flow = &mut self.flows[index];
        while flow.next != end {
            let Some(slot) = flow.ring.pop_front() else {
                shared.stats.frames_skipped += u64::from(end.wrapping_sub(flow.next));
                flow.next = end;
                break;
            };
            flow.next = flow.next.wrapping_add(1);
            if slot == NOTHING {
                shared.stats.frames_skipped += 1;
                continue;
            }
            let whole = self.partials.is_complete(slot);
            let frame = self.partials.remove(slot);
            if whole {
                self.ready_bytes += frame.capacity();
                self.ready.push_back(frame);
                shared.stats.frames_delivered += 1;
            } else {
                shared.pool.give(frame);
                shared.stats.frames_skipped += 1;
            }
        }
        self.deliver(index, shared);
    }

    /// Memory that counts against the limit.
    pub const fn held_bytes(&self) -> usize {
        self.partials.held_bytes() + self.ready_bytes
    }

    /// Whether there is memory for another frame. From three quarters of the limit on, the
    /// oldest gap is given up for each frame that comes.
    fn make_room(&mut self, bytes: usize, shared: &mut Shared) -> bool {
        if self.held_bytes() + bytes > shared.limits.frame_reassembly_bytes / 4 * 3 {
            self.give_up_oldest(shared);
        }
        self.held_bytes() + bytes <= shared.limits.frame_reassembly_bytes
    }

    /// Gives up the frame whose first piece arrived first, and all before it in its flow.
    fn give_up_oldest(&mut self, shared: &mut Shared) {
        if let Some((flow, sequence)) = self.partials.oldest() {
            self.skip_to(flow as usize, sequence.wrapping_add(1), shared);
        }
    }

    /// Waits no more for frames that others of their flow have waited [`FRAME_WAIT`] for.
    pub fn on_timeout(&mut self, now: Time, shared: &mut Shared) {
        let mut i = 0;
        while i < self.blocked.len() {
            let index = usize::from(self.blocked[i]);
            while let Some(&(sequence, since)) = self.flows[index].waiting.front() {
                if now < since + FRAME_WAIT {
                    break;
                }
                self.skip_to(index, sequence, shared);
            }
            if self.flows[index].waiting.is_empty() {
                self.flows[index].in_blocked = false;
                self.blocked.swap_remove(i);
            } else {
                i += 1;
            }
        }
    }

    /// When [`on_timeout`](FrameReceiver::on_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Time> {
        let since = self
            .blocked
            .iter()
            .filter_map(|flow| self.flows[usize::from(*flow)].waiting.front())
            .map(|waiting| waiting.1)
            .min()?;
        Some(since + FRAME_WAIT)
    }

    /// The next frame in order, if any.
    #[inline]
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.ready.pop_front()?;
        self.ready_bytes -= frame.capacity();
        Some(frame)
    }

    /// Forgets everything undelivered except frames that are ready; all flows begin at 0.
    pub fn reset(&mut self, shared: &mut Shared) {
        for flow in &mut self.flows {
            for slot in flow.ring.drain(..) {
                if slot != NOTHING {
                    shared.pool.give(self.partials.remove(slot));
                    shared.stats.frames_skipped += 1;
                }
            }
        }
        self.flows.clear();
        self.blocked.clear();
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.ready.shrink_to(2 * self.ready.len());
        for flow in &mut self.flows {
            flow.ring.shrink_to(2 * flow.ring.len());
            flow.waiting.shrink_to(2 * flow.waiting.len());
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let rings: usize = self
            .flows
            .iter()
            .map(|f| {
                f.ring.capacity() * size_of::<u32>()
                    + f.waiting.capacity() * size_of::<(u32, Time)>()
            })
            .sum();
        self.partials.memory_bytes()
            + self.ready_bytes
            + self.ready.capacity() * size_of::<Vec<u8>>()
            + self.flows.capacity() * size_of::<Flow>()
            + rings
    }
}

/// Whether the piece can be one of a frame.
fn check(seg: &UnitSegment<'_>) -> Result<(), Violation> {
    if seg.flow >= FLOWS {
        return Err(Violation::TooManyFlows);
    }
    let end = seg.offset as usize + seg.data.len();
    if seg.data.is_empty() || seg.total as usize > FRAME_BYTES_MAX || end > seg.total as usize {
        return Err(Violation::UnitLength);
    }
    Ok(())
}
