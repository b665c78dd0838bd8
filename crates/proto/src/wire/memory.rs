//! Records of memory operations: extensions (`docs/protocol.md`, 7.12), written and read side by side.

use super::codec::EXTENSION_HEADER_BYTES;
use super::writer::varint_len;
use super::{OFFSET_MAX, Reader, WireError, Writer};

/// The first byte of each.
mod code {
    /// A piece of a put, with the put's target.
    pub const PUT_FIRST: u8 = 0x40;
    /// A piece of a put, once the peer knows the target.
    pub const PUT: u8 = 0x41;
    pub const GET: u8 = 0x42;
    /// A piece of the answer to a get.
    pub const ANSWER: u8 = 0x43;
    pub const DONE: u8 = 0x44;
    pub const LAST: u8 = DONE;
}

/// No operation is longer: a tebibyte.
pub const OPERATION_BYTES_MAX: u64 = 1 << 40;
/// Operations that an end may have begun since the oldest of its own that is not over, of puts and of gets.
pub const OPERATIONS_MAX: u32 = 1024;
/// Bytes of [`MemoryRecord::Done`].
const DONE_BYTES: usize = EXTENSION_HEADER_BYTES + 6;
/// Bytes of an operation's number, the first field of all.
const OPERATION_NUMBER_BYTES: usize = 4;

/// How a memory operation ended, or why it did not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum MemoryStatus {
    /// All bytes are where they belong.
    Done = 0,
    /// There is no region of this key.
    BadKey = 1,
    /// The region does not allow it.
    NoAccess = 2,
    /// It goes beyond the region.
    OutOfBounds = 3,
    /// The peer stopped or restarted; not all bytes may have arrived. Never on the wire.
    Broken = 4,
}

impl MemoryStatus {
    /// The status that a byte on the wire says.
    ///
    /// # Errors
    /// None does.
    pub const fn from_byte(byte: u8) -> Result<MemoryStatus, WireError> {
        match byte {
            0 => Ok(MemoryStatus::Done),
            1 => Ok(MemoryStatus::BadKey),
            2 => Ok(MemoryStatus::NoAccess),
            3 => Ok(MemoryStatus::OutOfBounds),
            _ => Err(WireError::BadValue),
        }
    }
}

/// Which of the two an operation is: each kind counts for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum OperationKind {
    /// Bytes go to the peer's region.
    Put = 0,
    /// Bytes come from the peer's region.
    Get = 1,
}

/// A stretch of a region of the receiver's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// The region's key.
    pub key: u64,
    /// Its offset in the region; at most [`OFFSET_MAX`].
    pub base: u64,
    /// Its length in bytes; at most [`OPERATION_BYTES_MAX`].
    pub total: u64,
}

/// The target of a put; sent in its pieces until the peer has acknowledged one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PutTarget {
    /// Destination of the bytes.
    pub to: Stretch,
    /// The notification for the receiver's program when all have come.
    pub immediate: Option<u64>,
}

/// One record of a memory operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryRecord<'a> {
    /// A piece of a put.
    Put {
        /// Counts the sender's puts.
        operation: u32,
        /// The target of the whole put.
        target: Option<PutTarget>,
        /// Offset of `data` in the put.
        offset: u64,
        /// The bytes; empty only if the put has none.
        data: &'a [u8],
    },
    /// Asks for the bytes of a region.
    Get {
        /// Counts the sender's gets.
        operation: u32,
        /// The sender's oldest unfinished get is this many numbers before this one: below
        /// [`OPERATIONS_MAX`]. Older ones need no more answers.
        open: u16,
        /// Which bytes.
        from: Stretch,
    },
    /// A piece of the answer to a [`Get`](MemoryRecord::Get).
    Answer {
        /// The get's number.
        operation: u32,
        /// Offset of `data` in the requested bytes.
        offset: u64,
        /// The bytes; empty only if none were asked for.
        data: &'a [u8],
    },
    /// One of the receiver's operations has ended: a put, or a get that failed.
    Done {
        /// Which kind.
        kind: OperationKind,
        /// Its number.
        operation: u32,
        /// How it ended.
        status: MemoryStatus,
    },
}

/// Bytes before the data of a piece of a put.
pub const fn put_header_bytes(target: Option<&PutTarget>, offset: u64) -> usize {
    let header = piece_header_bytes(offset);
    match target {
        None => header,
        Some(target) => {
            let immediate = if target.immediate.is_some() { 8 } else { 0 };
            header + stretch_bytes(&target.to) + 1 + immediate
        }
    }
}

/// Bytes before the data of a piece of an answer.
pub const fn piece_header_bytes(offset: u64) -> usize {
    EXTENSION_HEADER_BYTES + OPERATION_NUMBER_BYTES + varint_len(offset)
}

const fn stretch_bytes(stretch: &Stretch) -> usize {
    8 + varint_len(stretch.base) + varint_len(stretch.total)
}

/// Writes the header of a piece of a put; the caller then writes its `bytes`.
pub fn write_put_header(
    operation: u32,
    target: Option<&PutTarget>,
    offset: u64,
    bytes: usize,
    w: &mut Writer<'_>,
) {
    let len = put_header_bytes(target, offset) - EXTENSION_HEADER_BYTES + bytes;
    let code = match target {
        Some(_) => code::PUT_FIRST,
        None => code::PUT,
    };
    write_head(code, len, operation, w);
    w.varint(offset);
    if let Some(target) = target {
        write_stretch(&target.to, w);
        w.u8(u8::from(target.immediate.is_some()));
        if let Some(immediate) = target.immediate {
            w.u64(immediate);
        }
    }
}

/// Writes the header of a piece of an answer; the caller then writes its `bytes`.
pub fn write_answer_header(operation: u32, offset: u64, bytes: usize, w: &mut Writer<'_>) {
    let len = piece_header_bytes(offset) - EXTENSION_HEADER_BYTES + bytes;
    write_head(code::ANSWER, len, operation, w);
    w.varint(offset);
}

fn write_head(code: u8, len: usize, operation: u32, w: &mut Writer<'_>) {
    w.u8(code);
    w.u16(len as u16);
    w.u32(operation);
}

fn write_stretch(stretch: &Stretch, w: &mut Writer<'_>) {
    w.u64(stretch.key);
    w.varint(stretch.base);
    w.varint(stretch.total);
}

impl<'a> MemoryRecord<'a> {
    /// Whether an extension of this code is one.
    pub const fn is_one(code: u8) -> bool {
        code >= code::PUT_FIRST && code <= code::LAST
    }

    /// How many bytes [`write`](MemoryRecord::write) appends.
    pub const fn encoded_len(&self) -> usize {
        match self {
            MemoryRecord::Put {
                target,
                offset,
                data,
                ..
            } => put_header_bytes(target.as_ref(), *offset) + data.len(),
            MemoryRecord::Get { from, .. } => {
                EXTENSION_HEADER_BYTES + OPERATION_NUMBER_BYTES + 2 + stretch_bytes(from)
            }
            MemoryRecord::Answer { offset, data, .. } => piece_header_bytes(*offset) + data.len(),
            MemoryRecord::Done { .. } => DONE_BYTES,
        }
    }

    /// Appends the record, as an extension. The caller has checked that there is room.
    pub fn write(&self, w: &mut Writer<'_>) {
        match *self {
            MemoryRecord::Put {
                operation,
                target,
                offset,
                data,
            } => {
                write_put_header(operation, target.as_ref(), offset, data.len(), w);
                w.put(data);
            }
            MemoryRecord::Get {
                operation,
                open,
                from,
            } => {
                let len = self.encoded_len() - EXTENSION_HEADER_BYTES;
                write_head(code::GET, len, operation, w);
                w.u16(open);
                write_stretch(&from, w);
            }
            MemoryRecord::Answer {
                operation,
                offset,
                data,
            } => {
                write_answer_header(operation, offset, data.len(), w);
                w.put(data);
            }
            MemoryRecord::Done {
                kind,
                operation,
                status,
            } => {
                write_head(
                    code::DONE,
                    DONE_BYTES - EXTENSION_HEADER_BYTES,
                    operation,
                    w,
                );
                w.put(&[kind as u8, status as u8]);
            }
        }
    }

    /// Parses an extension with this code, [one of these](MemoryRecord::is_one).
    ///
    /// # Errors
    /// It is cut off, too long, or has a field out of range.
    pub fn read(code: u8, data: &'a [u8]) -> Result<MemoryRecord<'a>, WireError> {
        let mut r = Reader::new(data);
        let operation = r.u32()?;
        let record = match code {
            code::PUT_FIRST | code::PUT => read_put(operation, code == code::PUT_FIRST, &mut r)?,
            code::GET => {
                let (open, from) = (r.u16()?, read_stretch(&mut r)?);
                if u32::from(open) >= OPERATIONS_MAX {
                    return Err(WireError::BadValue);
                }
                MemoryRecord::Get {
                    operation,
                    open,
                    from,
                }
            }
            code::ANSWER => {
                let offset = read_offset(&mut r)?;
                let data = r.take(r.remaining())?;
                MemoryRecord::Answer {
                    operation,
                    offset,
                    data,
                }
            }
            code::DONE => {
                let kind = match r.u8()? {
                    0 => OperationKind::Put,
                    1 => OperationKind::Get,
                    _ => return Err(WireError::BadValue),
                };
                let status = MemoryStatus::from_byte(r.u8()?)?;
                // A get's answer is complete by itself: no record says so.
                if kind == OperationKind::Get && status == MemoryStatus::Done {
                    return Err(WireError::BadValue);
                }
                MemoryRecord::Done {
                    kind,
                    operation,
                    status,
                }
            }
            _ => return Err(WireError::BadRecord),
        };
        match r.remaining() {
            0 => Ok(record),
            _ => Err(WireError::BadValue),
        }
    }
}

fn read_put<'a>(
    operation: u32,
    is_first: bool,
    r: &mut Reader<'a>,
) -> Result<MemoryRecord<'a>, WireError> {
    let offset = read_offset(r)?;
    let target = match is_first {
        false => None,
        true => {
            let to = read_stretch(r)?;
            let immediate = match r.u8()? {
                0 => None,
                1 => Some(r.u64()?),
                _ => return Err(WireError::BadValue),
            };
            Some(PutTarget { to, immediate })
        }
    };
    let data = r.take(r.remaining())?;
    let end = offset + data.len() as u64;
    let total = target.map_or(OPERATION_BYTES_MAX, |target| target.to.total);
    if end > total || (data.is_empty() && target.is_none_or(|target| target.to.total > 0)) {
        return Err(WireError::BadValue);
    }
    Ok(MemoryRecord::Put {
        operation,
        target,
        offset,
        data,
    })
}

/// No sum of it and a packet's length overflows.
fn read_offset(r: &mut Reader<'_>) -> Result<u64, WireError> {
    match r.varint()? {
        offset if offset <= OPERATION_BYTES_MAX => Ok(offset),
        _ => Err(WireError::BadValue),
    }
}

fn read_stretch(r: &mut Reader<'_>) -> Result<Stretch, WireError> {
    let (key, base, total) = (r.u64()?, r.varint()?, r.varint()?);
    if base > OFFSET_MAX || total > OPERATION_BYTES_MAX {
        return Err(WireError::BadValue);
    }
    Ok(Stretch { key, base, total })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::wire::{Record, Records};

    fn random_record<'a>(random: &mut Random, data: &'a [u8]) -> MemoryRecord<'a> {
        let operation = random.u32();
        let number = |random: &mut Random, max: u64| (random.u64() >> random.below(64)).min(max);
        let stretch = |random: &mut Random| Stretch {
            key: random.u64(),
            base: number(random, OFFSET_MAX - 1),
            total: number(random, OPERATION_BYTES_MAX),
        };
        match random.below(4) {
            0 => {
                let mut to = stretch(random);
                let is_first = data.is_empty() || random.below(2) == 0;
                to.total = if data.is_empty() {
                    0
                } else {
                    to.total.max(data.len() as u64)
                };
                let offset = random.below(to.total - data.len() as u64 + 1);
                let immediate = (random.below(2) == 0).then(|| random.u64());
                MemoryRecord::Put {
                    operation,
                    target: is_first.then_some(PutTarget { to, immediate }),
                    offset,
                    data,
                }
            }
            1 => MemoryRecord::Get {
                operation,
                open: random.below(OPERATIONS_MAX.into()) as u16,
                from: stretch(random),
            },
            2 => MemoryRecord::Answer {
                operation,
                offset: number(random, OPERATION_BYTES_MAX),
                data,
            },
            _ => MemoryRecord::Done {
                kind: OperationKind::Put,
                operation,
                status: MemoryStatus::from_byte(random.below(4) as u8).expect("is one"),
            },
        }
    }

    #[test]
    fn random_records_come_back_as_written() {
        let mut random = Random::from_seed([3; 32]);
        let store: [u8; 512] = random.array();
        for _ in 0..20_000 {
            let data = &store[..random.below(512) as usize];
            let record = random_record(&mut random, data);
            let mut slot = [0; 1024];
            let mut w = Writer::new(&mut slot);
            record.write(&mut w);
            let len = w.len();
            assert_eq!(len, record.encoded_len(), "{record:?}");
            let outer = Records::new(&slot[..len]).next();
            let Some(Ok(Record::Extension { code, data })) = outer else {
                panic!("{record:?}: {outer:?}");
            };
            assert!(MemoryRecord::is_one(code));
            assert_eq!(MemoryRecord::read(code, data), Ok(record));
            for cut in 0..data.len() {
                if let Ok(shorter) = MemoryRecord::read(code, &data[..cut]) {
                    let is_piece = matches!(
                        shorter,
                        MemoryRecord::Put { .. } | MemoryRecord::Answer { .. }
                    );
                    assert!(is_piece, "{shorter:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let done = |kind, status| MemoryRecord::read(code::DONE, &[0, 0, 0, 1, kind, status]).err();
        assert_eq!((done(0, 0), done(1, 1)), (None, None));
        for (kind, status) in [(2, 0), (0, 4), (1, 0)] {
            assert_eq!(done(kind, status), Some(WireError::BadValue));
        }
        // A piece beyond the end of its put, and an empty piece of a put that is not empty.
        let put = |total, offset, data: &[u8]| {
            let mut bytes = vec![0, 0, 0, 1, offset];
            bytes.extend([0; 8]);
            bytes.extend([0, total, 0]);
            bytes.extend(data);
            MemoryRecord::read(code::PUT_FIRST, &bytes).err()
        };
        assert_eq!(put(3, 0, &[1, 2, 3]), None);
        assert_eq!(put(0, 0, &[]), None);
        assert_eq!(put(3, 1, &[1, 2, 3]), Some(WireError::BadValue));
        assert_eq!(put(3, 0, &[]), Some(WireError::BadValue));
        let many = [0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            MemoryRecord::read(code::GET, &many),
            Err(WireError::BadValue)
        );
    }
}
