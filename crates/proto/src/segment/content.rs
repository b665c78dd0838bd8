//! What a packet carried that must arrive: remembered per packet until its fate
//! is known. Packets are never resent; their content is.

use crate::PeerId;
use crate::wire::{MemoryRecord, MemoryStatus, OperationKind, UnitClass};

/// One piece of content in flight. Small and `Copy`: millions live in rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Bytes of a stream (`len` may be 0 when only the end or the opening is carried).
    Stream {
        /// Stream number.
        id: u64,
        /// Offset of the first byte.
        offset: u64,
        /// How many bytes.
        len: u32,
        /// Whether the stream's end was carried.
        fin: bool,
    },
    /// Bytes of a frame or message.
    Unit {
        /// Frame or message.
        class: UnitClass,
        /// The unit's place in the sender's store.
        slot: u32,
        /// Tells a reused slot from its former owner.
        generation: u32,
        /// Offset of the first byte.
        offset: u32,
        /// How many bytes.
        len: u32,
    },
    /// Bytes of a put, or of the answer to the peer's get.
    Transfer {
        /// Its place in the sender's store.
        slot: u32,
        /// Tells a reused slot from its former owner.
        generation: u32,
        /// Offset of the first byte.
        offset: u64,
        /// How many bytes.
        len: u32,
    },
    /// A get's request, which the peer must know.
    Get {
        /// The get's number.
        operation: u32,
    },
    /// The peer must know how an operation of its own ended.
    OperationDone {
        /// Which kind.
        kind: OperationKind,
        /// Its number.
        operation: u32,
        /// How it ended.
        status: MemoryStatus,
    },
    /// A stream's reset must arrive.
    StreamReset {
        /// Stream number.
        id: u64,
    },
    /// A stream's stop must arrive.
    StreamStop {
        /// Stream number.
        id: u64,
    },
    /// The newest window of a stream must arrive.
    StreamWindow {
        /// Stream number.
        id: u64,
    },
    /// The newest window of the bundle's streams must arrive.
    BundleWindow,
    /// The newest window of the bundle's messages must arrive.
    MessageWindow,
    /// Datagrams of others: whether they arrive is their ends' business.
    Relayed,
    /// News about a node, which the peer must know.
    News(News),
}

/// A node's news about nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum News {
    /// Whom this node reaches.
    OwnReach,
    /// Whom another one reaches.
    Reach(PeerId),
    /// That a way to this one is sought.
    Sought(PeerId),
    /// This node's own data.
    OwnMember,
    /// Another node's data.
    Member(PeerId),
    /// That node has left the cluster: its index among those that did.
    Left(u32),
    /// Whom this node knows, in short.
    Digest,
}

impl News {
    /// News of higher rank goes first.
    pub(crate) const fn rank(self) -> u8 {
        match self {
            News::Reach(_) | News::Sought(_) | News::OwnReach => 0,
            News::Digest => 1,
            News::Member(_) | News::Left(_) => 2,
            News::OwnMember => 3,
        }
    }
}

impl Content {
    /// The record of [`Content::OperationDone`], which says all there is.
    pub(crate) const fn told(&self) -> Option<MemoryRecord<'static>> {
        match *self {
            Content::OperationDone {
                kind,
                operation,
                status,
            } => Some(MemoryRecord::Done {
                kind,
                operation,
                status,
            }),
            _ => None,
        }
    }
}

/// Fate of a piece of content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// A packet with it was acknowledged.
    Acked,
    /// A packet with it is lost or its path is suspect: carry it again if still needed.
    Lost,
}
