//! Records: the content of an opened session packet. A packet is a sequence of records to its end; a malformed one
//! makes the rest of the packet void (records before it count).

use super::Reader;

/// Words of the acknowledgement bitmap at most: 1024 packets behind the newest.
pub const ACK_WORDS_MAX: usize = 16;

/// What arrived on one path: the newest packet number and a bitmap of those
/// before it (paper 000, section 4: "next wanted plus bitmap", turned round so
/// that a hole that is never filled does not hold the window).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The path whose packets these are.
    pub path: u8,
    /// The highest packet number that arrived.
    pub largest: u64,
    /// How long `largest` waited for this acknowledgement, in microseconds (saturates at 65,535).
    pub delay_us: u16,
    /// When `largest` arrived, by the sender's clock, in microseconds modulo 2^32. Only differences matter: they
    /// distinguish a queue on the way there from one on the way back (the idea of LEDBAT, RFC 6817 section 2.4.1).
    pub arrived_us: u32,
    /// Number of valid `words` (0 to [`ACK_WORDS_MAX`]); older packets are not covered.
    pub word_count: u8,
    /// Zero beyond `word_count`. Bit `i` (least significant first) of word `w` stands for packet `largest − 1 − (64·w + i)`.
    pub words: [u64; ACK_WORDS_MAX],
}

/// An end's verdict on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LinkVerdict {
    /// It works as far as this end can tell.
    Up = 0,
    /// It failed; only probes may be sent on it.
    Down = 1,
}

/// The witness of a path's failure or return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Witness {
    /// Packets the peer says it sent on this path did not come while others came (paper 000, section 4).
    ArrivalSkew = 0,
    /// Packets sent on this path stay unacknowledged while other paths progress.
    UnackedAge = 1,
    /// The kernel says that the link is down, or its address is gone.
    KernelLink = 2,
    /// Probes went unanswered while nothing else was sent.
    ProbeTimeout = 3,
    /// The peer said so.
    Peer = 4,
    /// Probes are answered again (only with [`LinkVerdict::Up`]).
    ProbesAnswered = 5,
}

/// Class of a unit, and so its guarantees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum UnitClass {
    /// A packet of the virtual NIC: ordered per flow, given up when it is too late.
    Frame = 0,
    /// A reliable message: ordered per flow, never given up while the bundle lives.
    Message = 1,
}

/// A piece of a unit (a frame or a message).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitSegment<'a> {
    /// Frame or message.
    pub class: UnitClass,
    /// The flow it is ordered in (frames: 0 to 255).
    pub flow: u32,
    /// The unit's number in its flow, from 0, wrapping.
    pub sequence: u32,
    /// Offset of `data` in the unit.
    pub offset: u32,
    /// Length of the whole unit in bytes; 1 to the class's limit.
    pub total: u32,
    /// The bytes; never empty.
    pub data: &'a [u8],
}

/// A piece of a byte stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSegment<'a> {
    /// The stream, below 2^62.
    pub id: u64,
    /// Offset of `data` in the stream.
    pub offset: u64,
    /// Whether the stream ends behind `data`.
    pub fin: bool,
    /// Whether more is there behind `data` and waits for the stream's window; never with `fin`.
    pub held: bool,
    /// The service that the stream was opened for; present exactly when `offset` is 0.
    pub service: Option<u32>,
    /// The bytes; empty only with `fin` or at offset 0.
    pub data: &'a [u8],
}

/// One record of an opened packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// Nothing, to the end of the packet: path MTU probes are this long.
    Padding,
    /// What arrived on one path. May travel on any path.
    Ack(Ack),
    /// "In flight counts": the next number the sender will use on `path`, so that the
    /// receiver can tell what should have come (the arrival-skew witness, paper 000).
    Sent {
        /// The path spoken of.
        path: u8,
        /// The next packet number on it.
        next_number: u64,
    },
    /// Must be answered at once, on the path it came on.
    Probe {
        /// Repeated in the answer.
        token: u32,
    },
    /// The answer to [`Record::Probe`].
    ProbeReply {
        /// The probe's token.
        token: u32,
        /// Length of the UDP payload that carried the probe, in bytes: proof of that path MTU.
        datagram_bytes: u16,
    },
    /// This end's verdict on a path; repeated until confirmed.
    LinkState {
        /// The path spoken of.
        path: u8,
        /// Counts the sender's verdicts on this path; an older one than known is ignored.
        generation: u32,
        /// The verdict.
        verdict: LinkVerdict,
        /// The witness.
        witness: Witness,
    },
    /// Confirms [`Record::LinkState`].
    LinkStateAck {
        /// The path spoken of.
        path: u8,
        /// The generation confirmed.
        generation: u32,
    },
    /// A piece of a stream.
    Stream(StreamSegment<'a>),
    /// The sender aborts the stream; nothing more of it comes.
    StreamReset {
        /// The stream, below 2^62.
        id: u64,
        /// The application's reason.
        code: u32,
        /// How many bytes of the stream count against the bundle's window.
        final_offset: u64,
    },
    /// The receiver wants no more of the stream.
    StreamStop {
        /// The stream, below 2^62.
        id: u64,
        /// The application's reason.
        code: u32,
    },
    /// The stream may carry bytes up to `limit`.
    StreamWindow {
        /// The stream, below 2^62.
        id: u64,
        /// First offset that may not be sent.
        limit: u64,
        /// How far `limit` is ahead of what was read; at most `limit`.
        window: u64,
    },
    /// All streams together may have used `limit` bytes since the bundle began.
    BundleWindow {
        /// First byte that may not be sent.
        limit: u64,
        /// How far `limit` is ahead of what was read; at most `limit`.
        window: u64,
    },
    /// All messages together may have used `limit` bytes since the bundle began.
    MessageWindow {
        /// First byte that may not be sent.
        limit: u64,
        /// How far `limit` is ahead of what was fetched; at most `limit`.
        window: u64,
    },
    /// A piece of a frame or message.
    Unit(UnitSegment<'a>),
    /// The sender ends the bundle in order; the receiver forgets it.
    Close {
        /// Why: 0 the node stops, 1 the peer was removed from the configuration.
        code: u32,
    },
    /// Several peers send bulk to this record's sender on this link: the receiver may send this much there, until
    /// another grant or for a while.
    Grant {
        /// The path spoken of.
        path: u8,
        /// Thousands of bytes per second, of UDP payload; `u32::MAX` for no limit yet.
        kb_per_s: u32,
    },
    /// The answer to [`Record::Grant`], while content is sent there: how long packets wait
    /// in queues on their way.
    Waited {
        /// The path spoken of.
        path: u8,
        /// The shortest wait lately, in microseconds (saturates).
        queue_us: u16,
    },
    /// A later feature (`docs/protocol.md`, 7.11). Receivers skip unknown ones.
    Extension {
        /// Its type, 0x40 to 0x7f.
        code: u8,
        /// Its content.
        data: &'a [u8],
    },
}

impl Record<'_> {
    /// Whether a program (or the virtual NIC) waits for this: all else is between the nodes.
    pub const fn is_content(&self) -> bool {
        if let Record::Extension { code, .. } = self {
            return Record::is_content_extension(*code);
        }
        matches!(
            self,
            Record::Unit(_)
                | Record::Stream(_)
                | Record::StreamReset { .. }
                | Record::StreamStop { .. }
        )
    }

    /// Whether the sender wants an acknowledgement: for content, windows and probes yes; for records that are repeated
    /// until confirmed no.
    pub const fn is_ack_eliciting(&self) -> bool {
        self.is_content()
            || matches!(
                self,
                Record::Probe { .. }
                    | Record::StreamWindow { .. }
                    | Record::BundleWindow { .. }
                    | Record::MessageWindow { .. }
            )
    }
}

/// The records of one opened packet, in order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    pub(super) reader: Reader<'a>,
}

impl<'a> Records<'a> {
    /// The records of an opened packet's `payload`.
    pub const fn new(payload: &'a [u8]) -> Records<'a> {
        Records {
            reader: Reader::new(payload),
        }
    }
}
