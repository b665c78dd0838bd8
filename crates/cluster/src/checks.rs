//! Whether the nodes of a cluster file fit together.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::problem::Findings;
use super::{LINKS_MAX, Network, NodeSpec, PublicKey};
use crate::mac_of;

/// Reports everything that is wrong between nodes.
pub(super) fn check(nodes: &[NodeSpec], may_join: bool, findings: &mut Findings) {
    if let ([only], false) = (nodes, may_join) {
        findings.error(
            only.lines.node,
            "this is the only node",
            "a cluster has at least two; add a `[[node]]` for each machine, or `join` in `[mesh]` if nodes are to join",
        );
    }
    check_names(nodes, findings);
    check_addresses(nodes, findings);
    check_families(nodes, findings);
    check_columns(nodes, findings);
    check_common_networks(nodes, findings);
    check_vnics(nodes, findings);
    check_public_keys(nodes, findings);
}

/// Detects a copied disk: it has the other machine's key.
fn check_public_keys(nodes: &[NodeSpec], findings: &mut Findings) {
    let mut seen: HashMap<PublicKey, &NodeSpec> = HashMap::new();
    for node in nodes {
        let Some(public) = node.public else {
            continue;
        };
        if let Some(first) = seen.insert(public, node) {
            findings.error(
                node.lines.public,
                format!(
                    "`public` of {} is that of {} (line {}), too",
                    named(node),
                    named(first),
                    first.lines.public
                ),
                "every node has a key of its own: on one of them, move its node.key away, run \
                 `tabane key`, and write the line that it prints",
            );
        }
    }
}

fn check_names(nodes: &[NodeSpec], findings: &mut Findings) {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for node in nodes.iter().filter(|n| !n.name.is_empty()) {
        if let Some(first) = seen.get(node.name.as_str()) {
            findings.error(
                node.lines.node,
                format!("node \"{}\" is already there (line {first})", node.name),
                "give every node a name of its own",
            );
        } else {
            seen.insert(&node.name, node.lines.node);
        }
    }
}

fn check_addresses(nodes: &[NodeSpec], findings: &mut Findings) {
    let mut seen: HashMap<IpAddr, (usize, usize)> = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for (number, address) in node.addresses() {
            let Some(&(other, other_number)) = seen.get(&address) else {
                seen.insert(address, (index, number));
                continue;
            };
            let what = if other == index {
                format!("link {number} has the same address as link {other_number}, {address}")
            } else {
                format!(
                    "{address} is already link {other_number} of {} (line {})",
                    named(&nodes[other]),
                    nodes[other].link_line(other_number),
                )
            };
            findings.error(
                node.link_line(number),
                what,
                "every link of every node has an address of its own",
            );
        }
    }
}

/// All addresses of one network are of one family, or some could not talk.
fn check_families(nodes: &[NodeSpec], findings: &mut Findings) {
    for number in 0..LINKS_MAX {
        let mut column = column(nodes, number);
        let Some((first_node, first)) = column.next() else {
            continue;
        };
        if let Some((node, address)) = column.find(|(_, a)| a.is_ipv4() != first.is_ipv4()) {
            findings.error(
                node.link_line(number),
                format!(
                    "link {number} is {address}, but that of {} is {first}",
                    named(first_node)
                ),
                "use either IPv4 or IPv6 for all nodes of one network",
            );
        }
    }
}

/// Addresses of network `number`, and their nodes.
fn column(nodes: &[NodeSpec], number: usize) -> impl Iterator<Item = (&NodeSpec, IpAddr)> {
    let at_number = move |node: &NodeSpec| node.links.get(number).copied().flatten();
    nodes.iter().filter_map(move |n| Some((n, at_number(n)?)))
}

/// Addresses of two networks that are mixed within one network as small as
/// this cannot be two separate networks of switches.
const SURELY_ONE_PREFIX_IPV4: u8 = 24;
const SURELY_ONE_PREFIX_IPV6: u8 = 64;

/// Networks must not overlap. The file does not have the lengths of the networks; but
/// each contains at least all addresses used in it. If that shows an overlap it is an
/// error, otherwise (nodes of one network may be behind routers) a warning;
/// [`super::check_here`] is certain, on the machine itself.
fn check_columns(nodes: &[NodeSpec], findings: &mut Findings) {
    let addresses = |number| column(nodes, number).map(|(_, address)| address);
    for a in 0..LINKS_MAX {
        for b in a + 1..LINKS_MAX {
            let (Some(cover_a), Some(cover_b)) = (
                Network::covering(addresses(a)),
                Network::covering(addresses(b)),
            ) else {
                continue;
            };
            // check_addresses has already reported an address that is in both.
            let shared = || {
                let of_a: HashSet<IpAddr> = addresses(a).collect();
                addresses(b).any(|address| of_a.contains(&address))
            };
            if !cover_a.overlaps(cover_b) || shared() {
                continue;
            }
            let (wide, number) = if cover_a.prefix() <= cover_b.prefix() {
                (cover_a, a)
            } else {
                (cover_b, b)
            };
            let Some((node, address)) = outlier(nodes, number, wide) else {
                continue;
            };
            let what = format!(
                "networks {a} ({cover_a}) and {b} ({cover_b}) overlap, because of link {number} \
                 of {}, {address}",
                named(node)
            );
            let surely_one = wide.prefix()
                >= match address {
                    IpAddr::V4(_) => SURELY_ONE_PREFIX_IPV4,
                    IpAddr::V6(_) => SURELY_ONE_PREFIX_IPV6,
                };
            let line = node.link_line(number);
            if surely_one {
                let right = "the i-th entry of every `links` is on network i, and networks do \
                             not overlap; are two entries swapped?";
                findings.error(line, what, right);
            } else {
                let right = "are two entries swapped? It is right only if routers are between \
                             these nodes";
                findings.warning(line, what, right);
            }
        }
    }
}

/// The address that probably should not be in network `number`: `cover` is the
/// smallest network around all, so its two halves both have some; the last of
/// the half with fewer.
fn outlier(nodes: &[NodeSpec], number: usize, cover: Network) -> Option<(&NodeSpec, IpAddr)> {
    let (_, first) = column(nodes, number).next()?;
    let half = Network::new(first, cover.prefix() + 1);
    let (with_first, others): (Vec<_>, Vec<_>) =
        column(nodes, number).partition(|&(_, address)| half.contains(address));
    let fewer = if others.is_empty() || with_first.len() < others.len() {
        with_first
    } else {
        others
    };
    fewer.last().copied()
}

/// Nodes without a common network cannot have a bundle; a relay may still help.
fn check_common_networks(nodes: &[NodeSpec], findings: &mut Findings) {
    // At most 255 sets of networks, so that thousands of nodes are no problem.
    let mut groups: Vec<(u8, &NodeSpec, usize)> = Vec::new();
    for node in nodes {
        let mask = node.addresses().fold(0, |m, (number, _)| m | 1 << number);
        match groups.iter_mut().find(|(m, ..)| *m == mask) {
            _ if mask == 0 => {}
            Some((_, _, count)) => *count += 1,
            None => groups.push((mask, node, 1)),
        }
    }
    for (i, (mask_a, a, count_a)) in groups.iter().enumerate() {
        for (mask_b, b, count_b) in &groups[i + 1..] {
            if mask_a & mask_b != 0 {
                continue;
            }
            let pairs = match count_a * count_b {
                1 => String::new(),
                pairs => format!(" (and {} more pairs of nodes)", pairs - 1),
            };
            findings.warning(
                b.lines.node,
                format!(
                    "{} and {} have no network in common{pairs}",
                    named(a),
                    named(b)
                ),
                "they cannot reach each other directly; give both a link on one network",
            );
        }
    }
}

fn check_vnics(nodes: &[NodeSpec], findings: &mut Findings) {
    let mut first: Option<(&NodeSpec, Network)> = None;
    let mut owners: HashMap<[u8; 6], &NodeSpec> = HashMap::new();
    for node in nodes {
        let Some((address, prefix)) = node.vnic else {
            continue;
        };
        let line = node.lines.vnic;
        let network = Network::new(address, prefix);
        let &mut (first_node, expected) = first.get_or_insert((node, network));
        if network != expected {
            findings.error(
                line,
                format!(
                    "vnic {address}/{prefix} is in {network}, but that of {} is in {expected}",
                    named(first_node)
                ),
                "the virtual NICs of all nodes are in one network",
            );
        }
        let Some(other) = owners.insert(mac_of(address), node) else {
            continue;
        };
        let (what, right) = if other.vnic.is_some_and(|(a, _)| a == address) {
            let what = format!(
                "vnic {address} is already that of {} (line {})",
                named(other),
                other.lines.vnic
            );
            (what, "every node has a vnic address of its own")
        } else {
            let what = format!(
                "vnic {address} gets the same MAC address as that of {} (line {})",
                named(other),
                other.lines.vnic
            );
            (what, "take another address for one of them")
        };
        findings.error(line, what, right);
    }
    if let Some((owner, network)) = first {
        check_vnic_beside_links(owner, network, nodes, findings);
    }
}

/// Packets to a link's address must not be routed into the virtual NIC.
fn check_vnic_beside_links(
    owner: &NodeSpec,
    network: Network,
    nodes: &[NodeSpec],
    findings: &mut Findings,
) {
    for number in 0..LINKS_MAX {
        let inside = column(nodes, number).find(|&(_, address)| network.contains(address));
        if let Some((node, address)) = inside {
            findings.error(
                owner.lines.vnic,
                format!(
                    "the network of the virtual NICs, {network}, contains link {number} of {} \
                     ({address}, line {})",
                    named(node),
                    node.link_line(number)
                ),
                "take a network that nothing else uses, such as 10.99.0.0/24",
            );
        }
    }
}

/// The node in words, also if its name was wrong.
pub(super) fn named(node: &NodeSpec) -> String {
    if node.name.is_empty() {
        format!("the node of line {}", node.lines.node)
    } else {
        format!("node \"{}\"", node.name)
    }
}
