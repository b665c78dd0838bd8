//! Counters of a node: what it dropped, and why.

/// Why a datagram was dropped. Each one that has no effect is counted under
/// exactly one of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rejection {
    /// Not a packet of this protocol, or cut short.
    Malformed,
    /// A session number that no bundle here has.
    UnknownSession,
    /// Did not authenticate under the session's key: altered, or not from the peer.
    Forged,
    /// Seen before.
    Replayed,
    /// So old that nobody can tell whether it was seen before.
    TooOld,
    /// Came over another link than the one it says, or over one on which there
    /// is no path to the peer.
    WrongLink,
    /// A handshake whose keyed checksum is wrong: another cluster's, or a stranger's.
    Stranger,
    /// A handshake by a holder of a key that cannot be accepted:
    /// [`Event::Refused`](super::Event::Refused) says why.
    Refused,
    /// A first message answered with a cookie, because many came or something
    /// was at stake.
    AskedForCookie,
    /// A first message with a good cookie, or a question that needs no session, while too many of those came.
    TooManyHandshakes,
    /// A first message that met one of this node's own, which counts.
    Crossed,
    /// An answer or a cookie for a handshake that is over, or the answer to a question that nobody asks any more.
    Stale,
    /// A first message of this node's own that came back.
    Reflected,
    /// Came through other nodes in a way that cannot be: not from the neighbour whose turn it was, or between
    /// nodes of which this one does not know.
    Misrouted,
    /// Was to be relayed, and is not: this node does not reach the next one, relays for nobody, or has relayed as much as it may.
    NotRelayed,
    /// A first message over a link, of a peer for which this node has no bundle over links left.
    NoLinksLeft,
}

impl Rejection {
    /// All of them.
    pub const ALL: [Rejection; 16] = [
        Rejection::Malformed,
        Rejection::UnknownSession,
        Rejection::Forged,
        Rejection::Replayed,
        Rejection::TooOld,
        Rejection::WrongLink,
        Rejection::Stranger,
        Rejection::Refused,
        Rejection::AskedForCookie,
        Rejection::TooManyHandshakes,
        Rejection::Crossed,
        Rejection::Stale,
        Rejection::Reflected,
        Rejection::Misrouted,
        Rejection::NotRelayed,
        Rejection::NoLinksLeft,
    ];

    /// Its name in `status`.
    pub const fn name(self) -> &'static str {
        match self {
            Rejection::Malformed => "malformed",
            Rejection::UnknownSession => "unknown_session",
            Rejection::Forged => "forged",
            Rejection::Replayed => "replayed",
            Rejection::TooOld => "too_old",
            Rejection::WrongLink => "wrong_link",
            Rejection::Stranger => "stranger",
            Rejection::Refused => "refused",
            Rejection::AskedForCookie => "asked_for_cookie",
            Rejection::TooManyHandshakes => "too_many_handshakes",
            Rejection::Crossed => "crossed",
            Rejection::Stale => "stale",
            Rejection::Reflected => "reflected",
            Rejection::Misrouted => "misrouted",
            Rejection::NotRelayed => "not_relayed",
            Rejection::NoLinksLeft => "no_links_left",
        }
    }
}

/// What became of datagrams, and limits that were met. All count from the
/// node's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeStats {
    /// By the place of the reason in [`Rejection::ALL`].
    rejected: [u64; Rejection::ALL.len()],
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
    /// Datagrams of others that were relayed to their next node.
    pub relayed: u64,
    /// Their bytes.
    pub relayed_bytes: u64,
    /// How often a peer asked for links while this node had as many bundles over links as it may, so that it goes on through others.
    pub links_refused: u64,
    /// How often a peer had to do with little memory, since others hold most of what the node has.
    pub memory_short: u64,
}

impl NodeStats {
    /// How many datagrams were dropped for this reason.
    pub fn rejected(&self, reason: Rejection) -> u64 {
        self.rejected[reason as usize]
    }

    pub(crate) fn reject(&mut self, reason: Rejection) {
        self.rejected[reason as usize] += 1;
    }

    /// Datagrams that anybody may send who knows nothing of a session: those that
    /// make no sense, bear no known session number, or begin a handshake that
    /// comes to nothing for want of the key or of a cookie.
    pub fn of_strangers(&self) -> u64 {
        self.rejected(Rejection::Malformed)
            + self.rejected(Rejection::UnknownSession)
            + self.first_messages_turned_away()
    }

    /// Those of them that begin a handshake.
    pub fn first_messages_turned_away(&self) -> u64 {
        self.rejected(Rejection::Stranger) + self.rejected(Rejection::AskedForCookie)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_place_and_a_name_of_its_own() {
        for (place, reason) in Rejection::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            let same = |other: &&Rejection| other.name() == reason.name();
            assert_eq!(Rejection::ALL.iter().filter(same).count(), 1);
        }
    }
}
