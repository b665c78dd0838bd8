//! How much is read from the virtual NIC ahead of what can be sent.
//!
//! Unread frames wait in the kernel, in one queue for all flows: a ping waits there behind all of TCP's data in
//! flight, 2.5 MB for each connection. Frames that were read wait in the queues of their flows, which take turns.
//! While nothing waits for long, little is read ahead, since frames that were just read are still in the
//! processor's cache when they are sent. When the kernel's queue may be standing, more is read, so that it can be
//! seen here that it is ([`Ops::frames_stand`](tabane_proto::op::Ops::frames_stand)). Then everything is read.

use core::time::Duration;

use tabane_proto::Time;

/// Read ahead while the kernel's queue is empty now and then, for each peer in use.
pub const QUEUE_BYTES: usize = 512 * 1024;
/// The same if it was not for [`BACKLOG`]: frames must wait for [`LATE`](tabane_proto::op::LATE) to be seen to
/// stand, also on links of 4 Gb/s together.
const BACKLOG_BYTES: usize = 3 * 1024 * 1024;
/// See [`BACKLOG_BYTES`]: an interval of CoDel (RFC 8289 section 4.2), as for the queues here.
const BACKLOG: Duration = Duration::from_millis(100);

/// How much that is at the moment.
#[derive(Clone, Copy, Debug)]
pub struct ReadAhead {
    bytes: usize,
    /// Since when there was always more to read than might be.
    backlog_since: Option<Time>,
}

impl ReadAhead {
    /// Little.
    pub const fn new() -> ReadAhead {
        ReadAhead {
            bytes: QUEUE_BYTES,
            backlog_since: None,
        }
    }

    /// Reading pauses when this much waits to be sent, for each peer in use.
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Reading pauses although there is more.
    pub fn on_pause(&mut self, now: Time) {
        let since = *self.backlog_since.get_or_insert(now);
        if now.since(since) >= BACKLOG {
            self.bytes = BACKLOG_BYTES;
        }
    }

    /// The device was read empty, and `queued_bytes` wait to be sent. If that is more than a little, it would wait
    /// in the kernel if less were read ahead.
    pub const fn on_empty(&mut self, queued_bytes: usize) {
        if queued_bytes < QUEUE_BYTES {
            *self = ReadAhead::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every millisecond until `ms`, reading pauses with more to be read.
    fn pauses(ahead: &mut ReadAhead, ms: core::ops::RangeInclusive<u64>) {
        ms.for_each(|ms| ahead.on_pause(Time::from_ms(ms)));
    }

    #[test]
    fn more_is_read_when_the_kernels_queue_stands_and_until_it_is_gone() {
        let mut ahead = ReadAhead::new();
        pauses(&mut ahead, 1..=100);
        assert_eq!(ahead.bytes(), QUEUE_BYTES);
        pauses(&mut ahead, 101..=101);
        assert_eq!(ahead.bytes(), BACKLOG_BYTES);
        // It is here now.
        ahead.on_empty(BACKLOG_BYTES - 1);
        assert_eq!(ahead.bytes(), BACKLOG_BYTES);
        ahead.on_empty(QUEUE_BYTES - 1);
        assert_eq!(ahead.bytes(), QUEUE_BYTES);
    }

    #[test]
    fn bursts_are_not_read_ahead() {
        let mut ahead = ReadAhead::new();
        for burst in 0..100 {
            pauses(&mut ahead, burst * 100 + 1..=burst * 100 + 99);
            ahead.on_empty(0);
            assert_eq!(ahead.bytes(), QUEUE_BYTES);
        }
    }
}
