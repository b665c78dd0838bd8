//! Streams in packets: what is written, and its fate.

use super::{Control, OpEvent, Policy, Shared, StreamId, Streams};
use crate::op::queue::{SourceState, Written};
use crate::segment::Content;
use crate::wire::{Record, Writer};

impl Streams {
    /// Turn state of stream `id`, if it still exists.
    pub fn state(&mut self, id: u64) -> Option<&mut SourceState> {
        Some(&mut self.table.get_mut(id)?.send.state)
    }

    /// How stream `id` is spread over the paths.
    pub fn policy(&self, id: u64) -> Option<Policy> {
        Some(self.table.get(id)?.send.policy)
    }

    /// Writes the next data of stream `id`.
    pub fn write_next(&mut self, id: u64, shared: &mut Shared, w: &mut Writer<'_>) -> Written {
        let available = shared.send_window.open();
        let Some(stream) = self.table.get_mut(id).filter(|s| s.send.has_new()) else {
            return Written::Nothing;
        };
        // Opening a stream needs no window.
        if available == 0 && stream.send.admitted_bytes() > 0 && !stream.send.opening_is_due() {
            return Written::Blocked;
        }
        let service = stream.service;
        let before = stream.send.next;
        let Some(content) = stream.send.write_next(id, service, available, w) else {
            return Written::NoRoom;
        };
        let sent = stream.send.next - before;
        if !stream.send.has_new() {
            shared.turns.rest(&mut stream.send.state);
        }
        let is_dry = stream.send.queued_bytes() == 0;
        let most = shared.limits.stream_queue_bytes;
        stream.send.queue_bound.on_sent(sent, is_dry, most);
        self.sums.count_sent(stream, sent);
        shared.send_window.spend(sent);
        shared.turns.spend(sent as usize, true);
        self.offer_room_to(id, shared);
        Written::Content(content)
    }

    /// Whether stream `id` has something lost. If not, it is noted as out of the list.
    pub fn has_lost(&mut self, id: u64) -> bool {
        let Some(stream) = self.table.get_mut(id) else {
            return false;
        };
        stream.send.in_lost_list = stream.send.has_lost();
        stream.send.in_lost_list
    }

    /// Writes something lost of stream `id`.
    pub fn write_lost(&mut self, id: u64, w: &mut Writer<'_>) -> Option<Content> {
        self.change(id, |stream| {
            let service = stream.service;
            stream.send.write_lost(id, service, w)
        })?
    }

    /// Writes a segment once more.
    pub fn write_again(
        &self,
        id: u64,
        offset: u64,
        len: u32,
        fin: bool,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        let stream = self.table.get(id)?;
        let range = offset..offset + u64::from(len);
        stream.send.write_again(id, stream.service, range, fin, w)
    }

    /// A segment arrived.
    pub fn on_acked(&mut self, id: u64, offset: u64, len: u32, fin: bool, shared: &mut Shared) {
        let done = self.change(id, |stream| {
            if stream.send.reset.is_some() || stream.send.is_done() {
                return false;
            }
            stream.send.on_acked(offset, len, fin, &mut shared.chunks);
            stream.send.is_done()
        });
        if offset == 0 && self.openings.is_own(id) && self.openings.has_opened(id) {
            self.on_opening_known(id, shared);
        }
        self.offer_room(id, shared);
        self.check();
        if done == Some(true) {
            shared.events.push_back(OpEvent::Finished(StreamId(id)));
            self.forget_if_done(id, shared);
        }
    }

    /// A segment is lost. Returns whether the stream is new among those with lost content.
    pub fn on_lost(&mut self, id: u64, offset: u64, len: u32, fin: bool) -> bool {
        self.change(id, |stream| {
            if stream.send.reset.is_some() {
                return false;
            }
            stream.send.on_lost(offset, len, fin);
            let new = stream.send.has_lost() && !stream.send.in_lost_list;
            stream.send.in_lost_list |= new;
            new
        }) == Some(true)
    }

    /// The record of a stream's control, if it is still needed.
    pub fn control_record(&self, control: Control) -> Option<Record<'static>> {
        match control {
            Control::Reset(id) => {
                let send = &self.table.get(id)?.send;
                let code = send.reset.filter(|_| !send.reset_acked)?;
                let final_offset = send.next;
                Some(Record::StreamReset {
                    id,
                    code,
                    final_offset,
                })
            }
            Control::Stop(id) => {
                let receive = &self.table.get(id)?.receive;
                let code = receive.stop.filter(|_| !receive.is_done())?;
                Some(Record::StreamStop { id, code })
            }
            Control::StreamWindow(id) => {
                let receive = &self.table.get(id)?.receive;
                let (limit, window) = (receive.limit, receive.limit - receive.reported);
                (!receive.has_end()).then_some(Record::StreamWindow { id, limit, window })
            }
            _ => None,
        }
    }

    /// A stream's window is not queued any more: it was written or is not needed.
    pub fn window_taken(&mut self, id: u64) {
        if let Some(stream) = self.table.get_mut(id) {
            stream.receive.window_queued = false;
        }
    }

    /// The packet with a stream's window was lost. Returns whether to queue the window
    /// again.
    pub fn window_lost(&mut self, id: u64) -> bool {
        let Some(stream) = self.table.get_mut(id) else {
            return false;
        };
        !core::mem::replace(&mut stream.receive.window_queued, true)
    }

    /// The peer knows that sending was given up.
    pub fn on_reset_acked(&mut self, id: u64, shared: &mut Shared) {
        self.change(id, |stream| stream.send.reset_acked = true);
        if self.openings.is_own(id) && self.openings.has_opened(id) {
            self.on_opening_known(id, shared);
        }
        self.forget_if_done(id, shared);
    }
}
