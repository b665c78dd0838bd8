//! The reasons why peers are given up, as far as known: for people who have to mend
//! them.
//!
//! Callers with another key or wire are remembered by their addresses.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use tabane_proto::Refusal;
use tabane_proto::crypto::HandshakeError;

use crate::{Address, Failure, Lost, Misfit, Peer};

/// The most callers that are remembered; forged ones push out the oldest.
const CALLERS_MAX: usize = 64;

/// Failed callers and lost peers.
#[derive(Default)]
pub(super) struct LostPeers {
    callers: VecDeque<(SocketAddr, Misfit)>,
    lost: VecDeque<Lost>,
    /// Peers whose end is reported even if no operation waits for them.
    pub watched: BTreeSet<Peer>,
}

impl LostPeers {
    /// Somebody was not let in.
    pub fn refused(&mut self, from: SocketAddr, why: &Refusal) {
        let misfit = match why {
            Refusal::Handshake(HandshakeError::WrongKey) => Misfit::Key,
            Refusal::Handshake(HandshakeError::WrongWire { .. }) => Misfit::Wire,
            Refusal::Handshake(HandshakeError::WrongVersion { .. }) => Misfit::Version,
            _ => return,
        };
        self.callers.retain(|(known, _)| *known != from);
        if self.callers.len() == CALLERS_MAX {
            self.callers.pop_front();
        }
        self.callers.push_back((from, misfit));
    }

    /// A peer was given up.
    pub fn note(&mut self, address: Address, why: Failure) {
        let links = address.links();
        let is_its = |from: &SocketAddr| {
            let own = |link: &SocketAddr| {
                // One of the same node calls by the loopback device.
                link == from || from.ip().is_loopback() && from.port() == link.port()
            };
            links.iter().flatten().any(own)
        };
        let called = self.callers.iter().find(|(from, _)| is_its(from));
        let misfit = called.map(|(_, misfit)| *misfit);
        self.lost.push_back(Lost {
            address,
            why,
            misfit,
        });
    }

    /// Whether there are some that were not told of yet.
    pub fn are_any(&self) -> bool {
        !self.lost.is_empty()
    }

    /// One that was not told of yet.
    pub fn next(&mut self) -> Option<Lost> {
        self.lost.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::new(&[(0, text.parse().unwrap())], 40_000, 7).unwrap()
    }

    #[test]
    fn who_called_with_another_key_is_known_by_its_address() {
        let mut peers = LostPeers::default();
        let key = Refusal::Handshake(HandshakeError::WrongKey);
        peers.refused("10.77.0.2:40000".parse().unwrap(), &key);
        peers.refused("10.77.0.3:40000".parse().unwrap(), &Refusal::OwnName);
        for host in ["10.77.0.2", "10.77.0.3"] {
            peers.note(address(host), Failure::Unreachable);
        }
        assert_eq!(peers.next().unwrap().misfit, Some(Misfit::Key));
        assert_eq!(peers.next().unwrap().misfit, None);
        assert_eq!(peers.next(), None);
    }

    #[test]
    fn no_more_callers_are_remembered_than_may_be() {
        let mut peers = LostPeers::default();
        let key = Refusal::Handshake(HandshakeError::WrongKey);
        for port in 0..1000 {
            peers.refused(([10, 77, 0, 2], port).into(), &key);
        }
        assert_eq!(peers.callers.len(), CALLERS_MAX);
    }
}
