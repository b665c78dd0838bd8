//! Small units, handed over one by one, and copies: what never queues like bulk, and has to keep to the window all
//! the same.

use tabane_proto::op::Policy;

use crate::bulk::{FRAMES, STREAM};
use crate::check::Checked;
use crate::net::{Conditions, MS, Ns, US};
use crate::run::{Passed, run_until};
use crate::schedule::Schedule;
use crate::workload::{FlowPlan, StreamPlan, UnitKind};

/// When everything is connected.
const BEGINS: Ns = 300 * MS;
/// How long it lasts.
const LASTS: Ns = 1_000 * MS;

/// Two hosts, joined by links of these rates (Mb/s), 0.1 ms each way.
fn joined(mbps: &[u64], queue_bytes: u64) -> Schedule {
    let mut s = Schedule::quiet(2, mbps.len());
    let wire = |mbps: &u64| Conditions::clean(mbps * 1_000_000, 50 * US, queue_bytes);
    for host in &mut s.hosts {
        host.wires = mbps.iter().map(|mbps| (wire(mbps), wire(mbps))).collect();
    }
    s
}

/// One unit after the other, over one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Small {
    /// Messages or frames.
    pub kind: UnitKind,
    /// Length of each.
    pub bytes: u32,
    /// From one to the next.
    pub every: Ns,
    /// Rate of the link in Mb/s.
    pub mbps: u64,
    /// What its switch holds.
    pub queue_bytes: u64,
}

impl Small {
    /// What became of a second of them, and of all that queued.
    ///
    /// # Errors
    /// What a checker found wrong.
    pub fn pass(self) -> Checked<Passed> {
        let mut s = joined(&[self.mbps], self.queue_bytes);
        s.plan.flows.push(FlowPlan {
            kind: self.kind,
            policy: Policy::Stripe,
            bytes_min: self.bytes,
            bytes_max: self.bytes,
            count: (LASTS / self.every) as u32,
            start: BEGINS,
            every_ns: self.every,
            window_bytes: u64::MAX,
            ..FRAMES
        });
        run_until(&s, BEGINS + LASTS)
    }
}

/// What became of a second of a mirrored stream over links of these rates (Mb/s).
///
/// # Errors
/// What a checker found wrong.
pub fn mirrored_bulk(mbps: &[u64], queue_bytes: u64) -> Checked<Passed> {
    let mut s = joined(mbps, queue_bytes);
    s.plan.streams.push(StreamPlan {
        policy: Policy::Mirror,
        start: BEGINS,
        ..STREAM
    });
    run_until(&s, BEGINS + LASTS)
}
