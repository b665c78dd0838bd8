//! Stand-in until the record codec lands in `wire`.
use crate::wire::{Record, Writer};

pub const UNIT_FRAME_HEADER_BYTES: usize = 14;
pub const UNIT_MESSAGE_HEADER_BYTES: usize = 17;
pub const STREAM_HEADER_BYTES: usize = 20;

pub fn write(record: &Record<'_>, w: &mut Writer<'_>) {
    record.write(w);
}

#[cfg(test)]
pub fn read(b: &[u8]) -> Record<'_> {
    let mut r = crate::wire::Reader::new(b);
    let kind = r.u8().unwrap();
    let flow = if kind == 0x40 {
        r.u8().unwrap() as u32
    } else {
        r.u32().unwrap()
    };
    let sequence = r.u32().unwrap();
    let offset = r.u24().unwrap();
    let total = r.u24().unwrap();
    let len = r.u16().unwrap();
    Record::Unit(crate::wire::UnitSegment {
        class: if kind == 0x40 {
            crate::wire::UnitClass::Frame
        } else {
            crate::wire::UnitClass::Message
        },
        flow,
        sequence,
        offset,
        total,
        data: r.take(len as usize).unwrap(),
    })
}
