//! Messages on their way out.

use std::collections::{BTreeMap, VecDeque};

use super::{TAGGED, UNTAGGED, charge_bytes};
use crate::op::limits::{
    MESSAGE_DATA_BYTES_MAX, MESSAGE_FLOWS_MAX, MESSAGE_OVERHEAD_BYTES, MESSAGE_TRAILER_BYTES_MAX,
};
use crate::op::queue::{Source, SourceState, Written};
use crate::op::shared::Shared;
use crate::op::unit::Units;
use crate::op::{OpError, OpEvent, Policy};
use crate::wire::{UnitClass, Writer};

/// Approximate memory of a message beside its data.
const UNIT_BYTES: usize = MESSAGE_OVERHEAD_BYTES as usize;

/// Room in a flow's queue that is kept when the queue is empty.
const QUEUE_KEPT: usize = 64;

/// A message flow.
#[derive(Debug, Default)]
struct Flow {
    /// Slots of messages not yet sent completely, in order.
    queue: VecDeque<u32>,
    next_sequence: u32,
    state: SourceState,
}

/// All messages from acceptance until they are acknowledged.
#[derive(Debug, Default)]
pub(in crate::op) struct MessageSender {
    pub units: Units,
    flows: Vec<Flow>,
    /// Index of a flow in `flows`.
    by_flow: BTreeMap<u32, u32>,
    /// The flow used last, and where it stands: the common case.
    last: Option<(u32, u32)>,
    /// Room in all flows' queues.
    queues: usize,
    /// Bytes never sent.
    queued_bytes: usize,
    /// Memory of unacknowledged messages.
    kept_bytes: usize,
    /// Whether a message was refused and the event is owed.
    was_full: bool,
}

impl MessageSender {
    /// Queues a message of `len` bytes, which `fill` appends.
    ///
    /// # Errors
    /// See [`Ops::send_message`](crate::op::Ops::send_message).
    pub fn push(
        &mut self,
        (flow, tag): (u32, Option<u64>),
        len: usize,
        fill: impl FnOnce(&mut Vec<u8>),
        policy: Policy,
        shared: &mut Shared,
    ) -> Result<(), OpError> {
        if len > MESSAGE_DATA_BYTES_MAX {
            return Err(OpError::TooLarge {
                bytes_max: MESSAGE_DATA_BYTES_MAX,
            });
        }
        let bytes = len + MESSAGE_TRAILER_BYTES_MAX;
        let kept_bytes = self.kept_bytes + bytes + UNIT_BYTES;
        if self.kept_bytes > 0 && kept_bytes > shared.limits.message_queue_bytes {
            self.was_full = true;
            return Err(OpError::Full);
        }
        let index = self.index(flow)?;
        let mut unit = shared.pool.take(bytes);
        fill(&mut unit);
        debug_assert_eq!(unit.len(), len);
        if let Some(tag) = tag {
            unit.extend_from_slice(&tag.to_be_bytes());
            unit.push(TAGGED);
        } else {
            unit.push(UNTAGGED);
        }
        self.queued_bytes += unit.len();
        self.kept_bytes += memory_of(&unit);
        let to = &mut self.flows[index as usize];
        let sequence = to.next_sequence;
        to.next_sequence = sequence.wrapping_add(1);
        let slot = self
            .units
            .insert(UnitClass::Message, policy, flow, sequence, unit);
        self.queues -= to.queue.capacity();
        if to.queue.is_empty() {
            (shared.turns).set_policy(Source::Messages(index), &mut to.state, policy);
        }
        to.queue.push_back(slot);
        self.queues += to.queue.capacity();
        shared.turns.wake(Source::Messages(index), &mut to.state);
        Ok(())
    }

    /// Index of `flow`; adds a new one.
    fn index(&mut self, flow: u32) -> Result<u32, OpError> {
        if let Some((_, index)) = self.last.filter(|l| l.0 == flow) {
            return Ok(index);
        }
        let index = match self.by_flow.get(&flow) {
            Some(index) => *index,
            None if self.flows.len() >= MESSAGE_FLOWS_MAX => return Err(OpError::TooManyFlows),
            None => {
                let index = self.flows.len() as u32;
                self.flows.push(Flow::default());
                self.by_flow.insert(flow, index);
                index
            }
        };
        self.last = Some((flow, index));
        Ok(index)
    }

    /// Turn state of the flow at `index`.
    pub fn state(&mut self, index: u32) -> &mut SourceState {
        &mut self.flows[index as usize].state
    }

    /// Writes the next new piece of the flow at `index`.
    pub fn write_next(&mut self, index: u32, shared: &mut Shared, w: &mut Writer<'_>) -> Written {
        let from = &mut self.flows[index as usize];
        let Some(&slot) = from.queue.front() else {
            return Written::Nothing;
        };
        let unit = self.units.get(slot);
        let charge = if unit.is_unsent() {
            charge_bytes(unit.total())
        } else {
            0
        };
        // Once a message has begun it is paid for, and goes on though others wait.
        if charge > 0 && charge > shared.message_send_window.open() {
            return Written::Blocked;
        }
        let Some((content, len, last)) = self.units.write_next(slot, w) else {
            return Written::NoRoom;
        };
        shared.message_send_window.spend(charge);
        self.queued_bytes -= len as usize;
        shared.turns.spend(len as usize, true);
        if last {
            from.queue.pop_front();
            if from.queue.is_empty() {
                self.queues -= from.queue.capacity();
                from.queue.shrink_to(QUEUE_KEPT);
                self.queues += from.queue.capacity();
                shared.turns.rest(&mut from.state);
            }
        }
        Written::Content(content)
    }

    /// A piece arrived.
    pub fn on_acked(
        &mut self,
        slot: u32,
        generation: u32,
        offset: u32,
        len: u32,
        shared: &mut Shared,
    ) {
        if !self.units.on_acked(slot, generation, offset, len) {
            return;
        }
        let unit = self.units.remove(slot);
        self.kept_bytes -= memory_of(&unit);
        shared.pool.give(unit);
        shared.stats.messages_acked += 1;
        if self.was_full && self.kept_bytes <= shared.limits.message_queue_bytes / 4 * 3 {
            self.was_full = false;
            shared.events.push_back(OpEvent::MessageRoom);
        }
    }

    /// Memory of unacknowledged messages, in bytes.
    pub const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Bytes never sent.
    pub const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.units.trim();
    }

    /// Restarts: all flows begin at 0. Unacknowledged messages are lost, and the
    /// application learns how many.
    pub fn reset(&mut self, shared: &mut Shared) {
        let count = self.units.len();
        self.units.remove_all(&mut shared.pool);
        self.flows.clear();
        self.by_flow.clear();
        self.last = None;
        self.queues = 0;
        self.queued_bytes = 0;
        self.kept_bytes = 0;
        if count > 0 {
            shared.events.push_back(OpEvent::MessagesBroken { count });
        }
        if self.was_full {
            self.was_full = false;
            shared.events.push_back(OpEvent::MessageRoom);
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.units.memory_bytes()
            + self.flows.capacity() * size_of::<Flow>()
            + self.by_flow.len() * size_of::<(u32, u32)>() * 2
            + self.queues * size_of::<u32>()
    }
}

/// Memory of a message until it is acknowledged. Its buffer may be longer than the
/// message.
const fn memory_of(unit: &Vec<u8>) -> usize {
    unit.capacity() + UNIT_BYTES
}
