//! `[mesh]`: how nodes reach each other through others.

use toml::de::{DeTable, DeValue};

use super::document::{entry, read_bool, unknown_keys};
use super::problem::Findings;

const KEYS: &[&str] = &["relay", "relay_mbps"];

/// `[mesh]` of the cluster file; nothing of it needs to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeshSpec {
    /// Does this node relay what others send to others? It may use them as relays either way.
    pub relay: bool,
    /// How much it relays at most, in Mb/s, 1 to 1,000,000; without, what its links carry.
    pub relay_mbps: Option<u32>,
}

impl Default for MeshSpec {
    fn default() -> MeshSpec {
        MeshSpec {
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
    mesh
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
