//! One `[[node]]`, for one node or many: its entries, each checked by itself.

use std::net::IpAddr;

use toml::de::{DeTable, DeValue};

use super::document::{entry, printable, unknown_keys};
use super::network::{Network, width};
use super::problem::Findings;
use super::range::{self, BadRange};
use super::{LINKS_MAX, NAME_BYTES_MAX, NodeLines, NodeSpec, identity, metrics};

const KEYS: &[&str] = &["name", "links", "vnic", "metrics", "public"];

/// What is right, for whoever gives a node a name that is [none](is_node_name).
pub const RIGHT_NAME: &str = "a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a \
                          letter or digit";

const RIGHT_LINKS: &str = "write links = [\"ADDRESS\", …], one address for each network in the \
                           same order on every node, \"\" where the node has none";

const RIGHT_VNIC: &str = "write an address and the length of its network, such as \
                          \"10.99.0.1/24\"";

/// Reads the `[[node]]` that begins in `line`: one node, or as many as its name stands for. Errors are reported, and
/// their entries left out.
pub(super) fn read(table: &DeTable<'_>, line: u32, findings: &mut Findings) -> Vec<NodeSpec> {
    unknown_keys(table, KEYS, " of a node", findings);
    let names = read_names(table, line, findings);
    let lines = NodeLines {
        node: line,
        ..NodeLines::default()
    };
    let mut nodes: Vec<NodeSpec> = (names.into_iter())
        .map(|name| NodeSpec {
            name,
            lines: lines.clone(),
            ..NodeSpec::default()
        })
        .collect();
    read_links(table, &mut nodes, findings);
    read_vnic(table, &mut nodes, findings);
    let metrics = metrics::read(table, findings);
    nodes.iter_mut().for_each(|node| node.metrics = metrics);
    if let Some((public, line)) = identity::read_public(table, findings) {
        match &mut nodes[..] {
            [node] => (node.public, node.lines.public) = (Some(public), line),
            _ => findings.error(
                line,
                format!("{} nodes cannot have one `public`", nodes.len()),
                "give each node that has a key of its own a `[[node]]` of its own",
            ),
        }
    }
    nodes
}

/// A node's text, or its expansion: one for each of `count` nodes. Errors are reported.
fn texts(
    text: &str,
    what: &str,
    count: usize,
    line: u32,
    findings: &mut Findings,
) -> Option<Vec<String>> {
    let wrong = |bad: BadRange, findings: &mut Findings| {
        findings.error(line, format!("{what}: {}", bad.what), bad.right);
    };
    let texts = range::expand(text)
        .map_err(|bad| wrong(bad, findings))
        .ok()?;
    if texts.len() != count {
        let nodes = match count {
            1 => "one node".to_owned(),
            _ => format!("{count} nodes"),
        };
        let right = "write a range with one for each node, in the order of their names";
        findings.error(
            line,
            format!(
                "{what}, \"{}\", stands for {}, but `name` for {nodes}",
                printable(text),
                texts.len()
            ),
            right,
        );
        return None;
    }
    Some(texts)
}

/// The names of the node, or the nodes; one without a name if that is wrong.
fn read_names(table: &DeTable<'_>, node_line: u32, findings: &mut Findings) -> Vec<String> {
    let nameless = vec![String::new()];
    let Some((value, line)) = entry(table, "name", findings) else {
        findings.error(node_line, "this node has no `name`", "add name = \"…\"");
        return nameless;
    };
    let Some(text) = value.as_str() else {
        findings.error(line, "`name` is not a text in quotes", RIGHT_NAME);
        return nameless;
    };
    let names = match range::expand(text) {
        Ok(names) => names,
        Err(bad) => {
            findings.error(line, format!("`name`: {}", bad.what), bad.right);
            return nameless;
        }
    };
    // The first that is wrong says it for all.
    match names.iter().all(|name| check_name(name, line, findings)) {
        true => names,
        false => names.iter().map(|_| String::new()).collect(),
    }
}

fn check_name(name: &str, line: u32, findings: &mut Findings) -> bool {
    if !is_well_formed(name) {
        let what = format!("\"{}\" cannot be a node's name", printable(name));
        findings.error(line, what, RIGHT_NAME);
        return false;
    }
    if means_something_else(name) {
        let what = format!("\"{name}\" cannot be a node's name: programs take it for an address");
        findings.error(line, what, "give the node a name such as \"n1\"");
        return false;
    }
    true
}

/// Can a node have this name?
pub fn is_node_name(name: &str) -> bool {
    is_well_formed(name) && !means_something_else(name)
}

fn is_well_formed(name: &str) -> bool {
    let first_is_good = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_are_good = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    first_is_good && all_are_good && name.len() <= NAME_BYTES_MAX
}

/// Whether programs would not ask who it is: the own host (RFC 6761, section 6.3), or an address.
fn means_something_else(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_own_host = lower == "localhost" || lower.ends_with(".localhost");
    is_own_host || name.parse::<IpAddr>().is_ok()
}

fn read_links(table: &DeTable<'_>, nodes: &mut [NodeSpec], findings: &mut Findings) {
    let Some((value, line)) = entry(table, "links", findings) else {
        let node_line = nodes[0].lines.node;
        findings.error(node_line, "this node has no `links`", RIGHT_LINKS);
        return;
    };
    let Some(array) = value.as_array() else {
        findings.error(line, "`links` is not a list", RIGHT_LINKS);
        return;
    };
    if array.len() > LINKS_MAX {
        findings.error(
            line,
            format!("this node has {} links", array.len()),
            format!("at most {LINKS_MAX} are possible"),
        );
    }
    let mut all_empty = true;
    for (number, item) in array.iter().take(LINKS_MAX).enumerate() {
        let item_line = findings.line_of(&item.span());
        all_empty &= item.get_ref().as_str() == Some("");
        let addresses = read_link(number, item.get_ref(), nodes.len(), item_line, findings);
        let mut addresses = addresses.into_iter();
        for node in &mut *nodes {
            node.links.push(addresses.next());
            node.lines.links.push(item_line);
        }
    }
    if all_empty {
        findings.error(line, "this node is on no network", RIGHT_LINKS);
    }
}

/// The addresses of link `number` of this many nodes; none if they have none, or after the first error.
fn read_link(
    number: usize,
    value: &DeValue<'_>,
    count: usize,
    line: u32,
    findings: &mut Findings,
) -> Vec<IpAddr> {
    let Some(text) = value.as_str() else {
        let what = format!("link {number} is not a text in quotes");
        findings.error(line, what, RIGHT_LINKS);
        return Vec::new();
    };
    if text.is_empty() {
        return Vec::new();
    }
    let texts = texts(text, &format!("link {number}"), count, line, findings);
    let addresses = texts.unwrap_or_default();
    let addresses = addresses
        .iter()
        .map_while(|text| check_link(number, text, line, findings));
    addresses.collect()
}

fn check_link(number: usize, text: &str, line: u32, findings: &mut Findings) -> Option<IpAddr> {
    let wrong = |what: &str| format!("link {number}, \"{}\", {what}", printable(text));
    match text.parse::<IpAddr>() {
        Ok(address) => {
            if let Some((what, right)) = unusable(address) {
                findings.error(line, wrong(what), right);
                return None;
            }
            Some(address)
        }
        Err(_) => {
            let alone = text.split('/').next().unwrap_or_default();
            let right = if text.contains('/') && alone.parse::<IpAddr>().is_ok() {
                format!("write \"{alone}\", without the length of the network")
            } else {
                "write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, \
                 without port or interface"
                    .to_owned()
            };
            findings.error(line, wrong("is not an IP address"), right);
            None
        }
    }
}

/// Why no NIC of a node can have this address, and what would be right.
pub(super) fn unusable(address: IpAddr) -> Option<(&'static str, &'static str)> {
    const RIGHT: &str = "write the address of the node's own NIC on that network";
    if address.is_unspecified() {
        return Some(("stands for any address", RIGHT));
    }
    if address.is_multicast() {
        return Some(("is a multicast address", RIGHT));
    }
    match address {
        IpAddr::V4(a) if a.is_broadcast() => Some(("is the broadcast address", RIGHT)),
        IpAddr::V6(a) if a.to_ipv4_mapped().is_some() => {
            Some(("is an IPv4 address in IPv6 clothes", "write it as IPv4"))
        }
        IpAddr::V6(a) if a.is_unicast_link_local() => Some((
            "is a link-local address, which says nothing without its interface",
            "give the NIC an address such as fd00:0:0:1::1 and write that",
        )),
        _ => None,
    }
}

fn read_vnic(table: &DeTable<'_>, nodes: &mut [NodeSpec], findings: &mut Findings) {
    let Some((value, line)) = entry(table, "vnic", findings) else {
        return;
    };
    nodes.iter_mut().for_each(|node| node.lines.vnic = line);
    let Some(text) = value.as_str() else {
        findings.error(line, "`vnic` is not a text in quotes", RIGHT_VNIC);
        return;
    };
    let texts = texts(text, "`vnic`", nodes.len(), line, findings);
    let texts = texts.unwrap_or_default();
    let vnics = texts
        .iter()
        .map_while(|text| check_vnic(text, line, findings));
    for (node, vnic) in nodes.iter_mut().zip(vnics) {
        node.vnic = Some(vnic);
    }
}

fn check_vnic(text: &str, line: u32, findings: &mut Findings) -> Option<(IpAddr, u8)> {
    let wrong = |what: &str| format!("vnic \"{}\" {what}", printable(text));
    let parsed = text.split_once('/').and_then(|(address, prefix)| {
        let address: IpAddr = address.parse().ok()?;
        let digits_only = prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|_| digits_only)?;
        (prefix <= width(address)).then_some((address, prefix))
    });
    let Some((address, prefix)) = parsed else {
        let what = wrong("is not an address with the length of its network");
        findings.error(line, what, RIGHT_VNIC);
        return None;
    };
    if let Some((what, _)) = unusable(address) {
        findings.error(line, wrong(what), RIGHT_VNIC);
        return None;
    }
    if address.is_loopback() {
        findings.error(line, wrong("is a loopback address"), RIGHT_VNIC);
        return None;
    }
    if prefix == 0 || prefix == width(address) {
        let right = "the network of the virtual NICs holds all of them, and nothing else";
        findings.error(line, wrong("is no network for several nodes"), right);
        return None;
    }
    let network = Network::new(address, prefix);
    if !network.is_host(address) {
        let what = wrong("is the network's own or its broadcast address");
        findings.error(line, what, format!("take another address of {network}"));
        return None;
    }
    Some((address, prefix))
}
