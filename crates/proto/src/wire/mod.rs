//! Bytes on the wire: the only place that knows offsets. Both directions of
//! every codec stand side by side. `docs/protocol.md` is the same in prose.

mod codec;
mod handshake;
mod header;
mod member;
mod memory;
mod name;
mod reader;
mod record;
mod relay;
mod survey;
mod switches;
#[cfg(test)]
mod tests;
mod writer;

pub use codec::{
    ACK_BYTES_MAX, ACK_HEADER_BYTES, EXTENSION_HEADER_BYTES, GRANT_BYTES, OFFSET_MAX, PROBE_BYTES,
    UNIT_FRAME_HEADER_BYTES, UNIT_MESSAGE_HEADER_BYTES, stream_header_bytes,
};
pub use handshake::{
    COOKIE_BYTES, COOKIE_DATAGRAM_BYTES, CookieParts, EXTENSION_BYTES_MAX, FEATURE_MEMBERS,
    FEATURE_MEMORY, FEATURE_RELAYS, FEATURE_SURVEYS, HANDSHAKE_HEADER_BYTES, HELLO_BYTES,
    HandshakeHeader, Hello, INIT_BYTES, INIT_NOISE_BYTES, InitParts, MAC_BYTES, PUBLIC_KEY_BYTES,
    Proof, RESPONSE_BYTES, RESPONSE_NOISE_BYTES, ResponseParts, VERSION, VERSION_ANSWER_BYTES,
    WireMode,
};
pub use header::{HEADER_BYTES, Header, Kind, PATH_OFFSET, SESSION_OFFSET};
pub use member::{Member, MemberRecord, MembersDigest, Verdict};
pub use memory::{
    MemoryRecord, MemoryStatus, OPERATION_BYTES_MAX, OPERATIONS_MAX, OperationKind, PutTarget,
    Stretch, piece_header_bytes, put_header_bytes, write_answer_header, write_put_header,
};
pub use name::{Name, NameError};
pub use reader::{Reader, WireError};
pub use record::{
    ACK_WORDS_MAX, Ack, LinkVerdict, Record, Records, StreamSegment, UnitClass, UnitSegment,
    Witness,
};
pub use relay::{
    NodeId, REACH_NODES_MAX, Reach, RefusedWhy, RelayRecord, STEPS_MAX, Steps, advance,
    relayed_data, relayed_header_bytes, write_relayed,
};
pub use survey::{Measure, Measured, PAUSE_US, PROBES_MAX, SurveyRecord, TRAIN_MAX};
pub use switches::Switches;
pub use writer::Writer;
