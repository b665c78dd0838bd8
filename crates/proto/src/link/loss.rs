//! How much reordering is tolerated, and how much is lost.

use core::time::Duration;

use super::thresholds::{
    DELAY_EPOCH, LOSS_RATIO_PACKETS, REORDER_FALSE_ONE_IN, REORDER_MAX, REORDER_MIN,
};
use crate::Time;

/// Reordering window in the manner of RACK (RFC 8985): time, not packets.
#[derive(Debug)]
pub struct Reorder {
    /// What false losses have taught.
    learned: Duration,
    taught: Time,
    /// Losses since then, and how many of them were false.
    losses: u32,
    false_losses: u32,
}

impl Reorder {
    pub const fn new(now: Time) -> Reorder {
        Reorder {
            learned: Duration::ZERO,
            taught: now,
            losses: 0,
            false_losses: 0,
        }
    }

    /// A packet sent this much earlier than one that arrived is lost.
    pub fn window(&self, smoothed_rtt: Duration) -> Duration {
        (smoothed_rtt / 16)
            .max(self.learned)
            .clamp(REORDER_MIN, REORDER_MAX)
    }

    /// A packet taken for lost arrived after all. Widens at most once per round trip.
    pub fn loss_was_false(&mut self, now: Time, smoothed_rtt: Duration) {
        self.false_losses += 1;
        let often = self.false_losses * REORDER_FALSE_ONE_IN > self.losses;
        if often && (self.learned.is_zero() || now.since(self.taught) >= smoothed_rtt) {
            self.learned = (self.window(smoothed_rtt) * 2).min(REORDER_MAX);
            self.restart(now);
        }
    }

    /// Packets were taken for lost; forgets slowly what was learned.
    pub fn lost(&mut self, now: Time, packets: u32) {
        self.losses = self.losses.saturating_add(packets);
        if now.since(self.taught) >= DELAY_EPOCH {
            self.learned /= 2;
            if self.learned < REORDER_MIN {
                self.learned = Duration::ZERO;
            }
            self.restart(now);
        }
    }

    const fn restart(&mut self, now: Time) {
        self.taught = now;
        self.losses = 0;
        self.false_losses = 0;
    }
}

/// Share of packets lost lately, 0 to 1.
#[derive(Debug, Default)]
pub struct LossRatio {
    ratio: f64,
    /// Packets it is the average of, up to [`LOSS_RATIO_PACKETS`].
    packets: f64,
}

impl LossRatio {
    /// Some packets' fate was decided.
    pub fn decided(&mut self, acked: u32, lost: u32) {
        let decided = f64::from(acked + lost);
        if decided > 0.0 {
            self.packets = (self.packets + decided).min(LOSS_RATIO_PACKETS);
            let weight = (decided / self.packets).min(1.0);
            self.ratio += (f64::from(lost) / decided - self.ratio) * weight;
        }
    }

    /// `count` losses counted before were none.
    pub fn were_false(&mut self, count: u32) {
        self.ratio = (self.ratio - f64::from(count) / self.packets.max(1.0)).max(0.0);
    }

    pub const fn get(&self) -> f64 {
        self.ratio
    }
}
