//! Bytes on the wire: the only place that knows offsets. Both directions of
//! every codec stand side by side. `docs/protocol.md` is the same in prose.

mod header;
mod reader;
mod record;
mod writer;

pub use header::{HEADER_BYTES, Header, Kind};
pub use reader::{Reader, WireError};
pub use record::{
    Ack, LinkVerdict, Record, Records, StreamSegment, UnitClass, UnitSegment, Witness,
};
pub use writer::Writer;
