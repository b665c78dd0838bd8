//! `[gateway]`: which nodes connect the cluster to the outside, on which device, and at which addresses.

use std::net::IpAddr;

use toml::de::{DeTable, DeValue};

use super::document::{entry, nearest, printable, unknown_keys};
use super::here::list_names;
use super::problem::Findings;
use super::{NAME_BYTES_MAX, NodeIndex, NodeSpec, outside, range};

/// Most gateways a cluster may have.
pub const GATEWAYS_MAX: usize = 15;
/// Ports that the programs of a node may have outside at once, if the file does not say.
pub const PORTS_PER_NODE: usize = 4096;
/// An address has no more.
const PORTS_PER_NODE_MAX: usize = 65_535;
/// Connections that the programs of a node may have with the outside at once, if the file does not say.
pub const CONNECTIONS_PER_NODE: usize = 50_000;
/// Each costs the gateway memory.
const CONNECTIONS_PER_NODE_MAX: usize = 1_000_000;
/// With a lower rate a gateway's turns come too seldom.
const RATE_BPS_MIN: u64 = 1_000_000;
/// No line has a higher rate.
const RATE_BPS_MAX: u64 = 400_000_000_000;
/// Units of a rate as tc(8) has them, bits a second.
const RATE_UNITS: [(&str, u64); 3] = [
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
];
/// Longest name of a network device in bytes (linux/if.h, IFNAMSIZ, without the zero behind it).
const INTERFACE_BYTES_MAX: usize = 15;
/// Devices that every machine has, or gets from tabane; none leads outside.
const NOT_OUTSIDE: [&str; 2] = ["lo", crate::VNIC_NAME];

const KEYS: &[&str] = &[
    "nodes",
    "addresses",
    "interface",
    "routers",
    "rate",
    "queue",
    "ports_per_node",
    "connections_per_node",
];

const RIGHT_NODES: &str =
    "write nodes = [\"NAME\", …]: the first that is there serves, the others stand by";
const RIGHT_INTERFACE: &str = "write the name of the device that leads outside, such as \"eth2\", or one for each gateway, as \
                               in { n0 = \"eth2\", n9 = \"enp3s0\" }";
const RIGHT_RATE: &str = "write a whole number and kbit, mbit or gbit, such as \"1gbit\", from 1mbit to 400gbit, or leave it \
                          out for the device's own speed";
const RIGHT_QUEUE: &str =
    "write \"fair\" (the default), or \"kernel\" to leave the queue to the device";

/// `[gateway]` of the cluster file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewaySpec {
    /// The gateways, 1 to [`GATEWAYS_MAX`], each once: the first that is there serves.
    pub nodes: Vec<NodeIndex>,
    /// The cluster's addresses outside, each with the length of its network's prefix (1..=31 or 1..=127): one of each
    /// family at most, IPv4 first.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The device that leads outside on each of `nodes`, in that order; 1 to 15 bytes.
    pub interfaces: Vec<String>,
    /// The ways to the rest of the world, each in the network of the address of its family: one of each family at most,
    /// IPv4 first.
    pub routers: Vec<IpAddr>,
    /// How much the gateway sends outside at most, bits a second, 1,000,000 to 400,000,000,000; `None`: what the device
    /// carries.
    pub rate_bps: Option<u64>,
    /// Who queues packets for the line.
    pub queue: LineQueue,
    /// Ports outside that the programs of a node may have at once, 1 to 65,535.
    pub ports_per_node: usize,
    /// Connections that the programs of a node may have with the outside at once, 1 to 1,000,000.
    pub connections_per_node: usize,
}

/// Who queues packets for the line to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineQueue {
    /// The gateway: connections take turns, and the device's own queue stays short.
    #[default]
    Fair,
    /// The kernel, in the device's own queue; for comparison.
    Kernel,
}

/// An entry of `nodes`.
struct Gateway {
    name: String,
    line: u32,
    /// `None` if the file has no such node.
    index: Option<NodeIndex>,
}

/// Reads the table, if it is there. Errors, including conflicts with `nodes`, are reported, and their entries left out.
pub(super) fn read(
    root: &DeTable<'_>,
    nodes: &[NodeSpec],
    findings: &mut Findings,
) -> Option<GatewaySpec> {
    let (value, line) = entry(root, "gateway", findings)?;
    let DeValue::Table(table) = value else {
        let right = "write `[gateway]` on a line of its own, and `nodes`, `addresses` and `interface` below it";
        findings.error(line, "`gateway` is not a table", right);
        return None;
    };
    unknown_keys(table, KEYS, " of `[gateway]`", findings);
    let gateways = read_nodes(table, line, nodes, findings);
    let interfaces = read_interfaces(table, line, gateways.as_deref(), findings);
    let (addresses, routers) = outside::read(table, line, nodes, findings);
    let (ports, connections) = ("ports_per_node", "connections_per_node");
    Some(GatewaySpec {
        nodes: (gateways.iter().flatten())
            .filter_map(|gateway| gateway.index)
            .collect(),
        addresses,
        interfaces,
        routers,
        rate_bps: read_rate(table, RIGHT_RATE, findings),
        queue: read_queue(table, findings),
        ports_per_node: read_count(table, ports, PORTS_PER_NODE, PORTS_PER_NODE_MAX, findings),
        connections_per_node: read_count(
            table,
            connections,
            CONNECTIONS_PER_NODE,
            CONNECTIONS_PER_NODE_MAX,
            findings,
        ),
    })
}

/// The value of a mandatory key, and its line. `right`: what to write if it is missing.
pub(super) fn required<'a, 'i>(
    table: &'a DeTable<'i>,
    table_line: u32,
    key: &str,
    right: &str,
    findings: &mut Findings,
) -> Option<(&'a DeValue<'i>, u32)> {
    let found = entry(table, key, findings);
    if found.is_none() {
        findings.error(table_line, format!("`[gateway]` has no `{key}`"), right);
    }
    found
}

/// The texts of a list, each with its line. `right`: what to write instead of anything else.
pub(super) fn texts<'a>(
    (value, line): (&'a DeValue<'_>, u32),
    key: &str,
    right: &str,
    findings: &mut Findings,
) -> Vec<(&'a str, u32)> {
    let Some(array) = value.as_array() else {
        findings.error(line, format!("`{key}` is not a list"), right);
        return Vec::new();
    };
    let mut texts = Vec::new();
    for item in array.iter() {
        let line = findings.line_of(&item.span());
        match item.get_ref().as_str() {
            Some(text) => texts.push((text, line)),
            None => {
                let what = format!("`{key}` has an entry that is not a text in quotes");
                findings.error(line, what, right);
            }
        }
    }
    texts
}

/// How many entries a list has; none if it is no list.
pub(super) fn count(value: &DeValue<'_>) -> usize {
    value.as_array().map_or(0, |array| array.len())
}

/// All named nodes, including unknown ones; `None` if the names cannot be read.
fn read_nodes(
    table: &DeTable<'_>,
    table_line: u32,
    nodes: &[NodeSpec],
    findings: &mut Findings,
) -> Option<Vec<Gateway>> {
    let (value, line) = required(table, table_line, "nodes", RIGHT_NODES, findings)?;
    let texts = texts((value, line), "nodes", RIGHT_NODES, findings);
    if value.as_array().is_some() && count(value) == 0 {
        findings.error(line, "`nodes` names no gateway", RIGHT_NODES);
    }
    let mut is_whole = count(value) > 0 && texts.len() == count(value);
    let mut gateways: Vec<Gateway> = Vec::new();
    for (text, line) in texts {
        let names = match range::expand(text) {
            Ok(names) => names,
            Err(bad) => {
                findings.error(line, format!("`nodes`: {}", bad.what), bad.right);
                is_whole = false;
                continue;
            }
        };
        if gateways.len() + names.len() > GATEWAYS_MAX {
            let right = "name those that have a line to the outside; a few that stand by suffice";
            let what = format!("there are more than {GATEWAYS_MAX} gateways");
            findings.error(line, what, right);
            return None;
        }
        for name in names {
            let index = find(&name, line, nodes, &gateways, findings);
            gateways.push(Gateway { name, line, index });
        }
    }
    is_whole.then_some(gateways)
}

/// The node that an entry of `nodes` names; `before` are the earlier entries.
fn find(
    name: &str,
    line: u32,
    nodes: &[NodeSpec],
    before: &[Gateway],
    findings: &mut Findings,
) -> Option<NodeIndex> {
    let shown = printable(name);
    if let Some(first) = before.iter().find(|gateway| gateway.name == name) {
        let what = format!("gateway \"{shown}\" is already there (line {})", first.line);
        findings.error(line, what, "name each once");
        return None;
    }
    let is_meant = |node: &NodeSpec| node.name == name && !name.is_empty();
    let index = nodes.iter().position(is_meant);
    let names = nodes.iter().map(|node| node.name.as_str());
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    // A file without nodes or names gets another message.
    if index.is_none() && !names.is_empty() {
        let right = right_name(name, &names).unwrap_or_else(|| list_names(&names));
        findings.error(line, format!("there is no node \"{shown}\""), right);
    }
    index
}

/// The one of `known` that was probably meant.
fn right_name(name: &str, known: &[&str]) -> Option<String> {
    let is_short = name.len() <= NAME_BYTES_MAX;
    let near = if is_short { nearest(name, known) } else { None };
    near.map(|near| format!("did you mean \"{near}\"?"))
}

/// The device of each gateway.
fn read_interfaces(
    table: &DeTable<'_>,
    table_line: u32,
    gateways: Option<&[Gateway]>,
    findings: &mut Findings,
) -> Vec<String> {
    let found = required(table, table_line, "interface", RIGHT_INTERFACE, findings);
    match found {
        None => Vec::new(),
        Some((DeValue::String(name), line)) => {
            check_interface(name, line, findings);
            vec![name.to_string(); gateways.map_or(0, <[_]>::len)]
        }
        Some((DeValue::Table(each), line)) => read_each_interface(each, line, gateways, findings),
        Some((_, line)) => {
            let what = "`interface` is neither a text in quotes nor a table of them";
            findings.error(line, what, RIGHT_INTERFACE);
            Vec::new()
        }
    }
}

/// `{ n0 = "eth2", n9 = "enp3s0" }`.
fn read_each_interface(
    each: &DeTable<'_>,
    table_line: u32,
    gateways: Option<&[Gateway]>,
    findings: &mut Findings,
) -> Vec<String> {
    let known: Option<Vec<&str>> =
        gateways.map(|all| all.iter().map(|gateway| gateway.name.as_str()).collect());
    for (key, value) in each {
        let (line, node) = (findings.line_of(&key.span()), key.get_ref().as_ref());
        match value.get_ref() {
            DeValue::String(name) => check_interface(name, line, findings),
            // TOML's meaning of `n0.rack = "eth2"`.
            DeValue::Table(_) => {
                let what = format!("`interface` of \"{}\" is a table", printable(node));
                let right = "put the name of a node that has a dot in quotes";
                findings.error(line, what, right);
                continue;
            }
            _ => {
                let what = format!(
                    "`interface` of \"{}\" is not a text in quotes",
                    printable(node)
                );
                findings.error(line, what, RIGHT_INTERFACE);
            }
        }
        let stranger = known.as_ref().filter(|known| !known.contains(&node));
        if let Some(known) = stranger {
            let right = right_name(node, known).unwrap_or_else(|| {
                let known: Vec<_> = known.iter().map(|name| printable(name)).collect();
                format!("the gateways are {}", known.join(", "))
            });
            let what = format!(
                "`interface` names \"{}\", which is no gateway",
                printable(node)
            );
            findings.error(line, what, right);
        }
    }
    let mut interfaces = Vec::new();
    for node in known.iter().flatten() {
        match each.get(*node) {
            Some(value) => interfaces.extend(value.get_ref().as_str().map(str::to_owned)),
            None => {
                let what = format!("`interface` has none for \"{}\"", printable(node));
                findings.error(table_line, what, RIGHT_INTERFACE);
            }
        }
    }
    interfaces
}

/// Linux's rules for the name of a device (dev_valid_name in net/core/dev.c), without characters that end a line.
fn check_interface(name: &str, line: u32, findings: &mut Findings) {
    let is_bad = |c: char| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control();
    let is_long = name.len() > INTERFACE_BYTES_MAX;
    let shown = printable(name);
    if name.is_empty() || is_long || name.contains(is_bad) || matches!(name, "." | "..") {
        findings.error(
            line,
            format!("interface \"{shown}\" cannot be the name of a device"),
            "write one that `ip link` shows: 1 to 15 bytes, without `/`, `:` and blanks",
        );
    } else if NOT_OUTSIDE.contains(&name) {
        let what = format!("interface \"{shown}\" does not lead outside");
        findings.error(line, what, "write the device that does, such as \"eth2\"");
    }
}

/// `rate` in bits a second, if there is one. `right`: what to write instead of anything else.
pub(super) fn read_rate(table: &DeTable<'_>, right: &str, findings: &mut Findings) -> Option<u64> {
    let (value, line) = entry(table, "rate", findings)?;
    let Some(text) = value.as_str() else {
        findings.error(line, "`rate` is not a text in quotes", right);
        return None;
    };
    let rate_bps = rate_bps(text);
    if rate_bps.is_none() {
        let what = format!(
            "rate \"{}\" is not one that a line could have",
            printable(text)
        );
        findings.error(line, what, right);
    }
    rate_bps
}

/// `1gbit` in bits a second. As for tc, large and small letters are the same.
fn rate_bps(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let is_meant = |(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit);
    let (_, unit_bps) = RATE_UNITS.iter().find(is_meant)?;
    let rate_bps = number.parse::<u64>().ok()?.checked_mul(*unit_bps)?;
    (RATE_BPS_MIN..=RATE_BPS_MAX)
        .contains(&rate_bps)
        .then_some(rate_bps)
}

fn read_queue(table: &DeTable<'_>, findings: &mut Findings) -> LineQueue {
    let Some((value, line)) = entry(table, "queue", findings) else {
        return LineQueue::default();
    };
    match value.as_str() {
        Some("fair") => return LineQueue::Fair,
        Some("kernel") => return LineQueue::Kernel,
        Some(other) => {
            let what = format!("queue cannot be \"{}\"", printable(other));
            findings.error(line, what, RIGHT_QUEUE);
        }
        None => findings.error(line, "`queue` is not a text in quotes", RIGHT_QUEUE),
    }
    LineQueue::default()
}

/// A number from 1 to `max`; `default` if the file does not say.
fn read_count(
    table: &DeTable<'_>,
    key: &str,
    default: usize,
    max: usize,
    findings: &mut Findings,
) -> usize {
    let Some((value, line)) = entry(table, key, findings) else {
        return default;
    };
    let number = value
        .as_integer()
        .and_then(|n| usize::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|number| (1..=max).contains(number));
    number.unwrap_or_else(|| {
        let right = format!("write one without quotes, or leave it out for {default}");
        findings.error(
            line,
            format!("{key} is not a number from 1 to {max}"),
            right,
        );
        default
    })
}
