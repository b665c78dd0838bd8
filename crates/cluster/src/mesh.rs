//! `[mesh]`: how nodes reach each other through others.

use core::time::Duration;
use std::net::IpAddr;

use toml::de::{DeTable, DeValue};

use super::document::{entry, printable, read_bool, unknown_keys};
use super::is_for_others;
use super::problem::Findings;

const KEYS: &[&str] = &["bundles", "join", "forget_after_s", "relay", "relay_mbps"];
/// So many bundles over links a node has at most, if the file does not say.
pub const BUNDLES_DEFAULT: u16 = 64;
/// With fewer a node is hardly part of a mesh.
const BUNDLES_LEAST: u16 = 4;

/// `[mesh]` of the cluster file; all of it is optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshSpec {
    /// How many nodes this node has bundles over links with at most, 4 or more; without, with every one.
    pub bundles: Option<u16>,
    /// Does this node relay what others send to others? It may use them as relays either way.
    pub relay: bool,
    /// How much it relays at most, in Mb/s, 1 to 1,000,000; `None`: what its links carry.
    pub relay_mbps: Option<u32>,
}

impl Default for MeshSpec {
    fn default() -> MeshSpec {
        MeshSpec {
            bundles: Some(BUNDLES_DEFAULT),
            relay: true,
            relay_mbps: None,
        }
    }
}

/// Reads the table. Errors are reported, and their entries left out.
pub(super) fn read(root: &DeTable<'_>, findings: &mut Findings) -> MeshSpec {
    const RIGHT_RELAY: &str =
        "write `relay = false` if this node is to relay nothing for others, or leave it out";
    let mut mesh = MeshSpec::default();
    let Some((value, line)) = entry(root, "mesh", findings) else {
        return mesh;
    };
    let DeValue::Table(table) = value else {
        let right = "write `[mesh]` on a line of its own; nodes without a link in common that works then reach each other \
                     through others";
        findings.error(line, "`mesh` is not a table", right);
        return mesh;
    };
    unknown_keys(table, KEYS, " of `[mesh]`", findings);
    if let Some(relay) = read_bool(table, "relay", RIGHT_RELAY, findings) {
        mesh.relay = relay;
    }
    mesh.relay_mbps = read_mbps(table, findings);
    if let Some((value, line)) = entry(table, "bundles", findings) {
        mesh.bundles = read_bundles(value, line, findings);
    }
    mesh
}

fn read_bundles(value: &DeValue<'_>, line: u32, findings: &mut Findings) -> Option<u16> {
    if value.as_str() == Some("all") {
        return None;
    }
    let number = value
        .as_integer()
        .and_then(|n| u16::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|bundles| *bundles > 0);
    match number {
        None => {
            let right = "write a number from 4 to 65535 without quotes, \"all\" for a bundle with every node, or leave it out for 64";
            findings.error(line, "bundles is not a number of bundles", right);
        }
        Some(few) if few < BUNDLES_LEAST => {
            let what = format!("bundles = {few} is too few for a mesh; {BUNDLES_LEAST} are used");
            findings.warning(line, what, "write 4 or more, or leave it out for 64");
        }
        Some(_) => {}
    }
    Some(number.unwrap_or(BUNDLES_DEFAULT).max(BUNDLES_LEAST))
}

fn read_mbps(table: &DeTable<'_>, findings: &mut Findings) -> Option<u32> {
    let (value, line) = entry(table, "relay_mbps", findings)?;
    let number = value
        .as_integer()
        .and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|mbps| (1..=1_000_000).contains(mbps));
    if number.is_none() {
        findings.error(
            line,
            "relay_mbps is not a rate in Mb/s",
            "write a number from 1 to 1000000 without quotes, or leave it out for what the links carry; \
             `relay = false` is none at all",
        );
    }
    number
}

/// How nodes join that are not in the file: `join` and `forget_after_s` of `[mesh]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinSpec {
    /// Addresses of nodes that are asked to admit this one; its own may be among them.
    pub seeds: Vec<IpAddr>,
    /// A node that has joined is forgotten when it was not heard of for this long.
    pub forget_after: Duration,
}

/// The default.
const FORGET_AFTER_S: u32 = 600;
/// A restarting node must not be forgotten.
const FORGET_AFTER_S_MIN: u32 = 10;
/// A node that is gone must not be kept for more than a year.
const FORGET_AFTER_S_MAX: u32 = 31_536_000;
/// Seeds that can be named: a few suffice, and each is asked.
const SEEDS_MAX: usize = 64;

/// Reads `join`, if it is there, and `forget_after_s`. Errors are reported, and their entries left out.
pub(super) fn read_join(root: &DeTable<'_>, findings: &mut Findings) -> Option<JoinSpec> {
    let (DeValue::Table(table), _) = entry(root, "mesh", findings)? else {
        return None;
    };
    let forget_after_s = read_forget_after(table, findings);
    let Some((value, line)) = entry(table, "join", findings) else {
        if let Some((_, line)) = entry(table, "forget_after_s", findings) {
            findings.error(
                line,
                "forget_after_s has no meaning without `join`",
                "leave it out, or write `join = [\"ADDRESS\", …]` if nodes are to join that are not in the file",
            );
        }
        return None;
    };
    let DeValue::Array(entries) = value else {
        findings.error(line, "join is not a list of addresses", RIGHT_JOIN);
        return None;
    };
    if entries.len() > SEEDS_MAX {
        let what = format!(
            "join has {} addresses; at most {SEEDS_MAX} are possible",
            entries.len()
        );
        findings.error(line, what, "a few suffice: name nodes that are seldom down");
    }
    let mut seeds = Vec::new();
    for value in entries {
        let line = findings.line_of(&value.span());
        let text = value.get_ref().as_str();
        let address = text.and_then(|text| text.parse::<IpAddr>().ok());
        let shown = || {
            text.map_or_else(
                || "an entry".to_owned(),
                |text| format!("\"{}\"", printable(text)),
            )
        };
        match address {
            None => findings.error(
                line,
                format!("join: {} is not an IP address", shown()),
                RIGHT_JOIN,
            ),
            Some(address)
                if address.is_unspecified()
                    || address.is_multicast()
                    || !is_for_others(address) =>
            {
                let what = format!("join: {address} is no address of a link of another node");
                findings.error(line, what, RIGHT_JOIN);
            }
            Some(address) if seeds.contains(&address) => {
                findings.error(
                    line,
                    format!("join: {address} is already there"),
                    "name each once",
                );
            }
            Some(address) => seeds.push(address),
        }
    }
    Some(JoinSpec {
        seeds,
        forget_after: Duration::from_secs(u64::from(forget_after_s)),
    })
}

const RIGHT_JOIN: &str = "write addresses of links of nodes that are seldom down, as in join = [\"10.77.0.1\", \"10.77.1.1\"]; \
                          an empty list is right on a node that others join";

fn read_forget_after(table: &DeTable<'_>, findings: &mut Findings) -> u32 {
    let Some((value, line)) = entry(table, "forget_after_s", findings) else {
        return FORGET_AFTER_S;
    };
    let number = value
        .as_integer()
        .and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|s| (FORGET_AFTER_S_MIN..=FORGET_AFTER_S_MAX).contains(s));
    if number.is_none() {
        let right = format!(
            "write seconds from {FORGET_AFTER_S_MIN} to {FORGET_AFTER_S_MAX} without quotes, or leave it out for \
             {FORGET_AFTER_S}"
        );
        findings.error(line, "forget_after_s is not a number of seconds", right);
    }
    number.unwrap_or(FORGET_AFTER_S)
}
