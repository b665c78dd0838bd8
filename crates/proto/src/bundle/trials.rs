//! Paths that were slow and have not shown yet that they no longer are.
//!
//! The first packets of a slow path after a rest may pass at once, out of what its link saved up
//! meanwhile (a token bucket), so that it seems fast until they are used up.

use super::explore::TRAIN_PACKETS_MAX;
use crate::limits::LINKS_MAX;
use crate::{LinkId, Time};

/// A path that carries this much more than it could as a slow one is slow no more: a slow link saves up less than the longest
/// train, in bytes.
const SAVED_UP_MAX: f64 = TRAIN_PACKETS_MAX as f64 * 1500.0;

/// A path that is slower than the fastest by more than this factor carries no content of its own: 6% more speed is not
/// worth waiting for its packets.
const SLOWER_MAX: f64 = 16.0;

/// The paths on trial; those through other nodes never are, for they are not used beside links.
#[derive(Default, Debug)]
pub(super) struct Trials {
    of: [Option<Trial>; LINKS_MAX],
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    /// What the path carried when it was slow, in bytes per second.
    rate: f64,
    /// What it carried since beyond that, in bytes, at …
    excess_bytes: f64,
    /// … this time.
    at: Time,
}

impl Trials {
    /// A path is slow: it carries `rate` bytes per second.
    pub fn begin(&mut self, now: Time, id: LinkId, rate: f64) {
        if let Some(of) = self.of.get_mut(id.index()) {
            *of = Some(Trial {
                rate,
                excess_bytes: 0.0,
                at: now,
            });
        }
    }

    /// A path has shown that it is not slow any more.
    pub fn end(&mut self, id: LinkId) {
        if let Some(of) = self.of.get_mut(id.index()) {
            *of = None;
        }
    }

    /// A path is given `bytes` of its own to carry.
    pub fn carry(&mut self, now: Time, id: LinkId, bytes: usize) {
        if let Some(Some(trial)) = self.of.get_mut(id.index()) {
            let could = trial.rate * now.since(trial.at).as_secs_f64();
            trial.excess_bytes = (trial.excess_bytes - could).max(0.0) + bytes as f64;
            trial.at = now;
        }
    }

    /// Ends the trials of paths that carried more than a slow one could have.
    pub fn acquit(&mut self) {
        for trial in &mut self.of {
            *trial = trial.filter(|trial| trial.excess_bytes <= SAVED_UP_MAX);
        }
    }

    /// Whether a path is on trial.
    pub fn is_on(&self, id: LinkId) -> bool {
        self.of.get(id.index()).is_some_and(Option::is_some)
    }

    /// Whether a path is on trial and, if it is as it was, slow beside the fastest.
    pub fn was_slow_beside(&self, id: LinkId, fastest: f64) -> bool {
        let of = self.of.get(id.index()).copied().flatten();
        of.is_some_and(|trial| is_slow(trial.rate, fastest))
    }
}

/// Whether a path that carries `rate` adds next to nothing to one that carries `fastest`: its packets are not worth waiting
/// for.
pub(super) fn is_slow(rate: f64, fastest: f64) -> bool {
    rate * SLOWER_MAX < fastest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: LinkId = LinkId(1);

    fn on_trial(rate: f64) -> Trials {
        let mut trials = Trials::default();
        trials.begin(Time::ZERO, PATH, rate);
        trials
    }

    #[test]
    fn what_a_slow_link_saves_up_shows_nothing() {
        let mut trials = on_trial(1e6);
        for ms in (0..10_000).step_by(100) {
            // All it could carry meanwhile, and all it may have saved up before.
            let bytes = if ms == 0 { 128 << 10 } else { 100_000 };
            trials.carry(Time::from_ms(ms), PATH, bytes);
            trials.acquit();
            assert!(trials.is_on(PATH), "{ms}");
        }
    }

    #[test]
    fn a_path_that_carries_more_than_a_slow_one_could_is_slow_no_more() {
        let mut trials = on_trial(1e6);
        for ms in 0..200 {
            trials.carry(Time::from_ms(ms), PATH, 3_000);
        }
        trials.acquit();
        assert!(!trials.is_on(PATH));
    }

    #[test]
    fn a_path_that_was_slow_beside_a_fast_one_is_not_so_beside_another() {
        let trials = on_trial(1e6);
        assert!(trials.was_slow_beside(PATH, 20e6));
        assert!(!trials.was_slow_beside(PATH, 10e6));
        assert!(!trials.was_slow_beside(LinkId(0), 20e6));
    }
}
