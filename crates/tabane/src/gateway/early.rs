//! Packets that arrive before a gateway that begins to serve knows their owners.

use std::collections::VecDeque;

use super::front::Owner;

/// The most bytes that are kept: 50 ms of 1 Gb/s.
const BYTES_MAX: usize = 6 << 20;

/// From where one came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A node.
    Inside(Owner),
    /// The device outside.
    Outside,
}

/// All of them, in the order of arrival.
#[derive(Debug, Default)]
pub struct Early {
    packets: VecDeque<(Origin, Vec<u8>)>,
    bytes: usize,
    /// For how many there was no room.
    pub lost: u64,
}

impl Early {
    /// Keeps one, if there is room.
    pub fn keep(&mut self, from: Origin, packet: &[u8]) {
        if self.bytes + packet.len() > BYTES_MAX {
            self.lost += 1;
            return;
        }
        self.bytes += packet.len();
        self.packets.push_back((from, packet.to_vec()));
    }

    /// Those that came from there.
    pub fn take(&mut self, from: Origin) -> Vec<Vec<u8>> {
        let all = core::mem::take(&mut self.packets);
        let (taken, kept) = all.into_iter().partition(|(of, _)| *of == from);
        self.packets = kept;
        let taken: VecDeque<(Origin, Vec<u8>)> = taken;
        let packets: Vec<_> = taken.into_iter().map(|(_, packet)| packet).collect();
        self.bytes -= packets.iter().map(Vec::len).sum::<usize>();
        packets
    }
}

#[cfg(test)]
mod tests {
    use tabane_proto::PeerId;

    use super::*;

    #[test]
    fn they_are_kept_in_order_and_not_without_bound() {
        let (a, b) = (Origin::Inside(Owner::Peer(PeerId(1))), Origin::Outside);
        let mut early = Early::default();
        for (from, byte) in [(a, 1), (b, 2), (a, 3)] {
            early.keep(from, &[byte]);
        }
        early.keep(b, &vec![0; BYTES_MAX]);
        assert_eq!(early.lost, 1);
        assert_eq!(early.take(a), [[1], [3]]);
        assert_eq!(early.take(b), [[2]]);
        assert!(early.take(b).is_empty() && early.bytes == 0);
    }
}
