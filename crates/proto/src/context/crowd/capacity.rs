//! What a port carries, found out by the queue before it.

use crate::link::thresholds::GAIN;
use core::time::Duration;

/// Queue that is aimed at, in seconds on the link. The bursts of two senders that meet leave this much now and then.
const QUEUE_TARGET_S: f64 = 150e-6;
/// A large packet.
const PACKET_BYTES: f64 = 1500.0;
/// A queue that stands is to be gone after two periods.
const QUEUE_GONE_S: f64 = 2.0 * super::PERIOD.as_millis() as f64 / 1e3;
/// What is granted is cut by at least this when a queue stands: one period undoes two of growth, …
const CUT_MIN: f64 = 2.0 * GROWTH_MIN;
/// … and by this at most, …
const CUT_MAX: f64 = 0.2;
/// … but not below this part of the most that lately arrived.
const FLOOR: f64 = 0.93;
/// While no queue stands it grows by this in a period, …
const GROWTH_MIN: f64 = 0.005;
/// … doubling every so many periods, to [`CUT_MAX`].
const GROWTH_PERIODS: u8 = 6;
/// What is granted may exceed what is used by [`GAIN`]. It does not grow while less than this part of it is used.
pub(super) const USED: f64 = 1.0 / GAIN;
/// The port may be busy all the time while this share arrives of what lately arrived.
const SATURATED: f64 = 0.98;
/// The queue must have gone by now, and a wait has stayed for so many periods: it is no queue. Processes wake up this
/// late.
const LATE_PERIODS: u8 = 3;
/// Share of that wait which is remembered after a period, …
const LATE_KEPT: f64 = 0.98;
/// … and the factor by which a wait may exceed it.
const LATE_MARGIN: f64 = 1.5;
/// What arrives is averaged over so many periods before it counts as the maximum. A port that was idle passes what it saved
/// up faster than its rate.
const STEADY_PERIODS: f64 = 8.0;
/// Window of the maximum filter, in periods: it forgets after one to two of these.
const MOST_PERIODS: u8 = 25;

/// What was seen of a port in one period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    pub elapsed: Duration,
    /// Bytes per second in this period, …
    pub total: f64,
    /// … and as an average with the one before.
    pub average: f64,
    /// Peers that send in bulk.
    pub senders: usize,
    /// How long packets wait, as the senders say.
    pub queue: Option<Duration>,
}

/// What all may send together through one port.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    /// In bytes per second, once a queue was seen.
    granted: Option<f64>,
    /// Periods since a queue stood.
    unqueued: u8,
    /// What must still be left of the queue that was seen first, in seconds on the link.
    standing_s: Option<f64>,
    /// Periods since nothing of it can be left.
    gone_periods: u8,
    /// How long packets wait without a queue, in seconds.
    late_s: f64,
    /// What arrives, averaged.
    steady: f64,
    /// The most of that in this and the last spell of periods, and the periods of this one.
    most: [f64; 2],
    most_periods: u8,
}

impl Capacity {
    /// In bytes per second; infinite as long as no queue was seen.
    pub fn bytes_per_s(&self) -> f64 {
        self.granted.unwrap_or(f64::INFINITY)
    }

    /// There is no crowd now.
    pub fn rest(&mut self) {
        self.granted = None;
        self.unqueued = 0;
        self.no_queue();
    }

    fn no_queue(&mut self) {
        self.standing_s = None;
        self.gone_periods = 0;
    }

    /// What arrived; whoever sent it.
    pub fn observe(&mut self, total: f64) {
        self.steady += (total - self.steady) / STEADY_PERIODS;
        self.most_periods += 1;
        if self.most_periods > MOST_PERIODS {
            self.most_periods = 0;
            self.most = [0.0, self.most[0]];
        }
        self.most[0] = self.most[0].max(self.steady);
    }

    fn most(&self) -> f64 {
        self.most[0].max(self.most[1])
    }

    /// While a queue stands what arrives is what the port can do.
    pub fn judge(&mut self, period: &Period) {
        let Some(queue) = period.queue else {
            return;
        };
        self.late_s *= LATE_KEPT;
        // Even in turn, a packet may find one of everybody else's before it.
        let in_turn_s = period.senders as f64 * PACKET_BYTES / self.most();
        let target_s = QUEUE_TARGET_S.max(in_turn_s);
        let tolerated_s = target_s.max(self.late_s * LATE_MARGIN);
        let queue_s = queue.as_secs_f64();
        if queue_s <= tolerated_s {
            self.no_queue();
            self.grow(period.average);
        } else {
            self.follow(period, queue_s);
            self.unqueued = 0;
            let excess = (queue_s - tolerated_s) / QUEUE_GONE_S;
            let cut = period.average * (1.0 - excess.clamp(CUT_MIN, CUT_MAX));
            self.granted = Some(cut.max(self.most() * FLOOR));
        }
    }

    /// What is below the port's rate drains its queue: a wait that does not end with it is none.
    fn follow(&mut self, period: &Period, queue_s: f64) {
        let idle = (SATURATED - period.average / self.most()).max(0.0);
        let drained_s = idle * period.elapsed.as_secs_f64();
        let standing_s = self.standing_s.map_or(queue_s, |before| before - drained_s);
        self.standing_s = Some(standing_s);
        self.gone_periods = match standing_s <= 0.0 {
            true => self.gone_periods + 1,
            false => 0,
        };
        if self.gone_periods >= LATE_PERIODS {
            self.gone_periods = 0;
            self.late_s = queue_s;
        }
    }

    fn grow(&mut self, average: f64) {
        self.unqueued = self.unqueued.saturating_add(1);
        if let Some(granted) = &mut self.granted
            && average > *granted * USED
        {
            let doublings = i32::from(self.unqueued / GROWTH_PERIODS);
            *granted *= 1.0 + (GROWTH_MIN * 2f64.powi(doublings)).min(CUT_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: f64 = 125e6;
    const PERIOD: Duration = Duration::from_millis(20);

    /// A port of [`LINE`] before which all senders keep to what is granted; their packets
    /// wait `late` besides. Returns what was granted and the queue, in seconds, after every period.
    fn run(capacity: &mut Capacity, line: f64, late_s: f64, periods: usize) -> Vec<(f64, f64)> {
        let (mut queue_s, mut seen) = (0.0, Vec::new());
        for _ in 0..periods {
            let offered = capacity.bytes_per_s().min(line * 1.5);
            queue_s += (offered / line - 1.0) * PERIOD.as_secs_f64();
            queue_s = f64::clamp(queue_s, 0.0, 20e-3);
            let total = if queue_s > 0.0 {
                line
            } else {
                offered.min(line)
            };
            capacity.observe(total);
            capacity.judge(&Period {
                elapsed: PERIOD,
                total,
                average: total,
                senders: 2,
                queue: Some(Duration::from_secs_f64(queue_s + late_s)),
            });
            seen.push((capacity.bytes_per_s(), queue_s));
        }
        seen
    }

    fn mean(of: impl Iterator<Item = f64>) -> f64 {
        let all: Vec<f64> = of.collect();
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn the_port_is_used_and_its_queue_is_short() {
        let mut capacity = Capacity::default();
        run(&mut capacity, LINE, 0.0, 100);
        let seen = run(&mut capacity, LINE, 0.0, 200);
        let used = mean(seen.iter().map(|(granted, _)| granted.min(LINE))) / LINE;
        assert!(used > 0.97, "{used}");
        assert!(seen.iter().all(|(_, queue_s)| *queue_s < 2e-3));
        assert!(mean(seen.iter().map(|(_, queue_s)| *queue_s)) < 500e-6);
    }

    #[test]
    fn what_is_slow_to_wake_up_is_no_queue() {
        let mut capacity = Capacity::default();
        run(&mut capacity, LINE, 3e-3, 200);
        let seen = run(&mut capacity, LINE, 3e-3, 500);
        let used = mean(seen.iter().map(|(granted, _)| granted.min(LINE))) / LINE;
        assert!(used > 0.95, "{used}");
        assert!(seen.iter().all(|(granted, _)| *granted > LINE * 0.8));
    }

    #[test]
    fn a_port_that_becomes_slower_and_faster_is_followed() {
        let mut capacity = Capacity::default();
        run(&mut capacity, LINE, 0.0, 100);
        let slower = run(&mut capacity, LINE / 2.0, 0.0, 200);
        let granted = mean(slower[100..].iter().map(|(granted, _)| *granted));
        assert!(granted < LINE / 2.0 * 1.03, "{granted}");
        let faster = run(&mut capacity, LINE, 0.0, 100);
        let granted = mean(faster[50..].iter().map(|(granted, _)| *granted));
        assert!(granted > LINE * 0.95, "{granted}");
    }

    #[test]
    fn nothing_is_limited_before_a_queue_is_seen() {
        let mut capacity = Capacity::default();
        for _ in 0..10 {
            capacity.observe(LINE);
            assert_eq!(capacity.bytes_per_s(), f64::INFINITY);
        }
        run(&mut capacity, LINE, 0.0, 10);
        assert!(capacity.bytes_per_s() < LINE * 1.2);
        capacity.rest();
        assert_eq!(capacity.bytes_per_s(), f64::INFINITY);
    }
}
