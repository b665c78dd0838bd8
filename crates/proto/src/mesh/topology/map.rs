//! The result of a survey, for its users.

use super::pairs::Pairs;
use super::solve::Solver;

/// A switch with one node is never surer than this: a slow host on the next switch looks the same.
const ALONE: f32 = 0.9;
/// A trunk whose hops may have been miscounted is not more certain than this either.
const MISCOUNTED: f32 = 0.9;
/// How far from its switch a slow node may seem to be; then, how much rarer a switch with one node is than one with several.
const SLOW_HOPS: usize = 2;
const FEW_ALONE: f32 = 3.0;
/// Anything less certain than this is reported as ambiguous.
const CLEAR: f32 = 0.95;
/// A place that is less likely than this is not named.
const NAMED: f32 = 0.01;

/// A network: a tree of switches.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Map {
    /// Those with nodes first.
    pub switches: Vec<Switch>,
    /// The connections between them.
    pub trunks: Vec<Trunk>,
    /// What could not be distinguished.
    pub ambiguous: Vec<Ambiguity>,
    /// What a switch adds to the round trip of a probe, in ns; 0 if unknown.
    pub hop_ns: u64,
}

/// One switch.
#[derive(Clone, PartialEq, Debug)]
pub struct Switch {
    /// Its number in this map. [`Map::keep_ids`] takes it over from an earlier map.
    pub id: u32,
    /// The nodes on it, ascending. None on a switch that only joins others.
    pub nodes: Vec<usize>,
    /// How likely it is that exactly these are on it of all nodes that were measured, from 0 to 1; of a switch without nodes,
    /// that it is there.
    pub confidence: f32,
}

/// A way between two switches without others of the map on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Trunk {
    /// Ids of the switches, the lower one first.
    pub between: (u32, u32),
    /// Number of trunks in a row, at least 1: one more than the number of switches on the way that have nothing else attached.
    pub hops: u32,
    /// How likely it is that it parts the nodes like this, and is this long; from 0 to 1.
    pub confidence: f32,
}

/// Nodes that are on one of some switches, or elsewhere; or, without nodes, switches whose connections are not certain.
#[derive(Clone, PartialEq, Debug)]
pub struct Ambiguity {
    /// Nodes whose place is not known, ascending.
    pub nodes: Vec<usize>,
    /// Ids of the switches, ascending; for nodes, those that they may be on.
    pub switches: Vec<u32>,
}

impl Map {
    pub(super) fn of(solver: &Solver, pairs: &Pairs) -> Map {
        let tree = &solver.tree;
        let is_kept = |s: usize| !solver.members[s].is_empty() || tree.near(s).len() != 2;
        let mut kept: Vec<usize> = (0..tree.len()).filter(|s| is_kept(*s)).collect();
        kept.sort_by_key(|s| (solver.members[*s].is_empty(), *s));
        let mut ids = vec![None; tree.len()];
        for (id, switch) in kept.iter().enumerate() {
            ids[*switch] = Some(id as u32);
        }
        let trunks = trunks(solver, &ids);
        let switch = |(id, switch): (usize, &usize)| {
            let id = id as u32;
            let nodes = solver.members[*switch].clone();
            let around = trunks
                .iter()
                .filter(|t| t.between.0 == id || t.between.1 == id);
            let around = around.map(|t| t.confidence).fold(1.0, f32::min);
            Switch {
                id,
                confidence: around * of_nodes(solver, *switch),
                nodes,
            }
        };
        let switches: Vec<Switch> = kept.iter().enumerate().map(switch).collect();
        let mut map = Map {
            switches,
            ambiguous: Vec::new(),
            hop_ns: solver.noise.as_ref().map_or(0, |n| (n.hop_us * 1e3) as u64),
            trunks,
        };
        map.ambiguous = ambiguities(solver, pairs, &ids, &map);
        map
    }

    /// Gives switches the ids that they have in an earlier map: those with nodes if most of their nodes are the same, those
    /// without if they join the same.
    pub fn keep_ids(&mut self, before: &Map) {
        let mut next = before.switches.iter().map(|s| s.id + 1).max().unwrap_or(0);
        let mut new: Vec<Option<u32>> = vec![None; self.switches.len()];
        let mut shared: Vec<(usize, usize, u32)> = Vec::new();
        for (at, switch) in self.switches.iter().enumerate() {
            for old in &before.switches {
                let both = switch
                    .nodes
                    .iter()
                    .filter(|n| old.nodes.binary_search(n).is_ok());
                let count = both.count();
                if count * 2 > switch.nodes.len().max(old.nodes.len()) {
                    shared.push((count, at, old.id));
                }
            }
        }
        for (_, at, id) in shared {
            new[at] = Some(id);
        }
        // Switches without nodes are known by their neighbours, from those with nodes inwards.
        for _ in 0..self.switches.len() {
            let mut found = false;
            for at in 0..self.switches.len() {
                if new[at].is_some() || !self.switches[at].nodes.is_empty() {
                    continue;
                }
                let around = self.neighbours(self.switches[at].id);
                let known: Vec<u32> = around
                    .iter()
                    .filter_map(|id| new[self.switches.iter().position(|s| s.id == *id)?])
                    .collect();
                let same = before.switches.iter().find(|old| {
                    let around = before.neighbours(old.id);
                    let shared = known.iter().filter(|id| around.contains(id)).count();
                    old.nodes.is_empty() && shared >= 2 && !new.contains(&Some(old.id))
                });
                if let Some(old) = same {
                    (new[at], found) = (Some(old.id), true);
                }
            }
            if !found {
                break;
            }
        }
        let mut renamed = Vec::new();
        for (switch, new) in self.switches.iter_mut().zip(new) {
            let id = new.unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            renamed.push((switch.id, id));
            switch.id = id;
        }
        let id = |old: u32| renamed.iter().find(|r| r.0 == old).map_or(old, |r| r.1);
        for trunk in &mut self.trunks {
            let (a, b) = (id(trunk.between.0), id(trunk.between.1));
            trunk.between = (a.min(b), a.max(b));
        }
        for ambiguity in &mut self.ambiguous {
            ambiguity.switches.iter_mut().for_each(|s| *s = id(*s));
            ambiguity.switches.sort_unstable();
        }
    }

    pub(super) fn neighbours(&self, id: u32) -> Vec<u32> {
        let ends = self.trunks.iter().filter_map(|t| match t.between {
            (a, b) if a == id => Some(b),
            (a, b) if b == id => Some(a),
            _ => None,
        });
        ends.collect()
    }
}

/// How likely it is that exactly its nodes are on a switch.
fn of_nodes(solver: &Solver, switch: usize) -> f32 {
    let members = &solver.members[switch];
    if members.is_empty() {
        return 1.0;
    }
    let mut all: f32 = if members.len() == 1 && solver.nodes() > 1 {
        ALONE
    } else {
        1.0
    };
    all *= slow_ones(solver, switch);
    for (node, standing) in solver.standings.iter().enumerate() {
        match solver.switch_of[node] {
            Some(own) if own == switch => all *= standing.at(own).min(1.0),
            Some(_) => all *= (1.0 - standing.at(switch)).max(0.0),
            // A node that was never measured is on no switch; that makes no other place unlikely.
            None if standing.measured == 0 => {}
            None if standing.fits => all *= (1.0 - standing.at(switch)).max(0.0),
            // Nobody knows where it is.
            None => {
                all *= if standing.at(switch) > NAMED {
                    0.5
                } else {
                    1.0
                }
            }
        }
    }
    all
}

/// How likely it is that no node that is alone close by is rather a slow one of this switch.
fn slow_ones(solver: &Solver, switch: usize) -> f32 {
    let Some(noise) = &solver.noise else {
        return 1.0;
    };
    let members = solver.members[switch].len() as f32;
    let alone = (0..solver.tree.len()).filter(|s| *s != switch && solver.members[*s].len() == 1);
    let hops = alone
        .map(|s| solver.tree.hops(s, switch))
        .filter(|h| *h <= SLOW_HOPS);
    let none_is = hops.map(|hops| {
        let slow = noise.slow_nats(hops as f64 * noise.hop_us).exp() * members;
        1.0 / (1.0 + slow * FEW_ALONE)
    });
    none_is.product()
}

/// How likely it is that the nodes of a switch are there.
fn of_members(solver: &Solver, switch: usize) -> f32 {
    let members = solver.members[switch].iter();
    members
        .map(|n| solver.standings[*n].at(switch).min(1.0))
        .product()
}

fn trunks(solver: &Solver, ids: &[Option<u32>]) -> Vec<Trunk> {
    let tree = &solver.tree;
    let doubt = |a: usize, b: usize| {
        let key = (a.min(b), a.max(b));
        let at = solver.doubts.binary_search_by_key(&key, |d| d.0);
        at.map_or(1.0, |at| solver.doubts[at].1)
    };
    let mut found = Vec::new();
    for (from, id) in ids.iter().enumerate() {
        let Some(id) = *id else { continue };
        for &first in tree.near(from) {
            let (mut back, mut at) = (from, first);
            let mut confidence = 1.0 - doubt(from, first);
            confidence *= of_members(solver, from);
            let mut hops = 1;
            while ids[at].is_none() {
                let Some(&next) = tree.near(at).iter().find(|n| **n != back) else {
                    break;
                };
                confidence = confidence.min(1.0 - doubt(at, next));
                (back, at) = (at, next);
                hops += 1;
            }
            confidence *= of_members(solver, at);
            if [from, at].iter().any(|s| solver.members[*s].len() == 1) {
                confidence = confidence.min(ALONE);
            }
            if solver.may_miscount_hops() {
                confidence = confidence.min(MISCOUNTED);
            }
            if let Some(end) = ids[at].filter(|end| *end > id) {
                found.push(Trunk {
                    between: (id, end),
                    hops,
                    confidence,
                });
            }
        }
    }
    found
}

fn ambiguities(solver: &Solver, pairs: &Pairs, ids: &[Option<u32>], map: &Map) -> Vec<Ambiguity> {
    let mut found = Vec::new();
    for (node, standing) in solver.standings.iter().enumerate() {
        let own = solver.switch_of[node];
        let is_known =
            own.is_some_and(|own| solver.members[own].len() == 1 || standing.at(own) >= CLEAR);
        if is_known || (own.is_none() && solver.nodes() < 2) {
            continue;
        }
        let measured = pairs.measured(node).next().is_some();
        let spots = standing
            .spots
            .iter()
            .filter(|s| s.p >= NAMED && measured && standing.fits);
        let mut switches: Vec<u32> = spots.filter_map(|s| ids[s.switch]).collect();
        switches.sort_unstable();
        switches.dedup();
        found.push(Ambiguity {
            nodes: vec![node],
            switches,
        });
    }
    let unclear = map.trunks.iter().filter(|t| t.confidence < CLEAR);
    found.extend(unclear.map(|t| Ambiguity {
        nodes: Vec::new(),
        switches: vec![t.between.0, t.between.1],
    }));
    found
}
