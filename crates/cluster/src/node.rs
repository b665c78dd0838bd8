//! One `[[node]]`: its entries, each checked by itself.

use std::net::IpAddr;

use toml::de::{DeTable, DeValue};

use super::document::{entry, printable, unknown_keys};
use super::network::{Network, width};
use super::problem::Findings;
use super::{LINKS_MAX, NAME_BYTES_MAX, NodeLines, NodeSpec, identity, metrics};

const KEYS: &[&str] = &["name", "links", "vnic", "metrics", "public"];

const RIGHT_LINKS: &str = "write links = [\"ADDRESS\", …], one address for each network in the \
                           same order on every node, \"\" where the node has none";

const RIGHT_VNIC: &str = "write an address and the length of its network, such as \
                          \"10.99.0.1/24\"";

/// Reads the `[[node]]` that begins in `line`. What is wrong is reported and left out.
pub(super) fn read(table: &DeTable<'_>, line: u32, findings: &mut Findings) -> NodeSpec {
    unknown_keys(table, KEYS, " of a node", findings);
    let mut node = NodeSpec {
        lines: NodeLines {
            node: line,
            ..NodeLines::default()
        },
        ..NodeSpec::default()
    };
    read_name(table, &mut node, findings);
    read_links(table, &mut node, findings);
    read_vnic(table, &mut node, findings);
    node.metrics = metrics::read(table, findings);
    if let Some((public, line)) = identity::read_public(table, findings) {
        (node.public, node.lines.public) = (Some(public), line);
    }
    node
}

fn read_name(table: &DeTable<'_>, node: &mut NodeSpec, findings: &mut Findings) {
    const RIGHT: &str = "a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a \
                         letter or digit";
    let Some((value, line)) = entry(table, "name", findings) else {
        findings.error(
            node.lines.node,
            "this node has no `name`",
            "add name = \"…\"",
        );
        return;
    };
    let Some(name) = value.as_str() else {
        findings.error(line, "`name` is not a text in quotes", RIGHT);
        return;
    };
    let first_is_good = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_are_good = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !first_is_good || !all_are_good || name.len() > NAME_BYTES_MAX {
        let what = format!("\"{}\" cannot be a node's name", printable(name));
        findings.error(line, what, RIGHT);
        return;
    }
    if means_something_else(name) {
        let what = format!("\"{name}\" cannot be a node's name: programs take it for an address");
        findings.error(line, what, "give the node a name such as \"n1\"");
        return;
    }
    name.clone_into(&mut node.name);
}

/// Whether programs would not ask who it is: the own host (RFC 6761, section 6.3), or an address.
fn means_something_else(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_own_host = lower == "localhost" || lower.ends_with(".localhost");
    is_own_host || name.parse::<IpAddr>().is_ok()
}

fn read_links(table: &DeTable<'_>, node: &mut NodeSpec, findings: &mut Findings) {
    let Some((value, line)) = entry(table, "links", findings) else {
        findings.error(node.lines.node, "this node has no `links`", RIGHT_LINKS);
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
        let address = read_link(number, item.get_ref(), item_line, findings);
        node.links.push(address);
        node.lines.links.push(item_line);
    }
    if all_empty {
        findings.error(line, "this node is on no network", RIGHT_LINKS);
    }
}

fn read_link(
    number: usize,
    value: &DeValue<'_>,
    line: u32,
    findings: &mut Findings,
) -> Option<IpAddr> {
    let Some(text) = value.as_str() else {
        let what = format!("link {number} is not a text in quotes");
        findings.error(line, what, RIGHT_LINKS);
        return None;
    };
    if text.is_empty() {
        return None;
    }
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
fn unusable(address: IpAddr) -> Option<(&'static str, &'static str)> {
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

fn read_vnic(table: &DeTable<'_>, node: &mut NodeSpec, findings: &mut Findings) {
    let Some((value, line)) = entry(table, "vnic", findings) else {
        return;
    };
    node.lines.vnic = line;
    let Some(text) = value.as_str() else {
        findings.error(line, "`vnic` is not a text in quotes", RIGHT_VNIC);
        return;
    };
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
        return;
    };
    if let Some((what, _)) = unusable(address) {
        findings.error(line, wrong(what), RIGHT_VNIC);
        return;
    }
    if address.is_loopback() {
        findings.error(line, wrong("is a loopback address"), RIGHT_VNIC);
        return;
    }
    if prefix == 0 || prefix == width(address) {
        let right = "the network of the virtual NICs holds all of them, and nothing else";
        findings.error(line, wrong("is no network for several nodes"), right);
        return;
    }
    let network = Network::new(address, prefix);
    if !network.is_host(address) {
        let what = wrong("is the network's own or its broadcast address");
        findings.error(line, what, format!("take another address of {network}"));
        return;
    }
    node.vnic = Some((address, prefix));
}
