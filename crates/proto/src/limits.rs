//! Every limit of the protocol, named, with what it costs. `docs/protocol.md`
//! lists the ones a second implementation must share.

/// Links a node can have.
pub const LINKS_MAX: usize = 8;
/// Ways through other nodes that a bundle may use at once, beside the paths over its links.
pub const RELAYED_MAX: usize = 2;
/// Paths that a bundle can have: those over links first, by the link's number.
pub const PATHS_MAX: usize = LINKS_MAX + RELAYED_MAX;
/// Nodes that a datagram may be relayed by, one after the other.
pub const RELAYS_MAX: usize = 3;
/// Largest datagram ever sent or accepted (jumbo frames: 9000 less IP and UDP).
pub const DATAGRAM_BYTES_MAX: usize = 8972;
/// Datagram size every path must carry; the size before path MTU discovery has
/// spoken (what every IPv4 host takes, 576, less IPv4 and UDP headers, RFC 791).
pub const DATAGRAM_BYTES_MIN: usize = 548;
/// Datagram size that every path through other nodes carries: what is left of [`DATAGRAM_BYTES_MIN`] when the
/// longest way and two sessions' headers and trailers are taken off.
pub const DATAGRAM_BYTES_RELAYED: usize = 475;
/// A path that does not carry datagrams of this size is *narrow*: it carries content only where no other
/// path does (IPv6 minimum link MTU 1280 less IPv6 and UDP headers, RFC 8200).
pub const DATAGRAM_BYTES_WIDE: usize = 1232;
/// Longest node name in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// Largest frame of the virtual NIC, virtio header included.
pub const FRAME_BYTES_MAX: usize = 512 * 1024;
/// Largest message.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Packets behind the newest one on a path that can still be accepted and
/// acknowledged: the replay window.
pub const REPLAY_WINDOW_PACKETS: usize = 8192;
