//! What must never happen. Each checker knows the truth and holds it against what
//! the nodes do and say.

mod calls;
mod observer;
mod progress;
mod relayed;
mod streams;
mod transfers;
mod units;
mod window;

pub use calls::Calls;
pub use observer::{HostView, Observer};
pub use progress::{Progress, agreement};
pub use relayed::Relayed;
pub use streams::{Attempt, StreamLedger};
pub use transfers::{TransferLedger, handle};
pub use units::{Gap, UnitLedger};
pub use window::Flight;

use crate::net::Ns;
use std::fmt;

/// What was promised, and broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// Bytes of a stream arrive once, in order, unchanged.
    StreamBytes,
    /// A stream ends where its writer ended it, and is opened once, by who opened it.
    StreamEnds,
    /// A message arrives at most once.
    MessageOnce,
    /// Messages of a flow arrive in the order they were sent.
    MessageOrder,
    /// A message arrives unchanged, under its own flow and tag.
    MessageUnchanged,
    /// No message is left out.
    MessageArrives,
    /// A frame arrives at most once.
    FrameOnce,
    /// Frames of a flow arrive in the order they were sent.
    FrameOrder,
    /// A frame arrives unchanged.
    FrameUnchanged,
    /// No frame is left out while nothing is down for longer than a frame lives.
    FrameArrives,
    /// A byte of a memory operation is placed once.
    TransferOnce,
    /// A byte of a memory operation is placed where it belongs, unchanged, and nowhere else.
    TransferBytes,
    /// A memory operation ends once, when all its bytes are there.
    TransferEnds,
    /// Nothing is accepted that nobody sent.
    Forgery,
    /// Nobody is accepted under a name that has a public key without holding that key.
    Identity,
    /// A node keeps to its memory.
    Memory,
    /// A path that works is not declared failed.
    FalseDown,
    /// A peer that did not restart is not declared restarted.
    FalseRestart,
    /// While one path works, what waits moves on.
    Progress,
    /// While one path works, a stream that is read moves on, however many are not.
    Neighbours,
    /// While no path works but a third host reaches both, messages go through that.
    Detour,
    /// What a host relays it was given: each packet once and as it was, on a way with three hosts between its ends at
    /// most, none of them twice. So nothing goes round, and no host sends more of what is others' than came to it.
    Relayed,
    /// A host keeps no more bundles over links than it may.
    Bundles,
    /// In the end both sides agree which paths work, and are right.
    Agreement,
    /// A node that ends in order says so to those it is connected to, through others if it must.
    Farewell,
    /// In the end everything has arrived.
    Completion,
    /// A node does not work without end at one instant.
    Calm,
    /// Content has no more in flight on a path than its window and the peer's grant allow.
    Window,
    /// An address at which no peer has answered is sent no more than three times what came from it.
    Amplification,
    /// A node does not begin handshakes without a pause, whatever becomes of them.
    Calls,
    /// A packet number is used once under a session's keys.
    Numbers,
    /// What a node sends keeps to the driver contract: existing links, not blocked
    /// ones, datagrams no larger than allowed.
    Contract,
}

impl Rule {
    /// All of them.
    pub const ALL: &[Rule] = &[
        Rule::StreamBytes,
        Rule::StreamEnds,
        Rule::MessageOnce,
        Rule::MessageOrder,
        Rule::MessageUnchanged,
        Rule::MessageArrives,
        Rule::FrameOnce,
        Rule::FrameOrder,
        Rule::FrameUnchanged,
        Rule::FrameArrives,
        Rule::TransferOnce,
        Rule::TransferBytes,
        Rule::TransferEnds,
        Rule::Forgery,
        Rule::Identity,
        Rule::Memory,
        Rule::FalseDown,
        Rule::FalseRestart,
        Rule::Progress,
        Rule::Neighbours,
        Rule::Detour,
        Rule::Relayed,
        Rule::Bundles,
        Rule::Agreement,
        Rule::Farewell,
        Rule::Completion,
        Rule::Calm,
        Rule::Window,
        Rule::Amplification,
        Rule::Calls,
        Rule::Numbers,
        Rule::Contract,
    ];
}

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// When.
    pub at: Ns,
    /// What was seen and what was expected.
    pub what: String,
}

impl Violation {
    /// A violation at `at`.
    pub fn new(rule: Rule, at: Ns, what: impl Into<String>) -> Violation {
        Violation {
            rule,
            at,
            what: what.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.at as f64 / 1e6;
        write!(f, "{:?} at {ms:.6} ms: {}", self.rule, self.what)
    }
}

/// What a checker says.
pub type Checked<T = ()> = Result<T, Violation>;
