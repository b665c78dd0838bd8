//! What the ports of a lab have counted.

use serde_json::Value;

use crate::LabError;
use crate::lab::Lab;
use crate::tools::TC;
use crate::wiring::port;

/// What the queue of a switch's port towards a node has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets it let through.
    pub packets: u64,
    /// Packets it had no room for.
    pub drops: u64,
}

impl Lab {
    /// What the ports of all switches towards a node have done together.
    ///
    /// # Errors
    /// There is no such node.
    pub fn port_counters(&self, node: usize) -> Result<PortCounters, LabError> {
        self.check_node(node)?;
        (0..self.links()).try_fold(PortCounters::default(), |sum, link| {
            let arguments = ["-s", "-j", "qdisc", "show", "dev", &port(node)];
            let said = json(&TC.ask(self.switch(link), &arguments)?);
            let number = |what: &str| said[0][what].as_u64().unwrap_or(0);
            Ok(PortCounters {
                packets: sum.packets + number("packets"),
                drops: sum.drops + number("drops"),
            })
        })
    }
}

/// What `tc -j` said; what cannot be read counts as nothing.
fn json(said: &[u8]) -> Value {
    serde_json::from_slice(said).unwrap_or_default()
}
