//! Nodes, the switches they are at, and how far apart these are.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::RANKS_MAX;

/// The version of the description that is understood.
const SCHEMA: u32 = 1;
/// Switches and trunks of a network at most.
const SWITCHES_MAX: usize = 4096;

/// The relevant part of the file.
#[derive(Deserialize)]
struct Described {
    schema: u32,
    networks: Vec<DescribedNetwork>,
}

#[derive(Deserialize)]
struct DescribedNetwork {
    #[serde(default)]
    link: u32,
    switches: Vec<DescribedSwitch>,
    #[serde(default)]
    trunks: Vec<DescribedTrunk>,
}

#[derive(Deserialize)]
struct DescribedSwitch {
    id: String,
    nodes: Vec<String>,
}

#[derive(Deserialize)]
struct DescribedTrunk {
    between: (String, String),
    #[serde(default = "one")]
    hops: u32,
}

const fn one() -> u32 {
    1
}

/// The places of nodes.
pub struct Network {
    /// Their names, ordered so that nodes on one switch are adjacent.
    nodes: Vec<String>,
    planes: Vec<Plane>,
}

/// One of the independent networks.
struct Plane {
    /// The switch of each node; none: it is not on this network.
    switch_of: Vec<Option<usize>>,
    /// Trunks between two switches, by the first one and then the second; `FAR` where no way leads.
    hops: Vec<Vec<u32>>,
    /// Further than the furthest.
    far: u32,
}

const FAR: u32 = u32::MAX;

impl Network {
    /// Reads a description.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Network, String> {
        let described: Described = serde_json::from_str(text)
            .map_err(|error| format!("this describes no switches: {error}"))?;
        if described.schema != SCHEMA {
            return Err(format!(
                "this is of version {}; version {SCHEMA} is understood",
                described.schema
            ));
        }
        let mut nodes = Vec::new();
        let mut numbers = BTreeMap::new();
        for network in &described.networks {
            for name in in_order(network)? {
                if !numbers.contains_key(&name) {
                    numbers.insert(name.clone(), nodes.len());
                    nodes.push(name);
                }
            }
        }
        if nodes.is_empty() {
            return Err("there is no node at any switch".to_owned());
        }
        if nodes.len() > RANKS_MAX {
            return Err(format!("there are more than {RANKS_MAX} nodes"));
        }
        let planes = described.networks.iter();
        let planes = planes.map(|network| Plane::of(network, &numbers)).collect();
        Ok(Network { nodes, planes })
    }

    /// The names of all nodes; elsewhere they are numbers, which are places in this list.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// How far two nodes are apart: trunks that lie between, of all networks together.
    pub fn distance(&self, a: usize, b: usize) -> u64 {
        let of_one = |plane: &Plane| match (plane.switch_of[a], plane.switch_of[b]) {
            _ if a == b => 0,
            (Some(a), Some(b)) if plane.hops[a][b] != FAR => plane.hops[a][b],
            _ => plane.far,
        };
        self.planes.iter().map(|p| u64::from(of_one(p))).sum()
    }

    /// At most this many adjacent nodes: those that are closest to each other.
    pub fn closest(&self, count: usize) -> Vec<usize> {
        let count = count.min(self.nodes.len());
        let to_all = |of: usize, others: core::ops::Range<usize>| -> u64 {
            others.map(|other| self.distance(of, other)).sum()
        };
        let mut sum: u64 = (0..count).map(|node| to_all(node, 0..node)).sum();
        let mut best = (sum, 0);
        for first in 1..=self.nodes.len() - count {
            let last = first + count - 1;
            sum -= to_all(first - 1, first..last);
            sum += to_all(last, first..last);
            best = best.min((sum, first));
        }
        (best.1..best.1 + count).collect()
    }
}

/// The nodes of a network as they are met on a walk through its switches, branch after branch.
fn in_order(network: &DescribedNetwork) -> Result<Vec<String>, String> {
    let link = network.link;
    let switches = &network.switches;
    if switches.len() > SWITCHES_MAX || network.trunks.len() > SWITCHES_MAX {
        return Err(format!(
            "network {link} has more than {SWITCHES_MAX} switches or trunks"
        ));
    }
    let mut ids = BTreeMap::new();
    for (number, switch) in switches.iter().enumerate() {
        if ids.insert(&switch.id, number).is_some() {
            return Err(format!("network {link} has two switches {}", switch.id));
        }
    }
    let mut beside = vec![Vec::new(); switches.len()];
    for trunk in &network.trunks {
        let end = |id: &String| {
            let number = ids.get(id).copied();
            number.ok_or_else(|| {
                format!("a trunk of network {link} ends at {id}, which is no switch of it")
            })
        };
        let (a, b) = (end(&trunk.between.0)?, end(&trunk.between.1)?);
        beside[a].push(b);
        beside[b].push(a);
    }
    let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
    let mut is_met = vec![false; switches.len()];
    for start in 0..switches.len() {
        let mut stack = vec![start];
        while let Some(number) = stack.pop() {
            if core::mem::replace(&mut is_met[number], true) {
                continue;
            }
            for name in &switches[number].nodes {
                if !seen.insert(name) {
                    return Err(format!("{name} is at two switches of network {link}"));
                }
                names.push(name.clone());
            }
            stack.extend(beside[number].iter().rev());
        }
    }
    Ok(names)
}

impl Plane {
    /// Of a description that [`in_order`] has found right.
    fn of(network: &DescribedNetwork, numbers: &BTreeMap<String, usize>) -> Plane {
        let switches = &network.switches;
        let mut switch_of = vec![None; numbers.len()];
        let mut ids = BTreeMap::new();
        for (number, switch) in switches.iter().enumerate() {
            ids.insert(&switch.id, number);
            let own = switch.nodes.iter().filter_map(|name| numbers.get(name));
            own.for_each(|node| switch_of[*node] = Some(number));
        }
        let mut beside = vec![Vec::new(); switches.len()];
        for trunk in &network.trunks {
            let (a, b) = (ids.get(&trunk.between.0), ids.get(&trunk.between.1));
            if let (Some(a), Some(b)) = (a, b) {
                beside[*a].push((*b, trunk.hops.max(1)));
                beside[*b].push((*a, trunk.hops.max(1)));
            }
        }
        let hops: Vec<_> = (0..switches.len())
            .map(|from| ways(from, &beside))
            .collect();
        let reached = hops.iter().flatten().filter(|hops| **hops != FAR);
        let far = reached.max().map_or(1, |most| most.saturating_add(1));
        Plane {
            switch_of,
            hops,
            far,
        }
    }
}

/// How many trunks lead from one switch to each of the others (Dijkstra).
fn ways(from: usize, beside: &[Vec<(usize, u32)>]) -> Vec<u32> {
    let mut hops = vec![FAR; beside.len()];
    let mut next = BTreeSet::from([(0u32, from)]);
    hops[from] = 0;
    while let Some((so_far, at)) = next.pop_first() {
        for &(to, more) in &beside[at] {
            let sum = so_far.saturating_add(more);
            if sum < hops[to] {
                next.remove(&(hops[to], to));
                hops[to] = sum;
                next.insert((sum, to));
            }
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(networks: &str) -> Result<Network, String> {
        Network::read(&format!("{{\"schema\":1,\"networks\":{networks}}}"))
    }

    /// A root without nodes, two switches below it, and one more below the second.
    const TREE: &str = r#"[{"link":0,"switches":[{"id":"root","nodes":[]},{"id":"a","nodes":["x","y"]},
        {"id":"b","nodes":["z"]},{"id":"c","nodes":["v","w"]}],"trunks":[{"between":["root","a"]},
        {"between":["root","b"]},{"between":["b","c"],"hops":2}]}]"#;

    #[test]
    fn a_branch_stands_together_and_trunks_are_counted() {
        let found = network(TREE).expect("is right");
        assert_eq!(found.nodes(), ["x", "y", "z", "v", "w"]);
        let distances: Vec<u64> = (0..5).map(|to| found.distance(0, to)).collect();
        assert_eq!(distances, [0, 0, 2, 4, 4]);
    }

    #[test]
    fn those_that_are_closest_are_taken() {
        let found = network(TREE).expect("is right");
        assert_eq!(found.closest(2), [0, 1]);
        assert_eq!(found.closest(9), [0, 1, 2, 3, 4]);
        let second = r#"[{"switches":[{"id":"s","nodes":["a"]},{"id":"t","nodes":["b","c"]}],
            "trunks":[{"between":["s","t"]}]}]"#;
        assert_eq!(network(second).expect("is right").closest(2), [1, 2]);
    }

    #[test]
    fn networks_add_up_and_who_is_not_on_one_is_far() {
        let two = r#"[{"switches":[{"id":"s","nodes":["a","b","c"]}]},
            {"link":1,"switches":[{"id":"s","nodes":["a"]},{"id":"t","nodes":["b"]}],
             "trunks":[{"between":["s","t"]}]}]"#;
        let found = network(two).expect("is right");
        let to = |other| found.distance(0, other);
        assert_eq!([to(0), to(1), to(2)], [0, 1, 2]);
    }

    #[test]
    fn what_describes_no_network_is_refused() {
        let switch = |rest: &str| format!(r#"[{{"switches":[{{"id":"s","nodes":["a"]}}{rest}]}}]"#);
        for (text, said) in [
            ("[]".to_owned(), "there is no node at any switch"),
            (
                switch(r#",{"id":"s","nodes":[]}"#),
                "network 0 has two switches s",
            ),
            (
                switch(r#",{"id":"t","nodes":["a"]}"#),
                "a is at two switches of network 0",
            ),
            (
                r#"[{"link":3,"switches":[],"trunks":[{"between":["s","t"]}]}]"#.to_owned(),
                "a trunk of network 3 ends at s, which is no switch of it",
            ),
        ] {
            assert_eq!(network(&text).err().as_deref(), Some(said));
        }
        assert_eq!(
            Network::read("{\"schema\":2,\"networks\":[]}")
                .err()
                .as_deref(),
            Some("this is of version 2; version 1 is understood")
        );
        assert!(network("7").is_err());
    }
}
