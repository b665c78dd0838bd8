//! The processor of a host whose machine is busy elsewhere: it runs for a while, then
//! others do.

use crate::net::Ns;
use crate::random::Random;

/// How a host's process is kept from running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// It runs for so long at a time, …
    pub runs_ns: Ns,
    /// … then waits for this long at least …
    pub waits_min_ns: Ns,
    /// … and this long at most.
    pub waits_max_ns: Ns,
}

/// What a process has of its processor.
#[derive(Debug)]
pub struct Processor {
    shortage: Option<Shortage>,
    runs: bool,
    until: Ns,
    random: Random,
}

impl Processor {
    /// One that is there whenever it is wanted.
    pub const fn new(random: Random) -> Processor {
        Processor {
            shortage: None,
            runs: true,
            until: 0,
            random,
        }
    }

    /// From now on it is short, or no longer.
    pub const fn set(&mut self, now: Ns, shortage: Option<Shortage>) {
        self.shortage = shortage;
        self.runs = false;
        self.until = now;
    }

    /// When the process can run: `now` or later.
    pub fn next(&mut self, now: Ns) -> Ns {
        let Some(shortage) = self.shortage else {
            return now;
        };
        while self.until <= now {
            self.runs = !self.runs;
            self.until += match self.runs {
                true => shortage.runs_ns.max(1),
                false => {
                    let (least, most) = (shortage.waits_min_ns, shortage.waits_max_ns);
                    self.random.between(least, most)
                }
            };
        }
        if self.runs { now } else { self.until }
    }
}
