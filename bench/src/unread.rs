//! Connections that nobody reads, or hardly anybody: writers that write until they cannot.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};
use tabane_io::process::raise_descriptor_limit;

use super::figures::Samples;
use super::helper::PORT;
use super::transport::{End, Listener, Stream};

/// Where those listen that do not read.
pub const UNREAD_PORT: u16 = 7002;
/// What a slow reader reads at once…
const SIP_BYTES: usize = 1024;
/// …and how often: 1 KB/s.
const SIP_EVERY: Duration = Duration::from_secs(1);
/// When nothing more has been taken for so long, all are full.
const STILL: Duration = Duration::from_secs(1);

/// Connections that stand still for as long as this is kept.
pub struct Unread {
    streams: Vec<Arc<Stream>>,
    written: Arc<AtomicU64>,
}

impl Unread {
    /// Opens so many, and writes to all.
    ///
    /// # Errors
    /// One cannot be opened.
    pub fn connect(end: &End, to: &str, count: usize) -> io::Result<Unread> {
        raise_descriptor_limit()?;
        let streams = (0..count).map(|_| end.connect(to, UNREAD_PORT));
        Ok(Unread::writing(streams.collect::<io::Result<_>>()?))
    }

    /// Takes so many, and writes to all.
    ///
    /// # Errors
    /// Those of the listener.
    pub fn accept(listener: &Listener, count: usize) -> io::Result<Unread> {
        raise_descriptor_limit()?;
        let streams = (0..count).map(|_| listener.accept());
        Ok(Unread::writing(streams.collect::<io::Result<_>>()?))
    }

    fn writing(streams: Vec<Stream>) -> Unread {
        streams.iter().for_each(Stream::keep_little);
        let streams: Vec<_> = streams.into_iter().map(Arc::new).collect();
        let written = Arc::new(AtomicU64::new(0));
        for stream in &streams {
            let (stream, written) = (Arc::clone(stream), Arc::clone(&written));
            // It ends with the connection, or with this process.
            thread::spawn(move || {
                let block = [0; 16 * 1024];
                while let Ok(bytes) = (&*stream).write(&block) {
                    written.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            });
        }
        Unread { streams, written }
    }

    /// Waits until none takes anything more. Returns what all took.
    pub fn wait_full(&self) -> u64 {
        let mut before = self.written.load(Ordering::Relaxed);
        loop {
            thread::sleep(STILL);
            let now = self.written.load(Ordering::Relaxed);
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// Reads 1 KB a second of each from now on.
    pub fn sip(&self) {
        let streams = self.streams.clone();
        thread::spawn(move || {
            let mut piece = [0; SIP_BYTES];
            loop {
                for stream in &streams {
                    if (&**stream).read_exact(&mut piece).is_err() {
                        return;
                    }
                }
                thread::sleep(SIP_EVERY);
            }
        });
    }
}

/// What others are to do beside.
#[derive(Debug, Clone, Copy, Args)]
pub struct Load {
    /// Among so many connections of this process that nobody reads, at either end
    #[arg(long, default_value_t = 0)]
    unread: usize,
    /// They are read, at 1 KB/s each, once all are full
    #[arg(long)]
    sip: bool,
    /// So many requests, each on a connection of its own, one after the other
    #[arg(long, default_value_t = 0)]
    requests: usize,
    /// Bulk on one connection meanwhile, for so many milliseconds
    #[arg(long, default_value_t = 0)]
    bulk_ms: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// How long each request took, from its connection to its answer, µs.
    pub each_us: Samples,
    /// Of the bulk, Gb/s.
    pub gbps: f64,
}

/// The first byte of a connection says what it is for.
const REQUEST: u8 = 0;
const BULK: u8 = 1;
const END: u8 = 2;

/// Between two requests, as of one who reads what came.
const PAUSE: Duration = Duration::from_millis(2);

/// The end that connects.
///
/// # Errors
/// A connection fails.
pub fn connect(end: &End, to: &str, load: &Load) -> io::Result<Beside> {
    let unread = Unread::connect(end, to, load.unread)?;
    if load.unread > 0 {
        unread.wait_full();
    }
    if load.sip {
        unread.sip();
    }
    let beside = thread::scope(|scope| {
        let bulk = scope.spawn(|| bulk(end, to, load.bulk_ms));
        let each_us = requests(end, to, load.requests)?;
        let gbps = bulk.join().expect("bulk does not panic")?;
        Ok::<_, io::Error>(Beside { each_us, gbps })
    })?;
    (&end.connect(to, PORT)?).write_all(&[END])?;
    Ok(beside)
}

/// Asks so often; returns how long each took, µs.
fn requests(end: &End, to: &str, count: usize) -> io::Result<Samples> {
    let mut each_us = Samples::default();
    for _ in 0..count {
        thread::sleep(PAUSE);
        let begin = Instant::now();
        let stream = end.connect(to, PORT)?;
        (&stream).write_all(&[REQUEST])?;
        (&stream).read_exact(&mut [0])?;
        each_us.0.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(each_us)
}

/// Writes for so long; returns the rate, Gb/s.
fn bulk(end: &End, to: &str, lasting_ms: u64) -> io::Result<f64> {
    if lasting_ms == 0 {
        return Ok(0.0);
    }
    let stream = end.connect(to, PORT)?;
    (&stream).write_all(&[BULK])?;
    let (begin, block) = (Instant::now(), vec![0; 64 * 1024]);
    let (lasting, mut sent) = (Duration::from_millis(lasting_ms), 0);
    while begin.elapsed() < lasting {
        sent += (&stream).write(&block)?;
    }
    stream.finish()?;
    // It is answered when all of it has come.
    (&stream).read_exact(&mut [0])?;
    Ok(sent as f64 * 8e-9 / begin.elapsed().as_secs_f64())
}

/// The end that accepts.
///
/// # Errors
/// A connection fails.
pub fn accept(end: &End, load: &Load) -> io::Result<()> {
    let listener = end.listen(PORT)?;
    if load.unread > 0 {
        let unread = Unread::accept(&end.listen(UNREAD_PORT)?, load.unread)?;
        unread.wait_full();
        if load.sip {
            unread.sip();
        }
    }
    loop {
        let stream = listener.accept()?;
        let mut what = [0];
        // Somebody who only looked whether this listens says nothing.
        if (&stream).read_exact(&mut what).is_err() {
            continue;
        }
        match what[0] {
            // Requests are answered meanwhile.
            BULK => {
                thread::spawn(move || {
                    let mut block = vec![0; 64 * 1024];
                    while (&stream).read(&mut block)? > 0 {}
                    (&stream).write_all(&[0])
                });
            }
            REQUEST => (&stream).write_all(&[0])?,
            END => return Ok(()),
            _ => {}
        }
    }
}
