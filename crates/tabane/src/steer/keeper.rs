//! `tabane keeper`: the process that steers. The daemon tells it the state of the links; when the
//! daemon is gone, however it ended, it restores what it found and ends.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tabane_io::failure::says_nothing;
use tabane_io::signals::{Signal, Signals};
use tabane_io::sockets::{Audience, Listening, Sockets};

use super::kernel::Kernel;
use super::{Picture, Report};
use crate::exit_codes;

/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often routes are looked at: others may remove them, or have been in the way.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// Interval of checking whether the last endpoint can go.
const LINGER_EVERY: Duration = Duration::from_millis(200);
/// Name of a lingering keeper's socket among its daemon's sockets.
const NAME: &str = "keeper";
/// How long the predecessor has to go.
const SUCCESSION_MAX: Duration = Duration::from_secs(2);

/// Is the keeper of the daemon at the other end of standard input.
pub fn keep() -> u8 {
    // Stopping a service signals all its processes: this one must outlive the daemon.
    match (
        Signals::with_abort(),
        io::stdin().as_fd().try_clone_to_owned(),
    ) {
        (Ok(signals), Ok(fd)) => serve(&UnixStream::from(fd), Told::new(signals)),
        _ => exit_codes::FAILURE,
    }
}

fn serve(daemon: &UnixStream, mut told: Told) -> u8 {
    let heir = succeed();
    let mut kernel = match Kernel::open() {
        Ok(kernel) => kernel,
        Err(why) => return fail(daemon, why),
    };
    let mut reader = BufReader::new(daemon);
    let mut line = Vec::new();
    let (mut last, mut report) = (None, Report::default());
    let mut has_picture = false;
    let (mut next, mut renew_at) = (Instant::now(), Instant::now() + RENEW_EVERY);
    // A daemon that missed its watchdog may take long to go.
    while !told.is_to_end_at_once() {
        match read_picture(&mut reader, &mut line, next) {
            Ok(Some(picture)) => {
                if let Err(why) = kernel.set_picture(&picture) {
                    kernel.put_back();
                    return fail(daemon, why);
                }
                has_picture = true;
            }
            Ok(None) => {}
            // It can be heard later.
            Err(error) if says_nothing(&error) => std::thread::sleep(LOOK_EVERY),
            Err(_) => break,
        }
        if Instant::now() >= next {
            // If they cannot be listed, the former ones are assumed to exist.
            let connections = kernel.look();
            report.connections = connections.unwrap_or(report.connections);
            next = Instant::now() + LOOK_EVERY;
        }
        if Instant::now() >= renew_at {
            kernel.renew();
            renew_at = Instant::now() + RENEW_EVERY;
        }
        report.status.clone_from(&kernel.status);
        report.said.extend(kernel.take_said());
        // Whether anything can be steered is seen with the first picture.
        if !has_picture || last.as_ref() == Some(&report) {
            continue;
        }
        match say(daemon, &report) {
            Ok(()) => {
                report.said.clear();
                last = Some(report.clone());
            }
            // It is sent with the next report.
            Err(error) if says_nothing(&error) => std::thread::sleep(LOOK_EVERY),
            Err(_) => break,
        }
    }
    let mut is_needed = kernel.put_back();
    let _ = daemon.shutdown(std::net::Shutdown::Both);
    let is_succeeded = || {
        heir.as_ref()
            .is_some_and(|heir| heir.listener.accept().is_ok())
    };
    // The service manager waits for all processes: leave the rest to the next daemon.
    while is_needed && !is_succeeded() && !told.is_to_end() {
        std::thread::sleep(LINGER_EVERY);
        is_needed = kernel.withdraw_all();
    }
    exit_codes::OK
}

/// What signals have told.
struct Told {
    signals: Signals,
    end: bool,
    at_once: bool,
}

impl Told {
    fn new(signals: Signals) -> Told {
        Told {
            signals,
            end: false,
            at_once: false,
        }
    }

    /// To end, now or before.
    fn is_to_end(&mut self) -> bool {
        while let Ok(Some(signal)) = self.signals.read() {
            self.end |= signal != Signal::Hangup;
            self.at_once |= signal == Signal::Abort;
        }
        self.end
    }

    /// And not to wait for the daemon to be gone.
    fn is_to_end_at_once(&mut self) -> bool {
        self.is_to_end() && self.at_once
    }
}

fn fail(daemon: &UnixStream, why: String) -> u8 {
    let failed = Some(why);
    let report = Report {
        failed,
        ..Report::default()
    };
    let _ = say(daemon, &report);
    // Unread data at the end would make the daemon read an error instead of the reason.
    let _ = daemon.set_read_timeout(Some(SUCCESSION_MAX));
    let _ = io::copy(&mut &*daemon, &mut io::sink());
    exit_codes::FAILURE
}

fn say(mut daemon: &UnixStream, report: &Report) -> io::Result<()> {
    // One that was cut off before ends here.
    let mut line = vec![b'\n'];
    line.extend(serde_json::to_vec(report)?);
    line.push(b'\n');
    daemon.write_all(&line)
}

/// The newest picture, if one comes until then.
///
/// # Errors
/// The daemon is gone.
fn read_picture(
    reader: &mut BufReader<&UnixStream>,
    line: &mut Vec<u8>,
    until: Instant,
) -> io::Result<Option<Picture>> {
    loop {
        let wait = until.saturating_duration_since(Instant::now());
        let wait = wait.max(Duration::from_millis(1));
        reader.get_ref().set_read_timeout(Some(wait))?;
        match reader.read_until(b'\n', line) {
            Ok(_) if line.last() == Some(&b'\n') => {}
            Ok(_) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // A newer one makes this one void.
        if !reader.buffer().contains(&b'\n') {
            let picture = serde_json::from_slice(line)?;
            line.clear();
            return Ok(Some(picture));
        }
        line.clear();
    }
}

/// Ends a predecessor that waits for connections to end: its endpoints are this keeper's now.
fn succeed() -> Option<Listening> {
    let sockets = Sockets::of(Audience::Everybody);
    let until = Instant::now() + SUCCESSION_MAX;
    loop {
        match sockets.listen(NAME) {
            Ok(listening) => return Some(listening),
            Err(_) if Instant::now() > until => return None,
            Err(_) => drop(sockets.connect(NAME, |path| UnixStream::connect(path))),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
