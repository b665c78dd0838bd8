//! How much reordering is tolerated, and how much is lost.

use core::time::Duration;

use super::thresholds::{LOSS_RATIO_PACKETS, REORDER_DECAY, REORDER_MAX, REORDER_MIN};
use crate::Time;

/// Reordering window in the manner of RACK (RFC 8985): time, not packets.
#[derive(Debug)]
pub struct Reorder {
    /// What false losses have taught.
    learned: Duration,
    taught: Time,
}

impl Reorder {
    pub const fn new(now: Time) -> Reorder {
        Reorder {
            learned: Duration::ZERO,
            taught: now,
        }
    }

    /// A packet sent this much earlier than one that arrived is lost.
    pub fn window(&self, smoothed_rtt: Duration) -> Duration {
        (smoothed_rtt / 4)
            .max(self.learned)
            .clamp(REORDER_MIN, REORDER_MAX)
    }

    /// A packet taken for lost arrived after all. Widens at most once per round trip.
    pub fn loss_was_false(&mut self, now: Time, smoothed_rtt: Duration) {
        if self.learned.is_zero() || now.since(self.taught) >= smoothed_rtt {
            self.learned = (self.window(smoothed_rtt) * 2).min(REORDER_MAX);
            self.taught = now;
        }
    }

    /// Forgets slowly what was learned.
    pub fn decay(&mut self, now: Time) {
        if now.since(self.taught) >= REORDER_DECAY && !self.learned.is_zero() {
            self.learned /= 2;
            if self.learned < REORDER_MIN {
                self.learned = Duration::ZERO;
            }
            self.taught = now;
        }
    }
}

/// Share of packets lost lately, 0 to 1.
#[derive(Debug, Default)]
pub struct LossRatio(f64);

impl LossRatio {
    /// Some packets' fate was decided.
    pub fn decided(&mut self, acked: u32, lost: u32) {
        let decided = f64::from(acked + lost);
        if decided > 0.0 {
            let weight = (decided / LOSS_RATIO_PACKETS).min(1.0);
            self.0 += (f64::from(lost) / decided - self.0) * weight;
        }
    }

    /// `count` losses counted before were none.
    pub fn were_false(&mut self, count: u32) {
        self.0 = (self.0 - f64::from(count) / LOSS_RATIO_PACKETS).max(0.0);
    }

    pub const fn get(&self) -> f64 {
        self.0
    }
}
