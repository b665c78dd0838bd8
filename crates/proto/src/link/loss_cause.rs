//! Whether loss is chance or the path's own queue overflowing: a switch with a
//! small buffer drops what a deep one would hold.
//!
//! Found out by trying: the queue aimed at is cut to a quarter for a moment. If
//! the loss goes with it, it was the queue's and the cut stays; if not, it is
//! chance, and what is lost is made up for. Nothing else may fill the queue
//! meanwhile: a path that still looks for its rate stops doing so.

use core::time::Duration;

use super::thresholds::{
    CAUSE_EPOCH, CAUSE_PACKETS, CAUSE_RAISE, CAUSE_RAISE_MAX, CAUSE_RETRY, CAUSE_RETRY_MIN,
    LOSS_NO_QUEUE, LOSS_TOLERATED,
};
use crate::Time;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    /// Hardly any loss.
    Clear,
    /// The queue was just cut; the epoch after this one tells. The loss before it.
    Cutting(f64),
    /// This epoch tells.
    Testing(f64),
    /// This much loss is chance. When to doubt it.
    Chance(f64, Time),
}

/// What the loss on a path is due to.
#[derive(Debug)]
pub struct LossCause {
    phase: Phase,
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
            phase: Phase::Clear,
            doubt_wait: CAUSE_RETRY_MIN,
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
        match self.phase {
            Phase::Chance(loss, _) => loss.min(0.6),
            _ => 0.0,
        }
    }

    /// Whether the queue is cut to see whether the loss goes with it.
    pub const fn is_testing(&self) -> bool {
        matches!(self.phase, Phase::Cutting(_) | Phase::Testing(_))
    }

    /// Packets' fate was decided. Returns whether it is now known that the queue had overflowed.
    pub fn decided(&mut self, now: Time, acked: u32, lost: u32, rtt: Duration) -> bool {
        self.acked += acked;
        self.lost += lost;
        let packets = self.acked + self.lost;
        let elapsed = now.since(self.began);
        if packets < CAUSE_PACKETS || elapsed < CAUSE_EPOCH.max(rtt * 4) {
            return false;
        }
        let was_testing = self.is_testing();
        self.judge(now, f64::from(self.lost) / f64::from(packets));
        self.began = now;
        self.acked = 0;
        self.lost = 0;
        was_testing && matches!(self.phase, Phase::Clear)
    }

    fn judge(&mut self, now: Time, loss: f64) {
        match self.phase {
            Phase::Clear if loss >= LOSS_TOLERATED => {
                self.phase = if self.scale > 0.25 {
                    self.scale = 0.25;
                    Phase::Cutting(loss)
                } else if loss >= LOSS_NO_QUEUE {
                    // So much in spite of a short queue was never the queue's: the verdict was wrong.
                    Phase::Testing(loss)
                } else {
                    self.chance_takes(now, loss)
                };
                self.raise_at = now + self.raise_wait;
            }
            Phase::Clear if self.scale < 1.0 && now >= self.raise_at => {
                self.scale *= 2.0;
                self.raise_at = now + self.raise_wait;
            }
            Phase::Clear => {}
            Phase::Cutting(before) => self.phase = Phase::Testing(before),
            Phase::Testing(before) if loss < before * 0.6 => {
                self.phase = Phase::Clear;
                self.raise_at = now + self.raise_wait;
                self.raise_wait = (self.raise_wait * 2).min(CAUSE_RAISE_MAX);
            }
            Phase::Testing(_) => {
                self.scale = 1.0;
                self.phase = self.chance_takes(now, loss);
            }
            Phase::Chance(..) if loss < LOSS_TOLERATED / 2.0 => {
                self.phase = Phase::Clear;
                self.raise_wait = CAUSE_RAISE;
                self.doubt_wait = CAUSE_RETRY_MIN;
            }
            Phase::Chance(_, doubt_at) if now >= doubt_at => {
                self.scale = 0.25;
                self.phase = Phase::Cutting(loss);
            }
            // Far more is lost than chance took when the queue was short: the rest is the queue's.
            Phase::Chance(chance, _) if loss > chance + (1.0 - chance) * 0.3 => self.scale = 0.25,
            Phase::Chance(..) => {}
        }
    }

    /// A verdict that is wrong costs much, one that is right only a moment's doubt: the first is doubted soon.
    fn chance_takes(&mut self, now: Time, loss: f64) -> Phase {
        let doubt_at = now + self.doubt_wait;
        self.doubt_wait = (self.doubt_wait * 2).min(CAUSE_RETRY);
        Phase::Chance(loss, doubt_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epochs of 1000 packets, of which `loss` are lost.
    fn epochs(cause: &mut LossCause, now: &mut Time, loss: f64, count: u32) {
        for _ in 0..count {
            *now += CAUSE_EPOCH;
            let lost = (loss * 1000.0) as u32;
            cause.decided(*now, 1000 - lost, lost, Duration::ZERO);
        }
    }

    #[test]
    fn chance_that_once_passed_for_an_overflow_is_found_out() {
        for loss in [0.03, 0.05, 0.3, 0.5] {
            let mut now = Time::from_ms(1000);
            let mut cause = LossCause::new(now);
            // An overflow comes on top of it at first.
            epochs(&mut cause, &mut now, loss * 1.8, 2);
            epochs(&mut cause, &mut now, loss, 1);
            assert_eq!((cause.queue_scale(), cause.chance()), (0.25, 0.0));
            let seconds = 12_u32;
            epochs(&mut cause, &mut now, loss, seconds * 50);
            assert!(cause.chance() > loss * 0.9, "{loss}: {cause:?}");
            assert!(cause.queue_scale() > 0.9, "{loss}: {cause:?}");
        }
    }

    #[test]
    fn an_overflow_keeps_the_queue_short() {
        let mut now = Time::from_ms(1000);
        let mut cause = LossCause::new(now);
        for _ in 0..100 {
            let loss = if cause.queue_scale() > 0.5 { 0.08 } else { 0.0 };
            epochs(&mut cause, &mut now, loss, 1);
        }
        assert!(cause.queue_scale() <= 0.5);
        assert_eq!(cause.chance(), 0.0);
    }

    #[test]
    fn the_overflow_that_a_test_shows_is_told_once() {
        let mut now = Time::from_ms(1000);
        let mut cause = LossCause::new(now);
        let mut told = Vec::new();
        for lost in [0, 80, 80, 0, 0] {
            now += CAUSE_EPOCH;
            let overflowed = cause.decided(now, 1000 - lost, lost, Duration::ZERO);
            told.push((overflowed, cause.is_testing()));
        }
        let (no, test, yes) = ((false, false), (false, true), (true, false));
        assert_eq!(told, [no, test, test, yes, no]);
    }

    #[test]
    fn a_wrong_verdict_of_chance_does_not_last() {
        let mut now = Time::from_ms(1000);
        let mut cause = LossCause::new(now);
        // The queue still overflows while it is found out.
        epochs(&mut cause, &mut now, 0.5, 3);
        assert!(cause.chance() > 0.4);
        let doubted_after = (0..1000)
            .position(|_| {
                let loss = if cause.is_testing() { 0.0 } else { 0.5 };
                epochs(&mut cause, &mut now, loss, 1);
                cause.chance() == 0.0 && !cause.is_testing()
            })
            .expect("doubted");
        assert!(CAUSE_EPOCH * doubted_after as u32 <= CAUSE_RETRY_MIN + CAUSE_EPOCH * 3);
        assert!(cause.queue_scale() <= 0.25);
    }
}
