//! Who may write how much, and who is offered room.
//!
//! Written data is kept until it is acknowledged, and stays with the peer until it is read. Both are bounded for all
//! streams together, and a stream that its peer does not read must leave room for the others: each may have a part of
//! what is still free (the dynamic threshold of Choudhury and Hahne, 1998), so that something always is free.
//!
//! The sender sees to that. A receiver cannot take back what it has granted: if it grants each of many streams what is
//! free while nothing is unread, all of them together can use up everything. So a receiver's grant to a stream follows
//! that stream's reader, and says how much was read. The sender gives out what all streams share when bytes are written,
//! where it is known best. A quarter of the window is for streams of which something was read in the last second; of half
//! of that quarter new streams may have a little, to be seen to be read.
//!
//! A writer stands in line if it found no room for what others have unread. A writer that only filled its own queue does
//! not: it would wait its turn among hundreds of streams that nobody reads (iperf3 had 0.8 of its rate). The same rule
//! holds one level up between the owners of streams ([`left_to_owner`]), and above that between the bundles of a node
//! (`context/budget.rs`).

use std::collections::VecDeque;

use super::{OpEvent, Shared, Stream, StreamId, Streams};
use crate::Time;
use crate::op::OpError;
use crate::op::limits::{
    AHEAD_BYTES_MAX, NEWCOMERS_PART, OFFER_BYTES_MAX, OFFERS_AGAIN, OFFERS_MAX, READ_SLOW,
    REPORT_AFTER, REPORT_BYTES, STREAM_FIRST_BYTES, STREAM_PART,
};

/// What limits a stream's writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    /// Nothing.
    None,
    /// This stream's kept or queued data: it ends when some of it is acknowledged or sent.
    Own,
    /// The stream's window: it ends when the peer raises it.
    Window,
    /// Data of others that is kept or unread.
    Others,
}

/// Writers that wait for others to leave room, and those that have an offer.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// In the order of waiting.
    waiting: VecDeque<u64>,
    /// How many of them, from the front, must be checked because something changed.
    to_see: usize,
    /// Not before then, since the last look was long and in vain.
    see_at: Time,
    /// The last look ended before all were seen: then the next is due at this time.
    again_at: Option<Time>,
    /// Offers and their times, the oldest first. Some are used, or their streams are gone.
    offers: VecDeque<(Time, u64)>,
    /// Room that was offered and not used yet.
    offered_bytes: u64,
}

impl Waiters {
    /// Something changed that may let any of them go on.
    pub fn see_all(&mut self) {
        self.to_see = self.waiting.len();
    }

    /// A stream's writer came, or never will: its offer is free again.
    pub fn take_back(&mut self, stream: &mut Stream) {
        self.offered_bytes -= core::mem::take(&mut stream.send.offered_bytes);
    }

    /// When offers must be checked again.
    pub fn next_timeout(&self) -> Option<Time> {
        if self.to_see == 0 {
            return None;
        }
        let expires = self.offers.front().map(|offer| offer.0 + REPORT_AFTER);
        self.again_at.into_iter().chain(expires).min()
    }

    /// Whether the sum of offers is `offered_bytes`, and only waiters are to be checked.
    #[cfg(debug_assertions)]
    pub fn is_right(&self, offered_bytes: u64) -> bool {
        self.offered_bytes == offered_bytes && self.to_see <= self.waiting.len()
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.waiting.shrink_to(2 * self.waiting.len());
        self.offers.shrink_to(2 * self.offers.len());
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<u64>()
            + self.offers.capacity() * size_of::<(Time, u64)>()
    }
}

impl Streams {
    /// How many of `wanted` bytes can be written to stream `id` now. If not all, its writer waits for
    /// room.
    pub(super) fn room(
        &mut self,
        id: StreamId,
        wanted: usize,
        shared: &Shared,
    ) -> Result<usize, OpError> {
        self.known(id)?;
        let Some(stream) = self.table.get_mut(id.0) else {
            return Err(OpError::UnknownStream);
        };
        self.waiters.take_back(stream);
        if !stream.send.is_open() {
            return Err(OpError::Closed);
        }
        let Some(stream) = self.table.get(id.0) else {
            return Err(OpError::UnknownStream);
        };
        let own = stream.send.own_room(&shared.limits);
        let (admitted, bound) = self.admitted(stream, shared);
        let pool = (shared.limits.streams_send_bytes as u64).saturating_sub(self.sums.all.kept);
        let first = STREAM_FIRST_BYTES.saturating_sub(stream.send.unread_bytes());
        let all = pool.min(admitted).max(first);
        let room = own.min(all).min(wanted as u64) as usize;
        if room < wanted {
            let bound = match () {
                () if own <= all => Bound::Own,
                () if pool < admitted => Bound::Others,
                () => bound,
            };
            self.wait(id.0, wanted - room, bound);
        }
        Ok(room)
    }

    /// The writer of stream `id` has more, but no room.
    fn wait(&mut self, id: u64, wanted: usize, bound: Bound) {
        if let Some(stream) = self.table.get_mut(id) {
            stream.send.was_full = true;
            stream.send.queue_was_full = bound == Bound::Own;
            stream.send.wanted_bytes = (wanted as u64).min(OFFER_BYTES_MAX);
        }
        if bound == Bound::Others {
            self.wait_in_line(id);
        }
    }

    /// Stream `id` waits for others to leave room.
    fn wait_in_line(&mut self, id: u64) {
        if let Some(stream) = self.table.get_mut(id)
            && !stream.send.in_line
        {
            stream.send.in_line = true;
            self.waiters.waiting.push_back(id);
            self.waiters.see_all();
        }
    }

    /// How many more bytes the peer's windows admit for a stream, and what bounds them.
    ///
    /// Written bytes have the peer's room reserved for them: when they are sent there is room, whatever
    /// others do.
    fn admitted(&self, stream: &Stream, shared: &Shared) -> (u64, Bound) {
        let (send, all) = (&stream.send, &self.sums.all);
        let owner = self.sums.of_owner(stream.owner);
        let window = &shared.send_window;
        let promised = all.queued - all.ahead;
        let free = window.available().saturating_sub(promised);
        let left = left_to_owner(free, owner.map(|owner| owner.unread_there));
        let part = |of: u64, unread: u64| {
            (of / STREAM_PART).saturating_sub(unread) / (STREAM_PART + 1) * STREAM_PART
        };
        let unread = send.unread_bytes().saturating_sub(REPORT_BYTES);
        let is_read = send.read_at.is_some_and(|at| shared.now < at + READ_SLOW);
        let share = if is_read {
            part(left, unread)
        } else {
            // Half of the reserve is for those that are new, until they are seen to be read.
            let reserve = window.bytes() / STREAM_PART;
            let new = left.saturating_sub(reserve / 2) / NEWCOMERS_PART;
            part(left.saturating_sub(reserve), unread).max(part(new, send.unread_bytes()))
        };
        let by_window = send.limit.saturating_sub(send.written);
        if share < by_window {
            return (share, Bound::Others);
        }
        let pool = shared.limits.streams_send_bytes as u64 / STREAM_PART;
        let free = left_to_owner(
            pool.saturating_sub(all.ahead),
            owner.map(|owner| owner.ahead),
        );
        let ahead = (free / STREAM_PART).min(AHEAD_BYTES_MAX);
        (
            by_window + ahead.saturating_sub(send.ahead_bytes()),
            Bound::Window,
        )
    }

    /// What keeps the writer of stream `id` from writing a good part of what it wants.
    fn bound(&self, stream: &Stream, shared: &Shared) -> Bound {
        let send = &stream.send;
        if !send.has_good_room(&shared.limits) {
            return Bound::Own;
        }
        let wanted = send.wanted_bytes.min(REPORT_BYTES);
        let (admitted, bound) = self.admitted(stream, shared);
        if admitted < wanted {
            return bound;
        }
        if self.sums.all.kept + self.waiters.offered_bytes > all_kept_max(shared) {
            return Bound::Others;
        }
        Bound::None
    }

    /// Tells the writer of stream `id` if there is room and it waits for it; then others.
    pub(super) fn offer_room(&mut self, id: u64, shared: &mut Shared) {
        self.offer_room_to(id, shared);
        self.offer_room_in_line(shared);
    }

    /// Tells the writer of stream `id` if there is room and it waits for it.
    #[inline]
    pub(super) fn offer_room_to(&mut self, id: u64, shared: &mut Shared) {
        let Some(stream) = self.table.get(id).filter(|s| s.send.was_full) else {
            return;
        };
        // Those in line were there first. But the line is long if many streams are not read, and while
        // little is kept, each of them waits for its own reader.
        let kept = self.sums.all.kept + self.waiters.offered_bytes;
        let goes_ahead = self.waiters.to_see == 0 || kept <= all_kept_max(shared) / 2;
        match self.bound(stream, shared) {
            _ if !stream.send.is_open() => self.offer(id, shared),
            Bound::None if goes_ahead => self.offer(id, shared),
            Bound::None | Bound::Others => self.wait_in_line(id),
            Bound::Own | Bound::Window => {}
        }
    }

    /// Offers room, if there is some, to those that have waited longest for others: to no more of them
    /// than there is room for, a few at a time.
    pub(super) fn offer_room_in_line(&mut self, shared: &mut Shared) {
        self.expire_offers(shared.now);
        if self.waiters.to_see == 0 || shared.now < self.waiters.see_at {
            return;
        }
        self.waiters.again_at = None;
        let mut offered = 0;
        for _ in 0..OFFERS_MAX.min(self.waiters.to_see) {
            if self.sums.all.kept + self.waiters.offered_bytes > all_kept_max(shared) {
                return;
            }
            let Some(id) = self.waiters.waiting.pop_front() else {
                break;
            };
            self.waiters.to_see -= 1;
            let Some(stream) = self.table.get_mut(id) else {
                continue;
            };
            stream.send.in_line = false;
            let Some(stream) = self.table.get(id).filter(|s| s.send.was_full) else {
                continue;
            };
            match self.bound(stream, shared) {
                _ if !stream.send.is_open() => self.offer(id, shared),
                Bound::None => {
                    self.offer(id, shared);
                    offered += 1;
                }
                Bound::Own | Bound::Window => {}
                Bound::Others => {
                    self.waiters.waiting.push_back(id);
                    if let Some(stream) = self.table.get_mut(id) {
                        stream.send.in_line = true;
                    }
                }
            }
        }
        let again_at = shared.now + OFFERS_AGAIN;
        self.waiters.again_at = (self.waiters.to_see > 0).then_some(again_at);
        if offered == 0 {
            self.waiters.see_at = again_at;
        }
    }

    /// Tells the writer of stream `id` of room, or that its stream is closed.
    fn offer(&mut self, id: u64, shared: &mut Shared) {
        let Some(stream) = self.table.get_mut(id) else {
            return;
        };
        let send = &mut stream.send;
        send.was_full = false;
        if send.queue_was_full {
            send.queue_bound.on_offered();
        }
        if send.is_open() {
            self.waiters.offered_bytes += send.wanted_bytes - send.offered_bytes;
            send.offered_bytes = send.wanted_bytes;
            send.offered_at = shared.now;
            self.waiters.offers.push_back((shared.now, id));
        }
        shared.events.push_back(OpEvent::Writable(StreamId(id)));
    }

    /// Offers that were not used in time expire.
    fn expire_offers(&mut self, now: Time) {
        while let Some(&(at, id)) = self.waiters.offers.front() {
            let stream = self.table.get_mut(id);
            let stream = stream.filter(|s| s.send.offered_bytes > 0 && s.send.offered_at == at);
            if let Some(stream) = stream {
                if now < at + REPORT_AFTER {
                    break;
                }
                self.waiters.offered_bytes -= core::mem::take(&mut stream.send.offered_bytes);
            }
            self.waiters.offers.pop_front();
        }
    }
}

/// How much more of `free` a stream's owner may use after `used`: its streams together as much as others
/// leave them. Each stream may then have a part of that.
pub(super) fn left_to_owner(free: u64, used: Option<u64>) -> u64 {
    used.map_or(free, |used| free.saturating_sub(used) / 2)
}

/// What all streams together may keep for there to be a good part of the room again.
const fn all_kept_max(shared: &Shared) -> u64 {
    shared.limits.streams_send_bytes as u64 / 4 * 3
}
