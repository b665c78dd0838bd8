//! More frames than the paths carry.

use super::*;
use crate::wire::UnitClass;

const HOGS: u8 = 4;
const FRAME_BYTES: usize = 62_000;
/// What a hog keeps under way if nothing is lost.
const WINDOW_FRAMES: usize = 12;

/// A line that takes a packet a millisecond, 11 Mb/s, and loses nothing.
struct Line {
    from: Ops,
    to: Ops,
    now: Time,
}

impl Line {
    fn new() -> Line {
        Line::of(&OpLimits::default())
    }

    fn of(limits: &OpLimits) -> Line {
        // No empty buffers: memory is what waits.
        let limits = OpLimits {
            pool_bytes: 0,
            ..limits.clone()
        };
        Line {
            from: Ops::new(true, &limits),
            to: Ops::new(false, &limits),
            now: Time::from_ms(1),
        }
    }

    /// Whether the queue takes a frame.
    fn send(&mut self, flow: u8, bytes: usize) -> bool {
        let frame = vec![flow; bytes];
        self.from
            .send_frame(self.now, flow, Policy::Auto, frame)
            .is_ok()
    }

    /// As if read from a device, in whose buffers any frame has room.
    fn send_from_device(&mut self, flow: u8, bytes: usize) -> bool {
        let mut frame = Vec::with_capacity(350_000);
        frame.resize(bytes, flow);
        self.from
            .send_frame(self.now, flow, Policy::Auto, frame)
            .is_ok()
    }

    /// A millisecond passes; the flows of which something left.
    fn pass(&mut self) -> Vec<u32> {
        self.now += Duration::from_millis(1);
        let mut slot = vec![0; 1430];
        let mut w = Writer::new(&mut slot);
        let contents: Vec<_> =
            core::iter::from_fn(|| self.from.write_segment(self.now, &Reach::default(), &mut w))
                .collect();
        let len = w.len();
        let mut flows = Vec::new();
        for record in Records::new(&slot[..len]) {
            let record = record.unwrap();
            if let Record::Unit(seg) = record {
                assert_eq!(seg.class, UnitClass::Frame);
                flows.push(seg.flow);
            }
            give(&mut self.to, self.now, &record).unwrap();
        }
        for content in contents {
            self.from.on_fate(self.now, content, Fate::Acked);
        }
        for ops in [&mut self.from, &mut self.to] {
            ops.on_timeout(self.now);
        }
        flows
    }

    /// Fills the queue, and waits until it stands.
    fn stand(&mut self) {
        while self.from.queued_bytes() < 512 * 1024 {
            for flow in 0..HOGS {
                assert!(self.send(flow, FRAME_BYTES));
            }
        }
        while !self.from.frames_stand() {
            self.pass();
        }
    }

    fn arrived(&mut self) -> Vec<Vec<u8>> {
        core::iter::from_fn(|| self.to.receive_frame()).collect()
    }
}

#[test]
fn who_sends_little_passes_who_sends_much() {
    let mut line = Line::new();
    line.stand();
    for round in 0..30 {
        for flow in 0..HOGS {
            assert!(line.send(flow, FRAME_BYTES), "a standing queue takes all");
        }
        assert!(line.send(200, 84));
        let passed = (0..10).any(|_| line.pass().contains(&200));
        // At first everybody is new, and has a frame ahead of those who are not.
        assert!(passed || round < 5, "{round}");
        for _ in 0..99 {
            line.pass();
        }
    }
}

#[test]
fn a_queue_stands_until_it_is_short() {
    let mut line = Line::new();
    line.stand();
    while line.from.queued_bytes() > 0 {
        line.pass();
    }
    assert!(!line.from.frames_stand());
    // All of it arrived: nobody was to blame for a burst.
    let stats = line.from.stats();
    assert_eq!((stats.frames_overdue, stats.frames_crowded_out), (0, 0));
    assert_eq!(stats.frames_sent as usize, line.arrived().len());
}

/// The hogs are told by lost frames, as TCP wants it: each halves for one, and none loses
/// all it has.
#[test]
fn who_keeps_too_much_waiting_loses_a_frame_now_and_then() {
    let mut line = Line::new();
    line.stand();
    let mut windows = [WINDOW_FRAMES; HOGS as usize];
    let mut under_way = [0usize; HOGS as usize];
    let mut overdue = 0;
    let mut longest_ms = 0;
    for ms in 0..60_000 {
        for flow in 0..HOGS {
            let at = usize::from(flow);
            while under_way[at] < windows[at] && line.send(flow, FRAME_BYTES) {
                under_way[at] += 1;
            }
        }
        line.pass();
        for frame in line.arrived() {
            let at = usize::from(frame[0]);
            under_way[at] = under_way[at].saturating_sub(1);
        }
        let stats = line.from.stats();
        if stats.frames_overdue > overdue {
            overdue = stats.frames_overdue;
            let most = (0..windows.len()).max_by_key(|at| windows[*at]).unwrap();
            windows[most] = (windows[most] / 2).max(2);
            under_way[most] = under_way[most].saturating_sub(1);
        }
        if ms > 40_000 {
            longest_ms = longest_ms.max(line.from.queued_bytes() / 1430);
        }
    }
    assert!((5..100).contains(&overdue), "{overdue}");
    assert!(longest_ms < 2_000, "{longest_ms} ms wait");
    // What was dropped left no gap to wait for.
    assert_eq!(line.to.stats().frames_skipped, 0);
}

#[test]
fn a_full_queue_that_stands_takes_from_who_holds_most() {
    let mut line = Line::new();
    line.stand();
    while line.from.stats().frames_crowded_out == 0 {
        assert!(line.send(7, FRAME_BYTES));
    }
    let before = line.from.stats().frames_crowded_out;
    for _ in 0..10 {
        assert!(line.send(8, FRAME_BYTES));
    }
    let stats = line.from.stats();
    assert_eq!(stats.frames_crowded_out - before, 10);
    let limit = OpLimits::default().frame_queue_bytes;
    assert!(line.from.queued_bytes() <= limit);
    // Of flow 8, which holds less than 7, nothing is missing.
    let mut whole = 0;
    for _ in 0..20_000 {
        line.pass();
        whole += line.arrived().iter().filter(|f| f[0] == 8).count();
    }
    assert_eq!(whole, 10);
    assert_eq!(line.to.stats().frames_skipped, 0);
}

#[test]
fn a_standing_queue_holds_little_more_memory_than_it_counts() {
    let mut line = Line::new();
    line.stand();
    while line.from.stats().frames_crowded_out == 0 {
        assert!(line.send_from_device(3, 5_000));
    }
    assert!(
        line.from.memory_bytes() < 6_000_000,
        "{}",
        line.from.memory_bytes()
    );
}

/// What is in flight may be more than the queue, and fill the memory: who sends little is not to
/// suffer from it.
#[test]
fn full_memory_takes_from_who_holds_most() {
    let limits = OpLimits {
        frame_held_bytes: 3 << 20,
        ..OpLimits::default()
    };
    let mut line = Line::of(&limits);
    line.stand();
    while line.from.stats().frames_crowded_out == 0 {
        assert!(line.send(7, FRAME_BYTES));
    }
    assert!(line.from.queued_bytes() < limits.frame_queue_bytes - FRAME_BYTES);
    assert!(line.send(8, 84));
    assert!((0..20_000).any(|_| line.pass().contains(&8)));
}

#[test]
fn a_burst_of_frames_fills_the_memory_with_frames_and_not_with_their_buffers() {
    for bytes in [1_500, 2_500, 9_000, 16_000, 62_000] {
        let mut line = Line::new();
        let mut sent = 0;
        while line.send_from_device(0, bytes) {
            sent += bytes;
        }
        assert!(sent > 2_000_000, "{sent} of {bytes} bytes each");
        assert!(line.from.memory_bytes() < 33_000_000);
    }
}
