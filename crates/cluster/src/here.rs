//! Which node of the file this machine is, and whether the file fits the machine.

use std::net::IpAddr;

use super::checks::named;
use super::document::nearest;
use super::problem::Findings;
use super::{Cluster, ConfigError, Network, NodeIndex, NodeSpec, Problem, Severity, is_for_others};

/// An address of one of this machine's interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface, such as `eth0`.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Length of the prefix of the network it is in: 0..=32 or 0..=128.
    pub prefix: u8,
}

/// Finds the node this machine is: the one that has one of the addresses
/// `own`, or the one named with `--node`.
///
/// # Errors
/// No node has an address of this machine, several have, or there is no node
/// of that name, or it has no address here.
pub fn identify(
    cluster: &Cluster,
    own: &[InterfaceAddress],
    name_override: Option<&str>,
) -> Result<NodeIndex, ConfigError> {
    let is_here = |node: &NodeSpec| node.addresses().any(|(_, a)| find(own, a).is_some());
    if let Some(name) = name_override {
        let index = cluster.nodes.iter().position(|n| n.name == name);
        let index = index.ok_or_else(|| no_such_node(cluster, name))?;
        let node = &cluster.nodes[index];
        if is_here(node) {
            return Ok(index);
        }
        let what = format!(
            "none of the addresses of {} is on this machine (here: {})",
            named(node),
            list(own.iter().map(|o| o.address))
        );
        let right = "check --node, and that its interfaces have their addresses";
        return Err(error(
            cluster,
            Some(node.lines.node),
            what,
            right.to_owned(),
        ));
    }
    let mut here = (0..cluster.nodes.len()).filter(|&i| is_here(&cluster.nodes[i]));
    match (here.next(), here.next()) {
        (Some(index), None) => Ok(index),
        (Some(first), Some(second)) => {
            let (first, second) = (&cluster.nodes[first], &cluster.nodes[second]);
            let line = Some(second.lines.node);
            let what = format!(
                "both {} and {} have an address of this machine",
                named(first),
                named(second)
            );
            let right = format!("say which one to be, as with --node {}", first.name);
            Err(error(cluster, line, what, right))
        }
        (None, _) => {
            let theirs = cluster.nodes.iter().flat_map(NodeSpec::addresses);
            let what = format!(
                "none of the nodes has an address of this machine (here: {}; in the file: {})",
                list(own.iter().map(|o| o.address)),
                list(theirs.map(|(_, address)| address))
            );
            let right = "add this machine's addresses as `links` of a [[node]], or give its \
                         interfaces the addresses in the file";
            Err(error(cluster, None, what, right.to_owned()))
        }
    }
}

/// Addresses listed in a message before "and N more".
const LISTED_MAX: usize = 8;

/// Addresses in words; useless ones only if there are no others.
fn list(addresses: impl Iterator<Item = IpAddr>) -> String {
    let (mut shown, useless): (Vec<_>, Vec<_>) = addresses.partition(|&a| is_for_others(a));
    if shown.is_empty() {
        shown = useless;
    }
    if shown.is_empty() {
        return "none".to_owned();
    }
    let more = shown.len().saturating_sub(LISTED_MAX);
    let first: Vec<_> = shown
        .iter()
        .take(LISTED_MAX)
        .map(ToString::to_string)
        .collect();
    match more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn find(own: &[InterfaceAddress], address: IpAddr) -> Option<&InterfaceAddress> {
    own.iter().find(|o| o.address == address)
}

fn no_such_node(cluster: &Cluster, name: &str) -> ConfigError {
    let names: Vec<&str> = cluster.nodes.iter().map(|n| n.name.as_str()).collect();
    let right = match nearest(name, &names) {
        Some(near) => format!("did you mean --node {near}?"),
        None => list_names(&names),
    };
    let what = format!("there is no node \"{}\"", name.escape_debug());
    error(cluster, None, what, right)
}

/// What to write instead of an unknown node's name.
pub(super) fn list_names(names: &[&str]) -> String {
    match names.len() {
        ..=LISTED_MAX => format!("the nodes are {}", names.join(", ")),
        count => format!("it has {count} nodes, see their `name`"),
    }
}

fn error(cluster: &Cluster, line: Option<u32>, what: String, right: String) -> ConfigError {
    ConfigError::from(Problem {
        file: cluster.file.clone(),
        line,
        severity: Severity::Error,
        what,
        right,
    })
}

/// Checks the networks of the file against those of this machine, which is
/// node `me` and has the addresses `own`. Pure: the caller asks the kernel.
///
/// Errors: two links here in overlapping networks; an address of a peer in the
/// network of another link here; the virtual NICs' network overlapping a
/// link's. Warnings: a link whose address is not here (it stays down until it
/// is), two links on one interface, a peer outside of the link's network, names wanted in `/etc/hosts` where nothing leads to them.
pub fn check_here(cluster: &Cluster, me: NodeIndex, own: &[InterfaceAddress]) -> Vec<Problem> {
    let mut findings = Findings::new(&cluster.file, "");
    let Some(node) = cluster.nodes.get(me) else {
        return Vec::new();
    };
    let mut links = Vec::new();
    for (number, address) in node.addresses() {
        match find(own, address) {
            Some(found) => links.push(LinkHere {
                number,
                line: node.link_line(number),
                network: Network::new(found.address, found.prefix),
                interface: &found.interface,
            }),
            None => findings.warning(
                node.link_line(number),
                format!("link {number}, {address}, is on no interface of this machine now"),
                "it stays down until it is",
            ),
        }
    }
    check_own_links(&links, &mut findings);
    for (index, peer) in cluster.nodes.iter().enumerate() {
        if index != me {
            check_peer(peer, &links, &mut findings);
        }
    }
    check_own_vnic(node, &links, own, &mut findings);
    if cluster.vnic.hosts && node.vnic.is_none() {
        let what = format!(
            "{} has no `vnic`, so no names are written into /etc/hosts here",
            named(node)
        );
        let right = "add `vnic`, or leave `hosts` out of `[vnic]` on this machine";
        findings.warning(node.lines.node, what, right);
    }
    findings.into_problems()
}

/// One of this node's links with what the kernel says about it.
struct LinkHere<'a> {
    number: usize,
    line: u32,
    network: Network,
    interface: &'a str,
}

fn check_own_links(links: &[LinkHere<'_>], findings: &mut Findings) {
    for (i, a) in links.iter().enumerate() {
        for b in &links[i + 1..] {
            if a.network.overlaps(b.network) {
                findings.error(
                    b.line,
                    format!(
                        "link {} ({} on {}) and link {} ({} on {}) are in overlapping networks",
                        a.number, a.network, a.interface, b.number, b.network, b.interface
                    ),
                    "each link is on a network of its own; change the addresses or the lengths \
                     of the networks on these interfaces",
                );
            } else if a.interface == b.interface {
                findings.warning(
                    b.line,
                    format!(
                        "links {} and {} are both on {}",
                        a.number, b.number, a.interface
                    ),
                    "they are no faster than one and fail together; use a NIC for each link",
                );
            }
        }
    }
}

fn check_peer(peer: &NodeSpec, links: &[LinkHere<'_>], findings: &mut Findings) {
    for (number, address) in peer.addresses() {
        let Some(mine) = links.iter().find(|l| l.number == number) else {
            continue;
        };
        if mine.network.contains(address) {
            continue;
        }
        let line = peer.link_line(number);
        let what = format!("link {number} of {}, {address}, is ", named(peer));
        match links.iter().find(|l| l.network.contains(address)) {
            Some(other) => findings.error(
                line,
                format!(
                    "{what}in the network of link {} here ({} on {})",
                    other.number, other.network, other.interface
                ),
                format!(
                    "link {number} here is in {}; are two entries swapped?",
                    mine.network
                ),
            ),
            None => findings.warning(
                line,
                format!(
                    "{what}outside of the network of link {number} here ({} on {})",
                    mine.network, mine.interface
                ),
                "it is reached only if a router is in between",
            ),
        }
    }
}

fn check_own_vnic(
    node: &NodeSpec,
    links: &[LinkHere<'_>],
    own: &[InterfaceAddress],
    findings: &mut Findings,
) {
    let Some((address, prefix)) = node.vnic else {
        return;
    };
    let line = node.lines.vnic;
    let vnic = Network::new(address, prefix);
    const RIGHT: &str = "take a network that nothing else uses";
    for link in links.iter().filter(|l| l.network.overlaps(vnic)) {
        let what = format!(
            "the network of the virtual NICs, {vnic}, overlaps that of link {} here ({} on {})",
            link.number, link.network, link.interface
        );
        findings.error(line, what, RIGHT);
    }
    if let Some(taken) = find(own, address) {
        let what = format!(
            "vnic {address} is already an address of {}",
            taken.interface
        );
        let right = "end what set it (another `tabane up`?), or take another address";
        findings.error(line, what, right);
    }
}
