//! What a node hands its driver to be sent.

use std::net::SocketAddr;

use crate::LinkId;

/// Datagrams for one address, to be sent with one system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The link to send on.
    pub link: LinkId,
    /// Where to.
    pub to: SocketAddr,
    /// How much of the buffer is filled.
    pub bytes: usize,
    /// Every datagram has this size but the last, which may be shorter.
    pub segment_bytes: usize,
    /// Whether something of the peer's came on this path lately (in the last ten seconds), so that what is below may
    /// trust what it knows of the address. So a silent failure does not cost the neighbour's Ethernet address at once;
    /// after a longer silence that may be wrong, and must not be kept.
    pub peer_was_heard: bool,
}

/// Who had sent all there was at some moment: a packet of content was not full. Bulk that goes on
/// has full packets only; the last one of a message ends short.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RanOut {
    /// This node.
    pub here: bool,
    /// A peer.
    pub peer: bool,
}
