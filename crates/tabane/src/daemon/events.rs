//! Events in the words of the log: each change once, with link and peer named.

use core::net::IpAddr;

use tabane_cluster::PublicKey;
use tabane_proto::bundle::{CLOSE_KEY_REMOVED, CLOSE_STOPS, CLOSE_TAKEN};
use tabane_proto::wire::Witness;
use tabane_proto::{DownReason, Event, Refusal};

use crate::log::Line;

/// The witness of a path's failure, for people.
pub fn witness(w: Witness) -> &'static str {
    match w {
        Witness::ArrivalSkew => "packets sent on it do not arrive while other links deliver",
        Witness::UnackedAge => "packets sent on it stay unacknowledged while other links progress",
        Witness::KernelLink => "the kernel reports the link down",
        Witness::ProbeTimeout => "probes are not answered",
        Witness::Peer => "the peer says so",
        Witness::ProbesAnswered => "probes are answered",
    }
}

/// The log line for `event`; `name` is the peer's, `name_at` the name of the node with this
/// address in the cluster file. `None`: no news to an operator.
pub fn describe(
    event: &Event,
    name: impl Fn(tabane_proto::PeerId) -> String,
    name_at: impl Fn(IpAddr) -> Option<String>,
) -> Option<Line> {
    let text = match event {
        Event::PeerUp {
            peer,
            restarted: false,
        } => format!("{}: connected", name(*peer)),
        Event::PeerUp {
            peer,
            restarted: true,
        } => {
            format!("{}: connected again; it had restarted", name(*peer))
        }
        Event::PeerDown { peer, reason } => {
            let why = match reason {
                DownReason::Closed { code: CLOSE_STOPS } => "it was stopped",
                DownReason::Closed {
                    code: CLOSE_KEY_REMOVED,
                } => "it no longer accepts the key this node connected with",
                DownReason::Closed { code: CLOSE_TAKEN } => {
                    "another node has this node's name or an address of it"
                }
                DownReason::Closed { .. } => "it no longer has this node in its cluster file",
                DownReason::KeyRemoved => {
                    "its key is no longer accepted, and it does not show the new one"
                }
                DownReason::AllPathsDown => "no link to it works; still trying",
                DownReason::Removed => "removed from the cluster file",
            };
            format!("{}: not connected: {why}", name(*peer))
        }
        Event::LinkDown {
            peer,
            link,
            witness: w,
            ..
        } => {
            format!("link {} to {} failed: {}", link.0, name(*peer), witness(*w))
        }
        Event::LinkUp { peer, link, .. } => format!("link {} to {} works", link.0, name(*peer)),
        Event::Refused { link, from, why } => {
            let peer = name_at(from.ip()).map_or_else(String::new, |name| format!(" ({name})"));
            format!(
                "refused a node at {from}{peer} on link {}: {}",
                link.0,
                refusal(why)
            )
        }
        // Nodes that come and go are logged elsewhere.
        Event::Op { .. }
        | Event::Guest { .. }
        | Event::Member { .. }
        | Event::Parted { .. }
        | Event::NotAdmitted { .. }
        | Event::Measured { .. } => return None,
    };
    let is_well = matches!(event, Event::PeerUp { .. } | Event::LinkUp { .. });
    Some(match is_well {
        true => Line::info(text),
        false => Line::warning(text),
    })
}

/// Why a handshake was refused, for people.
pub fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::Handshake(error) => error.to_string(),
        Refusal::UnknownNode(node) => {
            format!("it calls itself {node:?}, which is not in this node's cluster file")
        }
        Refusal::TooManyGuests(node) => {
            format!("it calls itself {node:?}, and as many guests are here as may be")
        }
        Refusal::WrongIdentity { name, shown } => match shown {
            Some(shown) => format!(
                "it calls itself {name:?}, but has another key than that node's `public` in this \
                 node's cluster file: write public = \"{}\" in every node's file if it is {name}, \
                 or find out who poses as {name}",
                PublicKey(*shown)
            ),
            None => format!(
                "it calls itself {name:?}, but does not show that node's key, which this node's \
                 cluster file has as its `public`: {name} has an older cluster file, or somebody \
                 poses as {name}"
            ),
        },
        Refusal::OwnName => {
            "it has this node's own name: two nodes must not run under one name".to_owned()
        }
        Refusal::DuplicateName { name, other } => format!(
            "it calls itself {name:?}, and so does another machine at {}: each node needs a name \
             and links of its own in the cluster file",
            other.ip()
        ),
        Refusal::DuplicateAddress { name, holder } => format!(
            "it calls itself {name:?}, and has an address of {holder}: each node needs links and a vnic of its own"
        ),
        Refusal::WrongLink { says } => format!(
            "its packets say link {}, and are dropped: the order of `links` must be the same in \
             every node's cluster file, and link 0 of each lead to the same network, and so on",
            says.0
        ),
    }
}
