//! Incoming messages: reassembled and put in order.

use std::collections::{BTreeMap, VecDeque};

use super::{TAGGED, UNTAGGED, charge_bytes};
use crate::op::limits::{MESSAGE_FLOWS_MAX, MESSAGE_OVERHEAD_BYTES};
use crate::op::shared::Shared;
use crate::op::unit::{Arrival, Partials};
use crate::op::{Message, OpEvent, Violation};
use crate::wire::UnitSegment;

/// No piece of this message has come.
const NOTHING: u32 = u32::MAX;

/// Room in a flow's ring that is kept when the ring is empty.
const RING_KEPT: usize = 64;

/// A message flow.
#[derive(Debug, Default)]
struct Flow {
    /// The message to be handed over next.
    next: u32,
    /// Slots of message `next` and those behind it; [`NOTHING`] where no piece has come.
    ring: VecDeque<u32>,
}

/// All messages from their first piece until they are handed over.
#[derive(Debug, Default)]
pub(in crate::op) struct MessageReceiver {
    flows: Vec<Flow>,
    /// Index of a flow in `flows`.
    by_flow: BTreeMap<u32, u32>,
    /// The flow used last, and where it stands: the common case.
    last: Option<(u32, u32)>,
    /// Lengths of all rings.
    span: usize,
    /// Room in all rings.
    rings: usize,
    partials: Partials,
    /// Complete and in order, each with its cost of the bundle's window.
    ready: VecDeque<(Message, u64)>,
    /// Memory of `ready`.
    ready_bytes: usize,
    /// Whether the application knows that there is something.
    announced: bool,
}

impl MessageReceiver {
    /// A piece came.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_piece(
        &mut self,
        seg: &UnitSegment<'_>,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let end = seg.offset as usize + seg.data.len();
        if seg.data.is_empty()
            || seg.total as usize > seg.class.total_max()
            || end > seg.total as usize
        {
            return Err(Violation::UnitLength);
        }
        let index = self.index(seg.flow)?;
        let flow = &mut self.flows[index];
        let ahead = seg.sequence.wrapping_sub(flow.next);
        if ahead > u32::MAX / 2 {
            shared.stats.pieces_duplicate += 1;
            return Ok(());
        }
        // Each message of a ring, from `next` to the last one with a piece, is charged and not
        // consumed yet.
        let longer = (ahead as usize + 1).saturating_sub(flow.ring.len());
        let paid = shared.message_window.open_bytes() / MESSAGE_OVERHEAD_BYTES;
        if longer > 0 && (self.span + longer) as u64 > paid {
            return Err(Violation::BeyondBundleWindow);
        }
        let slot = match flow.ring.get(ahead as usize) {
            Some(&slot) if slot != NOTHING => slot,
            _ => {
                shared.message_window.charge(charge_bytes(seg.total))?;
                let slot = self.partials.insert(seg, &mut shared.pool);
                self.span += longer;
                self.rings -= flow.ring.capacity();
                while flow.ring.len() <= ahead as usize {
                    flow.ring.push_back(NOTHING);
                }
                self.rings += flow.ring.capacity();
                flow.ring[ahead as usize] = slot;
                slot
            }
        };
        match self.partials.on_piece(slot, seg)? {
            Arrival::Incomplete => {}
            Arrival::Duplicate => shared.stats.pieces_duplicate += 1,
            Arrival::Complete if ahead == 0 => self.deliver(index, shared)?,
            Arrival::Complete => {}
        }
        Ok(())
    }

    /// Index of `flow`; adds a new one.
    fn index(&mut self, flow: u32) -> Result<usize, Violation> {
        if let Some((_, index)) = self.last.filter(|l| l.0 == flow) {
            return Ok(index as usize);
        }
        let index = match self.by_flow.get(&flow) {
            Some(index) => *index,
            None if self.flows.len() >= MESSAGE_FLOWS_MAX => return Err(Violation::TooManyFlows),
            None => {
                let index = self.flows.len() as u32;
                self.flows.push(Flow::default());
                self.by_flow.insert(flow, index);
                index
            }
        };
        self.last = Some((flow, index));
        Ok(index as usize)
    }

    /// Hands over all messages that are whole and next.
    fn deliver(&mut self, index: usize, shared: &mut Shared) -> Result<(), Violation> {
        let flow_number = self.last.map_or(0, |l| l.0);
        let flow = &mut self.flows[index];
        while let Some(&slot) = flow.ring.front() {
            if slot == NOTHING || !self.partials.is_complete(slot) {
                break;
            }
            flow.ring.pop_front();
            self.span -= 1;
            flow.next = flow.next.wrapping_add(1);
            let mut data = self.partials.remove(slot);
            let worth = charge_bytes(data.len() as u32);
            let Some(tag) = split_trailer(&mut data) else {
                shared.pool.give(data);
                shared.credit_messages(worth);
                return Err(Violation::BadMessage);
            };
            self.ready_bytes += data.capacity();
            let message = Message {
                flow: flow_number,
                tag,
                data,
            };
            self.ready.push_back((message, worth));
        }
        if flow.ring.is_empty() {
            self.rings -= flow.ring.capacity();
            flow.ring.shrink_to(RING_KEPT);
            self.rings += flow.ring.capacity();
        }
        if !self.announced && !self.ready.is_empty() {
            self.announced = true;
            shared.events.push_back(OpEvent::MessageReady);
        }
        Ok(())
    }

    /// The next message, if any.
    pub fn pop(&mut self, shared: &mut Shared) -> Option<Message> {
        let Some((message, worth)) = self.ready.pop_front() else {
            self.announced = false;
            return None;
        };
        self.ready_bytes -= message.data.capacity();
        shared.stats.messages_delivered += 1;
        shared.credit_messages(worth);
        Some(message)
    }

    /// Restarts: all flows begin at 0. Messages that are complete and in order can still be
    /// fetched.
    pub fn reset(&mut self, shared: &mut Shared) {
        for flow in &mut self.flows {
            for slot in flow.ring.drain(..).filter(|slot| *slot != NOTHING) {
                shared.pool.give(self.partials.remove(slot));
            }
        }
        self.flows.clear();
        self.by_flow.clear();
        self.last = None;
        self.span = 0;
        self.rings = 0;
        // They were paid for in the former window, not in the new one.
        for (_, worth) in &mut self.ready {
            *worth = 0;
        }
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.ready.shrink_to(2 * self.ready.len());
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.partials.memory_bytes()
            + self.ready_bytes
            + self.ready.capacity() * size_of::<(Message, u64)>()
            + self.flows.capacity() * size_of::<Flow>()
            + self.by_flow.len() * size_of::<(u32, u32)>() * 2
            + self.rings * size_of::<u32>()
    }
}

/// Takes the trailer off a message's unit: the tag if there is one. `None` if
/// it is malformed.
fn split_trailer(unit: &mut Vec<u8>) -> Option<Option<u64>> {
    match unit.pop()? {
        UNTAGGED => Some(None),
        TAGGED => {
            let (data, tag) = unit.split_last_chunk::<8>()?;
            let (len, tag) = (data.len(), u64::from_be_bytes(*tag));
            unit.truncate(len);
            Some(Some(tag))
        }
        _ => None,
    }
}
