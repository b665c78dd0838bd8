//! What runs over `tab0` all the time: unmodified programs, one after another.

mod copy;
mod iperf;
mod ping;
mod redis;

pub(super) use copy::Shells;
pub use ping::Pings;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::Settings;
use super::ledger::{Ledger, unix_ms};
use super::random::Random;
use tabane_lab::LabError;
use tabane_lab::cluster::{Cluster, Program};
use tabane_lab::interrupt;

const POLL: Duration = Duration::from_millis(10);
/// Every transfer is small enough to take seconds on the slowest link there
/// may be; longer than this without an excuse is a hang.
const ENDS_WITHIN: Duration = Duration::from_secs(240);
/// Among programs that compute there is so much less of a processor.
const BUSY_FACTOR: u32 = 5;
/// A TCP connection that met an outage tries again after up to as long as that
/// lasted, perhaps into the next one.
const OUTAGE_FACTOR: u64 = 4;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Go on.
    Running,
    /// Finish what you are at.
    Finishing,
    /// Drop everything.
    Aborted,
}

/// How often something was done, and how it went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Count {
    /// Ended well.
    pub done: u64,
    /// Broken off because a daemon, and with it `tab0`, was away.
    pub excused: u64,
    /// Bytes, or operations, of those that ended well.
    pub amount: u64,
    /// What the longest took, milliseconds.
    pub longest_ms: u64,
}

/// What the traffic shares.
#[derive(Debug)]
pub(super) struct Traffic<'a> {
    pub cluster: &'a Cluster,
    pub ledger: &'a Ledger,
    seed: u64,
    busy: bool,
    phase: AtomicU8,
    attempts: AtomicU64,
    counts: Mutex<BTreeMap<&'static str, Count>>,
    failures: Mutex<Vec<String>>,
    pings: Mutex<Vec<Pings>>,
}

/// One run of a program.
pub(super) struct Attempt {
    /// Counted as.
    pub kind: &'static str,
    /// In messages.
    pub what: String,
    /// The nodes it runs between.
    pub nodes: [usize; 2],
    pub command: Command,
}

impl<'a> Traffic<'a> {
    pub fn new(cluster: &'a Cluster, ledger: &'a Ledger, settings: &Settings) -> Traffic<'a> {
        Traffic {
            cluster,
            ledger,
            seed: settings.seed,
            busy: settings.busy,
            phase: AtomicU8::new(Phase::Running as u8),
            attempts: AtomicU64::new(0),
            counts: Mutex::default(),
            failures: Mutex::default(),
            pings: Mutex::default(),
        }
    }

    /// Start all of it.
    pub fn start<'s, 'e>(&'s self, scope: &'s Scope<'s, 'e>, shells: &'s Shells) {
        let nodes = self.cluster.lab().nodes();
        scope.spawn(move || iperf::keep_running(self));
        for copier in 0..2 {
            scope.spawn(move || shells.keep_copying(self, copier));
        }
        scope.spawn(move || redis::keep_running(self));
        for from in 0..nodes {
            let to = (from + 1) % nodes;
            if nodes > 2 || from == 0 {
                scope.spawn(move || ping::keep_running(self, [from, to]));
            }
        }
        scope.spawn(move || self.keep_asking());
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Relaxed);
    }

    pub fn goes_on(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Running as u8 && !interrupt::asked()
    }

    pub fn is_aborted(&self) -> bool {
        self.phase.load(Ordering::Relaxed) >= Phase::Aborted as u8 || interrupt::asked()
    }

    pub fn counts(&self) -> BTreeMap<&'static str, Count> {
        self.lock(&self.counts).clone()
    }

    pub fn failures(&self) -> Vec<String> {
        self.lock(&self.failures).clone()
    }

    pub fn pings(&self) -> Vec<Pings> {
        self.lock(&self.pings).clone()
    }

    fn lock<'m, T>(&self, mutex: &'m Mutex<T>) -> MutexGuard<'m, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is wrong with tabane.
    pub fn fail(&self, message: String) {
        self.lock(&self.failures)
            .push(format!("{} {message}", unix_ms()));
    }

    /// A node's random choices for one kind of traffic.
    fn random(&self, what: u64) -> Random {
        Random::new(self.seed, 100 + what)
    }

    /// Two nodes, in a random order.
    fn two_nodes(&self, random: &mut Random) -> [usize; 2] {
        let nodes = self.cluster.lab().nodes() as u64;
        let from = random.within(0..=nodes - 1);
        let to = (from + random.within(1..=nodes - 1)) % nodes;
        [from as usize, to as usize]
    }

    /// How long an attempt between two nodes may take.
    fn patience(&self, nodes: [usize; 2], since_ms: u64) -> Duration {
        let parted_ms = self.ledger.parted_ms(nodes, since_ms);
        let ends_within = if self.busy {
            ENDS_WITHIN * BUSY_FACTOR
        } else {
            ENDS_WITHIN
        };
        ends_within + Duration::from_millis(parted_ms * OUTAGE_FACTOR)
    }

    fn done(&self, kind: &'static str, amount: u64, took: Duration) {
        let mut counts = self.lock(&self.counts);
        let count = counts.entry(kind).or_default();
        count.done += 1;
        count.amount += amount;
        count.longest_ms = count.longest_ms.max(took.as_millis() as u64);
    }

    /// Something between two nodes did not end well: an excuse, or a failure.
    fn broken(&self, kind: &'static str, nodes: [usize; 2], since_ms: u64, why: String) {
        if self.is_aborted() {
            return;
        }
        if self.ledger.without_nic(nodes, since_ms) {
            self.lock(&self.counts).entry(kind).or_default().excused += 1;
            // The NIC may still be away: no need to hurry.
            thread::sleep(20 * POLL);
        } else {
            self.fail(why);
        }
    }

    /// Run a program to its end; whether that was a good one. `amount` is what
    /// it moved by what it wrote, if it says so.
    fn attempt(&self, attempt: Attempt, amount: impl FnOnce(&str) -> Option<u64>) -> bool {
        let Attempt {
            kind,
            what,
            nodes,
            mut command,
        } = attempt;
        let (begin, begin_ms) = (Instant::now(), unix_ms());
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        let path = |end: &str| -> PathBuf {
            let name = format!("attempt{number}.{end}");
            self.cluster.directory().join(name)
        };
        let (out, err) = (path("out"), path("err"));
        let run = || -> Result<Option<bool>, LabError> {
            let create = |path| File::create(path).map_err(LabError::io("a file"));
            command.stdin(Stdio::null());
            command.stdout(create(&out)?).stderr(create(&err)?);
            let mut program = Program::start(kind, command)?;
            while !self.is_aborted() {
                if let Some(status) = program.ended()? {
                    return Ok(Some(status.success()));
                }
                if begin.elapsed() > self.patience(nodes, begin_ms) {
                    return Ok(None);
                }
                thread::sleep(POLL);
            }
            Ok(Some(false))
        };
        let ended = run();
        let read = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
        let (said, complained) = (read(&out), read(&err));
        for path in [&out, &err] {
            let _ = fs::remove_file(path);
        }
        let took = begin.elapsed();
        let tell = |how: String| {
            let seconds = took.as_secs_f64();
            format!("{what}: {how} after {seconds:.1} s\n{said}\n{complained}")
        };
        let moved = ended.map(|end| end.map(|well| amount(&said).filter(|_| well)));
        match moved {
            Ok(Some(Some(amount))) => {
                self.done(kind, amount, took);
                return true;
            }
            Ok(Some(None)) => self.broken(kind, nodes, begin_ms, tell("failed".into())),
            Ok(None) => self.fail(tell("no end".into())),
            Err(error) => self.fail(tell(error.to_string())),
        }
        false
    }

    /// `tabane status` on one node after another: control clients, all the time.
    fn keep_asking(&self) {
        const PAUSE: Duration = Duration::from_millis(500);
        for node in (0..self.cluster.lab().nodes()).cycle() {
            if !self.goes_on() {
                return;
            }
            let (begin, begin_ms) = (Instant::now(), unix_ms());
            match self.cluster.status(node) {
                Ok(_) => self.done("status", 1, begin.elapsed()),
                Err(_) if self.is_aborted() => return,
                Err(_) if self.ledger.hinders_clients(node, begin_ms) => {
                    self.lock(&self.counts).entry("status").or_default().excused += 1;
                }
                Err(error) => self.fail(format!("n{node}: {error}")),
            }
            self.pause(PAUSE);
        }
    }

    /// Wait, unless there is nothing more to wait for.
    fn pause(&self, length: Duration) {
        let until = Instant::now() + length;
        while self.goes_on() && Instant::now() < until {
            thread::sleep(POLL);
        }
    }
}
