//! The peers with virtual NICs, and how much waits to be sent to them.
//!
//! Both are needed for each frame, so neither iterates over all peers: a peer's number is an index to
//! its place, and only peers to which something may still wait are asked how much.

use tabane_proto::{Node, PeerId};

use crate::vswitch::FlowNumbers;

/// The source of queue lengths.
pub trait Queues {
    /// Bytes of frames that wait to be sent to a peer.
    fn queued_bytes(&self, peer: PeerId) -> usize;

    /// Whether more is sent to it than can be carried, and has been for a while.
    fn stand(&self, peer: PeerId) -> bool;
}

impl Queues for Node {
    fn queued_bytes(&self, peer: PeerId) -> usize {
        self.queued_frame_bytes(peer)
    }

    fn stand(&self, peer: PeerId) -> bool {
        self.frames_stand(peer)
    }
}

/// A peer with a virtual NIC.
struct Port {
    peer: PeerId,
    flows: FlowNumbers,
    /// It is among the peers to which something may wait.
    is_used: bool,
}

/// All of them, each at its place.
#[derive(Default)]
pub struct Ports {
    ports: Vec<Port>,
    /// Index of each peer, by its number.
    places: Vec<Option<usize>>,
    /// Peers that were given a frame that may still wait.
    used: Vec<usize>,
}

/// Bytes that wait to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// To all peers, bytes.
    pub bytes: usize,
    /// Bytes to peers whose queue does not stand.
    pub flowing_bytes: usize,
    /// The number of these peers.
    pub flowing: usize,
}

impl Ports {
    /// Sets these peers, in this order. Peers that stay keep their state.
    pub fn set(&mut self, peers: impl Iterator<Item = PeerId>) {
        let mut before = core::mem::take(self);
        for peer in peers {
            let known = before.place(peer);
            let place = self.ports.len();
            let was_used = known.is_some_and(|known| before.ports[known].is_used);
            if was_used {
                self.used.push(place);
            }
            self.ports.push(Port {
                peer,
                flows: known
                    .map(|known| core::mem::take(&mut before.ports[known].flows))
                    .unwrap_or_default(),
                is_used: was_used,
            });
            let number = peer.0 as usize;
            if number >= self.places.len() {
                self.places.resize(number + 1, None);
            }
            self.places[number] = Some(place);
        }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.ports.len()
    }

    /// The place of a peer.
    pub fn place(&self, peer: PeerId) -> Option<usize> {
        *self.places.get(peer.0 as usize)?
    }

    /// The peer at a place.
    pub fn peer(&self, place: usize) -> PeerId {
        self.ports[place].peer
    }

    /// The flows to the peer at a place.
    pub fn flows(&mut self, place: usize) -> &mut FlowNumbers {
        &mut self.ports[place].flows
    }

    /// A frame was handed over for the peer at a place.
    pub fn use_place(&mut self, place: usize) {
        if !core::mem::replace(&mut self.ports[place].is_used, true) {
            self.used.push(place);
        }
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&mut self, queues: &impl Queues) -> Waiting {
        let mut waiting = Waiting::default();
        let ports = &mut self.ports;
        self.used.retain(|place| {
            let port = &mut ports[*place];
            let bytes = queues.queued_bytes(port.peer);
            port.is_used = bytes > 0;
            waiting.bytes += bytes;
            if port.is_used && !queues.stand(port.peer) {
                waiting.flowing_bytes += bytes;
                waiting.flowing += 1;
            }
            port.is_used
        });
        waiting
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Waiting bytes, and the number of queries.
    #[derive(Default)]
    struct Fake {
        bytes: BTreeMap<PeerId, usize>,
        standing: BTreeSet<PeerId>,
        asked: Cell<usize>,
    }

    impl Queues for Fake {
        fn queued_bytes(&self, peer: PeerId) -> usize {
            self.asked.set(self.asked.get() + 1);
            self.bytes.get(&peer).copied().unwrap_or_default()
        }

        fn stand(&self, peer: PeerId) -> bool {
            self.standing.contains(&peer)
        }
    }

    fn ports(peers: impl Iterator<Item = u32>) -> Ports {
        let mut ports = Ports::default();
        ports.set(peers.map(PeerId));
        ports
    }

    #[test]
    fn what_waits_is_what_asking_everybody_would_give() {
        let mut ports = ports((0..50).map(|n| n * 3));
        let mut fake = Fake::default();
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..2_000 {
            let place = draw(50) as usize;
            let peer = ports.peer(place);
            assert_eq!(ports.place(peer), Some(place));
            match draw(4) {
                // Sent, or dropped.
                0 => drop(fake.bytes.remove(&peer)),
                1 => drop(fake.standing.insert(peer)),
                2 => drop(fake.standing.remove(&peer)),
                _ => {
                    *fake.bytes.entry(peer).or_default() += 1 + draw(1_000) as usize;
                    ports.use_place(place);
                }
            }
            let flowing = || {
                let queues = fake.bytes.iter();
                queues.filter(|(peer, _)| !fake.standing.contains(peer))
            };
            let wanted = Waiting {
                bytes: fake.bytes.values().sum(),
                flowing_bytes: flowing().map(|(_, bytes)| bytes).sum(),
                flowing: flowing().count(),
            };
            assert_eq!(ports.waiting(&fake), wanted);
        }
    }

    #[test]
    fn peers_to_whom_nothing_waits_are_not_asked() {
        let mut ports = ports(0..1_000);
        let mut fake = Fake::default();
        for peer in [3, 700] {
            fake.bytes.insert(PeerId(peer), 10);
            // However many frames.
            (0..5).for_each(|_| ports.use_place(peer as usize));
        }
        let asked = |ports: &mut Ports, fake: &Fake| {
            fake.asked.set(0);
            ports.waiting(fake);
            fake.asked.get()
        };
        assert_eq!(asked(&mut ports, &fake), 2);
        fake.bytes.remove(&PeerId(3));
        // Now the empty queue is noticed.
        assert_eq!(asked(&mut ports, &fake), 2);
        // From now on it is not queried.
        assert_eq!(asked(&mut ports, &fake), 1);
    }

    #[test]
    fn who_stays_when_others_come_and_go_keeps_what_waits() {
        let mut ports = ports(0..3);
        let mut fake = Fake::default();
        fake.bytes.insert(PeerId(2), 10);
        ports.use_place(2);
        ports.set([PeerId(9), PeerId(2)].into_iter());
        assert_eq!(ports.len(), 2);
        assert_eq!(ports.place(PeerId(0)), None);
        assert_eq!(
            (ports.place(PeerId(2)), ports.peer(1)),
            (Some(1), PeerId(2))
        );
        assert_eq!(ports.waiting(&fake).bytes, 10);
        assert_eq!(ports.place(PeerId(1_000)), None);
    }
}
