//! What endpoints say to each other in messages of the bundle: a head, then the bytes.
//!
//! ```text
//!  0      1       2
//!  ┌──────┬───────┬─────────────────────────────────────────────┬───────┐
//!  │ kind │ marks │ what the marks say, in this order           │ bytes │
//!  └──────┴───────┴─────────────────────────────────────────────┴───────┘
//! ```
//! Numbers are big-endian.

/// The head has a tag (8 bytes).
const TAGGED: u8 = 1;
/// The head has data for the receiver's completion (8 bytes).
const WITH_DATA: u8 = 2;
/// The head has a number for the receipt that says that the bytes are in the receiver's buffer (8 bytes).
const WANTS_RECEIPT: u8 = 4;
/// The receipt is given as soon as the message arrives.
const ON_ARRIVAL: u8 = 8;

/// Bytes of a head at most.
pub(crate) const HEAD_BYTES_MAX: usize = 2 + 3 * 8 + 16;

/// The flow of messages: matched in the order of sending.
pub(crate) const FLOW_MESSAGES: u32 = 0;
/// The flow of atomic operations and their results: executed in the order of posting.
pub(crate) const FLOW_ATOMICS: u32 = 1;
/// The flow of control messages.
pub(crate) const FLOW_CONTROL: u32 = 2;

/// What a message has besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Envelope {
    pub tag: Option<u64>,
    pub data: Option<u64>,
    /// By this number the sender wants to know that the bytes are where they belong.
    pub receipt: Option<u64>,
    /// When it has come, be there a buffer or not.
    pub on_arrival: bool,
}

/// An atomic operation, as it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AtomicHead {
    /// The asker's number.
    pub id: u64,
    pub key: u64,
    pub offset: u64,
    pub operation: u8,
    pub number: u8,
    /// Whether the old value is wanted.
    pub fetches: bool,
    /// Whether operands to be compared with stand behind the operands.
    pub compares: bool,
}

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Head {
    /// Its bytes follow.
    Eager(Envelope),
    /// Its bytes wait at the sender, in the region of this key; the receipt is given when they were
    /// fetched.
    Announce {
        envelope: Envelope,
        key: u64,
        bytes: u64,
    },
    /// The message that asked for this receipt is in its buffer, or was discarded.
    Receipt { id: u64 },
    /// So many bytes of eager messages have found their buffers.
    Consumed { bytes: u64 },
    /// The operands follow.
    Atomic(AtomicHead),
    /// The result of an atomic operation (a status byte); the old value follows.
    AtomicDone { id: u64, status: u8 },
}

mod kind {
    pub const EAGER: u8 = 0;
    pub const ANNOUNCE: u8 = 1;
    pub const RECEIPT: u8 = 2;
    pub const CONSUMED: u8 = 3;
    pub const ATOMIC: u8 = 4;
    pub const ATOMIC_DONE: u8 = 5;
}

/// A head in the making, of no allocation.
pub(crate) struct HeadBytes {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl HeadBytes {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Envelope {
    fn marks(&self) -> u8 {
        let mark = |is: bool, mark| if is { mark } else { 0 };
        mark(self.tag.is_some(), TAGGED)
            | mark(self.data.is_some(), WITH_DATA)
            | mark(self.receipt.is_some(), WANTS_RECEIPT)
            | mark(self.on_arrival, ON_ARRIVAL)
    }

    fn write(&self, to: &mut HeadBytes) {
        for value in [self.tag, self.data, self.receipt].into_iter().flatten() {
            to.u64(value);
        }
    }
}

impl Head {
    /// As bytes.
    pub fn write(&self) -> HeadBytes {
        let mut to = HeadBytes {
            bytes: [0; HEAD_BYTES_MAX],
            len: 0,
        };
        match self {
            Head::Eager(envelope) => {
                to.put(&[kind::EAGER, envelope.marks()]);
                envelope.write(&mut to);
            }
            Head::Announce {
                envelope,
                key,
                bytes,
            } => {
                to.put(&[kind::ANNOUNCE, envelope.marks()]);
                envelope.write(&mut to);
                to.u64(*key);
                to.u64(*bytes);
            }
            Head::Receipt { id } => {
                to.put(&[kind::RECEIPT, 0]);
                to.u64(*id);
            }
            Head::Consumed { bytes } => {
                to.put(&[kind::CONSUMED, 0]);
                to.u64(*bytes);
            }
            Head::Atomic(atomic) => {
                let marks = u8::from(atomic.fetches) | u8::from(atomic.compares) << 1;
                to.put(&[kind::ATOMIC, marks]);
                to.u64(atomic.id);
                to.u64(atomic.key);
                to.u64(atomic.offset);
                to.put(&[atomic.operation, atomic.number]);
            }
            Head::AtomicDone { id, status } => {
                to.put(&[kind::ATOMIC_DONE, *status]);
                to.u64(*id);
            }
        }
        to
    }

    /// Parses the head of a message; returns it and the offset of the bytes. `None`: malformed.
    pub fn read(message: &[u8]) -> Option<(Head, usize)> {
        let mut r = Reader(message);
        let [kind, marks] = r.array()?;
        let head = match kind {
            kind::EAGER => Head::Eager(r.envelope(marks)?),
            kind::ANNOUNCE => Head::Announce {
                envelope: r.envelope(marks)?,
                key: r.u64()?,
                bytes: r.u64()?,
            },
            kind::RECEIPT if marks == 0 => Head::Receipt { id: r.u64()? },
            kind::CONSUMED if marks == 0 => Head::Consumed { bytes: r.u64()? },
            kind::ATOMIC if marks < 4 => {
                let (id, key, offset) = (r.u64()?, r.u64()?, r.u64()?);
                let [operation, number] = r.array()?;
                Head::Atomic(AtomicHead {
                    id,
                    key,
                    offset,
                    operation,
                    number,
                    fetches: marks & 1 != 0,
                    compares: marks & 2 != 0,
                })
            }
            kind::ATOMIC_DONE => Head::AtomicDone {
                id: r.u64()?,
                status: marks,
            },
            _ => return None,
        };
        let has_bytes = matches!(
            head,
            Head::Eager(_) | Head::Atomic(_) | Head::AtomicDone { .. }
        );
        let begin = message.len() - r.0.len();
        (has_bytes || r.0.is_empty()).then_some((head, begin))
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn envelope(&mut self, marks: u8) -> Option<Envelope> {
        let on_arrival = marks & ON_ARRIVAL != 0;
        if marks >= 16 || on_arrival && marks & WANTS_RECEIPT == 0 {
            return None;
        }
        let mut next = |mark| match marks & mark != 0 {
            true => self.u64().map(Some),
            false => Some(None),
        };
        Some(Envelope {
            tag: next(TAGGED)?,
            data: next(WITH_DATA)?,
            receipt: next(WANTS_RECEIPT)?,
            on_arrival,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_as_written_and_cut_ones_do_not() {
        let envelope = |n: u64| Envelope {
            tag: (n & 1 != 0).then_some(u64::MAX - n),
            data: (n & 2 != 0).then_some(n << 40),
            receipt: (n & 4 != 0).then_some(7),
            on_arrival: n & 12 == 12,
        };
        let atomic = AtomicHead {
            id: 1,
            key: 2,
            offset: 3,
            operation: 4,
            number: 5,
            fetches: true,
            compares: false,
        };
        let mut heads = vec![
            Head::Receipt { id: 9 },
            Head::Consumed { bytes: 1 << 33 },
            Head::Atomic(atomic),
            Head::AtomicDone { id: 3, status: 2 },
        ];
        for n in 0..16 {
            heads.push(Head::Eager(envelope(n)));
            heads.push(Head::Announce {
                envelope: envelope(n),
                key: 1,
                bytes: 1 << 40,
            });
        }
        for head in heads {
            let bytes = head.write();
            let bytes = bytes.as_slice();
            assert_eq!(Head::read(bytes), Some((head, bytes.len())));
            for cut in 0..bytes.len() {
                assert_eq!(Head::read(&bytes[..cut]), None, "{head:?} {cut}");
            }
        }
        assert_eq!(Head::read(&[9, 0]), None);
        assert_eq!(Head::read(&[kind::EAGER, ON_ARRIVAL]), None);
        assert_eq!(Head::read(&[kind::EAGER, 16]), None);
        assert_eq!(
            Head::read(&[kind::RECEIPT, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]),
            None
        );
    }
}
