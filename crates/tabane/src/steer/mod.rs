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
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Child;

use serde::{Deserialize, Serialize};
use tabane_io::poll::Poller;

use crate::companion::Companion;
use crate::status::MptcpStatus;

pub use keeper::keep;
pub use kernel::{MISSING, SWITCHED_OFF};
pub use plan::{PathPicture, PeerPicture, Picture};

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
    keeper: Companion,
    /// What the keeper was told last.
    last: Picture,
    /// The keeper's last report.
    pub report: Report,
}

impl Steering {
    /// Starts a keeper.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn start() -> io::Result<Steering> {
        Ok(Steering {
            keeper: Companion::start("keeper")?,
            last: Picture::default(),
            report: Report::default(),
        })
    }

    /// The links are like this now.
    pub fn draw(&mut self, picture: Picture) {
        if picture != self.last {
            self.keeper.tell(&picture);
            self.last = picture;
        }
        self.push();
    }

    /// Sends what waits, as far as it is taken.
    pub fn push(&mut self) {
        self.keeper.push();
    }

    /// Takes in the keeper's reports. Returns lines for the log.
    ///
    /// # Errors
    /// The keeper is gone.
    pub fn ready(&mut self, poller: &Poller) -> Result<Vec<String>, Loss> {
        let mut said = Vec::new();
        let (lines, is_there) = self.keeper.hear(poller);
        for line in lines {
            if let Ok(report) = serde_json::from_slice::<Report>(&line) {
                said.extend(report.said.iter().cloned());
                self.report = report;
            }
        }
        match &self.report.failed {
            Some(why) => Err(Loss::Failed(why.clone())),
            None if is_there => Ok(said),
            None => Err(Loss::Ended),
        }
    }

    /// Whether there are connections to the peer of this name.
    pub fn serves(&self, peer: &str) -> bool {
        self.report.connections.get(peer).is_some_and(|n| *n > 0)
    }

    /// Makes the keeper restore as much as possible, and waits for that. Returns the keeper, which
    /// may go on for connections that need the rest.
    pub fn stop(self) -> Child {
        self.keeper.stop().0
    }
}

impl AsFd for Steering {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.keeper.as_fd()
    }
}
