//! How often something may be done.

use core::time::Duration;

use crate::Time;

/// A token bucket: so many at once, and one more for every interval that passes.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    tokens: u32,
    burst: u32,
    interval: Duration,
    refilled: Time,
}

impl Allowance {
    pub const fn new(burst: u32, interval: Duration) -> Allowance {
        Allowance {
            tokens: burst,
            burst,
            interval,
            refilled: Time::ZERO,
        }
    }

    /// Takes one. Returns whether there was one.
    pub fn take(&mut self, now: Time) -> bool {
        let earned = now.since(self.refilled).as_nanos() / self.interval.as_nanos();
        if earned > 0 {
            self.tokens = self
                .tokens
                .saturating_add(earned.min(1 << 20) as u32)
                .min(self.burst);
            self.refilled = now;
        }
        let paid = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        paid
    }

    /// Gives one back that was taken for what turned out to be well.
    pub fn give_back(&mut self) {
        self.tokens = (self.tokens + 1).min(self.burst);
    }
}
