//! Round-trip time: smoothed, its variation, its least value, and how much of it
//! is spent in queues on the way there and on the way back.
//!
//! Under load in both directions an acknowledgement waits in the peer's own
//! queue. Taken for a queue of ours, that would make each end yield to the
//! other until one of them starves; so the two are told apart by the peer's
//! clock (one-way delay, RFC 6817). A clock that runs faster than ours by 100
//! ppm shows a queue of 1 ms after ten seconds, but never a longer one than the
//! round trip shows.

use core::time::Duration;

use super::thresholds::{
    ACK_DELAY_MAX, BACK_MAX, BACK_STEP, PROBE_TIMEOUT_MIN, PROBE_TIMEOUT_WIDENED_MAX, RTT_INITIAL,
    RTT_MIN_EPOCH,
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
    there: OneWay,
    epoch_began: Time,
    /// The least RTT of the ways that answers come back on now, averaged.
    base: Duration,
    /// What answers wait in queues on their way back, averaged.
    back: Duration,
    /// How late an answer came that a probe timeout had given up.
    widened: Duration,
}

/// The way there, by two clocks: only differences mean anything.
#[derive(Debug)]
struct OneWay {
    /// Their difference at some time.
    reference_us: Option<u32>,
    /// Least delay of the current and of the previous epoch, relative to the reference, in microseconds.
    least: [i32; 2],
}

impl OneWay {
    /// Returns how much longer than the least this took; `None` for the first.
    fn sample(&mut self, sent: Time, arrived_us: u32) -> Option<Duration> {
        let apart = arrived_us.wrapping_sub(sent.as_us_wrapping());
        let Some(reference) = self.reference_us else {
            self.reference_us = Some(apart);
            self.least = [0, i32::MAX];
            return None;
        };
        let delay = apart.wrapping_sub(reference) as i32;
        self.least[0] = self.least[0].min(delay);
        let least = self.least[0].min(self.least[1]);
        let waited_us = i64::from(delay) - i64::from(least);
        Some(Duration::from_micros(waited_us.unsigned_abs()))
    }

    fn end_epoch(&mut self) {
        self.least = [i32::MAX, self.least[0]];
    }

    fn lengthen(&mut self, by: Duration) {
        let by_us = i32::try_from(by.as_micros()).unwrap_or(i32::MAX);
        for least in &mut self.least {
            *least = least.saturating_add(by_us);
        }
    }
}

impl Rtt {
    pub const fn new(now: Time) -> Rtt {
        Rtt {
            smoothed: RTT_INITIAL,
            variation: Duration::from_nanos(RTT_INITIAL.as_nanos() as u64 / 2),
            latest: None,
            least: [[Duration::MAX; 2]; LINKS_MAX],
            there: OneWay {
                reference_us: None,
                least: [0; 2],
            },
            epoch_began: now,
            base: RTT_INITIAL,
            back: Duration::ZERO,
            widened: Duration::ZERO,
        }
    }

    /// An acknowledgement came: the packet was sent at `sent` and arrived when the peer's clock showed `arrived_us`;
    /// `rtt` is without the peer's acknowledgement delay; the answer came back on path `via`.
    /// Returns how much of it was waiting in queues on the way there; `Duration::MAX` if that is not known.
    pub fn sample_ack(
        &mut self,
        now: Time,
        rtt: Duration,
        sent: Time,
        arrived_us: u32,
        via: LinkId,
    ) -> Duration {
        let is_first = self.least[via.index() % LINKS_MAX] == [Duration::MAX; 2];
        let waited = self.sample(now, rtt, via);
        let there = self.there.sample(sent, arrived_us);
        if is_first {
            // The first answer on a way shows no wait, however long it waited.
            return there.unwrap_or(Duration::MAX);
        }
        let there = there.map_or(waited, |there| there.min(waited));
        // A pause of this process is no queue: a single long wait counts little.
        let back = (waited - there)
            .min(self.back * 2 + BACK_STEP)
            .min(BACK_MAX);
        self.back = (self.back * 7 + back) / 8;
        there
    }

    /// Takes a sample; the answer came back on path `via`. Returns how much of it was waiting in queues.
    pub fn sample(&mut self, now: Time, rtt: Duration, via: LinkId) -> Duration {
        if now.since(self.epoch_began) > RTT_MIN_EPOCH {
            for least in &mut self.least {
                *least = [Duration::MAX, least[0]];
            }
            self.there.end_epoch();
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
        self.there.lengthen(by);
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

    /// What answers wait in queues on their way back.
    pub const fn back(&self) -> Duration {
        self.back
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
