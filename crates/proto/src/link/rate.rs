//! Delivery rate: how fast what was sent is seen to arrive.

use core::time::Duration;

use super::sent::{Delivery, SentPacket};
use super::thresholds::{RATE_EPOCH, RATE_INTERVAL_MIN};
use crate::Time;

/// Counts deliveries and takes rate samples (draft-cheng-iccrg-delivery-rate-estimation, section 3).
#[derive(Debug)]
pub struct Sampler {
    now: Delivery,
}

impl Sampler {
    pub const fn new(now: Time) -> Sampler {
        Sampler {
            now: Delivery {
                bytes: 0,
                at: now,
                sent: now,
            },
        }
    }

    /// What a packet sent now remembers. After a pause counting starts afresh, so that the pause is no slowness.
    pub fn at_send(&mut self, now: Time, nothing_in_flight: bool) -> Delivery {
        if nothing_in_flight {
            self.now.at = now;
            self.now.sent = now;
        }
        self.now
    }

    /// `bytes` arrived, `newest` the newest of their packets. Returns the rate over `newest`'s flight in bytes
    /// per second.
    pub fn delivered(&mut self, now: Time, bytes: u64, newest: &SentPacket) -> f64 {
        self.now.bytes += bytes;
        self.now.at = now;
        self.now.sent = self.now.sent.max(newest.sent);
        let sending = newest.sent.since(newest.delivered_sent);
        let arriving = now.since(newest.delivered_at);
        let interval = sending.max(arriving).max(RATE_INTERVAL_MIN);
        (self.now.bytes - newest.delivered) as f64 / interval.as_secs_f64()
    }
}

/// Highest rate of the current and the previous epoch. Epochs only pass while samples are taken that count, so
/// that an idle path keeps its estimate.
#[derive(Debug)]
pub struct MaxRate {
    current: f64,
    previous: f64,
    began: Time,
    proven: bool,
}

impl MaxRate {
    pub const fn new(now: Time) -> MaxRate {
        MaxRate {
            current: 0.0,
            previous: 0.0,
            began: now,
            proven: false,
        }
    }

    /// Whether a sample was ever taken while the path had as much to carry as it could.
    pub const fn is_proven(&self) -> bool {
        self.proven
    }

    /// Takes a sample. One taken while the sender had too little to send only ever raises the estimate.
    pub fn sample(&mut self, now: Time, rate: f64, limited: bool, smoothed_rtt: Duration) {
        self.proven |= limited;
        if limited && now.since(self.began) > RATE_EPOCH.max(smoothed_rtt * 4) {
            self.previous = self.current;
            self.current = 0.0;
            self.began = now;
        }
        if limited || rate > self.get() {
            self.current = self.current.max(rate);
        }
    }

    /// Replaces the estimate: the link is known to be slower.
    pub fn lower(&mut self, now: Time, rate: f64) {
        self.current = self.current.min(rate);
        self.previous = self.current;
        self.began = now;
    }

    /// The estimate, in bytes per second; 0 before the first sample.
    pub const fn get(&self) -> f64 {
        self.current.max(self.previous)
    }
}
