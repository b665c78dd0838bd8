//! Multipath TCP (RFC 8684), the kernel's own.

use std::ffi::OsStr;
use std::fmt::Write;
use std::process::Command;

use super::on_every_node;
use crate::tools::{IP, MPTCPIZE};
use crate::{LINKS_MAX, Lab, LabError};

/// Let MPTCP connections to a node's address on link 0 use every link.
///
/// Every node signals its other addresses, and the one that connects opens a
/// subflow to each it hears of; so a server must listen on all its addresses.
/// Programs must ask for MPTCP: [`mptcp_command`].
///
/// # Errors
/// The kernel lacks MPTCP, or `ip` does.
pub fn mptcp(lab: &Lab) -> Result<(), LabError> {
    on_every_node(lab, IP, |node| {
        let mut orders =
            format!("mptcp limits set subflows {LINKS_MAX} add_addr_accepted {LINKS_MAX}\n");
        for link in 1..lab.links() {
            let _ = writeln!(
                orders,
                "mptcp endpoint add {} dev eth{link} signal",
                lab.address(node, link)
            );
        }
        orders
    })
}

/// As [`Lab::command`], for a program that knows only TCP: its sockets become
/// MPTCP's. The process spawned becomes the program.
///
/// # Errors
/// `mptcpize` is not installed.
pub fn mptcp_command(
    lab: &Lab,
    node: usize,
    program: impl AsRef<OsStr>,
) -> Result<Command, LabError> {
    let mut command = lab.command(node, MPTCPIZE.find()?);
    command.arg("run").arg(program);
    Ok(command)
}
