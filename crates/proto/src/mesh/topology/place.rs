//! The place of a node in a known tree, from measurements between it and nodes of the tree.

use super::noise::{HOPS_MAX, Noise, Row};
use super::tree::Tree;

/// A node is sought up to this many new switches away from a known one.
const BEYOND_MAX: usize = 3;
/// Likelihood of a new switch, in nats, before anything was measured; and of a known one without nodes having some.
const NEW_NATS: f32 = -2.5;
const BARE_NATS: f32 = -1.0;
/// Places that are less likely than the likeliest by more are not kept.
const KEPT_NATS: f32 = 9.0;
const KEPT_MAX: usize = 40;
/// And by this much more are as good as impossible.
const NOTHING_NATS: f32 = 14.0;
/// A measurement fits if it is off by less than this part of a hop, plus an upward tolerance per hop.
const FITS_HOPS: f64 = 0.6;
const FITS_MORE: f64 = 0.15;

/// A place in the tree: a switch, or a number of new switches away from it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spot {
    pub switch: usize,
    pub beyond: usize,
    /// Probability.
    pub p: f32,
}

/// The likelihoods of a node's places.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// Likeliest first.
    pub spots: Vec<Spot>,
    /// Measurements with nodes of the tree.
    pub measured: usize,
    /// Whether the likeliest place explains most of them.
    pub fits: bool,
}

impl Standing {
    /// The probability of being on a known switch.
    pub fn at(&self, switch: usize) -> f32 {
        let here = self
            .spots
            .iter()
            .find(|s| s.switch == switch && s.beyond == 0);
        here.map_or(0.0, |s| s.p)
    }

    /// The likeliest place, if it is likelier than all others together.
    pub fn main(&self) -> Option<Spot> {
        self.spots.first().filter(|s| s.p > 0.5).copied()
    }
}

/// One measurement of the node: the switch of the other, and the round trip less the other's constant and a usual one, in µs.
pub(super) type Seen = (usize, f64);

/// The standing of a node with these measurements. `members`: the number of nodes on each switch.
pub(super) fn standing(noise: &Noise, tree: &Tree, members: &[usize], seen: &[Seen]) -> Standing {
    let shifts = shifts(noise);
    // For each constant that the node may have: what each measurement says about hops.
    let rows: Vec<(f32, Vec<Row>)> = shifts
        .iter()
        .map(|shift| {
            let prior = noise.slow_nats(*shift);
            let rows = seen.iter().map(|(_, us)| noise.row(us - shift)).collect();
            (prior, rows)
        })
        .collect();
    let mut scored: Vec<(f32, usize, usize)> = Vec::new();
    for (switch, &nodes) in members.iter().enumerate().take(tree.len()) {
        let hops: Vec<usize> = seen.iter().map(|(s, _)| tree.hops(*s, switch)).collect();
        for beyond in 0..=BEYOND_MAX {
            let prior = match (beyond, nodes) {
                (0, 0) => BARE_NATS,
                (0, nodes) => (nodes as f32).ln(),
                _ => NEW_NATS * beyond as f32,
            };
            let mut sum = Sum::default();
            for (nats, rows) in &rows {
                let rows = rows.iter().zip(&hops);
                let all = rows.map(|(row, hops)| row[(hops + beyond).min(HOPS_MAX - 1)]);
                sum.add(nats + all.sum::<f32>());
            }
            scored.push((prior + sum.ln(), switch, beyond));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let Some(&(best, switch, beyond)) = scored.first() else {
        return Standing::default();
    };
    let likely = scored.iter().take_while(|s| s.0 > best - NOTHING_NATS);
    let all: f32 = likely.map(|s| (s.0 - best).exp()).sum();
    let kept = scored
        .iter()
        .take(KEPT_MAX)
        .filter(|s| s.0 > best - KEPT_NATS);
    let spot = |&(nats, switch, beyond): &(f32, usize, usize)| Spot {
        switch,
        beyond,
        p: (nats - best).exp() / all,
    };
    Standing {
        spots: kept.map(spot).collect(),
        measured: seen.len(),
        fits: fits(noise, tree, seen, &rows, (switch, beyond)),
    }
}

/// The constants that are tried, in µs from the usual one.
fn shifts(noise: &Noise) -> Vec<f64> {
    let step = noise.core_us().max(noise.spread_us / 4.0);
    let most = (2.5 * noise.spread_us).max(0.6 * noise.hop_us);
    let each_way = (most / step).ceil().min(10.0) as i32;
    (-each_way..=each_way)
        .map(|n| f64::from(n) * step)
        .collect()
}

fn fits(
    noise: &Noise,
    tree: &Tree,
    seen: &[Seen],
    rows: &[(f32, Vec<Row>)],
    (switch, beyond): (usize, usize),
) -> bool {
    let at = |s: usize| (tree.hops(s, switch) + beyond).min(HOPS_MAX - 1);
    let score = |(nats, rows): &(f32, Vec<Row>)| {
        let all = rows.iter().zip(seen).map(|(row, (s, _))| row[at(*s)]);
        nats + all.sum::<f32>()
    };
    let scores = rows.iter().map(score).enumerate();
    let Some((best, _)) = scores.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return true;
    };
    let shift = shifts(noise)[best];
    let good = seen.iter().filter(|(s, us)| {
        let off = (us - shift) / noise.hop_us - at(*s) as f64;
        off > -FITS_HOPS && off < FITS_HOPS + FITS_MORE * at(*s) as f64
    });
    good.count() * 3 >= seen.len() * 2
}

/// The sum of numbers given by their logarithms.
#[derive(Default)]
struct Sum {
    most: Option<f32>,
    sum: f32,
}

impl Sum {
    fn add(&mut self, nats: f32) {
        match self.most {
            Some(most) if nats <= most - NOTHING_NATS => {}
            Some(most) if nats <= most => self.sum += (nats - most).exp(),
            most => {
                self.sum = most.map_or(0.0, |most| self.sum * (most - nats).exp()) + 1.0;
                self.most = Some(nats);
            }
        }
    }

    fn ln(&self) -> f32 {
        self.most.map_or(f32::MIN, |most| most + self.sum.ln())
    }
}
