//! Two ends joined by toy links in virtual time: rate, delay, FIFO, token
//! bucket, loss, silence. For the tests of this folder only.

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::{Path, PathConfig, PathControl, PathEvent, PathState, Progress};
use crate::segment::{Content, Fate};
use crate::wire::{Ack, LinkVerdict, Witness};
use crate::{LinkId, Time};

/// Overhead of a packet on the wire: Ethernet, IP, UDP.
const OVERHEAD: usize = 66;
/// Header, trailer and record header of a data packet.
const HEADERS: usize = 42;

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// xorshift64*.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn chance(&mut self, p: f64) -> bool {
        ((self.next() >> 11) as f64 / (1u64 << 53) as f64) < p
    }
}

/// One direction of a link.
#[derive(Clone)]
pub struct Wire {
    pub bytes_per_s: f64,
    pub delay: Duration,
    /// Longest wait in the FIFO.
    pub fifo: Duration,
    pub burst_bytes: f64,
    pub loss: f64,
    pub silent: bool,
    pub mtu: usize,
    pub jitter: Duration,
    /// When the bucket will have paid for everything sent (GCRA's theoretical arrival time), in ns.
    paid_at: f64,
    pub dropped: u64,
    pub queue_max: Duration,
}

impl Wire {
    pub fn new(mbit: f64, delay: Duration) -> Wire {
        Wire {
            bytes_per_s: mbit * 125e3,
            delay,
            fifo: ms(50),
            burst_bytes: 1514.0,
            loss: 0.0,
            silent: false,
            mtu: 1472,
            jitter: Duration::ZERO,
            paid_at: 0.0,
            dropped: 0,
            queue_max: Duration::ZERO,
        }
    }

    /// Changes the rate; what is queued leaves at the new one.
    pub fn set_mbit(&mut self, now: Time, mbit: f64) {
        let ns = now.as_ns() as f64;
        let queued = (self.paid_at - ns - self.burst_bytes / self.bytes_per_s * 1e9).max(0.0);
        let bytes = queued * self.bytes_per_s;
        self.bytes_per_s = mbit * 125e3;
        self.paid_at = ns + bytes / self.bytes_per_s + self.burst_bytes / self.bytes_per_s * 1e9;
    }

    /// Others put so much into the FIFO.
    pub fn crowd(&mut self, now: Time, queue: Duration) {
        self.paid_at = self.paid_at.max(now.as_ns() as f64) + queue.as_nanos() as f64;
    }

    /// When a packet handed over now arrives, if it does.
    fn carry(&mut self, now: Time, bytes: usize, dice: &mut Dice) -> Option<Time> {
        if bytes > self.mtu {
            return None;
        }
        let ns = now.as_ns() as f64;
        let cost = (bytes + OVERHEAD) as f64 / self.bytes_per_s * 1e9;
        let paid = self.paid_at.max(ns) + cost;
        let leave = (paid - self.burst_bytes / self.bytes_per_s * 1e9).max(ns);
        let queue = Duration::from_nanos((leave - ns) as u64);
        if queue > self.fifo {
            self.dropped += 1;
            return None;
        }
        self.paid_at = paid;
        self.queue_max = self.queue_max.max(queue);
        if self.silent || dice.chance(self.loss) {
            return None;
        }
        let jitter = (self.jitter.as_nanos() as u64).max(1);
        Some(now + queue + self.delay + Duration::from_nanos(dice.next() % jitter))
    }
}

#[derive(Clone)]
enum Rec {
    Ack(Ack),
    Sent(u8, u64),
    Probe(u32),
    Reply(u32, usize),
    State(u8, u32, LinkVerdict, Witness),
    StateAck(u8, u32),
    Data(u64, u32),
}

#[derive(Clone)]
struct Packet {
    path: usize,
    number: u64,
    bytes: usize,
    eliciting: bool,
    recs: Vec<Rec>,
}

/// One end.
pub struct End {
    pub paths: Vec<Path>,
    fates: Vec<(Content, Fate)>,
    replies: Vec<(usize, Rec)>,
    /// Paths probed since their last acknowledgement.
    probed: Vec<bool>,
    /// Bytes the application still wants sent; `u64::MAX` is without end.
    pub backlog: u64,
    /// Paths that content may use.
    pub allowed: Vec<bool>,
    next_offset: u64,
    resend: VecDeque<(u64, u32)>,
    acked: BTreeMap<u64, u32>,
    /// Offsets that arrived.
    pub got: BTreeMap<u64, Time>,
    pub path_bytes: Vec<u64>,
    pub got_bytes: u64,
    pub events: Vec<(usize, PathEvent)>,
    inbox: VecDeque<Packet>,
    paused_until: Time,
    /// Time from one look at what arrived to the next, at least.
    pub rest: Duration,
    sent_at: Time,
    token: u32,
    pub last_got: Time,
    pub longest_gap: Duration,
}

impl End {
    fn new(paths: usize, config: &PathConfig) -> End {
        End {
            paths: (0..paths)
                .map(|i| Path::new(LinkId(i as u8), Time::ZERO, config))
                .collect(),
            fates: Vec::new(),
            replies: Vec::new(),
            probed: vec![false; paths],
            backlog: 0,
            allowed: vec![true; paths],
            next_offset: 0,
            resend: VecDeque::new(),
            acked: BTreeMap::new(),
            got: BTreeMap::new(),
            path_bytes: vec![0; paths],
            got_bytes: 0,
            events: Vec::new(),
            inbox: VecDeque::new(),
            paused_until: Time::ZERO,
            rest: Duration::ZERO,
            sent_at: Time::ZERO,
            token: 0,
            last_got: Time::ZERO,
            longest_gap: Duration::ZERO,
        }
    }

    fn others(&mut self, now: Time, but: usize, progress: Progress) {
        let patience = self.paths[but].patience();
        for (i, path) in self.paths.iter_mut().enumerate() {
            if i != but {
                path.on_others_progress(now, progress, patience);
            }
        }
    }

    fn take(&mut self, now: Time, packet: Packet) {
        let p = packet.path;
        if !self.paths[p].on_received(now, packet.number, packet.bytes, packet.eliciting) {
            return;
        }
        self.others(now, p, Progress::Arrivals);
        for rec in packet.recs {
            match rec {
                Rec::Ack(ack) => {
                    let of = ack.path as usize;
                    let result =
                        self.paths[of].on_ack_via(now, &ack, LinkId(p as u8), &mut self.fates);
                    assert!(!result.is_invalid);
                    if result.packets_acked > 0 {
                        let sent = self.paths[of].answered_sent();
                        self.others(now, of, Progress::Acks(sent));
                    }
                }
                Rec::Sent(of, next) => self.paths[of as usize].on_peer_sent(now, next),
                Rec::Probe(token) => {
                    self.probed[p] = true;
                    self.replies.push((p, Rec::Reply(token, packet.bytes)));
                }
                Rec::Reply(token, bytes) => {
                    let mut others = (0..self.paths.len()).filter(|other| *other != p);
                    let work = others.any(|other| self.paths[other].state() != PathState::Down);
                    if self.paths[p].on_probe_reply(now, token, bytes, work) {
                        let sent = self.paths[p].answered_sent();
                        self.others(now, p, Progress::Acks(sent));
                    }
                }
                Rec::State(of, generation, verdict, witness) => {
                    let path = &mut self.paths[of as usize];
                    path.on_peer_verdict(now, generation, verdict, witness, &mut self.fates);
                    self.replies.push((p, Rec::StateAck(of, generation)));
                }
                Rec::StateAck(of, generation) => {
                    self.paths[of as usize].on_link_state_ack(generation);
                }
                Rec::Data(offset, len) => {
                    self.path_bytes[p] += u64::from(len);
                    if self.got.insert(offset, now).is_none() {
                        self.got_bytes += u64::from(len);
                        self.longest_gap = self.longest_gap.max(now.since(self.last_got));
                        self.last_got = now;
                    }
                }
            }
        }
    }

    fn settle(&mut self) {
        for (content, fate) in self.fates.drain(..) {
            let Content::Stream { offset, len, .. } = content else {
                unreachable!()
            };
            match fate {
                Fate::Acked => {
                    self.acked.insert(offset, len);
                }
                Fate::Lost if !self.acked.contains_key(&offset) => {
                    self.resend.push_back((offset, len));
                }
                Fate::Lost => {}
            }
        }
    }

    fn next_data(&mut self, room: usize) -> Option<(u64, u32)> {
        while let Some((offset, len)) = self.resend.pop_front() {
            if !self.acked.contains_key(&offset) {
                return Some((offset, len));
            }
        }
        if self.backlog == 0 {
            return None;
        }
        let len = (room as u64).min(self.backlog) as u32;
        if self.backlog != u64::MAX {
            self.backlog -= u64::from(len);
        }
        self.next_offset += 1;
        Some((self.next_offset - 1, len))
    }

    fn wants(&self) -> bool {
        self.backlog > 0 || !self.resend.is_empty()
    }

    /// The path to send content on now.
    fn choose(&self) -> Option<usize> {
        let of = |state: PathState| {
            self.paths
                .iter()
                .enumerate()
                .filter(move |(_, p)| p.state() == state)
        };
        let room = |(_, p): &(usize, &Path)| p.flight().room_bytes() > 0;
        let any_up = of(PathState::Up).next().is_some();
        let state = if any_up {
            PathState::Up
        } else {
            PathState::Suspect
        };
        let cost = |p: &Path| p.flight().delivery_us(p.flight().burst_bytes() as u64);
        let best = of(state)
            .filter(|x| self.allowed[x.0])
            .filter(room)
            .min_by(|a, b| cost(a.1).total_cmp(&cost(b.1)));
        best.map(|(i, _)| i)
    }
}

/// Both ends and the wires between them: `wires[from][path]`.
pub struct Toy {
    pub now: Time,
    pub ends: [End; 2],
    pub wires: [Vec<Wire>; 2],
    pub dice: Dice,
    /// All paths go over the wire of path 0: as many senders on one link.
    pub shared: bool,
    pub wakeups: u64,
    heap: BinaryHeap<Reverse<(Time, u64, usize)>>,
    flying: BTreeMap<u64, Packet>,
    flown: u64,
}

impl Toy {
    pub fn new(wires: &[Wire], seed: u64) -> Toy {
        Toy::with(wires, seed, &PathConfig::default())
    }

    pub fn with(wires: &[Wire], seed: u64, config: &PathConfig) -> Toy {
        Toy {
            now: Time::from_ms(1000),
            ends: [End::new(wires.len(), config), End::new(wires.len(), config)],
            wires: [wires.to_vec(), wires.to_vec()],
            dice: Dice::new(seed),
            shared: false,
            wakeups: 0,
            heap: BinaryHeap::new(),
            flying: BTreeMap::new(),
            flown: 0,
        }
    }

    /// A path's wires in both directions.
    pub fn both(&mut self, path: usize, change: impl Fn(&mut Wire)) {
        for wires in &mut self.wires {
            change(&mut wires[path]);
        }
    }

    /// Stops an end's process until `until`.
    pub fn pause(&mut self, end: usize, until: Time) {
        self.ends[end].paused_until = until;
    }

    pub fn state(&self, end: usize, path: usize) -> PathState {
        self.ends[end].paths[path].state()
    }

    pub fn run_for(&mut self, d: Duration) {
        let until = self.now + d;
        self.run_until(until, |_| false);
    }

    /// Runs until `stop` says so or `until`. Returns whether it said so.
    pub fn run_until(&mut self, until: Time, stop: impl Fn(&Toy) -> bool) -> bool {
        let mut spins = 0;
        loop {
            for end in 0..2 {
                self.pump(end);
            }
            if stop(self) {
                return true;
            }
            let next = self.next_time();
            assert!(next >= self.now);
            spins = if next == self.now { spins + 1 } else { 0 };
            assert!(spins < 10_000, "no progress at {:?}", self.now);
            if next > until {
                self.now = until;
                return false;
            }
            self.now = next;
            self.wakeups += 1;
            while let Some(&Reverse((at, id, end))) = self.heap.peek()
                && at <= self.now
            {
                self.heap.pop();
                let packet = self.flying.remove(&id).unwrap();
                self.ends[end].inbox.push_back(packet);
            }
        }
    }

    fn next_time(&self) -> Time {
        let mut next = self.heap.peek().map_or(Time::NEVER, |e| e.0.0);
        for end in &self.ends {
            let mut at = Time::NEVER;
            for path in &end.paths {
                at = at
                    .min(path.next_timeout(true).unwrap_or(Time::NEVER))
                    .min(path.ack_deadline().unwrap_or(Time::NEVER));
                let room_at = path.flight().room_at().filter(|_| end.wants());
                at = at.min(room_at.unwrap_or(Time::NEVER));
            }
            if !end.inbox.is_empty() {
                at = self.now;
            }
            next = next.min(at.max(end.paused_until).max(self.now));
        }
        next
    }

    fn pump(&mut self, e: usize) {
        let now = self.now;
        if self.ends[e].paused_until > now {
            return;
        }
        let end = &mut self.ends[e];
        if !end.inbox.is_empty() {
            end.paused_until = now + end.rest;
        }
        while let Some(packet) = end.inbox.pop_front() {
            end.take(now, packet);
        }
        for path in &mut end.paths {
            path.on_timeout(now, &mut end.fates);
        }
        end.settle();
        self.control(e);
        self.data(e);
        self.acks(e);
        self.ends[e].settle();
        let end = &mut self.ends[e];
        for (i, path) in end.paths.iter_mut().enumerate() {
            while let Some(event) = path.poll_event() {
                end.events.push((i, event));
            }
        }
    }

    fn control(&mut self, e: usize) {
        let now = self.now;
        let end = &mut self.ends[e];
        if end.paths.iter().any(|p| p.lacks_comparison(now)) {
            for path in &mut end.paths {
                path.request_probe();
            }
        }
        for p in 0..self.ends[e].paths.len() {
            loop {
                let end = &mut self.ends[e];
                end.token += 1;
                match end.paths[p].poll_control(now, end.token, true) {
                    None => break,
                    Some(PathControl::Probe {
                        token,
                        pad_to_bytes,
                    }) => {
                        self.send(
                            e,
                            p,
                            pad_to_bytes.max(60),
                            vec![Rec::Probe(token)],
                            pad_to_bytes == 0,
                        );
                    }
                    Some(PathControl::LinkState {
                        generation,
                        verdict,
                        witness,
                    }) => {
                        for q in 0..self.ends[e].paths.len() {
                            let rec = Rec::State(p as u8, generation, verdict, witness);
                            self.send(e, q, 60, vec![rec], false);
                        }
                    }
                }
            }
        }
        for (p, rec) in std::mem::take(&mut self.ends[e].replies) {
            self.send(e, p, 60, vec![rec], false);
        }
    }

    fn data(&mut self, e: usize) {
        let now = self.now;
        for path in &mut self.ends[e].paths {
            path.refill(now);
        }
        while self.ends[e].wants()
            && let Some(p) = self.ends[e].choose()
        {
            let burst = self.ends[e].paths[p].flight().burst_bytes();
            let mut done = 0;
            while done < burst && self.ends[e].paths[p].flight().room_bytes() > 0 {
                let end = &mut self.ends[e];
                let mtu = end.paths[p].flight().mtu_bytes();
                let Some((offset, len)) = end.next_data(mtu - HEADERS) else {
                    break;
                };
                // A piece made for a larger MTU goes as two would: it costs as much.
                let bytes = (len as usize + HEADERS).min(mtu);
                let mut recs = vec![Rec::Data(offset, len)];
                if end.paths[p].ack_pending() {
                    recs.extend(end.paths[p].take_ack(now).map(Rec::Ack));
                }
                self.send(e, p, bytes, recs, true);
                done += bytes;
            }
        }
    }

    fn acks(&mut self, e: usize) {
        let now = self.now;
        let end = &mut self.ends[e];
        // "In flight counts" every 5 ms while anything is sent.
        let mut extra = Vec::new();
        if now.since(end.sent_at) >= ms(5) && end.next_offset > 0 {
            end.sent_at = now;
            extra.extend(
                (0..end.paths.len())
                    .map(|p| Rec::Sent(p as u8, end.paths[p].flight().next_number())),
            );
            let of = end.paths.iter().position(|p| p.carries()).unwrap_or(0);
            self.send(e, of, 60, extra, false);
        }
        for p in 0..self.ends[e].paths.len() {
            let end = &mut self.ends[e];
            if end.paths[p].ack_deadline().is_some_and(|at| at <= now) {
                let ack = end.paths[p].take_ack(now).unwrap();
                // The answer to a probe went on the path itself: the acknowledgement takes another.
                let other = (0..end.paths.len()).find(|&q| q != p && end.paths[q].carries());
                let away = std::mem::take(&mut end.probed[p]) || !end.paths[p].carries();
                let on = if away { other.unwrap_or(p) } else { p };
                self.send(e, on, 70, vec![Rec::Ack(ack)], false);
            }
        }
    }

    fn send(&mut self, e: usize, p: usize, bytes: usize, recs: Vec<Rec>, eliciting: bool) {
        let now = self.now;
        let path = &mut self.ends[e].paths[p];
        let number = path.flight().next_number();
        let contents: Vec<Content> = recs
            .iter()
            .filter_map(|r| match r {
                Rec::Data(offset, len) => Some(Content::Stream {
                    id: 0,
                    offset: *offset,
                    len: *len,
                    fin: false,
                }),
                _ => None,
            })
            .collect();
        path.on_sent(now, bytes, &contents, eliciting);
        if let Some(at) =
            self.wires[e][if self.shared { 0 } else { p }].carry(now, bytes, &mut self.dice)
        {
            self.flown += 1;
            let packet = Packet {
                path: p,
                number,
                bytes,
                eliciting,
                recs,
            };
            self.heap.push(Reverse((at, self.flown, 1 - e)));
            self.flying.insert(self.flown, packet);
        }
    }
}
