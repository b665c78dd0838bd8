//! Runs many seeds on all cores and reports the ones that fail.

use crate::{Options, Outcome, Schedule, Size, mix, run};
use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the watchdog looks.
const LOOK: Duration = Duration::from_millis(100);
/// A run that takes 300 s in real time hangs: the watchdog gives it up, and with it the
/// process, since a thread cannot be ended. Looks are counted and not seconds: a process
/// that was stopped, or that others kept from their processor, does not hang.
const HANGS_AFTER_LOOKS: u32 = 3000;

/// What many runs came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs in which nothing was wrong.
    pub passed: u64,
    /// Seeds of the others, and what was wrong.
    pub failed: Vec<(u64, String)>,
    /// Virtual nanoseconds of all runs together.
    pub virtual_ns: u128,
    /// Datagrams that nodes sent.
    pub datagrams: u64,
    /// Events that happened.
    pub steps: u64,
    /// Of what happened in all of them: the same seeds and the same code have the same.
    pub digest: u64,
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs one schedule; a panic is a failure like any other.
///
/// # Errors
/// What was wrong.
pub fn run_one(schedule: &Schedule, options: &Options) -> Result<Outcome, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| run(schedule, options)));
    match ran {
        Ok(outcome) => match outcome.violation {
            Some(violation) => Err(violation.to_string()),
            None => Ok(outcome),
        },
        Err(_) => Err(format!("panic: {}", LAST_PANIC.take())),
    }
}

/// How a schedule is looked at again.
pub fn how_to_replay(seed: u64, size: Size) -> String {
    format!("replay: sim replay {seed} --trace{size}")
}

/// Keeps the message of a panic instead of printing it.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|info| {
        LAST_PANIC.set(info.to_string().replace('\n', " "));
    }));
}

/// Runs the schedules of this size of all seeds of a range on `threads` threads. `on_failure` is called for each
/// that fails, as soon as it does; `on_progress` from time to time, with how many
/// have run.
pub fn run_seeds(
    seeds: Range<u64>,
    threads: usize,
    size: Size,
    on_failure: impl Fn(u64, &str) + Sync,
    on_progress: impl Fn(u64),
) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::default());
    let busy: Vec<Mutex<Option<Busy>>> = (0..threads).map(|_| Mutex::new(None)).collect();
    let work = |slot: &Mutex<Option<Busy>>| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            *slot.lock().expect("no panic while locked") = Some(Busy { seed, looks: 0 });
            let result = run_one(&Schedule::draw_sized(seed, size), &Options::default());
            if let Err(what) = &result {
                on_failure(seed, what);
            }
            let mut tally = tally.lock().expect("no panic while locked");
            tally.count(seed, result);
        }
        *slot.lock().expect("no panic while locked") = None;
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = busy.iter().map(|slot| scope.spawn(|| work(slot))).collect();
        let mut looks = 0u32;
        while workers.iter().any(|w| !w.is_finished()) {
            std::thread::sleep(LOOK);
            watch(&busy, size);
            looks += 1;
            if looks.is_multiple_of(50) {
                let ran = next.load(Ordering::Relaxed).min(seeds.end) - seeds.start;
                on_progress(ran.saturating_sub(threads as u64));
            }
        }
    });
    let mut tally = tally.into_inner().expect("no panic while locked");
    tally.failed.sort();
    tally
}

/// Does the same with each of `items` on `threads` threads; what came of each, in their order.
pub fn share_out<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { break };
                    let result = work(item);
                    let mut results = results.lock().expect("no panic while locked");
                    results.push((i, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no panic while locked");
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The run that a thread is at.
struct Busy {
    seed: u64,
    /// How often the watchdog has seen it.
    looks: u32,
}

fn watch(busy: &[Mutex<Option<Busy>>], size: Size) {
    for slot in busy {
        let mut slot = slot.lock().expect("no panic while locked");
        let Some(Busy { seed, looks }) = slot.as_mut() else {
            continue;
        };
        *looks += 1;
        if *looks > HANGS_AFTER_LOOKS {
            let waited = LOOK * HANGS_AFTER_LOOKS;
            println!(
                "seed {seed} hangs: {waited:?} and no end. {}",
                how_to_replay(*seed, size)
            );
            std::process::exit(1);
        }
    }
}

impl Tally {
    fn count(&mut self, seed: u64, result: Result<Outcome, String>) {
        match result {
            Ok(outcome) => {
                self.passed += 1;
                self.virtual_ns += u128::from(outcome.ended_at);
                self.datagrams += outcome.network.sent;
                self.steps += outcome.steps;
                // Whatever the order in which they ended.
                self.digest ^= mix(seed ^ outcome.digest);
            }
            Err(what) => self.failed.push((seed, what)),
        }
    }
}
