//! How long the frames of a flow wait to be sent (sojourn time), and when to drop one.
//!
//! A queue that was short a moment ago is a burst, which is good. If every frame has waited
//! for a while, the queue is *standing* (CoDel, RFC 8289): it adds delay and no throughput.
//! Each flow is judged alone (FlowQueue-CoDel, RFC 8290), since flows take turns: a short flow
//! does not wait for a long one, if both queue here and not somewhere before.
//!
//! Two things differ. TCP has packets of 62,000 bytes and more here, so that its minimum in
//! flight is a queue of many times CoDel's target on a slow link; and links hang for a moment.
//! So frames are dropped late, and one for each time that the queue is gone through: TCP slows
//! down once for all losses of a round trip.

use crate::Time;
use crate::op::limits::{FRAMES_KEPT, LATE, STANDING_AFTER, STANDING_DROP_AFTER};

/// State of one flow's queueing.
#[derive(Debug, Default)]
pub(super) struct Sojourn {
    /// Since when every frame was late.
    late_since: Option<Time>,
    /// Since when every frame has waited for longer than it should at most.
    overdue_since: Option<Time>,
    dropped_at: Option<Time>,
    stands: bool,
}

impl Sojourn {
    /// It is the turn of a frame queued at `queued`, with `behind` frames after it. Returns
    /// whether to drop it instead.
    #[inline]
    pub fn on_turn(&mut self, now: Time, queued: Time, behind: usize) -> bool {
        let waited = now.since(queued);
        if waited <= LATE {
            self.on_empty();
            return false;
        }
        let late_since = *self.late_since.get_or_insert(now);
        self.stands |= now.since(late_since) >= STANDING_AFTER;
        if waited <= STANDING_DROP_AFTER {
            self.overdue_since = None;
            return false;
        }
        let overdue_since = *self.overdue_since.get_or_insert(now);
        // Frames queued before the last drop do not show its effect.
        let drops = now.since(overdue_since) >= STANDING_DROP_AFTER
            && behind >= FRAMES_KEPT
            && self.dropped_at.is_none_or(|at| queued > at);
        if drops {
            self.dropped_at = Some(now);
        }
        drops
    }

    /// Nothing waits any more.
    #[inline]
    pub fn on_empty(&mut self) {
        self.late_since = None;
        self.overdue_since = None;
        self.stands = false;
    }

    /// Whether the queue is a standing one.
    #[inline]
    pub const fn stands(&self) -> bool {
        self.stands
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    const MANY: usize = 100;

    /// A frame has its turn every `every_ms` until `until_ms`, after waiting for `waited_ms`
    /// of that time. Returns when frames were dropped.
    fn turns(
        sojourn: &mut Sojourn,
        every_ms: u64,
        until_ms: u64,
        behind: usize,
        waited_ms: impl Fn(u64) -> u64,
    ) -> Vec<u64> {
        let begin = 100_000;
        let times = (0..until_ms).step_by(every_ms as usize);
        times
            .filter(|&at| {
                let now = Time::from_ms(begin + at);
                let queued = Time::from_ms(begin + at - waited_ms(at));
                sojourn.on_turn(now, queued, behind)
            })
            .collect()
    }

    #[test]
    fn a_queue_stands_when_every_frame_was_late_for_a_while() {
        let mut sojourn = Sojourn::default();
        turns(&mut sojourn, 1, 100, MANY, |_| 6);
        assert!(!sojourn.stands());
        turns(&mut sojourn, 1, 101, MANY, |_| 6);
        assert!(sojourn.stands());
        // One that was not late is enough to end it.
        turns(&mut sojourn, 1, 1, MANY, |_| 5);
        assert!(!sojourn.stands());
    }

    #[test]
    fn bursts_do_not_stand() {
        let mut sojourn = Sojourn::default();
        // Every 90 ms the queue is empty, however long it was.
        let waited = |at: u64| if at.is_multiple_of(90) { 0 } else { 300 };
        for until in (10..2000).step_by(30) {
            turns(&mut sojourn, 1, until, MANY, waited);
            assert!(!sojourn.stands());
            sojourn.on_empty();
        }
    }

    #[test]
    fn a_wait_that_stays_too_long_costs_one_frame_each_time_the_queue_is_gone_through() {
        let dropped = turns(&mut Sojourn::default(), 30, 10_000, MANY, |_| 1_000);
        assert_eq!(dropped[0], 510);
        assert!(dropped.windows(2).all(|two| two[1] - two[0] > 1_000));
        assert_eq!(dropped.len(), 10);
    }

    #[test]
    fn what_waits_no_longer_than_it_may_is_never_dropped() {
        let max_ms = STANDING_DROP_AFTER.as_millis() as u64;
        let dropped = turns(&mut Sojourn::default(), 30, 100_000, MANY, |_| max_ms);
        assert_eq!(dropped, []);
    }

    /// A link hangs: frames queued then wait that much longer, later ones do not.
    #[test]
    fn a_hang_drops_nothing() {
        for hang_ms in [25, 300, 5_000] {
            for wait_ms in [10, 100, 400, 500] {
                let hung = |at: u64| match at {
                    0..1_000 => wait_ms,
                    at if at < 1_000 + wait_ms => wait_ms + hang_ms,
                    _ => wait_ms,
                };
                let dropped = turns(&mut Sojourn::default(), 1, 5_000, MANY, hung);
                assert_eq!(dropped, [], "{hang_ms} ms, {wait_ms} ms");
            }
        }
    }

    #[test]
    fn a_few_frames_are_left_to_every_flow() {
        let always = |behind| turns(&mut Sojourn::default(), 30, 10_000, behind, |_| 2_000).len();
        assert_eq!(always(FRAMES_KEPT - 1), 0);
        assert!(always(FRAMES_KEPT) > 0);
    }

    #[test]
    fn the_thresholds_are_in_order() {
        let order = [
            LATE,
            STANDING_AFTER,
            Duration::from_millis(300),
            STANDING_DROP_AFTER,
        ];
        assert!(order.windows(2).all(|two| two[0] < two[1]));
    }
}
