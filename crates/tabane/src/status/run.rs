//! The report on programs under `tabane run`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::table::counted;

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
    /// Connections that stand still since somebody does not read.
    #[serde(default)]
    pub unread: UnreadStatus,
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

/// The most connections that are listed: those that stand still for longest.
pub const UNREAD_LISTED_MAX: usize = 256;
/// The most users that are distinguished, for each [`Reader`]: those with most waiting bytes.
pub const UNREAD_USERS_MAX: usize = 16;

/// Connections that have stood still for a second or longer because somebody does not read. The survey is
/// at most a second old, or two if there are many connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadStatus {
    /// Those that programs here do not read.
    pub connections: usize,
    /// Bytes that wait for them in the daemon; what their kernel keeps for them is not counted.
    pub bytes: u64,
    /// How long the longest of them has stood, seconds.
    pub longest_s: u64,
    /// The same by user; bounded.
    pub of_users: Vec<UnreadOfUser>,
    /// Connections that programs here or at peers do not read, the longest first; bounded.
    pub listed: Vec<UnreadConnection>,
}

/// Who does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reader {
    /// A program here.
    Program,
    /// The other end of a program's connection: the program there, or, of plain TCP, another host.
    Peer,
}

/// Unread connections of one user's programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadOfUser {
    /// Who runs the programs here; `null`: those that are not told apart.
    pub uid: Option<u32>,
    /// Who does not read.
    pub reader: Reader,
    /// How many.
    pub connections: usize,
    /// Bytes that wait here.
    pub bytes: u64,
    /// How long the longest has stood, seconds.
    pub longest_s: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadConnection {
    /// Who does not read.
    pub reader: Reader,
    /// Process id of what was run here. It may have ended, and another that it started have the connection.
    pub pid: Option<u32>,
    /// User who runs it.
    pub uid: Option<u32>,
    /// What was run.
    pub command: Option<String>,
    /// The program's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The other end's node; `null` if plain TCP carries it.
    pub peer: Option<String>,
    /// Bytes that wait here.
    pub bytes: u64,
    /// Since when nothing of it was read, milliseconds since 1970-01-01 UTC.
    pub since_unix_ms: u64,
    /// How long ago that is, seconds.
    pub since_s: u64,
}

impl UnreadStatus {
    /// How many of the peers' programs do not read what programs here have said.
    pub fn connections_at_peers(&self) -> usize {
        let of_users = self.of_users.iter();
        let at_peers = of_users.filter(|of_user| of_user.reader == Reader::Peer);
        at_peers.map(|of_user| of_user.connections).sum()
    }
}

impl RunStatus {
    /// For people, if there is something to say: `2 programs, 12 connections carried, 1 plain`.
    pub fn summary(&self) -> Option<String> {
        let programs = counted(self.programs.len() as u64, "program");
        let carried = counted(self.connections as u64, "connection");
        let plain = match self.plain_connections {
            0 => String::new(),
            count => format!(", {count} plain"),
        };
        let is_used = !self.programs.is_empty() || self.connections + self.plain_connections > 0;
        is_used.then(|| format!("{programs}, {carried} carried{plain}"))
    }
}
