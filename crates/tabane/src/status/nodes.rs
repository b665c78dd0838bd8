//! The nodes' names and addresses, for users of `tabane run` who may not read the cluster file,
//! because the key is in it. There is no secret in it.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tabane_cluster::{Cluster, GatewaySpec, NodeIndex, NodeSpec};

/// The nodes of a daemon's cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesReport {
    /// The cluster file that the daemon has read.
    pub file: PathBuf,
    /// The name of the daemon's own node.
    pub node: String,
    /// All of them, in the order of the file.
    pub list: Vec<NodeAddresses>,
    /// The cluster's outside addresses, if it has a gateway.
    #[serde(default)]
    pub outside: Vec<IpAddr>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddresses {
    /// Its name in the cluster file.
    pub name: String,
    /// The address of its virtual NIC and the length of the network's prefix, if it has one.
    pub vnic: Option<(IpAddr, u8)>,
    /// The addresses of its links by their numbers, null where it has none.
    pub links: Vec<Option<IpAddr>>,
}

fn outside_addresses(gateway: &GatewaySpec) -> impl Iterator<Item = IpAddr> {
    gateway.addresses.iter().map(|(address, _)| *address)
}

impl NodesReport {
    /// For the cluster whose node `me` this is.
    pub fn of(cluster: &Cluster, me: NodeIndex) -> NodesReport {
        let addresses = |node: &NodeSpec| NodeAddresses {
            name: node.name.clone(),
            vnic: node.vnic,
            links: node.links.clone(),
        };
        NodesReport {
            file: std::path::absolute(&cluster.file).unwrap_or_else(|_| cluster.file.clone()),
            node: cluster.nodes[me].name.clone(),
            list: cluster.nodes.iter().map(addresses).collect(),
            outside: cluster.gateway.iter().flat_map(outside_addresses).collect(),
        }
    }
}
