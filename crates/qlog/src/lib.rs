//! The protocol's trace ([`tabane_proto::trace`]) as qlog, in text.
//!
//! The form is that of draft-ietf-quic-qlog-main-schema-14 (a `QlogFileSeq`: JSON text sequences, RFC 7464) with the
//! events of draft-ietf-quic-qlog-quic-events-13. tabane is not QUIC: if the draft has an event with the same meaning,
//! that one is written, with the path in `tuple`, since each path has its own packet numbers; the rest is in the
//! namespace `tabane`, which `docs/operation.md` describes. qvis reads an older draft only; for it there is
//! [`Form::Qvis`].
//!
//! `sim replay --qlog`, the daemon and the tests all write with the one [`Writer`]. It allocates nothing but the text.
#![forbid(unsafe_code)]

mod events;
mod json;

use tabane_proto::Time;
use tabane_proto::trace::TraceEvent;

/// The file schema that is written.
pub const FILE_SCHEMA: &str = "urn:ietf:params:qlog:file:sequential";
/// Its serialization format.
pub const SERIALIZATION: &str = "application/qlog+json-seq";
/// The schema of the draft's events.
pub const EVENTS_OF_QUIC: &str = "urn:ietf:params:qlog:events:quic-13";
/// The schema of tabane's own events.
pub const EVENTS_OF_TABANE: &str = "https://tabane.invalid/112026/tabane";
/// The schema of tabane's additional events.
pub const ADDED_TO_QUIC: &str = "https://tabane.invalid/112026/quic#tabane";

/// Which draft is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// The newest that there is: main-schema-14, quic-events-13.
    #[default]
    Draft,
    /// draft-ietf-quic-qlog-main-schema-02, the newest that qvis opens. Each path is a connection of its own
    /// (`group_id`), since qvis knows one sequence of packet numbers for each. It finds acknowledgements in received
    /// packets only: so there is one for each, without a number.
    Qvis,
}

/// The header of a file.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The title, in words.
    pub title: &'a str,
    /// The node that was looked at.
    pub vantage_point: &'a str,
    /// The group of all events, if they have a common one; else each has its own.
    pub group: Option<&'a str>,
    /// When the trace began by the wall clock, in milliseconds since 1970-01-01 UTC, if there is one.
    pub wall_clock_unix_ms: Option<u64>,
}

/// Writes the records of one file.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    form: Form,
    began: Time,
}

impl Writer {
    /// Writes times from `began` on, which is by the clock of the events.
    pub const fn new(form: Form, began: Time) -> Writer {
        Writer { form, began }
    }

    /// Appends a file's first record to `text`.
    pub fn header(&self, header: &Header<'_>, text: &mut String) {
        match self.form {
            Form::Draft => events::header(header, text),
            Form::Qvis => events::header_for_qvis(header, text),
        }
    }

    /// Appends the record of an event to `text`. `group`: its group, if the header has none.
    pub fn event(&self, at: Time, group: Option<&str>, event: &TraceEvent, text: &mut String) {
        events::record(self.form, at.since(self.began), group, event, text);
    }
}
