//! Which nodes of one network share a switch, and how the switches hang together, from round trips alone.
//!
//! The network is a tree of store-and-forward switches. Each of them receives a packet whole before it passes it on, so a
//! large probe that a small packet answers takes longer by a known step for every switch on its way. The least of a few
//! round trips, less a constant of either host, is a whole number of such steps, if no probe had to wait.
//!
//! A [`Survey`] says which pairs to measure ([`Survey::next_round`]), is told what was measured ([`Survey::record`]), and
//! says at any time what it makes of it ([`Survey::map`]). It has no clock: a round is whatever its driver makes of it.

mod fit;
mod map;
mod noise;
mod pairs;
mod place;
mod plan;
mod solve;
mod tree;
mod trunks;

#[cfg(test)]
mod tests;

pub use map::{Ambiguity, Map, Switch, Trunk};
pub use trunks::packets_per_s;

use pairs::{Least, Pairs};
use plan::Plan;
use solve::Solver;

/// A survey has so many nodes at most; others are ignored.
pub const NODES_MAX: usize = 4096;

/// What a switch needs to decide, both ways, at most.
const SWITCH_NS: u64 = 10_000;

/// How a network is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Probes that the least round trip of a pair is taken of, each time that it is measured; from 1 up.
    pub samples: u32,
    /// What one more switch may add to a round trip, from … to, in ns. If that is twice as much at most as at least, a
    /// step could be taken for two: then the length of no trunk is sure.
    pub hop_ns: (u64, u64),
    /// No more rounds than this.
    pub rounds_max: u32,
    /// No node takes part in more measurements than this.
    pub measurements_max: u32,
    /// So many measurements of one round may cross a trunk in one direction, as far as is known.
    pub crossing_max: u32,
}

impl Config {
    /// For links and trunks of a rate in Mb/s, probes of 1,472 bytes (as UDP carries them in 1,500), and a round of 8 probes
    /// a pair in 10 ms at 1 Gb/s: 1% of a node's link, and 10% of a trunk.
    #[must_use]
    pub fn for_rate(mbps: u32) -> Config {
        let ns = |bytes: u64| bytes * 8_000 / u64::from(mbps.max(1));
        let least = ns(1_538 + 94);
        Config {
            samples: 8,
            hop_ns: (least, least + SWITCH_NS),
            rounds_max: 500,
            measurements_max: 480,
            crossing_max: 9,
        }
    }
}

/// A pair to be measured: `from` sends padded probes, `to` answers each with a small packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Number of the node that probes.
    pub from: usize,
    /// Number of the node that answers.
    pub to: usize,
}

/// Measurement of one network, and what follows from it.
#[derive(Debug)]
pub struct Survey {
    config: Config,
    pairs: Pairs,
    solver: Solver,
    plan: Plan,
}

impl Survey {
    /// A network of so many nodes, of which nothing is known.
    #[must_use]
    pub fn new(nodes: usize, config: Config) -> Survey {
        let nodes = nodes.min(NODES_MAX);
        let config = Config {
            samples: config.samples.max(1),
            hop_ns: (
                config.hop_ns.0.max(1),
                config.hop_ns.1.max(config.hop_ns.0.max(1)),
            ),
            ..config
        };
        Survey {
            config,
            pairs: Pairs::new(nodes),
            solver: Solver::new(nodes, &config),
            plan: Plan::new(nodes),
        }
    }

    /// The pairs to be measured at the same time now. No node is in two of them. Empty: there is nothing more to measure.
    pub fn next_round(&mut self) -> Vec<Probe> {
        if self.plan.is_over(&self.config) {
            return Vec::new();
        }
        if self.plan.is_empty() {
            self.solver.solve(&self.pairs, false);
            self.plan.fill(&self.config, &self.pairs, &self.solver);
        }
        self.plan.next()
    }

    /// What came of it: the least round trip of the probes in ns; none if nothing came back, or too little to be sure.
    /// A pair of nodes that there are not is ignored.
    pub fn record(&mut self, probe: Probe, least_ns: Option<u64>) {
        let nodes = self.solver.nodes();
        if probe.from < nodes && probe.to < nodes && probe.from != probe.to {
            self.pairs.record(probe.from, probe.to, least_ns);
            self.solver.touch(probe.from);
            self.solver.touch(probe.to);
        }
    }

    /// What the network looks like as far as is known.
    #[must_use]
    pub fn map(&mut self) -> Map {
        self.solver.solve(&self.pairs, true);
        Map::of(&self.solver, &self.pairs)
    }
}
