//! Those who only want to be served: what each of them has to wait, and who is not served.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tabane_io::process::raise_descriptor_limit;

use super::fetch::greet_once;
use super::say_ready;

/// Who visits has so much patience.
const VISIT_MAX: Duration = Duration::from_secs(3);
/// A word is said so often, and its echo is waited for so long.
const WORD_EVERY: Duration = Duration::from_millis(5);
const ECHO_MAX: Duration = Duration::from_secs(1);
/// So often it is looked for answers.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// What became of those who asked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Served {
    /// How long each that was served waited, ms.
    pub each_ms: Vec<f64>,
    /// Those who were not.
    pub failed: usize,
    /// How long all of it took, s.
    pub took_s: f64,
}

impl Served {
    /// Served in a second.
    pub fn per_s(&self) -> f64 {
        self.each_ms.len() as f64 / self.took_s
    }

    /// Of a hundred who asked, how many were not.
    pub fn failed_percent(&self) -> f64 {
        let all = self.each_ms.len() + self.failed;
        self.failed as f64 * 100.0 / all as f64
    }

    pub(super) fn note(&mut self, since: Instant, result: io::Result<()>) {
        match result {
            Ok(()) => self.each_ms.push(since.elapsed().as_secs_f64() * 1e3),
            Err(_) => self.failed += 1,
        }
    }
}

/// Connect, have a byte echoed, close: again and again, so many at once.
pub fn visit(to: SocketAddr, lasting: Duration, at_once: usize) -> Served {
    let (begin, all) = (Instant::now(), Mutex::<Served>::default());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while begin.elapsed() < lasting {
                    let since = Instant::now();
                    let greeted = greet_once(to, VISIT_MAX);
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    all.note(since, greeted);
                }
            });
        }
    });
    let mut served = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    served.took_s = begin.elapsed().as_secs_f64();
    served
}

/// Say datagrams and await the echo of each.
///
/// # Errors
/// There is no socket.
pub fn say_words(to: SocketAddr, lasting: Duration) -> io::Result<Served> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(ECHO_MAX))?;
    let (begin, mut served) = (Instant::now(), Served::default());
    let mut count = 0_u64;
    while begin.elapsed() < lasting {
        count += 1;
        let (since, word) = (Instant::now(), count.to_be_bytes());
        let mut back = [0; 8];
        let mut echoed = socket.send(&word).map(drop);
        // An echo that came too late is of a word before.
        while echoed.is_ok() && back != word {
            echoed = socket.recv(&mut back).map(drop);
        }
        served.note(since, echoed);
        thread::sleep(WORD_EVERY);
    }
    served.took_s = begin.elapsed().as_secs_f64();
    Ok(served)
}

/// Have so many clients, each with a port of its own, say one datagram each, so many a second.
///
/// # Errors
/// There are not so many sockets.
pub fn ask_once(to: SocketAddr, count: usize, per_s: u32) -> io::Result<Served> {
    raise_descriptor_limit()?;
    let client = |_| -> io::Result<UdpSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    let clients: Vec<_> = (0..count).map(client).collect::<io::Result<_>>()?;
    say_ready()?;
    let (begin, mut served) = (Instant::now(), Served::default());
    let mut waiting: Vec<(usize, Instant)> = Vec::new();
    let mut next = 0;
    while next < count || !waiting.is_empty() {
        let due = (begin.elapsed().as_secs_f64() * f64::from(per_s)) as usize;
        while next < due.min(count) {
            // What is not sent is not answered.
            let _ = clients[next].send(&(next as u64).to_be_bytes());
            waiting.push((next, Instant::now()));
            next += 1;
        }
        waiting.retain(|(client, since)| {
            let mut back = [0; 8];
            let heard = clients[*client].recv(&mut back);
            let heard = heard.map(|_| back == (*client as u64).to_be_bytes());
            match heard {
                Ok(true) => served.note(*since, Ok(())),
                _ if since.elapsed() > ECHO_MAX => {
                    served.note(*since, Err(ErrorKind::TimedOut.into()));
                }
                _ => return true,
            }
            false
        });
        thread::sleep(LOOK_EVERY);
    }
    served.took_s = begin.elapsed().as_secs_f64();
    Ok(served)
}

#[cfg(test)]
mod tests {
    use super::super::server::{echo_datagrams, serve_in_test};
    use super::*;

    #[test]
    fn who_is_served_is_counted() {
        let lasting = Duration::from_millis(20);
        let visits = visit(serve_in_test(), lasting, 2);
        assert!(visits.failed == 0 && visits.per_s() > 0.0);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let to = socket.local_addr().expect("is bound");
        thread::spawn(move || echo_datagrams(&socket));
        let words = say_words(to, lasting).expect("says");
        assert!(words.failed == 0 && !words.each_ms.is_empty());
        let asked = ask_once(to, 50, 10_000).expect("asks");
        assert_eq!((asked.each_ms.len(), asked.failed), (50, 0));
    }

    #[test]
    fn who_is_not_served_is_counted_too() {
        let nobody = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let to = nobody.local_addr().expect("is bound");
        let asked = ask_once(to, 3, 1000).expect("asks");
        assert_eq!((asked.each_ms.len(), asked.failed), (0, 3));
        assert!((asked.failed_percent() - 100.0).abs() < 1e-9);
    }
}
