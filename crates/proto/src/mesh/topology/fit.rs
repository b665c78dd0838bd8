//! The tree that best explains the measurements between groups of nodes.
//!
//! Groups are added one by one, nearest first: near ones are measured best, and are placed before far ones could mislead. Then
//! parts of the tree are moved by a hop or two, as long as that explains more. The confidence in the result is how much less
//! the best of the rejected moves explains.

use super::noise::Row;
use super::tree::Tree;

/// How much one more switch must explain, in nats.
const SWITCH_NATS: f32 = 1.5;
/// A tree replaces another only if it is better by this much.
const BETTER_NATS: f32 = 0.1;
/// So many moves at most.
const MOVES_MAX: usize = 400;
/// Weight of each measurement: trunks bias all pairs beyond them alike, so measurements are not independent.
const CREDIT: f32 = 0.35;

/// Log-likelihoods by hops between pairs of groups.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    rows: Vec<Row>,
    of: Vec<Vec<(usize, usize)>>,
}

/// Part of a tree that could be elsewhere.
#[derive(Clone, Copy, Debug)]
struct Move {
    trunk: (usize, usize),
    to: usize,
    trunks: usize,
    gain: f32,
}

impl Evidence {
    pub fn new(groups: usize) -> Evidence {
        Evidence {
            rows: Vec::new(),
            of: vec![Vec::new(); groups],
        }
    }

    /// One more measurement between two groups.
    pub fn add(&mut self, one: usize, other: usize, row: &Row) {
        let found = self.of[one].binary_search_by_key(&other, |e| e.0);
        let at = match found {
            Ok(at) => self.of[one][at].1,
            Err(place) => {
                let new = self.rows.len();
                self.rows.push([0.0; super::noise::HOPS_MAX]);
                self.of[one].insert(place, (other, new));
                if let Err(place) = self.of[other].binary_search_by_key(&one, |e| e.0) {
                    self.of[other].insert(place, (one, new));
                }
                new
            }
        };
        for (sum, more) in self.rows[at].iter_mut().zip(row) {
            *sum += more;
        }
    }

    fn likeliest(&self, row: usize) -> usize {
        let row = self.rows[row].iter().enumerate();
        row.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))
            .map_or(0, |best| best.0)
    }

    /// The tree with the missing groups added. Groups without a measurement to the others are on none of its switches.
    pub fn grown(&self, mut tree: Tree) -> Tree {
        let groups = self.of.len();
        let mut at = self.switches(&tree);
        let mut nearest: Vec<(usize, usize)> = vec![(usize::MAX, 0); groups];
        for group in (0..groups).filter(|g| at[*g].is_some()) {
            for &(other, row) in &self.of[group] {
                let (hops, times) = nearest[other];
                nearest[other] = (hops.min(self.likeliest(row)), times + 1);
            }
        }
        let mut next = if tree.len() == 0 {
            (0..groups).max_by_key(|g| (self.of[*g].len(), usize::MAX - g))
        } else {
            self.nearest_open(&at, &nearest)
        };
        while let Some(group) = next {
            let switch = match self.best_place(&tree, &at, group, nearest[group].0) {
                Some((switch, trunks)) => tree.grow(switch, trunks),
                None => tree.add(None),
            };
            tree.hold(switch, group);
            at[group] = Some(switch);
            for &(other, row) in &self.of[group] {
                let (hops, times) = nearest[other];
                nearest[other] = (hops.min(self.likeliest(row)), times + 1);
            }
            next = self.nearest_open(&at, &nearest);
        }
        tree
    }

    fn nearest_open(&self, at: &[Option<usize>], nearest: &[(usize, usize)]) -> Option<usize> {
        let open = (0..at.len()).filter(|g| at[*g].is_none() && nearest[*g].1 > 0);
        open.min_by_key(|g| (nearest[*g].0, usize::MAX - nearest[*g].1, *g))
    }

    fn best_place(
        &self,
        tree: &Tree,
        at: &[Option<usize>],
        group: usize,
        nearest: usize,
    ) -> Option<(usize, usize)> {
        let known = self.of[group].iter().filter_map(|e| Some((at[e.0]?, e.1)));
        let known: Vec<(usize, usize)> = known.collect();
        let mut best: Option<(f32, usize, usize)> = None;
        for switch in 0..tree.len() {
            let least = usize::from(!self.may_join(group, tree.held(switch)));
            for trunks in least..=nearest.saturating_add(1).min(super::noise::HOPS_MAX) {
                let mut score = -SWITCH_NATS * trunks as f32;
                for &(other, row) in &known {
                    let hops = Tree::index(tree.hops(switch, other) + trunks);
                    score += self.rows[row][hops];
                }
                if best.is_none_or(|b| score > b.0) {
                    best = Some((score, switch, trunks));
                }
            }
        }
        best.map(|(_, switch, trunks)| (switch, trunks))
    }

    /// Whether a group may share a switch with others: only measurements between them can show that.
    fn may_join(&self, group: usize, held: &[usize]) -> bool {
        held.is_empty()
            || held.iter().any(|other| {
                let found = self.of[group].binary_search_by_key(other, |e| e.0);
                found.is_ok_and(|at| self.likeliest(self.of[group][at].1) == 0)
            })
    }

    /// How much a tree explains, in nats.
    pub fn score(&self, tree: &Tree) -> f32 {
        let at = self.switches(tree);
        let mut score = -SWITCH_NATS * tree.len() as f32;
        for (group, entries) in self.of.iter().enumerate() {
            for &(other, row) in entries.iter().filter(|e| e.0 > group) {
                score += match (at[group], at[other]) {
                    (Some(a), Some(b)) => self.rows[row][Tree::index(tree.hops(a, b))],
                    _ => 0.0,
                };
            }
        }
        score
    }

    /// Moves parts of a tree as long as that explains more.
    pub fn improve(&self, mut tree: Tree) -> Tree {
        let mut moves = 0;
        let mut better = true;
        while better && moves < MOVES_MAX {
            better = false;
            let mut from = 0;
            while from < tree.len() {
                for nth in 0..tree.near(from).len() {
                    let Some(&to) = tree.near(from).get(nth) else {
                        break;
                    };
                    let all = self.moves(&tree, (from, to));
                    let best = all.into_iter().max_by(|a, b| a.gain.total_cmp(&b.gain));
                    if let Some(best) = best.filter(|b| b.gain > BETTER_NATS && moves < MOVES_MAX) {
                        tree = tree.with_moved(best.trunk, best.to, best.trunks);
                        (better, moves) = (true, moves + 1);
                        break;
                    }
                }
                from += 1;
            }
        }
        tree
    }

    /// Other places, close by, for the part beyond a trunk.
    fn moves(&self, tree: &Tree, (from, to): (usize, usize)) -> Vec<Move> {
        let side = tree.side(from, to);
        let mut beyond = vec![false; tree.len()];
        for switch in &side {
            beyond[*switch] = true;
        }
        let crossing = self.crossing(tree, &side, &beyond, to);
        let mut found = Vec::new();
        for target in (0..tree.len()).filter(|s| !beyond[*s] && tree.hops(from, *s) <= 2) {
            for trunks in 0..=2 {
                if (target == from && trunks == 1) || (target != from && trunks == 2) {
                    continue;
                }
                let mut held = tree.held(to).iter();
                if trunks == 0 && held.any(|g| !self.may_join(*g, tree.held(target))) {
                    continue;
                }
                let mut gain = SWITCH_NATS * (1.0 - trunks as f32);
                for &(hops, other, row, now) in &crossing {
                    let hops = Tree::index(hops + trunks + tree.hops(target, other));
                    gain += self.rows[row][hops] - now;
                }
                found.push(Move {
                    trunk: (from, to),
                    to: target,
                    trunks,
                    gain,
                });
            }
        }
        found
    }

    /// The measurements across a trunk: hops from the near end of the moved part, the other switch, the row, and its current
    /// value.
    fn crossing(
        &self,
        tree: &Tree,
        side: &[usize],
        beyond: &[bool],
        to: usize,
    ) -> Vec<(usize, usize, usize, f32)> {
        let at = self.switches(tree);
        let mut found = Vec::new();
        for &switch in side {
            for &(other, row) in tree.held(switch).iter().flat_map(|g| &self.of[*g]) {
                let Some(other) = at[other].filter(|s| !beyond[*s]) else {
                    continue;
                };
                let now = self.rows[row][Tree::index(tree.hops(switch, other))];
                found.push((tree.hops(switch, to), other, row, now));
            }
        }
        found
    }

    fn switches(&self, tree: &Tree) -> Vec<Option<usize>> {
        let mut at = vec![None; self.of.len()];
        for switch in 0..tree.len() {
            for group in tree.held(switch) {
                at[*group] = Some(switch);
            }
        }
        at
    }

    /// For each trunk, lower switch first, how likely it is that it is not there, or not where it is.
    pub fn doubts(&self, tree: &Tree) -> Vec<((usize, usize), f32)> {
        let mut doubts: Vec<((usize, usize), f32)> = Vec::new();
        let mut directed = Vec::new();
        for from in 0..tree.len() {
            directed.extend(tree.near(from).iter().map(|to| (from, *to)));
        }
        for &(from, to) in directed.iter().filter(|(from, to)| from < to) {
            doubts.push(((from, to), 0.0));
        }
        doubts.sort_unstable_by_key(|d| d.0);
        for trunk in directed {
            for other in self.moves(tree, trunk) {
                let odds = (CREDIT * other.gain).exp();
                let mut changed = tree.way(trunk.0, other.to);
                if other.trunks != 1 {
                    changed.push(trunk);
                }
                for (a, b) in changed {
                    let key = (a.min(b), a.max(b));
                    if let Ok(at) = doubts.binary_search_by_key(&key, |d| d.0) {
                        doubts[at].1 += odds;
                    }
                }
            }
        }
        for doubt in &mut doubts {
            doubt.1 /= 1.0 + doubt.1;
        }
        doubts
    }
}
