//! Round-trip time: smoothed, its variation, its least value, and how much of it
//! is spent in queues on the way there and on the way back.
//!
//! Under load in both directions an acknowledgement waits in the peer's own
//! queue. Taken for a queue of ours, that would make each end yield to the
//! other until one of them starves; so the two are told apart by the peer's
//! clock (one-way delay, RFC 6817). A clock that runs faster than ours by 100
//! ppm shows a queue of 1 ms after ten seconds, but never a longer one than the
//! round trip shows.
//!
//! With round trips alone, bulk both ways at once over two links of 1 Gb/s came to 1.1 to 1.8 Gb/s each way instead of
//! 1.88. So an Ack says when its packet arrived by the peer's clock, and only the way there counts.

use core::time::Duration;

use super::thresholds::{
    ACK_DELAY_MAX, DELAY_EPOCH, FAR, GRANULARITY, PROBE_TIMEOUT_MIN, PROBE_TIMEOUT_WIDENED_MAX,
    RTT_INITIAL, RTT_MIN_EPOCH, WAIT_MAX,
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
    /// How long the peer's acknowledgements may wait.
    ack_delay_max: Duration,
    /// What was thought before the way became longer.
    before: Option<Box<Before>>,
}

/// The minimum filters as they were before the way seemed to become longer. If that was a queue of others they are put back.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// When it last became longer.
    longer_at: Time,
    least: [Duration; LINKS_MAX],
    there: i32,
    base: Duration,
}

/// A round trip that an acknowledgement tells of.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// How long it took, without the peer's acknowledgement delay.
    pub rtt: Duration,
    /// When the packet was sent …
    pub sent: Time,
    /// … and when it arrived, by the peer's clock, in microseconds.
    pub arrived_us: u32,
    /// The path that the answer came back on.
    pub via: LinkId,
}

/// The way there, by two clocks: only differences mean anything.
#[derive(Debug)]
struct OneWay {
    /// Their difference at some time.
    reference_us: Option<u32>,
    /// Least delay of the current and of the previous epoch, relative to the reference, in microseconds.
    least: [i32; 2],
    /// Lower bound of the delay without queues, from the maximum filter of the current and of the previous short epoch. A
    /// packet waited on the way there no longer than there and back.
    bound: [i32; 2],
    bound_since: Time,
    /// The last packet waited there at most this long.
    at_most: Option<Duration>,
}

impl OneWay {
    /// Returns how much longer than the least this took; `None` for the first.
    fn sample(
        &mut self,
        now: Time,
        sent: Time,
        arrived_us: u32,
        waited: Option<Duration>,
    ) -> Option<Duration> {
        self.at_most = None;
        let apart = arrived_us.wrapping_sub(sent.as_us_wrapping());
        let Some(reference) = self.reference_us else {
            self.reference_us = Some(apart);
            self.least = [0, i32::MAX];
            self.bound = [i32::MIN; 2];
            return None;
        };
        let delay = apart.wrapping_sub(reference) as i32;
        self.at_most = waited.map(|waited| self.bound(now, delay, waited));
        self.least[0] = self.least[0].min(delay);
        let waited_us = i64::from(delay) - i64::from(self.least());
        Some(Duration::from_micros(waited_us.unsigned_abs()))
    }

    /// Returns how long a packet of this delay waited there at most, that waited so long there and back.
    fn bound(&mut self, now: Time, delay: i32, waited: Duration) -> Duration {
        if now.since(self.bound_since) > DELAY_EPOCH {
            self.bound = [i32::MIN, self.bound[0]];
            self.bound_since = now;
        }
        let waited_us = i32::try_from(waited.as_micros()).unwrap_or(i32::MAX);
        self.bound[0] = self.bound[0].max(delay.saturating_sub(waited_us));
        let shortest = self.bound[0].max(self.bound[1]);
        let at_most_us = delay.saturating_sub(shortest).max(0);
        Duration::from_micros(at_most_us as u64).min(waited)
    }

    fn least(&self) -> i32 {
        self.least[0].min(self.least[1])
    }

    fn end_epoch(&mut self) {
        self.least = [i32::MAX, self.least[0]];
    }

    fn lengthen(&mut self, by: Duration) {
        let by_us = i32::try_from(by.as_micros()).unwrap_or(i32::MAX);
        for least in &mut self.least {
            *least = least.saturating_add(by_us);
        }
        self.bound = [i32::MIN; 2];
    }

    /// The way is not longer than it was when its least delay was this.
    fn take_back(&mut self, least: i32) {
        self.least[0] = self.least[0].min(least);
        self.bound = [i32::MIN; 2];
    }
}

/// Where the least round trip of those that end on a path is kept. Paths through other nodes share the places of the last
/// links, which next to nobody has.
const fn place(via: LinkId) -> usize {
    if via.is_relayed() {
        LINKS_MAX - 1 - via.index() % 2
    } else {
        via.index()
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
                bound: [i32::MIN; 2],
                bound_since: now,
                at_most: None,
            },
            epoch_began: now,
            base: RTT_INITIAL,
            back: Duration::ZERO,
            widened: Duration::ZERO,
            ack_delay_max: ACK_DELAY_MAX,
            before: None,
        }
    }

    /// An acknowledgement came. Returns how much of the round trip was waiting in queues on the way there;
    /// `Duration::MAX` if that is not known.
    pub fn sample_ack(&mut self, now: Time, trip: &RoundTrip) -> Duration {
        let &RoundTrip {
            rtt,
            sent,
            arrived_us,
            via,
        } = trip;
        let is_first = self.least[place(via)] == [Duration::MAX; 2];
        let at_most = self.is_known().then(|| rtt.saturating_sub(self.shortest()));
        let waited = self.sample(now, rtt, via);
        let there = self.there.sample(now, sent, arrived_us, at_most);
        // The first answer on a way shows no wait, however long it waited.
        if is_first {
            return there.unwrap_or(Duration::MAX);
        }
        let there = there.map_or(waited, |there| there.min(waited));
        // A pause of this process is no queue: a single long wait counts little.
        let back = (waited - there)
            .min(self.back * 2 + GRANULARITY)
            .min(WAIT_MAX);
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
        if rtt < self.shortest() {
            // What was thought to be no wait was one.
            self.there.bound = [i32::MIN; 2];
        }
        let least = &mut self.least[place(via)];
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

    /// The least round trip, whatever way answers come back on: no packet waited longer than its own exceeds this. (On
    /// a way that answers were given only lately all of them may have waited.)
    fn shortest(&self) -> Duration {
        let least = self.least.iter().flatten().min();
        least.copied().unwrap_or(Duration::MAX)
    }

    /// The peer lets its acknowledgements wait for up to so long.
    pub const fn set_ack_delay_max(&mut self, delay_max: Duration) {
        self.ack_delay_max = delay_max;
    }

    /// The least RTT known is not to be forgotten yet: others' queues would pass for distance.
    pub const fn keep_least(&mut self, now: Time) {
        self.epoch_began = now;
    }

    /// The way has become longer by so much.
    pub fn lengthen(&mut self, now: Time, by: Duration) {
        let lately = |before: &Before| now.since(before.longer_at) < DELAY_EPOCH;
        let mut before = self.before.take_if(|b| lately(b)).unwrap_or_else(|| {
            Box::new(Before {
                longer_at: now,
                least: self.least.map(|[current, previous]| current.min(previous)),
                there: self.there.least(),
                base: self.base,
            })
        });
        before.longer_at = now;
        self.before = Some(before);
        for least in self.least.iter_mut().flatten() {
            *least = least.saturating_add(by);
        }
        self.base += by;
        self.there.lengthen(by);
    }

    /// What lately passed for a longer way was the queue of others.
    pub fn take_back(&mut self, now: Time) {
        let Some(before) = self.before.take() else {
            return;
        };
        if now.since(before.longer_at) < DELAY_EPOCH {
            for (least, before) in self.least.iter_mut().zip(before.least) {
                least[0] = least[0].min(before);
            }
            self.base = self.base.min(before.base);
            self.there.take_back(before.there);
        }
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

    /// The newest sample.
    pub const fn latest(&self) -> Option<Duration> {
        self.latest
    }

    pub const fn is_known(&self) -> bool {
        self.latest.is_some()
    }

    /// The newest sample, or the smoothed value if that is larger.
    pub fn recent_max(&self) -> Duration {
        self.latest.unwrap_or(self.smoothed).max(self.smoothed)
    }

    /// Whether the path is far: see [`FAR`].
    pub fn is_far(&self) -> bool {
        self.base() >= FAR
    }

    /// RTT without queues, as answers come back now.
    pub const fn base(&self) -> Duration {
        self.base
    }

    /// How long the packet of the last acknowledgement waited on its way at most, if that is known. (What
    /// [`sample_ack`](Rtt::sample_ack) returns is the least: it may take a queue that always stood for distance.)
    pub const fn there_at_most(&self) -> Option<Duration> {
        self.there.at_most
    }

    /// What answers wait in queues on their way back.
    pub const fn back(&self) -> Duration {
        self.back
    }

    /// How long an answer can take before it is missed (RFC 9002, section 6.2.1).
    pub fn patience(&self) -> Duration {
        let usual = self.smoothed + self.variation * 4 + self.ack_delay_max * 2;
        usual.max(PROBE_TIMEOUT_MIN).max(self.widened)
    }

    /// How long a path of this RTT may be silent at least before that means anything: half of it suffices for a probe
    /// and its answer on the path. That may take twice as long as acknowledgements, which come by a nearer one.
    pub fn silence(&self) -> Duration {
        self.smoothed * 4 + self.variation * 4 + self.ack_delay_max * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Duration = Duration::from_micros(100);
    const OWN: LinkId = LinkId(0);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A packet waits so long on its way there, and is answered by way of `via`. Returns what that shows: how long
    /// it waited, and how long at most.
    fn answer(rtt: &mut Rtt, sent: Time, wait: Duration, via: LinkId) -> (Duration, Duration) {
        let trip = RoundTrip {
            rtt: WAY * 2 + wait,
            sent,
            arrived_us: (sent + WAY + wait).as_us_wrapping(),
            via,
        };
        let waited = rtt.sample_ack(sent + trip.rtt, &trip);
        (waited, rtt.there_at_most().unwrap_or(Duration::MAX))
    }

    /// What is known of a path that probes alone went over.
    fn probed() -> Rtt {
        let mut rtt = Rtt::new(Time::ZERO);
        rtt.sample(Time::from_ms(1), WAY * 2, OWN);
        rtt
    }

    #[test]
    fn a_queue_that_always_stood_on_another_way_of_answers_is_none_the_less_one() {
        let mut rtt = probed();
        for (at_ms, wait_ms, via) in [(10, 7, 1), (20, 8, 1), (30, 6, 1), (40, 7, 0), (50, 5, 1)] {
            let sent = Time::from_ms(at_ms);
            let (_, at_most) = answer(&mut rtt, sent, ms(wait_ms), LinkId(via));
            assert!(at_most >= ms(wait_ms), "{at_ms} ms: {at_most:?}");
        }
    }

    #[test]
    fn a_longer_way_that_is_taken_back_leaves_nothing() {
        let mut rtt = probed();
        for (at_ms, wait_ms) in [(10, 0), (20, 4)] {
            answer(&mut rtt, Time::from_ms(at_ms), ms(wait_ms), OWN);
        }
        let base = rtt.base();
        // Twice, and meanwhile the queue was shorter than it seemed.
        for (at_ms, wait_ms) in [(30, 3), (40, 2)] {
            rtt.lengthen(Time::from_ms(at_ms), ms(4));
            answer(&mut rtt, Time::from_ms(at_ms), ms(wait_ms), OWN);
        }
        rtt.take_back(Time::from_ms(50));
        assert_eq!(rtt.base(), base);
        for (at_ms, wait_ms) in [(60, 5), (70, 0), (80, 5)] {
            let shown = answer(&mut rtt, Time::from_ms(at_ms), ms(wait_ms), OWN);
            assert_eq!(shown, (ms(wait_ms), ms(wait_ms)), "{at_ms} ms");
        }
    }
}
