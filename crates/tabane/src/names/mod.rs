//! The nodes' names in `/etc/hosts` (`hosts = true` in `[vnic]`).
//!
//! The daemon gives up the right to write that file soon after its start, so another process writes it, the
//! [`scribe`](write()): the daemon tells it the names whenever they change, and it takes them away again when the daemon is
//! gone, even if that was killed. Should both be killed, the next daemon's scribe replaces what was left.

mod scribe;
mod text;

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tabane_io::rewrite::read;

use crate::status::{NodeAddresses, NodesReport};

pub use scribe::{Said, write};
pub use text::{Foreign, Lack, lack};

/// The file.
pub const HOSTS: &str = "/etc/hosts";
/// The longest such file that is written to.
pub const HOSTS_BYTES_MAX: u64 = 16 << 20;
/// What names end with that nothing else on the machine has.
pub const DOMAIN: &str = "tabane";

/// A node's address on the bundle and its names: as the cluster file has it, and with `.tabane` behind it. One that another node has
/// already, apart from the case of its letters, is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The address.
    pub address: IpAddr,
    /// The names.
    pub names: Vec<String>,
}

/// All names that a daemon has written, and what tells them apart from those of other daemons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// In the lines that begin and end them.
    pub mark: String,
    /// This node's own name.
    pub own: String,
    /// One for each node with an address on the bundle; without any nothing is to be there.
    pub entries: Vec<Entry>,
}

impl Names {
    /// The names of a cluster's nodes, as its own node writes them: none if they are not `wanted`, or this node has no
    /// virtual NIC, since nothing leads to the others then.
    pub fn of(nodes: &NodesReport, wanted: bool) -> Names {
        let mut all = nodes.list.iter();
        let has_nic = all.any(|node| node.name == nodes.node && node.vnic.is_some());
        let entries = match wanted && has_nic {
            true => entries(&nodes.list),
            false => Vec::new(),
        };
        // Two daemons on one machine differ in the node, or in the cluster's file.
        let file = nodes.file.to_string_lossy();
        Names {
            mark: format!("{} {}", nodes.node, file.escape_debug()),
            own: nodes.node.clone(),
            entries,
        }
    }
}

/// Whether a daemon that was killed has left names under this mark.
pub fn are_left(mark: &str) -> bool {
    read(Path::new(HOSTS), HOSTS_BYTES_MAX).is_ok_and(|text| text::has_mark(&text, mark))
}

fn entries(nodes: &[NodeAddresses]) -> Vec<Entry> {
    let with_nic = || {
        let nodes = nodes.iter();
        nodes.filter_map(|node| Some((node.name.as_str(), node.vnic?.0)))
    };
    let mut taken = HashSet::new();
    let mut is_free = |name: &str| taken.insert(name.to_lowercase());
    // A node's name comes before what is made of another one's.
    let mut entries: Vec<Entry> = with_nic()
        .map(|(name, address)| Entry {
            address,
            names: Vec::from_iter(is_free(name).then(|| name.to_owned())),
        })
        .collect();
    for (entry, (name, _)) in entries.iter_mut().zip(with_nic()) {
        let long = format!("{name}.{DOMAIN}");
        if is_free(&long) {
            entry.names.push(long);
        }
    }
    entries.retain(|entry| !entry.names.is_empty());
    entries
}

#[cfg(test)]
mod tests {
    use tabane_cluster::Cluster;

    use super::*;

    fn names(of: [&str; 3], me: usize, wanted: bool) -> Names {
        Names::of(&NodesReport::of(&cluster(of), me), wanted)
    }

    fn cluster(names: [&str; 3]) -> Cluster {
        let mut text = format!("key = \"{}01\"\n", "00".repeat(31));
        for (index, name) in names.iter().enumerate() {
            text += &format!(
                "[[node]]\nname = \"{name}\"\nlinks = [\"10.77.0.{}\"]\n",
                index + 1
            );
            if index < 2 {
                text += &format!("vnic = \"10.99.0.{}/24\"\n", index + 1);
            }
        }
        Cluster::parse(Path::new("/no/such/c.toml"), &text, 0o600)
            .unwrap()
            .0
    }

    fn words(names: &Names) -> Vec<String> {
        let line = |entry: &Entry| format!("{} {}", entry.address, entry.names.join(" "));
        names.entries.iter().map(line).collect()
    }

    #[test]
    fn nodes_with_an_address_on_the_bundle_have_two_names() {
        let of = ["n0", "Node-1", "n2"];
        let all = names(of, 0, true);
        assert_eq!(
            words(&all),
            ["10.99.0.1 n0 n0.tabane", "10.99.0.2 Node-1 Node-1.tabane"]
        );
        assert_eq!(all.mark, "n0 /no/such/c.toml");
        assert!(names(of, 2, true).entries.is_empty());
        assert!(names(of, 0, false).entries.is_empty());
    }

    #[test]
    fn a_name_is_one_nodes() {
        let alike = names(["n0", "N0", "n2"], 0, true);
        assert_eq!(words(&alike), ["10.99.0.1 n0 n0.tabane"]);
        let derived = names(["n0", "n0.tabane", "n2"], 0, true);
        assert_eq!(
            words(&derived),
            ["10.99.0.1 n0", "10.99.0.2 n0.tabane n0.tabane.tabane"]
        );
    }
}
