//! What a report says of the programs under `tabane run`.

use serde::{Deserialize, Serialize};

/// Programs under `tabane run`, and their connections. Counters run since the daemon started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    /// The programs, each with all that it started.
    pub programs: Vec<ProgramStatus>,
    /// Connections that bundles carry now.
    pub connections: usize,
    /// Connections of programs that plain TCP carries now.
    pub plain_connections: usize,
    /// Pairs of ends that datagrams are sent between now.
    pub datagram_flows: usize,
    /// Ports of programs at which others reach them now: listeners, and bound sockets of UDP.
    pub ports: usize,
    /// Connections that a bundle has carried, whoever began them.
    pub carried: u64,
    /// Connections that plain TCP has carried.
    pub plain: u64,
    /// Those of the carried ones that programs of other nodes began.
    pub accepted: u64,
    /// Connections that programs began and that were refused.
    pub refused: u64,
    /// Connections that were reset since no link to the far end had worked for too long.
    pub cut_off: u64,
    /// Connections that another node's agent asked for in the name of an address that is not that node's, or
    /// at one that is not this node's. They were refused.
    #[serde(default)]
    pub misaddressed: u64,
    /// Those of the refused ones that plain TCP might have carried, which `plain_tcp = false` forbids.
    #[serde(default)]
    pub kept_from_plain: u64,
}

/// A program under `tabane run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Process id of what was run. It may have ended, and others that it started go on.
    pub pid: u32,
    /// User who runs it.
    pub uid: u32,
    /// What was run: the name of the file.
    pub command: String,
    /// Its connections now, carried by bundles or by plain TCP.
    pub connections: usize,
}

impl RunStatus {
    /// For people, if there is something to say: `2 programs, 12 connections carried, 1 plain`.
    pub fn summary(&self) -> Option<String> {
        let counted = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        let programs = counted(self.programs.len(), "program");
        let carried = counted(self.connections, "connection");
        let plain = match self.plain_connections {
            0 => String::new(),
            count => format!(", {count} plain"),
        };
        let is_used = !self.programs.is_empty() || self.connections + self.plain_connections > 0;
        is_used.then(|| format!("{programs}, {carried} carried{plain}"))
    }
}
