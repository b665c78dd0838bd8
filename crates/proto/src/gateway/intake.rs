//! Keeps excess data from outside at its senders, and not in front of the far side's line, where nobody schedules: a far end is
//! advertised a window of its share of the line, and a little more.
//!
//! The law is FAST TCP's (C. Jin, D. Wei, S. Low, "FAST TCP: Motivation, Architecture, Algorithms, Performance", IEEE INFOCOM
//! 2004, section IV): `window ← ½ (window + least / now · window + α)`, where `now` is the round trip, `least` the minimum, and α
//! each sender's part of the standing queue. α is the same for all, so all have the same share, however far away they are. Here
//! the receiver's side applies it: a round trip is from an advance of the window's end to the first byte beyond the former end.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

use super::windows::{Windows, is_after};
use crate::Time;

/// A sender is young, and not held back, until it has sent this much without a pause of [`REST`], as in front of the own line.
const YOUNG_BYTES: u32 = 64 * 1024;
const REST: Duration = Duration::from_secs(1);
/// The most that a young sender may have in flight: its window is not taken back when it is no longer young.
const WINDOW_BYTES_YOUNG: u32 = 2 * YOUNG_BYTES;
/// The window that it begins with then.
const WINDOW_BYTES_FIRST: u32 = 64 * 1024;
/// Less would have the sender send single packets, and lose a window's worth at once.
const WINDOW_BYTES_LEAST: u32 = 4 * 1460;
/// Standing queue of all senders together in front of the far side's line, as time on the line. (α of all.) Busy hosts answer
/// late, which looks like a queue, too: with a smaller value the line would run empty.
const QUEUE: Duration = Duration::from_millis(1);
/// The least standing queue of each sender.
const QUEUE_BYTES_LEAST: u32 = 4 * 1460;
/// A round trip that is longer than the least one by no more than this, or by no more than this part of it, has met no queue: the window doubles.
const NO_QUEUE: Duration = Duration::from_micros(100);
const NO_QUEUE_PART: u32 = 16;
/// The shortest round trip in this time counts: longer ones have met busy hosts, and no standing queue (as CoDel, RFC 8289).
const LOOK_EVERY: Duration = Duration::from_millis(8);
/// Period for counting senders and bytes.
const COUNT_EVERY: Duration = Duration::from_millis(50);
/// The line's rate is the maximum of recent periods, reduced by this part in each period: with the current rate, a line that is
/// not full would get ever smaller windows.
const FORGETS: f64 = 0.002;
/// Minimum round trips are measured anew after this time (as BBR does, and for the same reason): all windows are halved for some
/// round trips, so that the queue empties.
const SEEK_EVERY: Duration = Duration::from_secs(10);
/// They are also measured anew after this time if a sender with the least window meets this many times its minimum round trip:
/// the way may have become longer.
const DOUBT_EVERY: Duration = Duration::from_secs(1);
const DOUBTED: u32 = 2;
const SEEK_RTTS: u32 = 4;
/// Hosts whose round trips are remembered.
const HOSTS_MAX: usize = 4096;

/// The least round trip to a host.
#[derive(Debug)]
struct Least {
    rtt: Duration,
    /// When it was last measured anew, until when, and the result so far.
    seek: Time,
    until: Time,
    found: Option<Duration>,
}

/// All that comes from outside.
#[derive(Debug, Default)]
pub struct Inflow {
    hosts: BTreeMap<IpAddr, Least>,
    /// When least round trips were sought last.
    seek: Time,
    /// Counts the periods.
    period: u32,
    began: Time,
    /// Senders that are held back, and bytes, of this time and of the one before.
    senders: [u32; 2],
    bytes: u64,
    carried_bytes_per_second: f64,
}

impl Inflow {
    fn count(&mut self, now: Time, bytes: u32) {
        let elapsed = now.since(self.began);
        if elapsed >= COUNT_EVERY {
            let carried = self.bytes as f64 / elapsed.as_secs_f64();
            self.carried_bytes_per_second =
                carried.max(self.carried_bytes_per_second * (1.0 - FORGETS));
            let [now_sending, _] = self.senders;
            self.senders = [0, now_sending];
            (self.bytes, self.began) = (0, now);
            self.period = self.period.wrapping_add(1);
        }
        self.bytes += u64::from(bytes);
    }

    /// Each sender's standing queue, in bytes.
    fn queue_bytes(&self) -> u32 {
        let senders = self.senders.into_iter().max().unwrap_or(0).max(1);
        let all = self.carried_bytes_per_second * QUEUE.as_secs_f64();
        ((all / f64::from(senders)) as u32).max(QUEUE_BYTES_LEAST)
    }

    /// A round trip to a host. Returns the least there was.
    fn measured(&mut self, now: Time, host: IpAddr, rtt: Duration) -> Duration {
        if now.since(self.seek) >= SEEK_EVERY {
            self.seek = now;
        }
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&host) {
            let is_new = |least: &Least| now.since(least.seek) < 2 * SEEK_EVERY;
            self.hosts.retain(|_, least| is_new(least));
            if self.hosts.len() >= HOSTS_MAX {
                return rtt;
            }
        }
        let least = self.hosts.entry(host).or_insert(Least {
            rtt,
            seek: self.seek,
            until: self.seek,
            found: None,
        });
        if least.seek != self.seek {
            (least.seek, least.found) = (self.seek, Some(rtt));
            least.until = self.seek + (SEEK_RTTS * rtt).max(LOOK_EVERY);
        }
        // Answers to what was sent in that time arrive a round trip later.
        match least.found {
            Some(found) if now < least.until + rtt => least.found = Some(found.min(rtt)),
            Some(found) => (least.rtt, least.found) = (found, None),
            None => {}
        }
        least.rtt = least.rtt.min(rtt);
        least.rtt
    }

    /// The way may have become longer.
    fn doubts(&mut self, now: Time) {
        if now.since(self.seek) >= DOUBT_EVERY {
            self.seek = now;
        }
    }

    fn seeks(&self, now: Time, host: IpAddr) -> bool {
        let least = self.hosts.get(&host);
        least.is_some_and(|least| now < least.until)
    }
}

/// A sender that is held back.
#[derive(Debug)]
struct Bulk {
    window_bytes: u32,
    /// Up to where its window went before, and when the word left that it goes further.
    asked: Option<(u32, Time)>,
    /// The shortest round trip since.
    shortest: Duration,
    since: Time,
    /// When it was counted last.
    period: u32,
}

/// One connection: the data of its far end.
#[derive(Debug)]
pub struct Intake {
    windows: Windows,
    came_at: Time,
    came_bytes: u32,
    bulk: Option<Box<Bulk>>,
}

impl Intake {
    /// For a receiver with this window shift (RFC 7323).
    pub const fn new(shift: u8) -> Intake {
        Intake {
            windows: Windows::new(shift),
            came_at: Time::ZERO,
            came_bytes: 0,
            bulk: None,
        }
    }

    /// By how many bits the receiver's windows are shifted.
    pub const fn shift(&self) -> u8 {
        self.windows.shift()
    }

    /// So many bytes have come, from this host, that end in front of this sequence number.
    pub fn has_come(&mut self, now: Time, inflow: &mut Inflow, host: IpAddr, end: u32, bytes: u32) {
        inflow.count(now, bytes);
        if now.since(self.came_at) >= REST {
            (self.came_bytes, self.bulk) = (0, None);
        }
        self.came_at = now;
        self.came_bytes = self.came_bytes.saturating_add(bytes);
        let Some(bulk) = &mut self.bulk else {
            if self.came_bytes >= YOUNG_BYTES {
                self.bulk = Some(Box::new(Bulk {
                    window_bytes: WINDOW_BYTES_FIRST,
                    asked: None,
                    shortest: Duration::MAX,
                    since: now,
                    period: inflow.period.wrapping_sub(1),
                }));
            }
            return;
        };
        if bulk.period != inflow.period {
            bulk.period = inflow.period;
            inflow.senders[0] += 1;
        }
        if let Some((before, at)) = bulk.asked
            && is_after(end, before)
        {
            bulk.asked = None;
            bulk.measured(now, inflow, host, now.since(at));
        }
    }

    /// The window to advertise to the far end in place of the receiver's, for a segment with this acknowledgement number. If its
    /// end advances, also its former end, to be reported to [`Intake::has_left`].
    pub fn window(
        &mut self,
        now: Time,
        inflow: &Inflow,
        host: IpAddr,
        acknowledged: u32,
        window: u16,
    ) -> (u16, Option<u32>) {
        let before = self.windows.edge();
        let Some(bulk) = &mut self.bulk else {
            let edge = acknowledged.wrapping_add(WINDOW_BYTES_YOUNG);
            return (self.windows.show(acknowledged, window, edge), None);
        };
        let own = u32::from(window) << self.windows.shift();
        // If the receiver accepts less, that limits the sender; when it no longer does, the sender must not find a much larger
        // window at once.
        bulk.window_bytes = bulk
            .window_bytes
            .min(own.saturating_mul(2))
            .max(WINDOW_BYTES_LEAST);
        let share = match inflow.seeks(now, host) {
            true => bulk.window_bytes / 2,
            false => bulk.window_bytes,
        };
        let shown = (self.windows).show(acknowledged, window, acknowledged.wrapping_add(share));
        let goes_on = before.filter(|before| {
            self.windows
                .edge()
                .is_some_and(|edge| is_after(edge, *before))
        });
        (shown, goes_on.filter(|_| bulk.asked.is_none()))
    }

    /// The word has left that the window goes on from there.
    pub fn has_left(&mut self, now: Time, before: u32) {
        if let Some(bulk) = &mut self.bulk
            && bulk.asked.is_none()
        {
            bulk.asked = Some((before, now));
        }
    }
}

impl Bulk {
    fn measured(&mut self, now: Time, inflow: &mut Inflow, host: IpAddr, rtt: Duration) {
        let least = inflow.measured(now, host, rtt);
        self.shortest = self.shortest.min(rtt);
        if now.since(self.since) < LOOK_EVERY || inflow.seeks(now, host) {
            return;
        }
        let window = f64::from(self.window_bytes);
        let queue = f64::from(inflow.queue_bytes());
        let goal = match self.shortest <= least + NO_QUEUE.max(least / NO_QUEUE_PART) {
            true => 2.0 * window,
            false => {
                let part = least.as_secs_f64() / self.shortest.as_secs_f64();
                (window + part * window + queue) / 2.0
            }
        };
        if self.window_bytes <= WINDOW_BYTES_LEAST && self.shortest >= DOUBTED * least {
            inflow.doubts(now);
        }
        self.window_bytes = goal.min(2.0 * window).min(f64::from(u32::MAX / 4)) as u32;
        (self.shortest, self.since) = (Duration::MAX, now);
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use std::net::Ipv4Addr;

    use super::*;

    const PACKET: u32 = 1460;
    const SHIFT: u8 = 7;
    /// The receiver's own window.
    const OWN_WINDOW_BYTES: u32 = 6 << 20;
    const MBPS: f64 = 1000.0;

    /// A sender with as much to send as it may, which begins slowly, and its way to the line.
    struct Sender {
        congestion_bytes: u32,
        heard: u32,
        intake: Intake,
        /// There and back, without a queue.
        rtt: Duration,
        begins: Time,
        next: u32,
        edge: u32,
        acknowledged: u32,
        /// Bytes that arrived since [`Line::run`] began to count.
        came_bytes: u64,
    }

    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum What {
        Data(u32),
        /// The acknowledgement number, and the end of the window.
        Window(u32, u32),
    }

    /// The far side's line: a queue without turns.
    struct Line {
        senders: Vec<Sender>,
        inflow: Inflow,
        events: BinaryHeap<Reverse<(Time, usize, What)>>,
        free_at: Time,
        now: Time,
        /// The longest wait, the sum of waits, and the number of packets.
        waits: (Duration, Duration, u32),
    }

    impl Line {
        fn new(rtts: impl IntoIterator<Item = Duration>) -> Line {
            let sender = |(n, rtt): (usize, Duration)| Sender {
                intake: Intake::new(SHIFT),
                rtt,
                begins: Time::ZERO + Duration::from_millis(3) * n as u32,
                congestion_bytes: 10 * PACKET,
                // Sequence numbers wrap on the way.
                heard: u32::MAX - 1_000_000,
                next: u32::MAX - 1_000_000,
                edge: u32::MAX - 1_000_000,
                acknowledged: u32::MAX - 1_000_000,
                came_bytes: 0,
            };
            let senders: Vec<Sender> = rtts.into_iter().enumerate().map(sender).collect();
            let mut events = BinaryHeap::new();
            for (n, sender) in senders.iter().enumerate() {
                let first = What::Window(sender.edge, sender.edge.wrapping_add(65_000));
                events.push(Reverse((sender.begins, n, first)));
            }
            Line {
                senders,
                inflow: Inflow::default(),
                events,
                free_at: Time::ZERO,
                now: Time::ZERO,
                waits: Default::default(),
            }
        }

        /// Runs until then, and counts only this time.
        fn run(&mut self, until: Time) {
            self.waits = Default::default();
            for sender in &mut self.senders {
                sender.came_bytes = 0;
            }
            while let Some(Reverse((at, n, what))) = self.events.pop() {
                self.now = at;
                match what {
                    What::Window(acknowledged, edge) => self.may_send(n, acknowledged, edge),
                    What::Data(end) => self.comes(n, end),
                }
                if at >= until {
                    return;
                }
            }
        }

        fn may_send(&mut self, n: usize, acknowledged: u32, edge: u32) {
            let sender = &mut self.senders[n];
            // Nothing is lost, so it stays at that.
            sender.congestion_bytes += acknowledged.wrapping_sub(sender.heard);
            sender.heard = acknowledged;
            let edge = match acknowledged.wrapping_add(sender.congestion_bytes) {
                limit if is_after(edge, limit) => limit,
                _ => edge,
            };
            if is_after(edge, sender.edge) {
                sender.edge = edge;
            }
            while !is_after(sender.next.wrapping_add(PACKET), sender.edge) {
                sender.next = sender.next.wrapping_add(PACKET);
                let begins = self.free_at.max(self.now);
                let wait = begins.since(self.now);
                let (longest, sum, count) = &mut self.waits;
                (*longest, *sum, *count) = ((*longest).max(wait), *sum + wait, *count + 1);
                self.free_at = begins + Duration::from_secs_f64(f64::from(PACKET) * 8e-6 / MBPS);
                let arrives = self.free_at + sender.rtt / 2;
                let what = What::Data(sender.next);
                self.events.push(Reverse((arrives, n, what)));
            }
        }

        fn comes(&mut self, n: usize, end: u32) {
            let (sender, host) = (&mut self.senders[n], Ipv4Addr::new(192, 0, 2, 1).into());
            sender.came_bytes += u64::from(PACKET);
            let intake = &mut sender.intake;
            intake.has_come(self.now, &mut self.inflow, host, end, PACKET);
            // Every other one is acknowledged.
            if end.wrapping_sub(sender.acknowledged) < 2 * PACKET {
                return;
            }
            sender.acknowledged = end;
            let own = (OWN_WINDOW_BYTES >> SHIFT) as u16;
            let (window, goes_on) = intake.window(self.now, &self.inflow, host, end, own);
            if let Some(before) = goes_on {
                intake.has_left(self.now, before);
            }
            let edge = end.wrapping_add(u32::from(window) << SHIFT);
            let at = self.now + sender.rtt / 2;
            self.events.push(Reverse((at, n, What::Window(end, edge))));
        }

        /// The total rate in Mb/s and Jain's index, over this time.
        fn shares(&self, over: Duration) -> (f64, f64) {
            let rates = self.senders.iter().map(|s| s.came_bytes as f64);
            let (sum, squares) = rates.fold((0.0, 0.0), |(sum, squares), rate| {
                (sum + rate, squares + rate * rate)
            });
            let jain = sum * sum / (squares * self.senders.len() as f64);
            (sum * 8e-6 / over.as_secs_f64(), jain)
        }

        fn mean_wait(&self) -> Duration {
            self.waits.1 / self.waits.2.max(1)
        }
    }

    const NEAR: Duration = Duration::from_millis(2);

    fn seconds(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn senders_share_the_far_line_and_little_waits_there() {
        for (count, wait_max) in [(1, 1.5), (2, 1.5), (10, 1.5), (100, 6.0)] {
            let mut line = Line::new((0..count).map(|_| NEAR));
            line.run(seconds(1.5));
            line.run(seconds(3.5));
            let (mbps, jain) = line.shares(Duration::from_secs(2));
            let wait = line.mean_wait().as_secs_f64() * 1e3;
            assert!(mbps >= 0.97 * MBPS, "{count}: {mbps}");
            assert!(jain >= 0.98, "{count}: {jain}");
            assert!(wait <= wait_max, "{count}: {wait} ms");
        }
    }

    #[test]
    fn the_window_of_one_far_away_grows_as_fast_as_it_would() {
        let mut line = Line::new([Duration::from_millis(50)]);
        line.run(seconds(2.0));
        line.run(seconds(4.0));
        let (mbps, _) = line.shares(Duration::from_secs(2));
        // The receiver's own window is the bound.
        let own = f64::from(OWN_WINDOW_BYTES) * 8e-6 / 0.05;
        assert!(mbps >= 0.95 * own.min(MBPS), "{mbps}");
    }

    #[test]
    fn the_least_round_trip_is_found_again() {
        let mut line = Line::new((0..10).map(|_| NEAR));
        // It was found when nobody sent; and from then on all sent each time.
        line.run(seconds(31.0));
        line.run(seconds(33.0));
        let (mbps, jain) = line.shares(Duration::from_secs(2));
        let wait = line.mean_wait();
        assert!(mbps >= 0.97 * MBPS && jain >= 0.98, "{mbps} {jain}");
        assert!(wait <= Duration::from_millis(2), "{wait:?}");
        // The way has become longer.
        for sender in &mut line.senders {
            sender.rtt = 4 * NEAR;
        }
        line.run(seconds(40.0));
        line.run(seconds(42.0));
        let (mbps, jain) = line.shares(Duration::from_secs(2));
        assert!(mbps >= 0.97 * MBPS && jain >= 0.98, "{mbps} {jain}");
    }

    #[test]
    fn who_is_young_or_rests_is_not_held_back() {
        let (mut intake, mut inflow) = (Intake::new(0), Inflow::default());
        let host = Ipv4Addr::LOCALHOST.into();
        intake.has_come(seconds(1.0), &mut inflow, host, 1000, YOUNG_BYTES - 1);
        let shown = intake.window(seconds(1.0), &inflow, host, 1000, 65_000);
        assert_eq!(shown, (65_000, None));
        let mut wide = Intake::new(SHIFT);
        let shown = wide.window(seconds(1.0), &inflow, host, 1000, 65_000);
        assert_eq!(shown, ((WINDOW_BYTES_YOUNG >> SHIFT) as u16, None));
        intake.has_come(seconds(1.1), &mut inflow, host, 2000, 1000);
        assert!(intake.bulk.is_some());
        intake.has_come(seconds(2.1), &mut inflow, host, 3000, 1000);
        assert!(intake.bulk.is_none());
    }

    #[test]
    fn hosts_that_are_remembered_are_bounded() {
        let mut inflow = Inflow::default();
        for n in 0..=HOSTS_MAX as u32 {
            inflow.measured(seconds(1.0), Ipv4Addr::from_bits(n).into(), NEAR);
        }
        assert_eq!(inflow.hosts.len(), HOSTS_MAX);
        assert!(inflow.hosts.len() * size_of::<(IpAddr, Least)>() < 1 << 20);
        inflow.measured(seconds(60.0), Ipv4Addr::LOCALHOST.into(), NEAR);
        assert_eq!(inflow.hosts.len(), 1);
    }
}
