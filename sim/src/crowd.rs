//! Many hosts send to one, or everybody to everybody: what each of them gets.

use crate::bulk::{DELAY_NS, Traffic};
use crate::net::{Conditions, MS, Ns};
use crate::run::goodput_between;
use crate::schedule::Schedule;

/// When it is measured: all have begun, and nobody's window decides what arrives.
const WINDOW: (Ns, Ns) = (1000 * MS, 3000 * MS);
/// One begins after the other.
const STAGGER: Ns = 10 * MS;
/// What a port lets pass at once after a rest, as a token bucket does.
const BURST_BYTES: u64 = 16 << 10;

/// Hosts that send in bulk.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Who sends to whom: pairs of hosts.
    pub pairs: Vec<(usize, usize)>,
    /// Rate of each of everybody's links, in Mb/s.
    pub mbps: u64,
    /// How many links everybody has.
    pub links: usize,
    /// The way from one to the other, without queues.
    pub delay: Ns,
}

impl Crowd {
    /// `senders` hosts send to one more.
    #[must_use]
    pub fn to_one(senders: usize, mbps: u64) -> Crowd {
        Crowd::new((1..=senders).map(|from| (from, 0)).collect(), mbps)
    }

    /// Each of `hosts` sends to every other.
    #[must_use]
    pub fn to_all(hosts: usize, mbps: u64) -> Crowd {
        let all = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        Crowd::new(all.filter(|(from, to)| from != to).collect(), mbps)
    }

    const fn new(pairs: Vec<(usize, usize)>, mbps: u64) -> Crowd {
        let (links, delay) = (2, DELAY_NS);
        Crowd {
            pairs,
            mbps,
            links,
            delay,
        }
    }

    fn hosts(&self) -> usize {
        let last = self.pairs.iter().map(|&(from, to)| from.max(to)).max();
        last.map_or(0, |last| last + 1)
    }

    fn schedule(&self, traffic: Traffic) -> Schedule {
        let bps = self.mbps * 1_000_000;
        // A buffer of 50 ms: time enough for a queue that nobody holds down.
        let mut wire = Conditions::clean(bps, self.delay / 2, bps / 8 / 20);
        wire.burst_bytes = BURST_BYTES;
        let mut s = Schedule::quiet(self.hosts(), self.links);
        for host in &mut s.hosts {
            host.wires = vec![(wire, wire); self.links];
        }
        for (nth, &pair) in self.pairs.iter().enumerate() {
            traffic.add_to(&mut s, pair, nth as Ns * STAGGER);
        }
        s
    }

    /// Content that arrives of each pair, in Mb/s.
    ///
    /// # Panics
    /// If a rule of the simulator is broken.
    #[must_use]
    pub fn mbps_of_each(&self, traffic: Traffic) -> Vec<f64> {
        let carried = goodput_between(&self.schedule(traffic), WINDOW, &self.pairs);
        let seconds = (WINDOW.1 - WINDOW.0) as f64 / 1e9;
        let mbps = |(bytes, _): (u64, u64)| bytes as f64 * 8.0 / seconds / 1e6;
        carried
            .expect("no rule is broken")
            .into_iter()
            .map(mbps)
            .collect()
    }
}
