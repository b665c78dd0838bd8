//! The cluster file: read, checked as a whole, and turned into a [`Cluster`].
//!
//! Every error names the file, the line, what is wrong and what would be
//! right; all that are found are reported at once. `docs/configuration.md`
//! describes the file for operators.
#![forbid(unsafe_code)]

mod checks;
mod document;
mod flow;
mod gateway;
mod here;
mod identity;
mod key;
mod mac;
mod mesh;
mod metrics;
mod network;
mod node;
mod outside;
mod problem;
mod range;
mod run;
mod shown;
#[cfg(test)]
mod tests;
mod vnic;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use flow::{Carry, FLOWS_MAX, FlowHeader, FlowSpec, Protocol};
pub use gateway::{CONNECTIONS_PER_NODE, GATEWAYS_MAX, GatewaySpec, LineQueue, PORTS_PER_NODE};
pub use here::{InterfaceAddress, check_here, identify};
pub use identity::{NODE_KEY_FILE, NodeKey, PublicKey};
use key::Access;
pub use key::{BadKey, ClusterKey, KEY_BYTES, KEY_FILE_BYTES_MAX};
pub use mac::{Mac, mac_of, mac_text};
pub use mesh::{JoinSpec, MeshSpec};
pub use network::Network;
pub use node::is_node_name;
pub use problem::{ConfigError, Problem, Severity};
pub use run::{ALL_LINKS_DOWN, RunSpec, RunUsers};
pub use shown::without_keys;
pub use vnic::{VNIC_MTU_BYTES, VNIC_NAME, VnicSpec};

use problem::Findings;

/// Where `tabane up` looks for the cluster file.
pub const DEFAULT_PATH: &str = "/etc/tabane/cluster.toml";

/// UDP port of every link if the file has no `port`.
pub const DEFAULT_PORT: u16 = 7577;

/// Most links a node may have; link numbers are 0..=7.
pub const LINKS_MAX: usize = 8;

/// Most nodes a cluster file may have.
pub const NODES_MAX: usize = 16_384;

/// Longest node name in bytes (that of a DNS label, RFC 1035 section 2.3.4).
pub const NAME_BYTES_MAX: usize = 63;

/// Longest cluster file in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A node's place in [`Cluster::nodes`], counted from 0 in the order of the file.
pub type NodeIndex = usize;

/// A checked cluster file.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Where it was read from, for messages.
    pub file: PathBuf,
    /// The secret that admits to the cluster.
    pub key: ClusterKey,
    /// One more that is accepted, while the key is being changed.
    pub second_key: Option<ClusterKey>,
    /// The file of each node's own private key, if it has one.
    pub node_key_file: PathBuf,
    /// This node's key, once [`read_node_key`](Cluster::read_node_key) has read it.
    pub node_key: Option<NodeKey>,
    /// Are packets encrypted?
    pub wire: Wire,
    /// UDP port of every link of every node.
    pub port: u16,
    /// Where every node serves its metrics, if they are wanted.
    pub metrics: Option<SocketAddr>,
    /// Is the kernel's Multipath TCP steered?
    pub mptcp: bool,
    /// Settings for connections of programs under `tabane run`.
    pub run: RunSpec,
    /// Who may use the daemon for programs under `tabane run`.
    pub run_users: RunUsers,
    /// Common settings of all virtual NICs.
    pub vnic: VnicSpec,
    /// How nodes reach each other through others.
    pub mesh: MeshSpec,
    /// How nodes join that are not in the file; without, the file has them all.
    pub join: Option<JoinSpec>,
    /// How the cluster is reached from outside, if it is.
    pub gateway: Option<GatewaySpec>,
    /// How some traffic is carried: of those that speak of a packet, the first holds.
    pub flows: Vec<FlowSpec>,
    /// All nodes, in the order of the file: at least two, or one if others may join.
    pub nodes: Vec<NodeSpec>,
}

/// How packets travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wire {
    /// Encrypted and authenticated.
    #[default]
    Encrypted,
    /// In the clear with a checksum; for trusted wires only.
    Plain,
}

/// One `[[node]]` of the cluster file.
#[derive(Debug, Clone, Default)]
pub struct NodeSpec {
    /// Unique in the cluster; 1..=63 of letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Its address on each network, at most [`LINKS_MAX`]; `None` where it has none.
    pub links: Vec<Option<IpAddr>>,
    /// Address and prefix length of its virtual NIC, if it is to have one.
    pub vnic: Option<(IpAddr, u8)>,
    /// Where it serves its metrics, if elsewhere than the others.
    pub metrics: Option<SocketAddr>,
    /// Its public key: with it, nobody else can pass for this node.
    pub public: Option<PublicKey>,
    /// The lines of these in the file.
    pub lines: NodeLines,
}

/// The lines of the file a node's entries stand in, counted from 1.
#[derive(Debug, Clone, Default)]
pub struct NodeLines {
    /// The line of `[[node]]`.
    pub node: u32,
    /// Those of the entries of `links`.
    pub links: Vec<u32>,
    /// The line of `vnic`, 0 if there is none.
    pub vnic: u32,
    /// The line of `public`, 0 if there is none.
    pub public: u32,
}

impl NodeSpec {
    /// The links it has: network number and address.
    pub fn addresses(&self) -> impl Iterator<Item = (usize, IpAddr)> + '_ {
        let numbered = self.links.iter().enumerate();
        numbered.filter_map(|(number, address)| Some((number, (*address)?)))
    }

    /// Is one of its links at this address?
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.links.contains(&Some(address))
    }

    /// The line of link `number`.
    fn link_line(&self, number: usize) -> u32 {
        self.lines
            .links
            .get(number)
            .copied()
            .unwrap_or(self.lines.node)
    }
}

impl Cluster {
    /// The node that has a link at this address.
    pub fn node_at(&self, address: IpAddr) -> Option<&NodeSpec> {
        self.nodes.iter().find(|node| node.has_address(address))
    }

    /// The keys as the node wants them: the first is used to connect, all are accepted.
    pub fn keys(&self) -> Vec<[u8; KEY_BYTES]> {
        let keys = std::iter::once(&self.key).chain(&self.second_key);
        keys.map(|key| *key.bytes()).collect()
    }

    /// Reads and checks the file at `path`, and the `key_file` if it names one.
    /// Returns the warnings beside the cluster.
    ///
    /// # Errors
    /// Everything that is wrong with the file, warnings included.
    pub fn load(path: &Path) -> Result<(Self, Vec<Problem>), ConfigError> {
        let mut findings = Findings::new(path, "");
        let text = match key::read_file(path, FILE_BYTES_MAX) {
            Ok((bytes, access)) => String::from_utf8(bytes).map(|text| (text, access)),
            Err(error) => {
                let right = match error.kind() {
                    io::ErrorKind::NotFound => {
                        "check the path; `tabane init PATH` makes a new file"
                    }
                    _ => document::right_for_unreadable(&error),
                };
                findings.error(None, format!("cannot be read: {}", plain(&error)), right);
                return findings.conclude(None);
            }
        };
        match text {
            Ok((text, access)) => Self::parse_as(path, &text, access),
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let newlines = valid.iter().filter(|&&b| b == b'\n').count();
                let line = u32::try_from(newlines + 1).unwrap_or(u32::MAX);
                findings.error(line, "is not text in UTF-8", "save the file as UTF-8");
                findings.conclude(None)
            }
        }
    }

    /// Where node `me` serves its metrics, if at all.
    pub fn metrics_of(&self, me: NodeIndex) -> Option<SocketAddr> {
        self.nodes[me].metrics.or(self.metrics)
    }

    /// Checks `text`, the content of the file at `path`, which is root's and has the
    /// permission bits `mode`.
    ///
    /// # Errors
    /// All errors, and the warnings.
    pub fn parse(path: &Path, text: &str, mode: u32) -> Result<(Self, Vec<Problem>), ConfigError> {
        let owner = key::ROOT;
        Self::parse_as(path, text, Access { mode, owner })
    }

    fn parse_as(
        path: &Path,
        text: &str,
        access: Access,
    ) -> Result<(Self, Vec<Problem>), ConfigError> {
        let mut findings = Findings::new(path, text);
        let Some(document) = document::read(path, text, access, &mut findings) else {
            return findings.conclude(None);
        };
        checks::check(&document.nodes, document.join.is_some(), &mut findings);
        let cluster = document.key.map(|key| Self {
            file: path.to_owned(),
            key,
            second_key: document.second_key,
            node_key_file: document.node_key_file,
            node_key: None,
            wire: document.wire,
            port: document.port,
            metrics: document.metrics,
            mptcp: document.mptcp,
            run: document.run,
            run_users: document.run_users,
            vnic: document.vnic,
            mesh: document.mesh,
            join: document.join,
            gateway: document.gateway,
            flows: document.flows,
            nodes: document.nodes,
        });
        findings.conclude(cluster)
    }
}

/// How many names a node's `name` stands for: 1, or as many as its ranges say. `None`: they are not right.
pub fn names_in(name: &str) -> Option<usize> {
    range::expand(name).ok().map(|names| names.len())
}

/// Can this address be of use to a cluster: not loopback, not link-local?
pub fn is_for_others(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !is_link_local && !address.is_loopback()
}

/// A system error in words, without Rust's `(os error 2)`.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_lowercase()
}
