//! Counters of a node: what it dropped, and why.

/// Datagrams a node did not use, by reason, and limits it met. All count from
/// the node's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeStats {
    /// Not a packet of this protocol, or cut short.
    pub malformed: u64,
    /// A session number that no bundle here has.
    pub unknown_session: u64,
    /// Did not authenticate under the session's key.
    pub forged: u64,
    /// Seen before, or too old to tell.
    pub replayed: u64,
    /// Came over another link than the one it says.
    pub cross_path: u64,
    /// A handshake whose keyed checksum is wrong: another cluster's, or a stranger's.
    pub stranger: u64,
    /// A handshake by a key holder that was refused.
    pub refused: u64,
    /// A handshake answered with a cookie because too many came.
    pub cookies_sent: u64,
    /// An opened packet with a record that could not be understood.
    pub bad_record: u64,
    /// An opened packet whose content broke a rule of the protocol.
    pub violation: u64,
    /// Frames of the virtual NIC not taken because the peer is not connected.
    pub frames_unreachable: u64,
    /// Frames of the virtual NIC not taken because the queue was full.
    pub frames_queue_full: u64,
    /// Datagrams handed to the driver.
    pub datagrams_sent: u64,
    /// Datagrams handed in by the driver.
    pub datagrams_received: u64,
    /// Events dropped because the driver did not collect them.
    pub events_dropped: u64,
}
