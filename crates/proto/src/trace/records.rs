//! Which kinds of records a packet has.

use crate::wire::{Record, Records, UnitClass};

/// Kinds of records, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordKinds(u32);

/// The kinds' names, by their bits.
const NAMES: [&str; 17] = [
    "ack",
    "padding",
    "in_flight",
    "probe",
    "probe_reply",
    "link_state",
    "link_state_ack",
    "stream_piece",
    "stream_control",
    "window",
    "frame_piece",
    "message_piece",
    "extension_content",
    "extension",
    "grant",
    "waited",
    "close",
];

impl RecordKinds {
    /// The kinds in an opened packet's `payload`. A malformed record ends the list.
    pub(crate) fn of(payload: &[u8]) -> RecordKinds {
        let records = Records::new(payload).map_while(Result::ok);
        RecordKinds(records.fold(0, |bits, record| bits | 1 << bit(&record)))
    }

    /// Whether a kind of this name is among them.
    pub fn has(self, name: &str) -> bool {
        self.names().any(|one| one == name)
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let there = NAMES.iter().enumerate();
        there.filter_map(move |(bit, name)| (self.0 & 1 << bit != 0).then_some(*name))
    }
}

const fn bit(record: &Record<'_>) -> u32 {
    match record {
        Record::Ack(_) => 0,
        Record::Padding => 1,
        Record::Sent { .. } => 2,
        Record::Probe { .. } => 3,
        Record::ProbeReply { .. } => 4,
        Record::LinkState { .. } => 5,
        Record::LinkStateAck { .. } => 6,
        Record::Stream(_) => 7,
        Record::StreamReset { .. } | Record::StreamStop { .. } => 8,
        Record::StreamWindow { .. }
        | Record::BundleWindow { .. }
        | Record::MessageWindow { .. } => 9,
        Record::Unit(unit) => match unit.class {
            UnitClass::Frame => 10,
            UnitClass::Message => 11,
        },
        Record::Extension { .. } => match record.is_content() {
            true => 12,
            false => 13,
        },
        Record::Grant { .. } => 14,
        Record::Waited { .. } => 15,
        Record::Close { .. } => 16,
    }
}
