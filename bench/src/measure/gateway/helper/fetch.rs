//! What is over soon: transfers, greetings, words.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::asked::Asked;
use crate::pingpong::{Latency, ping};
use crate::transport::Stream;

/// Of a usual page.
pub const BYTES: u32 = 100_000;

/// Transfers one after the other.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Fetched {
    /// How long each took, connecting included, ms.
    pub each_ms: Vec<f64>,
    /// How many failed; these count as having taken what they did.
    pub failed: usize,
}

/// Fetch so many bytes again and again, for so long.
pub fn fetch(to: SocketAddr, lasting: Duration, bytes: u32) -> Fetched {
    let mut fetched = Fetched::default();
    let end = Instant::now() + lasting;
    let mut buffer = vec![0; bytes as usize];
    loop {
        let begin = Instant::now();
        let asked = Asked::Bytes(bytes).of(to);
        let got = asked.and_then(|mut stream| stream.read_exact(&mut buffer));
        fetched.each_ms.push(begin.elapsed().as_secs_f64() * 1e3);
        fetched.failed += usize::from(got.is_err());
        if Instant::now() >= end {
            return fetched;
        }
    }
}

/// Half round trips of messages on one connection.
///
/// # Errors
/// It breaks.
pub fn talk(to: SocketAddr, lasting: Duration, bytes: u32) -> io::Result<Latency> {
    let stream = Stream::Tcp(Asked::Echo(bytes).of(to)?);
    ping(&stream, bytes as usize, lasting)
}

/// Connect, have a byte echoed, close.
pub fn greet_once(to: SocketAddr, at_most: Duration) -> io::Result<()> {
    let mut stream = Asked::Echo(1).within(to, at_most)?;
    stream.write_all(&[7])?;
    stream.read_exact(&mut [0])
}

/// How many greetings end well in a second, so many at once.
///
/// # Errors
/// One fails.
pub fn greet(to: SocketAddr, lasting: Duration, at_once: usize) -> io::Result<f64> {
    let begin = Instant::now();
    let greet = || -> io::Result<usize> {
        let mut count = 0;
        while begin.elapsed() < lasting {
            greet_once(to, super::asked::STILL_MAX)?;
            count += 1;
        }
        Ok(count)
    };
    let count: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(greet)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|count| count.map_err(|_| io::Error::other("a panic"))?)
            .sum::<io::Result<usize>>()
    })?;
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::server::serve_in_test;
    use super::*;

    #[test]
    fn transfers_and_greetings_end() {
        let server = serve_in_test();
        let fetched = fetch(server, Duration::ZERO, BYTES);
        assert_eq!((fetched.each_ms.len(), fetched.failed), (1, 0));
        let lasting = Duration::from_millis(20);
        assert!(greet(server, lasting, 3).expect("greets") > 0.0);
        assert!(talk(server, lasting, 4).expect("talks").count > 0);
    }
}
