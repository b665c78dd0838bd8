//! What a starting program knows about the cluster: from the local daemon, for which it needs no right
//! to read the key, or else from the cluster file.

use std::net::IpAddr;
use std::path::PathBuf;

use tabane_cluster::{ConfigError, DEFAULT_PATH, InterfaceAddress};

use super::RunArgs;
use crate::here::{as_node, own_addresses};
use crate::status::{self, NodeAddresses, NodesReport};

/// The cluster, as far as programs meet it.
#[derive(Debug)]
pub struct Known {
    /// The cluster file for starting this user's daemon if none runs.
    pub file: PathBuf,
    /// All nodes.
    pub nodes: Vec<NodeAddresses>,
    /// The place of this one in them.
    pub me: usize,
    /// The addresses of this machine.
    pub here: Vec<InterfaceAddress>,
    /// The cluster's outside addresses, if it has a gateway.
    pub outside: Vec<IpAddr>,
}

impl Known {
    /// Asks the daemon, unless the user says which file or node it is; reads the file if none answers.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn learn(args: &RunArgs) -> Result<Known, ConfigError> {
        if args.config.is_none()
            && args.node.is_none()
            && let Some(known) = Known::of_daemon()
        {
            return Ok(known);
        }
        let file = args.config.clone().unwrap_or_else(|| DEFAULT_PATH.into());
        let (cluster, me, here) = as_node(&file, args.node.as_deref())?;
        Ok(Known::from_report(NodesReport::of(&cluster, me), me, here))
    }

    /// `None`: no daemon answers, or one of another version, or its answer lacks its own node.
    fn of_daemon() -> Option<Known> {
        let report = status::ask_here(status::ask_nodes).ok()?;
        let me = report.list.iter().position(|n| n.name == report.node)?;
        let here = own_addresses().unwrap_or_default();
        Some(Known::from_report(report, me, here))
    }

    fn from_report(report: NodesReport, me: usize, here: Vec<InterfaceAddress>) -> Known {
        Known {
            file: report.file,
            nodes: report.list,
            me,
            here,
            outside: report.outside,
        }
    }

    /// This node.
    pub fn own(&self) -> &NodeAddresses {
        &self.nodes[self.me]
    }
}
