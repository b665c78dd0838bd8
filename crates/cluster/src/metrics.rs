//! `metrics`, of the cluster or of one node: where they are served.

use std::net::{Ipv4Addr, SocketAddr};

use toml::de::DeTable;

use super::document::{entry, printable};
use super::problem::Findings;

const RIGHT: &str = "write a TCP port without quotes, such as 9577, for this machine only, or \
                     \"ADDRESS:PORT\", such as \"0.0.0.0:9577\", for others too";

/// Reads the key, if it is there. Errors are reported, and their entries left out.
pub(super) fn read(table: &DeTable<'_>, findings: &mut Findings) -> Option<SocketAddr> {
    let (value, line) = entry(table, "metrics", findings)?;
    let port = value
        .as_integer()
        .map(|n| u16::from_str_radix(n.as_str(), n.radix()).unwrap_or(0));
    let address = match (port, value.as_str()) {
        (Some(port), _) => Some((Ipv4Addr::LOCALHOST, port).into()),
        (None, Some(text)) => text.parse().ok(),
        (None, None) => None,
    };
    let usable = address.filter(|address: &SocketAddr| address.port() != 0);
    if usable.is_none() {
        let what = match value.as_str() {
            Some(text) => format!("metrics \"{}\" is no address and port", printable(text)),
            None => "`metrics` is no TCP port".to_owned(),
        };
        findings.error(line, what, RIGHT);
    }
    usable
}
