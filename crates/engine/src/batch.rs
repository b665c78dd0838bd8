//! When to rest amid bulk, so that each turn does more.
//!
//! On a link that is slower than the machine every burst would wake the loop on
//! its own: 64 KB for a wake-up, a receive, an acknowledgement and what these
//! cost the kernel and the peer, which together is more than carrying the bytes.
//! So amid bulk turns begin a while apart, and take what came meanwhile at once.

use core::time::Duration;

use tabane_proto::Time;

/// From the beginning of one turn amid bulk to that of the next. A quarter of the queue that
/// a path aims at, so that the links stay busy while both ends rest; and about what a
/// small packet among the bulk waits longer at most, at each end.
const TURN: Duration = Duration::from_micros(500);
/// A rest shorter than this is not worth a timer.
const REST_MIN: Duration = Duration::from_micros(20);
/// Bytes in a turn that make it bulk.
const BULK_BYTES: usize = 8 * 1024;
/// Bulk that has gone one way for so long goes on: shorter messages and their answers
/// are never kept waiting.
const RUN_BYTES: usize = 1024 * 1024;
/// Bulk that pauses for longer begins anew.
const PAUSE: Duration = Duration::from_millis(2);

/// Bytes of datagrams that a turn took in and sent.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moved {
    pub received: usize,
    pub sent: usize,
}

impl Moved {
    pub const fn bytes(self) -> usize {
        self.received + self.sent
    }

    /// Which ways bulk went.
    const fn ways(self) -> (bool, bool) {
        (self.received > BULK_BYTES, self.sent > BULK_BYTES)
    }
}

#[derive(Default, Debug)]
pub(crate) struct Batching {
    /// Bytes of bulk since it paused or was answered.
    run_bytes: usize,
    ways: (bool, bool),
    bulk_at: Time,
    /// The next turn begins then at the earliest.
    next_turn: Option<Time>,
}

impl Batching {
    /// Ends the turn that began at `now`. `more_waits`: more is queued than the paths take
    /// now; then bulk that goes both ways is no exchange of messages, but two streams.
    pub fn turn(&mut self, now: Time, moved: Moved, more_waits: impl FnOnce() -> bool) {
        self.next_turn = None;
        let ways = moved.ways();
        if ways == (false, false) {
            return;
        }
        let answered = ways != self.ways && !more_waits();
        if answered || now.since(self.bulk_at) > PAUSE {
            self.run_bytes = 0;
        }
        (self.ways, self.bulk_at) = (ways, now);
        self.run_bytes = self.run_bytes.saturating_add(moved.bytes());
        if self.run_bytes >= RUN_BYTES {
            self.next_turn = Some(now + TURN);
        }
    }

    /// How long to rest before anything is looked for.
    pub fn rest(&self, now: Time) -> Option<Duration> {
        let rest = self.next_turn?.since(now);
        (rest >= REST_MIN).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: usize = 64 * 1024;

    fn us(us: u64) -> Time {
        Time::from_ns(us * 1000)
    }

    fn received(bytes: usize) -> Moved {
        Moved {
            received: bytes,
            sent: 100,
        }
    }

    fn sent(bytes: usize) -> Moved {
        Moved {
            received: 100,
            sent: bytes,
        }
    }

    /// Rests after so many turns of this kind, 100 µs apart.
    fn rests(turns: u64, more_waits: bool, moved: impl Fn(u64) -> Moved) -> bool {
        let mut batching = Batching::default();
        for turn in 0..turns {
            batching.turn(us(turn * 100), moved(turn), || more_waits);
        }
        batching.rest(us(turns * 100)).is_some()
    }

    #[test]
    fn a_long_run_rests_and_a_short_one_does_not() {
        assert!(rests(20, false, |_| received(BURST)));
        assert!(rests(20, true, |_| sent(BURST)));
        assert!(!rests(10, false, |_| received(BURST)));
        assert!(!rests(1000, false, |_| received(1500)));
    }

    #[test]
    fn messages_and_answers_are_never_kept_waiting() {
        let exchange = |turn| match turn / 8 % 2 {
            0 => received(BURST),
            _ => sent(BURST),
        };
        assert!(!rests(1000, false, exchange));
        // With more queued than the paths take these are streams.
        assert!(rests(1000, true, exchange));
    }

    #[test]
    fn a_pause_ends_a_run() {
        let mut batching = Batching::default();
        for turn in 0..20 {
            batching.turn(us(turn * 100), received(BURST), || false);
        }
        batching.turn(us(5000), received(BURST), || false);
        assert_eq!(batching.rest(us(5000)), None);
    }

    #[test]
    fn a_turn_that_took_long_is_rest_enough() {
        let mut batching = Batching::default();
        for turn in 0..20 {
            batching.turn(us(turn * 100), received(BURST), || false);
        }
        assert_eq!(batching.rest(us(2000)), Some(Duration::from_micros(400)));
        assert_eq!(batching.rest(us(2390)), None);
        assert_eq!(batching.rest(us(9000)), None);
    }
}
