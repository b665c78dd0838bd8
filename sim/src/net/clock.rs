//! A node's own clock: another origin, and a rate that is a little wrong and changes.

use super::events::Ns;
use tabane_proto::Time;

/// Maps virtual time to a node's time and back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    true_ns: Ns,
    local_ns: Ns,
    rate_ppm: i64,
}

impl Clock {
    /// A clock that shows `local_ns` at `true_ns` and gains `rate_ppm`
    /// microseconds a second (quartz: ±200 at the worst).
    pub const fn new(true_ns: Ns, local_ns: Ns, rate_ppm: i64) -> Clock {
        Clock {
            true_ns,
            local_ns,
            rate_ppm,
        }
    }

    /// What it shows at `now`. Never runs backwards.
    pub fn time(&self, now: Ns) -> Time {
        Time::from_ns(self.local_ns + self.elapsed(now.saturating_sub(self.true_ns)))
    }

    /// The first instant at which it shows `time` or later; at least `now`.
    pub fn instant(&self, now: Ns, time: Time) -> Ns {
        let ahead = time.as_ns().saturating_sub(self.local_ns);
        let scaled = u128::from(ahead) * 1_000_000 / (1_000_000 + self.rate_ppm) as u128;
        let mut at = self
            .true_ns
            .saturating_add(scaled.min(u128::from(u64::MAX)) as Ns);
        while at < Ns::MAX && self.time(at) < time {
            at += 1;
        }
        at.max(now)
    }

    /// Changes the rate from `now` on; the time shown does not jump.
    pub fn set_rate(&mut self, now: Ns, rate_ppm: i64) {
        self.local_ns = self.time(now).as_ns();
        self.true_ns = now;
        self.rate_ppm = rate_ppm;
    }

    fn elapsed(&self, ns: Ns) -> Ns {
        (i128::from(ns) * i128::from(1_000_000 + self.rate_ppm) / 1_000_000) as Ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_never_fires_early_on_the_nodes_own_clock_and_at_most_a_few_ns_late() {
        for ppm in [-200, -1, 0, 3, 200] {
            let clock = Clock::new(1_000, 77_777, ppm);
            for ahead in [0, 1, 999, 1_000_003, 86_400_000_000_007] {
                let time = Time::from_ns(77_777 + ahead);
                let at = clock.instant(0, time);
                assert!(clock.time(at) >= time);
                assert!(clock.time(at).as_ns() - time.as_ns() < 3);
            }
        }
    }

    #[test]
    fn a_change_of_rate_does_not_make_it_jump() {
        let mut clock = Clock::new(0, 500, 200);
        let before = clock.time(10_000_000);
        clock.set_rate(10_000_000, -200);
        assert_eq!(clock.time(10_000_000), before);
        assert_eq!(clock.time(11_000_000).as_ns() - before.as_ns(), 999_800);
    }
}
