//! What can happen to a pair, in the fuzzer's words.

use arbitrary::Arbitrary;

use super::{Tamper, Wire};

/// One of the two nodes.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Side(bool);

impl Side {
    /// Which of the two.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One step.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Operation {
    /// So many steps of time, squared.
    Pass(u8),
    /// A program does something.
    Content(Side, Content),
    /// An operator, or the kernel, does something.
    Manage(Side, Manage),
    /// A driver does something that makes no sense.
    Nonsense(Side, Nonsense),
    /// Somebody is on the wire.
    Tamper(Wire, Tamper),
}

/// What a program does. Streams are named by how many were opened after them.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Content {
    /// Opens a stream with this policy.
    Open(u8),
    /// Writes so many bytes (times 16).
    Write(u8, u16),
    /// Reads with a buffer of so many bytes.
    Read(u8, u16),
    /// Ends its direction.
    Finish(u8),
    /// Gives its direction up.
    Reset(u8),
    /// Wants no more of the other's.
    Stop(u8),
    /// A message in this flow of so many bytes (times 4), tagged or not, with this policy.
    Message(u8, u16, bool, u8),
    /// Reads so many messages.
    Messages(u8),
    /// A frame in this flow, of so many bytes (times 2).
    Frame(u8, u16),
}

/// What an operator or the kernel does.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Manage {
    /// The kernel's word on a link.
    Carrier(bool, bool),
    /// The socket of a link blocks.
    Blocked(bool, bool),
    /// The kernel refuses datagrams of this size.
    Refused(bool, u16),
    /// A link goes.
    LinkGone(bool),
    /// A link comes (back) with room for so many bytes above the least.
    LinkThere(bool, u8),
    /// It no longer knows where the other is on a link.
    NoAddress(bool),
    /// It knows it (again).
    Address(bool),
    /// From another port from now on.
    Roam,
    /// Its process dies and is started anew.
    Crash,
    /// It ends in order and is started anew.
    Close,
    /// The peer is taken out of its configuration.
    Remove,
    /// The peer comes (back) into its configuration.
    Add,
}

/// What a sound driver never does.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Nonsense {
    /// A timer that is not due.
    Timeout,
    /// Operations on a stream that may not exist.
    Stream(u32),
    /// Operations on a peer that may not exist.
    Peer(u32),
    /// Operations on a link that may not exist.
    Link(u8, u16),
    /// A frame too long, or empty.
    Frame(bool),
    /// A message too long.
    Message(u32),
}
