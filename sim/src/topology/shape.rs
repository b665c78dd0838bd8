//! Trees of switches with nodes on them.

use crate::Random;

/// How switches hang together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Eight switches of 14 nodes under two that have none (paper 002 has 112 nodes so, its figure 3 not in words).
    Paper,
    /// Eight switches of 14 nodes, joined to each other.
    PaperFlat,
    /// A random tree for so many nodes, 16 on a switch in the mean and two at least; a fifth of the switches has none.
    Random(usize),
}

/// A tree of switches: for each the one that it hangs on (a lower one; the first on none), and for each node its switch.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The switch that each switch hangs on.
    pub parents: Vec<Option<usize>>,
    /// The switch of each node.
    pub switch_of: Vec<usize>,
}

impl Shape {
    /// The tree, with nodes numbered at random.
    pub(super) fn draw(self, random: &mut Random) -> Tree {
        let (parents, counts) = match self {
            Shape::Paper => (
                vec![
                    None,
                    Some(0),
                    Some(0),
                    Some(0),
                    Some(0),
                    Some(0),
                    Some(1),
                    Some(1),
                    Some(1),
                    Some(1),
                ],
                vec![0, 0, 14, 14, 14, 14, 14, 14, 14, 14],
            ),
            Shape::PaperFlat => (
                vec![
                    None,
                    Some(0),
                    Some(0),
                    Some(0),
                    Some(1),
                    Some(1),
                    Some(2),
                    Some(2),
                ],
                vec![14; 8],
            ),
            Shape::Random(nodes) => random_tree(nodes, random),
        };
        let each = counts.iter().enumerate();
        let mut switch_of: Vec<usize> = each.flat_map(|(s, n)| vec![s; *n]).collect();
        for at in (1..switch_of.len()).rev() {
            switch_of.swap(at, random.below(at as u64 + 1) as usize);
        }
        Tree { parents, switch_of }
    }
}

fn random_tree(nodes: usize, random: &mut Random) -> (Vec<Option<usize>>, Vec<usize>) {
    let switches = (nodes / 16).max(4);
    let bare = (switches / 4).max(1);
    let mut parents = vec![None];
    for at in 1..(switches + bare) as u64 {
        parents.push(Some(random.between(at.saturating_sub(12), at - 1) as usize));
    }
    let mut degree = vec![0; parents.len()];
    for (at, parent) in parents.iter().enumerate() {
        if let Some(parent) = parent {
            degree[at] += 1;
            degree[*parent] += 1;
        }
    }
    // A switch without nodes that joins two others would be no more than a longer trunk.
    let mut all: Vec<usize> = (0..parents.len()).collect();
    for at in 0..bare {
        let other = random.between(at as u64, all.len() as u64 - 1) as usize;
        all.swap(at, other);
    }
    let is_bare = |s: &usize| all[..bare].contains(s) && degree[*s] >= 3;
    let with_nodes: Vec<usize> = (0..parents.len()).filter(|s| !is_bare(s)).collect();
    let mut counts = vec![0; parents.len()];
    with_nodes.iter().for_each(|s| counts[*s] = 2);
    for _ in 0..nodes.saturating_sub(2 * with_nodes.len()) {
        counts[random.pick(&with_nodes)] += 1;
    }
    (parents, counts)
}
