//! Which bundles a node keeps, if there are more nodes than it may have bundles over links.
//!
//! All nodes are in groups ([`groups`]): nodes that share a switch or, while that is not known, nodes with neighbouring
//! names. Within a group all keep bundles with each other. For any two groups, two nodes of the one keep a bundle with
//! two of the other, so that any two nodes are joined by two ways that share no relay, over at most two relays: any one
//! node may be gone. All nodes that know all names compute the same bundles. They need no agreement, and say nothing
//! about it.
//!
//! A group has about the cube root of four times the number of nodes as members: then the node with most bundles has
//! fewest, 23 of 1,024 nodes. With the square root it would have 33, and more than 64 beyond 4,000 nodes.
//!
//! If no way is left between two nodes they make a bundle over links, if both have room for one. Others are told of it as
//! of those that are kept: so it heals the mesh for them, too.

use super::groups::groups;
use crate::wire::Switches;

/// Bundles that two groups keep with each other.
const OWNERS: usize = 2;

/// Nodes, by their places in the order of all names, and their groups.
#[derive(Clone, Debug)]
pub(crate) struct Few {
    /// Of each node: its group, and its place in that.
    places: Vec<(u16, u16)>,
    /// The members of each group.
    groups: Vec<Vec<u16>>,
}

impl Few {
    /// Groups for nodes (at least 1) in the order of their names, each with its switches if they are known. The groups' size
    /// minimises the number of bundles of the node with most.
    pub fn of(switches: &[Option<&Switches>]) -> Few {
        let nodes = switches.len();
        let sizes = 1..=nodes;
        let best = sizes.min_by_key(|size| (degree(nodes, *size), core::cmp::Reverse(*size)));
        Few::in_groups(groups(switches, best.unwrap_or(1)).into_iter())
    }

    /// Nodes of these groups, which are numbered from 0 on.
    pub(super) fn in_groups(groups: impl Iterator<Item = u16>) -> Few {
        let mut members: Vec<Vec<u16>> = Vec::new();
        let places = groups.zip(0..).map(|(group, node)| {
            let index = usize::from(group);
            members.resize(members.len().max(index + 1), Vec::new());
            members[index].push(node);
            (group, members[index].len() as u16 - 1)
        });
        let places = places.collect();
        let groups = members;
        Few { places, groups }
    }

    /// Whether two different nodes keep a bundle with each other, over their links.
    pub fn keeps(&self, a: usize, b: usize) -> bool {
        let (Some(&a), Some(&b)) = (self.places.get(a), self.places.get(b)) else {
            return false;
        };
        a.0 == b.0
            || (0..OWNERS)
                .any(|nth| self.owner(a.0, b.0, nth) == a.1 && self.owner(b.0, a.0, nth) == b.1)
    }

    /// All nodes with which a node keeps a bundle; some come twice.
    pub fn kept_of(&self, node: usize) -> Vec<usize> {
        let Some(&(group, place)) = self.places.get(node) else {
            return Vec::new();
        };
        let within = self.groups[usize::from(group)].iter().copied();
        let mut kept: Vec<u16> = within.filter(|other| usize::from(*other) != node).collect();
        for other in (0..self.groups.len() as u16).filter(|other| *other != group) {
            for nth in (0..OWNERS).filter(|nth| self.owner(group, other, *nth) == place) {
                let there = self.owner(other, group, nth);
                kept.push(self.groups[usize::from(other)][usize::from(there)]);
            }
        }
        kept.into_iter().map(usize::from).collect()
    }

    /// The group of a node.
    pub fn group_of(&self, node: usize) -> Option<u16> {
        self.places.get(node).map(|place| place.0)
    }

    /// The node of another group through which a node reaches that group under load: each member of its own group has another
    /// one. If both groups have one size, the relation is mutual.
    pub fn counterpart(&self, node: usize, group: u16) -> Option<usize> {
        let own = self.places.get(node)?;
        let members = self
            .groups
            .get(usize::from(group))
            .filter(|_| group != own.0)?;
        let sum = (usize::from(own.0) + usize::from(group)) % members.len();
        let place = usize::from(own.1) % members.len();
        let counterpart = members[(sum + members.len() - place) % members.len()];
        Some(counterpart.into())
    }

    /// The place of the node of `group` that keeps the `nth` bundle with the group `other`: they take turns.
    fn owner(&self, group: u16, other: u16, nth: usize) -> u16 {
        let (group, count) = (usize::from(group), self.groups.len());
        let distance = (usize::from(other) + count - group) % count;
        ((OWNERS * (distance - 1) + nth) % self.groups[group].len()) as u16
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let members: usize = self.groups.iter().map(Vec::capacity).sum();
        self.places.capacity() * size_of::<(u16, u16)>()
            + self.groups.capacity() * size_of::<Vec<u16>>()
            + members * size_of::<u16>()
    }
}

/// The most bundles of a node, if groups have `size` members or one less.
fn degree(nodes: usize, size: usize) -> usize {
    let groups = nodes.div_ceil(size);
    let (most, least) = (nodes.div_ceil(groups), nodes / groups);
    most - 1 + (OWNERS * (groups - 1)).div_ceil(least)
}

/// The most bundles that a node of so many keeps: with fewer, not all reach each other.
pub fn bundles_needed(nodes: usize) -> usize {
    let degrees = (1..=nodes).map(|size| degree(nodes, size));
    degrees.min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LINKS_MAX;
    use std::collections::BTreeSet;

    /// This many nodes about which nothing is known.
    fn few_of(nodes: usize) -> Few {
        Few::of(&vec![None; nodes])
    }

    fn degree_of(few: &Few, node: usize) -> usize {
        let others = (0..few.places.len()).filter(|other| *other != node);
        others.filter(|other| few.keeps(node, *other)).count()
    }

    /// Whether a node reaches all others without those in `gone`, over `relays` at most.
    fn reaches_all(few: &Few, from: usize, gone: &BTreeSet<usize>, relays: usize) -> bool {
        let nodes = few.places.len();
        let mut reached = BTreeSet::from([from]);
        let mut last = vec![from];
        for _ in 0..=relays {
            let is_new = |node: &usize| !reached.contains(node) && !gone.contains(node);
            let next = (0..nodes).filter(is_new);
            last = next
                .filter(|node| last.iter().any(|to| few.keeps(*to, *node)))
                .collect();
            reached.extend(&last);
        }
        reached.len() + gone.len() == nodes
    }

    #[test]
    fn each_of_a_group_reaches_another_one_by_somebody_else() {
        for (nodes, size) in [(6, 2), (64, 16), (35, 7)] {
            let few = Few::in_groups((0..nodes).map(|node| (node / size) as u16));
            for group in 0..(nodes / size) as u16 {
                for own in (0..nodes / size).filter(|own| *own != usize::from(group)) {
                    let members = own * size..(own + 1) * size;
                    let counterparts = members.map(|node| {
                        let there = few.counterpart(node, group).expect("another group");
                        assert_eq!(few.group_of(there), Some(group));
                        // If both groups have one size, each node is the other's counterpart.
                        assert_eq!(few.counterpart(there, own as u16), Some(node));
                        there
                    });
                    assert_eq!(counterparts.collect::<BTreeSet<_>>().len(), size);
                }
            }
            assert_eq!(few.counterpart(0, 0), None, "its own");
        }
        let uneven = Few::in_groups([0, 0, 0, 1].into_iter());
        assert_eq!(
            [0, 1, 2].map(|node| uneven.counterpart(node, 1)),
            [Some(3); 3]
        );
    }

    #[test]
    fn both_ends_agree_and_everybody_is_reached_over_two_relays() {
        for nodes in [2, 3, 9, 66, 100, 128, 257] {
            let few = few_of(nodes);
            for a in 0..nodes {
                let all = (0..nodes).filter(|b| *b != a);
                assert!(all.into_iter().all(|b| few.keeps(a, b) == few.keeps(b, a)));
                assert!(reaches_all(&few, a, &BTreeSet::new(), 2), "{nodes}: {a}");
            }
        }
    }

    #[test]
    fn who_is_there_is_reached_without_any_one_of_the_others() {
        for nodes in [9, 66, 130] {
            let few = few_of(nodes);
            for gone in 0..nodes {
                let from = (gone + 1) % nodes;
                assert!(reaches_all(&few, from, &BTreeSet::from([gone]), 3));
            }
        }
    }

    #[test]
    fn each_node_of_a_group_has_its_own_counterpart_in_another_one() {
        let few = racks(128, |node| node % 8);
        for node in 0..128 {
            for group in 0..8 {
                let Some(counterpart) = few.counterpart(node, group) else {
                    assert_eq!(few.group_of(node), Some(group));
                    continue;
                };
                let own = few.group_of(node).expect("a group");
                assert_eq!(few.group_of(counterpart), Some(group));
                assert_eq!(few.counterpart(counterpart, own), Some(node));
            }
        }
        // Groups of different sizes: each node has a counterpart.
        let few = Few::in_groups((0..30).map(|node| u16::from(node >= 20)));
        assert!((0..20).all(|node| few.counterpart(node, 1).is_some_and(|n| n >= 20)));
    }

    #[test]
    fn a_node_keeps_few_bundles() {
        for (nodes, most) in [(32, 7), (66, 10), (128, 12), (1024, 24), (16_384, 64)] {
            assert!(bundles_needed(nodes) <= most, "{nodes}");
        }
        for nodes in [32, 66, 128, 1000, 1024] {
            let few = few_of(nodes);
            let most = (0..nodes).map(|node| degree_of(&few, node)).max();
            assert_eq!(most, Some(bundles_needed(nodes)), "{nodes}");
            for node in 0..nodes {
                let all: BTreeSet<usize> = few.kept_of(node).into_iter().collect();
                let keeps = |other: &usize| *other != node && few.keeps(node, *other);
                assert_eq!(all, (0..nodes).filter(keeps).collect(), "{nodes}: {node}");
            }
        }
        for (nodes, most) in [(128, 16), (1024, 23)] {
            let racks = racks(nodes, |node| node % (nodes / 16));
            assert!((0..nodes).all(|node| degree_of(&racks, node) <= most));
        }
        // Half of them on one switch, and the others two by two.
        let uneven = racks(1024, |node| (node * 2 / 1024) * node / 2);
        assert!((0..1024).all(|node| degree_of(&uneven, node) <= 64));
    }

    /// Nodes on these switches.
    fn racks(nodes: usize, switch_of: impl Fn(usize) -> usize) -> Few {
        let switches = |node| {
            let mut of = [None; LINKS_MAX];
            of[0] = Some(switch_of(node) as u16);
            Switches { survey: 1, of }
        };
        let switches: Vec<Switches> = (0..nodes).map(switches).collect();
        Few::of(&switches.iter().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn all_of_one_switch_keep_bundles_and_any_two_switches_keep_two() {
        let few = racks(128, |node| node % 8);
        for a in 0..128 {
            assert!(
                (0..128)
                    .filter(|b| b % 8 == a % 8 && *b != a)
                    .all(|b| few.keeps(a, b))
            );
            assert!(reaches_all(&few, a, &BTreeSet::from([(a + 1) % 128]), 3));
        }
        for (a, b) in [(0, 1), (3, 7)] {
            let of = |switch: usize| (0..16).map(move |place| 8 * place + switch);
            let kept = of(a).flat_map(|one| of(b).map(move |other| (one, other)));
            assert_eq!(
                kept.filter(|(one, other)| few.keeps(*one, *other)).count(),
                2
            );
        }
    }
}
