//! What very many peers cost a node: those that are only known, and those that are connected and idle.
//!
//! Times are processor time of the hub's node, measured around the calls that a driver makes, the least of several
//! runs: nothing else of this machine is in them. Everything else is exact.

use core::fmt;
use std::time::{Duration, Instant};

use crate::star::{LINKS, Star};
use tabane_proto::LinkId;

/// A message, in bytes.
const MESSAGE: [u8; 64] = [7; 64];
/// Messages of one run, …
const MESSAGES: usize = 500;
/// … and how many runs there are.
const RUNS: usize = 12;
/// A node that everybody is connected to is idle after this.
const SETTLED: Duration = Duration::from_secs(60);
/// What is idle is watched for so long.
const WATCHED: Duration = Duration::from_secs(60);
/// A peer that never answers is asked as rarely as can be after this.
const ABSENT_SETTLED: Duration = Duration::from_secs(600);

/// What was measured. `None`: nobody counts this process's memory.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Peers.
    pub peers: usize,
    /// Bytes of a peer that is known and never was there, …
    pub known_bytes: Option<usize>,
    /// … until the node was ready, …
    pub ready: Duration,
    /// … how many datagrams left at once and in the first second, …
    pub first_datagrams: (u64, u64),
    /// … and what the node does for all of them when they have not been there for long.
    pub absent: Idle,
    /// All start at once: processor time of the node that they all meet, …
    pub start: Duration,
    /// … and when all are up; `None`: some are not after ten seconds.
    pub all_up: Option<Duration>,
    /// Bytes of a bundle that carries nothing.
    pub idle_bytes: Option<usize>,
    /// What the node does for all of them when they carry nothing.
    pub idle: Idle,
    /// A link's socket took nothing for a moment.
    pub blocked: Duration,
    /// The kernel says of a link what it said before, …
    pub same_link: Duration,
    /// … or that it is down, and up again.
    pub other_link: Duration,
    /// One message and its acknowledgement: beside 7 idle peers, to one of all, to another one each time.
    pub message: [Duration; 3],
}

/// What a node does that has nothing to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    /// Part of a processor, 0 to 1.
    pub processor: f64,
    /// Datagrams sent a second.
    pub datagrams: f64,
}

/// Measures it for so many peers. `allocated` says how many bytes this process holds now.
pub fn measure(peers: usize, allocated: Option<fn() -> usize>) -> Figures {
    let mut figures = Figures {
        peers,
        known_bytes: None,
        ready: Duration::ZERO,
        first_datagrams: (0, 0),
        absent: Idle::default(),
        start: Duration::MAX,
        all_up: None,
        idle_bytes: None,
        idle: Idle::default(),
        blocked: Duration::ZERO,
        same_link: Duration::ZERO,
        other_link: Duration::ZERO,
        message: [Duration::ZERO; 3],
    };
    measure_absent(&mut figures, allocated);
    for _ in 0..3 {
        let mut star = Star::new(peers, peers);
        star.run_until_all_are_up(Duration::from_secs(10));
        figures.all_up = (star.up() == peers).then(|| star.age());
        star.run(Duration::from_secs(3).saturating_sub(star.age()));
        figures.start = figures.start.min(star.take_work().time);
    }
    measure_connected(&mut figures, allocated);
    figures.message[0] = message(&mut connected(8), |_| 0);
    figures
}

fn measure_absent(figures: &mut Figures, allocated: Option<fn() -> usize>) {
    let mut star = Star::new(figures.peers, 0);
    let first = star.take_work();
    figures.ready = first.time;
    star.run(Duration::from_secs(1));
    figures.first_datagrams = (first.sent, first.sent + star.take_work().sent);
    star.run(ABSENT_SETTLED);
    star.take_work();
    figures.absent = idle(&mut star);
    figures.known_bytes = hub_bytes(star, figures.peers, allocated);
}

fn measure_connected(figures: &mut Figures, allocated: Option<fn() -> usize>) {
    let mut star = connected(figures.peers);
    figures.idle = idle(&mut star);
    figures.message[1] = message(&mut star, |_| 0);
    figures.message[2] = message(&mut star, |nth| nth * 7919);
    star.run(SETTLED);
    let link = LinkId(0);
    figures.blocked = least(&mut star, |star| {
        star.hub_does(|node, _| node.set_link_blocked(link, true));
        star.hub_does(|node, _| node.set_link_blocked(link, false));
    });
    figures.same_link = least(&mut star, |star| {
        star.hub_does(|node, now| node.handle_link(now, link, true));
    });
    figures.other_link = least(&mut star, |star| {
        star.hub_does(|node, now| node.handle_link(now, link, false));
        star.hub_does(|node, now| node.handle_link(now, link, true));
    });
    star.run(SETTLED);
    figures.idle_bytes = hub_bytes(star, figures.peers, allocated);
}

/// A hub whose spokes are all connected and idle.
pub fn connected(peers: usize) -> Star {
    let mut star = Star::new(peers, peers);
    star.run_until_all_are_up(Duration::from_secs(60));
    star.run(SETTLED);
    star.take_work();
    star
}

/// Bytes that the hub holds for each peer.
pub fn hub_bytes(star: Star, peers: usize, allocated: Option<fn() -> usize>) -> Option<usize> {
    let allocated = allocated?;
    let before = allocated();
    let rest = star.without_hub();
    let bytes = before.saturating_sub(allocated());
    drop(rest);
    Some(bytes / peers)
}

fn idle(star: &mut Star) -> Idle {
    star.take_work();
    star.run(WATCHED);
    let work = star.take_work();
    Idle {
        processor: work.time.as_secs_f64() / WATCHED.as_secs_f64(),
        datagrams: work.sent as f64 / WATCHED.as_secs_f64(),
    }
}

/// The least time that the hub takes for it.
fn least(star: &mut Star, mut act: impl FnMut(&mut Star)) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..RUNS {
        star.take_work();
        act(star);
        least = least.min(star.take_work().time);
        star.run(Duration::from_secs(1));
    }
    least
}

/// The hub's time for one message, from handing it over until nothing of it is left.
fn message(star: &mut Star, to: impl Fn(usize) -> usize) -> Duration {
    let mut least = Duration::MAX;
    for run in 0..RUNS {
        star.take_work();
        for nth in 0..MESSAGES {
            let spoke = star.other(to(run * MESSAGES + nth));
            star.watch(Some(spoke));
            star.message(spoke, &MESSAGE);
            star.run(Duration::from_millis(2));
        }
        least = least.min(star.take_work().time / MESSAGES as u32);
    }
    star.watch(None);
    least
}

/// How long reading the clock takes.
pub fn clock_time() -> Duration {
    let began = Instant::now();
    for _ in 0..1000 {
        core::hint::black_box(Instant::now());
    }
    began.elapsed() / 1000
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = self.peers;
        let bytes = |bytes: Option<usize>| bytes.map_or("not counted".into(), |b| b.to_string());
        let us = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e6);
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        let percent = |idle: Idle| format!("{:.3}", idle.processor * 100.0);
        let rate = |idle: Idle| format!("{:.1}", idle.datagrams);
        let (at_once, in_a_second) = self.first_datagrams;
        let all_up = self.all_up.map_or("over 10,000".into(), ms);
        let ratio = |nth: usize| {
            let of = self.message[nth].as_secs_f64() / self.message[0].as_secs_f64();
            format!("{} ({of:.2} x)", us(self.message[nth]))
        };
        let rows = [
            ("a peer that is known, bytes", bytes(self.known_bytes)),
            ("  all known: ready after, ms", ms(self.ready)),
            (
                "  all absent: first datagrams, at once",
                at_once.to_string(),
            ),
            (
                "  all absent: datagrams in the first second",
                in_a_second.to_string(),
            ),
            ("  all absent: processor, %", percent(self.absent)),
            ("  all absent: datagrams a second", rate(self.absent)),
            (
                "all start at once: processor of the one they meet, ms",
                ms(self.start),
            ),
            ("  until all are up, virtual ms", all_up),
            ("an idle bundle over 2 links, bytes", bytes(self.idle_bytes)),
            ("  all idle: processor, %", percent(self.idle)),
            ("  all idle: datagrams a second", rate(self.idle)),
            ("a link blocked and open again, us", us(self.blocked)),
            ("a link's state told anew, us", us(self.same_link)),
            ("a link down and up again, us", us(self.other_link)),
            ("a message amid 8 peers, us", us(self.message[0])),
            ("  amid all", ratio(1)),
            ("  amid all, to another one each time", ratio(2)),
        ];
        writeln!(f, "{peers} peers, {LINKS} links")?;
        rows.iter()
            .try_for_each(|(what, figure)| writeln!(f, "{what:<58}{figure:>18}"))
    }
}
