//! Round-trip time: smoothed, its variation, its least value.

use core::time::Duration;

use super::thresholds::{
    ACK_DELAY_MAX, PROBE_TIMEOUT_MIN, PROBE_TIMEOUT_WIDENED_MAX, RTT_INITIAL, RTT_MIN_EPOCH,
};
use crate::limits::LINKS_MAX;
use crate::{LinkId, Time};

/// RTT estimate of one path (RFC 9002, section 5).
#[derive(Debug)]
pub struct Rtt {
    smoothed: Duration,
    variation: Duration,
    latest: Option<Duration>,
    /// Least RTT of the current and of the previous epoch, by the path that the answer came back on.
    least: [[Duration; 2]; LINKS_MAX],
    epoch_began: Time,
    /// The least RTT of the ways that answers come back on now, averaged.
    base: Duration,
    /// How late an answer came that a probe timeout had given up.
    widened: Duration,
}

impl Rtt {
    pub const fn new(now: Time) -> Rtt {
        Rtt {
            smoothed: RTT_INITIAL,
            variation: Duration::from_nanos(RTT_INITIAL.as_nanos() as u64 / 2),
            latest: None,
            least: [[Duration::MAX; 2]; LINKS_MAX],
            epoch_began: now,
            base: RTT_INITIAL,
            widened: Duration::ZERO,
        }
    }

    /// Takes a sample, the peer's acknowledgement delay already taken off; the answer came back on path `via`.
    /// Returns how much of it was waiting in queues.
    pub fn sample(&mut self, now: Time, rtt: Duration, via: LinkId) -> Duration {
        if now.since(self.epoch_began) > RTT_MIN_EPOCH {
            for least in &mut self.least {
                *least = [Duration::MAX, least[0]];
            }
            self.epoch_began = now;
        }
        let least = &mut self.least[via.index() % LINKS_MAX];
        least[0] = least[0].min(rtt);
        let least = least[0].min(least[1]);
        self.base = match self.latest {
            None => least,
            Some(_) => (self.base * 7 + least) / 8,
        };
        if self.latest.is_none() {
            self.smoothed = rtt;
            self.variation = rtt / 2;
        } else {
            self.variation = (self.variation * 3 + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (self.smoothed * 7 + rtt) / 8;
        }
        self.latest = Some(rtt);
        self.widened = self.widened * 255 / 256;
        rtt - least
    }

    /// The way has become longer by so much.
    pub fn lengthen(&mut self, by: Duration) {
        for least in self.least.iter_mut().flatten() {
            *least = least.saturating_add(by);
        }
        self.base += by;
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

    /// RTT without queues, as answers come back now.
    pub const fn base(&self) -> Duration {
        self.base
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
