//! The sending half of a stream (RFC 9000 section 3.1).

use core::ops::Range;

use super::bound::QueueBound;
use crate::Time;
use crate::op::Policy;
use crate::op::limits::{OpLimits, STREAM_WINDOW_BYTES_INITIAL, USEFUL_BYTES};
use crate::op::queue::SourceState;
use crate::segment::{ChunkPool, Chunks, Content, RangeSet};
use crate::wire::{Record, StreamSegment, Writer, stream_header_bytes};

/// Written and unacknowledged data.
#[derive(Debug)]
pub(super) struct SendHalf {
    pub policy: Policy,
    pub state: SourceState,
    /// The bytes from the first unacknowledged one to `written`.
    bytes: Chunks,
    /// Behind the last byte the application wrote.
    pub written: u64,
    /// Behind the last byte that was sent at least once.
    pub next: u64,
    /// First offset that the peer does not admit yet.
    pub limit: u64,
    /// Behind the last byte that the peer is known to have read.
    pub read: u64,
    /// When it was last known to have read something.
    pub read_at: Option<Time>,
    acked: RangeSet,
    pub lost: RangeSet,
    /// Whether the peer does not know the stream yet: an empty segment tells it.
    opening: Flag,
    /// The stream's end.
    fin: Flag,
    /// The code with which sending was reset.
    pub reset: Option<u32>,
    pub reset_acked: bool,
    /// Whether the peer asked to stop (then `reset` is set).
    pub stopped: bool,
    /// How much may wait to be sent.
    pub queue_bound: QueueBound,
    /// Whether a write found no room and the event is owed.
    pub was_full: bool,
    /// Whether it found none since too much of this stream was queued or kept.
    pub queue_was_full: bool,
    /// How much more was to be written.
    pub wanted_bytes: u64,
    /// Whether it stands in line for room that others have.
    pub in_line: bool,
    /// Room that the application was offered and has not used; and since when.
    pub offered_bytes: u64,
    pub offered_at: Time,
    pub in_lost_list: bool,
}

/// A piece that was written.
struct Piece {
    offset: u64,
    len: u32,
    fin: bool,
}

impl Piece {
    /// Behind its last byte.
    fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    fn content(&self, id: u64) -> Content {
        Content::Stream {
            id,
            offset: self.offset,
            len: self.len,
            fin: self.fin,
        }
    }
}

/// Something that is said once and must arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flag {
    /// Nothing to report.
    Unset,
    /// To be said.
    Due,
    /// Said; the fate is not known.
    Sent,
    /// To be said again.
    Lost,
    /// It arrived.
    Acked,
}

impl Flag {
    fn on_sent(&mut self) {
        if matches!(self, Flag::Due | Flag::Lost) {
            *self = Flag::Sent;
        }
    }

    fn on_lost(&mut self) {
        if *self == Flag::Sent {
            *self = Flag::Lost;
        }
    }
}

impl SendHalf {
    /// Nothing written yet. `opens`: the peer must learn of the stream.
    pub fn new(policy: Policy, opens: bool) -> SendHalf {
        SendHalf {
            policy,
            state: SourceState::new(policy),
            bytes: Chunks::default(),
            written: 0,
            next: 0,
            limit: STREAM_WINDOW_BYTES_INITIAL,
            read: 0,
            read_at: None,
            acked: RangeSet::new(),
            lost: RangeSet::new(),
            opening: if opens { Flag::Due } else { Flag::Unset },
            fin: Flag::Unset,
            reset: None,
            reset_acked: false,
            stopped: false,
            queue_bound: QueueBound::new(),
            was_full: false,
            queue_was_full: false,
            wanted_bytes: 0,
            in_line: false,
            offered_bytes: 0,
            offered_at: Time::ZERO,
            in_lost_list: false,
        }
    }

    /// Whether the application may write.
    pub fn is_open(&self) -> bool {
        self.fin == Flag::Unset && self.reset.is_none()
    }

    /// Whether nothing will ever be sent again.
    pub fn is_done(&self) -> bool {
        if self.reset.is_some() {
            self.reset_acked
        } else {
            self.is_finished()
        }
    }

    /// Whether the peer has everything, the end included.
    pub fn is_finished(&self) -> bool {
        self.fin == Flag::Acked && self.acked.covered() == self.written
    }

    /// Whether the FIN, or anything before it, or the RESET is unacknowledged.
    pub fn owes_end(&self) -> bool {
        (self.fin != Flag::Unset || self.reset.is_some()) && !self.is_done()
    }

    /// Bytes written and not known to have arrived.
    pub fn kept_bytes(&self) -> u64 {
        if self.reset.is_some() {
            0
        } else {
            self.written - self.acked.covered_to()
        }
    }

    /// Bytes never sent.
    pub fn queued_bytes(&self) -> u64 {
        self.written - self.next
    }

    /// Bytes sent and not acknowledged.
    pub fn in_flight_bytes(&self) -> u64 {
        self.next - self.acked.covered()
    }

    /// Bytes written beyond the peer's window for this stream.
    pub fn ahead_bytes(&self) -> u64 {
        self.written.saturating_sub(self.limit)
    }

    /// Bytes written that the peer admits and is not known to have read. Of one that is over the
    /// peer tells no more.
    pub fn unread_bytes(&self) -> u64 {
        if self.reset.is_some() || self.is_finished() {
            0
        } else {
            self.written.min(self.limit).saturating_sub(self.read)
        }
    }

    /// How much more may be written, by the bounds on this stream's kept and queued bytes.
    pub fn own_room(&self, limits: &OpLimits) -> u64 {
        let kept = (limits.stream_send_bytes as u64).saturating_sub(self.kept_bytes());
        let queue = self.queue_bound.bytes(limits.stream_queue_bytes);
        kept.min(queue.saturating_sub(self.queued_bytes()))
    }

    /// Whether that is a good part of these bounds.
    pub fn has_good_room(&self, limits: &OpLimits) -> bool {
        self.kept_bytes() <= limits.stream_send_bytes as u64 / 4 * 3
            && self.queued_bytes() <= self.queue_bound.bytes(limits.stream_queue_bytes) / 2
    }

    /// The peer admits bytes up to `limit`, which is `window` ahead of what it has read.
    pub fn on_window(&mut self, now: Time, limit: u64, window: u64) {
        self.limit = self.limit.max(limit);
        let read = limit.saturating_sub(window).min(self.next);
        if read > self.read {
            self.read = read;
            self.read_at = Some(now);
        }
    }

    /// Bytes the peer's window for this stream admits that were never sent.
    pub fn admitted_bytes(&self) -> u64 {
        self.written.min(self.limit).saturating_sub(self.next)
    }

    /// Whether there is something new to send, as far as the stream's own window goes.
    pub fn has_new(&self) -> bool {
        self.reset.is_none()
            && (self.admitted_bytes() > 0
                || self.opening == Flag::Due
                || (self.fin == Flag::Due && self.next == self.written))
    }

    /// Whether the peer was never told of the stream.
    pub fn opening_is_due(&self) -> bool {
        self.opening == Flag::Due
    }

    /// Whether something must be sent again.
    pub fn has_lost(&self) -> bool {
        self.reset.is_none()
            && (!self.lost.is_empty() || self.opening == Flag::Lost || self.fin == Flag::Lost)
    }

    /// Takes bytes from the application.
    pub fn write(&mut self, data: &[u8], pool: &mut ChunkPool) {
        self.queue_bound.on_written();
        self.bytes.write(self.written, data, pool);
        self.written += data.len() as u64;
    }

    /// Lets `fill` write at most this many bytes into the send buffer; returns how many it
    /// wrote.
    pub fn fill(
        &mut self,
        len_max: usize,
        pool: &mut ChunkPool,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> usize {
        self.queue_bound.on_written();
        let len = self.bytes.fill(len_max, pool, fill);
        self.written += len as u64;
        len
    }

    /// No more will be written.
    pub fn finish(&mut self) {
        self.fin = Flag::Due;
    }

    /// Resets sending; unacknowledged data is forgotten.
    pub fn give_up(&mut self, code: u32, pool: &mut ChunkPool) {
        self.reset = Some(code);
        self.bytes.clear(self.written, pool);
        self.written = self.next;
        self.acked.clear();
        self.acked.insert(0..self.next);
        self.lost.clear();
    }

    /// Writes new data, at most `bytes_max`, as much as fits.
    pub fn write_next(
        &mut self,
        id: u64,
        service: u32,
        bytes_max: u64,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        let end = self.next + self.admitted_bytes().min(bytes_max);
        let sent = self.write_piece(id, service, self.next..end, w)?;
        self.note_sent(&sent);
        self.next = sent.end();
        Some(sent.content(id))
    }

    /// Writes lost data, as much as fits.
    pub fn write_lost(&mut self, id: u64, service: u32, w: &mut Writer<'_>) -> Option<Content> {
        let range = match self.lost.first() {
            Some(range) => range,
            None if self.opening == Flag::Lost => 0..0,
            None => self.written..self.written,
        };
        let sent = self.write_piece(id, service, range, w)?;
        self.note_sent(&sent);
        self.lost.pop_front(u64::from(sent.len));
        Some(sent.content(id))
    }

    /// Writes the first unacknowledged part of `range` (and the FIN behind it, if `fin`), which
    /// was sent before.
    pub fn write_again(
        &self,
        id: u64,
        service: u32,
        range: Range<u64>,
        fin: bool,
        w: &mut Writer<'_>,
    ) -> Option<Content> {
        if self.reset.is_some() {
            return None;
        }
        let lacks_opening = range.start == 0 && matches!(self.opening, Flag::Sent | Flag::Lost);
        let lacks_fin = fin && self.fin != Flag::Acked;
        let range = range.start.min(self.next)..range.end.min(self.next);
        let gap = match self.acked.first_gap(range.clone()) {
            Some(gap) => gap,
            None if lacks_opening => 0..0,
            None if lacks_fin => range.end..range.end,
            None => return None,
        };
        Some(self.write_piece(id, service, gap, w)?.content(id))
    }

    /// Writes the start of `range`, as much as fits and lies together, with the
    /// opening or the end if it touches them. `None` if no useful piece fits.
    fn write_piece(
        &self,
        id: u64,
        service: u32,
        range: Range<u64>,
        w: &mut Writer<'_>,
    ) -> Option<Piece> {
        let Range { start, end } = range;
        let opens = start == 0;
        let room = w.room().checked_sub(stream_header_bytes(id, opens))?;
        let wanted = (end - start).min(u64::from(u16::MAX)) as usize;
        if room < wanted.min(USEFUL_BYTES) {
            return None;
        }
        let data: &[u8] = if wanted == 0 {
            &[]
        } else {
            self.bytes.slice(start, wanted.min(room))
        };
        let len = data.len() as u32;
        let end = start + u64::from(len);
        let fin = self.fin != Flag::Unset && end == self.written;
        Record::Stream(StreamSegment {
            id,
            offset: start,
            fin,
            held: end == self.limit && self.written > end,
            service: opens.then_some(service),
            data,
        })
        .write(w);
        Some(Piece {
            offset: start,
            len,
            fin,
        })
    }

    /// Notes the flags of a sent piece.
    fn note_sent(&mut self, piece: &Piece) {
        if piece.offset == 0 {
            self.opening.on_sent();
        }
        if piece.fin {
            self.fin.on_sent();
        }
    }

    /// A segment arrived.
    pub fn on_acked(&mut self, offset: u64, len: u32, fin: bool, pool: &mut ChunkPool) {
        let range = offset..(offset + u64::from(len)).min(self.next);
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        self.acked.insert(range);
        if offset == 0 && self.opening != Flag::Unset {
            self.opening = Flag::Acked;
        }
        if fin {
            self.fin = Flag::Acked;
        }
        self.bytes.release(self.acked.covered_to(), pool);
    }

    /// A segment is lost.
    pub fn on_lost(&mut self, offset: u64, len: u32, fin: bool) {
        let mut rest = offset..(offset + u64::from(len)).min(self.next);
        while let Some(gap) = self.acked.first_gap(rest.clone()) {
            rest.start = gap.end;
            self.lost.insert(gap);
        }
        if offset == 0 {
            self.opening.on_lost();
        }
        if fin {
            self.fin.on_lost();
        }
    }

    /// Memory outside of the value itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.memory_bytes() + self.acked.heap_bytes() + self.lost.heap_bytes()
    }
}
