//! A tree of switches whose trunks are one hop each.

use super::noise::HOPS_MAX;

/// Switches, by number; each holds groups of nodes, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    near: Vec<Vec<usize>>,
    held: Vec<Vec<usize>>,
    hops: Vec<Vec<u8>>,
}

impl Tree {
    /// Number of switches.
    pub fn len(&self) -> usize {
        self.near.len()
    }

    /// Switches next to one.
    pub fn near(&self, switch: usize) -> &[usize] {
        &self.near[switch]
    }

    /// Groups that a switch holds.
    pub fn held(&self, switch: usize) -> &[usize] {
        &self.held[switch]
    }

    /// Trunks between two switches.
    pub fn hops(&self, one: usize, other: usize) -> usize {
        usize::from(self.hops[one][other])
    }

    /// Puts a group on a switch.
    pub fn hold(&mut self, switch: usize, group: usize) {
        self.held[switch].push(group);
    }

    /// A new switch at the end of `trunks` new ones in a row from one (the switch itself if that is 0).
    pub fn grow(&mut self, from: usize, trunks: usize) -> usize {
        let mut last = from;
        for _ in 0..trunks {
            last = self.add(Some(last));
        }
        last
    }

    /// Another switch, next to one.
    pub fn add(&mut self, next_to: Option<usize>) -> usize {
        let new = self.len();
        let mut row: Vec<u8> = match next_to {
            Some(near) => self.hops[near]
                .iter()
                .map(|h| h.saturating_add(1))
                .collect(),
            None => vec![0; new],
        };
        for (other, hops) in row.iter().enumerate() {
            self.hops[other].push(*hops);
        }
        row.push(0);
        self.hops.push(row);
        self.near.push(next_to.into_iter().collect());
        self.held.push(Vec::new());
        if let Some(near) = next_to {
            self.near[near].push(new);
        }
        new
    }

    /// The switches on the side of `to` of the trunk between two, `to` first.
    pub fn side(&self, from: usize, to: usize) -> Vec<usize> {
        let mut found = vec![(to, from)];
        let mut at = 0;
        while let Some(&(switch, back)) = found.get(at) {
            let further = self.near[switch].iter().filter(|n| **n != back);
            found.extend(further.map(|n| (*n, switch)));
            at += 1;
        }
        found.into_iter().map(|f| f.0).collect()
    }

    /// Next switch on the way from one to another.
    pub fn step(&self, from: usize, to: usize) -> Option<usize> {
        let hops = self.hops[from][to];
        let mut near = self.near[from].iter();
        near.find(|n| self.hops[**n][to] < hops).copied()
    }

    /// The trunks on the way between two switches, each in the direction of travel.
    pub fn way(&self, from: usize, to: usize) -> Vec<(usize, usize)> {
        let mut way = Vec::new();
        let mut at = from;
        while let Some(next) = self.step(at, to) {
            way.push((at, next));
            at = next;
        }
        way
    }

    /// The tree with the part beyond `to` hung at `switch`, `trunks` trunks away; with none the two become one.
    #[must_use]
    pub fn with_moved(&self, (from, to): (usize, usize), switch: usize, trunks: usize) -> Tree {
        let mut edges = self.edges();
        edges.retain(|e| *e != (from.min(to), from.max(to)));
        let mut held = self.held.clone();
        if trunks == 0 {
            let moved = core::mem::take(&mut held[to]);
            held[switch].extend(moved);
            for edge in &mut edges {
                for end in [&mut edge.0, &mut edge.1] {
                    if *end == to {
                        *end = switch;
                    }
                }
            }
        } else {
            let mut last = switch;
            for _ in 1..trunks {
                edges.push((last, held.len()));
                last = held.len();
                held.push(Vec::new());
            }
            edges.push((last, to));
        }
        Tree::of(held, &edges)
    }

    /// The same switches with other groups on them.
    #[must_use]
    pub fn with_held(&self, held: Vec<Vec<usize>>) -> Tree {
        Tree::of(held, &self.edges())
    }

    fn edges(&self) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for one in 0..self.len() {
            let higher = self.near[one].iter().filter(|n| **n > one);
            edges.extend(higher.map(|n| (one, *n)));
        }
        edges
    }

    /// Of switches and trunks. Switches without nodes that lead nowhere are left out.
    fn of(held: Vec<Vec<usize>>, edges: &[(usize, usize)]) -> Tree {
        let mut near: Vec<Vec<usize>> = vec![Vec::new(); held.len()];
        for &(a, b) in edges {
            near[a].push(b);
            near[b].push(a);
        }
        while let Some(bare) = (0..held.len()).find(|s| held[*s].is_empty() && near[*s].len() == 1)
        {
            for other in core::mem::take(&mut near[bare]) {
                near[other].retain(|n| *n != bare);
            }
        }
        let mut tree = Tree::default();
        let Some(root) = held.iter().position(|groups| !groups.is_empty()) else {
            return tree;
        };
        let mut open = vec![(root, usize::MAX, None)];
        while let Some((switch, back, parent)) = open.pop() {
            let new = tree.add(parent);
            tree.held[new] = held[switch].clone();
            let further = near[switch].iter().filter(|n| **n != back);
            open.extend(further.map(|n| (*n, switch, Some(new))));
        }
        tree
    }

    /// Hops as an index of a row.
    pub fn index(hops: usize) -> usize {
        hops.min(HOPS_MAX - 1)
    }
}
