//! `[vnic]`: common settings of all nodes' virtual NICs.

use toml::de::{DeTable, DeValue};

use super::document::{entry, read_bool, unknown_keys};
use super::problem::Findings;

/// The name of the virtual NIC, on every node.
pub const VNIC_NAME: &str = "tab0";
/// The MTU of the virtual NICs, bytes, if the file does not say: 44 wire pieces of a 1500-byte network less
/// headers, so that a full packet leaves in one burst. Larger is cut again by the kernel, smaller costs
/// more calls.
pub const VNIC_MTU_BYTES: u32 = 62_000;
/// The minimum of IPv6 (RFC 8200, section 5).
const MTU_BYTES_MIN: u32 = 1280;
/// The maximum of a TAP in Linux.
const MTU_BYTES_MAX: u32 = 65_521;

const KEYS: &[&str] = &["hosts", "mtu"];

/// `[vnic]` of the cluster file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VnicSpec {
    /// The longest IP packet of a virtual NIC, bytes, 1280 to 65521.
    pub mtu_bytes: u32,
    /// Are the nodes' names written into `/etc/hosts`?
    pub hosts: bool,
}

impl Default for VnicSpec {
    fn default() -> Self {
        Self {
            mtu_bytes: VNIC_MTU_BYTES,
            hosts: false,
        }
    }
}

/// Reads the table, if it is there. Errors are reported, and their entries left out.
pub(super) fn read(root: &DeTable<'_>, findings: &mut Findings) -> VnicSpec {
    const RIGHT_HOSTS: &str =
        "write `hosts = true` to have the nodes' names in /etc/hosts, or leave it out";
    let mut vnic = VnicSpec::default();
    let Some((value, line)) = entry(root, "vnic", findings) else {
        return vnic;
    };
    let DeValue::Table(table) = value else {
        let right = "write `[vnic]` on a line of its own, and `mtu = 1500` below it; \
                     a node's address stands below its `[[node]]`";
        findings.error(line, "`vnic` is not a table", right);
        return vnic;
    };
    unknown_keys(table, KEYS, " of `[vnic]`", findings);
    vnic.hosts = read_bool(table, "hosts", RIGHT_HOSTS, findings).unwrap_or(false);
    let Some((value, line)) = entry(table, "mtu", findings) else {
        return vnic;
    };
    let number = value
        .as_integer()
        .and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|bytes| (MTU_BYTES_MIN..=MTU_BYTES_MAX).contains(bytes));
    match number {
        Some(bytes) => vnic.mtu_bytes = bytes,
        None => findings.error(
            line,
            "mtu is not a number of bytes that a packet could have",
            format!(
                "write one from {MTU_BYTES_MIN} to {MTU_BYTES_MAX} without quotes, or leave it out \
                 for {VNIC_MTU_BYTES}"
            ),
        ),
    }
    vnic
}
