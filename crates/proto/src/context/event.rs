//! What a node tells its driver.

use core::time::Duration;
use std::net::SocketAddr;

use crate::crypto::{HandshakeError, PublicKey};
use crate::op::OpEvent;
use crate::wire::{Measured, Name, Verdict, Witness};
use crate::{LinkId, PeerId, Time};

/// Why a peer is no longer connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DownReason {
    /// It said that it stops.
    Closed {
        /// Its reason: 0 it stops, 1 this node was removed from its configuration,
        /// 2 it no longer accepts the key that admitted the session.
        code: u32,
    },
    /// No path to it has worked for [`PEER_SILENT_MAX`](crate::bundle::PEER_SILENT_MAX).
    AllPathsDown,
    /// It was removed from this node's configuration.
    Removed,
    /// Its session was admitted by a cluster key, or a public key of the peer, that this node no
    /// longer accepts, and it did not show another one in time.
    KeyRemoved,
}

/// Why a node that had joined is a peer no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartedWhy {
    /// It left.
    Left,
    /// Nothing was heard of it for too long, or it never said who it is.
    Silent,
    /// Another node has an address of it, as was told by [`Event::Refused`].
    Taken,
}

/// Something the application, the operator or the log wants to know.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A bundle to `peer` stands.
    PeerUp {
        /// Who.
        peer: PeerId,
        /// Whether it began anew since it was last up: its former streams were reset.
        restarted: bool,
    },
    /// The bundle to `peer` does not work now. It is being tried again for ever.
    PeerDown {
        /// Who.
        peer: PeerId,
        /// Why.
        reason: DownReason,
    },
    /// A path failed; its traffic is on the others already.
    LinkDown {
        /// To whom.
        peer: PeerId,
        /// Which path.
        link: LinkId,
        /// What told it.
        witness: Witness,
        /// When it was decided.
        at: Time,
    },
    /// A path works (again).
    LinkUp {
        /// To whom.
        peer: PeerId,
        /// Which path.
        link: LinkId,
        /// When it was decided.
        at: Time,
    },
    /// Streams and messages of a bundle.
    Op {
        /// Whose bundle.
        peer: PeerId,
        /// What happened.
        event: OpEvent,
    },
    /// Somebody called that was not added, and is a peer now: one of the [`Guests`](crate::Guests) that the
    /// configuration admits. Whoever made the call has the cluster key, or recorded who has: who does not get
    /// [`Event::PeerUp`] for it soon removes it.
    Guest {
        /// Who.
        peer: PeerId,
        /// Its name.
        name: Name,
    },
    /// What a peer says of itself is new, where nodes may join: it has joined, or has other addresses now. See
    /// [`Node::member`](crate::Node::member).
    Member {
        /// Who.
        peer: PeerId,
    },
    /// A node that had joined is a peer no longer.
    Parted {
        /// Who.
        peer: PeerId,
        /// Its name.
        name: Name,
        /// Why.
        why: PartedWhy,
    },
    /// A node that was asked does not let this one join. Told again only when the verdict is another one.
    NotAdmitted {
        /// Where it was asked.
        link: LinkId,
        /// At which address.
        address: SocketAddr,
        /// Its name.
        by: Name,
        /// Why.
        verdict: Verdict,
    },
    /// A measurement is over that this node wanted.
    Measured {
        /// What it was called.
        token: u32,
        /// What came of it.
        outcome: Measured,
        /// How much later than another one, right behind which it was sent, a probe was answered: what the slowest
        /// link on the way takes for one. Only of this node's own, if they went in trains.
        behind: Option<Duration>,
    },
    /// Somebody was not admitted. Told for a bounded number of datagrams only, however many come.
    Refused {
        /// Where it came in.
        link: LinkId,
        /// From whom.
        from: SocketAddr,
        /// Why.
        why: Refusal,
    },
}

impl Event {
    /// Whom it is about.
    pub const fn peer(&self) -> Option<PeerId> {
        match self {
            Event::PeerUp { peer, .. }
            | Event::PeerDown { peer, .. }
            | Event::LinkDown { peer, .. }
            | Event::LinkUp { peer, .. }
            | Event::Guest { peer, .. }
            | Event::Member { peer }
            | Event::Parted { peer, .. }
            | Event::Op { peer, .. } => Some(*peer),
            Event::Refused { .. } | Event::NotAdmitted { .. } | Event::Measured { .. } => None,
        }
    }
}

/// Why somebody was not admitted.
#[derive(Clone, PartialEq, Debug)]
pub enum Refusal {
    /// The handshake itself failed.
    Handshake(HandshakeError),
    /// The caller's name is not in this node's configuration.
    UnknownNode(String),
    /// The caller's name is not in this node's configuration, and as many guests are here as may be.
    TooManyGuests(String),
    /// The caller's name has a public key in this node's configuration, and the caller is not its
    /// holder.
    WrongIdentity {
        /// The name.
        name: String,
        /// The public key that it does hold; none if it showed nothing but the cluster key.
        shown: Option<PublicKey>,
    },
    /// The caller bears this node's own name.
    OwnName,
    /// Two machines run under this name: the one at this address, and one elsewhere.
    DuplicateName {
        /// The name.
        name: String,
        /// Where the other one is.
        other: SocketAddr,
    },
    /// The caller has an address of another node.
    DuplicateAddress {
        /// The caller's name.
        name: String,
        /// That of the node that has the address.
        holder: String,
    },
    /// Packets come over another link than the one they say.
    WrongLink {
        /// The link they say.
        says: LinkId,
    },
}
