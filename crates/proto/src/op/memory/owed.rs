//! Which bytes of something are still owed to the peer.

use core::ops::Range;

use crate::segment::RangeSet;

/// Bytes of a known number: sent, arrived, lost.
#[derive(Debug)]
pub(super) struct Owed {
    total: u64,
    /// Everything before it was sent at least once.
    next: u64,
    /// What the peer has acknowledged.
    acked: RangeSet,
    /// What must be sent again.
    lost: RangeSet,
}

impl Owed {
    /// All of `total` bytes are owed.
    pub fn new(total: u64) -> Owed {
        Owed {
            total,
            next: 0,
            acked: RangeSet::new(),
            lost: RangeSet::new(),
        }
    }

    /// What was never sent.
    pub const fn unsent(&self) -> Range<u64> {
        self.next..self.total
    }

    /// The first bytes that are lost.
    pub fn first_lost(&self) -> Option<Range<u64>> {
        self.lost.first()
    }

    /// Of these bytes, the first that were sent and are not known to have arrived.
    pub fn first_unacked(&self, range: Range<u64>) -> Option<Range<u64>> {
        self.acked.first_gap(range.start..range.end.min(self.next))
    }

    /// `bytes` of the unsent were sent.
    pub fn sent(&mut self, bytes: u64) {
        self.next += bytes;
    }

    /// So many of the first that are lost are sent again.
    pub fn sent_again(&mut self, bytes: u64) {
        self.lost.pop_front(bytes);
    }

    /// These have arrived; returns whether all have.
    pub fn on_acked(&mut self, range: Range<u64>) -> bool {
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        self.acked.insert(range);
        self.acked.covered() == self.total
    }

    /// These are lost, unless they have arrived by another packet.
    pub fn on_lost(&mut self, mut range: Range<u64>) {
        while let Some(gap) = self.acked.first_gap(range.clone()) {
            range.start = gap.end;
            self.lost.insert(gap);
        }
    }

    /// Bytes that are lost and not sent again.
    pub fn lost_bytes(&self) -> u64 {
        self.lost.covered()
    }

    /// Bytes that were sent and are not known to have arrived, lost ones included.
    pub fn in_flight_bytes(&self) -> u64 {
        self.next - self.acked.covered()
    }

    /// Memory held beside itself, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.acked.heap_bytes() + self.lost.heap_bytes()
    }
}
