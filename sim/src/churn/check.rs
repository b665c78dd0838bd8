//! What is promised of a cluster whose nodes come and go.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::net::{MS, Ns, SECOND};

/// Everybody knows who joined, and has forgotten who left, within this …
pub const KNOWN_WITHIN: Ns = 2 * SECOND;
/// … and within this after parts of the cluster were apart: they compare what they know once a second, with one neighbour.
pub const KNOWN_AGAIN_WITHIN: Ns = 8 * SECOND;
/// A message waits no longer while both nodes live and there is a way.
pub const WAIT_MAX: Ns = SECOND + 100 * MS;
/// Who is silent is forgotten after this …
pub const FORGET_AFTER: Ns = 15 * SECOND;
/// … and what it takes to see that no path works (half a second until its neighbours ask, and three of silence of all
/// paths), to hear that nobody reaches it (up to a second), and to look (once a second).
pub const FORGOTTEN_WITHIN: Ns = FORGET_AFTER + 5_500 * MS;

/// A promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// All know all who are there.
    Known,
    /// Nobody knows who is gone for long, or has left.
    Forgotten,
    /// A message arrives once, in order, unchanged.
    Once,
    /// A message does not wait while there is a way.
    Wait,
    /// No message waits when all is over.
    Lost,
}

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// When.
    pub at: Ns,
    /// How.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { rule, at, what } = self;
        write!(f, "{rule:?} at {:.3} s: {what}", *at as f64 / 1e9)
    }
}

/// One life of a node: its place, and which of those there.
pub type Life = (usize, u32);

/// A message between two lives: how often the state of both ends was gone before, and its number since then.
pub type Number = (u32, u32);

/// Messages on their way between two lives, the oldest first: their numbers, and when they were sent.
#[derive(Debug, Default)]
struct Pair {
    next: Number,
    waiting: VecDeque<(Number, Ns)>,
}

/// Keeps books of messages.
#[derive(Debug, Default)]
pub struct Ledger {
    pairs: BTreeMap<(Life, Life), Pair>,
    /// How many arrived.
    pub arrived: u64,
    /// The longest wait of one that arrived while there was a way all the time.
    pub longest_wait: Ns,
}

impl Ledger {
    /// The number of the next message.
    pub fn sends(&mut self, now: Ns, from: Life, to: Life) -> Number {
        let pair = self.pairs.entry((from, to)).or_default();
        pair.next.1 += 1;
        pair.waiting.push_back((pair.next, now));
        pair.next
    }

    /// A message arrives. `way_since`: since when there has been a way without a break.
    pub fn arrives(
        &mut self,
        now: Ns,
        from: Life,
        to: Life,
        number: Number,
        way_since: Option<Ns>,
    ) -> Result<(), Broken> {
        // What a node sent before it died may come or not, …
        let Some(pair) = self.pairs.get_mut(&(from, to)) else {
            return Ok(());
        };
        if number.0 < pair.next.0 {
            // … and so may what was on its way when the state went.
            return Ok(());
        }
        let expected = pair.waiting.pop_front();
        let Some((_, sent_at)) = expected.filter(|(next, _)| *next == number) else {
            let what = format!("{from:?} to {to:?}: number {number:?} came, {expected:?} was next");
            return Err(Broken {
                rule: Rule::Once,
                at: now,
                what,
            });
        };
        self.arrived += 1;
        if way_since.is_some_and(|since| since <= sent_at) {
            self.longest_wait = self.longest_wait.max(now - sent_at);
        }
        Ok(())
    }

    /// The state of both ends is gone: what was on its way with it may be lost.
    pub fn ends(&mut self, a: Life, b: Life) {
        for ends in [(a, b), (b, a)] {
            // Of a life that has ended nothing is expected, and nothing to be counted anew.
            if let Some(pair) = self.pairs.get_mut(&ends) {
                pair.next = (pair.next.0 + 1, 0);
                pair.waiting.clear();
            }
        }
    }

    /// A life has ended.
    pub fn dies(&mut self, life: Life) {
        self.pairs
            .retain(|(from, to), _| *from != life && *to != life);
    }

    /// Messages that have waited for longer than they may.
    pub fn overdue(
        &self,
        now: Ns,
        way_since: impl Fn(usize, usize) -> Option<Ns>,
    ) -> Result<(), Broken> {
        for ((from, to), pair) in &self.pairs {
            let (Some((number, sent_at)), Some(since)) =
                (pair.waiting.front(), way_since(from.0, to.0))
            else {
                continue;
            };
            if now > since.max(*sent_at) + WAIT_MAX {
                let what = format!(
                    "{from:?} to {to:?}: number {number:?} of {:?} waits since {} ms, a way is there since {} ms",
                    pair.next,
                    sent_at / MS,
                    since / MS
                );
                return Err(Broken {
                    rule: Rule::Wait,
                    at: now,
                    what,
                });
            }
        }
        Ok(())
    }

    /// At the end, none waits.
    pub fn judge_end(&self, now: Ns) -> Result<(), Broken> {
        let mut open = self
            .pairs
            .iter()
            .filter(|(_, pair)| !pair.waiting.is_empty());
        open.next().map_or(Ok(()), |((from, to), pair)| {
            let what = format!("{from:?} to {to:?}: {:?} never came", pair.waiting.front());
            Err(Broken {
                rule: Rule::Lost,
                at: now,
                what,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Life = (0, 1);
    const B: Life = (1, 1);

    #[test]
    fn what_was_on_its_way_to_a_life_that_ended_may_come_whoever_hears_of_the_end() {
        let mut ledger = Ledger::default();
        ledger.sends(0, A, B);
        ledger.ends(A, B);
        let number = ledger.sends(0, A, B);
        // It leaves, and takes what comes until it is gone.
        ledger.dies(B);
        ledger.ends(A, B);
        assert_eq!(ledger.arrives(MS, A, B, number, None), Ok(()));
    }

    #[test]
    fn what_was_sent_since_the_state_was_gone_is_to_come_once() {
        let mut ledger = Ledger::default();
        ledger.sends(0, A, B);
        ledger.ends(A, B);
        let number = ledger.sends(0, A, B);
        assert_eq!(ledger.arrives(MS, A, B, number, None), Ok(()));
        let again = ledger.arrives(MS, A, B, number, None);
        assert_eq!(again.map_err(|broken| broken.rule), Err(Rule::Once));
    }
}
