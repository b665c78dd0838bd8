//! The result of a survey, as `tabane topo --json` prints it and `tabane place` reads it.

use serde::{Deserialize, Serialize};
use tabane_proto::topology;

/// The version of the description.
pub const SCHEMA: u32 = 1;

/// Which nodes share switches, on every network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When it was measured, in milliseconds since 1970-01-01 UTC.
    pub measured_unix_ms: u64,
    /// One for each link.
    pub networks: Vec<Network>,
}

/// One network: a tree of switches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Network {
    /// Its number: that of the nodes' links.
    pub link: u8,
    /// Those with nodes first.
    pub switches: Vec<Switch>,
    /// The connections between them.
    pub trunks: Vec<Trunk>,
    /// What could not be distinguished: names of nodes, or of switches.
    pub ambiguous: Vec<Vec<String>>,
    /// The same, in detail.
    pub doubts: Vec<Ambiguity>,
}

/// One switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    /// Its name, which stays as long as most of its nodes do.
    pub id: String,
    /// The nodes on it, in the order of the cluster file; none on one that only joins others.
    pub nodes: Vec<String>,
    /// How likely it is that exactly these are on it, 0 to 1.
    pub confidence: f64,
}

/// A way between two switches without another one of the list on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trunk {
    /// The switches.
    pub between: (String, String),
    /// Its rate, in Mb/s; `None` if that is not known: it carries more than two links, or no two pairs of nodes have this
    /// trunk alone in common.
    pub mbps: Option<u32>,
    /// One more than the switches on it.
    pub hops: u32,
    /// How likely it is that it parts the nodes like this and is this long, 0 to 1.
    pub confidence: f64,
}

/// Nodes whose place is not known; or, without nodes, switches whose connections are not certain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ambiguity {
    /// The nodes.
    pub nodes: Vec<String>,
    /// Where they may be; empty if that is not known either, as for nodes that are not there.
    pub switches: Vec<String>,
}

impl Ambiguity {
    /// The nodes; or the switches, if it is about these.
    pub fn names(&self) -> Vec<String> {
        match self.nodes.is_empty() {
            true => self.switches.clone(),
            false => self.nodes.clone(),
        }
    }
}

/// A daemon's report on its surveys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TopoReport {
    /// One is under way.
    pub running: bool,
    /// So many have ended since the daemon began.
    pub finished: u64,
    /// Why the last one yielded nothing, if so.
    pub trouble: Option<String>,
    /// The result of the last one that yielded anything.
    pub topology: Option<Topology>,
}

/// A probability as it is worth printing.
fn rounded(confidence: f32) -> f64 {
    (f64::from(confidence.clamp(0.0, 1.0)) * 1e3).round() / 1e3
}

/// The name of the switch with this number.
pub fn name_of(id: u32) -> String {
    format!("s{id}")
}

fn number_of(id: &str) -> Option<u32> {
    id.strip_prefix('s')?.parse().ok()
}

impl Switch {
    /// Its number.
    pub fn number(&self) -> Option<u32> {
        number_of(&self.id)
    }
}

impl Network {
    /// Of a map of the nodes of these names; `absent` are nodes that should be there and could not be measured.
    pub fn of(link: u8, map: &topology::Map, names: &[String], absent: &[String]) -> Network {
        let called = |nodes: &[usize]| nodes.iter().map(|n| names[*n].clone()).collect();
        let switches = map.switches.iter().map(|switch| Switch {
            id: name_of(switch.id),
            nodes: called(&switch.nodes),
            confidence: rounded(switch.confidence),
        });
        let trunks = map.trunks.iter().map(|trunk| Trunk {
            between: (name_of(trunk.between.0), name_of(trunk.between.1)),
            mbps: None,
            hops: trunk.hops,
            confidence: rounded(trunk.confidence),
        });
        let unclear = map.ambiguous.iter().map(|ambiguity| Ambiguity {
            nodes: called(&ambiguity.nodes),
            switches: ambiguity.switches.iter().copied().map(name_of).collect(),
        });
        let absent = absent.iter().map(|name| Ambiguity {
            nodes: vec![name.clone()],
            switches: Vec::new(),
        });
        let doubts: Vec<Ambiguity> = unclear.chain(absent).collect();
        Network {
            link,
            switches: switches.collect(),
            trunks: trunks.collect(),
            ambiguous: doubts.iter().map(Ambiguity::names).collect(),
            doubts,
        }
    }

    /// The trunk between two switches, in either order.
    pub fn trunk(&self, one: usize, other: usize) -> Option<&Trunk> {
        let ids = [one, other].map(|at| self.switches.get(at).map(|s| s.id.as_str()));
        let joins = |t: &&Trunk| {
            let ends = [Some(t.between.0.as_str()), Some(t.between.1.as_str())];
            ends == ids || ends == [ids[1], ids[0]]
        };
        self.trunks.iter().find(joins)
    }

    /// As a map of the nodes of these names, as far as its ids go: for [`topology::Map::keep_ids`].
    pub fn as_map(&self, names: &[String]) -> topology::Map {
        let number = |name: &String| names.iter().position(|n| n == name);
        let switches = self.switches.iter().filter_map(|switch| {
            let mut nodes: Vec<usize> = switch.nodes.iter().filter_map(number).collect();
            nodes.sort_unstable();
            // A switch whose nodes are all gone is not one that only connects others.
            let is_known = switch.nodes.is_empty() || !nodes.is_empty();
            Some(topology::Switch {
                id: switch.number().filter(|_| is_known)?,
                nodes,
                confidence: 1.0,
            })
        });
        let trunks = self.trunks.iter().filter_map(|trunk| {
            let (a, b) = (number_of(&trunk.between.0)?, number_of(&trunk.between.1)?);
            Some(topology::Trunk {
                between: (a.min(b), a.max(b)),
                hops: trunk.hops,
                confidence: 1.0,
            })
        });
        topology::Map {
            switches: switches.collect(),
            trunks: trunks.collect(),
            ..topology::Map::default()
        }
    }
}
