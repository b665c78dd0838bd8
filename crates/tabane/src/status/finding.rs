//! What is wrong at a node, as its daemon has found.

use serde::{Deserialize, Serialize};

/// How bad, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A peer or the outside cannot be reached, or an address conflict is about to break that.
    Unreachable,
    /// A link does not carry: no redundancy, less speed.
    Degraded,
    /// It works, slower than it could.
    Slow,
    /// It has no measured cost, but may have one some day.
    Note,
}

impl Severity {
    /// Its name, as in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Degraded => "degraded",
            Self::Slow => "slow",
            Self::Note => "note",
        }
    }
}

/// Something wrong that the daemon has found, and that has not gone since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingStatus {
    /// Its code: the name of its cause at `tabane doctor`.
    pub code: String,
    /// How bad.
    pub severity: Severity,
    /// The peers it concerns; none if it is about this node.
    pub peers: Vec<String>,
    /// The links it concerns, in order.
    pub links: Vec<u8>,
    /// The problem, in one sentence.
    pub what: String,
    /// The likeliest remedy: a command, or a step; `null` if none is known.
    pub mend: Option<String>,
    /// When it was first found, milliseconds since 1970-01-01 UTC.
    pub since_unix_ms: u64,
    /// How long ago that is, seconds.
    pub since_s: u64,
}
