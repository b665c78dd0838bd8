//! Streams of a steady rate, and those that are noted as they come.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::flow::Flow;
use crate::timeline::Sent;
use tabane_lab::monotonic_ns;
use tabane_lab::pattern::fill;

const BLOCK_BYTES: usize = 128 * 1024;
/// So often a stream of a steady rate goes on.
const TICK: Duration = Duration::from_millis(2);

/// Send without end: until the other one has had enough.
pub fn send_endless(mut stream: &TcpStream, mut each: impl FnMut()) {
    let block = vec![7; BLOCK_BYTES];
    while stream.write_all(&block).is_ok() {
        each();
    }
}

/// Send at this rate for so long, then wait until the receiver has all of it. What a pause held up is not caught up
/// with.
pub fn send_steady(stream: &TcpStream, lasting: Duration, mbit: u32) -> Sent {
    let mut sent = Sent::default();
    if let Err(error) = steady(stream, lasting, mbit, &mut sent.bytes) {
        sent.error = Some(error.to_string());
    }
    sent
}

fn steady(mut stream: &TcpStream, lasting: Duration, mbit: u32, sent: &mut u64) -> io::Result<()> {
    let tick_us = TICK.as_micros() as usize;
    // A megabit a second is a bit each microsecond.
    let mut block = vec![0; mbit as usize * tick_us / 8];
    let mut at = Instant::now();
    let until = at + lasting;
    while at < until {
        fill(&mut block, *sent);
        stream.write_all(&block)?;
        *sent += block.len() as u64;
        at = (at + TICK).max(Instant::now());
        thread::sleep(at.saturating_duration_since(Instant::now()));
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read(&mut [0]).map(drop)
}

/// Note what comes, until the end.
pub fn note(mut stream: &TcpStream, flow: &Mutex<Flow>) {
    let mut buffer = vec![0; BLOCK_BYTES];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        let mut flow = flow.lock().unwrap_or_else(PoisonError::into_inner);
        flow.note(monotonic_ns(), bytes as u64);
    }
}
