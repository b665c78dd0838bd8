//! What goes on while another gateway takes over.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::asked::Asked;
use super::fetch::greet_once;
use super::say_ready;
use super::server::Told;
use super::streams::send_steady;
use crate::pulse::Pulses;
use crate::timeline::{Content, Sent, Timeline, take};
use crate::transport::Stream;
use tabane_lab::monotonic_ns;

/// Rate of a stream, Mb/s.
pub const STEADY_MBIT: u32 = 200;
/// Connections that talk …
pub const TALKERS: usize = 20;
/// … so often …
pub const WORD_EVERY: Duration = Duration::from_millis(5);
/// … so many bytes.
pub const WORD_BYTES: usize = 64;
/// New connections are begun so often …
const KNOCK_EVERY: Duration = Duration::from_millis(10);
/// … and each is waited for so long.
const KNOCK_MAX: Duration = Duration::from_secs(1);
/// The end of a stream reaches the server sooner.
const TELL_MAX: Duration = Duration::from_secs(3);

/// A connection that talked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Talk {
    /// When its words had come back.
    pub echoes: Pulses,
    /// Another word came back than was sent.
    pub is_wrong: bool,
    /// Why it broke.
    pub error: Option<String>,
}

/// How it was borne.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Borne {
    /// The stream that was got, as far as it came, and what the server sent of it.
    pub down: (Timeline, Sent),
    /// The stream that was given, likewise.
    pub up: (Timeline, Sent),
    /// Those that talked.
    pub talks: Vec<Talk>,
}

/// Have streams and words for so long.
///
/// # Errors
/// They cannot begin.
pub fn bear(to: SocketAddr, lasting: Duration) -> io::Result<Borne> {
    let (ms, mbit) = (lasting.as_millis() as u32, STEADY_MBIT);
    let down = Stream::Tcp(Asked::Steady { ms, mbit }.of(to)?);
    let up = Asked::Check.of(to)?;
    let talkers = (0..TALKERS).map(|_| Asked::Echo(WORD_BYTES as u32).of(to));
    let talkers: Vec<_> = talkers.collect::<io::Result<_>>()?;
    let end = Instant::now() + lasting;
    let mut borne = Borne::default();
    thread::scope(|scope| -> io::Result<()> {
        let got = scope.spawn(|| take(&down, Content::Counted));
        let given = scope.spawn(|| send_steady(&up, lasting, mbit));
        let talks: Vec<_> = talkers
            .into_iter()
            .enumerate()
            .map(|(number, stream)| scope.spawn(move || talk(stream, number as u8, end)))
            .collect();
        say_ready()?;
        borne.down.0 = got.join().unwrap_or_default();
        borne.up.1 = given.join().unwrap_or_default();
        let talks = talks.into_iter().map(|talk| talk.join());
        borne.talks = talks.map(Result::unwrap_or_default).collect();
        Ok(())
    })?;
    // The server has the last word of each when its end has come there.
    drop((down, up));
    let told = tell_both(to);
    let unknown = || Some("the server tells nothing of it".to_owned());
    borne.up.0 = told.checked.into_iter().next().unwrap_or_else(|| Timeline {
        error: unknown(),
        ..Timeline::default()
    });
    borne.down.1 = told.sent.into_iter().next().unwrap_or_else(|| Sent {
        error: unknown(),
        ..Sent::default()
    });
    Ok(borne)
}

/// What the server knows of the two streams; of one that it waits for in vain, nothing.
fn tell_both(to: SocketAddr) -> Told {
    let until = Instant::now() + TELL_MAX;
    let mut all = Told::default();
    loop {
        let told = Told::by(to).unwrap_or_default();
        all.checked.extend(told.checked);
        all.sent.extend(told.sent);
        let is_all = !all.checked.is_empty() && !all.sent.is_empty();
        if is_all || Instant::now() > until {
            return all;
        }
        thread::sleep(KNOCK_EVERY);
    }
}

fn talk(mut stream: std::net::TcpStream, number: u8, end: Instant) -> Talk {
    let mut talk = Talk::default();
    let mut count: u64 = 0;
    let mut word = [number; WORD_BYTES];
    let mut back = word;
    while Instant::now() < end {
        count += 1;
        word[..8].copy_from_slice(&count.to_be_bytes());
        let said = stream.write_all(&word);
        if let Err(error) = said.and_then(|()| stream.read_exact(&mut back)) {
            talk.error = Some(error.to_string());
            break;
        }
        talk.is_wrong |= back != word;
        talk.echoes.echoes_ns.push(monotonic_ns());
        thread::sleep(WORD_EVERY);
    }
    talk
}

/// Begin new connections for so long; the result is when they had succeeded.
pub fn knock(to: SocketAddr, lasting: Duration) -> Pulses {
    let end = Instant::now() + lasting;
    let answered = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let mut at = Instant::now();
        while at < end {
            scope.spawn(|| {
                if greet_once(to, KNOCK_MAX).is_ok() {
                    let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
                    answered.push(monotonic_ns());
                }
            });
            at += KNOCK_EVERY;
            thread::sleep(at.saturating_duration_since(Instant::now()));
        }
    });
    let mut echoes_ns = answered.into_inner().unwrap_or_default();
    echoes_ns.sort_unstable();
    Pulses { echoes_ns }
}

#[cfg(test)]
mod tests {
    use super::super::server::serve_in_test;
    use super::*;

    #[test]
    fn what_nothing_happens_to_is_whole() {
        let server = serve_in_test();
        let lasting = Duration::from_millis(100);
        let borne = bear(server, lasting).expect("begins");
        for (timeline, sent) in [&borne.down, &borne.up] {
            assert_eq!((&timeline.error, &sent.error), (&None, &None));
            assert_eq!((timeline.bytes, timeline.wrong_at), (sent.bytes, None));
            assert!(sent.bytes > 0);
        }
        assert_eq!(borne.talks.len(), TALKERS);
        for talk in &borne.talks {
            assert!(!talk.is_wrong && talk.error.is_none());
            assert!(!talk.echoes.echoes_ns.is_empty());
        }
        assert!(!knock(server, lasting).echoes_ns.is_empty());
    }
}
