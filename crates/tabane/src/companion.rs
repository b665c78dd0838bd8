//! A process beside the daemon that is told something in lines of JSON, answers so, and ends with the daemon, however that ends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use tabane_io::failure::says_nothing;
use tabane_io::poll::Poller;

/// Time for it to restore everything when the daemon stops.
const PUTTING_BACK_MAX: Duration = Duration::from_secs(2);

/// The daemon's end.
#[derive(Debug)]
pub struct Companion {
    child: Child,
    stream: UnixStream,
    /// The message being sent; next, the following one.
    outgoing: Vec<u8>,
    wanted: Option<Vec<u8>>,
    incoming: Vec<u8>,
}

impl Companion {
    /// Starts it: this program with this command, and a socket as its standard input.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn start(command: &str) -> io::Result<Companion> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // This very program, also if another one has been installed in its place.
        let mut child = Command::new("/proc/self/exe");
        child
            .arg(command)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null());
        // Signals to the daemon's process group are not for it.
        child.process_group(0);
        Ok(Companion {
            child: child.spawn()?,
            stream: ours,
            outgoing: Vec::new(),
            wanted: None,
            incoming: Vec::new(),
        })
    }

    /// Tells it this, in place of what it was to be told and nothing was sent of yet.
    pub fn tell(&mut self, message: &impl Serialize) {
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        self.wanted = Some(line);
        self.push();
    }

    /// Sends what waits, as far as it is taken.
    pub fn push(&mut self) {
        loop {
            if self.outgoing.is_empty() {
                let Some(wanted) = self.wanted.take() else {
                    return;
                };
                self.outgoing = wanted;
            }
            match self.stream.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Later; or it is gone, which reading tells.
                Err(_) => return,
            }
        }
    }

    /// The lines that it has said, and whether it is still there.
    pub fn hear(&mut self, poller: &Poller) -> (Vec<Vec<u8>>, bool) {
        let mut buffer = [0; 4096];
        let is_there = loop {
            match (&self.stream).read(&mut buffer) {
                Ok(0) => break false,
                Ok(length) => self.incoming.extend(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if says_nothing(&error) => {
                    poller.stumble();
                    break true;
                }
                // One that was killed while it was being told.
                Err(_) => break false,
            }
        };
        let mut lines = Vec::new();
        while let Some(end) = self.incoming.iter().position(|byte| *byte == b'\n') {
            lines.push(self.incoming.drain(..=end).collect());
        }
        if is_there {
            self.push();
        }
        (lines, is_there)
    }

    /// Makes it restore as much as possible, and waits for that. Returns the process, which
    /// may go on, and what it has said at last.
    pub fn stop(mut self) -> (Child, Vec<u8>) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.set_nonblocking(false);
        let until = Instant::now() + PUTTING_BACK_MAX;
        let mut buffer = [0; 4096];
        let mut last = Vec::new();
        loop {
            let wait = until.saturating_duration_since(Instant::now());
            let _ = self
                .stream
                .set_read_timeout(Some(wait.max(Duration::from_millis(1))));
            match self.stream.read(&mut buffer) {
                Ok(length @ 1..) if !wait.is_zero() => last.extend(&buffer[..length]),
                _ => break,
            }
        }
        let _ = self.child.try_wait();
        (self.child, last)
    }
}

impl AsFd for Companion {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
