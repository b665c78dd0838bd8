//! The relays to a peer, and the address that stands for them.
//!
//! A bundle sends to addresses and learns addresses. So a way is written as an address, from a block
//! that nobody routes (discard-only, RFC 6666): a peer's new way is found and proved like a new address.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use smallvec::SmallVec;

use crate::PeerId;
use crate::limits::RELAYS_MAX;

/// The first half of the addresses.
const PREFIX: [u16; 4] = [0x0100, 0, 0, 0];
/// Fills the place of an absent relay; no peer has this number.
const NOBODY: u16 = u16::MAX;
/// A port, so that the address does not look unanswerable.
const PORT: u16 = 7577;

/// The relays' numbers, in the order of passing.
pub(crate) type RelayList = SmallVec<[PeerId; RELAYS_MAX]>;

/// How a peer is reached through others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    pub to: PeerId,
    pub relays: RelayList,
}

impl Way {
    /// The address that stands for it; none if a number is too large for that.
    pub fn address(&self) -> Option<SocketAddr> {
        let [a, b, c, d] = PREFIX;
        let mut places = [NOBODY; 1 + RELAYS_MAX];
        let peers = core::iter::once(&self.to).chain(&self.relays);
        for (place, peer) in places.iter_mut().zip(peers) {
            *place = u16::try_from(peer.0).ok().filter(|n| *n != NOBODY)?;
        }
        let [to, x, y, z] = places;
        let ip = Ipv6Addr::new(a, b, c, d, to, x, y, z);
        Some(SocketAddr::new(IpAddr::V6(ip), PORT))
    }

    /// The way that an address stands for.
    pub fn of(address: SocketAddr) -> Option<Way> {
        let IpAddr::V6(ip) = address.ip() else {
            return None;
        };
        let segments = ip.segments();
        let (prefix, places) = segments.split_at(PREFIX.len());
        let there = places.iter().take_while(|place| **place != NOBODY);
        let mut peers = there.map(|place| PeerId(u32::from(*place)));
        let to = peers.next()?;
        let relays: RelayList = peers.collect();
        (prefix == PREFIX && !relays.is_empty()).then_some(Way { to, relays })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_and_its_address_are_the_same() {
        for relays in [&[7][..], &[7, 0], &[1, 2, 65_534]] {
            let relays = relays.iter().copied().map(PeerId).collect();
            let way = Way {
                to: PeerId(3),
                relays,
            };
            let address = way.address().unwrap();
            assert_eq!(Way::of(address), Some(way));
        }
        for other in ["10.0.0.1:7577", "[fd00::1]:7577", "[100::3:ffff:7:7]:1"] {
            assert_eq!(Way::of(other.parse().unwrap()), None, "{other}");
        }
    }

    #[test]
    fn a_number_too_large_for_an_address_has_none() {
        let relays = RelayList::from_slice(&[PeerId(65_535)]);
        let to = PeerId(1);
        assert_eq!(Way { to, relays }.address(), None);
    }
}
