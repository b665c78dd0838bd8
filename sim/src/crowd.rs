//! Many hosts send to one over two links: what each of them gets.

use crate::net::{Conditions, MS, Ns};
use crate::run::goodput_between;
use crate::schedule::Schedule;
use crate::snapshot::{DELAY_NS, FRAMES, STREAM, Traffic};
use crate::workload::{FlowPlan, StreamPlan};

/// When it is measured: all have begun, and nobody's window decides what arrives.
const WINDOW: (Ns, Ns) = (1000 * MS, 3000 * MS);
/// One begins after the other.
const STAGGER: Ns = 10 * MS;
/// What a port lets pass at once after a rest, as a token bucket does.
const BURST_BYTES: u64 = 16 << 10;

/// Hosts that all send to one more, in bulk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crowd {
    /// How many.
    pub senders: usize,
    /// Rate of each of everybody's two links, in Mb/s.
    pub mbps: u64,
}

impl Crowd {
    fn schedule(self, traffic: Traffic) -> Schedule {
        let bps = self.mbps * 1_000_000;
        // A buffer of 50 ms: time enough for a queue that nobody holds down.
        let mut wire = Conditions::clean(bps, DELAY_NS / 2, bps / 8 / 20);
        wire.burst_bytes = BURST_BYTES;
        let mut s = Schedule::quiet(self.senders + 1, 2);
        for host in &mut s.hosts {
            host.wires = vec![(wire, wire); 2];
        }
        for from in 1..=self.senders {
            let (to, start) = (0, from as Ns * STAGGER);
            let stream = StreamPlan {
                from,
                to,
                start,
                ..STREAM
            };
            let flow = FlowPlan {
                from,
                to,
                start,
                ..FRAMES
            };
            match traffic {
                Traffic::Stream => s.plan.streams.push(stream),
                Traffic::Frames => s.plan.flows.push(flow),
            }
        }
        s
    }

    /// Content that arrives from each sender, in Mb/s.
    ///
    /// # Panics
    /// If a rule of the simulator is broken.
    pub fn mbps_of_each(self, traffic: Traffic) -> Vec<f64> {
        let pairs: Vec<_> = (1..=self.senders).map(|from| (from, 0)).collect();
        let carried = goodput_between(&self.schedule(traffic), WINDOW, &pairs);
        let seconds = (WINDOW.1 - WINDOW.0) as f64 / 1e9;
        let mbps = |(bytes, _): (u64, u64)| bytes as f64 * 8.0 / seconds / 1e6;
        carried
            .expect("no rule is broken")
            .into_iter()
            .map(mbps)
            .collect()
    }
}
