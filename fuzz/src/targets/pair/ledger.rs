//! What was promised, and what came of it.

use std::collections::BTreeMap;

use tabane_proto::LinkId;
use tabane_proto::StreamId;
use tabane_proto::op::{Message, Policy};

/// Bytes in front of messages and frames that say which it is.
pub const NUMBER_BYTES: usize = 4;

/// Byte `offset` of the content named `key`.
fn byte(key: u32, offset: u64) -> u8 {
    let word = (offset ^ u64::from(key) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 56) as u8
}

/// Bytes of the content named `key` from `offset` on.
pub fn content(key: u32, offset: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| byte(key, offset + i)).collect()
}

/// One direction of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    pub written: u64,
    pub read: u64,
    pub finished: bool,
    pub ended: bool,
    /// Reset, stopped or broken: what was not read yet may be lost.
    pub given_up: bool,
}

/// A stream; its place in the ledger is the service it was opened for.
#[derive(Clone, Debug)]
pub struct Stream {
    pub opener: usize,
    /// What each end calls it.
    pub ids: [Option<StreamId>; 2],
    /// By writer.
    pub ways: [Way; 2],
}

impl Stream {
    /// The name of what `writer` writes.
    pub fn key(service: usize, writer: usize) -> u32 {
        2 * service as u32 + writer as u32
    }
}

/// A message or a frame.
#[derive(Debug)]
struct Unit {
    from: usize,
    flow: u32,
    tag: Option<u64>,
    bytes: usize,
    arrived: bool,
    excused: bool,
}

/// Units of one kind; the place of one is its number.
#[derive(Debug, Default)]
pub struct Units {
    units: Vec<Unit>,
    /// The last that arrived, by sender and flow.
    last: BTreeMap<(usize, u32), u32>,
}

impl Units {
    /// The next one from here: its bytes.
    pub fn make(&self, bytes: usize) -> Vec<u8> {
        let number = self.units.len() as u32;
        let mut data = number.to_be_bytes().to_vec();
        data.extend(content(number, 0, bytes));
        data
    }

    /// It was accepted for sending.
    pub fn sent(&mut self, from: usize, flow: u32, tag: Option<u64>, bytes: usize) {
        self.units.push(Unit {
            from,
            flow,
            tag,
            bytes,
            arrived: false,
            excused: false,
        });
    }

    /// One arrived at `to`.
    pub fn arrived(&mut self, to: usize, flow: Option<u32>, tag: Option<u64>, data: &[u8]) {
        let (number, data) = data.split_first_chunk().expect("none is so short");
        let number = u32::from_be_bytes(*number);
        let unit = self.units.get_mut(number as usize);
        let unit = unit.expect("nobody sent it");
        assert_eq!(unit.from, 1 - to, "it came back to its sender");
        assert!(!unit.arrived, "{number} came twice");
        assert!(flow.is_none_or(|flow| flow == unit.flow));
        assert_eq!(tag, unit.tag);
        assert_eq!(data.len() + NUMBER_BYTES, unit.bytes);
        assert!(*data == content(number, 0, data.len()), "it was changed");
        unit.arrived = true;
        let before = self.last.insert((unit.from, unit.flow), number);
        assert!(
            before.is_none_or(|before| before < number),
            "{number} came after {before:?}"
        );
    }

    fn excuse(&mut self, may: impl Fn(usize) -> bool) {
        let units = self.units.iter_mut().filter(|unit| may(unit.from));
        units.for_each(|unit| unit.excused = true);
    }

    fn missing(&self) -> Option<(usize, &Unit)> {
        let mut units = self.units.iter().enumerate();
        units.find(|(_, unit)| !unit.arrived && !unit.excused)
    }
}

/// All that was promised.
#[derive(Debug, Default)]
pub struct Ledger {
    pub streams: Vec<Stream>,
    pub messages: Units,
    pub frames: Units,
    /// How often a node, or its bundle, began anew.
    pub restarts: usize,
    /// How often each end came to be connected.
    pub ups: [usize; 2],
}

impl Ledger {
    /// The stream opened `back` before the last one, if `side` knows it.
    pub fn stream(&self, side: usize, back: u8) -> Option<(usize, StreamId)> {
        let service = self.streams.len().checked_sub(usize::from(back) + 1)?;
        Some((service, self.streams[service].ids[side]?))
    }

    /// Whose stream `side` calls `id`: the last one, as a new bundle counts anew.
    pub fn find(&mut self, side: usize, id: StreamId) -> Option<&mut Stream> {
        let mut streams = self.streams.iter_mut().rev();
        streams.find(|stream| stream.ids[side] == Some(id))
    }

    /// A stream of `side` has this number from now on; one that had it is over, and was forgotten before
    /// a restart gave its number free.
    pub fn number(&mut self, side: usize, id: StreamId) {
        for stream in &mut self.streams {
            stream.ids[side].take_if(|old| *old == id);
        }
    }

    /// `side` begins anew and remembers nothing.
    pub fn restarted(&mut self, side: usize) {
        self.restarts += 1;
        self.messages.excuse(|_| true);
        for stream in &mut self.streams {
            stream.ids[side] = None;
            stream.ways[1 - side].read = 0;
            stream.ways[1 - side].ended = false;
            stream.ways.iter_mut().for_each(|way| way.given_up = true);
        }
    }

    /// What was begun before the first connection ends with it, too.
    fn may_break(&self, side: usize) -> bool {
        self.restarts > 0 || self.ups[side] <= 1
    }

    /// `side` was told that `id` is gone.
    pub fn broken(&mut self, side: usize, id: StreamId) {
        assert!(self.may_break(side), "{id:?} broke, and nobody restarted");
        if let Some(stream) = self.find(side, id) {
            stream.ids[side] = None;
            stream.ways.iter_mut().for_each(|way| way.given_up = true);
        }
    }

    /// `side` was told that messages may be lost.
    pub fn messages_broken(&mut self, side: usize) {
        assert!(self.may_break(side), "messages broke, and nobody restarted");
        self.messages.excuse(|from| from == side);
    }

    /// `side` was told of a stream of the other's.
    pub fn opened(&mut self, side: usize, id: StreamId, service: u32) {
        let stream = self.streams.get(service as usize);
        let stream = stream.expect("nobody opened it");
        assert_eq!(stream.opener, 1 - side);
        assert!(stream.ids[side].is_none(), "opened twice");
        self.number(side, id);
        self.streams[service as usize].ids[side] = Some(id);
    }

    /// `side` read this of a stream.
    pub fn read(&mut self, side: usize, service: usize, data: &[u8], fin: bool) {
        let way = &mut self.streams[service].ways[1 - side];
        let key = Stream::key(service, 1 - side);
        assert!(
            *data == content(key, way.read, data.len()),
            "other bytes than written at {} of stream {service}",
            way.read
        );
        way.read += data.len() as u64;
        assert!(way.read <= way.written);
        if fin {
            assert!(way.finished && way.read == way.written, "ends too early");
            way.ended = true;
        }
    }

    /// `side` read a message.
    pub fn message(&mut self, side: usize, message: &Message) {
        let flow = Some(message.flow);
        self.messages
            .arrived(side, flow, message.tag, &message.data);
    }

    fn unfinished(&self) -> Option<(usize, &Stream)> {
        let done =
            |way: &Way| way.given_up || (way.read == way.written && way.ended == way.finished);
        let mut streams = self.streams.iter().enumerate();
        streams.find(|(_, stream)| !stream.ways.iter().all(done))
    }

    pub fn is_complete(&self) -> bool {
        self.unfinished().is_none() && self.messages.missing().is_none()
    }

    pub fn check_complete(&self) {
        assert!(
            self.is_complete(),
            "never arrived: stream {:?}, message {:?}",
            self.unfinished(),
            self.messages.missing()
        );
    }
}

/// One of the three.
pub fn policy(number: u8) -> Policy {
    let link = LinkId(number / 4 % 4);
    match number % 4 {
        0 => Policy::Stripe,
        1 => Policy::Mirror,
        2 => Policy::Auto,
        _ => Policy::Link(link),
    }
}
