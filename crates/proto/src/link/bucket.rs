//! A token bucket: how much may go at once, and how much after that.
//!
//! Two need one: a path whose peer grants it a rate (`pace.rs`), and a far path
//! (`path.rs`). What a window frees at once (acknowledgements that come together, the
//! loss of many packets found out) would go at once: on a LAN that is some packets, but
//! on a far path it may be more than a switch has room for, and its loss would free as
//! much again.
//!
//! On near paths a window is a short queue anyway, and no timer is needed.

use core::time::Duration;

use crate::Time;

/// The bucket owes at most what comes in this time (in seconds). What liveness needs goes on being sent while a path fails
/// and its rate falls, and at the new rate it would take minutes to pay for that.
const DEBT_MAX_S: f64 = 1.0;

/// What may be sent, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// Bytes that may go now; below 0 what was urgent went beforehand.
    tokens: f64,
    refilled_at: Time,
    /// Bytes per second.
    rate: f64,
    /// Most that may go at once.
    depth: f64,
    /// Least that is worth sending.
    burst: f64,
}

impl Bucket {
    /// A bucket with nothing in it that nothing comes into.
    pub const fn empty(now: Time) -> Bucket {
        Bucket {
            tokens: 0.0,
            refilled_at: now,
            rate: 0.0,
            depth: 0.0,
            burst: 0.0,
        }
    }

    /// A bucket as full as it may become.
    pub const fn full(now: Time) -> Bucket {
        Bucket {
            tokens: f64::MAX,
            ..Bucket::empty(now)
        }
    }

    /// From the next refill on `rate` bytes per second come, up to `depth`; less than `burst` does not go.
    pub const fn set(&mut self, rate: f64, depth: f64, burst: f64) {
        (self.rate, self.depth, self.burst) = (rate, depth.max(burst), burst);
        self.limit_debt();
    }

    const fn limit_debt(&mut self) {
        self.tokens = self.tokens.max(-self.rate * DEBT_MAX_S);
    }

    /// What came since is what may go.
    pub fn refill(&mut self, now: Time) {
        let elapsed = now.since(self.refilled_at).as_secs_f64();
        self.tokens = (self.tokens + self.rate * elapsed).min(self.depth);
        self.refilled_at = now;
    }

    /// Nothing came since: it was not asked.
    pub const fn skip(&mut self, now: Time) {
        self.refilled_at = now;
    }

    pub const fn on_sent(&mut self, bytes: usize) {
        self.tokens -= bytes as f64;
        self.limit_debt();
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
        let wait_s = (missing > 0.0).then(|| missing / self.rate.max(1.0))?;
        Some(self.refilled_at + Duration::try_from_secs_f64(wait_s).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 1e6;
    const DEPTH: f64 = 20e3;
    const BURST: f64 = 5e3;

    fn full(now: Time) -> Bucket {
        let mut bucket = Bucket::full(now);
        bucket.set(RATE, DEPTH, BURST);
        bucket.refill(now);
        bucket
    }

    #[test]
    fn no_more_goes_at_once_than_it_is_deep() {
        let now = Time::from_ms(1000);
        let mut bucket = full(now);
        assert_eq!(bucket.room_bytes(), DEPTH as u64);
        bucket.refill(now + Duration::from_secs(60));
        assert_eq!(bucket.room_bytes(), DEPTH as u64);
    }

    #[test]
    fn what_goes_after_that_is_what_comes() {
        let began = Time::from_ms(1000);
        let (mut now, mut bucket) = (began, full(began));
        let mut sent = 0;
        while now < began + Duration::from_secs(1) {
            sent += bucket.room_bytes();
            bucket.on_sent(bucket.room_bytes() as usize);
            now = bucket.room_at().expect("all of it has gone") + Duration::from_micros(1);
            bucket.refill(now);
            assert_eq!(bucket.room_at(), None, "woken when there is room");
        }
        let could = RATE + DEPTH;
        assert!((sent as f64 - could).abs() < 2.0 * BURST, "{sent}");
    }

    #[test]
    fn what_was_urgent_is_paid_for() {
        let mut bucket = full(Time::ZERO);
        bucket.on_sent(2 * DEPTH as usize);
        assert_eq!(bucket.room_bytes(), 0);
        let wait = bucket.room_at().expect("in debt").since(Time::ZERO);
        let owed = (DEPTH + BURST) / RATE;
        assert!((wait.as_secs_f64() - owed).abs() < 1e-5, "{wait:?}");
    }

    #[test]
    fn a_debt_of_better_times_is_limited() {
        let mut bucket = full(Time::ZERO);
        bucket.on_sent(RATE as usize / 2);
        bucket.set(RATE / 1e3, DEPTH, BURST);
        let wait = bucket.room_at().expect("in debt").since(Time::ZERO);
        assert!(
            wait.as_secs_f64() < DEBT_MAX_S + BURST / (RATE / 1e3) + 0.1,
            "{wait:?}"
        );
    }

    #[test]
    fn one_that_nothing_comes_into_stays_empty() {
        let mut bucket = Bucket::empty(Time::ZERO);
        bucket.set(0.0, DEPTH, BURST);
        bucket.refill(Time::from_ms(3_600_000));
        assert_eq!(bucket.room_bytes(), 0);
        assert!(bucket.room_at() > Some(Time::from_ms(3_600_000)));
    }
}
