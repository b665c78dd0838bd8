//! The assignment of ranks to nodes.
//!
//! Ranks are put on one node after the other, each time the one with most traffic to nearby ranks; then pairs are exchanged
//! as long as that saves something. Both are bounded; the same input gives the same output.

use super::network::Network;
use super::traffic::Traffic;

/// How often all pairs are looked at once more.
const ROUNDS_MAX: usize = 16;
/// Most inspections of a pair's traffic, in all: some seconds.
const LOOKS_MAX: u64 = 1 << 30;

/// The node of each rank; `order` has the nodes to use, each for at most `per_node` ranks.
pub fn assign(
    network: &Network,
    order: &[usize],
    per_node: usize,
    traffic: &Traffic,
) -> Vec<usize> {
    let ranks = traffic.ranks();
    let in_turn: Vec<usize> = (0..ranks).map(|rank| order[rank / per_node]).collect();
    if traffic.is_empty() {
        return in_turn;
    }
    let grown = grow(network, order, per_node, traffic);
    let mut best = match cost(network, traffic, &grown) < cost(network, traffic, &in_turn) {
        true => grown,
        false => in_turn,
    };
    swap(network, traffic, &mut best);
    best
}

/// The traffic of all pairs times their distances.
fn cost(network: &Network, traffic: &Traffic, placed: &[usize]) -> u128 {
    let of = |rank| cost_of(network, traffic, placed, rank, placed[rank]);
    (0..placed.len()).map(of).sum()
}

/// The cost of a rank's traffic if it ran on `node`.
fn cost_of(
    network: &Network,
    traffic: &Traffic,
    placed: &[usize],
    rank: usize,
    node: usize,
) -> u128 {
    let with =
        |(other, bytes): &(usize, u64)| u128::from(*bytes) * weight(network, node, placed[*other]);
    traffic.of(rank).iter().map(with).sum()
}

/// The weight of a byte between two nodes: even under one switch it uses two links.
fn weight(network: &Network, a: usize, b: usize) -> u128 {
    match a == b {
        true => 0,
        false => 1 + u128::from(network.distance(a, b)),
    }
}

fn grow(network: &Network, order: &[usize], per_node: usize, traffic: &Traffic) -> Vec<usize> {
    let ranks = traffic.ranks();
    let furthest = order.iter().map(|node| weight(network, order[0], *node));
    let furthest = 1 + 2 * furthest.max().unwrap_or(0);
    let mut placed: Vec<Option<usize>> = vec![None; ranks];
    for &node in order {
        // For each rank, its traffic with the ranks placed so far, weighted by nearness.
        let mut pull = vec![0u128; ranks];
        for (rank, there) in placed.iter().enumerate() {
            let Some(there) = there else { continue };
            let near = furthest.saturating_sub(weight(network, node, *there));
            for (other, bytes) in traffic.of(rank) {
                pull[*other] = pull[*other].saturating_add(u128::from(*bytes) * near);
            }
        }
        for _ in 0..per_node {
            let free = (0..ranks).filter(|rank| placed[*rank].is_none());
            let Some(rank) = free.max_by_key(|rank| (pull[*rank], core::cmp::Reverse(*rank)))
            else {
                break;
            };
            placed[rank] = Some(node);
            for (other, bytes) in traffic.of(rank) {
                pull[*other] = pull[*other].saturating_add(u128::from(*bytes) * furthest);
            }
        }
    }
    placed
        .into_iter()
        .map(|node| node.unwrap_or(order[0]))
        .collect()
}

/// Ranks change places in pairs as long as something is saved by it.
fn swap(network: &Network, traffic: &Traffic, placed: &mut [usize]) {
    let mut looks = 0;
    for _ in 0..ROUNDS_MAX {
        let mut has_changed = false;
        for a in 0..placed.len() {
            for b in a + 1..placed.len() {
                if placed[a] == placed[b] {
                    continue;
                }
                looks += 4 * (traffic.of(a).len() + traffic.of(b).len()) as u64;
                if looks > LOOKS_MAX {
                    return;
                }
                let pair = |placed: &[usize]| {
                    cost_of(network, traffic, placed, a, placed[a])
                        + cost_of(network, traffic, placed, b, placed[b])
                };
                let before = pair(placed);
                placed.swap(a, b);
                match pair(placed) < before {
                    true => has_changed = true,
                    false => placed.swap(a, b),
                }
            }
        }
        if !has_changed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switches(of: &[usize]) -> Network {
        let mut next = 0;
        let mut switch = |(id, count): (usize, &usize)| {
            let nodes: Vec<String> = (next..next + count).map(|n| format!("\"n{n}\"")).collect();
            next += count;
            format!("{{\"id\":\"s{id}\",\"nodes\":[{}]}}", nodes.join(","))
        };
        let all: Vec<String> = of.iter().enumerate().map(&mut switch).collect();
        let trunks: Vec<String> = (1..of.len())
            .map(|id| format!("{{\"between\":[\"s0\",\"s{id}\"]}}"))
            .collect();
        let (all, trunks) = (all.join(","), trunks.join(","));
        let text = format!(
            "{{\"schema\":1,\"networks\":[{{\"switches\":[{all}],\"trunks\":[{trunks}]}}]}}"
        );
        Network::read(&text).expect("is right")
    }

    /// A ring whose numbering separates all neighbours.
    fn scattered(ranks: usize) -> Traffic {
        let place = |n: usize| n * 7 % ranks;
        let line = |n: usize| format!("{},{},100\n", place(n), place((n + 1) % ranks));
        let text: String = (0..ranks).map(line).collect();
        Traffic::read(&text, ranks).unwrap_or_else(|_| Traffic::none(ranks))
    }

    #[test]
    fn a_scattered_ring_crosses_each_trunk_as_seldom_as_can_be() {
        let network = switches(&[4, 4, 4, 4]);
        let order: Vec<usize> = (0..16).collect();
        let traffic = scattered(32);
        let placed = assign(&network, &order, 2, &traffic);
        for node in 0..16 {
            assert_eq!(placed.iter().filter(|at| **at == node).count(), 2);
        }
        // Of 32 pairs 16 can share a node, and a ring that visits four switches crosses between them four times.
        let apart = |distance: &dyn Fn(u64) -> bool| {
            let pairs = (0..32).map(|n| (placed[n * 7 % 32], placed[(n + 1) % 32 * 7 % 32]));
            pairs
                .filter(|(a, b)| a != b && distance(network.distance(*a, *b)))
                .count()
        };
        assert!(apart(&|_| true) <= 18, "{placed:?}");
        assert!(apart(&|distance| distance > 0) <= 6, "{placed:?}");
    }

    #[test]
    fn without_traffic_ranks_come_in_turn() {
        let network = switches(&[2, 2]);
        let placed = assign(&network, &[2, 3], 2, &Traffic::none(3));
        assert_eq!(placed, [2, 2, 3]);
    }

    #[test]
    fn what_is_given_is_never_made_worse() {
        let network = switches(&[3, 3, 2]);
        let order: Vec<usize> = (0..8).collect();
        for ranks in [5, 8, 13, 16] {
            let traffic = scattered(ranks);
            let per_node = ranks.div_ceil(8);
            let placed = assign(&network, &order, per_node, &traffic);
            let in_turn: Vec<usize> = (0..ranks).map(|rank| rank / per_node).collect();
            assert!(cost(&network, &traffic, &placed) <= cost(&network, &traffic, &in_turn));
        }
    }
}
