//! When to rest amid bulk, so that each turn does more.
//!
//! On a link that is slower than the machine, every burst of 64 KB would wake the loop: the
//! wake-up, the receive, the acknowledgement and their costs in the kernel and at the peer
//! exceed the cost of carrying the bytes. So amid bulk, turns begin some time apart, and each
//! takes in everything that has arrived. Where the machine is slower than the link, the loop
//! hardly waits and turns are large anyway: a rest would only waste time.
//!
//! Messages and their answers never wait for a rest. A sender that has more to send fills each packet, so a packet of
//! content that is not full ends a message. What goes one way for 4 MB without such an end is bulk. If several peers
//! send, nobody waits.

use core::time::Duration;
use tabane_proto::GRANULARITY;
use tabane_proto::link::thresholds::{ACK_DELAY_MAX, BURST_BYTES_MAX, QUEUE_TARGET};

use tabane_proto::{RanOut, Time};

/// What a turn amid bulk is to move: four bursts.
const TURN_BYTES: usize = 4 * BURST_BYTES_MAX;
/// Longest time from the beginning of a turn that sends bulk to that of the next: as long as an acknowledgement may wait, a
/// quarter of the queue that a path aims at, so that the links stay busy meanwhile.
const SENDING_MAX: Duration = ACK_DELAY_MAX;
/// The same of a turn that only takes bulk in. An acknowledgement waits as long, and so does a small packet among the bulk.
const RECEIVING_MAX: Duration = GRANULARITY;
/// A rest saves nothing once the loop works for more than this share of its time: the processor is the limit, or soon would
/// be.
const BUSY_MAX: f64 = 0.4;
/// Number of turns over which that share is smoothed.
const BUSY_TURNS: f64 = 16.0;
/// A rest shorter than this is not worth a timer; and who never waits does what is not content this often.
pub(crate) const REST_MIN: Duration = Duration::from_micros(20);
/// A turn that moves more bytes than this is bulk; so is a larger write of a program.
pub const BULK_BYTES: usize = 8 * 1024;
/// A sender that had more to send all the time, and sent this much one way, is expected to go on. Shorter messages and their
/// answers never wait for a rest.
const RUN_BYTES: usize = 4 * 1024 * 1024;
/// Bulk that pauses for longer than the queue that a path aims at begins anew.
pub(crate) const PAUSE: Duration = QUEUE_TARGET;

/// What a turn received and sent.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moved {
    /// Bytes of datagrams taken in.
    pub received: usize,
    /// Bytes of datagrams sent.
    pub sent: usize,
    /// Several peers sent them, or several send to the same peer.
    pub of_several: bool,
    /// More had arrived than the turn took in.
    pub more_arrived: bool,
    /// Which sender has nothing more to send.
    pub ran_out: RanOut,
}

impl Moved {
    pub const fn bytes(self) -> usize {
        self.received + self.sent
    }

    /// In which directions (receiving, sending) bulk went.
    const fn ways(self) -> (bool, bool) {
        (self.received > BULK_BYTES, self.sent > BULK_BYTES)
    }
}

#[derive(Default, Debug)]
pub(crate) struct Batching {
    /// Bytes of bulk in one direction since it paused, was answered, or its sender ran out.
    run_bytes: usize,
    /// Bytes since the sender of the bulk last ran out.
    message_bytes: usize,
    ways: (bool, bool),
    /// More was queued than the paths took.
    more_waited: bool,
    bulk_at: Time,
    /// Total working time of the loop when the last turn of bulk began.
    worked: Duration,
    /// Recent share of the time that the loop works.
    busy: f64,
    /// The earliest start of the next turn.
    next_turn: Option<Time>,
}

impl Batching {
    /// Ends the turn that began at `now`; `worked` is the loop's total working time.
    /// `more_waits`: more is queued than the paths take now. If that holds every time, bulk in
    /// both directions is two streams and not an exchange of messages. Returns the length of a
    /// message that ended: its sender ran out.
    pub fn turn(
        &mut self,
        now: Time,
        worked: Duration,
        moved: Moved,
        more_waits: impl FnOnce() -> bool,
    ) -> Option<usize> {
        self.next_turn = None;
        if moved.of_several {
            self.run_bytes = 0;
            return None;
        }
        let ways = moved.ways();
        let (receives, sends) = match ways {
            (false, false) => self.ways,
            ways => ways,
        };
        // The other direction always runs out: TCP's acknowledgements, requests.
        let ran_out = (receives && moved.ran_out.peer) || (sends && moved.ran_out.here);
        self.message_bytes = self.message_bytes.saturating_add(moved.bytes());
        let mut message = None;
        if ran_out {
            self.run_bytes = 0;
            message = Some(core::mem::take(&mut self.message_bytes));
        }
        if ways == (false, false) {
            return message;
        }
        let more_waits = more_waits();
        let answered = ways != self.ways && !(more_waits && self.more_waited);
        let elapsed = now.since(self.bulk_at);
        if answered || elapsed > PAUSE {
            self.run_bytes = 0;
        }
        (self.ways, self.more_waited, self.bulk_at) = (ways, more_waits, now);
        self.sample_busy(worked, elapsed);
        if !ran_out {
            self.run_bytes = self.run_bytes.saturating_add(moved.bytes());
        }
        if self.run_bytes >= RUN_BYTES && !moved.more_arrived && self.busy <= BUSY_MAX {
            let (_, sending) = ways;
            let at_most = if sending { SENDING_MAX } else { RECEIVING_MAX };
            let enough = elapsed.mul_f64(TURN_BYTES as f64 / moved.bytes() as f64);
            self.next_turn = Some(now + enough.min(at_most));
        }
        message
    }

    fn sample_busy(&mut self, worked: Duration, elapsed: Duration) {
        let work = worked.saturating_sub(self.worked);
        self.worked = worked;
        if !elapsed.is_zero() {
            let share = work.div_duration_f64(elapsed).min(1.0);
            self.busy += (share - self.busy) / BUSY_TURNS;
        }
    }

    /// How long to rest before polling.
    pub fn rest(&self, now: Time) -> Option<Duration> {
        let rest = self.next_turn?.since(now);
        (rest >= REST_MIN).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: usize = 64 * 1024;
    const TURNS: u64 = 100;

    fn us(us: u64) -> Time {
        Time::from_ns(us * 1000)
    }

    fn received(bytes: usize) -> Moved {
        Moved {
            received: bytes,
            ..Moved::default()
        }
    }

    fn sent(bytes: usize) -> Moved {
        Moved {
            sent: bytes,
            ..Moved::default()
        }
    }

    /// State after a hundred turns of this kind, one every `every_us`.
    fn amid(every_us: u64, moved: Moved) -> Batching {
        amid_working(every_us, 0, moved)
    }

    /// The same, where each turn keeps the loop busy for `work_us`.
    fn amid_working(every_us: u64, work_us: u64, moved: Moved) -> Batching {
        let mut batching = Batching::default();
        for turn in 0..TURNS {
            let worked = Duration::from_micros(turn * work_us);
            batching.turn(us(turn * every_us), worked, moved, || false);
        }
        batching
    }

    /// Whether it rests after `turns` turns of this kind, 100 µs apart.
    fn rests(turns: u64, more_waits: fn(u64) -> bool, moved: impl Fn(u64) -> Moved) -> bool {
        let mut batching = Batching::default();
        for turn in 0..turns {
            batching.turn(us(turn * 100), Duration::ZERO, moved(turn), || {
                more_waits(turn)
            });
        }
        batching.rest(us(turns * 100)).is_some()
    }

    #[test]
    fn a_long_run_rests_and_a_short_one_does_not() {
        assert!(rests(TURNS, |_| false, |_| received(BURST)));
        assert!(rests(TURNS, |_| true, |_| sent(BURST)));
        assert!(!rests(50, |_| false, |_| received(BURST)));
        assert!(!rests(1000, |_| false, |_| received(1500)));
    }

    #[test]
    fn messages_and_answers_are_never_kept_waiting() {
        // Answers of 2 MB; more waits until the last part.
        let answers = |turn| turn / 32 % 2 == 1;
        let exchange = |turn| match answers(turn) {
            true => sent(BURST),
            false => received(BURST),
        };
        for turns in 0..1000 {
            let more_waits = |turn| turn / 32 % 2 == 1 && turn % 32 < 31;
            assert!(!rests(turns, more_waits, exchange));
        }
        // If more always waits, these are streams.
        assert!(rests(1000, |_| true, exchange));
    }

    #[test]
    fn answers_to_short_requests_are_not_kept_waiting() {
        // Files of 1 MB, requested with a few bytes each.
        let here = RanOut {
            here: true,
            ..RanOut::default()
        };
        let peer = RanOut {
            peer: true,
            ..RanOut::default()
        };
        for (moved, last) in [(received(BURST), peer), (sent(BURST), here)] {
            let asked = |ran_out: RanOut| {
                rests(
                    1000,
                    |_| false,
                    |turn| Moved {
                        ran_out: if turn % 16 == 0 {
                            ran_out
                        } else {
                            RanOut::default()
                        },
                        ..moved
                    },
                )
            };
            assert!(!asked(last));
            // Acknowledgements of a stream are equally short.
            let other = RanOut {
                here: !last.here,
                peer: !last.peer,
            };
            assert!(asked(other));
        }
    }

    #[test]
    fn a_pause_ends_a_run() {
        let mut batching = amid(100, received(BURST));
        batching.turn(us(15_000), Duration::ZERO, received(BURST), || false);
        assert_eq!(batching.rest(us(15_000)), None);
    }

    #[test]
    fn while_one_peer_sends_bulk_another_is_not_kept_waiting() {
        let mut batching = amid(100, received(BURST));
        let of_several = Moved {
            of_several: true,
            ..received(BURST)
        };
        batching.turn(us(10_000), Duration::ZERO, of_several, || false);
        assert_eq!(batching.rest(us(10_000)), None);
        batching.turn(us(10_100), Duration::ZERO, received(BURST), || false);
        assert_eq!(batching.rest(us(10_100)), None);
    }

    #[test]
    fn a_loop_at_work_most_of_the_time_does_not_rest() {
        let rests = |work_us| {
            let batching = amid_working(100, work_us, received(BURST));
            batching.rest(us((TURNS - 1) * 100)).is_some()
        };
        assert!(rests(30));
        assert!(!rests(50));
        assert!(!rests(100));
    }

    #[test]
    fn what_has_arrived_is_taken_in_first() {
        let more_arrived = Moved {
            more_arrived: true,
            ..received(BURST)
        };
        assert_eq!(amid(100, more_arrived).rest(us(9900)), None);
    }

    #[test]
    fn a_rest_is_as_long_as_four_bursts_take_but_bounded() {
        let rest = |every_us, moved| amid(every_us, moved).rest(us((TURNS - 1) * every_us));
        assert_eq!(rest(100, received(BURST)), Some(Duration::from_micros(400)));
        assert_eq!(rest(400, received(BURST)), Some(RECEIVING_MAX));
        assert_eq!(rest(400, sent(BURST)), Some(SENDING_MAX));
        assert_eq!(rest(4, received(BURST)), None);
        // A turn that took that long is rest enough.
        assert_eq!(amid(100, received(BURST)).rest(us(10_290)), None);
        assert_eq!(amid(100, received(BURST)).rest(us(19_000)), None);
    }
}
