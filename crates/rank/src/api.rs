//! The types by which a door (libfabric, VIPL) uses an endpoint.

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::net::IpAddr;

use crate::Address;

/// Bytes that are sent out of the caller's memory before the call returns, at most; it may be used again then.
pub const INJECT_BYTES_MAX: usize = 4096;
/// Bytes of one operation at most.
pub const OPERATION_BYTES_MAX: u64 = 1 << 40;
/// Pieces of memory that one operation may name.
pub const PIECES_MAX: usize = 16;
/// Bytes of one atomic operation's operand at most.
pub const ATOMIC_BYTES_MAX: usize = 1024;

/// How an endpoint is made.
#[derive(Clone)]
pub struct Settings {
    /// Addresses of this node's links, each with the number of its network: that has to be the same at every node.
    pub links: Vec<(u8, IpAddr)>,
    /// The job's shared key.
    pub key: [u8; 32],
    /// Whether packets are encrypted. All of a job agree.
    pub encrypted: bool,
    /// Range of UDP ports, of which one is taken.
    pub ports: RangeInclusive<u16>,
    /// A peer that is silent for this long, though a link works, is gone.
    pub peer_timeout: Duration,
    /// Messages up to this size are sent at once; longer ones are announced, and fetched when a buffer for them is there.
    pub eager_bytes: usize,
    /// The most bytes of unexpected messages that are kept for each peer.
    pub unexpected_bytes: usize,
    /// How endpoints of the same node talk.
    pub shared_memory: SharedMemory,
    /// The most bundles over links, if more endpoints than that are named (all of a job name the same ones and have the same
    /// limit): others are reached through relays. Bundles that are needed to reach all are kept in any case. `None`: one with
    /// each peer that is spoken with.
    pub bundles_max: Option<u16>,
}

/// How endpoints of the same node, network and user talk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SharedMemory {
    /// Over the loopback device.
    Off,
    /// Through memory that they share; all is copied into it.
    Copy,
    /// The same, but long messages are read from the memory of their process, where the system allows that.
    #[default]
    Pull,
}

/// An endpoint could not be made.
#[derive(Debug)]
pub enum OpenError {
    /// None of the addresses is one of this node's.
    NoLink(Vec<IpAddr>),
    /// Every port of the range is in use.
    NoPort(RangeInclusive<u16>),
    /// The system refused something.
    System(std::io::Error),
    /// The settings contradict each other.
    Settings(String),
}

/// Another endpoint, as this one numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer(pub u32);

/// A piece of the program's memory (as `struct iovec` has it).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Its first byte.
    pub base: *mut u8,
    /// Its length in bytes.
    pub bytes: usize,
}

/// What the poster of an operation gets back unchanged in its [`Completion`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticket {
    /// The program's context.
    pub context: usize,
    /// The door's own flags.
    pub flags: u64,
}

/// When a send or write counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The memory may be used again.
    Reusable,
    /// The peer has the message, whether a buffer waits for it or not; a long one when it is in its buffer, since it stays here
    /// until then.
    Arrived,
    /// The bytes are where they belong: in the receiver's buffer, or in the region.
    Delivered,
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Send<'a> {
    /// To whom.
    pub to: Peer,
    /// The tag for matching; `None`: for receivers of messages without a tag.
    pub tag: Option<u64>,
    /// Eight bytes that arrive in the receiver's completion.
    pub data: Option<u64>,
    /// The bytes.
    pub pieces: &'a [Piece],
    /// Copied before the call returns; at most [`INJECT_BYTES_MAX`] bytes.
    pub inject: bool,
    /// When it is done.
    pub until: Until,
    /// Comes back when it is done.
    pub ticket: Ticket,
}

/// A buffer for a message.
#[derive(Clone, Copy, Debug)]
pub struct Receive<'a> {
    /// Only from this one.
    pub from: Option<Peer>,
    /// The tag, and the bits of it that do not matter; none: for a message without one.
    pub tag: Option<(u64, u64)>,
    /// The destination. A longer message is truncated, and its completion says so.
    pub pieces: &'a [Piece],
    /// The buffer (of one piece) takes one message after the other, until fewer bytes than this are free.
    pub multi: Option<usize>,
    /// Comes back when it is done.
    pub ticket: Ticket,
}

/// What to do with a message that has arrived without a posted buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peek {
    /// It stays.
    Look,
    /// It is kept for [`Core::receive_claimed`].
    Claim,
    /// It is dropped.
    Discard,
}

/// Others' access rights to a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Others may read.
    pub remote_read: bool,
    /// Others may write. Atomic operations need both rights.
    pub remote_write: bool,
    /// Each access of others is reported ([`Ended::Written`], [`Ended::WasRead`]). Long reads by processes of the same node
    /// are then slower, because the owner sends the bytes.
    pub is_told: bool,
}

/// A place in a region of a peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Bytes from the beginning of the region, and its `origin` (see [`Core::register`]).
    pub offset: u64,
    /// The region's key.
    pub key: u64,
}

/// Memory to be written to or read from a peer's region.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// Whose region.
    pub peer: Peer,
    /// The place in the peer's region.
    pub remote: Remote,
    /// The memory here.
    pub pieces: &'a [Piece],
    /// Only of a write: eight bytes that arrive in a completion of the peer's when all else is there.
    pub data: Option<u64>,
    /// Only of a write: copied before the call returns; at most [`INJECT_BYTES_MAX`] bytes.
    pub inject: bool,
    /// Comes back when it is done. A write is done when the bytes are in the region.
    pub ticket: Ticket,
}

/// The number type of an atomic operation, in this machine's representation: all nodes are of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "each says what it is")]
pub enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    ComplexF32,
    ComplexF64,
    I128,
    U128,
}

impl Number {
    /// Its length.
    pub const fn bytes(self) -> usize {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 | Number::ComplexF32 => 8,
            Number::ComplexF64 | Number::I128 | Number::U128 => 16,
        }
    }
}

/// The operation (`fi_atomic(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is libfabric's of that name")]
pub enum Operation {
    Min,
    Max,
    Sum,
    Product,
    LogicalOr,
    LogicalAnd,
    BitOr,
    BitAnd,
    LogicalXor,
    BitXor,
    Read,
    Write,
    Swap,
    SwapNotEqual,
    SwapLessEqual,
    SwapLess,
    SwapGreaterEqual,
    SwapGreater,
    SwapMasked,
    Difference,
}

impl Operation {
    /// All operations, in libfabric's order, which is that of their codes on the wire.
    pub const ALL: [Operation; 20] = [
        Operation::Min,
        Operation::Max,
        Operation::Sum,
        Operation::Product,
        Operation::LogicalOr,
        Operation::LogicalAnd,
        Operation::BitOr,
        Operation::BitAnd,
        Operation::LogicalXor,
        Operation::BitXor,
        Operation::Read,
        Operation::Write,
        Operation::Swap,
        Operation::SwapNotEqual,
        Operation::SwapLessEqual,
        Operation::SwapLess,
        Operation::SwapGreaterEqual,
        Operation::SwapGreater,
        Operation::SwapMasked,
        Operation::Difference,
    ];

    /// The operation of this number.
    pub fn from_number(number: u32) -> Option<Operation> {
        Operation::ALL.get(number as usize).copied()
    }

    /// Whether it compares with something.
    pub const fn compares(self) -> bool {
        matches!(
            self,
            Operation::Swap
                | Operation::SwapNotEqual
                | Operation::SwapLessEqual
                | Operation::SwapLess
                | Operation::SwapGreaterEqual
                | Operation::SwapGreater
                | Operation::SwapMasked
        )
    }

    /// Whether the operation is defined for this type. (`Swap…` operations need a comparand.)
    pub const fn takes(self, number: Number) -> bool {
        let is_complex = matches!(number, Number::ComplexF32 | Number::ComplexF64);
        let is_float = is_complex || matches!(number, Number::F32 | Number::F64);
        match self {
            Operation::BitOr | Operation::BitAnd | Operation::BitXor | Operation::SwapMasked => {
                !is_float
            }
            Operation::Min
            | Operation::Max
            | Operation::SwapLessEqual
            | Operation::SwapLess
            | Operation::SwapGreaterEqual
            | Operation::SwapGreater => !is_complex,
            _ => true,
        }
    }
}

/// An atomic operation on a peer's region: on each number separately.
#[derive(Clone, Copy, Debug)]
pub struct Atomic<'a> {
    /// Whose region.
    pub peer: Peer,
    /// The place in the peer's region.
    pub remote: Remote,
    /// The operation.
    pub operation: Operation,
    /// With what.
    pub number: Number,
    /// The operand; at most [`ATOMIC_BYTES_MAX`] bytes. Copied before the call returns.
    pub operand: &'a [Piece],
    /// The comparands, of the same length; `None` if the operation has none.
    pub compare: Option<&'a [Piece]>,
    /// The destination of the old values; `None` if they are not wanted.
    pub result: Option<&'a [Piece]>,
    /// Comes back when it is done.
    pub ticket: Ticket,
}

/// An operation that could not be posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostError {
    /// Queues are full: try again after [`Core::progress`].
    Again,
    /// More bytes or pieces than an operation may have.
    TooLarge,
    /// No such peer.
    NoPeer,
    /// The arguments contradict each other.
    Invalid,
}

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It was cancelled.
    Cancelled,
    /// The buffer was too short for the message, by this many bytes.
    Truncated(u64),
    /// No message was there (of a [`Peek`]).
    NoMessage,
    /// The peer has no region of this key now.
    BadKey,
    /// The peer's region does not allow it.
    NoAccess,
    /// It goes beyond the peer's region.
    OutOfBounds,
    /// The peer is gone, or restarted.
    PeerGone,
    /// Nobody is at the peer's address, or there is no way to it.
    Unreachable,
    /// The numbers do not take the operation.
    Unsupported,
}

/// A peer that was given up: what waited for it has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Its address.
    pub address: Address,
    /// [`Failure::PeerGone`] or [`Failure::Unreachable`].
    pub why: Failure,
    /// It has called, and could not be understood.
    pub misfit: Option<Misfit>,
}

/// A setting in which a calling endpoint differs from this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// [`Settings::key`].
    Key,
    /// [`Settings::encrypted`].
    Wire,
    /// The protocol: it is of another version of this library.
    Version,
}

/// A kind of completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// A message of this end.
    Send,
    /// A message came; where it lies (of a [`Receive`] with `multi`, elsewhere than at the beginning), and whether that
    /// buffer takes no more.
    Receive {
        /// The address of its bytes, if they are contiguous.
        at: *mut u8,
        /// Whether this was the last message for its buffer.
        released: bool,
    },
    /// A [`Receive`] with `multi` takes no more, and no message came with that.
    Released,
    /// A [`Peek`].
    Peek,
    /// A write to a peer's region.
    Write,
    /// A read of a peer's region.
    Read,
    /// An atomic operation.
    Atomic,
    /// A peer has written to a region here, with `data` or because the region reports accesses: the ticket is nobody's.
    Written {
        /// The region's.
        key: u64,
    },
    /// A peer has read a region that reports accesses, or fetched by an atomic operation: the ticket is nobody's.
    WasRead {
        /// The region's.
        key: u64,
        /// Whether the atomic operation was one that writes, too.
        written: bool,
    },
}

/// Whom a message or write came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Nobody: the operation is this end's.
    Own,
    /// From one that [`Core::peer`] knows.
    Peer(Peer),
    /// From one that has called and was not named here.
    Stranger(Peer),
}

/// How an operation ended; told once for each that was posted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Completion {
    /// The poster's.
    pub ticket: Ticket,
    /// What ended.
    pub ended: Ended,
    /// Bytes that came, or were found by a [`Peek`].
    pub bytes: u64,
    /// The message's tag.
    pub tag: Option<u64>,
    /// The eight bytes sent with it.
    pub data: Option<u64>,
    /// From whom.
    pub source: Source,
    /// Whether, and why, it failed.
    pub failure: Option<Failure>,
}

// A completion points to memory of the program, which its threads share anyway.
// SAFETY: nothing is read or written through the pointer here.
unsafe impl core::marker::Send for Completion {}

/// Counters and current state: for the summary at the end, and for observers.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Of each link: its number, address, device, bytes sent and received, failures survived.
    pub links: Vec<LinkStatistics>,
    /// Peers that were spoken with.
    pub peers: usize,
    /// The most bundles over links at one time.
    pub bundles: usize,
    /// Memory held for them, in bytes.
    pub peer_bytes: usize,
    /// Bytes sent to endpoints of the same node through shared memory, without those that they read from this process
    /// directly.
    pub local_sent_bytes: u64,
    /// Bytes received from endpoints of the same node, likewise.
    pub local_received_bytes: u64,
    /// Packets sent again.
    pub packets_lost: u64,
    /// Accesses of others to regions here that were refused.
    pub refused_accesses: u64,
}

impl Statistics {
    /// A one-line summary for the endpoint of this address.
    pub fn summary(&self, address: &Address) -> String {
        let links = self.links.iter().map(|link| {
            format!(
                "link {} ({}) sent {} bytes, received {}, failed {} times; ",
                link.number, link.address, link.sent_bytes, link.received_bytes, link.failures
            )
        });
        let local = match (self.local_sent_bytes, self.local_received_bytes) {
            (0, 0) => String::new(),
            (sent, received) => format!("shared memory sent {sent} bytes, received {received}; "),
        };
        format!(
            "{address}: {}{local}{} peers, {} bundles, {} KB held for them, {} packets sent again, {} accesses refused",
            links.collect::<String>(),
            self.peers,
            self.bundles,
            self.peer_bytes / 1024,
            self.packets_lost,
            self.refused_accesses
        )
    }
}

/// What one link carried.
#[derive(Clone, Debug)]
pub struct LinkStatistics {
    /// Its number.
    pub number: u8,
    /// Its address.
    pub address: IpAddr,
    /// Whether the system says that it can be used.
    pub up: bool,
    /// Bytes of UDP payload sent.
    pub sent_bytes: u64,
    /// Bytes of UDP payload received.
    pub received_bytes: u64,
    /// Times that its path to some peer failed.
    pub failures: u64,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoLink(addresses) => {
                write!(f, "none of {addresses:?} is an address of this node")
            }
            OpenError::NoPort(ports) => write!(
                f,
                "every UDP port from {} to {} is in use",
                ports.start(),
                ports.end()
            ),
            OpenError::System(error) => error.fmt(f),
            OpenError::Settings(what) => f.write_str(what),
        }
    }
}

impl core::error::Error for OpenError {}

/// An endpoint's work; `Endpoint::lock` gives access.
pub trait Core {
    /// The number of the peer at `address`: the same each time.
    fn peer(&mut self, address: &Address) -> Peer;

    /// The address of a peer.
    fn address_of(&self, peer: Peer) -> Option<Address>;

    /// Forgets a peer; operations that are posted to it fail.
    fn forget(&mut self, peer: Peer);

    /// A peer that was given up and was not told of yet.
    fn lost(&mut self) -> Option<Lost> {
        None
    }

    /// From now on, notices the end of a peer even if nothing is wanted of it: [`lost`](Core::lost) reports it.
    fn watch(&mut self, peer: Peer);

    /// Wakes a waiter of the endpoint after this time even if nothing has ended, because there will be something to check.
    fn wake_after(&mut self, _after: Duration) {}

    /// Waits a moment until everything posted has arrived, and says goodbye to all. Operations that are not over by then, or
    /// are posted later, are cancelled.
    fn close(&mut self);

    /// Posts a message.
    ///
    /// # Errors
    /// [`PostError`].
    ///
    /// # Safety
    /// The pieces are memory of the program that stays readable until the completion, or, of one that is injected, until
    /// this returns.
    unsafe fn send(&mut self, send: &Send<'_>) -> Result<(), PostError>;

    /// Posts a buffer.
    ///
    /// # Errors
    /// [`PostError`].
    ///
    /// # Safety
    /// The pieces are memory of the program that stays writable, and is not used, until the completion.
    unsafe fn receive(&mut self, receive: &Receive<'_>) -> Result<(), PostError>;

    /// Looks for a message as `receive` would take (its pieces are not used); a [`Completion`] tells.
    ///
    /// # Errors
    /// [`PostError`].
    fn peek(&mut self, receive: &Receive<'_>, peek: Peek) -> Result<(), PostError>;

    /// Receives the message that was claimed with `ticket`'s context; or, without pieces, drops it.
    ///
    /// # Errors
    /// [`PostError::Invalid`]: none was.
    ///
    /// # Safety
    /// As of [`Core::receive`].
    unsafe fn receive_claimed(&mut self, pieces: &[Piece], ticket: Ticket)
    -> Result<(), PostError>;

    /// Cancels a posted buffer, or a send of which nothing has gone; its completion says so. Returns whether there was one.
    fn cancel(&mut self, context: usize) -> bool;

    /// Registers memory for others, under `key`. They address its first byte as `origin`: 0, or its address here.
    ///
    /// # Errors
    /// [`PostError::Invalid`]: the key is another region's, or the piece wraps around. [`PostError::Again`]: there are as many
    /// regions as may be.
    ///
    /// # Safety
    /// The piece is memory of the program until it is deregistered.
    unsafe fn register(
        &mut self,
        key: u64,
        piece: Piece,
        access: Access,
        origin: u64,
    ) -> Result<(), PostError>;

    /// Deregisters a region, from now on. Returns whether there was one.
    fn deregister(&mut self, key: u64) -> bool;

    /// Posts a write to a peer's region.
    ///
    /// # Errors
    /// [`PostError`].
    ///
    /// # Safety
    /// As of [`Core::send`].
    unsafe fn write(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError>;

    /// Posts a read of a peer's region.
    ///
    /// # Errors
    /// [`PostError`].
    ///
    /// # Safety
    /// As of [`Core::receive`].
    unsafe fn read(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError>;

    /// Posts an atomic operation.
    ///
    /// # Errors
    /// [`PostError`].
    ///
    /// # Safety
    /// The operands are readable now; where the result goes is as of [`Core::receive`].
    unsafe fn atomic(&mut self, atomic: &Atomic<'_>) -> Result<(), PostError>;

    /// Takes in arrivals and sends what is posted. Never waits.
    fn progress(&mut self);

    /// How the next operation ended.
    fn completion(&mut self) -> Option<Completion>;

    /// Counters so far.
    fn statistics(&self) -> Statistics;
}
