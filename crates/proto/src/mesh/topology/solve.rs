//! From measurements to the tree, step by step: each call checks the current belief against all measurements again.

use super::fit::Evidence;
use super::noise::{Noise, find_comb};
use super::pairs::Pairs;
use super::place::{Seen, Spot, Standing, standing};
use super::tree::Tree;
use super::{Config, Least};

/// So many nodes are measured all among each other first.
pub(super) const SEED_NODES: usize = 40;
/// A node joins a switch that it is on with this probability, and leaves one that it is on with less than the other.
const JOINS: f32 = 0.99;
const LEAVES: f32 = 0.5;
/// A node that is on no known switch with this probability may begin a new one.
const FOUNDS: f32 = 0.97;
/// Distances up to this say what hosts' constants are.
const NEAR_HOPS: usize = 3;
/// Every this many calls, all nodes are placed again.
const FULL_EVERY: u32 = 4;
/// Nodes whose place is more certain than this keep it while the tree changes.
const KEEPS: f32 = 0.9995;
/// Measurements that say where a node is, at most.
const SEEN_MAX: usize = 32;
/// As many sweeps over all constants.
const SWEEPS: usize = 3;

/// The current belief.
#[derive(Debug)]
pub(super) struct Solver {
    config: Config,
    pub noise: Option<Noise>,
    /// Each host's part of every round trip, in µs.
    pub constants_us: Vec<f64>,
    pub tree: Tree,
    /// The switch of each node, and the nodes of each switch.
    pub switch_of: Vec<Option<usize>>,
    pub members: Vec<Vec<usize>>,
    /// The likelihoods of each node's places, given the others' places.
    pub standings: Vec<Standing>,
    /// How likely a trunk is wrong (lower switch first).
    pub doubts: Vec<((usize, usize), f32)>,
    is_new: Vec<bool>,
    turn: u32,
}

/// An order in which nodes with neighbouring numbers are far apart.
pub(super) fn shuffled(nodes: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes).collect();
    let key = |node: &usize| {
        let mut z = (*node as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    order.sort_by_key(key);
    order
}

impl Solver {
    pub fn new(nodes: usize, config: &Config) -> Solver {
        Solver {
            config: *config,
            noise: None,
            constants_us: vec![0.0; nodes],
            tree: Tree::default(),
            switch_of: vec![None; nodes],
            members: Vec::new(),
            standings: vec![Standing::default(); nodes],
            doubts: Vec::new(),
            is_new: vec![false; nodes],
            turn: 0,
        }
    }

    pub fn nodes(&self) -> usize {
        self.switch_of.len()
    }

    /// Whether what seems to be one hop may be two, or two one.
    pub fn may_miscount_hops(&self) -> bool {
        let (least, most) = self.config.hop_ns;
        most >= 2 * least
    }

    /// A node was measured.
    pub fn touch(&mut self, node: usize) {
        self.is_new[node] = true;
    }

    /// Goes over everything once: nodes that were measured since, and now and then, or if `is_full`, all of them.
    pub fn solve(&mut self, pairs: &Pairs, is_full: bool) {
        self.turn += 1;
        let is_full = is_full || self.turn.is_multiple_of(FULL_EVERY);
        if self.noise.is_none() {
            self.begin(pairs);
        }
        let Some(mut noise) = self.noise.take() else {
            return;
        };
        self.fit_constants(pairs, &mut noise);
        let which: Vec<bool> = self.is_new.iter().map(|new| *new || is_full).collect();
        self.place(pairs, &noise, &which);
        let groups = self.groups(pairs);
        self.grow(pairs, &noise, groups);
        let which = (0..self.nodes()).map(|n| is_full || !self.keeps_place(n));
        let which: Vec<bool> = which.collect();
        self.place(pairs, &noise, &which);
        self.is_new.fill(false);
        self.noise = Some(noise);
    }

    /// Whether a node is so surely on its switch that the tree may change around it. Its place is written as it is called now.
    fn keeps_place(&mut self, node: usize) -> bool {
        let Some(own) = self.switch_of[node] else {
            return false;
        };
        let standing = &mut self.standings[node];
        let Some(spot) = standing
            .spots
            .first()
            .filter(|s| s.p > KEEPS && s.beyond == 0)
        else {
            return false;
        };
        standing.spots = vec![Spot {
            switch: own,
            ..*spot
        }];
        true
    }

    /// The first nodes, each on a switch of its own until the tree says otherwise.
    fn begin(&mut self, pairs: &Pairs) {
        let measured: Vec<(usize, usize, Least)> = pairs.all().collect();
        let (least, most) = self.config.hop_ns;
        let range_us = (least as f64 / 1e3, most as f64 / 1e3);
        let Some((hop_us, base_us)) = find_comb(&measured, range_us) else {
            return;
        };
        let noise = Noise::new(hop_us, base_us, self.config.samples);
        self.constants_us.fill(base_us / 2.0);
        let first = shuffled(self.nodes()).into_iter().take(SEED_NODES);
        let groups = first
            .filter(|n| pairs.measured(*n).next().is_some())
            .map(|n| vec![n]);
        self.grow(pairs, &noise, (groups.collect(), Vec::new()));
        self.noise = Some(noise);
    }

    /// Builds the tree of these groups; groups that turn out to share a switch become one.
    fn grow(
        &mut self,
        pairs: &Pairs,
        noise: &Noise,
        (groups, held): (Vec<Vec<usize>>, Vec<Vec<usize>>),
    ) {
        let mut group_of = vec![None; self.nodes()];
        for (group, nodes) in groups.iter().enumerate() {
            for node in nodes {
                group_of[*node] = Some(group);
            }
        }
        let mut evidence = Evidence::new(groups.len());
        for (one, other, least) in pairs.all() {
            let (Some(a), Some(b)) = (group_of[one], group_of[other]) else {
                continue;
            };
            if a != b {
                let beyond =
                    f64::from(least.us) - self.constants_us[one] - self.constants_us[other];
                evidence.add(a, b, &noise.row(beyond));
            }
        }
        let kept = evidence.improve(evidence.grown(self.tree.with_held(held)));
        let anew = evidence.improve(evidence.grown(Tree::default()));
        let is_better = evidence.score(&anew) > evidence.score(&kept);
        self.tree = if is_better { anew } else { kept };
        self.doubts = evidence.doubts(&self.tree);
        self.switch_of.fill(None);
        self.members = vec![Vec::new(); self.tree.len()];
        for switch in 0..self.tree.len() {
            for group in self.tree.held(switch) {
                self.members[switch].extend(&groups[*group]);
            }
            self.members[switch].sort_unstable();
            for node in &self.members[switch] {
                self.switch_of[*node] = Some(switch);
            }
        }
    }

    /// Fits the hosts' constants, the cost of a hop, and the noise to the current tree.
    fn fit_constants(&mut self, pairs: &Pairs, noise: &mut Noise) {
        let mut near: Vec<(usize, usize, f64, usize)> = Vec::new();
        for (one, other, least) in pairs.all() {
            if let (Some(a), Some(b)) = (self.switch_of[one], self.switch_of[other]) {
                let hops = self.tree.hops(a, b);
                if hops <= NEAR_HOPS {
                    near.push((one, other, f64::from(least.us), hops));
                }
            }
        }
        let mut of: Vec<Vec<usize>> = vec![Vec::new(); self.nodes()];
        for (at, &(one, other, ..)) in near.iter().enumerate() {
            of[one].push(at);
            of[other].push(at);
        }
        for _ in 0..SWEEPS {
            for (node, of) in of.iter().enumerate() {
                self.fit_constant(node, of, &near, noise);
            }
            self.fit_hop(&near, noise);
        }
        let excess = |&(one, other, us, hops): &(usize, usize, f64, usize)| {
            let rest = us - self.constants_us[one] - self.constants_us[other];
            (rest - hops as f64 * noise.hop_us, hops)
        };
        let excesses: Vec<(f64, usize)> = near.iter().map(excess).collect();
        noise.fit(&excesses);
        let placed = (0..self.nodes()).filter(|n| of[*n].len() > 2);
        let mut known: Vec<f64> = placed.map(|n| self.constants_us[n]).collect();
        if known.len() >= 8 {
            let usual = median(&mut known);
            noise.base_us = 2.0 * usual;
            let mut off: Vec<f64> = known.iter().map(|a| (a - usual).abs()).collect();
            let most_us = (0.6 * noise.hop_us).max(1.0);
            noise.spread_us = (1.7 * median(&mut off)).clamp(1.0, most_us);
        }
    }

    fn fit_constant(
        &mut self,
        node: usize,
        of: &[usize],
        near: &[(usize, usize, f64, usize)],
        noise: &Noise,
    ) {
        let usual = noise.base_us / 2.0;
        let nearest = of.iter().map(|at| near[*at].3).min().unwrap_or(0);
        let mut rest: Vec<f64> = Vec::new();
        for wanted in nearest..=NEAR_HOPS {
            for at in of {
                let (one, other, us, hops) = near[*at];
                let with = if one == node { other } else { one };
                if hops == wanted {
                    rest.push(us - self.constants_us[with] - hops as f64 * noise.hop_us);
                }
            }
            if rest.len() >= 4 {
                break;
            }
        }
        self.constants_us[node] = if rest.is_empty() {
            usual
        } else {
            let weight = rest.len() as f64;
            let prior = (noise.core_us() / noise.spread_us).powi(2);
            (weight * median(&mut rest) + prior * usual) / (weight + prior)
        };
    }

    fn fit_hop(&self, near: &[(usize, usize, f64, usize)], noise: &mut Noise) {
        let (least, most) = self.config.hop_ns;
        let each = near
            .iter()
            .filter(|n| n.3 > 0)
            .map(|&(one, other, us, hops)| {
                (us - self.constants_us[one] - self.constants_us[other]) / hops as f64
            });
        let mut each: Vec<f64> = each.collect();
        if each.len() >= 12 {
            noise.hop_us = median(&mut each).clamp(least as f64 / 1e3, most as f64 / 1e3);
        }
    }

    /// Places each node, given the others' places.
    fn place(&mut self, pairs: &Pairs, noise: &Noise, which: &[bool]) {
        let members: Vec<usize> = self.members.iter().map(Vec::len).collect();
        let usual = noise.base_us / 2.0;
        let unseen = standing(noise, &self.tree, &members, &[]);
        for node in (0..self.nodes()).filter(|n| which[*n]) {
            let seen = pairs.measured(node).filter_map(|(other, least)| {
                let switch = self.switch_of[other]?;
                Some((
                    switch,
                    f64::from(least.us) - self.constants_us[other] - usual,
                ))
            });
            let mut seen: Vec<Seen> = seen.collect();
            if seen.is_empty() {
                self.standings[node] = unseen.clone();
                continue;
            }
            // If many ask a node, their nearest measurements say most; the others are left out.
            if seen.len() > SEEN_MAX {
                seen.select_nth_unstable_by(SEEN_MAX, |a, b| a.1.total_cmp(&b.1));
                seen.truncate(SEEN_MAX);
            }
            let mut members = members.clone();
            if let Some(own) = self.switch_of[node] {
                members[own] -= 1;
            }
            self.standings[node] = standing(noise, &self.tree, &members, &seen);
        }
    }

    /// The groups for a tree: as before, with nodes added and removed, and new ones.
    fn groups(&self, pairs: &Pairs) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let mut groups = vec![Vec::new(); self.tree.len()];
        let mut founders: Vec<Option<(f32, usize)>> = vec![None; self.tree.len()];
        for node in 0..self.nodes() {
            let standing = &self.standings[node];
            let Some(best) = standing.spots.first() else {
                continue;
            };
            match self.switch_of[node] {
                Some(own) if self.stays(node, own) => groups[own].push(node),
                _ => {
                    let known = best.beyond == 0 && !self.members[best.switch].is_empty();
                    if known
                        && best.p > JOINS
                        && standing.fits
                        && self.met(pairs, node, best.switch)
                    {
                        groups[best.switch].push(node);
                    } else if self.may_found(node) {
                        let founder = &mut founders[best.switch];
                        if founder.is_none_or(|f| best.p > f.0) {
                            *founder = Some((best.p, node));
                        }
                    }
                }
            }
        }
        let mut held = vec![Vec::new(); self.tree.len()];
        let known = (0..groups.len()).filter(|s| !groups[*s].is_empty());
        known
            .enumerate()
            .for_each(|(group, switch)| held[switch].push(group));
        groups.retain(|nodes| !nodes.is_empty());
        groups.extend(founders.into_iter().flatten().map(|f| vec![f.1]));
        (groups, held)
    }

    fn stays(&self, node: usize, own: usize) -> bool {
        let standing = &self.standings[node];
        if !standing.fits {
            return false;
        }
        if self.members[own].len() > 1 {
            return standing.at(own) > LEAVES;
        }
        // It is alone: so it stays, unless it is with others.
        let spots = standing
            .spots
            .iter()
            .filter(|s| s.beyond == 0 && s.switch != own);
        let others = spots.filter(|s| !self.members[s.switch].is_empty());
        others.map(|s| s.p).sum::<f32>() < LEAVES
    }

    /// Whether a node was measured with enough of a switch's nodes to be said to be there.
    fn met(&self, pairs: &Pairs, node: usize, switch: usize) -> bool {
        let members = &self.members[switch];
        let met = members.iter().filter(|m| {
            let least = pairs.get(node, **m);
            least.is_some_and(|l| l.times > 0)
        });
        met.count() >= members.len().min(2)
    }

    fn may_found(&self, node: usize) -> bool {
        let standing = &self.standings[node];
        let new = standing
            .spots
            .iter()
            .filter(|s| s.beyond > 0 || self.members[s.switch].is_empty());
        let p: f32 = new.map(|s| s.p).sum();
        let clear = standing.main().is_some() || standing.measured >= 12;
        standing.fits && clear && standing.measured >= 4 && p > FOUNDS
    }
}

/// The middle one; of none 0.
fn median(of: &mut [f64]) -> f64 {
    if of.is_empty() {
        return 0.0;
    }
    let middle = of.len() / 2;
    *of.select_nth_unstable_by(middle, f64::total_cmp).1
}
