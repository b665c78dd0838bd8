//! `[mesh]`: how nodes reach each other through others.

use toml::de::{DeTable, DeValue};

use super::document::{entry, read_bool, unknown_keys};
use super::problem::Findings;

const KEYS: &[&str] = &["bundles", "relay", "relay_mbps"];
/// So many bundles over links a node has at most, if the file does not say.
pub const BUNDLES_DEFAULT: u16 = 64;
/// With fewer a node is hardly part of a mesh.
const BUNDLES_LEAST: u16 = 4;

/// `[mesh]` of the cluster file; nothing of it needs to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshSpec {
    /// How many nodes this node has bundles over links with at most, 4 or more; without, with every one.
    pub bundles: Option<u16>,
    /// Does this node relay what others send to others? It may use them as relays either way.
    pub relay: bool,
    /// How much it relays at most, in Mb/s, 1 to 1,000,000; without, what its links carry.
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

/// Reads the table. What is wrong is reported and left out.
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
