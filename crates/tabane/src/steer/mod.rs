//! Steers the kernel's own Multipath TCP by the liveness of the links (`mptcp = true`).
//!
//! Every connection has a subflow on every link, and keeps it. While a link to a peer has failed, a
//! route leads packets for the peer's address there over another link, and TCP retransmits the
//! losses. When the link is back the route is removed, and each subflow has its own link again. So
//! no subflow is ever ended, which also serves plain TCP, and connections with a single subflow.
//! (Ending the subflows on a failed link, and opening new ones when it returns, is as quick; but
//! Linux 6.18 then delivered wrong bytes at one return in six under bulk.)
//!
//! The daemon draws a [`Picture`] of its links and hands it to a separate process, the
//! [`keeper`](keep), which makes the kernel follow the [plan], and restores everything when the
//! daemon is gone, even if it was killed. The keeper reports which peers have connections: the paths
//! to these are watched as if they were under load.

mod endpoints;
mod keeper;
mod kernel;
mod obstacle;
mod plan;
mod routes;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tabane_io::failure::says_nothing;
use tabane_io::poll::Poller;

use crate::status::MptcpStatus;

pub use keeper::keep;
pub use kernel::{MISSING, SWITCHED_OFF};
pub use plan::{PathPicture, PeerPicture, Picture};

/// Time for the keeper to restore everything when the daemon stops.
const PUTTING_BACK_MAX: Duration = Duration::from_secs(2);

/// The keeper's report; sent when it changes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// How many connections there are to each peer, by its name.
    pub connections: BTreeMap<String, usize>,
    /// Lines for the log.
    pub said: Vec<String>,
    /// For `tabane status`.
    pub status: MptcpStatus,
    /// Why nothing is steered; then it ends.
    pub failed: Option<String>,
}

/// Why a keeper is not there any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Nothing can be steered; in words for people.
    Failed(String),
    /// It was killed, say: another one may do.
    Ended,
}

/// The daemon's end.
#[derive(Debug)]
pub struct Steering {
    keeper: Child,
    stream: UnixStream,
    /// The message being sent; next, the following one.
    outgoing: Vec<u8>,
    wanted: Option<Picture>,
    last: Picture,
    incoming: Vec<u8>,
    /// The keeper's last report.
    pub report: Report,
}

impl Steering {
    /// Starts a keeper.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn start() -> io::Result<Steering> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // This very program, also if another one has been installed in its place.
        let mut keeper = Command::new("/proc/self/exe");
        keeper
            .arg("keeper")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null());
        // Signals to the daemon's process group are not for it.
        keeper.process_group(0);
        Ok(Steering {
            keeper: keeper.spawn()?,
            stream: ours,
            outgoing: Vec::new(),
            wanted: None,
            last: Picture::default(),
            incoming: Vec::new(),
            report: Report::default(),
        })
    }

    /// The links are like this now.
    pub fn draw(&mut self, picture: Picture) {
        if picture != *self.wanted.as_ref().unwrap_or(&self.last) {
            self.wanted = Some(picture);
        }
        self.push();
    }

    /// Sends what waits, as far as it is taken.
    pub fn push(&mut self) {
        loop {
            if self.outgoing.is_empty() {
                let Some(picture) = self.wanted.take() else {
                    return;
                };
                self.outgoing = serde_json::to_vec(&picture).unwrap_or_default();
                self.outgoing.push(b'\n');
                self.last = picture;
            }
            match self.stream.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Later; or it is gone, which reading tells.
                Err(_) => return,
            }
        }
    }

    /// Takes in the keeper's reports. Returns lines for the log.
    ///
    /// # Errors
    /// The keeper is gone.
    pub fn ready(&mut self, poller: &Poller) -> Result<Vec<String>, Loss> {
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match (&self.stream).read(&mut buffer) {
                Ok(0) => return Err(Loss::Ended),
                Ok(length) => self.incoming.extend(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if says_nothing(&error) => {
                    poller.stumble();
                    break;
                }
                // One that was killed while it was being told.
                Err(_) => return Err(Loss::Ended),
            }
            while let Some(end) = self.incoming.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.incoming.drain(..=end).collect();
                if let Ok(report) = serde_json::from_slice::<Report>(&line) {
                    said.extend(report.said.iter().cloned());
                    self.report = report;
                }
            }
            if let Some(why) = &self.report.failed {
                return Err(Loss::Failed(why.clone()));
            }
        }
        self.push();
        Ok(said)
    }

    /// Whether there are connections to the peer of this name.
    pub fn serves(&self, peer: &str) -> bool {
        self.report.connections.get(peer).is_some_and(|n| *n > 0)
    }

    /// Makes the keeper restore as much as possible, and waits for that. Returns the keeper, which
    /// may go on for connections that need the rest.
    pub fn stop(mut self) -> Child {
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.set_nonblocking(false);
        let until = Instant::now() + PUTTING_BACK_MAX;
        let mut buffer = [0; 4096];
        loop {
            let wait = until.saturating_duration_since(Instant::now());
            let _ = self
                .stream
                .set_read_timeout(Some(wait.max(Duration::from_millis(1))));
            match self.stream.read(&mut buffer) {
                Ok(1..) if !wait.is_zero() => {}
                _ => break,
            }
        }
        let _ = self.keeper.try_wait();
        self.keeper
    }
}

impl AsFd for Steering {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
