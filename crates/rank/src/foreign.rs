//! Entry points to the parsers of other processes' bytes, for `fuzz` only.
//!
//! Parsed data is returned re-encoded, so that a test can compare both.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tabane_proto::Time;

use crate::local::{Called, Keyed, Local, PROBE_BYTES, Reader, Record, Writer};
use crate::wire::Head;
use crate::{
    Access, Address, Atomic, Endpoint, Number, Operation, Peer, Piece, Receive, Remote, Send,
    Settings, SharedMemory, Ticket, Transfer, Until,
};

const KEY: [u8; 32] = [5; 32];
const LINK: (u8, IpAddr) = (0, IpAddr::V4(Ipv4Addr::LOCALHOST));
/// Guard bytes around memory that a peer may write.
const MARGIN: usize = 64;
/// Bytes of each piece of memory that a peer may have something to do with.
const ROOM: usize = 20_000;
const UNTOUCHED: u8 = 0xa5;
/// The tag of messages that are waited for.
const TAG: u64 = 1;

/// The head of a message of the bundle, and the bytes behind it.
pub fn head(message: &[u8]) -> Option<Vec<u8>> {
    let (head, begin) = Head::read(message)?;
    Some([head.write().as_slice(), &message[begin..]].concat())
}

/// A record of a ring: its kind, its words, and the bytes behind them.
pub fn record(kind: u32, body: &[u8]) -> Option<(u32, Vec<u8>)> {
    let (record, begin) = Record::read(kind, body)?;
    let (kind, words) = record.write();
    Some((kind, [words.as_slice(), &body[begin..]].concat()))
}

/// Parses the hello of a process that hands over a ring, after its proof of the key.
pub fn hello(body: &[u8]) -> Option<Vec<u8>> {
    let keyed = Keyed::new(&KEY);
    let to = Address::new(&[LINK], 1, 1).ok()?;
    let hello = keyed.read(&keyed.prove(body, &to), &to)?;
    Some(hello.body())
}

/// A hello as it comes: whether it was believed.
pub fn is_hello(message: &[u8]) -> bool {
    let to = Address::new(&[LINK], 1, 1);
    to.is_ok_and(|to| Keyed::new(&KEY).read(message, &to).is_some())
}

/// A ring, in which the other end may write anywhere.
pub struct Ring {
    writer: Writer,
    reader: Reader,
}

impl Ring {
    /// A new one; none: the system has no memory left.
    pub fn new() -> Option<Ring> {
        let (writer, file) = Writer::create().ok()?;
        let reader = Reader::open(&file).ok()?;
        Some(Ring { writer, reader })
    }

    /// Writes a record as its writer does. Whether it found room; none: the reader has broken the ring.
    pub fn write(&mut self, kind: u32, body: &[u8]) -> Option<bool> {
        self.writer.write(kind, core::iter::once(body)).ok()
    }

    /// Reads a record as its reader does; none: the writer has broken the ring.
    pub fn read(&mut self) -> Option<Option<(u32, Vec<u8>)>> {
        let mut body = Vec::new();
        let kind = self.reader.read(&mut body).ok()?;
        self.reader.tell();
        Some(kind.map(|kind| (kind, body)))
    }

    /// Overwrites the memory at `at` with these bytes, as far as it reaches.
    pub fn scribble(&mut self, at: usize, bytes: &[u8]) {
        self.writer.scribble(at, bytes);
    }
}

/// An endpoint with all kinds of operations under way, and a hostile process of its node that has the key.
pub struct Neighbour {
    end: Endpoint,
    local: Local,
    slot: usize,
    /// The endpoint's memory that others may write, may read, and for messages; with guard bytes.
    rooms: [Vec<u8>; 3],
    /// Destinations of the endpoint's own requests.
    asked: [Vec<u8>; 3],
}

fn inner(room: &mut [u8]) -> Piece {
    let part = &mut room[MARGIN..MARGIN + ROOM];
    Piece {
        base: part.as_mut_ptr(),
        bytes: part.len(),
    }
}

fn room() -> Vec<u8> {
    vec![UNTOUCHED; ROOM + 2 * MARGIN]
}

fn has_margins(room: &[u8]) -> bool {
    let (front, rest) = room.split_at(MARGIN);
    let is_untouched = |part: &[u8]| part.iter().all(|byte| *byte == UNTOUCHED);
    is_untouched(front) && is_untouched(&rest[ROOM..])
}

impl Neighbour {
    /// Both; none: the system has no such sockets, or no descriptor left.
    pub fn new() -> Option<Neighbour> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let settings = Settings {
            links: vec![LINK],
            key: KEY,
            encrypted: true,
            ports: 20_000..=60_000,
            peer_timeout: Duration::from_secs(60),
            eager_bytes: 4096,
            unexpected_bytes: 16 * 1024,
            shared_memory: SharedMemory::Pull,
            bundles_max: None,
        };
        let end = Endpoint::open(&settings).ok()?;
        let own = COUNT.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(std::process::id());
        let own = Address::new(&[LINK], 1, own).ok()?;
        let mut local = Local::open(&KEY, &own, [1; PROBE_BYTES], true).ok()?;
        let Called::At(slot) = local.call(Time::ZERO, Peer(1), end.address(), None) else {
            return None;
        };
        let mut neighbour = Neighbour {
            end,
            local,
            slot,
            rooms: [room(), room(), room()],
            asked: [room(), room(), room()],
        };
        neighbour.turn();
        neighbour.begin(&own)?;
        Some(neighbour)
    }

    /// Lets others at memory, and has one operation of each kind under way to the neighbour.
    fn begin(&mut self, to: &Address) -> Option<()> {
        let mut core = self.end.lock();
        let peer = core.peer(to);
        let [written, read, received] = self.rooms.each_mut().map(|room| inner(room));
        let [out, back, before] = self.asked.each_mut().map(|room| inner(room));
        let ticket = Ticket::default();
        let access = |remote_write| Access {
            remote_read: true,
            remote_write,
            is_told: false,
        };
        let receive = Receive {
            from: None,
            tag: Some((TAG, 0)),
            pieces: &[received],
            multi: None,
            ticket,
        };
        let send = Send {
            to: peer,
            tag: Some(TAG),
            data: None,
            pieces: &[out],
            inject: false,
            until: Until::Delivered,
            ticket,
        };
        let transfer = |pieces| Transfer {
            peer,
            remote: Remote { offset: 0, key: 1 },
            pieces,
            data: None,
            inject: false,
            ticket,
        };
        let (out, back, word) = ([out], [back], [Piece { bytes: 8, ..before }]);
        let atomic = Atomic {
            peer,
            remote: Remote { offset: 0, key: 1 },
            operation: Operation::Sum,
            number: Number::U64,
            operand: &word,
            compare: None,
            result: Some(&word),
            ticket,
        };
        // SAFETY: all of it is memory of `self`, which nobody else uses and which outlives the endpoint's work: the endpoint is
        // dropped first.
        unsafe {
            core.register(1, written, access(true), 0).ok()?;
            core.register(2, read, access(false), 0).ok()?;
            core.receive(&receive).ok()?;
            core.send(&send).ok()?;
            core.write(&transfer(&out)).ok()?;
            core.read(&transfer(&back)).ok()?;
            core.atomic(&atomic).ok()
        }
    }

    /// Sends something from the neighbour. Returns whether there was room.
    pub fn say(&mut self, kind: u32, body: &[u8]) -> bool {
        let said = self.local.say(self.slot, kind, core::iter::once(body));
        said.unwrap_or(false)
    }

    /// Lets both process what has come.
    pub fn turn(&mut self) {
        let mut core = self.end.lock();
        core.progress();
        while core.completion().is_some() {}
        drop(core);
        for caller in self.local.callers(Time::ZERO) {
            self.local
                .admit(Time::ZERO, Peer(1), Some(self.slot), caller);
        }
        let mut body = Vec::new();
        while let Ok(Some(_)) = self.local.read(self.slot, &mut body) {}
        self.local.tell(self.slot);
    }

    /// Whether the guard bytes are intact.
    pub fn is_unharmed(&self) -> bool {
        let read_only = self.rooms[1].iter().all(|byte| *byte == UNTOUCHED);
        let mut all = self.rooms.iter().chain(&self.asked);
        read_only && all.all(|room| has_margins(room))
    }
}

impl Drop for Neighbour {
    /// Else the endpoint would wait for its answers.
    fn drop(&mut self) {
        self.local.close();
    }
}
