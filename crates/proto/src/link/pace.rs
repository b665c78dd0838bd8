//! What the receiver grants, kept to.
//!
//! A window alone cannot share a port among many: on a LAN it holds a packet or
//! two, and each sender's least window together fills the port's queue.

use core::time::Duration;

use super::bucket::Bucket;
use super::thresholds::{
    DELAY_EPOCH, GRANT_LIFETIME, GRANULARITY, PACE_BURST, PACE_FLIGHT, TOLD_EVERY,
    WINDOW_INITIAL_PACKETS, WINDOW_MIN_PACKETS,
};
use crate::Time;

/// What may be sent on a path whose peer is crowded.
#[derive(Debug)]
pub struct Pace {
    /// Bytes per second; infinite while the receiver only asks how long packets wait.
    rate: f64,
    /// What may go of it now.
    bucket: Bucket,
    ends_at: Time,
    /// A packet of full size.
    packet: f64,
    /// Least that goes at once.
    burst: f64,
    /// Shortest wait in queues since the receiver was told, and when that was.
    waited: Option<Duration>,
    told_at: Time,
    /// Shortest wait in queues in this long spell, …
    least: Option<Duration>,
    /// … which began here.
    least_since: Time,
}

impl Pace {
    pub const fn new(now: Time) -> Pace {
        Pace {
            rate: f64::INFINITY,
            bucket: Bucket::empty(now),
            ends_at: now,
            packet: 0.0,
            burst: 0.0,
            waited: None,
            told_at: now,
            least: None,
            least_since: now,
        }
    }

    /// The receiver grants `rate` bytes per second.
    pub fn grant(&mut self, now: Time, rate: f64, packet_bytes: usize) {
        self.refill(now);
        self.rate = rate;
        self.ends_at = now + GRANT_LIFETIME;
        self.packet = packet_bytes as f64;
        let burst = rate * PACE_BURST.as_secs_f64();
        self.burst = burst.clamp(self.packet, WINDOW_INITIAL_PACKETS as f64 * self.packet);
        // No more than a burst or two at once.
        let depth = self.burst * 2.0 + rate * GRANULARITY.as_secs_f64();
        self.bucket.set(rate, depth, self.burst);
    }

    /// What came since is what may go. What goes while there is no limit is neither saved up nor owed.
    pub fn refill(&mut self, now: Time) {
        match self.is_limited() {
            true => self.bucket.refill(now),
            false => self.bucket.skip(now),
        }
    }

    pub fn has_ended(&self, now: Time) -> bool {
        now >= self.ends_at
    }

    /// Whether the receiver limits what is sent, and does not only ask.
    pub const fn is_limited(&self) -> bool {
        self.rate.is_finite()
    }

    /// Bytes per second; infinite if there is no limit.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// What may be in flight at most: the port of this end may be crowded as well.
    pub fn window(&self, rtt_base: Duration) -> u64 {
        let window = self.rate * (rtt_base + PACE_FLIGHT).as_secs_f64();
        window.max(self.packet * WINDOW_MIN_PACKETS as f64) as u64
    }

    pub fn on_sent(&mut self, bytes: usize) {
        if self.is_limited() {
            self.bucket.on_sent(bytes);
        }
    }

    /// How much may go now: nothing, until it is worth it.
    pub fn room_bytes(&self) -> u64 {
        match self.is_limited() {
            true => self.bucket.room_bytes(),
            false => u64::MAX,
        }
    }

    /// When there is room again, if there is none.
    pub fn room_at(&self) -> Option<Time> {
        if !self.is_limited() {
            return None;
        }
        // A grant that ended is none.
        let at = self.bucket.room_at()?;
        Some(self.tick_after(at).min(self.ends_at))
    }

    /// Slow paths wait for a common tick, or a node that sends to many would wake up for every packet.
    fn tick_after(&self, at: Time) -> Time {
        let burst_ns = PACE_BURST.as_nanos() as u64;
        let bursts = self.burst / self.rate.max(1.0) / PACE_BURST.as_secs_f64();
        let tick_ns = match bursts {
            4.0.. => burst_ns * 4,
            2.0.. => burst_ns * 2,
            _ => burst_ns,
        };
        Time::from_ns((at.as_ns() / tick_ns + 1) * tick_ns)
    }

    /// A packet waited so long in queues on its way. Returns how long all did for so long a time that it must be
    /// distance: what is granted fills no queue.
    pub fn on_waited(&mut self, now: Time, queue: Duration) -> Option<Duration> {
        self.waited = Some(self.waited.map_or(queue, |least| least.min(queue)));
        let least = self.least.map_or(queue, |least| least.min(queue));
        self.least = Some(least);
        if now.since(self.least_since) < DELAY_EPOCH {
            return None;
        }
        self.least = None;
        self.least_since = now;
        (self.is_limited() && least > PACE_BURST * 4).then_some(least)
    }

    /// What to tell the receiver, when that is due.
    pub fn take_waited(&mut self, now: Time) -> Option<Duration> {
        if now.since(self.told_at) < TOLD_EVERY {
            return None;
        }
        self.told_at = now;
        self.waited.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1472;
    const MS: Duration = Duration::from_millis(1);

    fn granted(rate: f64) -> Pace {
        let mut pace = Pace::new(Time::from_ms(1));
        pace.grant(Time::from_ms(1), rate, PACKET);
        pace
    }

    /// Bytes sent in `ms` by who sends whatever there is room for, whenever there is, and looks
    /// `late` after that.
    fn sent(pace: &mut Pace, ms: u64, late: Duration) -> u64 {
        let (mut now, mut sent) = (Time::from_ms(1), 0);
        while now < Time::from_ms(1 + ms) {
            pace.grant(now, pace.rate(), PACKET);
            while pace.room_bytes() > 0 {
                pace.on_sent(PACKET);
                sent += PACKET as u64;
            }
            let next = pace.room_at().expect("there is no room now");
            assert!(next > now, "it would be asked for ever");
            now = next + late;
        }
        sent
    }

    #[test]
    fn as_much_is_sent_as_is_granted() {
        for rate in [100e3, 1e6, 10e6, 100e6, 1e9] {
            for late in [Duration::ZERO, MS / 2] {
                let bytes = sent(&mut granted(rate), 2000, late) as f64;
                let share = bytes / (rate * 2.0);
                assert!((0.97..1.02).contains(&share), "{rate}: {share}");
            }
        }
    }

    #[test]
    fn a_process_that_slept_does_not_make_up_for_it_all() {
        let mut pace = granted(10e6);
        pace.refill(Time::from_ms(60));
        assert!(pace.room_bytes() <= 14_000);
    }

    #[test]
    fn who_is_only_asked_is_not_limited() {
        let mut pace = granted(f64::INFINITY);
        assert!(!pace.is_limited());
        assert_eq!((pace.room_bytes(), pace.room_at()), (u64::MAX, None));
        pace.on_waited(Time::from_ms(2), MS);
        pace.on_waited(Time::from_ms(3), MS * 3);
        assert_eq!(pace.take_waited(Time::from_ms(20)), Some(MS));
        assert_eq!(pace.take_waited(Time::from_ms(40)), None, "nothing new");
    }

    #[test]
    fn what_went_before_there_was_a_limit_is_no_debt() {
        let mut pace = granted(f64::INFINITY);
        for _ in 0..1000 {
            pace.on_sent(PACKET);
        }
        pace.grant(Time::from_ms(2), 1e6, PACKET);
        let at = pace.room_at().expect("not at once");
        assert!(at <= Time::from_ms(2 + 12), "{at:?}");
    }

    #[test]
    fn a_grant_that_is_not_repeated_ends() {
        let pace = granted(1e6);
        assert!(!pace.has_ended(Time::from_ms(100)));
        assert!(pace.has_ended(Time::from_ms(101)));
        // Even one of nothing.
        let end = Time::from_ms(1) + GRANT_LIFETIME;
        assert_eq!(granted(0.0).room_at(), Some(end));
    }

    #[test]
    fn a_wait_that_never_ends_is_distance() {
        let mut pace = granted(1e6);
        let longer = (1..1500).find_map(|ms| pace.on_waited(Time::from_ms(ms), MS * 2));
        assert_eq!(longer, Some(MS * 2));
    }
}
