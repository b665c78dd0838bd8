//! How far a measured least round trip may be from the cost of its hops.
//!
//! The error of the least of several round trips is either small and two-sided (the hosts' constants are known only
//! roughly), or large and positive (all of the probes waited at some trunk). The farther apart a pair is, the more trunks
//! there are.

use super::Least;

/// More hops than this are not told apart.
pub(super) const HOPS_MAX: usize = 48;
/// One measurement in this many is worthless: so no single one, nor a lying host, decides anything.
const WRONG_ONE_IN: f64 = 50.0;
/// Table of log-likelihoods: its first value in µs; next, the step and the number of entries.
const FROM_US: f64 = -64.0;
const STEP_US: f64 = 0.5;
const STEPS: usize = 640;
/// Hops beyond which trunks make it no worse.
const CLASSES: usize = 25;
/// Candidates when the noise is fitted: spread in µs, and probability of waiting at a trunk.
const CORES_US: [f64; 8] = [1.0, 1.5, 2.0, 3.0, 4.5, 6.5, 9.0, 13.0];
const LOADS: [f64; 5] = [0.03, 0.08, 0.15, 0.3, 0.5];

/// Log-likelihood of one measurement for each number of hops.
pub(super) type Row = [f32; HOPS_MAX];

/// The fitted noise, and the cost of a hop.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    /// What one more switch adds to a round trip, in µs.
    pub hop_us: f64,
    /// Round trip between two usual hosts at one switch, in µs.
    pub base_us: f64,
    /// How far hosts' constants spread, in µs (a standard deviation).
    pub spread_us: f64,
    core_us: f64,
    load: f64,
    samples: u32,
    table: Vec<f32>,
}

impl Noise {
    pub fn new(hop_us: f64, base_us: f64, samples: u32) -> Noise {
        let mut noise = Noise {
            hop_us,
            base_us,
            spread_us: 0.2 * hop_us,
            core_us: 3.0,
            load: 0.15,
            samples,
            table: Vec::new(),
        };
        noise.fill();
        noise
    }

    /// Narrowest spread that a host's unknown constant is searched with, in µs.
    pub fn core_us(&self) -> f64 {
        self.core_us
    }

    /// How unlikely it is, in nats below the likeliest, that a host's constant differs by this much from the usual one.
    /// Some hosts are far slower than most, so the tails are those of Student's distribution.
    pub fn slow_nats(&self, off_us: f64) -> f32 {
        (-2.0 * (1.0 + (off_us / self.spread_us).powi(2) / 3.0).ln()) as f32
    }

    /// Takes what explains best how far measurements are from their hops: (excess in µs, hops).
    pub fn fit(&mut self, excesses: &[(f64, usize)]) {
        if excesses.len() < 20 {
            return;
        }
        let mut best = (f64::MIN, self.core_us, self.load);
        for core_us in CORES_US.into_iter().filter(|c| *c >= 0.1 * self.hop_us) {
            for load in LOADS {
                (self.core_us, self.load) = (core_us, load);
                let sum = excesses.iter().map(|&(x, h)| self.density(x, h).ln());
                let sum: f64 = sum.sum();
                if sum > best.0 {
                    best = (sum, core_us, load);
                }
            }
        }
        (self.core_us, self.load) = (best.1, best.2);
        self.fill();
    }

    fn density(&self, excess_us: f64, hops: usize) -> f64 {
        let clean = (1.0 - self.load).powi(2 * hops.min(CLASSES) as i32);
        let waits = (1.0 - clean).powi(self.samples as i32).clamp(0.02, 0.9);
        let tail_us = 0.4 * self.hop_us * (1.0 + hops as f64 / 6.0);
        let core = (-0.5 * (excess_us / self.core_us).powi(2)).exp();
        let area = self.core_us * 1.2533 * (2.0 - waits) + tail_us * waits;
        let usual = if excess_us < 0.0 {
            core
        } else {
            (1.0 - waits) * core + waits * (-excess_us / tail_us).exp()
        };
        let range_us = STEPS as f64 * STEP_US;
        (1.0 - 1.0 / WRONG_ONE_IN) * usual / area + 1.0 / WRONG_ONE_IN / range_us
    }

    fn fill(&mut self) {
        self.table.clear();
        for hops in 0..CLASSES {
            for step in 0..STEPS {
                let excess_us = FROM_US + step as f64 * STEP_US;
                let density = self.density(excess_us, hops);
                self.table.push(density.ln() as f32);
            }
        }
    }

    /// Log-likelihood of this excess over the cost of `hops`.
    pub fn log_likelihood(&self, excess_us: f64, hops: usize) -> f32 {
        let step = ((excess_us - FROM_US) / STEP_US).clamp(0.0, (STEPS - 1) as f64) as usize;
        self.table[hops.min(CLASSES - 1) * STEPS + step]
    }

    /// The same for every number of hops, for a round trip minus the two hosts' constants.
    pub fn row(&self, beyond_us: f64) -> Row {
        let mut row = [0.0; HOPS_MAX];
        for (hops, place) in row.iter_mut().enumerate() {
            *place = self.log_likelihood(beyond_us - hops as f64 * self.hop_us, hops);
        }
        row
    }
}

/// The cost of a hop, and the round trip of two hosts at one switch, in µs, from round trips between pairs among
/// few nodes: distances are a comb. `range_us` bounds the cost of a hop. `None` without measurements.
pub(super) fn find_comb(
    pairs: &[(usize, usize, Least)],
    range_us: (f64, f64),
) -> Option<(f64, f64)> {
    let mut sorted: Vec<(f64, usize, usize)> = pairs
        .iter()
        .map(|&(i, j, least)| (f64::from(least.us), i, j))
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let low = lowest_trusted(&sorted)?;
    // Far pairs waited at some trunk; near ones say it best.
    let near: Vec<f64> = sorted
        .iter()
        .map(|s| s.0)
        .filter(|us| *us > low - range_us.0 && *us < low + 8.0 * range_us.1)
        .collect();
    let middle = (range_us.0 + range_us.1) / 2.0;
    let mut best = (-1.0, middle, 0.0);
    let steps = 200;
    for step in 0..=steps {
        let hop_us = range_us.0 + (range_us.1 - range_us.0) * f64::from(step) / f64::from(steps);
        let (mut sin, mut cos) = (0.0, 0.0);
        for us in &near {
            let angle = us / hop_us * core::f64::consts::TAU;
            sin += angle.sin();
            cos += angle.cos();
        }
        // Not `hypot`, which differs between C libraries, and in glibc is of 2.35.
        let sharp = (sin * sin + cos * cos).sqrt();
        if sharp > best.0 {
            best = (
                sharp,
                hop_us,
                sin.atan2(cos) / core::f64::consts::TAU * hop_us,
            );
        }
    }
    let (_, hop_us, phase_us) = best;
    let teeth = ((low - phase_us) / hop_us).round();
    Some((hop_us, phase_us + teeth * hop_us))
}

/// The shortest round trip that several disjoint pairs have about: one host that lies is in one of them only.
fn lowest_trusted(sorted: &[(f64, usize, usize)]) -> Option<f64> {
    let mut seen: Vec<usize> = Vec::new();
    let nodes = {
        let mut all: Vec<usize> = sorted.iter().flat_map(|s| [s.1, s.2]).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let wanted = (nodes / 8).clamp(1, 3);
    for &(us, i, j) in sorted {
        if seen.contains(&i) || seen.contains(&j) {
            continue;
        }
        seen.extend([i, j]);
        if seen.len() / 2 >= wanted {
            return Some(us);
        }
    }
    sorted.first().map(|s| s.0)
}
