//! The queue for the outside line: a lane for each conversation, turns by bytes, young ones first (paper 004, 2.2.2).
//!
//! Deficit round robin (M. Shreedhar, G. Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995), with a
//! second list for young conversations, as the new flows of fq_codel (RFC 8290), until their queue was empty once. The device's
//! own queue, where nobody schedules, is kept short.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::Time;

/// A conversation is young until it has sent this much.
const YOUNG_BYTES: u64 = 200 * 1024;
/// It is young again after it had nothing to send for this long.
const REST: Duration = Duration::from_secs(1);
/// Old conversations get one byte in this many, however many young ones there are.
const OLD_OF: i64 = 8;
/// What all waiting conversations together send in one round.
const ROUND_BYTES: usize = 128 * 1024;
/// The least turn of one conversation. Shorter ones cost more, since each piece is a system call; young ones do not wait for
/// rounds anyway.
const TURN_BYTES_LEAST: usize = 16 * 1024;
const TURN_BYTES_MOST: usize = 32 * 1024;
/// The most waiting bytes of one conversation; next, of all.
const LANE_BYTES_MAX: usize = 512 * 1024;
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// How much all senders together may have in flight to the line.
const ROOM_BYTES: usize = 2 * 1024 * 1024;
/// The least of that for each sender: with less, senders would send small pieces.
const ROOM_BYTES_LEAST: usize = 16 * 1460;
const ROOM_BYTES_MOST: usize = 256 * 1024;

/// A conversation, by its owner's number.
pub type LaneId = u32;

/// A unit of the queue.
pub trait Parcel {
    /// Its remaining bytes on the line.
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
struct Lane<P> {
    waiting: VecDeque<P>,
    bytes: usize,
    /// Bytes that it may still send in this turn.
    turn_bytes: i64,
    /// Bytes sent since it began to be young.
    sent_bytes: u64,
    /// When it sent last.
    sent_at: Time,
}

impl<P> Lane<P> {
    fn is_young(&self) -> bool {
        self.sent_bytes < YOUNG_BYTES
    }
}

/// All lanes and their order.
#[derive(Debug)]
pub struct FairQueue<P> {
    lanes: BTreeMap<LaneId, Lane<P>>,
    young: VecDeque<LaneId>,
    old: VecDeque<LaneId>,
    bytes: usize,
    /// Bytes that the young may send before an old one has its turn.
    credit_bytes: i64,
    /// Parcels that were dropped for want of room.
    dropped: u64,
}

impl<P> Default for FairQueue<P> {
    fn default() -> FairQueue<P> {
        FairQueue {
            lanes: BTreeMap::new(),
            young: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            credit_bytes: 0,
            dropped: 0,
        }
    }
}

impl<P: Parcel> FairQueue<P> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    /// Waiting bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Conversations that have something waiting.
    pub fn waiting(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// How many parcels were dropped for want of room.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How far a sender may go ahead of what has left, in bytes.
    pub fn room_bytes(&self) -> usize {
        let share = ROOM_BYTES / self.waiting().max(1);
        share.clamp(ROOM_BYTES_LEAST, ROOM_BYTES_MOST)
    }

    /// Queues a parcel. If there is no room, the lane with most waiting loses its newest.
    pub fn push(&mut self, now: Time, id: LaneId, parcel: P) {
        let lane = self.lanes.entry(id).or_insert_with(|| Lane {
            waiting: VecDeque::new(),
            bytes: 0,
            turn_bytes: 0,
            sent_bytes: 0,
            sent_at: now,
        });
        let bytes = parcel.bytes();
        if lane.bytes + bytes > LANE_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        if lane.waiting.is_empty() {
            if now.since(lane.sent_at) >= REST {
                lane.sent_bytes = 0;
            }
            lane.turn_bytes = 0;
            let round = if lane.is_young() {
                &mut self.young
            } else {
                &mut self.old
            };
            round.push_back(id);
        }
        lane.waiting.push_back(parcel);
        lane.bytes += bytes;
        self.bytes += bytes;
        while self.bytes > BYTES_MAX {
            self.drop_newest_of_longest();
        }
    }

    fn drop_newest_of_longest(&mut self) {
        let longest = self.lanes.iter_mut().max_by_key(|(_, lane)| lane.bytes);
        let Some((&id, lane)) = longest else { return };
        if let Some(parcel) = lane.waiting.pop_back() {
            let bytes = parcel.bytes();
            lane.bytes -= bytes;
            self.bytes -= bytes;
            self.dropped += 1;
        }
        if lane.waiting.is_empty() {
            self.leave(id);
        }
    }

    fn leave(&mut self, id: LaneId) {
        self.young.retain(|other| *other != id);
        self.old.retain(|other| *other != id);
    }

    /// Whose turn it is, its first parcel, and how many bytes of that it may send now: at least the smallest piece into which it
    /// can be cut.
    pub fn turn(&mut self) -> Option<(LaneId, &mut P, usize)> {
        let turn_bytes =
            (ROUND_BYTES / self.waiting().max(1)).clamp(TURN_BYTES_LEAST, TURN_BYTES_MOST);
        let olds_turn = self.young.is_empty() || self.credit_bytes <= 0 && !self.old.is_empty();
        let round = if olds_turn {
            &mut self.old
        } else {
            &mut self.young
        };
        loop {
            let id = *round.front()?;
            let lane = self.lanes.get_mut(&id)?;
            if lane.turn_bytes > 0 {
                break;
            }
            lane.turn_bytes += turn_bytes as i64;
            round.rotate_left(1);
            // Alone, it is first again.
        }
        let id = *round.front()?;
        let lane = self.lanes.get_mut(&id)?;
        let bytes = lane.turn_bytes as usize;
        Some((id, lane.waiting.front_mut()?, bytes))
    }

    /// This many bytes of the parcel of [`FairQueue::turn`] were sent. Returns it when nothing of it is left.
    pub fn sent(&mut self, now: Time, id: LaneId, bytes: usize) -> Option<P> {
        let lane = self.lanes.get_mut(&id)?;
        let was_young = lane.is_young();
        lane.turn_bytes -= bytes as i64;
        lane.sent_bytes += bytes as u64;
        lane.sent_at = now;
        let is_done = lane
            .waiting
            .front()
            .is_some_and(|parcel| parcel.bytes() == 0);
        let done = if is_done {
            lane.waiting.pop_front()
        } else {
            None
        };
        let bytes_now: usize = lane.bytes.saturating_sub(bytes);
        self.bytes -= lane.bytes - bytes_now;
        lane.bytes = bytes_now;
        let (is_empty, is_young) = (lane.waiting.is_empty(), lane.is_young());
        let most = ROUND_BYTES as i64;
        self.credit_bytes += match was_young {
            true => -(bytes as i64),
            false => bytes as i64 * (OLD_OF - 1),
        };
        self.credit_bytes = self.credit_bytes.clamp(-most, most);
        let round = if was_young {
            &mut self.young
        } else {
            &mut self.old
        };
        if is_empty || was_young != is_young {
            // It has its turn, so it is the first.
            match round.front() == Some(&id) {
                true => drop(round.pop_front()),
                false => round.retain(|other| *other != id),
            }
        }
        if !is_empty && was_young && !is_young {
            self.old.push_back(id);
        }
        done
    }

    /// The conversation has ended; its queue is dropped.
    pub fn forget(&mut self, id: LaneId) {
        if let Some(lane) = self.lanes.remove(&id) {
            self.bytes -= lane.bytes;
            if !lane.waiting.is_empty() {
                self.leave(id);
            }
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of = |lane: &Lane<P>| lane.waiting.capacity() * size_of::<P>() + lane.bytes;
        self.lanes.len() * size_of::<(LaneId, Lane<P>)>()
            + self.lanes.values().map(of).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many bytes, to be cut anywhere.
    #[derive(Debug)]
    struct Bytes(usize);

    impl Parcel for Bytes {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    const PACKET: usize = 64 * 1024;

    fn send(queue: &mut FairQueue<Bytes>, now: Time) -> Option<(LaneId, usize)> {
        let (id, parcel, most) = queue.turn()?;
        let bytes = parcel.0.min(most);
        parcel.0 -= bytes;
        queue.sent(now, id, bytes);
        Some((id, bytes))
    }

    /// What each sends of `bytes` while all always have something waiting.
    fn shares(queue: &mut FairQueue<Bytes>, lanes: u32, bytes: usize) -> Vec<usize> {
        let mut sent = vec![0; lanes as usize];
        while sent.iter().sum::<usize>() < bytes {
            for id in 0..lanes {
                if queue.lanes.get(&id).is_none_or(|lane| lane.bytes < PACKET) {
                    queue.push(Time::ZERO, id, Bytes(PACKET));
                }
            }
            let (id, bytes) = send(queue, Time::ZERO).expect("all wait");
            sent[id as usize] += bytes;
        }
        sent
    }

    #[test]
    fn all_who_wait_share_the_line_by_bytes() {
        for lanes in [2, 10, 100, 300] {
            let mut queue = FairQueue::default();
            shares(&mut queue, lanes, lanes as usize * YOUNG_BYTES as usize);
            let sent = shares(&mut queue, lanes, 4 * lanes as usize * PACKET);
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            assert!(
                most - least <= 2 * TURN_BYTES_MOST,
                "{lanes}: {least} {most}"
            );
        }
    }

    #[test]
    fn who_has_sent_little_goes_first_and_the_others_go_on() {
        let mut queue = FairQueue::default();
        shares(&mut queue, 4, 4 * 1024 * 1024);
        queue.push(Time::ZERO, 9, Bytes(100 * 1024));
        let (mut young, mut old) = (0, 0);
        while young < 100 * 1024 {
            match send(&mut queue, Time::ZERO).unwrap() {
                (9, bytes) => young += bytes,
                (_, bytes) => old += bytes,
            }
        }
        assert!(old <= 100 * 1024 / 7 + 2 * TURN_BYTES_MOST, "{old}");
        // Many that are young leave the old ones an eighth.
        let mut queue = FairQueue::default();
        shares(&mut queue, 1, 1024 * 1024);
        let (mut young, mut old) = (0, 0);
        for id in 10..200 {
            queue.push(Time::ZERO, id, Bytes(100 * 1024));
        }
        while young + old < 4 * 1024 * 1024 {
            if queue.lanes[&0].waiting.is_empty() {
                queue.push(Time::ZERO, 0, Bytes(PACKET));
            }
            match send(&mut queue, Time::ZERO).unwrap() {
                (0, bytes) => old += bytes,
                (_, bytes) => young += bytes,
            }
        }
        assert!((young / 9..young / 6).contains(&old), "{young} {old}");
    }

    #[test]
    fn who_has_rested_is_young_again() {
        let mut queue = FairQueue::default();
        shares(&mut queue, 1, 1024 * 1024);
        queue.forget(0);
        shares(&mut queue, 1, 1024 * 1024);
        while send(&mut queue, Time::ZERO).is_some() {}
        queue.push(Time::ZERO + REST / 2, 0, Bytes(1));
        assert_eq!((queue.young.len(), queue.old.len()), (0, 1));
        send(&mut queue, Time::ZERO + REST / 2);
        queue.push(Time::ZERO + REST * 2, 0, Bytes(1));
        assert_eq!((queue.young.len(), queue.old.len()), (1, 0));
    }

    #[test]
    fn what_one_has_waiting_is_bounded_and_so_is_what_all_have() {
        let mut queue = FairQueue::default();
        for _ in 0..100 {
            queue.push(Time::ZERO, 0, Bytes(PACKET));
        }
        assert_eq!(queue.bytes(), LANE_BYTES_MAX);
        assert_eq!(queue.dropped(), 100 - (LANE_BYTES_MAX / PACKET) as u64);
        for id in 1..1000 {
            queue.push(Time::ZERO, id, Bytes(PACKET));
            queue.push(Time::ZERO, id, Bytes(PACKET));
        }
        assert!(queue.bytes() <= BYTES_MAX);
        // The newest one still has its first parcel.
        assert!(!queue.lanes[&999].waiting.is_empty());
        for id in 0..1000 {
            queue.forget(id);
        }
        assert!(queue.is_empty() && queue.bytes() == 0 && queue.memory_bytes() == 0);
    }

    #[test]
    fn the_more_wait_the_less_each_may_have_on_its_way() {
        let mut queue = FairQueue::default();
        assert_eq!(queue.room_bytes(), ROOM_BYTES_MOST);
        for id in 0..20 {
            queue.push(Time::ZERO, id, Bytes(1));
        }
        assert_eq!(queue.room_bytes(), ROOM_BYTES / 20);
        for id in 20..1000 {
            queue.push(Time::ZERO, id, Bytes(1));
        }
        assert_eq!(queue.room_bytes(), ROOM_BYTES_LEAST);
    }
}
