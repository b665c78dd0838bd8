//! Neighbours that end: closed ones, dead ones, and their last records.
//!
//! A neighbour that has ended is given up only after all is read that it had said. One that lives and does not take what
//! is in the ring to it is given up as if it were silent.

use core::time::Duration;

use tabane_proto::Time;

use super::Rank;
use crate::{Failure, Peer};

/// A neighbour with no sign of life for this long may be dead.
const DOUBTED_AFTER: Duration = Duration::from_millis(150);
/// A silent neighbour that has not ended is waited for this many times longer than a peer on another node: the kernel reports
/// an end at once, and a process on a busy node may get no processor for seconds.
const ALIVE_FOR: u32 = 10;

impl Rank {
    /// Looks which neighbours live and which have closed.
    pub(super) fn look_beside(&mut self, now: Time) {
        let is_late = now.since(self.looked_at) >= self.settings.peer_timeout / 2;
        let Some(local) = &mut self.local else {
            return;
        };
        local.beat(now, is_late);
        self.part_from_closed(now);
    }

    /// Neighbours that have closed and whose rings are empty.
    fn closed(&self) -> Vec<Peer> {
        let all = self.local.iter().flat_map(|local| local.iter());
        let closed = all.filter(|(_, neighbour)| neighbour.is_closed());
        closed.map(|(_, neighbour)| neighbour.peer).collect()
    }

    /// Gives up neighbours that have closed, once all is read that they have said before.
    pub(super) fn part_from_closed(&mut self, now: Time) {
        let closed = self.closed();
        if closed.is_empty() {
            return;
        }
        self.hear_out(now);
        // A ring of one that has closed only now may be under way: it is for the next call.
        for peer in self.closed() {
            if closed.contains(&peer) {
                self.lose(now, peer, Failure::PeerGone);
            }
        }
    }

    /// Takes in the records of neighbours that seem to have ended: they may have handed over their rings a moment before.
    fn hear_out(&mut self, now: Time) {
        self.hear_callers(now);
        self.take_beside(now);
    }

    /// Peers of this node with operations under way to them.
    pub(super) fn unread_beside(&self) -> impl Iterator<Item = Peer> + '_ {
        let all = self.local.iter().flat_map(|local| local.iter());
        let unread = all.filter(|(_, neighbour)| neighbour.has_unread());
        let streams = self.streams.iter().map(|stream| stream.peer);
        unread.map(|(_, neighbour)| neighbour.peer).chain(streams)
    }

    /// Looks after a neighbour that something is wanted of.
    pub(super) fn look_at_beside(&mut self, now: Time, peer: Peer, slot: usize) {
        let Some(local) = &mut self.local else {
            return;
        };
        let Some(neighbour) = local.get(slot) else {
            return;
        };
        let silent = now.since(neighbour.heard_at());
        if silent < DOUBTED_AFTER {
            return;
        }
        let is_over = silent >= self.settings.peer_timeout.saturating_mul(ALIVE_FOR);
        if !is_over && !local.is_dead(slot) {
            return;
        }
        self.hear_out(now);
        let neighbour = self.local.as_mut().and_then(|local| local.get(slot));
        let Some(neighbour) = neighbour.filter(|neighbour| neighbour.peer == peer) else {
            return;
        };
        // The rest of its records is taken in before the next look.
        if neighbour.has_record() {
            return;
        }
        let why = match neighbour.has_come_in() {
            true => Failure::PeerGone,
            false => Failure::Unreachable,
        };
        self.lose(now, peer, why);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::turns::LOOK_EVERY;
    use super::*;
    use crate::{Core, Piece, Receive, Send, Settings, SharedMemory, Ticket, Until};

    fn rank() -> Rank {
        let settings = Settings {
            links: vec![(0, IpAddr::V4(Ipv4Addr::LOCALHOST))],
            key: [3; 32],
            encrypted: true,
            ports: 20_000..=60_000,
            peer_timeout: Duration::from_secs(3),
            eager_bytes: 16 * 1024,
            unexpected_bytes: 1 << 20,
            shared_memory: SharedMemory::Pull,
            bundles_max: None,
        };
        Rank::open(&settings).expect("opens")
    }

    fn say(by: &mut Rank, to: &Rank) {
        let to = by.peer(to.address());
        let mut bytes = [7];
        let piece = Piece {
            base: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        let send = Send {
            to,
            tag: None,
            data: None,
            pieces: &[piece],
            inject: true,
            until: Until::Reusable,
            ticket: Ticket::default(),
        };
        // SAFETY: the piece is `bytes`.
        unsafe { by.post_send(&send) }.expect("is posted");
    }

    /// How many of `count` messages have come from a peer, and why the next one has not.
    fn heard(by: &mut Rank, from: Peer, count: usize) -> (usize, Option<Failure>) {
        for context in 0..count {
            let receive = Receive {
                from: Some(from),
                tag: None,
                pieces: &[],
                multi: None,
                ticket: Ticket { context, flags: 1 },
            };
            by.post_receive(&receive).expect("is posted");
        }
        let told = std::iter::from_fn(|| by.completion()).filter(|told| told.ticket.flags == 1);
        let (lost, came): (Vec<_>, Vec<_>) = (told.map(|told| told.failure))
            .partition(|failure| matches!(failure, Some(Failure::PeerGone | Failure::Unreachable)));
        (came.len(), lost.first().copied().flatten())
    }

    #[test]
    fn all_that_was_said_before_a_goodbye_is_heard_after_it() {
        // More than is taken in at a time.
        const COUNT: usize = 500;
        let (mut a, mut b) = (rank(), rank());
        let from = a.peer(b.address());
        say(&mut a, &b);
        b.take_a_turn();
        for _ in 0..COUNT {
            say(&mut b, &a);
        }
        b.close();
        drop(b);
        for _ in 0..2 * COUNT {
            a.after_wait(&[]);
            let now = a.engine.now();
            a.look_beside(now);
        }
        assert_eq!(heard(&mut a, from, COUNT), (COUNT, None));
        assert_eq!(heard(&mut a, from, 1), (0, Some(Failure::PeerGone)));
    }

    #[test]
    fn what_was_said_before_an_end_without_goodbye_is_heard() {
        let (mut a, mut b) = (rank(), rank());
        let from = a.peer(b.address());
        say(&mut a, &b);
        b.take_a_turn();
        say(&mut b, &a);
        // It is gone as a process is that was killed.
        let local = b.local.take().expect("is there");
        drop(local);
        let slot = a.peers.get(from).and_then(|entry| entry.slot);
        let now = a.engine.now() + DOUBTED_AFTER;
        a.look_at_beside(now, from, slot.expect("is a neighbour"));
        assert_eq!(heard(&mut a, from, 2), (1, Some(Failure::PeerGone)));
    }

    #[test]
    fn who_lives_and_has_lost_the_ring_to_it_is_given_up() {
        let (mut a, mut b) = (rank(), rank());
        let from = a.peer(b.address());
        say(&mut b, &a);
        a.take_a_turn();
        say(&mut a, &b);
        let began = a.engine.now();
        let lost = b.local.as_mut().map(|local| local.callers(began).len());
        assert_eq!(lost, Some(1));
        let slot = a.peers.get(from).and_then(|entry| entry.slot);
        let mut now = began;
        while a.peers.get(from).is_some_and(|entry| entry.gone.is_none()) {
            now += LOOK_EVERY;
            b.look_beside(now);
            a.look_beside(now);
            a.looked_at = now;
            a.look_at_beside(now, from, slot.expect("is a neighbour"));
            assert!(now.since(began) < 2 * ALIVE_FOR * a.settings.peer_timeout);
        }
        assert!(now.since(began) >= ALIVE_FOR * a.settings.peer_timeout);
    }
}
