//! Which nodes of one network share a switch, and how the switches are connected, from round trips alone.
//!
//! The network is a tree of store-and-forward switches. A switch receives a packet whole before it passes it on, so every
//! switch on the way lengthens the round trip of a large probe with a small answer by a known step. If one of several probes
//! had to wait nowhere, the least round trip, minus a constant of each host, is a whole number of such steps.
//!
//! A [`Survey`] says which pairs to measure ([`Survey::next_round`]), takes the results ([`Survey::record`]), and gives its
//! current conclusion at any time ([`Survey::map`]). It has no clock: its driver decides what a round is.
//!
//! Switches are found by likelihood, and not by thresholds, which take a slow host for a far one (paper 002, section
//! 2.1). `noise` learns how much the probes waited, `fit` and `tree` keep the tree that makes all measurements likeliest,
//! `place` computes for each node how likely it is on each switch, `plan` has doubtful pairs measured next, and `map`
//! reports as ambiguous what is not likely enough. `sim topology` judges the result.
//!
//! With the simulator's trees (1 Gb/s, 10% load, jitter 10 µs, hosts' constants with σ = 2 µs) all of 400 networks of up
//! to 256 nodes are exact, and 99 of 100 networks of 1,024 nodes; in the other one a switch was split in two, and
//! reported as certain. With σ = 10 µs 95% of the nodes are grouped right, and nothing wrong is reported as certain.
//! Behind trunks of 10 Gb/s the wire adds 1 µs per switch, less than the switch may need to decide: a step could be two,
//! so no trunk is reported as more certain than 90%.

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

/// The most nodes of a survey; others are ignored.
pub const NODES_MAX: usize = 4096;

/// The most that a switch needs for its decision, both ways.
const SWITCH_NS: u64 = 10_000;

/// How a network is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Probes that the least round trip of a pair is taken of, each time that it is measured; from 1 up.
    pub samples: u32,
    /// Range of what one more switch adds to a round trip, in ns. If the upper end is at least twice the lower one, a step
    /// could be taken for two: then no trunk's length is certain.
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
    /// A survey of this many nodes, without any measurement.
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

    /// The pairs to measure at the same time now. No node is in two of them. Empty: nothing is left to measure.
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

    /// Records a probe's result: the least round trip in ns; `None` if nothing came back, or too little to be sure. Pairs
    /// with unknown nodes are ignored.
    pub fn record(&mut self, probe: Probe, least_ns: Option<u64>) {
        let nodes = self.solver.nodes();
        if probe.from < nodes && probe.to < nodes && probe.from != probe.to {
            self.pairs.record(probe.from, probe.to, least_ns);
            self.solver.touch(probe.from);
            self.solver.touch(probe.to);
        }
    }

    /// The network as far as it is known.
    #[must_use]
    pub fn map(&mut self) -> Map {
        self.solver.solve(&self.pairs, true);
        Map::of(&self.solver, &self.pairs)
    }
}
