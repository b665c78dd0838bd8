//! A pair of [`Ops`] joined by a channel that loses, duplicates and reorders.

mod credit;
mod frames;
mod memory;
mod messages;
mod random;
mod standing;
mod streams;

use core::time::Duration;

use super::*;
use crate::StreamId;
use crate::segment::{Content, Fate};
use crate::wire::{MemoryRecord, Record, Records, Writer};

/// Fate of a packet that was lost comes this much later.
const LOSS_NOTICED: Duration = Duration::from_millis(4);

/// xorshift64*: enough for tests, and the same everywhere.
pub(super) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % n
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the channel does to packets, in percent of them.
#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    pub loss: u64,
    pub duplicate: u64,
    /// Delivered, yet believed lost, then acknowledged after all.
    pub spurious: u64,
    /// Delivered after up to this much more than 100 µs.
    pub jitter_us: u64,
    /// Contents also sent in a second packet.
    pub again: u64,
}

enum Happening {
    Arrives(Vec<u8>),
    Fate(Content, Fate),
}

/// Two ends and what is between them.
pub(super) struct Pair {
    pub ends: [Ops; 2],
    pub reach: [Reach; 2],
    pub now: Time,
    pub faults: Faults,
    pub dice: Dice,
    /// When, a number that keeps the order, to which end, what.
    events: Vec<(Time, u64, usize, Happening)>,
    count: u64,
    /// Packets underway from each end.
    underway: [usize; 2],
    /// And how many may be.
    pub underway_max: usize,
    pub datagram_bytes: usize,
}

impl Pair {
    pub fn new(limits: &OpLimits) -> Pair {
        Pair {
            ends: [Ops::new(true, limits), Ops::new(false, limits)],
            reach: Default::default(),
            now: Time::from_ms(1),
            faults: Faults::default(),
            dice: Dice::new(1),
            events: Vec::new(),
            count: 0,
            underway: [0; 2],
            underway_max: 64,
            datagram_bytes: 1430,
        }
    }

    fn at(&mut self, after: Duration, end: usize, what: Happening) {
        self.count += 1;
        self.events.push((self.now + after, self.count, end, what));
    }

    /// Sends what may be sent from both ends.
    pub fn transmit(&mut self) {
        for end in 0..2 {
            while self.underway[end] < self.underway_max && self.transmit_packet(end) {}
        }
    }

    fn transmit_packet(&mut self, end: usize) -> bool {
        let mut slot = vec![0; self.datagram_bytes];
        let mut w = Writer::new(&mut slot);
        let mut contents = Vec::new();
        let ops = &mut self.ends[end];
        let mut outlets: Vec<_> = ops.waiting_links().map(Outlet::Link).collect();
        let any_at = self.dice.below(outlets.len() as u64 + 1) as usize;
        outlets.insert(any_at, Outlet::Any);
        for outlet in outlets {
            ops.take_turns_of(outlet);
            while let Some(content) = ops.write_segment(self.now, &self.reach[end], &mut w) {
                contents.push(content);
            }
            if !contents.is_empty() {
                break;
            }
        }
        let len = w.len();
        slot.truncate(len);
        if contents.is_empty() {
            assert!(slot.is_empty());
            assert!(!self.ends[end].has_pending(), "an empty packet had room");
            return false;
        }
        if self.dice.percent(self.faults.again) || self.ends[end].mirrored(&contents[0]) {
            let mut copy = vec![0; 600];
            let mut w = Writer::new(&mut copy);
            let again: Vec<_> = contents
                .iter()
                .filter_map(|c| self.ends[end].write_again(self.now, c, &self.reach[end], &mut w))
                .collect();
            let len = w.len();
            copy.truncate(len);
            if !again.is_empty() {
                self.carry(end, copy, again);
            }
        }
        self.carry(end, slot, contents);
        true
    }

    fn carry(&mut self, end: usize, packet: Vec<u8>, contents: Vec<Content>) {
        self.underway[end] += contents.len();
        let rtt = Duration::from_micros(100 + self.dice.below(self.faults.jitter_us + 1));
        if self.dice.percent(self.faults.loss) {
            for content in contents {
                self.at(LOSS_NOTICED, end, Happening::Fate(content, Fate::Lost));
            }
            return;
        }
        if self.dice.percent(self.faults.duplicate) {
            self.at(rtt * 3, 1 - end, Happening::Arrives(packet.clone()));
        }
        self.at(rtt, 1 - end, Happening::Arrives(packet));
        let spurious = self.dice.percent(self.faults.spurious);
        for content in contents {
            if spurious {
                self.underway[end] += 1;
                self.at(LOSS_NOTICED, end, Happening::Fate(content, Fate::Lost));
                self.at(LOSS_NOTICED * 2, end, Happening::Fate(content, Fate::Acked));
            } else {
                self.at(rtt * 2, end, Happening::Fate(content, Fate::Acked));
            }
        }
    }

    /// Lets the next thing happen; `false` if there is none before `until`.
    pub fn step(&mut self, until: Time) -> bool {
        self.transmit();
        let next = self
            .events
            .iter()
            .enumerate()
            .min_by_key(|(_, e)| (e.0, e.1))
            .map(|(i, e)| (i, e.0));
        let timeout = self.ends.iter().filter_map(Ops::next_timeout).min();
        let at = next.map(|n| n.1).into_iter().chain(timeout).min();
        let Some(at) = at.filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        if let Some((i, _)) = next.filter(|n| n.1 <= at) {
            let (_, _, end, what) = self.events.swap_remove(i);
            match what {
                Happening::Arrives(packet) => self.arrive(end, &packet),
                Happening::Fate(content, fate) => {
                    self.underway[end] -= 1;
                    self.ends[end].on_fate(self.now, content, fate);
                }
            }
        }
        for ops in &mut self.ends {
            if ops.next_timeout().is_some_and(|t| t <= self.now) {
                ops.on_timeout(self.now);
                assert!(ops.next_timeout().is_none_or(|t| t > self.now));
            }
        }
        true
    }

    fn arrive(&mut self, end: usize, packet: &[u8]) {
        for record in Records::new(packet) {
            let record = record.unwrap();
            if let Record::Extension { code, data } = record {
                let record = MemoryRecord::read(code, data).unwrap();
                let taken = self.ends[end].on_memory(&record, &mut self.reach[end]);
                taken.unwrap();
            } else {
                give(&mut self.ends[end], self.now, &record).unwrap();
            }
        }
    }

    /// Lets everything happen for so long.
    pub fn run(&mut self, for_: Duration) {
        let until = self.now + for_;
        while self.step(until) {}
    }

    /// All events of an end.
    pub fn events(&mut self, end: usize) -> Vec<OpEvent> {
        core::iter::from_fn(|| self.ends[end].poll_event()).collect()
    }
}

/// Hands a record to an end.
pub(super) fn give(ops: &mut Ops, now: Time, record: &Record<'_>) -> Result<(), Violation> {
    match *record {
        Record::Unit(seg) => ops.on_unit(now, &seg),
        Record::Stream(seg) => ops.on_stream(now, &seg),
        Record::StreamReset {
            id,
            code,
            final_offset,
        } => ops.on_stream_reset(now, id, code, final_offset),
        Record::StreamStop { id, code } => ops.on_stream_stop(now, id, code),
        Record::StreamWindow { id, limit, window } => ops.on_stream_window(now, id, limit, window),
        Record::BundleWindow { limit, window } => {
            ops.on_bundle_window(limit, window);
            Ok(())
        }
        Record::MessageWindow { limit, window } => {
            ops.on_message_window(limit, window);
            Ok(())
        }
        _ => panic!("not of this room: {record:?}"),
    }
}

/// Bytes that tell where they belong.
pub(super) fn pattern(key: u64, offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64)
        .map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ key.wrapping_mul(97)) as u8)
        .collect()
}

/// Opens `count` streams.
fn open(p: &mut Pair, count: usize) -> Vec<StreamId> {
    (0..count)
        .map(|_| p.ends[0].open_stream(0, Policy::Stripe).unwrap())
        .collect()
}

/// A perfect channel.
pub(super) fn pair() -> Pair {
    Pair::new(&OpLimits::default())
}
