//! Programs of a node that want ports of the outside address.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tabane_io::process::raise_descriptor_limit;

use super::others::Served;
use super::say_ready;

/// Ports that one node has and gives back, again and again: so many, from this one.
const CHURNED: u32 = 16_384;
const CHURNED_FIRST: u32 = 20_000;
/// Those that a quiet one has and gives back meanwhile, and how often.
const QUIET: u32 = 1000;
const QUIET_FIRST: u32 = 12_000;
const QUIET_EVERY: Duration = Duration::from_millis(10);
/// Programs of the node that claim at the same time.
const CLAIMERS: usize = 32;
/// The first port that everybody may have.
const UNPRIVILEGED: u32 = 1024;

fn listen(port: u32) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port as u16))
}

/// Listen and close, so many times a second; each port is another one than the one before.
///
/// # Errors
/// Not expected.
pub fn churn(lasting: Duration, per_s: u32) -> io::Result<Served> {
    let (begin, next) = (Instant::now(), AtomicU32::new(0));
    let all = Mutex::<Served>::default();
    say_ready()?;
    thread::scope(|scope| {
        for _ in 0..CLAIMERS {
            scope.spawn(|| {
                while begin.elapsed() < lasting {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let due = begin + Duration::from_secs(1) * place / per_s;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    let since = Instant::now();
                    let listens = listen(CHURNED_FIRST + place % CHURNED).map(drop);
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    all.note(since, listens);
                }
            });
        }
    });
    let mut served = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    served.took_s = begin.elapsed().as_secs_f64();
    Ok(served)
}

/// Listen and close now and then; how long it took to have each port.
pub fn have_ports(lasting: Duration) -> Served {
    let (begin, mut served) = (Instant::now(), Served::default());
    for port in (0..QUIET).cycle() {
        let since = Instant::now();
        served.note(since, listen(QUIET_FIRST + port).map(drop));
        if begin.elapsed() > lasting {
            break;
        }
        thread::sleep(QUIET_EVERY);
    }
    served.took_s = begin.elapsed().as_secs_f64();
    served
}

/// What whoever wants all ports has got.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Grabbed {
    /// Ports it has.
    pub had: usize,
    /// How often it was told that it may have no more.
    pub too_many: usize,
    /// How often something else.
    pub other: usize,
}

/// Claim every port that there is, keep those that are given, and go on asking for the others, so many a second. "ready" is said when no more are given.
///
/// # Errors
/// Not expected.
pub fn grab(lasting: Duration, per_s: u32) -> io::Result<Grabbed> {
    const ENOBUFS: i32 = 105;
    raise_descriptor_limit()?;
    let (begin, next, is_full) = (Instant::now(), AtomicU32::new(0), AtomicBool::new(false));
    let all = Mutex::new((Grabbed::default(), Vec::new()));
    let ports = u32::from(u16::MAX) + 1 - UNPRIVILEGED;
    thread::scope(|scope| {
        for _ in 0..CLAIMERS {
            scope.spawn(|| {
                while begin.elapsed() < lasting {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if is_full.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_secs(1) * CLAIMERS as u32 / per_s);
                    }
                    let result = listen(UNPRIVILEGED + place % ports);
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_last = match result {
                        Ok(listener) => {
                            all.1.push(listener);
                            all.0.had += 1;
                            false
                        }
                        Err(error) if error.raw_os_error() == Some(ENOBUFS) => {
                            all.0.too_many += 1;
                            true
                        }
                        Err(_) => {
                            all.0.other += 1;
                            false
                        }
                    };
                    drop(all);
                    if (is_last || place == ports) && !is_full.swap(true, Ordering::Relaxed) {
                        // Whoever waits for it is gone otherwise.
                        let _ = say_ready();
                    }
                }
            });
        }
    });
    let (grabbed, _) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(grabbed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_had_and_given_back() {
        let lasting = Duration::from_millis(30);
        let churned = churn(lasting, 1000).expect("churns");
        assert!(churned.each_ms.len() > 1);
        assert!(!have_ports(lasting).each_ms.is_empty());
    }
}
