//! Many connections: how fast they are made, one by one and all at once, whether all of them get
//! on, and what they take of memory.

use std::io::{self, Read, Write};
use std::thread;
use std::time::Instant;

use clap::Args;
use serde::{Deserialize, Serialize};
use tabane_io::process::raise_descriptor_limit;

use super::figures::Samples;
use super::helper::PORT;
use super::machine::resident_bytes;
use super::transport::{End, Listener, Stream};

/// What is said on each connection, and answered, once a round.
const MESSAGE_BYTES: usize = 1024;
/// How often.
const ROUNDS: usize = 3;

/// How many connections, and how; both ends are told the same.
#[derive(Debug, Clone, Copy, Args)]
pub struct Load {
    /// So many, each closed before the next is made
    #[arg(long, default_value_t = 0)]
    one_by_one: usize,
    /// Then so many by as many threads at once
    #[arg(long, default_value_t = 0)]
    at_once: usize,
    /// Then so many that are open together, with words on each
    #[arg(long, default_value_t = 0)]
    open: usize,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Connected {
    /// How long each took that was made by itself, µs.
    pub each_us: Samples,
    /// From the first to the last of those at once, ms.
    pub at_once_ms: f64,
    /// How many of those open together were answered in every round.
    pub answered: usize,
    /// What this process has in memory more than before they were open, MB.
    pub memory_mb: f64,
}

/// The end that connects.
///
/// # Errors
/// A connection fails, or the other end says something wrong.
pub fn connect(end: &End, to: &str, load: &Load) -> io::Result<Connected> {
    raise_descriptor_limit()?;
    let mut connected = Connected::default();
    // The first one waits until the other end is there, and meets cold caches.
    drop(end.connect(to, PORT)?);
    for _ in 0..load.one_by_one {
        let begin = Instant::now();
        let stream = end.connect(to, PORT)?;
        connected
            .each_us
            .0
            .push(begin.elapsed().as_secs_f64() * 1e6);
        drop(stream);
    }
    let begin = Instant::now();
    thread::scope(|scope| {
        let connect = || scope.spawn(|| end.connect(to, PORT));
        let threads: Vec<_> = (0..load.at_once).map(|_| connect()).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|stream| stream.map_err(|_| io::Error::other("a panic"))?)
            .collect::<io::Result<Vec<_>>>()
    })?;
    connected.at_once_ms = begin.elapsed().as_secs_f64() * 1e3;
    let before_mb = resident_mb()?;
    let streams = (0..load.open).map(|_| end.connect(to, PORT));
    let streams: Vec<_> = streams.collect::<io::Result<_>>()?;
    for round in 0..ROUNDS {
        let said = [round as u8; MESSAGE_BYTES];
        for mut stream in &streams {
            stream.write_all(&said)?;
        }
        connected.answered = 0;
        for mut stream in &streams {
            let mut answer = [0; MESSAGE_BYTES];
            stream.read_exact(&mut answer)?;
            connected.answered += usize::from(answer == said);
        }
    }
    connected.memory_mb = resident_mb()? - before_mb;
    Ok(connected)
}

/// The end that accepts.
///
/// # Errors
/// A connection fails.
pub fn accept(listener: &Listener, load: &Load) -> io::Result<Connected> {
    raise_descriptor_limit()?;
    for _ in 0..1 + load.one_by_one {
        drop(listener.accept()?);
    }
    let take = |count: usize| -> io::Result<Vec<Stream>> {
        (0..count).map(|_| listener.accept()).collect()
    };
    drop(take(load.at_once)?);
    let before_mb = resident_mb()?;
    let streams = take(load.open)?;
    let mut answered = 0;
    for _ in 0..ROUNDS {
        answered = 0;
        for mut stream in &streams {
            let mut said = [0; MESSAGE_BYTES];
            stream.read_exact(&mut said)?;
            stream.write_all(&said)?;
            answered += 1;
        }
    }
    let memory_mb = resident_mb()? - before_mb;
    // The other end closes first: an answer that is under way must not be cut off.
    for mut stream in &streams {
        let _ = stream.read(&mut [0]);
    }
    Ok(Connected {
        answered,
        memory_mb,
        ..Connected::default()
    })
}

/// What this process has in memory.
fn resident_mb() -> io::Result<f64> {
    let bytes = resident_bytes(std::process::id()).map_err(io::Error::other)?;
    Ok(bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn all_are_answered() {
        let load = Load {
            one_by_one: 5,
            at_once: 20,
            open: 30,
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("is bound").to_string();
        let far = thread::spawn(move || accept(&Listener::Tcp(listener), &load));
        let near = connect(&End::Tcp, &address, &load).expect("connects");
        let far = far.join().expect("ends").expect("accepts");
        assert_eq!((near.answered, far.answered), (30, 30));
        assert_eq!(near.each_us.0.len(), 5);
    }
}
