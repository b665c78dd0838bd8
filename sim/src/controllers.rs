//! Our congestion controller beside CUBIC (RFC 9438): each on the same wires, with nothing else changed.

use std::fmt::Write;

use tabane_proto::CongestionControl;
use tabane_proto::op::Policy;

use crate::bulk::{EFFICIENCY, FRAMES, STREAM};
use crate::net::{Conditions, MS, Ns, US};
use crate::run::{Carried, carried_between};
use crate::runner::share_out;
use crate::schedule::Schedule;
use crate::workload::{FlowPlan, StreamPlan, UnitKind};

/// Bulk is measured between these instants.
const WINDOW: (Ns, Ns) = (1_000 * MS, 4_000 * MS);
/// A small message goes beside it so often.
const MESSAGE_EVERY: Ns = 7 * MS;
const MESSAGE_BYTES: u32 = 200;

/// A wire between two hosts.
#[derive(Clone, Copy, Debug)]
struct Wire {
    what: &'static str,
    mbps: u64,
    /// There and back, without queues.
    rtt: Ns,
    /// What its port holds.
    queue_bytes: u64,
    /// Packets that chance takes, of a million, on the way of the bulk.
    loss_ppm: u32,
    /// Whether the other host sends as much.
    both_ways: bool,
}

const SOUND: Wire = Wire {
    what: "",
    mbps: 1000,
    rtt: 200 * US,
    queue_bytes: 512 << 10,
    loss_ppm: 0,
    both_ways: false,
};

const WIRES: [Wire; 11] = [
    Wire {
        what: "1 Gb/s, 0.2 ms",
        ..SOUND
    },
    Wire {
        what: "the same both ways",
        both_ways: true,
        ..SOUND
    },
    Wire {
        what: "100 Mb/s, 0.2 ms",
        mbps: 100,
        ..SOUND
    },
    Wire {
        what: "port of 32 KB",
        queue_bytes: 32 << 10,
        ..SOUND
    },
    Wire {
        what: "port of 4 MB",
        queue_bytes: 4 << 20,
        ..SOUND
    },
    Wire {
        what: "loses 0.1%",
        loss_ppm: 1_000,
        ..SOUND
    },
    Wire {
        what: "loses 1%",
        loss_ppm: 10_000,
        ..SOUND
    },
    Wire {
        what: "loses 10%",
        loss_ppm: 100_000,
        ..SOUND
    },
    Wire {
        what: "10 ms",
        rtt: 10 * MS,
        ..SOUND
    },
    Wire {
        what: "10 ms, port of 4 MB",
        rtt: 10 * MS,
        queue_bytes: 4 << 20,
        ..SOUND
    },
    Wire {
        what: "10 ms, loses 0.1%",
        rtt: 10 * MS,
        loss_ppm: 1_000,
        ..SOUND
    },
];

impl Wire {
    fn schedule(&self, congestion: CongestionControl) -> Schedule {
        let mut s = Schedule::quiet(2, 1);
        s.congestion = congestion;
        // A host's wire has its port at the switch: there and back are four ways.
        let wire = Conditions::clean(self.mbps * 1_000_000, self.rtt / 4, self.queue_bytes);
        for host in &mut s.hosts {
            host.wires = vec![(wire, wire)];
        }
        s.hosts[0].wires[0].0.loss_ppm = self.loss_ppm;
        for (from, to) in [(0, 1), (1, 0)]
            .into_iter()
            .take(1 + usize::from(self.both_ways))
        {
            s.plan.streams.push(StreamPlan { from, to, ..STREAM });
        }
        s.plan.flows.push(FlowPlan {
            kind: UnitKind::Message,
            policy: Policy::Stripe,
            bytes_min: MESSAGE_BYTES,
            bytes_max: MESSAGE_BYTES,
            start: WINDOW.0,
            every_ns: MESSAGE_EVERY,
            window_bytes: u64::MAX,
            ..FRAMES
        });
        s
    }

    /// What bulk gets of the wire, in percent.
    fn share(&self, carried: &Carried) -> f64 {
        let seconds = (WINDOW.1 - WINDOW.0) as f64 / 1e9;
        let kept = 1.0 - f64::from(self.loss_ppm) / 1e6;
        let could = self.mbps as f64 * 1e6 / 8.0 * seconds * EFFICIENCY * kept;
        carried.bytes as f64 / could * 100.0
    }
}

/// Both controllers on every wire.
///
/// # Panics
/// If a rule of the simulator is broken.
#[must_use]
pub fn table(threads: usize) -> String {
    const BOTH: [CongestionControl; 2] = [CongestionControl::QueueTarget, CongestionControl::Cubic];
    let jobs: Vec<(Wire, CongestionControl)> = WIRES
        .iter()
        .flat_map(|wire| BOTH.map(|control| (*wire, control)))
        .collect();
    let results = share_out(&jobs, threads, |(wire, control)| {
        let carried = carried_between(&wire.schedule(*control), WINDOW, (0, 1));
        carried.unwrap_or_else(|violation| panic!("{}, {control:?}: {violation}", wire.what))
    });
    let mut text = String::from(
        "One stream without end: % of the wire that it gets; longest wait of small messages beside it, ms; packets\n\
         that were lost, %.\n\n\
         \x20                          ours                     CUBIC\n",
    );
    for (wire, both) in WIRES.iter().zip(results.chunks(2)) {
        let _ = write!(text, "{:<22}", wire.what);
        for carried in both {
            let wait_ms = carried.longest_wait as f64 / 1e6;
            let lost = carried.lost as f64 / carried.sent.max(1) as f64 * 100.0;
            let share = wire.share(carried);
            let _ = write!(text, "{share:>7.1} {wait_ms:>8.2} {lost:>7.2}  ");
        }
        text.push('\n');
    }
    text
}
