//! Bulk over two equally fast links between hosts that get little of their processors.

use crate::bulk::{DELAY_NS, Traffic};
use crate::check::Checked;
use crate::net::{Conditions, Ns};
use crate::processor::Shortage;
use crate::run::goodput_between;
use crate::schedule::{Fault, Schedule};

/// Two hosts, two links of the same rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Where its chance comes from.
    pub seed: u64,
    /// Rate of each link, in Mb/s.
    pub mbps: u64,
    /// Which of the sender and the receiver are short of processor time, …
    pub short: [bool; 2],
    /// … and how.
    pub shortage: Shortage,
    /// That begins at this time. Bulk flows from the start on.
    pub begins: Ns,
    /// Until then it runs.
    pub ends: Ns,
}

impl Pair {
    fn schedule(self, traffic: Traffic) -> Schedule {
        let bps = self.mbps * 1_000_000;
        let wire = Conditions::clean(bps, DELAY_NS / 2, (bps / 8 / 20).max(32 * 1024));
        let mut s = Schedule::quiet(2, 2);
        s.seed = self.seed;
        for host in &mut s.hosts {
            host.wires = vec![(wire, wire); 2];
        }
        traffic.add_to(&mut s, (0, 1), 0);
        let short = (0..2).filter(|host| self.short[*host]);
        let fault = |host| (self.begins, Fault::Short(host, Some(self.shortage)));
        s.faults.extend(short.map(fault));
        s
    }

    /// Bytes of content that arrive.
    ///
    /// # Errors
    /// What a checker found wrong.
    pub fn carries(self, traffic: Traffic) -> Checked<u64> {
        let carried = goodput_between(&self.schedule(traffic), (0, self.ends), &[(0, 1)])?;
        Ok(carried[0].0)
    }

    /// The same from `since` on, where one link's delay is longer by `farther`, one way.
    ///
    /// # Errors
    /// What a checker found wrong.
    pub fn carries_farther(self, traffic: Traffic, farther: Ns, since: Ns) -> Checked<u64> {
        let mut schedule = self.schedule(traffic);
        for host in &mut schedule.hosts {
            host.wires[1].0.delay_ns += farther;
        }
        let carried = goodput_between(&schedule, (since, self.ends), &[(0, 1)])?;
        Ok(carried[0].0)
    }
}
