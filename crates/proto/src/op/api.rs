//! The types by which an application uses a bundle's [`Ops`](super::Ops).

use core::fmt;

use crate::wire::MemoryStatus;
use crate::{LinkId, StreamId};

/// How content is spread over the paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Every packet on the path that delivers it soonest.
    #[default]
    Stripe,
    /// Every packet on two paths: no gap at all when one dies.
    Mirror,
    /// On two paths while small and alone, striped in bulk.
    Auto,
    /// Over this link while it works and takes packets of the usual size, else over any other. What was lost there goes again
    /// over any link. A number that no link has is as [`Policy::Stripe`].
    Link(LinkId),
}

/// A received message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The flow it was sent in; messages of a flow arrive in the order of sending.
    pub flow: u32,
    /// Its tag, if it was sent with one.
    pub tag: Option<u64>,
    /// Its bytes. May be given to [`recycle`](super::Ops::recycle) when done with.
    pub data: Vec<u8>,
}

/// Result of [`read_stream`](super::Ops::read_stream).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// How many bytes.
    pub len: usize,
    /// Whether the stream ends behind them. The stream may be forgotten then.
    pub fin: bool,
}

/// Something the application should know. None is repeated until it was acted on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpEvent {
    /// The peer opened a stream.
    StreamOpened {
        /// The stream.
        id: StreamId,
        /// The service it asks for.
        service: u32,
    },
    /// There is something to read, an end included. Comes again only after a read.
    Readable(StreamId),
    /// A stream that was full takes bytes again.
    Writable(StreamId),
    /// Everything written to the stream and its end were acknowledged.
    Finished(StreamId),
    /// The peer reset its direction; unread data is lost.
    Reset {
        /// The stream.
        id: StreamId,
        /// The peer's reason.
        code: u32,
    },
    /// The peer refuses further data; sending was reset.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer's reason.
        code: u32,
    },
    /// The peer stopped or restarted, and the stream is gone. Until the next event, data that had arrived
    /// can still be read through [`take_rest`](super::Ops::take_rest).
    Broken(StreamId),
    /// The peer restarted before this many messages were acknowledged; they may or may not have arrived.
    MessagesBroken {
        /// How many.
        count: usize,
    },
    /// [`receive_message`](super::Ops::receive_message) has a message. Comes again only after it had none.
    MessageReady,
    /// [`send_message`](super::Ops::send_message), once full, takes messages again.
    MessageRoom,
    /// A put or get of this end has ended.
    Operation {
        /// The token that it was begun with.
        token: u64,
        /// How it ended.
        status: MemoryStatus,
    },
    /// A put of the peer's is complete, and the put or its region asks to notify the program.
    Written {
        /// Of the region.
        key: u64,
        /// The peer's immediate data for the program.
        immediate: Option<u64>,
        /// How many bytes it was.
        bytes: u64,
    },
    /// The peer has all bytes of its get, and the region asks to notify the program.
    Read {
        /// Of the region.
        key: u64,
        /// How many bytes it was.
        bytes: u64,
    },
}

/// An operation that the caller must do otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpError {
    /// No such peer: never added, or removed.
    UnknownPeer,
    /// No such stream: never opened, or over in both directions.
    UnknownStream,
    /// The direction was finished or reset by this end, or stopped by the peer.
    Closed,
    /// The peer gave up sending for this reason.
    Reset(u32),
    /// As many streams are open as may be.
    TooManyStreams,
    /// As many message flows are used as may be; use an old one.
    TooManyFlows,
    /// Queues are full; [`OpEvent::MessageRoom`] follows.
    Full,
    /// Longer than a message may be.
    TooLarge {
        /// How long it may be, in bytes.
        bytes_max: usize,
    },
    /// Another region has this key.
    KeyInUse,
    /// The peer has no memory operations.
    NotOffered,
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpError::UnknownPeer => f.write_str("no such peer"),
            OpError::UnknownStream => f.write_str("no such stream, or it is over"),
            OpError::Closed => f.write_str("the stream's direction is closed"),
            OpError::Reset(code) => write!(f, "the peer reset the stream with code {code}"),
            OpError::TooManyStreams => f.write_str("too many streams are open with this peer"),
            OpError::TooManyFlows => {
                f.write_str("too many message flows are in use with this peer")
            }
            OpError::Full => f.write_str("the send queue is full; try again when there is room"),
            OpError::TooLarge { bytes_max } => {
                write!(f, "longer than {bytes_max} bytes, the longest there may be")
            }
            OpError::KeyInUse => f.write_str("another region has this key"),
            OpError::NotOffered => f.write_str("the peer has no memory operations"),
        }
    }
}

impl core::error::Error for OpError {}

/// The peer violated the protocol. Nothing changed here. A correct peer never causes this, so the session
/// is worthless now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Stream bytes beyond the window granted to the stream.
    BeyondStreamWindow,
    /// Stream bytes or messages beyond the window granted to the bundle.
    BeyondBundleWindow,
    /// A stream's end moved, or bytes came behind it.
    FinalSize,
    /// A stream that only this end could have opened, and did not.
    UnknownStream,
    /// Far more streams than may be open.
    TooManyStreams,
    /// More message flows than there may be.
    TooManyFlows,
    /// A unit's length is out of range, or differs from an earlier piece's.
    UnitLength,
    /// A message that is not well formed.
    BadMessage,
    /// Pieces so small and scattered that remembering them would cost too much.
    TooScattered,
    /// More memory operations at once than there may be.
    TooManyOperations,
    /// A memory operation that was never begun.
    UnknownOperation,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::BeyondStreamWindow => "stream bytes beyond the stream's window",
            Violation::BeyondBundleWindow => "bytes beyond the bundle's window",
            Violation::FinalSize => "the end of a stream moved",
            Violation::UnknownStream => "a stream that was never opened",
            Violation::TooManyStreams => "too many streams",
            Violation::TooManyFlows => "too many message flows",
            Violation::UnitLength => "length of a frame or message out of range or changed",
            Violation::BadMessage => "malformed message",
            Violation::TooScattered => "too many separate pieces",
            Violation::TooManyOperations => "too many memory operations",
            Violation::UnknownOperation => "a memory operation that was never begun",
        })
    }
}

impl core::error::Error for Violation {}

/// Counters since the bundle began (they survive [`reset`](super::Ops::reset)), and current state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpStats {
    /// Segments written, of anything, first time or not.
    pub segments_sent: u64,
    /// Of them, lost content carried again.
    pub segments_resent: u64,
    /// Of them, second copies for mirroring or rescue.
    pub segments_mirrored: u64,
    /// Frames sent at least once completely.
    pub frames_sent: u64,
    /// Frames handed over in order.
    pub frames_delivered: u64,
    /// Frames whose turn had passed when they arrived, complete or in part (pieces counted).
    pub frame_pieces_late: u64,
    /// Frames this end as sender did not resend any more since they were too old.
    pub frames_given_up: u64,
    /// Frames this end as receiver did not wait for any more.
    pub frames_skipped: u64,
    /// Frames dropped since memory was short (see [`OpLimits::frame_reassembly_bytes`](super::OpLimits)).
    pub frames_dropped: u64,
    /// Frames this end as sender dropped since all of their flow had waited too long
    /// ([`STANDING_DROP_AFTER`](super::STANDING_DROP_AFTER)).
    pub frames_overdue: u64,
    /// Frames this end as sender dropped to make room for others: their flow held most of a
    /// queue that was full and standing.
    pub frames_crowded_out: u64,
    /// Pieces that had arrived before.
    pub pieces_duplicate: u64,
    /// Memory operations of the peer's that were refused.
    pub accesses_refused: u64,
    /// Messages handed over.
    pub messages_delivered: u64,
    /// Messages acknowledged by the peer.
    pub messages_acked: u64,
    /// Stream bytes handed to readers.
    pub stream_bytes_read: u64,
    /// Streams of the peer refused since too many were open.
    pub streams_refused: u64,
    /// Streams that count as nobody's, because there were too many owners
    /// ([`OWNERS_MAX`](super::OWNERS_MAX)).
    pub owners_full: u64,
    /// Streams open now.
    pub streams_open: u64,
    /// Streams whose FIN or RESET, or data before it, is unacknowledged now.
    pub ends_owed: u64,
    /// Bytes sent and neither acknowledged nor given up now.
    pub in_flight_bytes: u64,
}
