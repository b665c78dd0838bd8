//! Limits and constants of the bundle's content. The protocol constants must be the same at both ends; the
//! fields of [`OpLimits`] are each end's own.

use core::time::Duration;

use crate::GRANULARITY;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::time::{part, times};

/// How long a complete frame waits at most for an earlier one of its flow. A path that fails silently is found out within
/// 25 ms, and what it lost is resent at once; this leaves room for a second round trip.
pub const FRAME_WAIT: Duration = Duration::from_millis(60);
/// How long after all of it was sent once a frame's lost pieces are still resent. Later than that, the program's own
/// protocol has noticed: CoDel's interval is the longest round trip of such a protocol, too (RFC 8289 section 4.2).
pub const FRAME_LIFETIME: Duration = STANDING_AFTER;
/// Frames of one flow that may wait at the receiver, the missing ones included:
/// 25 ms of small frames at 2.5 million a second.
pub const FRAME_SPAN_MAX: u32 = 65_536;

/// A frame that waited longer than this to be sent is late. If all frames of a flow are late for
/// [`STANDING_AFTER`], its queue is standing (target and interval of CoDel, RFC 8289 section 4.2). On 1 Gb/s
/// the read-ahead takes less.
pub const LATE: Duration = Duration::from_millis(5);
/// See [`LATE`].
pub const STANDING_AFTER: Duration = Duration::from_millis(100);
/// If for as long as this all frames of a flow have waited longer than this, one is dropped to slow their sender down: for
/// five intervals. A link that hangs for a moment does not bring that about.
pub const STANDING_DROP_AFTER: Duration = times(STANDING_AFTER, 5);
/// Not if fewer of its frames than this wait behind the one to be dropped: their
/// acknowledgements show TCP its loss without a timeout (RFC 5681 section 3.2).
pub const FRAMES_KEPT: usize = 3;

/// Bytes that a TCP connection inside of frames keeps in flight, as far as one can tell from outside: with
/// Linux's default limit (the last number of `tcp_wmem`, 4 MB, which counts the kernel's memory and not the
/// bytes in it) 2.5 MB were seen. Paths that would delay it longer than this can fill are not used.
pub const FRAME_WINDOW_BYTES: u64 = 5 * 1024 * 1024 / 2;

/// Bytes behind a message's data that say whether it has a tag, and which.
pub const MESSAGE_TRAILER_BYTES_MAX: usize = 9;
/// Longest message in bytes, so that its unit is at most [`MESSAGE_BYTES_MAX`] with any trailer.
pub const MESSAGE_DATA_BYTES_MAX: usize = MESSAGE_BYTES_MAX - MESSAGE_TRAILER_BYTES_MAX;
/// What a message costs of the bundle's window beside its bytes: about what the receiver needs to remember
/// one.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 256;
/// Message flows that a bundle has at most, each way. They are never forgotten.
pub const MESSAGE_FLOWS_MAX: usize = 65_536;

/// Window of a stream before any [`StreamWindow`](crate::wire::Record::StreamWindow) for it: what two links
/// of 1 Gb/s carry in a round trip of 250 µs.
pub const STREAM_WINDOW_BYTES_INITIAL: u64 = 64 * 1024;
/// The least that the window of a stream with a slow reader shrinks to.
pub const STREAM_WINDOW_BYTES_MIN: u64 = STREAM_WINDOW_BYTES_INITIAL / STREAM_PART;
/// A reader who takes a window's worth in half of [`READ_SLOW`], or less, is worth a larger window…
pub const READ_FAST: Duration = part(READ_SLOW, 2);
/// …and one who takes longer than this a smaller one. A stream of which the peer has read something within this time may use
/// all of the bundle's window, others only what is not kept in reserve ([`STREAM_PART`]).
pub const READ_SLOW: Duration = Duration::from_secs(1);
/// An application that has not gone on for this long is not about to. What a reader has taken until then is told, if it is
/// [`REPORT_BYTES`] or more or room is scarce: the sender counts it as unread until then. Room that a writer was offered
/// and has not used by then is another's.
pub const REPORT_AFTER: Duration = Duration::from_millis(100);
/// Less read than this is not worth a record, and less room than this is not worth waking a writer, unless it wanted less.
pub const REPORT_BYTES: u64 = 4 * 1024;
/// Of what is left of half of the reserve, a new stream may have one in so many.
pub const NEWCOMERS_PART: u64 = 64;
/// What is written to one stream and not read by the peer may be one in so many bytes of what all others leave of the
/// bundle's window (the dynamic threshold of Choudhury and Hahne, 1998). One in so many bytes of the window is kept in
/// reserve for streams that are read, one in so many of what may be kept for all streams may be written beyond what the
/// peer admits, and one in so many of what is granted for streams may be granted for messages beside.
pub const STREAM_PART: u64 = 4;
/// What is written to one stream beyond what the peer admits is no more than this: it goes in one turn when the peer
/// admits more, while the application wakes up.
pub const AHEAD_BYTES_MAX: u64 = TURN_BYTES as u64;
/// So much is taken of a stream of which the peer has read all else, though all streams together keep
/// as much as they may: what a new one is for is said there, and whoever reads it is seen to read.
pub const STREAM_FIRST_BYTES: u64 = USEFUL_BYTES as u64;
/// Room that is offered to one writer at a time, at most: one turn.
pub const OFFER_BYTES_MAX: u64 = TURN_BYTES as u64;
/// Writers that are looked at, and may be woken, at one time. The others have their turn with the next acknowledgement, or
/// after [`OFFERS_AGAIN`].
pub const OFFERS_MAX: usize = 64;
/// See [`OFFERS_MAX`].
pub const OFFERS_AGAIN: Duration = GRANULARITY;
/// Owners of streams that are told apart with one peer; the streams of more count as nobody's.
pub const OWNERS_MAX: usize = 4096;
/// Streams that may have been opened since the oldest one whose opening the peer has not acknowledged. One
/// packet can make the peer create this many streams, 1 MB of memory.
pub const OPENS_MAX: u64 = 1024;
/// Window of the bundle's streams before any [`BundleWindow`](crate::wire::Record::BundleWindow), and of its
/// messages before any [`MessageWindow`](crate::wire::Record::MessageWindow); also the least that a receiver
/// grants for each. For a node that can grant no more, a thousand peers cost 512 MB if all of them send and
/// nobody reads.
pub const BUNDLE_WINDOW_BYTES_INITIAL: u64 = 256 * 1024;
/// Grant for messages if the peer may hold that much: the largest message must fit into four fifths of it,
/// the least that is open when all was fetched.
pub const MESSAGE_WINDOW_BYTES: u64 = 2 * 1024 * 1024;
const _: () =
    assert!(MESSAGE_WINDOW_BYTES / 5 * 4 >= MESSAGE_BYTES_MAX as u64 + MESSAGE_OVERHEAD_BYTES);
/// The code of a stream that the receiver refuses since too many are open.
pub const CODE_REFUSED: u32 = u32::MAX;

/// Maximum number of separate ranges that have arrived of one stream or unit. A sender whose pieces are
/// packets cannot come near.
pub const RANGES_MAX: usize = 16_384;

/// Memory for the gaps of all streams of a peer, in bytes: a million gaps.
pub const STREAM_GAPS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The least useful room: a piece is cut to fit the rest of a packet only if this much goes in.
pub const USEFUL_BYTES: usize = 64;
/// What one stream or flow sends in a turn: one burst.
pub const TURN_BYTES: usize = 64 * 1024;
/// A stream or flow that had nothing to send for a while sends this much ahead of the others (the new flows of FQ-CoDel, RFC
/// 8290 section 4.2). While a queue stands every flow sends this much in its turn.
pub const FRESH_BYTES: usize = 3_000;
/// Largest lone content that [`Policy::Auto`](super::Policy::Auto) mirrors.
pub const MIRROR_BYTES: usize = 1_600;
/// [`Policy::Auto`](super::Policy::Auto) mirrors only while no more than this is in flight.
pub const MIRROR_IN_FLIGHT_BYTES: usize = 8 * 1024;

/// What one end grants its bundle with one peer. The defaults cost at most about 450 MB, if the peer and a
/// local program do their worst together, plus less than 1 KB for each stream; next to nothing when idle and
/// [trimmed](super::Ops::trim).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpLimits {
    /// Frames accepted and not yet sent, in bytes; [`send_frame`](super::Ops::send_frame) gives a
    /// frame back beyond it, unless a queue is standing: then the flow that holds most loses its
    /// oldest. Default 4 MB. At least one frame is always accepted.
    pub frame_queue_bytes: usize,
    /// Frames held until acknowledged or too old, in bytes of memory. Default 32 MB.
    pub frame_held_bytes: usize,
    /// Frames being rejoined or waiting for earlier ones, in bytes of memory; over it
    /// the oldest gap is given up. Default 32 MB.
    pub frame_reassembly_bytes: usize,
    /// Messages accepted and not yet acknowledged, in bytes of memory: a short one takes 512. Default 16 MB.
    pub message_queue_bytes: usize,
    /// Bytes written to one stream and not yet acknowledged. Default 8 MB.
    pub stream_send_bytes: usize,
    /// Bytes written to one stream and not yet sent, at most; 1 MB while the application writes in time.
    /// Default 4 MB: with less, a process that is kept from the processor for 80 ms leaves two links
    /// of 1 Gb/s idle.
    pub stream_queue_bytes: usize,
    /// Bytes written to all streams and not yet acknowledged. Default 64 MB.
    pub streams_send_bytes: usize,
    /// The largest window of a stream whose reader keeps up, but no more than an eighth of the bundle's
    /// grant. Default 8 MB.
    pub stream_window_bytes_max: u64,
    /// The bundle's window: all unread bytes of streams together, and a quarter as much of messages; see
    /// [`set_share`](super::Ops::set_share). Default 128 MB.
    pub bundle_window_bytes: u64,
    /// Streams that may be open at once, opened by this end, and again by the peer. Default 65,536.
    pub streams_max: usize,
    /// Empty buffers kept for use again. Default 16 MB.
    pub pool_bytes: usize,
    /// Unread bytes of streams and messages of all peers of a node: each peer is granted half of what the
    /// others leave. Earlier grants do not count, so that a few of many peers get as much as they need; so a
    /// thousand peers together can exceed it. Default 256 MB.
    pub node_unread_bytes: u64,
    /// Bytes kept for sending to all peers of a node, of streams, messages and frames: each peer has half of
    /// what the others leave. Default 256 MB.
    pub node_send_bytes: u64,
    /// Frames being rejoined or waiting for earlier ones, of all peers of a node. Default 64 MB.
    pub node_reassembly_bytes: u64,
    /// Empty buffers kept for use again for all peers of a node. Default 64 MB.
    pub node_pool_bytes: u64,
}

/// What a bundle holds, or may hold, in bytes: arrived and unread; kept for sending; frames being
/// reassembled; empty buffers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Holdings(pub [u64; Holdings::COUNT]);

impl Holdings {
    /// How many kinds there are.
    pub const COUNT: usize = 4;
}

impl OpLimits {
    /// What all bundles of a node may hold together.
    pub const fn of_node(&self) -> Holdings {
        Holdings([
            self.node_unread_bytes,
            self.node_send_bytes,
            self.node_reassembly_bytes,
            self.node_pool_bytes,
        ])
    }

    /// The most of each that a bundle can use.
    pub fn of_peer(&self) -> Holdings {
        let sent = self.streams_send_bytes.max(self.message_queue_bytes);
        Holdings([
            self.bundle_window_bytes,
            sent.max(self.frame_held_bytes) as u64,
            self.frame_reassembly_bytes as u64,
            2 * self.pool_bytes as u64,
        ])
    }

    /// The peer's grant for messages under way or unread, in bytes, if it has all of
    /// [`bundle_window_bytes`](OpLimits::bundle_window_bytes) for streams.
    pub fn message_window_bytes(&self) -> u64 {
        messages_in(self.bundle_window_bytes)
    }
}

/// The grant for messages beside a grant of `share` for streams.
pub(super) fn messages_in(share: u64) -> u64 {
    (share / STREAM_PART).max(share.min(MESSAGE_WINDOW_BYTES))
}

impl Default for OpLimits {
    fn default() -> OpLimits {
        const MB: usize = 1024 * 1024;
        OpLimits {
            frame_queue_bytes: 4 * MB,
            frame_held_bytes: 32 * MB,
            frame_reassembly_bytes: 32 * MB,
            message_queue_bytes: 16 * MB,
            stream_send_bytes: 8 * MB,
            stream_queue_bytes: 4 * MB,
            streams_send_bytes: 64 * MB,
            stream_window_bytes_max: 8 * MB as u64,
            bundle_window_bytes: 128 * MB as u64,
            streams_max: 65_536,
            pool_bytes: 16 * MB,
            node_unread_bytes: 256 * MB as u64,
            node_send_bytes: 256 * MB as u64,
            node_reassembly_bytes: 64 * MB as u64,
            node_pool_bytes: 64 * MB as u64,
        }
    }
}
