//! What tabane is measured beside, set up on a lab of its own: one function
//! for each. Nothing undoes them but the end of the lab.

mod babel;
mod balance_rr;
mod mptcp;

pub use babel::{HELLO_S, babel, babel_address};
pub use balance_rr::balance_rr;
pub use mptcp::{mptcp, mptcp_command};

use std::fmt;

use crate::tools::{IP, Tool};
use crate::{Lab, LabError, wiring};

/// How a kernel's TCP judges the network. `net.ipv4.tcp_congestion_control`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC, RFC 9438.
    Cubic,
    /// BBR, draft-cardwell-iccrg-bbr-congestion-control.
    Bbr,
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
        })
    }
}

/// Have the TCP of every node use this congestion control on the lab's links.
/// It is all that single-link TCP needs, and the other peers heed it too.
///
/// It is set by route, because a network namespace may not take every
/// algorithm as its default. On other devices (`tab0`) let the program choose
/// (`iperf3 -C`), or set their routes' `congctl`.
///
/// # Errors
/// The kernel lacks it.
pub fn congestion(lab: &Lab, congestion: Congestion) -> Result<(), LabError> {
    on_every_node(lab, IP, |node| {
        let route = |link| {
            let (nic, source) = (wiring::nic(link), lab.address(node, link));
            let route = format!("10.77.{link}.0/24 dev {nic} proto kernel scope link src {source}");
            format!("route change {route} congctl {congestion}\n")
        };
        (0..lab.links()).map(route).collect()
    })
    .map_err(|error| match error {
        LabError::ToolFailed { .. } => LabError::MissingFeature {
            what: format!("choosing TCP congestion control {congestion}: {error}"),
            feature: "it; see net.ipv4.tcp_available_congestion_control",
        },
        other => other,
    })
}

/// Run one batch on every node.
fn on_every_node(lab: &Lab, tool: Tool, orders: impl Fn(usize) -> String) -> Result<(), LabError> {
    (0..lab.nodes()).try_for_each(|node| tool.run(lab.node(node), &orders(node)))
}
