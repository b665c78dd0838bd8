//! A network as a rooted tree, for drawing and listing.

use std::collections::BTreeMap;

use crate::status::topology::Network;

/// A switch, by its index in the network's list, and the switches below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// The switch.
    pub switch: usize,
    /// Switches below it, each with the trunks on the way there.
    pub below: Vec<(Branch, u32)>,
}

/// The trees of a network (one, if it is connected), each from its central switch: the one with the smallest distance to
/// its farthest switch. Of two, the one without nodes, then the one with more trunks.
pub fn trees(network: &Network) -> Vec<Branch> {
    let count = network.switches.len();
    let places: BTreeMap<&str, usize> = network
        .switches
        .iter()
        .enumerate()
        .map(|(at, switch)| (switch.id.as_str(), at))
        .collect();
    let mut near = vec![Vec::new(); count];
    for trunk in &network.trunks {
        let ends = [&trunk.between.0, &trunk.between.1].map(|id| places.get(id.as_str()));
        if let [Some(&a), Some(&b)] = ends {
            near[a].push((b, trunk.hops));
            near[b].push((a, trunk.hops));
        }
    }
    let mut is_in = vec![false; count];
    let mut found = Vec::new();
    for start in 0..count {
        if is_in[start] {
            continue;
        }
        let part: Vec<usize> = reached(&near, start).into_iter().map(|r| r.0).collect();
        part.iter().for_each(|switch| is_in[*switch] = true);
        let rank = |switch: &usize| {
            let farthest = reached(&near, *switch).into_iter().map(|r| r.1).max();
            let bears = !network.switches[*switch].nodes.is_empty();
            (farthest, bears, usize::MAX - near[*switch].len(), *switch)
        };
        if let Some(root) = part.iter().copied().min_by_key(rank) {
            found.push(branch(&near, root, None));
        }
    }
    found
}

/// The switches that trunks join to one, and how far they are.
fn reached(near: &[Vec<(usize, u32)>], from: usize) -> Vec<(usize, u32)> {
    let mut is_seen = vec![false; near.len()];
    is_seen[from] = true;
    let mut all = vec![(from, 0)];
    let mut at = 0;
    while let Some(&(switch, far)) = all.get(at) {
        for &(next, hops) in &near[switch] {
            if !core::mem::replace(&mut is_seen[next], true) {
                all.push((next, far + hops));
            }
        }
        at += 1;
    }
    all
}

fn branch(near: &[Vec<(usize, u32)>], switch: usize, above: Option<usize>) -> Branch {
    let below = near[switch].iter().filter(|(next, _)| Some(*next) != above);
    Branch {
        switch,
        below: below
            .map(|&(next, hops)| (branch(near, next, Some(switch)), hops))
            .collect(),
    }
}
