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

impl NodeStats {
    /// Datagrams that anybody may send who knows nothing of a session: those that
    /// make no sense, bear no known session number, or begin a handshake that
    /// comes to nothing for want of the key or of a cookie.
    pub fn of_strangers(&self) -> u64 {
        self.malformed + self.unknown_session + self.first_messages_turned_away()
    }

    /// Those of them that begin a handshake.
    pub fn first_messages_turned_away(&self) -> u64 {
        self.stranger + self.cookies_sent
    }
}
