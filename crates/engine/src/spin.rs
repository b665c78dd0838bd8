//! When to spin instead of sleeping.
//!
//! Waking a thread costs 5 to 35 µs, most of a small message's latency. So after small traffic the
//! loop polls for a short time instead of sleeping, and yields the processor each time in case
//! somebody else can use it. When idle or under bulk it sleeps.

use crate::batch::{BULK_BYTES, PAUSE};
use core::time::Duration;

use tabane_proto::Time;

/// How long to poll after small traffic, unless the host says otherwise. Anything shorter than the
/// whole chain of wake-ups (about 50 µs here) is worse than no polling.
pub const SPIN: Duration = Duration::from_micros(100);
/// Longest message that counts as small traffic: the loop polls for it, and for its answer.
const MESSAGE_BYTES: usize = 32 * 1024;

pub(crate) struct Spin {
    lasting: Duration,
    until: Time,
    bulk_until: Time,
}

impl Spin {
    /// Polls for `lasting` after small traffic.
    pub const fn new(lasting: Duration) -> Spin {
        Spin {
            lasting,
            until: Time::ZERO,
            bulk_until: Time::ZERO,
        }
    }

    /// Ends a turn that received and sent `bytes`, and perhaps the end of a message of length
    /// `message`: decides whether the coming wait is a spin.
    pub fn turn(&mut self, now: Time, small_traffic: bool, bytes: usize, message: Option<usize>) {
        if message.is_some_and(|bytes| bytes <= MESSAGE_BYTES) {
            (self.until, self.bulk_until) = (now + self.lasting, now);
        } else if bytes > BULK_BYTES {
            self.until = Time::ZERO;
            self.bulk_until = now + PAUSE;
        } else if small_traffic && now >= self.bulk_until {
            self.until = now + self.lasting;
        }
    }

    /// Whether to poll again at once.
    pub fn spinning(&self, now: Time) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_short_message_is_small_traffic_and_that_of_a_long_one_is_not() {
        let us = |us: u64| Time::from_ns(us * 1000);
        let after = |message| {
            let mut spin = Spin::new(SPIN);
            // The rest of it came in the turn before.
            spin.turn(us(0), false, 2 * BULK_BYTES, None);
            spin.turn(us(10), false, 2 * BULK_BYTES, message);
            spin.spinning(us(20))
        };
        assert!(after(Some(MESSAGE_BYTES)));
        assert!(!after(Some(MESSAGE_BYTES + 1)));
        assert!(!after(None));
    }
}
