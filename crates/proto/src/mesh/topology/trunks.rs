//! The rate of a trunk, from two trains of packets that cross it at the same time and share nothing else.
//!
//! The paper (002, section 2.2) finds trunks in this way. Here round trips give the tree, and trains measure how fast its trunks
//! are, as far as two links can fill them.
//!
//! Two pairs of nodes send at the same time because one train tells nothing of a trunk that is as fast as a link.

use super::{Map, Probe};

/// If trains that share a trunk take less than this times as long as each alone, the trunk carries more than both.
const SHARED: f64 = 1.25;

impl Map {
    /// Two pairs of nodes whose ways share this trunk in this direction, and no other trunk; `None` if there are none. No node is
    /// in both.
    #[must_use]
    pub fn pairs_across(&self, trunk: usize) -> Option<[Probe; 2]> {
        let (one, other) = self.trunks.get(trunk)?.between;
        let from = self.apart(one, other)?;
        let to = self.apart(other, one)?;
        Some([0, 1].map(|n| Probe {
            from: from[n],
            to: to[n],
        }))
    }

    /// Two nodes on the side of `switch` of its trunk to `but`, whose ways to that trunk share no other trunk.
    fn apart(&self, switch: u32, but: u32) -> Option<[usize; 2]> {
        let own = self.switches.iter().find(|s| s.id == switch)?;
        let beyond = self.neighbours(switch).into_iter().filter(|n| *n != but);
        let nearest = beyond.filter_map(|next| self.nearest(next, switch));
        let mut found = own.nodes.iter().copied().chain(nearest);
        Some([found.next()?, found.next()?])
    }

    /// A node on a switch or, if it has none, close to it, away from `back`.
    fn nearest(&self, switch: u32, back: u32) -> Option<usize> {
        let mut open = vec![(switch, back)];
        let mut at = 0;
        while let Some(&(switch, back)) = open.get(at) {
            let here = self.switches.iter().find(|s| s.id == switch);
            if let Some(node) = here.and_then(|s| s.nodes.first()) {
                return Some(*node);
            }
            let further = self.neighbours(switch).into_iter();
            open.extend(further.filter(|n| *n != back).map(|n| (n, switch)));
            at += 1;
        }
        None
    }
}

/// The rate of a trunk in packets a second, from the intervals between the packets of two trains: each alone, and both at once in
/// several tries. `None` if it carries more than both: then the rate is unknown.
#[must_use]
pub fn packets_per_s(alone_ns: [u64; 2], at_once_ns: &[[u64; 2]]) -> Option<f64> {
    let rate = |ns: u64| 1e9 / ns.max(1) as f64;
    let most_alone = rate(alone_ns[0]).max(rate(alone_ns[1]));
    // Trains that hardly overlapped suggest that there is room for both: the try with most overlap counts.
    let together = at_once_ns.iter().map(|ns| rate(ns[0]) + rate(ns[1]));
    let together = together.min_by(f64::total_cmp)?;
    let is_shared = together * SHARED <= rate(alone_ns[0]) + rate(alone_ns[1]);
    is_shared.then_some(together.max(most_alone))
}

#[cfg(test)]
mod tests {
    use super::super::{Switch, Trunk};
    use super::*;

    /// Switches with these nodes, joined by trunks.
    fn map(nodes: &[&[usize]], joined: &[(u32, u32)]) -> Map {
        let switch = |(id, nodes): (usize, &&[usize])| Switch {
            id: id as u32,
            nodes: nodes.to_vec(),
            confidence: 1.0,
        };
        let trunk = |between: &(u32, u32)| Trunk {
            between: *between,
            hops: 1,
            confidence: 1.0,
        };
        Map {
            switches: nodes.iter().enumerate().map(switch).collect(),
            trunks: joined.iter().map(trunk).collect(),
            ..Map::default()
        }
    }

    #[test]
    fn pairs_have_the_trunk_in_common_and_nothing_else() {
        // A root with two switches of nodes, one of which has a third behind it, and a switch without nodes that leads on.
        let nodes: [&[usize]; 5] = [&[0, 1, 2], &[3, 4], &[5], &[], &[6, 7]];
        let map = map(&nodes, &[(0, 3), (1, 3), (1, 2), (3, 4)]);
        let pairs = |trunk| {
            let pairs = map.pairs_across(trunk)?;
            Some(pairs.map(|p| (p.from, p.to)))
        };
        assert_eq!(pairs(0), Some([(0, 3), (1, 6)]));
        assert_eq!(pairs(1), Some([(3, 0), (4, 6)]));
        // Behind it is one node only.
        assert_eq!(pairs(2), None);
        assert_eq!(pairs(3), Some([(0, 6), (3, 7)]));
        assert_eq!(pairs(4), None);
    }

    #[test]
    fn who_shares_a_trunk_has_the_trunk_together() {
        let told = |alone, at_once: &[[u64; 2]]| {
            packets_per_s(alone, at_once).map(|rate| (rate / 1e3).round())
        };
        // As fast as a link; slower; and the trains met once out of three times.
        assert_eq!(told([12_000; 2], &[[24_000; 2]]), Some(83.0));
        assert_eq!(told([120_000; 2], &[[240_000; 2]]), Some(8.0));
        let met = [[12_000; 2], [24_000, 23_000], [18_000; 2]];
        assert_eq!(told([12_000; 2], &met), Some(85.0));
        // Twice as fast or more; or nothing was measured.
        assert_eq!(told([12_000; 2], &[[12_000; 2], [12_500; 2]]), None);
        assert_eq!(told([12_000; 2], &[]), None);
    }
}
