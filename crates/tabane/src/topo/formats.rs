//! A topology for other programs: Graphviz, Slurm.

use std::fmt::Write;

use super::tree::{Branch, trees};
use crate::status::topology::{Network, Topology};

/// For Graphviz: an undirected graph, one cluster for each network.
pub fn dot(topology: &Topology) -> String {
    let mut text = "graph tabane {\n  node [fontname=\"sans-serif\"];\n".to_owned();
    for network in &topology.networks {
        let link = network.link;
        let _ = writeln!(
            text,
            "  subgraph cluster_{link} {{\n    label=\"link {link}\";"
        );
        for switch in &network.switches {
            let id = &switch.id;
            let _ = writeln!(
                text,
                "    \"{link}/{id}\" [shape=box, label=\"{id}\\n{:.0}%\"];",
                switch.confidence * 100.0
            );
            for node in &switch.nodes {
                let _ = writeln!(
                    text,
                    "    \"{link}/{node}\" [label=\"{node}\"];\n    \"{link}/{id}\" -- \"{link}/{node}\";"
                );
            }
        }
        for trunk in &network.trunks {
            let (a, b) = &trunk.between;
            let hops = (trunk.hops > 1).then(|| format!("{} hops", trunk.hops));
            let mbps = trunk.mbps.map(|mbps| format!("{mbps} Mb/s"));
            let words: Vec<String> = hops.into_iter().chain(mbps).collect();
            let label = match words.is_empty() {
                true => String::new(),
                false => format!(" label=\"{}\"", words.join(", ")),
            };
            let _ = writeln!(
                text,
                "    \"{link}/{a}\" -- \"{link}/{b}\" [penwidth=3{label}];"
            );
        }
        for node in unknown(network) {
            let _ = writeln!(
                text,
                "    \"{link}/{node}\" [label=\"{node}\", style=dashed];"
            );
        }
        text.push_str("  }\n");
    }
    text.push_str("}\n");
    text
}

/// A `topology.conf` of Slurm (topology/tree), of the first network. In Slurm a switch has either nodes or switches below it, so
/// one that has both is written as two, the upper one with `-up` behind its name. Slurm wants one tree, so separate parts and
/// nodes without a known switch are put below a switch `unknown`.
///
/// # Errors
/// No network is known.
pub fn slurm(topology: &Topology) -> Result<String, String> {
    let is_known = |network: &&Network| !network.switches.is_empty();
    let network = topology.networks.iter().find(is_known);
    let network = network.ok_or("no switch was found on any network")?;
    let mut text = format!(
        "# topology.conf: link {} as tabane measured it; TopologyPlugin=topology/tree\n",
        network.link
    );
    let mut tops: Vec<String> = trees(network)
        .iter()
        .map(|tree| slurm_switch(network, tree, &mut text))
        .collect();
    let lost = unknown(network);
    if !lost.is_empty() {
        let _ = writeln!(text, "# Where these are is not known.");
        let _ = writeln!(text, "SwitchName=unknown-nodes Nodes={}", lost.join(","));
        tops.push("unknown-nodes".to_owned());
    }
    if tops.len() > 1 {
        let _ = writeln!(text, "SwitchName=unknown Switches={}", tops.join(","));
    }
    Ok(text)
}

/// Lists a switch after those below it; returns the name for the switch above.
fn slurm_switch(network: &Network, branch: &Branch, text: &mut String) -> String {
    let switch = &network.switches[branch.switch];
    let mut below: Vec<String> = branch
        .below
        .iter()
        .map(|(lower, _)| slurm_switch(network, lower, text))
        .collect();
    if !switch.nodes.is_empty() {
        let _ = writeln!(
            text,
            "SwitchName={} Nodes={}",
            switch.id,
            switch.nodes.join(",")
        );
        if below.is_empty() {
            return switch.id.clone();
        }
        below.insert(0, switch.id.clone());
    }
    let name = match switch.nodes.is_empty() {
        true => switch.id.clone(),
        false => format!("{}-up", switch.id),
    };
    let _ = writeln!(text, "SwitchName={name} Switches={}", below.join(","));
    name
}

/// Nodes that are on no switch of the list.
pub fn unknown(network: &Network) -> Vec<String> {
    let is_placed = |name: &&String| network.switches.iter().any(|s| s.nodes.contains(name));
    let mut names: Vec<String> = Vec::new();
    for name in network.doubts.iter().flat_map(|a| &a.nodes) {
        if !is_placed(&name) && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}
