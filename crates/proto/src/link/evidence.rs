//! Silence that stands out: how long a path has been silent while others were not.

use core::time::Duration;

use super::thresholds::{EVIDENCE_STEP, SILENCE_BUSY, SILENCE_IDLE};
use crate::Time;

/// One kind of silence of a path.
#[derive(Debug, Default)]
pub struct Silence {
    since: Option<Time>,
    /// Whether the path was under load when it fell silent.
    busy: bool,
    /// How long other paths were seen alive meanwhile.
    evidence: Duration,
    /// When another path last showed life, …
    others_at: Time,
    /// … and until when it thereby was alive.
    others_until: Time,
    /// When to look at it next.
    check_at: Time,
    /// A count taken when half the evidence was there.
    half_way: Option<u64>,
}

impl Silence {
    /// From now on something is awaited. Does nothing if something was already.
    pub fn begin(&mut self, now: Time, busy: bool, least: Duration) {
        if self.since.is_none() {
            *self = Silence {
                since: Some(now),
                busy,
                evidence: Duration::ZERO,
                others_at: now,
                others_until: now,
                check_at: now,
                half_way: None,
            };
            self.check_at = now + self.limit(least) / 2;
        }
    }

    /// It was broken, or nothing is awaited.
    pub const fn end(&mut self) {
        self.since = None;
    }

    pub const fn since(&self) -> Option<Time> {
        self.since
    }

    /// Another path, on which an answer takes up to `patience`, shows that it was alive at the time `until`. Returns
    /// since when none had been, if that was longer than it takes to ask: all were silent together.
    pub fn others_progress(&mut self, now: Time, until: Time, patience: Duration) -> Option<Time> {
        self.since?;
        let before = self.others_until;
        self.others_at = now;
        self.others_until = before.max(until);
        self.evidence += until.since(before).min(EVIDENCE_STEP);
        (until.since(before) > EVIDENCE_STEP + patience).then_some(before)
    }

    /// Whether no other path was heard lately, so that nothing can be concluded.
    pub fn lacks_comparison(&self, now: Time) -> bool {
        self.since.is_some() && now.since(self.others_at) >= EVIDENCE_STEP / 2
    }

    /// The evidence that convicts, on a path that may be silent for `least` by its nature.
    pub fn limit(&self, least: Duration) -> Duration {
        let limit = if self.busy {
            SILENCE_BUSY
        } else {
            SILENCE_IDLE
        };
        limit.max(least)
    }

    /// The count to judge by: `count` as it was when half the evidence was there.
    pub fn half_way(&self) -> Option<u64> {
        self.since.and(self.half_way)
    }

    /// Looks at the evidence. Returns whether there is enough.
    pub fn check(&mut self, now: Time, least: Duration, count: u64) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        let limit = self.limit(least);
        if self.evidence >= limit / 2 && self.half_way.is_none() {
            self.half_way = Some(count);
        }
        // Without evidence, look less and less often: an idle node sleeps.
        let silent = now.since(since);
        let least = if self.evidence * 4 < silent {
            silent / 8
        } else {
            EVIDENCE_STEP / 8
        };
        let wanted = match self.half_way {
            None => limit / 2,
            Some(_) => limit,
        };
        let missing = wanted.saturating_sub(self.evidence);
        self.check_at = now + missing.max(least);
        self.evidence >= limit
    }

    /// The count was not enough: half the evidence is to be gathered again.
    pub fn recount(&mut self, now: Time, least: Duration, count: u64) {
        self.evidence = self.limit(least) / 2;
        self.half_way = Some(count);
        self.check_at = now + self.evidence;
    }

    /// When to look at it next.
    pub fn check_at(&self) -> Option<Time> {
        self.since.map(|_| self.check_at)
    }
}
