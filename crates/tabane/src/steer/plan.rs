//! How to reach the addresses of peers, given the state of the links. Pure: no system calls, no
//! clock.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// All that the daemon knows and that matters here.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Picture {
    /// This node's links: their addresses.
    pub links: Vec<IpAddr>,
    /// The other nodes.
    pub peers: Vec<PeerPicture>,
}

/// Another node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PeerPicture {
    /// Its name.
    pub name: String,
    /// The paths to it.
    pub paths: Vec<PathPicture>,
}

/// One path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathPicture {
    /// This node's address on it.
    pub own: IpAddr,
    /// The peer's.
    pub peer: IpAddr,
    /// Whether it works; `None` if that was never tried, or is unknown.
    pub works: Option<bool>,
}

/// How to reach an address of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// As the network has it, from this node's address on the link.
    Direct {
        /// That address.
        own: IpAddr,
    },
    /// By another link, since its own has failed.
    Detour {
        /// This node's address on the failed link: packets from it keep it, and use the link again
        /// as soon as it works.
        own: IpAddr,
        /// The peer's address on the other link.
        via: IpAddr,
        /// This node's on that.
        other: IpAddr,
    },
}

impl Way {
    /// This node's address on the link that the address belongs to.
    pub const fn own(&self) -> IpAddr {
        match self {
            Way::Direct { own } | Way::Detour { own, .. } => *own,
        }
    }
}

/// The ways to peers that are known to be there, by address. If no path to a peer works, nothing is
/// known about any: perhaps only the peer's daemon is gone.
pub fn ways(picture: &Picture) -> BTreeMap<IpAddr, Way> {
    let mut ways = BTreeMap::new();
    for peer in &picture.peers {
        let working = peer.paths.iter().filter(|path| path.works == Some(true));
        for path in &peer.paths {
            let is_like = |other: &&PathPicture| other.peer.is_ipv4() == path.peer.is_ipv4();
            let other = working.clone().find(is_like);
            let own = path.own;
            let way = match (path.works, other) {
                (Some(true), _) => Way::Direct { own },
                (Some(false), Some(other)) => Way::Detour {
                    own,
                    via: other.peer,
                    other: other.own,
                },
                _ => continue,
            };
            ways.insert(path.peer, way);
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(link: u8, node: u8) -> IpAddr {
        [10, 77, link, node].into()
    }

    /// This node is 1, the peer 2; one letter for each path: Works, Failed, ? unknown. Returns the
    /// link that leads to each of the peer's addresses.
    fn links(lives: &str) -> Vec<Option<u8>> {
        let path = |(link, life): (usize, char)| PathPicture {
            own: ip(link as u8, 1),
            peer: ip(link as u8, 2),
            works: match life {
                'W' => Some(true),
                'F' => Some(false),
                _ => None,
            },
        };
        let peer = PeerPicture {
            name: "n1".to_owned(),
            paths: lives.chars().enumerate().map(path).collect(),
        };
        let ways = ways(&Picture {
            links: Vec::new(),
            peers: vec![peer],
        });
        let all = 0..lives.len() as u8;
        let link = |link: u8| match ways.get(&ip(link, 2))? {
            Way::Direct { own } => (*own == ip(link, 1)).then_some(link),
            Way::Detour { own, via, other } => {
                assert_eq!(*own, ip(link, 1), "where it came from");
                (0..8).find(|l| *via == ip(*l, 2) && *other == ip(*l, 1))
            }
        };
        all.map(link).collect()
    }

    #[test]
    fn an_address_on_a_failed_link_is_reached_by_one_that_works() {
        assert_eq!(links("WW"), [Some(0), Some(1)]);
        assert_eq!(links("FW"), [Some(1), Some(1)]);
        assert_eq!(links("WF"), [Some(0), Some(0)]);
        assert_eq!(links("FFW"), [Some(2), Some(2), Some(2)]);
        assert_eq!(links("WFW"), [Some(0), Some(0), Some(2)]);
    }

    #[test]
    fn what_nobody_can_tell_is_left_alone() {
        assert_eq!(links("??"), [None, None]);
        assert_eq!(links("FF"), [None, None]);
        assert_eq!(links("F?"), [None, None]);
        assert_eq!(links("?W"), [None, Some(1)]);
    }
}
