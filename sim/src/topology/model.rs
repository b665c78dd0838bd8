//! Round trips on a tree of store-and-forward switches.

use super::shape::{Shape, Tree};
use crate::Random;
use tabane_proto::topology::Probe;

/// Bytes on the wire of a padded probe and of its answer, with all that Ethernet adds.
const PADDED_BYTES: f64 = 1_538.0;
const ANSWER_BYTES: f64 = 94.0;
/// What a switch needs to decide, each way, in µs.
const SWITCH_US: f64 = 2.5;
/// Half a round trip that every host has, in µs.
const HOST_US: f64 = 15.0;
/// Full packets that come in one burst, at most.
const BURST_MAX: u64 = 8;
/// One probe in a hundred of so many waits long in a host, for so long in the mean.
const LATE_PERCENT: u32 = 2;
const LATE_US: f64 = 500.0;
/// How long a round takes, in µs, for each probe of a pair: so much that a node's link at 1 Gb/s is used to 1%.
const PROBE_EVERY_US: f64 = 1_250.0;

/// What goes on in a network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Rate of trunks, in Mb/s; hosts have 1 Gb/s.
    pub trunk_mbps: u32,
    /// Mean of what a host adds to a round trip (exponential), in µs.
    pub jitter_us: f64,
    /// Part of the time in which a trunk is busy, from 0 to 1, without the probes.
    pub load: f64,
    /// Standard deviation of what one host's NIC always adds, in µs.
    pub nic_us: f64,
    /// Probes of which the least round trip is taken.
    pub samples: u32,
    /// A node that lies.
    pub liar: Option<Liar>,
}

/// How node 0 lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liar {
    /// Every round trip that it says it measured, or took part in, is another one.
    Anything,
    /// It answers before it is asked: all are next to none.
    Low,
    /// It answers some of them late.
    Late,
    /// It answers nobody.
    Silent,
}

impl Liar {
    /// By its name on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Liar> {
        match name {
            "anything" => Some(Liar::Anything),
            "low" => Some(Liar::Low),
            "late" => Some(Liar::Late),
            "silent" => Some(Liar::Silent),
            _ => None,
        }
    }
}

impl Default for Model {
    fn default() -> Model {
        Model {
            trunk_mbps: 1000,
            jitter_us: 10.0,
            load: 0.1,
            nic_us: 2.0,
            samples: 8,
            liar: None,
        }
    }
}

impl Model {
    /// What a survey is told of the cost of a hop, in ns: what the wire takes, and up to 10 µs in the switch.
    #[must_use]
    pub fn hop_ns(&self) -> (u64, u64) {
        tabane_proto::topology::Config::for_rate(self.trunk_mbps).hop_ns
    }

    /// What a hop costs, in µs.
    fn hop_us(&self) -> f64 {
        self.wire_us(PADDED_BYTES) + self.wire_us(ANSWER_BYTES) + 2.0 * SWITCH_US
    }

    fn wire_us(&self, bytes: f64) -> f64 {
        bytes * 8.0 / f64::from(self.trunk_mbps)
    }
}

/// A network of which the truth is known.
#[derive(Debug)]
pub struct Network {
    tree: Tree,
    model: Model,
    depth: Vec<usize>,
    constants_us: Vec<f64>,
    random: Random,
    /// Probes that each node sent or answered.
    pub probes: Vec<u64>,
    /// Probes of one round that went over one trunk in one direction, at most, as a part of what it carries.
    pub trunk_share_max: f64,
    /// Rounds in which a node was asked for two measurements: a fault of the planner.
    pub clashes: u32,
}

impl Network {
    /// The network that a seed draws.
    #[must_use]
    pub fn draw(shape: Shape, model: &Model, seed: u64) -> Network {
        let mut random = Random::new(seed);
        let tree = shape.draw(&mut random.fork(1));
        let mut depth = vec![0; tree.parents.len()];
        for at in 0..depth.len() {
            depth[at] = tree.parents[at].map_or(0, |p| depth[p] + 1);
        }
        let nodes = tree.switch_of.len();
        let mut hosts = random.fork(2);
        let constants_us = (0..nodes)
            .map(|_| HOST_US + (normal(&mut hosts) * model.nic_us).abs())
            .collect();
        Network {
            tree,
            model: *model,
            depth,
            constants_us,
            random: random.fork(3),
            probes: vec![0; nodes],
            trunk_share_max: 0.0,
            clashes: 0,
        }
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.tree.switch_of.len()
    }

    /// The tree as it is.
    #[must_use]
    pub fn truth(&self) -> &Tree {
        &self.tree
    }

    /// Whether a node answers anybody.
    #[must_use]
    pub fn answers(&self, node: usize) -> bool {
        node != 0 || self.model.liar != Some(Liar::Silent)
    }

    /// How long a round takes, in seconds.
    #[must_use]
    pub fn round_seconds(&self) -> f64 {
        f64::from(self.model.samples) * PROBE_EVERY_US / 1e6
    }

    /// Measures all pairs of a round at the same time. Their probes load the trunks, too.
    pub fn measure(&mut self, round: &[Probe]) -> Vec<(Probe, Option<u64>)> {
        let mut share = vec![[0.0; 2]; self.tree.parents.len()];
        let mut busy = vec![false; self.nodes()];
        for probe in round {
            let clash = busy[probe.from] || busy[probe.to] || probe.from == probe.to;
            self.clashes += u32::from(clash);
            (busy[probe.from], busy[probe.to]) = (true, true);
            for (trunk, up) in self.way(probe) {
                let bytes = [(up, PADDED_BYTES), (!up, ANSWER_BYTES)];
                for (up, bytes) in bytes {
                    share[trunk][usize::from(up)] += self.model.wire_us(bytes) / PROBE_EVERY_US;
                }
            }
        }
        let most = share.iter().flatten().copied().fold(0.0, f64::max);
        self.trunk_share_max = self.trunk_share_max.max(most);
        round
            .iter()
            .map(|p| (*p, self.least_ns(p, &share)))
            .collect()
    }

    /// The trunks that a probe crosses, named by the lower switch, and whether upwards.
    fn way(&self, probe: &Probe) -> Vec<(usize, bool)> {
        let (mut a, mut b) = (
            self.tree.switch_of[probe.from],
            self.tree.switch_of[probe.to],
        );
        let mut way = Vec::new();
        while a != b {
            let up = self.depth[a] >= self.depth[b];
            let lower = if up { &mut a } else { &mut b };
            way.push((*lower, up));
            *lower = self.tree.parents[*lower].unwrap_or(0);
        }
        way
    }

    fn least_ns(&mut self, probe: &Probe, share: &[[f64; 2]]) -> Option<u64> {
        let way = self.way(probe);
        for node in [probe.from, probe.to] {
            self.probes[node] += u64::from(self.model.samples);
        }
        let (from, to) = (self.constants_us[probe.from], self.constants_us[probe.to]);
        let ends_us = (PADDED_BYTES + ANSWER_BYTES) * 8.0 / 1000.0;
        let always_us = from + to + ends_us + (way.len() + 1) as f64 * self.model.hop_us();
        let mut least_us = f64::MAX;
        for _ in 0..self.model.samples {
            let mut us = always_us + exponential(&mut self.random, self.model.jitter_us);
            if self.random.percent(LATE_PERCENT) {
                us += exponential(&mut self.random, LATE_US);
            }
            for (trunk, up) in &way {
                for up in [*up, !*up] {
                    let load = (self.model.load + share[*trunk][usize::from(up)]).min(1.0);
                    if unit(&mut self.random) < load {
                        let burst = self.random.between(1, BURST_MAX) as f64;
                        us += unit(&mut self.random) * burst * self.model.wire_us(PADDED_BYTES);
                    }
                }
            }
            least_us = least_us.min(us);
        }
        self.told(probe, (least_us * 1e3) as u64)
    }

    /// What is said to have been measured.
    fn told(&mut self, probe: &Probe, least_ns: u64) -> Option<u64> {
        let lies = probe.from == 0 || probe.to == 0;
        let Some(liar) = self.model.liar.filter(|_| lies) else {
            return Some(least_ns);
        };
        match liar {
            Liar::Anything => match self.random.below(8) {
                0 => Some(0),
                1 => Some(u64::MAX),
                _ => Some(self.random.below(400_000)),
            },
            Liar::Low => Some(self.random.below(20_000)),
            Liar::Late => Some(least_ns + self.random.below(2) * 60_000),
            Liar::Silent => None,
        }
    }
}

/// From 0 to 1, without 1.
fn unit(random: &mut Random) -> f64 {
    (random.u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    -mean * (1.0 - unit(random)).ln()
}

/// Of mean 0 and deviation 1 (Box and Muller 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
    radius * (core::f64::consts::TAU * unit(random)).cos()
}
