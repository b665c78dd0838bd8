//! Delivery rate: how fast what was sent is seen to arrive.
//!
//! Under load in both directions acknowledgements wait in the peer's own queue, and come in heaps: the intervals
//! between them say less than those between the arrivals that they report ([`PeerTime`]).

use core::time::Duration;

use crate::Time;
use crate::link::sent::{Delivery, SentPacket};
use crate::link::thresholds::{
    ACK_DELAY_MAX, FILLED_ROUNDS, FULL_RATE_ROUNDS, GAIN, RATE_DOUBTED, RATE_EPOCH, RATE_PERIOD,
    WAIT_MAX,
};

/// When something arrived, by the peer's clock: only differences mean anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerTime {
    /// In microseconds, modulo 2^32.
    pub us: u32,
}

impl PeerTime {
    /// How long after `earlier` this is; zero if it is not after it. More than half an hour cannot be told from that.
    pub fn since(self, earlier: PeerTime) -> Duration {
        let apart_us = self.us.wrapping_sub(earlier.us) as i32;
        Duration::from_micros(apart_us.max(0).unsigned_abs().into())
    }
}

/// Counts deliveries and takes rate samples (draft-cheng-iccrg-delivery-rate-estimation, section 3).
#[derive(Debug)]
pub struct Sampler {
    now: Delivery,
    /// When the newest arrived there.
    arrived: PeerTime,
    /// Where the train began that arrives now, …
    train: Delivery,
    /// … and when that arrived there.
    train_arrived: PeerTime,
}

impl Sampler {
    pub const fn new(now: Time) -> Sampler {
        let nothing = Delivery {
            bytes: 0,
            at: now,
            sent: now,
        };
        Sampler {
            now: nothing,
            arrived: PeerTime { us: 0 },
            train: nothing,
            train_arrived: PeerTime { us: 0 },
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

    /// `bytes` arrived, `newest` the newest of their packets, at `arrived`. Returns the rate over `newest`'s flight in
    /// bytes per second.
    pub fn delivered(
        &mut self,
        now: Time,
        bytes: u64,
        newest: &SentPacket,
        arrived: PeerTime,
    ) -> f64 {
        self.arrived = arrived;
        self.now.bytes += bytes;
        self.now.at = now;
        self.now.sent = self.now.sent.max(newest.sent);
        let sending = newest.sent.since(newest.delivered_sent);
        let arriving = now.since(newest.delivered_at);
        let interval = sending.max(arriving).max(ACK_DELAY_MAX);
        (self.now.bytes - newest.delivered) as f64 / interval.as_secs_f64()
    }

    /// The rate of the train that arrives, in bytes per second, to be asked for after [`delivered`](Sampler::delivered).
    /// The flight over a far path (10 ms) tells how much was under way, the train how fast the link let it through. A
    /// short one says less than it could: trains are taken over several milliseconds, and over what passed between their
    /// arrivals there, lest acknowledgements that were held up together pass for speed.
    ///
    /// On a far path the first burst queues long before the link is full. Without trains that ended the start-up at a
    /// third of the rate, and a path that seems 16 times slower than the best is on standby. So there a train counts as
    /// well, once it is news ([`TRAIN_NEWS`](crate::link::thresholds::TRAIN_NEWS)). On near paths a queue is all there
    /// is, and none of this applies.
    pub fn train(&mut self) -> f64 {
        let arriving = self.now.at.since(self.train.at);
        let there = self.arrived.since(self.train_arrived);
        let sending = self.now.sent.since(self.train.sent);
        let interval = sending.max(arriving).max(there).max(RATE_PERIOD);
        let rate = (self.now.bytes - self.train.bytes) as f64 / interval.as_secs_f64();
        // Of what is acknowledged at one moment all belongs to the time before.
        if arriving.is_zero() || arriving >= RATE_PERIOD {
            self.train = self.now;
            self.train_arrived = self.arrived;
        }
        rate
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

    /// Whether a sample was ever taken that was not app-limited: the path had as much to carry as it could.
    pub const fn is_proven(&self) -> bool {
        self.proven
    }

    /// Takes a sample. An app-limited one (not `limited` by the path) only ever raises the estimate.
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

/// ACK aggregation: how much is acknowledged at one moment, and how long nothing was before. While the peer waits before
/// it answers, or one of the two processes for its processor, the link lives on the queue (BBR's "extra_acked").
///
/// A process that waits for its processor is no slow link. At either end a wait of 40 ms lets one window through and no
/// more. Taken for the link's rate, that makes the next window smaller still: two links of 1 Gb/s came to 5 to 500 Mb/s.
/// Nobody can tell from outside whose wait it was, and nobody needs to. A silence that ends in a heap adds its length to
/// the queue aimed at (30 ms at most), so that the link has something to do meanwhile, and the heaps show its rate.
#[derive(Debug)]
pub struct AckAggregation {
    /// What is acknowledged now, …
    bytes: u64,
    at: Time,
    /// … and when the one before came.
    before: Time,
    current: Aggregate,
    previous: Aggregate,
    began: Time,
}

/// The most that was aggregated in an epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Aggregate {
    bytes: u64,
    wait: Duration,
}

impl AckAggregation {
    pub fn new(now: Time) -> AckAggregation {
        AckAggregation {
            bytes: 0,
            at: now,
            before: now,
            current: Aggregate::default(),
            previous: Aggregate::default(),
            began: now,
        }
    }

    /// `bytes` are newly acknowledged, the newest of them `sent` at that time, of a path of this least round trip and,
    /// as is thought, this rate in bytes per second.
    pub fn acked(&mut self, now: Time, bytes: u64, sent: Time, base: Duration, rate: f64) {
        if now > self.at {
            (self.before, self.at, self.bytes) = (self.at, now, 0);
        }
        if now.since(self.began) > RATE_EPOCH {
            (self.previous, self.current, self.began) = (self.current, Aggregate::default(), now);
        }
        self.bytes += bytes;
        let silence = now.since(self.before.max(sent)).saturating_sub(base);
        // A slow link is silent for as long as what is heard then takes.
        let takes = Duration::try_from_secs_f64(self.bytes as f64 / rate).unwrap_or(WAIT_MAX);
        let most = &mut self.current;
        most.bytes = most.bytes.max(self.bytes);
        most.wait = most.wait.max(silence.min(takes).min(WAIT_MAX));
    }

    /// Bytes in the largest heap of the current and the previous epoch.
    pub fn largest_bytes(&self) -> u64 {
        self.current.bytes.max(self.previous.bytes)
    }

    /// The longest that nothing was heard, in the current and the previous epoch, of what was on its way, before much
    /// was at once.
    pub fn longest_wait(&self) -> Duration {
        self.current.wait.max(self.previous.wait)
    }
}

/// Whether an estimate is settled: only one that has rested for some rounds puts a path on standby. One that still grows
/// says little of a path that is far: each round trip only shows what was under way in it. Meanwhile trains try the path
/// (`bundle/explore.rs`).
#[derive(Debug, Default)]
pub struct Settling {
    reference: f64,
    /// Rounds since the estimate last moved, weighed.
    rounds: u32,
}

impl Settling {
    /// A round ended in which the window was full all the time (`limited`) or at some time (`filled`).
    pub fn end_round(&mut self, rate: f64, limited: bool, filled: bool) {
        if rate > self.reference * GAIN || rate < self.reference * RATE_DOUBTED {
            self.reference = rate;
            self.rounds = 0;
        } else if limited {
            self.rounds = self.rounds.saturating_add(FILLED_ROUNDS / FULL_RATE_ROUNDS);
        } else if filled {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    /// Whether the estimate stayed where it is for long enough.
    pub const fn is_settled(&self) -> bool {
        self.rounds >= FILLED_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_grows_or_falls_is_not_settled() {
        for factor in [1.3, 0.45] {
            let mut settling = Settling::default();
            for round in 0..20 {
                settling.end_round(1e6 * f64::powi(factor, round), true, true);
                assert!(!settling.is_settled());
            }
        }
    }

    #[test]
    fn a_rate_that_stays_is_settled_after_a_few_full_rounds() {
        let rounds = |limited, filled| {
            let mut settling = Settling::default();
            (0..100).position(|_| {
                settling.end_round(1e6, limited, filled);
                settling.is_settled()
            })
        };
        assert_eq!(rounds(true, true), Some(3));
        assert_eq!(rounds(false, true), Some(9));
        assert_eq!(rounds(false, false), None);
    }
}
