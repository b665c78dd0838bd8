//! Filling packets: what is written next, and its fate.

use super::limits::{FRAME_WINDOW_BYTES, MIRROR_BYTES, MIRROR_IN_FLIGHT_BYTES};
use super::memory::Outgoing;
use super::queue::{Outlet, Source, SourceState, Turns, Written};
use super::shared::{Control, Lost};
use super::{Ops, Policy, Reach};
use crate::segment::{Content, Fate};
use crate::wire::{Record, UnitClass, Writer};
use crate::{LinkId, StreamId, Time};

/// The record does not fit into the packet.
struct NoRoom;

impl Ops {
    /// A figure of the outgoing memory operations.
    fn memory_out(&self, figure: fn(&Outgoing) -> usize) -> usize {
        self.memory.as_ref().map_or(0, |memory| figure(&memory.out))
    }

    /// Whether there is something to send.
    pub fn has_pending(&self) -> bool {
        let shared = &self.shared;
        !(shared.turns.is_idle() && shared.lost.is_empty() && shared.control.is_empty())
    }

    /// Whether there is something to send that may go over any link.
    pub(crate) fn has_pending_for_any(&self) -> bool {
        let shared = &self.shared;
        !(shared.turns.is_any_idle() && shared.lost.is_empty() && shared.control.is_empty())
    }

    /// The links that new content waits for which is [meant](Policy::Link) for one.
    pub(crate) fn waiting_links(&self) -> impl Iterator<Item = LinkId> {
        self.shared.turns.waiting_links()
    }

    /// From now on [`write_segment`](Ops::write_segment) writes new content of this outlet; at first of any link's.
    pub(crate) const fn take_turns_of(&mut self, outlet: Outlet) {
        self.shared.turns.take(outlet);
    }

    /// Bytes accepted and never sent, including those that wait for the peer's windows; lost ones
    /// are not among them.
    pub fn queued_bytes(&self) -> usize {
        self.frames_out.queued_bytes()
            + self.messages_out.queued_bytes()
            + self.streams.queued_bytes()
            + self.memory_out(Outgoing::queued_bytes)
    }

    /// Bytes of one stream accepted and never sent.
    pub fn queued_stream_bytes(&self, id: StreamId) -> usize {
        self.streams.queued_bytes_of(id) as usize
    }

    /// The most that the largest sender of the queued data has in flight, in bytes.
    pub fn window_bytes(&self) -> u64 {
        let others = self.streams.queued_bytes() + self.memory_out(Outgoing::queued_bytes);
        if self.frames_out.queued_bytes() >= others {
            FRAME_WINDOW_BYTES
        } else {
            self.shared.limits.stream_send_bytes as u64
        }
    }

    /// Bytes sent and neither acknowledged nor given up, lost ones included.
    pub fn in_flight_bytes(&self) -> usize {
        self.frames_out.units.in_flight_bytes()
            + self.messages_out.units.in_flight_bytes()
            + self.streams.in_flight_bytes()
            + self.memory_out(Outgoing::in_flight_bytes)
    }

    /// Whether nothing is under way or open, in either direction.
    pub fn is_idle(&self) -> bool {
        let is_busy = self.has_pending() || self.has_ends_untold() || self.in_flight_bytes() > 0;
        !is_busy && self.streams.count_open() == 0 && self.memory.is_none()
    }

    /// Whether an operation of the peer's is over, and it is not known to know.
    pub fn has_ends_untold(&self) -> bool {
        self.shared.ends_untold > 0
    }

    /// Bytes lost and not sent again yet.
    pub fn lost_bytes(&self) -> usize {
        self.frames_out.units.lost_bytes()
            + self.messages_out.units.lost_bytes()
            + self.streams.lost_bytes()
            + self.memory_out(Outgoing::lost_bytes)
    }

    /// Writes the best next record that fits into `w`: control first, which is short and lets the
    /// peer go on, then lost content, then new content in turns. `None` if there is nothing, or no
    /// useful room. Call it until then.
    #[inline]
    pub fn write_segment(
        &mut self,
        now: Time,
        reach: &Reach,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        self.set_time(now);
        let content = if self.shared.control.is_empty() && self.shared.lost.is_empty() {
            // An answer whose region is gone leaves a control record.
            self.write_new(now, reach, w)
                .or_else(|| self.write_control(w))?
        } else {
            self.write_control(w)
                .or_else(|| self.write_lost(now, reach, w))
                .or_else(|| self.write_new(now, reach, w))
                .or_else(|| self.write_control(w))?
        };
        self.shared.stats.segments_sent += 1;
        Some(content)
    }

    /// A control record that is still needed.
    fn write_control(&mut self, w: &mut Writer<'_>) -> Option<Content> {
        while let Some(&control) = self.shared.control.front() {
            let record = match control {
                Control::BundleWindow => {
                    let (limit, window) = self.shared.receive_window.announce();
                    Some(Record::BundleWindow { limit, window })
                }
                Control::MessageWindow => {
                    let (limit, window) = self.shared.message_window.announce();
                    Some(Record::MessageWindow { limit, window })
                }
                Control::Get(_) | Control::OperationDone(_) => {
                    match self.write_memory_control(control, w) {
                        Some(Ok(content)) => return Some(content),
                        Some(Err(NoRoom)) => return None,
                        None => continue,
                    }
                }
                of_stream => self.streams.control_record(of_stream),
            };
            if let Some(record) = &record
                && record.encoded_len() > w.room()
            {
                return None;
            }
            self.shared.control.pop_front();
            let content = match control {
                Control::Reset(id) => Content::StreamReset { id },
                Control::Stop(id) => Content::StreamStop { id },
                Control::StreamWindow(id) => {
                    self.streams.window_taken(id);
                    Content::StreamWindow { id }
                }
                Control::BundleWindow => {
                    self.shared.receive_window.queued = false;
                    Content::BundleWindow
                }
                Control::MessageWindow => {
                    self.shared.message_window.queued = false;
                    Content::MessageWindow
                }
                Control::Get(_) | Control::OperationDone(_) => continue,
            };
            if let Some(record) = record {
                record.write(w);
                return Some(content);
            }
        }
        None
    }

    /// The first control record, which is of a memory operation. `None`: it is not needed any more.
    fn write_memory_control(
        &mut self,
        control: Control,
        w: &mut Writer<'_>,
    ) -> Option<Result<Content, NoRoom>> {
        let (record, content) = match control {
            Control::Get(operation) => {
                let memory = self.memory.as_ref();
                let request = memory.and_then(|memory| memory.request(operation));
                (request, Content::Get { operation })
            }
            Control::OperationDone(content) => (content.told(), content),
            _ => (None, Content::BundleWindow),
        };
        let Some(record) = record else {
            self.shared.control.pop_front();
            return None;
        };
        if record.encoded_len() > w.room() {
            return Some(Err(NoRoom));
        }
        self.shared.control.pop_front();
        record.write(w);
        Some(Ok(content))
    }

    /// Lost content that is still worth it.
    fn write_lost(&mut self, now: Time, reach: &Reach, w: &mut Writer<'_>) -> Option<Content> {
        self.frames_out.expire(now, &mut self.shared);
        while let Some(&lost) = self.shared.lost.front() {
            let still = match lost {
                Lost::Frame(slot, generation) => self.frames_out.units.has_lost(slot, generation),
                Lost::Message(slot, generation) => {
                    self.messages_out.units.has_lost(slot, generation)
                }
                Lost::Stream(id) => self.streams.has_lost(id),
                Lost::Transfer(slot, generation) => (self.memory.as_mut())
                    .is_some_and(|memory| memory.out.has_lost(slot, generation)),
            };
            if !still {
                self.shared.lost.pop_front();
                continue;
            }
            let content = match lost {
                Lost::Frame(slot, _) => self.frames_out.units.write_lost(slot, w),
                Lost::Message(slot, _) => self.messages_out.units.write_lost(slot, w),
                Lost::Stream(id) => self.streams.write_lost(id, w),
                Lost::Transfer(slot, generation) => {
                    let shared = &mut self.shared;
                    let out = &mut self.memory.as_mut()?.out;
                    let written = out.write_lost(slot, generation, reach, shared, w);
                    if written.is_none() && !out.has_lost(slot, generation) {
                        continue;
                    }
                    written
                }
            }?;
            self.shared.stats.segments_resent += 1;
            return Some(content);
        }
        None
    }

    /// Writes new content of the source whose turn it is.
    #[inline]
    fn write_new(&mut self, now: Time, reach: &Reach, w: &mut Writer<'_>) -> Option<Content> {
        if let Some(next) = self.shared.turns.next_swept()
            && !self.with_state(next, |turns, state| turns.sweep(state))
        {
            self.shared.turns.sweep_gone();
        }
        while let Some(source) = self.shared.turns.front() {
            let shared = &mut self.shared;
            let written = match source {
                Source::Frames(flow) => self.frames_out.write_next(now, flow, shared, w),
                Source::Messages(index) => self.messages_out.write_next(index, shared, w),
                Source::Stream(id) => self.streams.write_next(id, shared, w),
                Source::Transfer(slot, generation) => match &mut self.memory {
                    Some(memory) => memory.out.write_next(slot, generation, reach, shared, w),
                    None => Written::Nothing,
                },
            };
            match written {
                Written::Content(content) => return Some(content),
                Written::NoRoom => return None,
                Written::Nothing => {
                    if !self.with_state(source, |turns, state| turns.retire(state)) {
                        self.shared.turns.drop_front();
                    }
                }
                Written::Blocked => {
                    self.with_state(source, |turns, state| turns.suspend(state));
                    self.shared.window_of(source).waiting.push_back(source);
                }
            }
        }
        None
    }

    /// Does something with a source's state; `false` if the source is no more.
    pub(super) fn with_state(
        &mut self,
        source: Source,
        act: impl FnOnce(&mut Turns, &mut SourceState),
    ) -> bool {
        let state = match source {
            Source::Frames(flow) => Some(self.frames_out.state(flow)),
            Source::Messages(index) => Some(self.messages_out.state(index)),
            Source::Stream(id) => self.streams.state(id),
            Source::Transfer(slot, generation) => {
                let memory = self.memory.as_mut();
                memory.and_then(|memory| memory.out.state(slot, generation))
            }
        };
        if let Some(state) = state {
            act(&mut self.shared.turns, state);
            return true;
        }
        false
    }

    /// Whether `content`, just written, must go on a second path as well: its policy demands it, or
    /// it is small and alone.
    pub fn mirrored(&self, content: &Content) -> bool {
        let (policy, bytes) = match *content {
            Content::Stream { id, len, .. } => (self.streams.policy(id), len),
            Content::Unit {
                class,
                slot,
                generation,
                ..
            } => {
                let units = match class {
                    UnitClass::Frame => &self.frames_out.units,
                    UnitClass::Message => &self.messages_out.units,
                };
                let unit = units.find(slot, generation);
                (unit.map(|u| u.policy), unit.map_or(0, |u| u.total()))
            }
            _ => (None, 0),
        };
        match policy {
            Some(Policy::Mirror) => true,
            Some(Policy::Auto) => bytes as usize <= MIRROR_BYTES && self.is_quiet(),
            Some(Policy::Stripe | Policy::Link(_)) | None => false,
        }
    }

    /// Whether nothing is queued and next to nothing in flight.
    fn is_quiet(&self) -> bool {
        self.queued_bytes() == 0 && self.in_flight_bytes() <= MIRROR_IN_FLIGHT_BYTES
    }

    /// Writes `content`, which [`write_segment`](Ops::write_segment) wrote before, again: as much
    /// as fits of the first range that the peer has not acknowledged. `None` if it has all, the
    /// content was given up or is control, or nothing fits.
    pub fn write_again(
        &mut self,
        _now: Time,
        content: &Content,
        reach: &Reach,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        let written = match *content {
            Content::Unit {
                class,
                slot,
                generation,
                offset,
                len,
            } => {
                let units = match class {
                    UnitClass::Frame => &self.frames_out.units,
                    UnitClass::Message => &self.messages_out.units,
                };
                units.write_again(slot, generation, offset, len, w)
            }
            Content::Stream {
                id,
                offset,
                len,
                fin,
            } => self.streams.write_again(id, offset, len, fin, w),
            Content::Transfer {
                slot,
                generation,
                offset,
                len,
            } => {
                let range = offset..offset + u64::from(len);
                let out = &mut self.memory.as_mut()?.out;
                out.write_again((slot, generation), range, reach, w)
            }
            _ => None,
        }?;
        self.shared.stats.segments_sent += 1;
        self.shared.stats.segments_mirrored += 1;
        Some(written)
    }

    /// Reports the fate of content. Content may be written several times and have as many fates, in
    /// any order.
    #[inline]
    pub fn on_fate(&mut self, now: Time, content: Content, fate: Fate) {
        self.set_time(now);
        match fate {
            Fate::Acked => self.on_acked(content),
            Fate::Lost => self.on_lost(content),
        }
    }

    #[inline]
    fn on_acked(&mut self, content: Content) {
        let shared = &mut self.shared;
        match content {
            Content::Unit {
                class,
                slot,
                generation,
                offset,
                len,
            } => match class {
                UnitClass::Frame => self
                    .frames_out
                    .on_acked(slot, generation, offset, len, shared),
                UnitClass::Message => self
                    .messages_out
                    .on_acked(slot, generation, offset, len, shared),
            },
            Content::Stream {
                id,
                offset,
                len,
                fin,
            } => self.streams.on_acked(id, offset, len, fin, shared),
            Content::Transfer {
                slot,
                generation,
                offset,
                len,
            } => {
                let range = offset..offset + u64::from(len);
                if let Some(memory) = &mut self.memory {
                    memory.out.on_acked(slot, generation, range, shared);
                }
            }
            Content::StreamReset { id } => self.streams.on_reset_acked(id, shared),
            Content::OperationDone { .. } => {
                shared.ends_untold = shared.ends_untold.saturating_sub(1);
            }
            Content::Get { .. }
            | Content::StreamStop { .. }
            | Content::StreamWindow { .. }
            | Content::BundleWindow
            | Content::MessageWindow
            | Content::Relayed
            | Content::News(_) => {}
        }
    }

    fn on_lost(&mut self, content: Content) {
        let lost = match content {
            Content::Unit {
                class,
                slot,
                generation,
                offset,
                len,
            } => {
                let (units, lost) = match class {
                    UnitClass::Frame => (&mut self.frames_out.units, Lost::Frame(slot, generation)),
                    UnitClass::Message => (
                        &mut self.messages_out.units,
                        Lost::Message(slot, generation),
                    ),
                };
                units.on_lost(slot, generation, offset, len).then_some(lost)
            }
            Content::Stream {
                id,
                offset,
                len,
                fin,
            } => {
                let new = self.streams.on_lost(id, offset, len, fin);
                new.then_some(Lost::Stream(id))
            }
            Content::Transfer {
                slot,
                generation,
                offset,
                len,
            } => {
                let range = offset..offset + u64::from(len);
                let memory = self.memory.as_mut();
                let new = memory.is_some_and(|m| m.out.on_lost(slot, generation, range));
                new.then_some(Lost::Transfer(slot, generation))
            }
            control => {
                self.on_control_lost(control);
                None
            }
        };
        self.shared.lost.extend(lost);
    }

    /// A control record did not arrive: the newest of its kind is sent, if it is still needed.
    fn on_control_lost(&mut self, content: Content) {
        let control = match content {
            Content::StreamReset { id } => Control::Reset(id),
            Content::StreamStop { id } => Control::Stop(id),
            Content::Get { operation } => Control::Get(operation),
            Content::OperationDone { .. } => Control::OperationDone(content),
            Content::StreamWindow { id } if self.streams.window_lost(id) => {
                Control::StreamWindow(id)
            }
            Content::BundleWindow if !self.shared.receive_window.queued => {
                self.shared.receive_window.queued = true;
                Control::BundleWindow
            }
            Content::MessageWindow if !self.shared.message_window.queued => {
                self.shared.message_window.queued = true;
                Control::MessageWindow
            }
            _ => return,
        };
        self.shared.control.push_back(control);
    }
}
