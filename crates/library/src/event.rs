//! A node's events about its peers and links.

use core::fmt;

use tabane_proto::{DownReason, Event as Happened, Node, PeerId};

/// Something that happened to a peer or a path to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The bundle with a peer stands.
    PeerUp {
        /// Its name.
        peer: String,
        /// It has restarted since it was last up: its former streams are gone.
        restarted: bool,
    },
    /// A peer cannot be reached now. It is being tried again for ever, and streams wait.
    PeerDown {
        /// Its name.
        peer: String,
        /// It said so itself, with this code (0: it stops).
        closed: Option<u32>,
    },
    /// A path failed; the others take over its traffic.
    LinkDown {
        /// The peer at its other end.
        peer: String,
        /// Its number.
        link: u8,
    },
    /// A path works (again).
    LinkUp {
        /// The peer at its other end.
        peer: String,
        /// Its number.
        link: u8,
    },
    /// Only one path to a peer works of several: the next failure cuts it off.
    RedundancyLost {
        /// Its name.
        peer: String,
    },
    /// More than one path to a peer works again.
    RedundancyRestored {
        /// Its name.
        peer: String,
    },
    /// A peer restarted before this many messages to it were acknowledged: they may or may not
    /// have arrived.
    MessagesBroken {
        /// Its name.
        peer: String,
        /// How many.
        count: usize,
    },
    /// This many events before this one were dropped because the program did not fetch them in
    /// time.
    Missed {
        /// How many.
        count: u64,
    },
    /// The links changed at the operating system's level, in words.
    Link {
        /// What happened.
        text: String,
    },
}

impl Event {
    /// The program's event for a protocol event; `None` for those of streams and messages.
    pub(crate) fn of(node: &Node, happened: &Happened) -> Option<Event> {
        let name = |peer: PeerId| node.peer_name(peer).map(str::to_owned);
        Some(match happened {
            Happened::PeerUp { peer, restarted } => Event::PeerUp {
                peer: name(*peer)?,
                restarted: *restarted,
            },
            Happened::PeerDown { peer, reason } => Event::PeerDown {
                peer: name(*peer)?,
                closed: match reason {
                    DownReason::Closed { code } => Some(*code),
                    _ => None,
                },
            },
            Happened::LinkDown { peer, link, .. } => Event::LinkDown {
                peer: name(*peer)?,
                link: link.0,
            },
            Happened::LinkUp { peer, link, .. } => Event::LinkUp {
                peer: name(*peer)?,
                link: link.0,
            },
            Happened::Op { .. }
            | Happened::Guest { .. }
            | Happened::Member { .. }
            | Happened::Parted { .. }
            | Happened::NotAdmitted { .. }
            | Happened::Measured { .. }
            | Happened::Refused { .. } => return None,
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::PeerUp { peer, restarted } => {
                let again = if *restarted { ", started afresh" } else { "" };
                write!(f, "{peer} is up{again}")
            }
            Event::PeerDown { peer, closed } => match closed {
                Some(0) => write!(f, "{peer} is down: it stopped"),
                Some(code) => write!(f, "{peer} is down: it stopped (code {code})"),
                None => write!(f, "{peer} is down: it does not answer"),
            },
            Event::LinkDown { peer, link } => write!(f, "link {link} to {peer} is down"),
            Event::LinkUp { peer, link } => write!(f, "link {link} to {peer} is up"),
            Event::RedundancyLost { peer } => write!(f, "only one link to {peer} works"),
            Event::RedundancyRestored { peer } => {
                write!(f, "more than one link to {peer} works again")
            }
            Event::MessagesBroken { peer, count } => write!(
                f,
                "{peer} started afresh; whether {count} messages arrived is not known"
            ),
            Event::Missed { count } => write!(f, "{count} events before this one were not kept"),
            Event::Link { text } => f.write_str(text),
        }
    }
}
