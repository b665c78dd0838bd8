//! Small messages that are mirrored, while one link after the other fails.

use tabane_proto::op::Policy;

use crate::bulk::FRAMES;
use crate::check::Checked;
use crate::net::{Conditions, MS, Ns};
use crate::random::{Random, mix};
use crate::run::run_until;
use crate::schedule::{Change, Fault, Schedule, Side};
use crate::workload::{FlowPlan, UnitKind};

/// When everything is connected and the first link fails.
const BEGINS: Ns = 1000 * MS;
/// How long a link is down.
const DOWN: Ns = 250 * MS;
/// From one failure to the next, of another link: it is used again by then.
const EVERY: Ns = 900 * MS;
/// Line rate of the links.
const BPS: u64 = 1_000_000_000;

/// Two hosts on two links: the one sends the other a short message again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mirrored {
    /// Where its chance comes from.
    pub seed: u64,
    /// How many links fail, one after the other.
    pub failures: u64,
    /// Round trip of the links.
    pub rtt: Ns,
    /// From one message to the next.
    pub every: Ns,
    /// How each message is spread.
    pub policy: Policy,
}

impl Mirrored {
    fn ends(self) -> Ns {
        BEGINS + self.failures * EVERY
    }

    fn schedule(self) -> Schedule {
        let wire = Conditions::clean(BPS, self.rtt / 4, BPS / 8 / 20);
        let mut s = Schedule::quiet(2, 2);
        s.seed = self.seed;
        for host in &mut s.hosts {
            host.wires = vec![(wire, wire); 2];
        }
        s.plan.flows.push(FlowPlan {
            kind: UnitKind::Message,
            policy: self.policy,
            bytes_min: 64,
            bytes_max: 64,
            start: BEGINS / 2,
            every_ns: self.every,
            ..FRAMES
        });
        let mut random = Random::new(mix(self.seed));
        for failure in 0..self.failures {
            let link = (failure % 2) as usize;
            // At any moment between two messages.
            let at = BEGINS + failure * EVERY + random.below(self.every.max(1));
            let [begins, ends] = match random.below(4) {
                0 => [Fault::Switch(link, true), Fault::Switch(link, false)],
                1 => [
                    Fault::Carrier(0, link, false),
                    Fault::Carrier(0, link, true),
                ],
                2 => [Change::Dead, Change::Restore]
                    .map(|change| Fault::Wire(0, link, Side::Up, change)),
                _ => [Change::Dead, Change::Restore]
                    .map(|change| Fault::Wire(1, link, Side::Both, change)),
            };
            s.faults.extend([(at, begins), (at + DOWN, ends)]);
        }
        s
    }

    /// The longest that a message took to arrive.
    ///
    /// # Errors
    /// What a checker found wrong.
    pub fn longest_wait(self) -> Checked<Ns> {
        Ok(run_until(&self.schedule(), self.ends())?.longest_wait)
    }
}
