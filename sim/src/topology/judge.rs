//! What a map says, held against the truth.

use super::Surveyed;
use std::collections::BTreeMap;
use tabane_proto::topology::Map;

/// What is said with this confidence must be true.
pub const SURE: f32 = 0.95;

/// How right one map is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Verdict {
    /// Nodes that are in a group of which most share their switch.
    pub right: usize,
    /// Nodes that there are.
    pub nodes: usize,
    /// Whether every group is a switch, and all are as many hops apart as they say.
    pub is_exact: bool,
    /// Switches and trunks that are wrong although they were said to be sure.
    pub sure_and_wrong: Vec<String>,
    /// Switches and trunks that are right and sure, and all.
    pub sure: usize,
    /// Switches with nodes and trunks, in all.
    pub said: usize,
    /// Nodes that are said to be in doubt, or on no switch.
    pub doubtful: usize,
}

/// Judges a map by the network that it is of.
#[must_use]
pub fn judge(surveyed: &Surveyed) -> Verdict {
    let truth = surveyed.network.truth();
    let map = &surveyed.map;
    let mut verdict = Verdict {
        nodes: truth.switch_of.len(),
        ..Verdict::default()
    };
    let mut true_groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let answers = |node: usize| surveyed.network.answers(node);
    for (node, switch) in truth.switch_of.iter().enumerate().filter(|n| answers(n.0)) {
        true_groups.entry(*switch).or_default().push(node);
    }
    let mut taken = BTreeMap::new();
    for switch in map.switches.iter().filter(|s| !s.nodes.is_empty()) {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for node in &switch.nodes {
            *counts.entry(truth.switch_of[*node]).or_default() += 1;
        }
        let most = counts.iter().max_by_key(|c| *c.1).map_or(0, |c| *c.0);
        // Two groups of one switch: the smaller one is wrong.
        let best: &mut usize = taken.entry(most).or_default();
        *best = (*best).max(counts[&most]);
        verdict.said += 1;
        let is_right = true_groups[&most] == switch.nodes;
        if switch.confidence >= SURE {
            verdict.sure += 1;
            if !is_right {
                let truth = &true_groups[&most];
                let text = format!(
                    "switch {:?} {} is {truth:?}",
                    switch.nodes, switch.confidence
                );
                verdict.sure_and_wrong.push(text);
            }
        }
    }
    verdict.right = taken.values().sum();
    judge_trunks(surveyed, &mut verdict);
    let grouped: usize = map.switches.iter().map(|s| s.nodes.len()).sum();
    let same: Vec<&Vec<usize>> = true_groups.values().collect();
    let groups = map.switches.iter().filter(|s| !s.nodes.is_empty());
    verdict.is_exact = grouped == verdict.nodes
        && groups.clone().count() == same.len()
        && groups.clone().all(|s| same.contains(&&s.nodes))
        && hops_are_right(surveyed);
    let unsure = map.ambiguous.iter().flat_map(|a| &a.nodes);
    let mut unsure: Vec<usize> = unsure.copied().collect();
    unsure.dedup();
    verdict.doubtful = unsure.len();
    verdict
}

/// A trunk parts the nodes in two. The true tree must have as many trunks that part them so as the trunk has hops.
fn judge_trunks(surveyed: &Surveyed, verdict: &mut Verdict) {
    let truth = surveyed.network.truth();
    let mut parted: BTreeMap<Vec<bool>, u32> = BTreeMap::new();
    for lower in 1..truth.parents.len() {
        let below = |mut switch: usize| loop {
            if switch == lower {
                return true;
            }
            match truth.parents[switch] {
                Some(parent) => switch = parent,
                None => return false,
            }
        };
        let sides: Vec<bool> = truth.switch_of.iter().map(|s| below(*s)).collect();
        *parted.entry(normal(sides)).or_default() += 1;
    }
    let mapped: Vec<bool> = {
        let mut mapped = vec![false; truth.switch_of.len()];
        let nodes = surveyed.map.switches.iter().flat_map(|s| &s.nodes);
        nodes.for_each(|n| mapped[*n] = true);
        mapped
    };
    for trunk in &surveyed.map.trunks {
        verdict.said += 1;
        if trunk.confidence < SURE {
            continue;
        }
        verdict.sure += 1;
        let sides = side(&surveyed.map, trunk.between, truth.switch_of.len());
        let agrees = |other: &Vec<bool>| {
            let both = sides.iter().zip(other).zip(&mapped).filter(|(_, m)| **m);
            let same = both.clone().filter(|((a, b), _)| a == b).count();
            same == 0 || same == both.count()
        };
        let hops: u32 = parted.iter().filter(|p| agrees(p.0)).map(|p| *p.1).sum();
        if hops != trunk.hops {
            let text = format!(
                "trunk {:?} of {} hops {} has {hops}",
                trunk.between, trunk.hops, trunk.confidence
            );
            verdict.sure_and_wrong.push(text);
        }
    }
}

/// Sides of a trunk the same way round, whichever is called which.
fn normal(mut sides: Vec<bool>) -> Vec<bool> {
    if sides.first() == Some(&true) {
        sides.iter_mut().for_each(|s| *s = !*s);
    }
    sides
}

/// Which nodes are beyond a trunk.
fn side(map: &Map, (from, to): (u32, u32), nodes: usize) -> Vec<bool> {
    let mut beyond = vec![false; nodes];
    let mut seen = vec![from, to];
    let mut at = 1;
    while let Some(&id) = seen.get(at) {
        let here = map.switches.iter().filter(|s| s.id == id);
        here.flat_map(|s| &s.nodes).for_each(|n| beyond[*n] = true);
        for trunk in &map.trunks {
            let (a, b) = trunk.between;
            for (one, other) in [(a, b), (b, a)] {
                if one == id && !seen.contains(&other) {
                    seen.push(other);
                }
            }
        }
        at += 1;
    }
    beyond
}

fn hops_are_right(surveyed: &Surveyed) -> bool {
    let truth = surveyed.network.truth();
    let map = &surveyed.map;
    let groups: Vec<_> = map
        .switches
        .iter()
        .filter(|s| !s.nodes.is_empty())
        .collect();
    groups.iter().all(|from| {
        let found = distances(map, from.id);
        let real = true_distances(&truth.parents, truth.switch_of[from.nodes[0]]);
        groups.iter().all(|to| {
            let said = found.get(&to.id).copied();
            said == Some(real[truth.switch_of[to.nodes[0]]])
        })
    })
}

fn distances(map: &Map, from: u32) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::from([(from, 0)]);
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        for trunk in &map.trunks {
            let (a, b) = trunk.between;
            for (one, other) in [(a, b), (b, a)] {
                if one == id && !found.contains_key(&other) {
                    found.insert(other, found[&id] + trunk.hops);
                    open.push(other);
                }
            }
        }
    }
    found
}

fn true_distances(parents: &[Option<usize>], from: usize) -> Vec<u32> {
    let up = |mut at: usize| {
        let mut way = vec![at];
        while let Some(parent) = parents[at] {
            way.push(parent);
            at = parent;
        }
        way
    };
    let own = up(from);
    let to = |other: usize| {
        let way = up(other);
        let met = way.iter().position(|s| own.contains(s)).unwrap_or(0);
        let rest = own.iter().position(|s| *s == way[met]).unwrap_or(0);
        (met + rest) as u32
    };
    (0..parents.len()).map(to).collect()
}
