//! Numbers and layouts of `include/tabane.h`, name by name.

use core::ffi::{c_char, c_int};

/// Longest name of a node, without the zero byte.
pub const TABANE_NAME_BYTES_MAX: usize = 63;
/// Most links of a node.
pub const TABANE_LINKS_MAX: usize = 8;
/// Length of the cluster key.
pub const TABANE_KEY_BYTES: usize = 32;
/// Longest message.
pub const TABANE_MESSAGE_BYTES_MAX: usize = 1_048_567;
/// Most numbers of flows to one peer.
pub const TABANE_FLOWS_MAX: usize = 65_536;
/// Longest text of an event, with the zero byte.
pub const TABANE_TEXT_BYTES: usize = 192;
/// A timeout that never passes.
pub const TABANE_FOREVER: c_int = -1;

/// Makes constants, and a table of them with their names.
macro_rules! numbers {
    ($(#[$about:meta])* $table:ident: $($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        $($(#[$doc])* pub const $name: c_int = $value;)*
        $(#[$about])*
        pub const $table: &[(&str, c_int)] = &[$((stringify!($name), $name)),*];
    };
}

numbers! {
    /// All errors.
    ERRORS:
    /// An argument is invalid.
    TABANE_E_ARGUMENT = -1;
    /// The cluster file is at fault.
    TABANE_E_FILE = -2;
    /// No link can be used now.
    TABANE_E_NO_LINK = -3;
    /// The system refused something.
    TABANE_E_SYSTEM = -4;
    /// No node of this name is known.
    TABANE_E_UNKNOWN_PEER = -5;
    /// Nothing listens there.
    TABANE_E_REFUSED = -6;
    /// Too many wait or are open.
    TABANE_E_BUSY = -7;
    /// Not in time.
    TABANE_E_TIMED_OUT = -8;
    /// Nothing to read, no room to write.
    TABANE_E_WOULD_BLOCK = -9;
    /// Reset by the peer, or the peer started afresh.
    TABANE_E_RESET = -10;
    /// The direction is over.
    TABANE_E_PIPE = -11;
    /// This node listens for the service already.
    TABANE_E_IN_USE = -12;
    /// A message is too long.
    TABANE_E_TOO_LARGE = -13;
    /// The node was closed.
    TABANE_E_CLOSED = -14;
    /// The node is another process's.
    TABANE_E_FORKED = -15;
    /// A fault of this library.
    TABANE_E_BUG = -16;
    /// Too many flows of messages.
    TABANE_E_FLOWS = -17;
    /// A signal handler ran while the call waited.
    TABANE_E_INTERRUPTED = -18;
    /// No link to the peer has worked for too long.
    TABANE_E_UNREACHABLE = -19;
}

numbers! {
    /// All policies.
    POLICIES:
    /// Spread over the links.
    TABANE_STRIPE = 0;
    /// All of it over two links.
    TABANE_MIRROR = 1;
    /// Mirrored while it is little.
    TABANE_AUTO = 2;
}

numbers! {
    /// All kinds of events.
    EVENTS:
    /// A peer can be reached.
    TABANE_PEER_UP = 1;
    /// It cannot.
    TABANE_PEER_DOWN = 2;
    /// A path works.
    TABANE_LINK_UP = 3;
    /// It does not.
    TABANE_LINK_DOWN = 4;
    /// Only one path to a peer works.
    TABANE_REDUNDANCY_LOST = 5;
    /// More than one does again.
    TABANE_REDUNDANCY_RESTORED = 6;
    /// Messages may be lost, since the peer started afresh.
    TABANE_MESSAGES_BROKEN = 7;
    /// Something at the operating system's level.
    TABANE_LINK_CHANGED = 8;
    /// Events before this one were not kept.
    TABANE_EVENTS_MISSED = 9;
}

/// `tabane_message`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Message {
    /// The sender.
    pub from: [c_char; TABANE_NAME_BYTES_MAX + 1],
    /// Its flow.
    pub flow: u32,
    /// Whether it has a tag.
    pub has_tag: u32,
    /// Its tag.
    pub tag: u64,
    /// Its length.
    pub bytes: usize,
}

/// `tabane_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Event {
    /// One of [`EVENTS`].
    pub kind: u32,
    /// Which link.
    pub link: u32,
    /// The kind's value.
    pub value: u64,
    /// Which peer.
    pub peer: [c_char; TABANE_NAME_BYTES_MAX + 1],
    /// In words.
    pub text: [c_char; TABANE_TEXT_BYTES],
}

/// `tabane_path`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Path {
    /// Its number.
    pub link: u32,
    /// Whether it works.
    pub is_up: u32,
    /// Round trip, 0 before anything is known.
    pub rtt_us: f64,
    /// Its estimated rate, 0 before anything is known.
    pub rate_bytes_per_s: f64,
    /// Bytes sent that arrived.
    pub bytes_acked: u64,
    /// Bytes that came.
    pub bytes_received: u64,
    /// Packets that were lost.
    pub packets_lost: u64,
}

/// Puts text into a field of a structure, as much of it as there is room for, and a zero byte.
pub(crate) fn put<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    let mut len = text.len().min(N - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    for (to, byte) in field.iter_mut().zip(&text.as_bytes()[..len]) {
        *to = *byte as c_char;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_too_long_ends_behind_a_whole_character() {
        let field: [c_char; 4] = put("ab\u{e9}");
        assert_eq!(field.map(|byte| byte as u8), *b"ab\0\0");
        let field: [c_char; 4] = put("abcd");
        assert_eq!(field.map(|byte| byte as u8), *b"abc\0");
    }
}
