//! Streams: every byte once, in order, unchanged, to the end and no further.

use super::{Checked, Rule, Violation};
use crate::net::Ns;
use crate::workload::{GIVE_UP_CODE, Pace, StreamPlan, content, stream_key};

/// One direction of a stream, as the observer sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direction {
    /// Bytes its writer's node took.
    pub written: u64,
    /// Its writer said that this is all.
    pub finished: bool,
    /// Its writer gave it up.
    pub reset: bool,
    /// Its reader wanted no more.
    pub stopped: bool,
    /// Bytes its reader got.
    pub read: u64,
    /// Its reader saw the end, or the reset.
    pub ended: bool,
}

/// One try at a planned stream. A restart of either host ends it, and the opener
/// tries again under another service number.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The plan's index.
    pub plan: usize,
    /// The accepting host has been told.
    pub accepted: bool,
    /// A restart has ended it; what it carried may stay unfinished.
    pub void: bool,
    /// From the opener, and to it.
    pub directions: [Direction; 2],
}

/// The truth about all streams.
#[derive(Debug)]
pub struct StreamLedger {
    plans: Vec<StreamPlan>,
    attempts: Vec<Attempt>,
}

impl StreamLedger {
    /// Nothing opened yet.
    pub fn new(plans: Vec<StreamPlan>) -> StreamLedger {
        StreamLedger {
            plans,
            attempts: Vec::new(),
        }
    }

    /// The plans.
    pub fn plans(&self) -> &[StreamPlan] {
        &self.plans
    }

    /// All tries so far; a service number is an index into them.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// A new try at a plan: its service number.
    pub fn begin(&mut self, plan: usize) -> u32 {
        self.attempts.push(Attempt {
            plan,
            accepted: false,
            void: false,
            directions: Default::default(),
        });
        self.attempts.len() as u32 - 1
    }

    /// The plan behind a service number.
    pub fn plan_of(&self, service: u32) -> StreamPlan {
        self.plans[self.attempts[service as usize].plan]
    }

    /// A restart ended this try.
    pub fn void(&mut self, service: u32) {
        self.attempts[service as usize].void = true;
    }

    /// Tries between these hosts end: one of them restarts.
    pub fn void_between(&mut self, a: usize, b: usize) {
        for attempt in &mut self.attempts {
            let plan = &self.plans[attempt.plan];
            if (plan.from, plan.to) == (a, b) || (plan.from, plan.to) == (b, a) {
                attempt.void = true;
            }
        }
    }

    /// Bytes that readers at `to` got from writers at `from`, and bytes that wait
    /// to be read there.
    pub fn carried(&self, from: usize, to: usize) -> (u64, u64) {
        let mut sum = (0, 0);
        for attempt in &self.attempts {
            let plan = &self.plans[attempt.plan];
            for (back, d) in [false, true].into_iter().zip(&attempt.directions) {
                let ends = if back {
                    (plan.to, plan.from)
                } else {
                    (plan.from, plan.to)
                };
                if ends == (from, to) {
                    sum.0 += d.read + u64::from(d.ended);
                    if !attempt.void && !d.ended {
                        let end = u64::from(d.finished || d.reset);
                        sum.1 += d.written - d.read.min(d.written) + end;
                    }
                }
            }
        }
        sum
    }

    /// What readers got of a planned stream in all tries, and whether more of it waits to be read, or to be
    /// written as fast as may be.
    pub fn moved(&self, plan: usize) -> (u64, bool) {
        let mut moved = (0, false);
        for attempt in self.attempts.iter().filter(|a| a.plan == plan) {
            for d in &attempt.directions {
                moved.0 += d.read + u64::from(d.ended);
                moved.1 |= !attempt.void && !d.ended && d.written > d.read;
            }
        }
        moved.1 |= self.plans[plan].pace == Pace::Bulk && !self.complete(plan);
        moved
    }

    /// Whether a plan has been carried out.
    pub fn complete(&self, plan: usize) -> bool {
        self.attempts
            .iter()
            .any(|a| a.plan == plan && a.directions.iter().all(|d| d.ended))
    }

    /// `host` is told that `peer` opened a stream for `service`.
    pub fn accepted(&mut self, at: Ns, host: usize, peer: usize, service: u32) -> Checked {
        let Some(attempt) = self.attempts.get_mut(service as usize) else {
            let what = format!("host {host} accepted a stream for service {service}, never opened");
            return Err(Violation::new(Rule::Forgery, at, what));
        };
        let plan = &self.plans[attempt.plan];
        if (plan.from, plan.to) != (peer, host) {
            let what = format!(
                "stream {service} from {} to {} was accepted at {host} as from {peer}",
                plan.from, plan.to
            );
            return Err(Violation::new(Rule::Forgery, at, what));
        }
        if attempt.accepted {
            let what = format!("stream {service} was opened twice at host {host}");
            return Err(Violation::new(Rule::StreamEnds, at, what));
        }
        attempt.accepted = true;
        Ok(())
    }

    /// A node took bytes.
    pub fn wrote(&mut self, service: u32, back: bool, bytes: u64) {
        self.direction(service, back).written += bytes;
    }

    /// A writer finished its direction, or gave it up.
    pub fn finished(&mut self, service: u32, back: bool, gave_up: bool) {
        let d = self.direction(service, back);
        if gave_up {
            d.reset = true;
        } else {
            d.finished = true;
        }
    }

    /// The accepting host wants no more of what the opener sends.
    pub fn stopped(&mut self, service: u32) {
        let d = self.direction(service, false);
        d.stopped = true;
        d.ended = true;
    }

    /// The opener is told that no more is wanted.
    pub fn saw_stop(&mut self, at: Ns, service: u32, code: u32) -> Checked {
        if !self.direction(service, false).stopped || code != GIVE_UP_CODE {
            let what = format!("stream {service}: a stop with code {code} that nobody sent");
            return Err(Violation::new(Rule::Forgery, at, what));
        }
        Ok(())
    }

    /// A reader got `data`, and the end if `fin`.
    pub fn read(&mut self, at: Ns, service: u32, back: bool, data: &[u8], fin: bool) -> Checked {
        let key = stream_key(service, back);
        let d = self.direction(service, back);
        let name = if back { "back" } else { "forward" };
        if d.ended && !data.is_empty() {
            let what = format!("stream {service} {name}: bytes after its end");
            return Err(Violation::new(Rule::StreamEnds, at, what));
        }
        if let Some(index) = content::first_difference(key, d.read, data) {
            let offset = d.read + index as u64;
            let what = format!("stream {service} {name}: the byte at {offset} is a wrong one");
            return Err(Violation::new(Rule::StreamBytes, at, what));
        }
        d.read += data.len() as u64;
        if d.read > d.written {
            let (read, written) = (d.read, d.written);
            let what = format!("stream {service} {name}: {read} bytes read of {written} written");
            return Err(Violation::new(Rule::Forgery, at, what));
        }
        if fin && !d.ended {
            if !d.finished || d.read != d.written {
                let what = format!("stream {service} {name}: ended too early: {d:?}");
                return Err(Violation::new(Rule::StreamEnds, at, what));
            }
            d.ended = true;
        }
        Ok(())
    }

    /// A reader is told that the writer gave up.
    pub fn saw_reset(&mut self, at: Ns, service: u32, back: bool, code: u32) -> Checked {
        let attempt = &mut self.attempts[service as usize];
        if back && !attempt.accepted && attempt.directions[0].reset && code == GIVE_UP_CODE {
            // Given up before the other host knew what it was for: its node answers so.
            attempt.directions.iter_mut().for_each(|d| d.ended = true);
            return Ok(());
        }
        let d = self.direction(service, back);
        if !(d.reset || d.stopped) || code != GIVE_UP_CODE {
            let what = format!("stream {service}: a reset with code {code} that nobody sent");
            return Err(Violation::new(Rule::Forgery, at, what));
        }
        d.ended = true;
        Ok(())
    }

    fn direction(&mut self, service: u32, back: bool) -> &mut Direction {
        &mut self.attempts[service as usize].directions[usize::from(back)]
    }
}
