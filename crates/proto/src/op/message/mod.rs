//! Messages: reliable, ordered per flow, whole.
//!
//! A message travels as a unit of its data and, behind it, one byte: 0, or 1 if
//! the eight bytes before it are the tag (big endian).

mod receive;
mod send;

pub(super) use receive::MessageReceiver;
pub(super) use send::MessageSender;

use super::limits::MESSAGE_OVERHEAD_BYTES;

/// The last byte of a message's unit without a tag.
const UNTAGGED: u8 = 0;
/// The last byte of a message's unit with one.
const TAGGED: u8 = 1;

/// What a message, with a unit of `total` bytes, costs of the bundle's window.
fn charge_bytes(total: u32) -> u64 {
    u64::from(total) + MESSAGE_OVERHEAD_BYTES
}
