//! Round-trip time: smoothed, its variation, its least value.

use core::time::Duration;

use super::thresholds::{
    ACK_DELAY_MAX, PROBE_TIMEOUT_MIN, PROBE_TIMEOUT_WIDENED_MAX, RTT_INITIAL, RTT_MIN_EPOCH,
};
use crate::Time;

/// RTT estimate of one path (RFC 9002, section 5).
#[derive(Debug)]
pub struct Rtt {
    smoothed: Duration,
    variation: Duration,
    latest: Option<Duration>,
    /// Least RTT of the current and of the previous epoch.
    least: [Duration; 2],
    epoch_began: Time,
    /// How late an answer came that a probe timeout had given up.
    widened: Duration,
}

impl Rtt {
    pub const fn new(now: Time) -> Rtt {
        Rtt {
            smoothed: RTT_INITIAL,
            variation: Duration::from_nanos(RTT_INITIAL.as_nanos() as u64 / 2),
            latest: None,
            least: [Duration::MAX; 2],
            epoch_began: now,
            widened: Duration::ZERO,
        }
    }

    /// Takes a sample, the peer's acknowledgement delay already taken off.
    pub fn sample(&mut self, now: Time, rtt: Duration) {
        if now.since(self.epoch_began) > RTT_MIN_EPOCH {
            self.least = [Duration::MAX, self.least[0]];
            self.epoch_began = now;
        }
        self.least[0] = self.least[0].min(rtt);
        if self.latest.is_none() {
            self.smoothed = rtt;
            self.variation = rtt / 2;
        } else {
            self.variation = (self.variation * 3 + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (self.smoothed * 7 + rtt) / 8;
        }
        self.latest = Some(rtt);
        self.widened = self.widened * 255 / 256;
    }

    /// An answer came `late` after its packet, which a probe timeout had already given up.
    pub fn timeout_was_false(&mut self, late: Duration) {
        self.widened = self.widened.max(late.min(PROBE_TIMEOUT_WIDENED_MAX));
    }

    pub const fn smoothed(&self) -> Duration {
        self.smoothed
    }

    pub const fn variation(&self) -> Duration {
        self.variation
    }

    pub const fn is_known(&self) -> bool {
        self.latest.is_some()
    }

    /// The newest sample, or the smoothed value if that is larger.
    pub fn recent_max(&self) -> Duration {
        self.latest.unwrap_or(self.smoothed).max(self.smoothed)
    }

    /// Least RTT of the last 10 to 20 s.
    pub fn least(&self) -> Duration {
        let least = self.least[0].min(self.least[1]);
        if least == Duration::MAX {
            self.smoothed
        } else {
            least
        }
    }

    /// How long an answer can take before it is missed (RFC 9002, section 6.2.1).
    pub fn patience(&self) -> Duration {
        let usual = self.smoothed + self.variation * 4 + ACK_DELAY_MAX * 2;
        usual.max(PROBE_TIMEOUT_MIN).max(self.widened)
    }

    /// How long a path of this RTT may be silent at least before that means anything.
    pub fn silence(&self) -> Duration {
        self.smoothed * 3 + self.variation * 4 + ACK_DELAY_MAX * 2
    }
}
