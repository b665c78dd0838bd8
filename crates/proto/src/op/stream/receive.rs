//! The receiving half of a stream (RFC 9000 section 3.2).

use core::time::Duration;

use crate::Time;
use crate::op::limits::{
    RANGES_MAX, READ_FAST, READ_SLOW, REPORT_BYTES, STREAM_WINDOW_BYTES_INITIAL,
    STREAM_WINDOW_BYTES_MIN,
};
use crate::op::window::ReceiveWindow;
use crate::op::{Read, Violation};
use crate::segment::{ChunkPool, Chunks, RangeSet};
use crate::wire::{OFFSET_MAX, StreamSegment};

/// Arrived and unread data.
#[derive(Debug)]
pub(super) struct ReceiveHalf {
    bytes: Chunks,
    have: RangeSet,
    /// Behind the last byte that was read, or is not wanted.
    read: u64,
    /// End of the last byte that arrived: what counts against the bundle's window.
    highest: u64,
    /// Where the stream ends, once known.
    final_offset: Option<u64>,
    /// First offset that is not granted.
    pub limit: u64,
    /// Behind the last byte that was read when the peer was last told.
    pub reported: u64,
    /// How far `limit` may be ahead of `read`.
    window: u64,
    /// Behind the last byte that was read when the limit was last raised.
    raised: u64,
    /// Since when something that was there was not read.
    waits_since: Option<Time>,
    /// How long that has been so in all since the limit was last raised.
    waited: Duration,
    /// Whether the sender used nearly all it was granted, or said that it waits, since the window last grew.
    limited: bool,
    /// Whether the newest limit waits to be sent.
    pub window_queued: bool,
    /// Whether a report of what was read is queued.
    pub report_queued: bool,
    /// The code with which the peer reset sending.
    pub reset: Option<u32>,
    /// The code with which this end asked the peer to stop.
    pub stop: Option<u32>,
    /// Whether the application knows that there is something to read.
    pub announced: bool,
    /// Whether the application has read the end.
    end_read: bool,
}

/// Effect of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrived {
    /// Whether there is something new to read.
    pub readable: bool,
    /// Whether all its bytes were there.
    pub duplicate: bool,
    /// Bytes of the bundle's window that are free again, because nobody wants them.
    pub credit: u64,
}

impl ReceiveHalf {
    pub fn new() -> ReceiveHalf {
        ReceiveHalf {
            bytes: Chunks::default(),
            have: RangeSet::new(),
            read: 0,
            highest: 0,
            final_offset: None,
            limit: STREAM_WINDOW_BYTES_INITIAL,
            reported: 0,
            raised: 0,
            window: STREAM_WINDOW_BYTES_INITIAL,
            waits_since: None,
            waited: Duration::ZERO,
            limited: false,
            window_queued: false,
            report_queued: false,
            reset: None,
            stop: None,
            announced: false,
            end_read: false,
        }
    }

    /// Whether nothing will be read any more, and the whole charge against the bundle's window is known.
    pub fn is_done(&self) -> bool {
        self.reset.is_some()
            || self.end_read
            || (self.stop.is_some() && self.final_offset.is_some())
    }

    /// Whether everything up to the stream's end has arrived.
    fn is_whole(&self) -> bool {
        self.final_offset
            .is_some_and(|end| self.have.covered_to() == end)
    }

    /// Whether the end is known or irrelevant: no window is needed any more.
    pub fn has_end(&self) -> bool {
        self.final_offset.is_some() || self.stop.is_some()
    }

    /// Memory of the gaps, in bytes.
    pub fn gaps_bytes(&self) -> usize {
        self.have.heap_bytes()
    }

    /// Bytes that count against the bundle's window: that have come, or are known to have been sent, and
    /// were not read.
    pub const fn unread_bytes(&self) -> u64 {
        self.highest - self.read
    }

    /// Bytes that were read and not reported to the peer.
    pub fn unreported_bytes(&self) -> u64 {
        if self.has_end() {
            0
        } else {
            self.read - self.reported
        }
    }

    /// Bytes that are there in order and were not read.
    pub fn readable_bytes(&self) -> usize {
        self.have.covered_to().saturating_sub(self.read) as usize
    }

    /// Whether there is something to read, an end included.
    pub fn has_news(&self) -> bool {
        self.readable_bytes() > 0 || (self.is_whole() && !self.end_read)
    }

    /// Handles a segment.
    ///
    /// # Errors
    /// [`Violation`]; nothing changed then.
    pub fn on_segment(
        &mut self,
        now: Time,
        seg: &StreamSegment<'_>,
        window: &mut ReceiveWindow,
        pool: &mut ChunkPool,
    ) -> Result<Arrived, Violation> {
        let end = seg
            .offset
            .checked_add(seg.data.len() as u64)
            .ok_or(Violation::BeyondStreamWindow)?;
        self.check_end(end, seg.fin)?;
        if self.have.range_count() >= RANGES_MAX {
            return Err(Violation::TooScattered);
        }
        let higher = end.saturating_sub(self.highest);
        window.charge(higher)?;
        self.highest += higher;
        // The sender learns of a new limit half a round trip later, so that only it knows.
        self.limited |= seg.held || self.highest + self.window / 4 >= self.limit;
        let end_is_new = seg.fin && self.final_offset.is_none();
        if seg.fin {
            self.final_offset = Some(end);
        }
        if self.stop.is_some() || self.reset.is_some() {
            self.read = self.highest;
            return Ok(Arrived {
                readable: false,
                duplicate: false,
                credit: higher,
            });
        }
        let before = self.have.covered_to();
        let new = self.have.insert(seg.offset..end);
        if new > 0 {
            let skip = self.read.saturating_sub(seg.offset) as usize;
            let data = seg.data.get(skip..).unwrap_or_default();
            self.bytes.write(seg.offset + skip as u64, data, pool);
        }
        let covered = self.have.covered_to();
        if covered > self.read {
            self.waits_since.get_or_insert(now);
        }
        Ok(Arrived {
            readable: covered > before || (end_is_new && self.is_whole()),
            duplicate: new == 0 && !seg.data.is_empty(),
            credit: 0,
        })
    }

    /// The peer resets sending. Returns how much of the bundle's window is free again, or `None` if
    /// everything had arrived and the reset is void.
    ///
    /// # Errors
    /// [`Violation`]; nothing changed then.
    pub fn on_reset(
        &mut self,
        code: u32,
        final_offset: u64,
        window: &mut ReceiveWindow,
        pool: &mut ChunkPool,
    ) -> Result<Option<u64>, Violation> {
        self.check_end(final_offset, true)?;
        if self.reset.is_some() || self.is_whole() {
            return Ok(None);
        }
        window.charge(final_offset - self.highest)?;
        self.highest = final_offset;
        self.final_offset = Some(final_offset);
        self.reset = Some(code);
        Ok(Some(self.discard(pool)))
    }

    /// Whether bytes up to `end` may come, and the stream may end there if it is
    /// the `last` of it.
    fn check_end(&self, end: u64, last: bool) -> Result<(), Violation> {
        if end > self.limit {
            return Err(Violation::BeyondStreamWindow);
        }
        let moved = match self.final_offset {
            Some(known) => end > known || (last && end != known),
            None => last && end < self.highest,
        };
        if moved {
            return Err(Violation::FinalSize);
        }
        Ok(())
    }

    /// The application wants no more. Returns how much of the bundle's window is free again.
    pub fn on_stop(&mut self, code: u32, pool: &mut ChunkPool) -> u64 {
        self.stop = Some(code);
        self.discard(pool)
    }

    /// Discards unread data; returns how much that is.
    fn discard(&mut self, pool: &mut ChunkPool) -> u64 {
        let unread = self.highest - self.read;
        self.read = self.highest;
        self.bytes.clear(self.read, pool);
        self.have = RangeSet::new();
        unread
    }

    /// Copies data that is there and in order.
    pub fn read(&mut self, into: &mut [u8], pool: &mut ChunkPool) -> Read {
        let mut done = 0;
        loop {
            let rest = &mut into[done..];
            let read = self.take(
                |piece| {
                    let len = piece.len().min(rest.len());
                    rest[..len].copy_from_slice(&piece[..len]);
                    len
                },
                pool,
            );
            done += read.len;
            if read.len == 0 || read.fin {
                // If it does not fit, the next call finds it; no new event is needed.
                self.announced = false;
                let fin = read.fin;
                return Read { len: done, fin };
            }
        }
    }

    /// Lends contiguous data in order to `take`, if there is any. The number of bytes that `take` returns
    /// is read.
    pub fn take(&mut self, take: impl FnOnce(&[u8]) -> usize, pool: &mut ChunkPool) -> Read {
        let there = self.readable_bytes();
        let mut len = 0;
        self.announced = false;
        if there > 0 {
            let piece = self.bytes.slice(self.read, there);
            len = take(piece).min(piece.len());
            self.announced = len < piece.len();
            self.read += len as u64;
            self.bytes.release(self.read, pool);
        }
        let fin = self.final_offset == Some(self.read);
        self.end_read |= fin;
        Read { len, fin }
    }

    /// The application has read what it wanted for now.
    pub fn on_read(&mut self, now: Time) {
        if let Some(since) = self.waits_since {
            self.waited += now - since;
            self.waits_since = (self.readable_bytes() > 0).then_some(now);
        }
    }

    /// Whether the progress is worth a record: a quarter of the window; if memory `is_scarce`, half of what
    /// the peer counts as unread.
    pub fn is_report_due(&self, is_scarce: bool) -> bool {
        if self.has_end() {
            return false;
        }
        let half = ((self.highest - self.reported) / 2).max(REPORT_BYTES);
        self.read - self.raised >= self.window / 4
            || (is_scarce && self.read - self.reported >= half)
    }

    /// The progress is reported to the peer, without raising the limit.
    pub const fn report(&mut self) {
        self.reported = self.read;
    }

    /// Raises the limit, since progress is being reported.
    ///
    /// The window doubles, up to `window_max`, if the sender has used all it knew of, or nearly all of its
    /// grant, while the reader keeps up, so that little readable data lies unread, and not for long: then
    /// the window limits the sender. It is halved if the reader is slow: more unread data does not help it.
    pub fn raise_limit(&mut self, window_max: u64) {
        let keeps_up = self.readable_bytes() as u64 <= self.window / 4;
        let whole = self.whole_window_takes();
        if keeps_up && self.limited && whole <= READ_FAST {
            self.limited = false;
            // Fourfold: processes that wait for their processor have few round trips to grow in.
            self.window = (self.window * 4).min(window_max).max(self.window);
        } else if !keeps_up && whole > READ_SLOW {
            self.window /= 2;
        }
        self.window = self.window.min(window_max).max(STREAM_WINDOW_BYTES_MIN);
        self.report();
        self.raised = self.read;
        self.waited = Duration::ZERO;
        self.limit = self.limit.max(self.read + self.window).min(OFFSET_MAX);
    }

    /// How long the reader takes for a window's worth, judged by its reading since the limit was last
    /// raised.
    fn whole_window_takes(&self) -> Duration {
        let windows = self.window as f64 / (self.read - self.raised).max(1) as f64;
        self.waited.mul_f64(windows)
    }

    /// Memory outside of the value itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.memory_bytes() + self.gaps_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = STREAM_WINDOW_BYTES_INITIAL;

    fn arrive(half: &mut ReceiveHalf, now: Time, offset: u64, bytes: u64, held: bool) {
        let data = vec![7; bytes as usize];
        let seg = StreamSegment {
            id: 0,
            offset,
            fin: false,
            held,
            service: (offset == 0).then_some(0),
            data: &data,
        };
        let (mut window, mut pool) = (ReceiveWindow::new(1 << 30), ChunkPool::new(1 << 20));
        window.announce();
        half.on_segment(now, &seg, &mut window, &mut pool).unwrap();
    }

    fn read(half: &mut ReceiveHalf, now: Time, bytes: u64) {
        let read = half.read(&mut vec![0; bytes as usize], &mut ChunkPool::new(1 << 20));
        assert_eq!(read.len as u64, bytes);
        half.on_read(now);
    }

    /// By how much the limit is raised when half of the window was used and read, and its last
    /// piece said this.
    fn raised(held: bool) -> u64 {
        let mut half = ReceiveHalf::new();
        arrive(&mut half, Time::ZERO, 0, WINDOW / 2, held);
        read(&mut half, Time::ZERO, WINDOW / 2);
        let before = half.limit;
        assert!(half.is_report_due(false));
        half.raise_limit(1 << 30);
        half.limit - before
    }

    #[test]
    fn the_window_grows_when_the_sender_was_held_though_much_of_it_seems_free() {
        assert_eq!(raised(false), WINDOW / 2);
        assert_eq!(raised(true), WINDOW / 2 * 7);
    }

    #[test]
    fn a_slow_reader_has_a_small_window_and_a_silent_sender_makes_none_slow() {
        let (mut half, mut now, mut sent) = (ReceiveHalf::new(), Time::ZERO, 0);
        // The sender is silent for ten seconds before each half window.
        for _ in 0..3 {
            now += Duration::from_secs(10);
            arrive(&mut half, now, sent, WINDOW / 2, false);
            sent += WINDOW / 2;
            read(&mut half, now, WINDOW / 2);
            half.raise_limit(1 << 30);
            assert_eq!(half.limit - half.read, WINDOW);
        }
        // The reader takes 4 KB twice a second.
        for _ in 0..40 {
            let more = half.limit - sent;
            arrive(&mut half, now, sent, more, more > 0);
            sent += more;
            now += Duration::from_millis(500);
            read(&mut half, now, 4096);
            if half.is_report_due(false) {
                half.raise_limit(1 << 30);
            }
        }
        assert!(half.unread_bytes() <= STREAM_WINDOW_BYTES_MIN, "{half:?}");
    }

    #[test]
    fn where_memory_is_scarce_what_is_read_is_told_sooner() {
        let mut half = ReceiveHalf::new();
        arrive(&mut half, Time::ZERO, 0, 2 * REPORT_BYTES, false);
        read(&mut half, Time::ZERO, REPORT_BYTES - 1);
        assert!(!half.is_report_due(true));
        read(&mut half, Time::ZERO, 1);
        assert!(half.is_report_due(true) && !half.is_report_due(false));
    }
}
