//! Random operations over a channel that does everything a network does: each
//! byte, message and frame arrives once, in order, unchanged, and nothing remains.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::{LinkId, StreamId};

/// What one end should receive on a stream, and what it knows of it.
#[derive(Default)]
struct Half {
    written: u64,
    finished: bool,
    /// Reset or stopped by anyone: it need not arrive.
    given_up: bool,
    read: u64,
    fin_read: bool,
}

/// Tag and data of a message.
type Sent = (Option<u64>, Vec<u8>);

/// A pair with a record of everything that was done.
struct World {
    pair: Pair,
    /// By stream and receiving end.
    halves: BTreeMap<(StreamId, usize), Half>,
    /// Messages sent and not received, by receiving end and flow.
    messages: BTreeMap<(usize, u32), VecDeque<Sent>>,
    /// Numbers of frames sent and not received, by receiving end and flow.
    frames: BTreeMap<(usize, u8), VecDeque<u64>>,
    frame_number: u64,
    open: [Vec<StreamId>; 2],
}

/// Frames carry their flow, their number, and bytes that follow from it.
fn frame(flow: u8, number: u64, len: usize) -> Vec<u8> {
    let mut frame = vec![flow];
    frame.extend_from_slice(&number.to_be_bytes());
    frame.extend(pattern(number, 0, len));
    frame
}

impl World {
    fn new(seed: u64) -> World {
        let limits = OpLimits {
            stream_send_bytes: 300_000,
            streams_send_bytes: 600_000,
            message_queue_bytes: 500_000,
            bundle_window_bytes: 0,
            stream_window_bytes_max: 2_000_000,
            ..OpLimits::default()
        };
        let mut pair = Pair::new(&limits);
        pair.dice = Dice::new(seed);
        let d = &mut pair.dice;
        pair.faults = Faults {
            loss: d.below(30),
            duplicate: d.below(20),
            spurious: d.below(10),
            jitter_us: d.below(3000),
            again: d.below(20),
        };
        pair.underway_max = 20 + d.below(200) as usize;
        pair.datagram_bytes = [700, 1430, 8900][d.below(3) as usize];
        World {
            pair,
            halves: BTreeMap::new(),
            messages: BTreeMap::new(),
            frames: BTreeMap::new(),
            frame_number: 0,
            open: [Vec::new(), Vec::new()],
        }
    }

    fn stream(&mut self, end: usize) -> Option<StreamId> {
        let n = self.open[end].len() as u64;
        (n > 0).then(|| self.open[end][self.pair.dice.below(n) as usize])
    }

    /// Half of the streams' key: which direction.
    fn key(id: StreamId, to: usize) -> u64 {
        id.0 * 2 + to as u64
    }

    fn act(&mut self) {
        let end = self.pair.dice.below(2) as usize;
        match self.pair.dice.below(20) {
            0 => self.open_stream(end),
            1..=6 => self.write(end),
            7..=8 => self.finish(end),
            9 if self.pair.dice.percent(30) => self.give_up(end),
            10..=12 => self.send_message(end),
            13..=16 => self.send_frame(end),
            17 => self.set_policy(end),
            _ => self.receive(end),
        }
    }

    fn policy(&mut self) -> Policy {
        let link = LinkId(self.pair.dice.below(2) as u8);
        let policies = [
            Policy::Stripe,
            Policy::Mirror,
            Policy::Auto,
            Policy::Link(link),
        ];
        policies[self.pair.dice.below(4) as usize]
    }

    fn open_stream(&mut self, end: usize) {
        let policy = self.policy();
        let id = self.pair.ends[end].open_stream(77, policy).unwrap();
        self.open[end].push(id);
        for to in 0..2 {
            self.halves.insert((id, to), Half::default());
        }
    }

    fn write(&mut self, end: usize) {
        let Some(id) = self.stream(end) else { return };
        let half = self.halves.get_mut(&(id, 1 - end)).unwrap();
        let len = self.pair.dice.below(40_000) as usize;
        let data = pattern(World::key(id, 1 - end), half.written, len);
        let lent = self.pair.dice.percent(50);
        let ops = &mut self.pair.ends[end];
        let written = match lent {
            true => ops.fill_stream(id, len, |room| {
                room.copy_from_slice(&data[..room.len()]);
                room.len()
            }),
            false => ops.write_stream(id, &data),
        };
        match written {
            Ok(n) => half.written += n as u64,
            Err(_) => assert!(half.finished || half.given_up),
        }
    }

    fn set_policy(&mut self, end: usize) {
        let policy = self.policy();
        let Some(id) = self.stream(end) else { return };
        // It may be over.
        let _ = self.pair.ends[end].set_stream_policy(id, policy);
    }

    fn finish(&mut self, end: usize) {
        let Some(id) = self.stream(end) else { return };
        let half = self.halves.get_mut(&(id, 1 - end)).unwrap();
        match self.pair.ends[end].finish_stream(id) {
            Ok(()) => half.finished = true,
            Err(_) => assert!(half.finished || half.given_up),
        }
    }

    fn give_up(&mut self, end: usize) {
        let Some(id) = self.stream(end) else { return };
        let reset = self.pair.dice.percent(50);
        let ops = &mut self.pair.ends[end];
        let (result, to) = if reset {
            (ops.reset_stream(id, 5), 1 - end)
        } else {
            (ops.stop_stream(id, 6), end)
        };
        if result.is_ok() {
            self.halves.get_mut(&(id, to)).unwrap().given_up = true;
        }
    }

    fn send_message(&mut self, end: usize) {
        let policy = self.policy();
        let d = &mut self.pair.dice;
        let flow = d.below(3) as u32 * 1_000_000;
        let tag = d.percent(50).then(|| d.below(u64::MAX));
        let len = [0, 50, 3000, 200_000][d.below(4) as usize];
        let data = pattern(d.below(1000), 0, len);
        if self.pair.ends[end].send_message(flow, tag, &data, policy) == Ok(()) {
            let queue = self.messages.entry((1 - end, flow)).or_default();
            queue.push_back((tag, data));
        }
    }

    fn send_frame(&mut self, end: usize) {
        let policy = self.policy();
        let d = &mut self.pair.dice;
        let flow = d.below(4) as u8;
        let len = [0, 60, 1400, 20_000][d.below(4) as usize];
        let number = self.frame_number;
        let now = self.pair.now;
        if self.pair.ends[end]
            .send_frame(now, flow, policy, frame(flow, number, len))
            .is_ok()
        {
            self.frames
                .entry((1 - end, flow))
                .or_default()
                .push_back(number);
            self.frame_number += 1;
        }
    }

    /// Takes everything an end has, and checks it.
    fn receive(&mut self, end: usize) {
        while let Some(event) = self.pair.ends[end].poll_event() {
            match event {
                OpEvent::StreamOpened { id, service } => {
                    assert_eq!(service, 77);
                    self.open[end].push(id);
                }
                OpEvent::Reset { id, .. } => {
                    // Given up by its opener before the other knew it, it has no other direction.
                    let other = self.halves[&(id, 1 - end)].given_up;
                    let half = self.halves.get_mut(&(id, end)).unwrap();
                    assert!(half.given_up || (other && half.written == 0));
                    half.given_up = true;
                }
                OpEvent::Stopped { id, .. } => {
                    self.halves.get_mut(&(id, 1 - end)).unwrap().given_up = true;
                }
                OpEvent::Finished(id) => assert!(self.halves[&(id, 1 - end)].finished),
                _ => {}
            }
        }
        for id in self.open[end].clone() {
            self.read(end, id);
        }
        while let Some(m) = self.pair.ends[end].receive_message() {
            let expected = self.messages.get_mut(&(end, m.flow)).unwrap().pop_front();
            assert_eq!(expected, Some((m.tag, m.data)));
        }
        while let Some(f) = self.pair.ends[end].receive_frame() {
            let number = u64::from_be_bytes(f[1..9].try_into().unwrap());
            assert_eq!(f, frame(f[0], number, f.len() - 9));
            let expected = self.frames.get_mut(&(end, f[0])).unwrap().pop_front();
            assert_eq!(expected, Some(number));
            self.pair.ends[end].recycle(f);
        }
    }

    fn read(&mut self, end: usize, id: StreamId) {
        let half = self.halves.get_mut(&(id, end)).unwrap();
        let mut buffer = vec![0; 1 + self.pair.dice.below(20_000) as usize];
        loop {
            let lent = self.pair.dice.percent(50);
            let ops = &mut self.pair.ends[end];
            let read = match lent {
                true => ops.take_stream(id, |bytes| {
                    let len = bytes.len().min(buffer.len());
                    buffer[..len].copy_from_slice(&bytes[..len]);
                    len
                }),
                false => ops.read_stream(id, &mut buffer),
            };
            match read {
                Ok(Read { len, fin }) => {
                    assert!(!half.fin_read || len == 0);
                    let expected = pattern(World::key(id, end), half.read, len);
                    assert!(buffer[..len] == expected, "{id:?} at {}", half.read);
                    half.read += len as u64;
                    assert!(half.read <= half.written);
                    if fin {
                        assert!(half.finished && half.read == half.written);
                        half.fin_read = true;
                    }
                    if fin || len == 0 {
                        return;
                    }
                }
                Err(OpError::UnknownStream) => {
                    assert!(half.fin_read || half.given_up);
                    return;
                }
                Err(_) => {
                    assert!(half.given_up);
                    return;
                }
            }
        }
    }

    /// Ends every stream, lets everything arrive, and checks that nothing is missing or remains.
    fn settle(&mut self) {
        for round in 0..400 {
            self.pair.run(Duration::from_millis(10));
            for end in 0..2 {
                self.receive(end);
                if round > 3 {
                    for id in core::mem::take(&mut self.open[end]) {
                        if self.pair.ends[end].finish_stream(id) == Ok(()) {
                            self.halves.get_mut(&(id, 1 - end)).unwrap().finished = true;
                        }
                        self.open[end].push(id);
                    }
                }
            }
        }
        for ((id, end), half) in &self.halves {
            let whole = half.fin_read && half.read == half.written;
            assert!(
                whole || half.given_up,
                "{id:?} to {end}: {} of {}",
                half.read,
                half.written
            );
        }
        assert!(self.messages.values().all(VecDeque::is_empty));
        assert!(self.frames.values().all(VecDeque::is_empty));
        for ops in &mut self.pair.ends {
            assert!(!ops.has_pending());
            let stats = ops.stats();
            assert_eq!((stats.streams_open, stats.in_flight_bytes), (0, 0));
            assert_eq!(stats.ends_owed, 0);
            assert_eq!((ops.queued_bytes(), ops.lost_bytes()), (0, 0));
            assert_eq!(stats.frames_skipped + stats.frames_given_up, 0);
            ops.trim();
            assert!(ops.memory_bytes() < 300_000, "{}", ops.memory_bytes());
        }
    }
}

#[test]
fn everything_arrives_once_in_order_unchanged() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..1500 {
            world.act();
            let pause = world.pair.dice.below(300);
            world.pair.run(Duration::from_micros(pause));
        }
        world.settle();
    }
}

/// Records with random fields, as an authenticated but broken peer might send,
/// mixed with operations: errors are fine, panics and unbounded memory are not.
#[test]
fn nothing_panics_on_nonsense() {
    use crate::wire::{StreamSegment, UnitClass, UnitSegment};
    for seed in 0..20 {
        let mut d = Dice::new(seed);
        let limits = OpLimits {
            streams_max: 20,
            frame_reassembly_bytes: 3_000_000,
            ..OpLimits::default()
        };
        let mut ops = Ops::new(true, &limits);
        let mut now = Time::from_ms(1);
        let mut contents = Vec::new();
        let bytes = [7; 1400];
        for n in 0..20_000 {
            let data = &bytes[..d.below(1400) as usize];
            let near = d.below(2000);
            let any = [
                near,
                near << 10,
                u64::from(u32::MAX) - near,
                u64::MAX - near,
            ];
            let any = any[d.below(4) as usize];
            let id = d.below(60);
            let class = [UnitClass::Frame, UnitClass::Message][d.below(2) as usize];
            let _ = match d.below(9) {
                0..=2 => ops.on_stream(
                    now,
                    &StreamSegment {
                        id,
                        offset: any,
                        fin: d.percent(5),
                        held: d.percent(5),
                        service: Some(1),
                        data,
                    },
                ),
                3..=5 => ops.on_unit(
                    now,
                    &UnitSegment {
                        class,
                        flow: d.below(257) as u32,
                        sequence: near as u32 % 50,
                        offset: (any as u32) >> 8,
                        total: data.len() as u32 * (1 + d.below(9) as u32),
                        data,
                    },
                ),
                6 => ops.on_stream_reset(now, id, 1, any),
                7 => ops.on_stream_stop(now, id, 1),
                _ => ops.on_stream_window(now, id, any, any / 2),
            };
            nonsense_operation(&mut ops, &mut d, now, &mut contents);
            if n % 100 == 0 {
                assert!(ops.memory_bytes() < 60_000_000);
                now += Duration::from_millis(d.below(50));
                ops.on_timeout(now);
            }
        }
    }
}

fn nonsense_operation(ops: &mut Ops, d: &mut Dice, now: Time, contents: &mut Vec<Content>) {
    let id = crate::StreamId(d.below(60));
    let data = [1; 3000];
    match d.below(16) {
        0 => drop(ops.open_stream(1, Policy::Auto)),
        1..=2 => drop(ops.write_stream(id, &data)),
        3 => drop(ops.finish_stream(id)),
        4 if d.percent(20) => drop(ops.reset_stream(id, 1)),
        5 if d.percent(20) => drop(ops.stop_stream(id, 1)),
        6 => drop(ops.read_stream(id, &mut [0; 5000])),
        7 => drop(ops.send_message(id.0 as u32, Some(1), &data, Policy::Mirror)),
        8 => drop(ops.receive_message()),
        9 => drop(ops.send_frame(now, id.0 as u8, Policy::Auto, data.to_vec())),
        10 => drop(ops.receive_frame()),
        11 => {
            ops.on_bundle_window(d.below(1 << 24), d.below(1 << 24));
            ops.on_message_window(d.below(1 << 24), 0);
        }
        12 if d.percent(1) => ops.reset(),
        13 => drop(ops.fill_stream(id, 3000, |room| room.len() / 2)),
        14 => drop(ops.take_stream(id, |bytes| bytes.len() / 2)),
        _ => {}
    }
    while ops.poll_event().is_some() {}
    let mut slot = [0; 1400];
    let mut w = Writer::new(&mut slot[..d.below(1400) as usize]);
    while let Some(content) = ops.write_segment(now, &Reach::default(), &mut w) {
        ops.mirrored(&content);
        contents.push(content);
    }
    for _ in 0..3 {
        // Fates of anything, several times, also of what was written before a reset.
        if !contents.is_empty() {
            let i = d.below(contents.len() as u64) as usize;
            let content = contents[i];
            let mut w = Writer::new(&mut slot);
            ops.write_again(now, &content, &Reach::default(), &mut w);
            ops.on_fate(now, content, [Fate::Acked, Fate::Lost][d.below(2) as usize]);
            if contents.len() > 500 {
                contents.swap_remove(i);
            }
        }
    }
}
