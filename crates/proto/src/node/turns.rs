//! Which peers have something to do: work follows these, never all peers that there are.
//!
//! So an idle peer costs next to nothing. Timeouts stand in a heap (`timers.rs`); a link that takes something again, or
//! the kernel's word on a link, touches only the peers that it concerns. Absent peers are called ever more rarely
//! (`RETRY_MAX` in `bundle/session.rs`): 1,024 of them cost 17 packets a second. First calls leave one after the other;
//! otherwise those of a large cluster would stand in one queue. `sim peers` measures all this.

use std::collections::VecDeque;

use super::timers::Timers;
use crate::limits::LINKS_MAX;
use crate::{LinkId, PeerId, Time};

/// What is noted of a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// It stands in `ready`.
    ready: bool,
    /// It stands in `stale`.
    stale: bool,
    /// It stands in `arrivals`.
    arrivals: bool,
    /// It stands in `senders`, and counts there.
    sends: bool,
    /// Links (a bit each) in whose `waiting` it stands.
    waits: u8,
}

/// Whose turn it is, by which each peer's marks and the lists agree.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Of each peer, by its number.
    marks: Vec<Marks>,
    /// Peers that may have something to transmit.
    ready: VecDeque<PeerId>,
    /// Peers that each link may have refused something since it takes nothing.
    waiting: [Vec<PeerId>; LINKS_MAX],
    /// The number after that of the peer that sent last on each link.
    next: [u32; LINKS_MAX],
    /// Peers whose timeout, and whether they have something to send, is to be seen anew.
    stale: Vec<PeerId>,
    timers: Timers,
    /// Peers that are not stale and have something to send.
    senders: usize,
    /// Peers whose frames may have been completed.
    arrivals: VecDeque<PeerId>,
}

impl Turns {
    /// There is one more peer.
    pub fn add(&mut self, peer: PeerId) {
        let count = self.marks.len().max(peer.0 as usize + 1);
        self.marks.resize(count, Marks::default());
    }

    /// A peer is no more. In lists it may still stand: whoever has its number next finds nothing to do there.
    pub fn forget(&mut self, peer: PeerId) {
        self.timers.set(peer, Time::NEVER);
        let sends = core::mem::take(&mut self.marks[peer.0 as usize].sends);
        self.senders -= usize::from(sends);
    }

    // ---- sending ----

    /// `peer`'s state changed: it may have something to send, and another timeout.
    pub fn touch(&mut self, peer: PeerId) {
        if !core::mem::replace(&mut self.marks[peer.0 as usize].ready, true) {
            self.ready.push_back(peer);
        }
        self.mark_stale(peer);
    }

    /// Who is to be asked for something to transmit.
    pub fn first_ready(&self) -> Option<PeerId> {
        self.ready.front().copied()
    }

    /// The first one sent something on `link`: the next one has its turn, for many peers share the line evenly.
    pub fn on_sent(&mut self, link: LinkId) {
        if let Some(peer) = self.ready.pop_front() {
            self.ready.push_back(peer);
            self.next[link.index()] = peer.0 + 1;
            self.mark_stale(peer);
        }
    }

    /// The first one sent something through another peer: the next one has its turn.
    pub fn on_relayed(&mut self) {
        if let Some(peer) = self.ready.pop_front() {
            self.ready.push_back(peer);
            self.mark_stale(peer);
        }
    }

    /// The first one has nothing to send now.
    pub fn on_nothing(&mut self) {
        if let Some(peer) = self.ready.pop_front() {
            self.marks[peer.0 as usize].ready = false;
            self.mark_stale(peer);
        }
    }

    /// `peer` was asked while these links (a bit each) took nothing, on which it has paths.
    pub fn wait_for(&mut self, peer: PeerId, links: u8) {
        let marks = &mut self.marks[peer.0 as usize];
        let mut new = links & !marks.waits;
        marks.waits |= links;
        while new != 0 {
            self.waiting[new.trailing_zeros() as usize].push(peer);
            new &= new - 1;
        }
    }

    /// These links (a bit each) take something again: whoever waited for one is asked, and who sent last on it comes
    /// last, or one peer would have it all. What the others sent elsewhere meanwhile does not count.
    pub fn on_opened(&mut self, links: u8) {
        let first = self.next[links.trailing_zeros() as usize];
        let mut turns: Vec<PeerId> = self.ready.drain(..).collect();
        for link in 0..LINKS_MAX {
            if links & (1 << link) == 0 {
                continue;
            }
            for peer in core::mem::take(&mut self.waiting[link]) {
                let marks = &mut self.marks[peer.0 as usize];
                marks.waits &= !(1 << link);
                if !core::mem::replace(&mut marks.ready, true) {
                    turns.push(peer);
                }
            }
        }
        turns.sort_unstable_by_key(|peer| peer.0.wrapping_sub(first));
        turns.iter().for_each(|peer| self.mark_stale(*peer));
        self.ready.extend(turns);
        debug_assert!(self.ready.iter().all(|p| self.marks[p.0 as usize].ready));
    }

    // ---- timeouts ----

    fn mark_stale(&mut self, peer: PeerId) {
        let marks = &mut self.marks[peer.0 as usize];
        if !core::mem::replace(&mut marks.stale, true) {
            self.senders -= usize::from(core::mem::take(&mut marks.sends));
            self.stale.push(peer);
        }
    }

    /// Who is to be looked at before anything is told of timeouts.
    pub fn pop_stale(&mut self) -> Option<PeerId> {
        let peer = self.stale.pop()?;
        self.marks[peer.0 as usize].stale = false;
        Some(peer)
    }

    /// `peer` was looked at.
    pub fn on_seen(&mut self, peer: PeerId, timeout: Time, sends: bool) {
        self.timers.set(peer, timeout);
        let before = core::mem::replace(&mut self.marks[peer.0 as usize].sends, sends);
        self.senders = self.senders + usize::from(sends) - usize::from(before);
        debug_assert!(self.senders <= self.marks.len());
    }

    /// When the first one is due; nobody may be stale.
    pub fn first_timeout(&self) -> Option<Time> {
        debug_assert!(self.stale.is_empty());
        self.timers.first()
    }

    /// Who is due, by their numbers.
    pub fn take_due(&mut self, now: Time) -> Vec<PeerId> {
        let mut due: Vec<PeerId> = core::iter::from_fn(|| self.timers.pop_due(now)).collect();
        due.sort_unstable();
        due
    }

    /// Whether anybody has something to send, as far as is known without a look at those that are stale.
    pub const fn has_senders(&self) -> bool {
        self.senders > 0
    }

    /// Those whose state changed since they were last looked at.
    pub fn stale(&self) -> &[PeerId] {
        &self.stale
    }

    // ---- frames ----

    /// Something came from `peer`: its frames may be complete.
    pub fn note_arrival(&mut self, peer: PeerId) {
        if !core::mem::replace(&mut self.marks[peer.0 as usize].arrivals, true) {
            self.arrivals.push_back(peer);
        }
    }

    /// Whose frames may be complete.
    pub fn first_arrival(&self) -> Option<PeerId> {
        self.arrivals.front().copied()
    }

    /// The first one has no frame.
    pub fn on_no_arrival(&mut self) {
        if let Some(peer) = self.arrivals.pop_front() {
            self.marks[peer.0 as usize].arrivals = false;
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Vec::capacity).sum();
        let lists =
            self.ready.capacity() + waiting + self.stale.capacity() + self.arrivals.capacity();
        self.marks.capacity() * size_of::<Marks>()
            + lists * size_of::<PeerId>()
            + self.timers.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkId = LinkId(1);
    const BIT: u8 = 1 << LINK.0;

    fn all_ready(turns: &mut Turns) -> Vec<u32> {
        let all = core::iter::from_fn(|| {
            let first = turns.first_ready()?;
            turns.on_nothing();
            Some(first.0)
        });
        all.collect()
    }

    #[test]
    fn only_who_was_refused_something_is_asked_when_a_link_opens() {
        let mut turns = Turns::default();
        (0..1000).for_each(|peer| turns.add(PeerId(peer)));
        turns.touch(PeerId(500));
        turns.on_sent(LINK);
        assert_eq!(all_ready(&mut turns), [500]);
        for peer in [700, 3, 500, 700] {
            turns.wait_for(PeerId(peer), BIT);
        }
        turns.wait_for(PeerId(9), 1);
        turns.touch(PeerId(501));
        turns.on_opened(BIT);
        assert_eq!(
            all_ready(&mut turns),
            [501, 700, 3, 500],
            "who sent last comes last"
        );
        turns.on_opened(BIT);
        assert_eq!(all_ready(&mut turns), [0; 0]);
        turns.on_opened(1);
        assert_eq!(all_ready(&mut turns), [9]);
    }

    #[test]
    fn who_has_something_to_send_is_counted_until_his_state_changes() {
        let mut turns = Turns::default();
        (0..3).for_each(|peer| turns.add(PeerId(peer)));
        turns.touch(PeerId(1));
        assert_eq!(
            (turns.pop_stale(), turns.pop_stale()),
            (Some(PeerId(1)), None)
        );
        turns.on_seen(PeerId(1), Time::from_ms(5), true);
        assert!(turns.has_senders());
        assert_eq!(turns.first_timeout(), Some(Time::from_ms(5)));
        turns.on_nothing();
        assert!(!turns.has_senders(), "whoever asks looks at the stale ones");
        assert_eq!(turns.stale(), [PeerId(1)]);
        turns.pop_stale();
        turns.on_seen(PeerId(1), Time::NEVER, true);
        turns.forget(PeerId(1));
        assert!(!turns.has_senders());
    }
}
