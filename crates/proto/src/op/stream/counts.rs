//! Sums over streams, of a bundle and of each owner in it. They are updated as streams change, so
//! that no code iterates over all streams.

use std::collections::BTreeMap;

use super::Stream;
use super::receive::ReceiveHalf;
use crate::op::limits::{OWNERS_MAX, REPORT_BYTES};

/// Counts of a stream, or the sums over many.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    /// Bytes never sent.
    pub queued: u64,
    /// Bytes sent and not acknowledged.
    pub in_flight: u64,
    /// Bytes lost and not sent again yet.
    pub lost: u64,
    /// Bytes written and not known to have arrived.
    pub kept: u64,
    /// 1 for a stream whose FIN or RESET the peer has not acknowledged.
    pub ends_owed: u64,
    /// Bytes written beyond the peer's windows.
    pub ahead: u64,
    /// Bytes written within the peer's windows and not known to have been read, except a few that the
    /// peer would not report.
    pub unread_there: u64,
    /// Bytes that have come and were not read.
    pub unread_here: u64,
    /// Memory of the gaps in the peer's data.
    pub gaps_bytes: u64,
    /// Heap memory of the stream's sending half.
    pub sending_heap_bytes: u64,
    /// Heap memory of the stream's receiving half.
    pub receiving_heap_bytes: u64,
}

impl Counts {
    fn of(stream: &Stream) -> Counts {
        let send = &stream.send;
        let mut counts = Counts {
            queued: send.queued_bytes(),
            in_flight: send.in_flight_bytes(),
            lost: send.lost.covered(),
            kept: send.kept_bytes(),
            ends_owed: u64::from(send.owes_end()),
            ahead: send.ahead_bytes(),
            unread_there: send.unread_bytes().saturating_sub(REPORT_BYTES),
            sending_heap_bytes: send.heap_bytes() as u64,
            ..Counts::default()
        };
        counts.see_received(&stream.receive);
        counts
    }

    /// Counts of the receiving half.
    #[inline]
    fn see_received(&mut self, receive: &ReceiveHalf) {
        self.unread_here = receive.unread_bytes();
        self.gaps_bytes = receive.gaps_bytes() as u64;
        self.receiving_heap_bytes = receive.heap_bytes() as u64;
    }

    fn fields(&mut self) -> [&mut u64; 11] {
        [
            &mut self.queued,
            &mut self.in_flight,
            &mut self.lost,
            &mut self.kept,
            &mut self.ends_owed,
            &mut self.ahead,
            &mut self.unread_there,
            &mut self.unread_here,
            &mut self.gaps_bytes,
            &mut self.sending_heap_bytes,
            &mut self.receiving_heap_bytes,
        ]
    }

    /// Those of the counts that [`see_received`](Counts::see_received) counts.
    fn received(&mut self) -> [&mut u64; 3] {
        [
            &mut self.unread_here,
            &mut self.gaps_bytes,
            &mut self.receiving_heap_bytes,
        ]
    }

    /// Replaces `before` by `after`.
    fn shift(&mut self, mut before: Counts, mut after: Counts) {
        shift_each(self.fields(), before.fields(), after.fields());
    }
}

/// As [`Counts::shift`], of these fields.
#[inline]
fn shift_each<const FIELDS: usize>(
    totals: [&mut u64; FIELDS],
    before: [&mut u64; FIELDS],
    after: [&mut u64; FIELDS],
) {
    for (total, (before, after)) in totals.into_iter().zip(before.into_iter().zip(after)) {
        debug_assert!(*total >= *before);
        *total = *total - *before + *after;
    }
}

/// The sums of a bundle.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Over all streams.
    pub all: Counts,
    /// For each owner but 0: the sums over its streams, and their number. Owners without a stream are
    /// not here.
    owners: BTreeMap<u32, (Counts, usize)>,
}

impl Sums {
    /// A stream may have changed.
    #[inline]
    pub fn count(&mut self, stream: &mut Stream) {
        let (before, after) = (stream.counted, Counts::of(stream));
        debug_assert!(after.ahead <= after.queued && after.lost <= after.in_flight);
        if before != after {
            self.shift(stream.owner, before, after);
            stream.counted = after;
        }
    }

    /// A stream is no more.
    pub fn forget(&mut self, stream: &mut Stream) {
        self.set_owner(stream, 0);
        self.shift(0, stream.counted, Counts::default());
        stream.counted = Counts::default();
    }

    /// Gives a stream to `owner`. Returns whether there was room for another owner; if not, the
    /// stream is nobody's.
    pub fn set_owner(&mut self, stream: &mut Stream, owner: u32) -> bool {
        let counted = stream.counted;
        if stream.owner != 0
            && let Some((sums, streams)) = self.owners.get_mut(&stream.owner)
        {
            sums.shift(counted, Counts::default());
            *streams -= 1;
            if *streams == 0 {
                debug_assert_eq!(*sums, Counts::default());
                self.owners.remove(&stream.owner);
            }
        }
        let has_room =
            owner == 0 || self.owners.len() < OWNERS_MAX || self.owners.contains_key(&owner);
        stream.owner = if has_room { owner } else { 0 };
        if stream.owner != 0 {
            let (sums, streams) = self.owners.entry(owner).or_default();
            sums.shift(Counts::default(), counted);
            *streams += 1;
        }
        debug_assert!(self.is_part_of_all(stream.owner));
        has_room
    }

    /// The sums over the streams of `owner`; `None` if it is nobody.
    pub fn of_owner(&self, owner: u32) -> Option<&Counts> {
        if owner == 0 {
            return None;
        }
        self.owners.get(&owner).map(|owner| &owner.0)
    }

    fn shift(&mut self, owner: u32, before: Counts, after: Counts) {
        self.change(owner, |sums| sums.shift(before, after));
    }

    /// Changes the sums over all streams and, if `owner` is somebody, over its streams.
    #[inline]
    fn change(&mut self, owner: u32, mut change: impl FnMut(&mut Counts)) {
        change(&mut self.all);
        if owner != 0
            && let Some((sums, _)) = self.owners.get_mut(&owner)
        {
            change(sums);
        }
        debug_assert!(self.is_part_of_all(owner));
    }

    /// Whether no sum over an owner's streams exceeds that over all.
    fn is_part_of_all(&self, owner: u32) -> bool {
        let (mut all, sums) = (self.all, self.of_owner(owner));
        let mut sums = sums.copied().unwrap_or_default();
        let mut pairs = all.fields().into_iter().zip(sums.fields());
        pairs.all(|(all, of_owner)| *of_owner <= *all)
    }

    /// `bytes` of a stream were sent for the first time: as [`count`](Sums::count), but this is all
    /// that has changed.
    #[inline]
    pub fn count_sent(&mut self, stream: &mut Stream, bytes: u64) {
        let send = |counts: &mut Counts| {
            counts.queued -= bytes;
            counts.in_flight += bytes;
        };
        send(&mut stream.counted);
        self.change(stream.owner, send);
        debug_assert_eq!(stream.counted, Counts::of(stream));
    }

    /// Data of a stream has arrived: like [`count`](Sums::count), but nothing else has changed.
    #[inline]
    pub fn count_received(&mut self, stream: &mut Stream) {
        let mut before = stream.counted;
        stream.counted.see_received(&stream.receive);
        let mut after = stream.counted;
        self.change(stream.owner, |sums| {
            shift_each(sums.received(), before.received(), after.received());
        });
        debug_assert_eq!(stream.counted, Counts::of(stream));
    }

    /// Whether the sums are what `streams` come to.
    #[cfg(debug_assertions)]
    pub fn are_right<'a>(&self, streams: impl Iterator<Item = &'a Stream>) -> bool {
        let mut right = Sums::default();
        for stream in streams {
            let now = Counts::of(stream);
            right.all.shift(Counts::default(), now);
            if stream.owner != 0 {
                let (sums, count) = right.owners.entry(stream.owner).or_default();
                sums.shift(Counts::default(), now);
                *count += 1;
            }
        }
        right.all == self.all && right.owners == self.owners
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.owners.len() * size_of::<(u32, (Counts, usize))>()
    }
}
