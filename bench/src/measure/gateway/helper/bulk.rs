//! Streams without end, several at once.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tabane_io::capture::keep_little_unsent;
use tabane_io::process::raise_descriptor_limit;

use super::asked::{Asked, STILL_MAX};
use super::say_ready;
use super::server::Told;
use super::streams::{note, send_endless};
use crate::flow::Flow;
use tabane_lab::monotonic_ns;

const POLL: Duration = Duration::from_millis(2);

/// What came of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Bulk {
    /// As the client saw those it got; one that never began is there, empty.
    pub down: Vec<Flow>,
    /// As the server saw those it got.
    pub up: Vec<Flow>,
    /// When the last of them had begun, nanoseconds of [`monotonic_ns`].
    pub ready_ns: u64,
    /// Whether all had begun by then; else it had been waited for them in vain.
    pub is_whole: bool,
}

impl Bulk {
    /// The rates of streams of it in the `seconds` that begin `omit_s` after the last began, Mb/s. One that never did has 0.
    pub fn rates_mbps(&self, flows: &[Flow], omit_s: f64, seconds: f64) -> Vec<f64> {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let from_ns = self.ready_ns + ns(omit_s);
        let bytes = |flow: &Flow| flow.bytes_within(from_ns, from_ns + ns(seconds)) as f64;
        let mbps = |flow| bytes(flow) * 8.0 / seconds / 1e6;
        flows.iter().map(mbps).collect()
    }
}

/// One stream while it lasts.
#[derive(Default)]
struct Running {
    flow: Mutex<Flow>,
    stream: Mutex<Option<TcpStream>>,
}

impl Running {
    fn hold(&self, stream: &TcpStream) -> io::Result<()> {
        let mut held = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(stream.try_clone()?);
        Ok(())
    }

    fn end(&self) {
        let held = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is broken has ended already.
        let _ = held.as_ref().map(|stream| stream.shutdown(Shutdown::Both));
    }

    fn flow(&self) -> Flow {
        let flow = self.flow.lock().unwrap_or_else(PoisonError::into_inner);
        flow.clone()
    }
}

/// Begin them, say so, and end them so long after.
///
/// # Errors
/// The server does not tell what it got.
pub fn run(to: SocketAddr, lasting: Duration, down: usize, up: usize) -> io::Result<Bulk> {
    raise_descriptor_limit()?;
    let begun = Arc::new(AtomicUsize::new(0));
    let begin = |is_down: bool| {
        let running = Arc::<Running>::default();
        let (own, begun) = (running.clone(), begun.clone());
        // Threads end with their streams, or with the program.
        thread::spawn(move || match is_down {
            true => get(to, &own),
            false => give(to, &own, &begun),
        });
        running
    };
    let got: Vec<_> = (0..down).map(|_| begin(true)).collect();
    let given: Vec<_> = (0..up).map(|_| begin(false)).collect();
    let until = Instant::now() + STILL_MAX;
    let are_all_there = || {
        let mut got = got.iter();
        got.all(|one| one.flow().first_ns.is_some()) && begun.load(Ordering::Relaxed) == up
    };
    while !are_all_there() && Instant::now() < until {
        thread::sleep(POLL);
    }
    let (ready_ns, is_whole) = (monotonic_ns(), are_all_there());
    say_ready()?;
    thread::sleep(lasting);
    let flows = got.iter().map(|one| one.flow()).collect();
    got.iter().chain(&given).for_each(|one| one.end());
    let up = match up {
        0 => Vec::new(),
        _ => Told::by(to)?.taken,
    };
    Ok(Bulk {
        down: flows,
        up,
        ready_ns,
        is_whole,
    })
}

fn get(to: SocketAddr, running: &Running) -> io::Result<()> {
    let stream = Asked::Endless.of(to)?;
    running.hold(&stream)?;
    note(&stream, &running.flow);
    Ok(())
}

fn give(to: SocketAddr, running: &Running, begun: &AtomicUsize) -> io::Result<()> {
    let stream = Asked::Take.of(to)?;
    // What the kernel keeps of a hundred streams would be sent for seconds after their end.
    keep_little_unsent(&stream);
    running.hold(&stream)?;
    let mut is_first = true;
    send_endless(&stream, || {
        begun.fetch_add(
            usize::from(std::mem::take(&mut is_first)),
            Ordering::Relaxed,
        );
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::server::serve_in_test;
    use super::*;

    #[test]
    fn streams_go_each_way() {
        let bulk = run(serve_in_test(), Duration::from_millis(50), 2, 3).expect("runs");
        assert_eq!((bulk.down.len(), bulk.up.len()), (2, 3));
        for flow in bulk.down.iter().chain(&bulk.up) {
            assert!(flow.bytes_within(0, u64::MAX) > 0);
        }
        assert!(bulk.is_whole);
        for rate_mbps in bulk.rates_mbps(&bulk.down, 0.0, 0.05) {
            assert!(rate_mbps > 0.0);
        }
    }
}
