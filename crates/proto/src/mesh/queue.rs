//! Relayed traffic to one neighbour: a queue for each sender; the senders take turns by bytes.
//!
//! What is relayed is content as any other: it is acknowledged from node to node. But nobody owns it, so what is lost is
//! not sent again. The first design had it unacknowledged. Then a relay would go on for seconds on a link that failed,
//! and nothing would keep its packets within what the link carries.

use core::time::Duration;
use std::collections::VecDeque;

use crate::Time;
use crate::wire::{EXTENSION_HEADER_BYTES, NodeId, Writer, write_relayed};

/// Waiting data may take the neighbour's links at most this long, but see [`BYTES_LEAST`].
const HOLD: Duration = Duration::from_millis(5);
/// At least this many bytes may wait: a flight of a new path.
const BYTES_LEAST: usize = 64 * 1024;
/// Data that waited this long is too late.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// The most senders with waiting data; data of further ones is dropped.
const SOURCES_MAX: usize = 64;
/// What a sender sends in its turn: a packet of plain Ethernet.
const TURN_BYTES: i64 = 1500;
/// How far own content, or relayed content, may be ahead of its share.
const CREDIT_MAX: i64 = 64 * 1024;

/// The queue to a neighbour.
#[derive(Debug, Default)]
pub(crate) struct RelayQueue {
    /// In the order of their turns.
    sources: VecDeque<Source>,
    bytes: usize,
    /// Bytes that relayed content may send before own content has its turn; negative: the other way round.
    credit: i64,
    /// Datagrams dropped for want of room or of time.
    pub dropped: u64,
}

#[derive(Debug)]
struct Source {
    id: NodeId,
    waiting: VecDeque<(Time, Vec<u8>)>,
    bytes: usize,
    /// Bytes that it may still send in this turn.
    turn_bytes: i64,
}

impl RelayQueue {
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Waiting bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues the data of a [`RelayRecord::Relayed`](crate::wire::RelayRecord::Relayed) that `from` sent, for links that
    /// carry `rate` bytes per second. If there is no room, the sender with most waiting data loses some.
    pub fn push(&mut self, now: Time, from: NodeId, data: Vec<u8>, rate: f64) {
        let limit = ((rate * HOLD.as_secs_f64()) as usize).max(BYTES_LEAST);
        let place = self.sources.iter().position(|source| source.id == from);
        if place.is_none() && self.sources.len() == SOURCES_MAX {
            self.dropped += 1;
            return;
        }
        let place = place.unwrap_or_else(|| {
            self.sources.push_back(Source {
                id: from,
                waiting: VecDeque::new(),
                bytes: 0,
                turn_bytes: TURN_BYTES,
            });
            self.sources.len() - 1
        });
        let source = &mut self.sources[place];
        source.bytes += data.len();
        self.bytes += data.len();
        source.waiting.push_back((now, data));
        while self.bytes > limit {
            self.drop_newest_of_longest();
        }
    }

    fn drop_newest_of_longest(&mut self) {
        let longest = (0..self.sources.len()).max_by_key(|place| self.sources[*place].bytes);
        let Some(longest) = longest else { return };
        let source = &mut self.sources[longest];
        if let Some((_, data)) = source.waiting.pop_back() {
            source.bytes -= data.len();
            self.bytes -= data.len();
            self.dropped += 1;
        }
        if source.waiting.is_empty() {
            self.sources.remove(longest);
        }
    }

    /// Whether the next turn is the relayed datagrams'; `own_waits`: own content waits, too.
    pub fn has_turn(&self, own_waits: bool) -> bool {
        !self.is_empty() && (!own_waits || self.credit > 0)
    }

    /// Own content was sent: each sender with waiting datagrams may send as much.
    pub fn on_own(&mut self, bytes: usize) {
        let earned = bytes as i64 * self.sources.len() as i64;
        self.credit = (self.credit + earned).min(CREDIT_MAX);
    }

    /// Moves the sender whose turn it is to the front.
    fn take_turns(&mut self) {
        while let Some(source) = self.sources.front_mut().filter(|s| s.turn_bytes <= 0) {
            source.turn_bytes += TURN_BYTES;
            self.sources.rotate_left(1);
        }
    }

    /// The room that the next datagram needs in a packet, in bytes.
    pub fn next_bytes(&mut self) -> Option<usize> {
        self.take_turns();
        let (_, data) = self.sources.front()?.waiting.front()?;
        Some(EXTENSION_HEADER_BYTES + data.len())
    }

    /// Writes the next datagram to a packet if it fits. One that has no room in `widest` bytes, an empty packet on any of the
    /// neighbour's links, is dropped.
    pub fn write_next(&mut self, now: Time, widest: usize, w: &mut Writer<'_>) -> bool {
        loop {
            self.take_turns();
            let Some(source) = self.sources.front_mut() else {
                return false;
            };
            let Some((since, data)) = source.waiting.front() else {
                self.sources.pop_front();
                continue;
            };
            let (len, is_late) = (data.len(), now.since(*since) > WAIT_MAX);
            let fits = EXTENSION_HEADER_BYTES + len <= w.room();
            if !fits && !is_late && EXTENSION_HEADER_BYTES + len <= widest {
                return false;
            }
            let is_sent = fits && !is_late;
            if is_sent {
                write_relayed(data, w);
                source.turn_bytes -= len as i64;
                self.credit = (self.credit - len as i64).max(-CREDIT_MAX);
            }
            self.dropped += u64::from(!is_sent);
            source.waiting.pop_front();
            source.bytes -= len;
            self.bytes -= len;
            if source.waiting.is_empty() {
                self.sources.pop_front();
            }
            if is_sent {
                return true;
            }
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of = |source: &Source| {
            let entries = source.waiting.capacity() * size_of::<(Time, Vec<u8>)>();
            size_of::<Source>() + entries + source.bytes
        };
        self.sources.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: f64 = 125e6;

    fn sent(queue: &mut RelayQueue, now: Time, packets: usize) -> Vec<(u8, usize)> {
        let mut buffer = [0; 1500];
        let next = |_| {
            let mut w = Writer::new(&mut buffer);
            let written = queue.write_next(now, 1500, &mut w);
            let len = w.len();
            written.then(|| (buffer[EXTENSION_HEADER_BYTES], len))
        };
        (0..packets).map_while(next).collect()
    }

    fn bytes_of(sent: &[(u8, usize)], from: u8) -> usize {
        sent.iter().filter(|s| s.0 == from).map(|s| s.1).sum()
    }

    #[test]
    fn senders_take_turns_by_bytes() {
        let mut queue = RelayQueue::default();
        for _ in 0..200 {
            queue.push(Time::ZERO, NodeId(1), vec![1; 1400], RATE);
        }
        for _ in 0..400 {
            queue.push(Time::ZERO, NodeId(2), vec![2; 200], RATE);
        }
        let sent = sent(&mut queue, Time::ZERO, 200);
        let (large, small) = (bytes_of(&sent, 1), bytes_of(&sent, 2));
        assert!(large.abs_diff(small) <= 3000, "{large} {small}");
    }

    #[test]
    fn who_has_most_waiting_loses_what_is_too_much() {
        let mut queue = RelayQueue::default();
        for _ in 0..1000 {
            queue.push(Time::ZERO, NodeId(1), vec![1; 1000], RATE);
        }
        let most = (RATE * HOLD.as_secs_f64()) as usize;
        assert!(queue.bytes() <= most && queue.bytes() > most - 1000);
        let dropped = queue.dropped;
        for _ in 0..50 {
            queue.push(Time::ZERO, NodeId(2), vec![2; 1000], RATE);
        }
        assert_eq!(queue.dropped, dropped + 50);
        let sent = sent(&mut queue, Time::ZERO, usize::MAX);
        assert_eq!(sent.iter().filter(|s| s.0 == 2).count(), 50);
        assert!(queue.is_empty() && queue.bytes() == 0);
    }

    #[test]
    fn what_waited_too_long_or_fits_nowhere_is_dropped() {
        let mut queue = RelayQueue::default();
        queue.push(Time::ZERO, NodeId(1), vec![1; 1600], RATE);
        queue.push(Time::ZERO, NodeId(1), vec![1; 100], RATE);
        let late = Time::ZERO + WAIT_MAX + HOLD;
        queue.push(late, NodeId(1), vec![1; 100], RATE);
        assert_eq!(sent(&mut queue, late, 10).len(), 1);
        assert_eq!(queue.dropped, 2);
    }

    #[test]
    fn what_does_not_fit_here_and_would_elsewhere_waits_for_that() {
        let mut queue = RelayQueue::default();
        queue.push(Time::ZERO, NodeId(1), vec![1; 1400], RATE);
        assert_eq!(queue.next_bytes(), Some(EXTENSION_HEADER_BYTES + 1400));
        let mut narrow = [0; 1000];
        let mut w = Writer::new(&mut narrow);
        assert!(!queue.write_next(Time::ZERO, 1500, &mut w));
        assert_eq!((w.len(), queue.dropped), (0, 0));
        assert_eq!(sent(&mut queue, Time::ZERO, 10).len(), 1);
        assert_eq!(queue.next_bytes(), None);
    }

    #[test]
    fn own_content_is_one_sender_among_others() {
        let mut queue = RelayQueue::default();
        for from in 1..=3 {
            for _ in 0..100 {
                queue.push(Time::ZERO, NodeId(from), vec![from as u8; 1400], RATE);
            }
        }
        let mut own = 0;
        for _ in 0..100 {
            if queue.has_turn(true) {
                assert_eq!(sent(&mut queue, Time::ZERO, 1).len(), 1);
            } else {
                own += 1400;
                queue.on_own(1400);
            }
        }
        assert!((23 * 1400..=27 * 1400).contains(&own), "{own}");
    }

    #[test]
    fn there_are_so_many_senders_at_most() {
        let mut queue = RelayQueue::default();
        for from in 0..1000 {
            queue.push(Time::ZERO, NodeId(from), vec![0; 100], RATE);
        }
        assert_eq!(queue.sources.len(), SOURCES_MAX);
        assert_eq!(queue.dropped, 1000 - SOURCES_MAX as u64);
    }
}
