//! The daemon's side of the nodes' names in `/etc/hosts`.

use core::time::Duration;

use tabane_cluster::{Cluster, NodeIndex};
use tabane_engine::LoopTurn;
use tabane_io::poll::{Interest, Poller};
use tabane_proto::Time;

use super::run::{Daemon, TOKEN_SCRIBE};
use crate::companion::Companion;
use crate::log::{self, Line};
use crate::names::{self, HOSTS, Names, Said};
use crate::status::NodesReport;

/// Many nodes may join at once, and all names are told each time.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The scribe, if there is one.
#[derive(Debug, Default)]
pub struct Naming {
    scribe: Option<Companion>,
    /// The names are not what it was told last; and when it may be told again.
    is_due: bool,
    tell_at: Time,
}

impl Naming {
    /// Starts the scribe if names are wanted, or a killed daemon has left some. Call it before privileges are given
    /// up: the scribe keeps those that it needs.
    pub fn start(poller: &Poller, cluster: &Cluster, me: NodeIndex) -> Naming {
        let mut naming = Naming::default();
        let names = Names::of(&NodesReport::of(cluster, me), cluster.vnic.hosts);
        if !names.entries.is_empty() || names::are_left(&names.mark) {
            naming.begin(poller, &names);
        }
        naming
    }

    fn begin(&mut self, poller: &Poller, names: &Names) {
        let started = Companion::start("scribe").and_then(|scribe| {
            poller.register(&scribe, TOKEN_SCRIBE, Interest::Read)?;
            Ok(scribe)
        });
        match started {
            Ok(mut scribe) => {
                scribe.tell(names);
                self.scribe = Some(scribe);
            }
            Err(error) => log::warn(format!(
                "nothing writes the nodes' names into {HOSTS}: {error}; `tabane reload` tries again"
            )),
        }
    }

    /// The nodes are others.
    pub fn changed(&mut self) {
        self.is_due = true;
    }

    /// Has the names taken away.
    pub fn stop(&mut self, poller: &Poller) {
        if let Some(scribe) = self.scribe.take() {
            let _ = poller.deregister(&scribe);
            let (_, last) = scribe.stop();
            last.split(|byte| *byte == b'\n').for_each(tell);
        }
    }
}

/// Logs what the scribe has said.
fn tell(said: &[u8]) {
    if let Ok(Said { is_warning, text }) = serde_json::from_slice(said) {
        let line = match is_warning {
            true => Line::warning(text),
            false => Line::info(text),
        };
        line.say();
    }
}

impl Daemon {
    /// Tells the scribe the names, if they are others and that is due.
    pub(super) fn tell_names(&mut self, now: Time, poller: &Poller) {
        if let Some(scribe) = &mut self.naming.scribe {
            scribe.push();
        }
        if !self.naming.is_due || now < self.naming.tell_at || !self.is_for_all() {
            return;
        }
        self.naming.is_due = false;
        self.naming.tell_at = now + TELL_EVERY;
        let wanted = self.cluster.vnic.hosts;
        let names = Names::of(&NodesReport::of(&self.cluster, self.me), wanted);
        match &mut self.naming.scribe {
            Some(scribe) => scribe.tell(&names),
            None if !names.entries.is_empty() => self.naming.begin(poller, &names),
            None => {}
        }
    }

    /// The scribe says something.
    pub(super) fn scribe_said(&mut self, turn: &mut LoopTurn<'_>) {
        let Some(scribe) = &mut self.naming.scribe else {
            return;
        };
        let (lines, is_there) = scribe.hear(turn.poller);
        lines.iter().for_each(|line| tell(line));
        if !is_there {
            log::warn(format!(
                "the process that writes the nodes' names into {HOSTS} has ended; `tabane reload` starts another one"
            ));
            self.naming.stop(turn.poller);
        }
    }
}
