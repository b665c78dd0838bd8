//! Records to bytes and back. Every type's layout is drawn in `docs/protocol.md`.

use super::record::ACK_WORDS_MAX;
use super::writer::varint_len;
use super::{
    Ack, LinkVerdict, Reader, Record, Records, StreamSegment, UnitClass, UnitSegment, WireError,
    Witness, Writer,
};
use crate::limits::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX};

/// The first byte of every record.
mod code {
    pub const PADDING: u8 = 0x00;
    pub const ACK: u8 = 0x01;
    pub const SENT: u8 = 0x02;
    pub const PROBE: u8 = 0x03;
    pub const PROBE_REPLY: u8 = 0x04;
    pub const LINK_STATE: u8 = 0x05;
    pub const LINK_STATE_ACK: u8 = 0x06;
    pub const STREAM_RESET: u8 = 0x07;
    pub const STREAM_STOP: u8 = 0x08;
    pub const STREAM_WINDOW: u8 = 0x09;
    pub const BUNDLE_WINDOW: u8 = 0x0a;
    pub const CLOSE: u8 = 0x0b;
    pub const GRANT: u8 = 0x0c;
    pub const WAITED: u8 = 0x0d;
    pub const MESSAGE_WINDOW: u8 = 0x0e;
    /// A later piece of a stream; + [`FIN`] if it is the last, + [`HELD`] if more waits.
    pub const STREAM: u8 = 0x10;
    /// The first piece of a stream; + [`FIN`] if it is the last, + [`HELD`] if more waits.
    pub const STREAM_OPEN: u8 = 0x12;
    pub const FIN: u8 = 0x01;
    pub const HELD: u8 = 0x04;
    /// The last of the eight codes of pieces.
    pub const STREAM_LAST: u8 = STREAM_OPEN | FIN | HELD;
    pub const FRAME: u8 = 0x20;
    pub const MESSAGE: u8 = 0x21;
    /// Codes for records of later versions, which have a length in front, so that they can be
    /// skipped. The first half of them is content.
    pub const EXTENSION: u8 = 0x40;
    pub const EXTENSION_CONTENT_LAST: u8 = 0x5f;
    pub const EXTENSION_LAST: u8 = 0x7f;
}

/// Bytes of an acknowledgement before its words.
pub const ACK_HEADER_BYTES: usize = 15;
/// Bytes of the longest acknowledgement.
pub const ACK_BYTES_MAX: usize = ACK_HEADER_BYTES + 8 * ACK_WORDS_MAX;
/// Bytes of a [`Record::Grant`].
pub const GRANT_BYTES: usize = 6;
/// Bytes before the data of a [`Record::Extension`].
pub const EXTENSION_HEADER_BYTES: usize = 3;
/// Bytes of a [`Record::Probe`].
pub const PROBE_BYTES: usize = 5;
/// Bytes before the data of a stream's first piece, without its number.
const STREAM_OPEN_HEADER_BYTES: usize = 7;
/// Bytes before the data of a later piece of a stream, without its number.
const STREAM_HEADER_BYTES: usize = 11;
/// Bytes before the data of a piece of a frame.
pub const UNIT_FRAME_HEADER_BYTES: usize = 14;
/// Bytes before the data of a piece of a message.
pub const UNIT_MESSAGE_HEADER_BYTES: usize = 17;
/// No stream is longer, and no window reaches further: offsets can be added without overflow.
pub const OFFSET_MAX: u64 = 1 << 62;

// Lengths and offsets of units travel in three bytes.
const _: () = assert!(FRAME_BYTES_MAX < 1 << 24);
const _: () = assert!(MESSAGE_BYTES_MAX < 1 << 24);

/// Bytes before the data of a piece of stream `id`; `opens`: it is the first one.
#[inline]
pub const fn stream_header_bytes(id: u64, opens: bool) -> usize {
    let header = if opens {
        STREAM_OPEN_HEADER_BYTES
    } else {
        STREAM_HEADER_BYTES
    };
    header + varint_len(id)
}

impl UnitClass {
    /// Bytes before the data of a piece.
    pub const fn header_bytes(self) -> usize {
        match self {
            UnitClass::Frame => UNIT_FRAME_HEADER_BYTES,
            UnitClass::Message => UNIT_MESSAGE_HEADER_BYTES,
        }
    }

    /// Longest unit of this class in bytes.
    pub const fn total_max(self) -> usize {
        match self {
            UnitClass::Frame => FRAME_BYTES_MAX,
            UnitClass::Message => MESSAGE_BYTES_MAX,
        }
    }
}

impl Record<'_> {
    /// How many bytes [`write`](Record::write) appends.
    pub const fn encoded_len(&self) -> usize {
        match self {
            Record::Padding => 1,
            Record::Ack(ack) => ACK_HEADER_BYTES + 8 * ack.word_count as usize,
            Record::Sent { .. } | Record::LinkState { .. } => 8,
            Record::Probe { .. } | Record::Close { .. } => PROBE_BYTES,
            Record::ProbeReply { .. } => 7,
            Record::LinkStateAck { .. } => 6,
            Record::Grant { .. } => GRANT_BYTES,
            Record::Waited { .. } => 4,
            Record::Stream(s) => stream_header_bytes(s.id, s.service.is_some()) + s.data.len(),
            Record::StreamReset { id, .. } => 13 + varint_len(*id),
            Record::StreamStop { id, .. } => 5 + varint_len(*id),
            Record::StreamWindow { id, window, .. } => 9 + varint_len(*id) + varint_len(*window),
            Record::BundleWindow { window, .. } | Record::MessageWindow { window, .. } => {
                9 + varint_len(*window)
            }
            Record::Unit(u) => u.class.header_bytes() + u.data.len(),
            Record::Extension { data, .. } => EXTENSION_HEADER_BYTES + data.len(),
        }
    }

    /// Appends the record. The caller has checked that there is room, and keeps the ranges
    /// given at each field: nothing is checked here, and the peer refuses a record out of
    /// range.
    ///
    /// [`Record::Padding`] is one zero byte; more may follow.
    #[inline]
    pub fn write(&self, w: &mut Writer<'_>) {
        match self {
            Record::Unit(unit) => write_unit(unit, w),
            Record::Stream(stream) => write_stream(stream, w),
            Record::Ack(ack) => write_ack(ack, w),
            other => other.write_small(w),
        }
    }

    fn write_small(&self, w: &mut Writer<'_>) {
        match *self {
            Record::Ack(_) | Record::Stream(_) | Record::Unit(_) => {}
            Record::Padding => w.u8(code::PADDING),
            Record::Sent { path, next_number } => {
                w.put(&[code::SENT, path]);
                w.u48(next_number);
            }
            Record::Probe { token } => code_and_u32(code::PROBE, token, w),
            Record::ProbeReply {
                token,
                datagram_bytes,
            } => {
                code_and_u32(code::PROBE_REPLY, token, w);
                w.u16(datagram_bytes);
            }
            Record::LinkState {
                path,
                generation,
                verdict,
                witness,
            } => {
                w.put(&[code::LINK_STATE, path]);
                w.u32(generation);
                w.put(&[verdict as u8, witness as u8]);
            }
            Record::LinkStateAck { path, generation } => {
                w.put(&[code::LINK_STATE_ACK, path]);
                w.u32(generation);
            }
            Record::StreamReset {
                id,
                code,
                final_offset,
            } => {
                code_and_id(code::STREAM_RESET, id, w);
                w.u32(code);
                w.u64(final_offset);
            }
            Record::StreamStop { id, code } => {
                code_and_id(code::STREAM_STOP, id, w);
                w.u32(code);
            }
            Record::StreamWindow { id, limit, window } => {
                code_and_id(code::STREAM_WINDOW, id, w);
                write_window(limit, window, w);
            }
            Record::BundleWindow { limit, window } => {
                w.u8(code::BUNDLE_WINDOW);
                write_window(limit, window, w);
            }
            Record::MessageWindow { limit, window } => {
                w.u8(code::MESSAGE_WINDOW);
                write_window(limit, window, w);
            }
            Record::Close { code } => code_and_u32(code::CLOSE, code, w),
            Record::Grant { path, kb_per_s } => {
                w.put(&[code::GRANT, path]);
                w.u32(kb_per_s);
            }
            Record::Waited { path, queue_us } => {
                w.put(&[code::WAITED, path]);
                w.u16(queue_us);
            }
            Record::Extension { code, data } => {
                w.u8(code);
                w.u16(data.len() as u16);
                w.put(data);
            }
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, WireError>;

    /// The next record. After an error there are no more: where the next one
    /// would begin is not known.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.remaining() == 0 {
            return None;
        }
        let record = read(&mut self.reader);
        if record.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(record)
    }
}

impl core::iter::FusedIterator for Records<'_> {}

#[inline]
fn read<'a>(r: &mut Reader<'a>) -> Result<Record<'a>, WireError> {
    match r.u8()? {
        code::FRAME => read_unit(r, UnitClass::Frame),
        code::MESSAGE => read_unit(r, UnitClass::Message),
        kind @ code::STREAM..=code::STREAM_LAST => read_stream(kind, r),
        code::ACK => read_ack(r),
        other => read_small(other, r),
    }
}

fn read_small<'a>(kind: u8, r: &mut Reader<'a>) -> Result<Record<'a>, WireError> {
    Ok(match kind {
        code::PADDING => {
            let rest = r.take(r.remaining())?;
            if rest.iter().any(|&b| b != 0) {
                return Err(WireError::BadValue);
            }
            Record::Padding
        }
        code::SENT => Record::Sent {
            path: r.u8()?,
            next_number: r.u48()?,
        },
        code::PROBE => Record::Probe { token: r.u32()? },
        code::PROBE_REPLY => Record::ProbeReply {
            token: r.u32()?,
            datagram_bytes: r.u16()?,
        },
        code::LINK_STATE => Record::LinkState {
            path: r.u8()?,
            generation: r.u32()?,
            verdict: read_verdict(r)?,
            witness: read_witness(r)?,
        },
        code::LINK_STATE_ACK => Record::LinkStateAck {
            path: r.u8()?,
            generation: r.u32()?,
        },
        code::STREAM_RESET => Record::StreamReset {
            id: r.varint()?,
            code: r.u32()?,
            final_offset: read_offset(r)?,
        },
        code::STREAM_STOP => Record::StreamStop {
            id: r.varint()?,
            code: r.u32()?,
        },
        code::STREAM_WINDOW => {
            let id = r.varint()?;
            let (limit, window) = read_window(r)?;
            Record::StreamWindow { id, limit, window }
        }
        code::BUNDLE_WINDOW => {
            let (limit, window) = read_window(r)?;
            Record::BundleWindow { limit, window }
        }
        code::MESSAGE_WINDOW => {
            let (limit, window) = read_window(r)?;
            Record::MessageWindow { limit, window }
        }
        code::CLOSE => Record::Close { code: r.u32()? },
        code::GRANT => Record::Grant {
            path: r.u8()?,
            kb_per_s: r.u32()?,
        },
        code::WAITED => Record::Waited {
            path: r.u8()?,
            queue_us: r.u16()?,
        },
        code @ code::EXTENSION..=code::EXTENSION_LAST => {
            let len = usize::from(r.u16()?);
            let data = r.take(len)?;
            Record::Extension { code, data }
        }
        _ => return Err(WireError::BadRecord),
    })
}

impl Record<'_> {
    /// Whether a record with this code, for a [`Record::Extension`], is content.
    pub(super) const fn is_content_extension(code: u8) -> bool {
        code <= code::EXTENSION_CONTENT_LAST
    }
}

/// `type 1 · path 1 · words 1 · largest 6 · delay_us 2 · arrived_us 4 · words 8 each`
fn write_ack(ack: &Ack, w: &mut Writer<'_>) {
    w.put(&[code::ACK, ack.path, ack.word_count]);
    w.u48(ack.largest);
    w.u16(ack.delay_us);
    w.u32(ack.arrived_us);
    for word in &ack.words[..usize::from(ack.word_count)] {
        w.u64(*word);
    }
}

fn read_ack<'a>(r: &mut Reader<'a>) -> Result<Record<'a>, WireError> {
    let mut ack = Ack {
        path: r.u8()?,
        word_count: r.u8()?,
        largest: r.u48()?,
        delay_us: r.u16()?,
        arrived_us: r.u32()?,
        words: [0; ACK_WORDS_MAX],
    };
    let words = ack
        .words
        .get_mut(..usize::from(ack.word_count))
        .ok_or(WireError::BadValue)?;
    for (i, word) in words.iter_mut().enumerate() {
        *word = r.u64()?;
        // Packets before number 0 were never sent.
        let possible = ack.largest.saturating_sub(64 * i as u64);
        if possible < 64 && *word >> possible != 0 {
            return Err(WireError::BadValue);
        }
    }
    Ok(Record::Ack(ack))
}

/// First piece: `type 1 · id varint · service 4 · len 2 · data`;
/// later ones: `type 1 · id varint · offset 8 · len 2 · data`.
fn write_stream(s: &StreamSegment<'_>, w: &mut Writer<'_>) {
    let marks = (u8::from(s.fin) * code::FIN) | (u8::from(s.held) * code::HELD);
    match s.service {
        Some(service) => {
            code_and_id(code::STREAM_OPEN | marks, s.id, w);
            w.u32(service);
        }
        None => {
            code_and_id(code::STREAM | marks, s.id, w);
            w.u64(s.offset);
        }
    }
    w.u16(s.data.len() as u16);
    w.put(s.data);
}

fn read_stream<'a>(kind: u8, r: &mut Reader<'a>) -> Result<Record<'a>, WireError> {
    let (fin, held) = (kind & code::FIN != 0, kind & code::HELD != 0);
    let id = r.varint()?;
    let (service, offset) = if kind & !(code::FIN | code::HELD) == code::STREAM_OPEN {
        (Some(r.u32()?), 0)
    } else {
        (None, r.u64()?)
    };
    let len = usize::from(r.u16()?);
    let data = r.take(len)?;
    let opens = service.is_some();
    if !opens && (offset == 0 || (data.is_empty() && !fin)) {
        return Err(WireError::BadValue);
    }
    if fin && held {
        return Err(WireError::BadValue);
    }
    if offset > OFFSET_MAX - len as u64 {
        return Err(WireError::BadValue);
    }
    Ok(Record::Stream(StreamSegment {
        id,
        offset,
        fin,
        held,
        service,
        data,
    }))
}

/// `type 1 · flow 1 (frame) or 4 (message) · sequence 4 · offset 3 · total 3 · len 2 · data`
#[inline]
fn write_unit(u: &UnitSegment<'_>, w: &mut Writer<'_>) {
    match u.class {
        UnitClass::Frame => w.put(&[code::FRAME, u.flow as u8]),
        UnitClass::Message => code_and_u32(code::MESSAGE, u.flow, w),
    }
    w.u32(u.sequence);
    w.u24(u.offset);
    w.u24(u.total);
    w.u16(u.data.len() as u16);
    w.put(u.data);
}

#[inline]
fn read_unit<'a>(r: &mut Reader<'a>, class: UnitClass) -> Result<Record<'a>, WireError> {
    let flow = match class {
        UnitClass::Frame => u32::from(r.u8()?),
        UnitClass::Message => r.u32()?,
    };
    let sequence = r.u32()?;
    let offset = r.u24()?;
    let total = r.u24()?;
    let len = r.u16()?;
    let data = r.take(usize::from(len))?;
    // None of these is above 2^24: the sum cannot overflow.
    if len == 0 || total as usize > class.total_max() || offset + u32::from(len) > total {
        return Err(WireError::BadValue);
    }
    Ok(Record::Unit(UnitSegment {
        class,
        flow,
        sequence,
        offset,
        total,
        data,
    }))
}

#[inline]
fn code_and_u32(code: u8, value: u32, w: &mut Writer<'_>) {
    let [a, b, c, d] = value.to_be_bytes();
    w.put(&[code, a, b, c, d]);
}

#[inline]
fn code_and_id(code: u8, id: u64, w: &mut Writer<'_>) {
    w.u8(code);
    w.varint(id);
}

fn read_offset(r: &mut Reader<'_>) -> Result<u64, WireError> {
    match r.u64()? {
        offset if offset <= OFFSET_MAX => Ok(offset),
        _ => Err(WireError::BadValue),
    }
}

fn write_window(limit: u64, window: u64, w: &mut Writer<'_>) {
    w.u64(limit);
    w.varint(window);
}

/// Reads a limit, and how far it is ahead of what was read.
fn read_window(r: &mut Reader<'_>) -> Result<(u64, u64), WireError> {
    let (limit, window) = (read_offset(r)?, r.varint()?);
    if window <= limit {
        Ok((limit, window))
    } else {
        Err(WireError::BadValue)
    }
}

fn read_verdict(r: &mut Reader<'_>) -> Result<LinkVerdict, WireError> {
    match r.u8()? {
        0 => Ok(LinkVerdict::Up),
        1 => Ok(LinkVerdict::Down),
        _ => Err(WireError::BadValue),
    }
}

fn read_witness(r: &mut Reader<'_>) -> Result<Witness, WireError> {
    Ok(match r.u8()? {
        0 => Witness::ArrivalSkew,
        1 => Witness::UnackedAge,
        2 => Witness::KernelLink,
        3 => Witness::ProbeTimeout,
        4 => Witness::Peer,
        5 => Witness::ProbesAnswered,
        _ => return Err(WireError::BadValue),
    })
}
