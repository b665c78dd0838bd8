//! Whether loss is chance or the path's own queue overflowing: a switch with a
//! small buffer drops what a deep one would hold.
//!
//! The path finds out by trying ([`State::ProbeLoss`](super::State)): it cuts the queue aimed at to a quarter for a moment. If
//! the loss goes with it, it was the queue's, and the cut stays. If not, it is chance, and what is lost is made up for.
//! A path that still looks for its rate stops doing so meanwhile: nothing else may fill the queue.
//!
//! If it was the queue's, a start has ended. A verdict of chance is doubted after a second, then after ever longer
//! ([`CAUSE_DOUBT`]).

use core::time::Duration;

use crate::Time;
use crate::link::thresholds::{
    CAUSE_DOUBT, CAUSE_DOUBT_MAX, CAUSE_EPOCH, CAUSE_PACKETS, CAUSE_RAISE, CAUSE_RAISE_MAX,
    CHANCE_MAX, LOSS_NO_QUEUE, LOSS_TOLERATED,
};

/// Loss that takes this share of what chance leaves is the queue's.
const FAR_MORE: f64 = 0.3;
/// Share to which the queue is cut.
const QUEUE_CUT: f64 = 0.25;

/// The queue was cut, to see whether the loss goes with it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LossProbe {
    /// What was lost before.
    before: f64,
    /// The queue was cut long enough ago: the epoch that ends next tells.
    tells: bool,
}

impl LossProbe {
    /// An epoch ended in which so much was lost. Returns whether the loss was the queue's, once that is known.
    pub fn judge(&mut self, loss: f64) -> Option<bool> {
        core::mem::replace(&mut self.tells, true).then_some(loss < self.before * CHANCE_MAX)
    }
}

/// What is believed of the loss on a path.
#[derive(Debug)]
pub struct LossCause {
    /// This much of it is chance, and when to doubt that.
    chance: Option<(f64, Time)>,
    /// How long the next verdict that loss is chance will be believed.
    doubt_wait: Duration,
    /// The share of the usual queue that is aimed at.
    scale: f64,
    raise_at: Time,
    raise_wait: Duration,
    began: Time,
    acked: u32,
    lost: u32,
}

impl LossCause {
    pub const fn new(now: Time) -> LossCause {
        LossCause {
            chance: None,
            doubt_wait: CAUSE_DOUBT,
            scale: 1.0,
            raise_at: now,
            raise_wait: CAUSE_RAISE,
            began: now,
            acked: 0,
            lost: 0,
        }
    }

    /// The share of the usual queue to aim at: a quarter to all of it.
    pub const fn queue_scale(&self) -> f64 {
        self.scale
    }

    /// The share of packets that chance takes, so that it may be made up for; 0 to 0.6.
    pub const fn chance(&self) -> f64 {
        match self.chance {
            Some((loss, _)) => loss.min(CHANCE_MAX),
            None => 0.0,
        }
    }

    /// Packets' fate was decided. Returns the share that was lost, if that ends an epoch.
    pub fn decided(&mut self, now: Time, acked: u32, lost: u32, rtt: Duration) -> Option<f64> {
        self.acked += acked;
        self.lost += lost;
        let packets = self.acked + self.lost;
        let elapsed = now.since(self.began);
        if packets < CAUSE_PACKETS || elapsed < CAUSE_EPOCH.max(rtt * 4) {
            return None;
        }
        let loss = f64::from(self.lost) / f64::from(packets);
        (self.began, self.acked, self.lost) = (now, 0, 0);
        Some(loss)
    }

    /// An epoch ended in which so much was lost, without a probe. Returns one that is worth it.
    pub fn judge(&mut self, now: Time, loss: f64) -> Option<LossProbe> {
        match self.chance {
            None if loss >= LOSS_TOLERATED => return self.suspect(now, loss),
            None if self.scale < 1.0 && now >= self.raise_at => {
                self.scale *= 2.0;
                self.raise_at = now + self.raise_wait;
            }
            None => {}
            Some(_) if loss < LOSS_TOLERATED / 2.0 => {
                self.chance = None;
                self.raise_wait = CAUSE_RAISE;
                self.doubt_wait = CAUSE_DOUBT;
            }
            Some((_, doubt_at)) if now >= doubt_at => {
                self.chance = None;
                return Some(self.cut(loss));
            }
            // Far more is lost than chance took when the queue was short: the rest is the queue's.
            Some((chance, _)) if loss > chance + (1.0 - chance) * FAR_MORE => {
                self.scale = QUEUE_CUT
            }
            Some(_) => {}
        }
        None
    }

    /// Something takes more than is tolerated.
    fn suspect(&mut self, now: Time, loss: f64) -> Option<LossProbe> {
        self.raise_at = now + self.raise_wait;
        if self.scale > QUEUE_CUT {
            return Some(self.cut(loss));
        }
        if loss >= LOSS_NO_QUEUE {
            // A short queue never causes so much: the verdict was wrong.
            return Some(LossProbe {
                before: loss,
                tells: true,
            });
        }
        self.is_chance(now, loss);
        None
    }

    const fn cut(&mut self, loss: f64) -> LossProbe {
        self.scale = QUEUE_CUT;
        LossProbe {
            before: loss,
            tells: false,
        }
    }

    /// A probe told: the queue had overflowed. It stays short, for longer each time.
    pub fn is_the_queues(&mut self, now: Time) {
        self.raise_at = now + self.raise_wait;
        self.raise_wait = (self.raise_wait * 2).min(CAUSE_RAISE_MAX);
    }

    /// A probe told: a short queue loses as much.
    pub fn is_not_the_queues(&mut self, now: Time, loss: f64) {
        self.scale = 1.0;
        self.is_chance(now, loss);
    }

    /// A verdict that is wrong costs much, one that is right only a moment's doubt: the first is doubted soon.
    fn is_chance(&mut self, now: Time, loss: f64) {
        self.chance = Some((loss, now + self.doubt_wait));
        self.doubt_wait = (self.doubt_wait * 2).min(CAUSE_DOUBT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is believed, and the probe that is under way.
    struct Path {
        cause: LossCause,
        probe: Option<LossProbe>,
        now: Time,
    }

    impl Path {
        fn new() -> Path {
            let now = Time::from_ms(1000);
            let cause = LossCause::new(now);
            let probe = None;
            Path { cause, probe, now }
        }

        /// One of 1000 packets. Returns whether it showed that the queue had overflowed.
        fn epoch(&mut self, loss: f64) -> bool {
            self.now += CAUSE_EPOCH;
            let lost = (loss * 1000.0) as u32;
            let decided = self
                .cause
                .decided(self.now, 1000 - lost, lost, Duration::ZERO);
            let loss = decided.expect("an epoch");
            let Some(mut probe) = self.probe.take() else {
                self.probe = self.cause.judge(self.now, loss);
                return false;
            };
            match probe.judge(loss) {
                None => self.probe = Some(probe),
                Some(true) => self.cause.is_the_queues(self.now),
                Some(false) => self.cause.is_not_the_queues(self.now, loss),
            }
            self.probe.is_none() && self.cause.chance.is_none()
        }

        fn epochs(&mut self, loss: f64, count: u32) {
            for _ in 0..count {
                self.epoch(loss);
            }
        }
    }

    #[test]
    fn chance_that_once_passed_for_an_overflow_is_found_out() {
        for loss in [0.03, 0.05, 0.3, 0.5] {
            let mut path = Path::new();
            // An overflow comes on top of it at first.
            path.epochs(loss * 1.8, 2);
            path.epochs(loss, 1);
            assert_eq!((path.cause.queue_scale(), path.cause.chance()), (0.25, 0.0));
            let seconds = 12_u32;
            path.epochs(loss, seconds * 50);
            let cause = &path.cause;
            assert!(cause.chance() > loss * 0.9, "{loss}: {cause:?}");
            assert!(cause.queue_scale() > 0.9, "{loss}: {cause:?}");
        }
    }

    #[test]
    fn an_overflow_keeps_the_queue_short() {
        let mut path = Path::new();
        for _ in 0..100 {
            let loss = if path.cause.queue_scale() > 0.5 {
                0.08
            } else {
                0.0
            };
            path.epoch(loss);
        }
        assert!(path.cause.queue_scale() <= 0.5);
        assert_eq!(path.cause.chance(), 0.0);
    }

    #[test]
    fn the_overflow_that_a_probe_shows_is_told_once() {
        let mut path = Path::new();
        let told = [0.0, 0.08, 0.08, 0.0, 0.0].map(|loss| (path.epoch(loss), path.probe.is_some()));
        let (no, probe, yes) = ((false, false), (false, true), (true, false));
        assert_eq!(told, [no, probe, probe, yes, no]);
    }

    #[test]
    fn a_wrong_verdict_of_chance_does_not_last() {
        let mut path = Path::new();
        // The queue still overflows while it is found out.
        path.epochs(0.5, 3);
        assert!(path.cause.chance() > 0.4);
        let doubted_after = (0..1000)
            .position(|_| {
                let loss = if path.probe.is_some() { 0.0 } else { 0.5 };
                path.epoch(loss);
                path.cause.chance() == 0.0 && path.probe.is_none()
            })
            .expect("doubted");
        assert!(CAUSE_EPOCH * doubted_after as u32 <= CAUSE_DOUBT + CAUSE_EPOCH * 3);
        assert!(path.cause.queue_scale() <= 0.25);
    }
}
