//! No more at once on a far path than its queue is meant to hold.
//!
//! What a window frees at once (acknowledgements that come together, the loss of
//! many packets found out) would go at once: on a LAN that is some packets, but on a
//! far path it may be more than a switch has room for, and its loss would free as much
//! again. So a far path has a bucket: as deep as the queue aimed at, and filled
//! somewhat faster than the path carries, lest a rate once underestimated stays so.

use core::time::Duration;

use super::thresholds::SMOOTH_GAIN;
use crate::Time;

/// A far path's bucket.
#[derive(Clone, Copy, Debug)]
pub struct Smooth {
    /// Bytes that may go now; below 0 what was urgent went beforehand.
    tokens: f64,
    refilled_at: Time,
    /// Bytes a second.
    rate: f64,
    /// Least that goes at once.
    burst: f64,
}

impl Smooth {
    /// A full bucket for a path that carries `rate` bytes per second.
    pub const fn new(now: Time) -> Smooth {
        Smooth {
            tokens: f64::MAX,
            refilled_at: now,
            rate: 0.0,
            burst: 0.0,
        }
    }

    /// What came since is what may go, up to `depth` bytes; `burst` at least is worth sending.
    pub fn refill(&mut self, now: Time, rate: f64, depth: f64, burst: f64) {
        let elapsed = now.since(self.refilled_at).as_secs_f64();
        (self.rate, self.burst) = (rate * SMOOTH_GAIN, burst);
        self.tokens = (self.tokens + self.rate * elapsed).min(depth.max(burst));
        self.refilled_at = now;
    }

    pub fn on_sent(&mut self, bytes: usize) {
        self.tokens -= bytes as f64;
    }

    /// How much may go now: nothing, until it is worth it.
    pub fn room_bytes(&self) -> u64 {
        match self.tokens >= self.burst {
            true => self.tokens as u64,
            false => 0,
        }
    }

    /// When there is room again, if there is none.
    pub fn room_at(&self) -> Option<Time> {
        let missing = self.burst - self.tokens;
        let wait_s = (missing > 0.0).then(|| missing / self.rate)?;
        // Rounded up: a moment early there would be no room, and the next moment the same.
        let wait = Duration::try_from_secs_f64(wait_s).ok()? + Duration::from_micros(1);
        Some(self.refilled_at + wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1e6;
    const DEPTH: f64 = 20e3;
    const BURST: f64 = 5e3;

    fn full(now: Time) -> Smooth {
        let mut smooth = Smooth::new(now);
        smooth.refill(now, RATE, DEPTH, BURST);
        smooth
    }

    #[test]
    fn no_more_goes_at_once_than_the_queue_aimed_at() {
        let now = Time::from_ms(1000);
        let mut smooth = full(now);
        assert_eq!(smooth.room_bytes(), DEPTH as u64);
        smooth.refill(now + Duration::from_secs(60), RATE, DEPTH, BURST);
        assert_eq!(smooth.room_bytes(), DEPTH as u64);
    }

    #[test]
    fn what_goes_after_that_is_a_little_more_than_the_path_carries() {
        let began = Time::from_ms(1000);
        let (mut now, mut smooth) = (began, full(began));
        let mut sent = 0;
        while now < began + Duration::from_secs(1) {
            sent += smooth.room_bytes();
            smooth.on_sent(smooth.room_bytes() as usize);
            now = smooth.room_at().expect("all of it has gone");
            smooth.refill(now, RATE, DEPTH, BURST);
            assert_eq!(
                smooth.room_at(),
                None,
                "woken when there is room, not before"
            );
        }
        let could = RATE * SMOOTH_GAIN + DEPTH;
        assert!((sent as f64 - could).abs() < 2.0 * BURST, "{sent}");
    }

    #[test]
    fn what_was_urgent_is_paid_for() {
        let mut smooth = full(Time::ZERO);
        smooth.on_sent(2 * DEPTH as usize);
        assert_eq!(smooth.room_bytes(), 0);
        let wait = smooth.room_at().expect("in debt").since(Time::ZERO);
        let owed = (DEPTH + BURST) / (RATE * SMOOTH_GAIN);
        assert!((wait.as_secs_f64() - owed).abs() < 1e-5, "{wait:?}");
    }
}
