//! Traces of a peer, for clients of the control socket (`tabane trace`).
//!
//! A trace lasts exactly as long as the client's connection, however that ends.

use tabane_engine::LoopTurn;
use tabane_proto::trace::TraceEvent;
use tabane_proto::{Node, PeerId, Time};
use tabane_qlog::{Form, Header, Writer};

use super::run::Daemon;
use crate::log;
use crate::status::{Caller, TraceReport};
use tabane_io::clock::unix_ms;

/// A client.
struct Listener {
    /// The client's number.
    client: u64,
    peer: PeerId,
    name: String,
    writer: Writer,
    /// Text to be sent now, and the number of events in it.
    text: String,
    events: u64,
    /// Events that the client was not there to read in time, since it was last told.
    left_out: u64,
}

/// All clients.
#[derive(Default)]
pub struct Traces(Vec<Listener>);

impl Daemon {
    /// Begins a trace for a client.
    ///
    /// # Errors
    /// Why not, for people.
    pub(super) fn begin_trace(
        &mut self,
        turn: &mut LoopTurn<'_>,
        (client, caller): (u64, Caller),
        peer: &str,
        qvis: bool,
    ) -> Result<TraceReport, String> {
        if caller == Caller::Anyone {
            let who = "only root, or the user that the daemon runs as, may trace a peer";
            return Err(who.to_owned());
        }
        let id = self.find_peer(peer)?;
        let node = self.cluster.nodes[self.me].name.clone();
        let form = if qvis { Form::Qvis } else { Form::Draft };
        let writer = Writer::new(form, turn.now);
        let (title, mut text) = (format!("{node} to {peer}"), String::new());
        let header = Header {
            title: &title,
            vantage_point: &node,
            group: Some(&title),
            wall_clock_unix_ms: Some(unix_ms()),
        };
        writer.header(&header, &mut text);
        // A later client must get all states as well, so the trace begins anew for all; the earlier clients get what was
        // recorded so far.
        self.tell_traces(turn.now, turn.node);
        turn.node.trace(turn.now, id, false);
        turn.node.trace(turn.now, id, true);
        log::line(format!("{peer} is traced"));
        let peer = peer.to_owned();
        self.traces.0.push(Listener {
            client,
            peer: id,
            name: peer.clone(),
            writer,
            text,
            events: 0,
            left_out: 0,
        });
        Ok(TraceReport { node, peer })
    }

    pub(super) fn find_peer(&self, name: &str) -> Result<PeerId, String> {
        let node_name = |index: usize| self.cluster.nodes[index].name.as_str();
        if name == node_name(self.me) {
            return Err(format!(
                "`{name}` is this node itself: name the peer at the other end"
            ));
        }
        let mut peers = self.peers.iter();
        if let Some((id, _)) = peers.find(|(_, index)| node_name(*index) == name) {
            return Ok(*id);
        }
        let mut names: Vec<&str> = self.peers.iter().map(|(_, i)| node_name(*i)).collect();
        names.sort_unstable();
        Err(match names.as_slice() {
            [] => format!("there is no node `{name}`: this one has no peer"),
            names if names.len() <= NAMED_MAX => {
                format!(
                    "there is no node `{name}`; the peers are {}",
                    names.join(", ")
                )
            }
            _ => format!("there is no node `{name}`; `tabane nodes` lists them"),
        })
    }

    /// Passes new events to the clients, and ends the traces of those who are gone.
    pub(super) fn tell_traces(&mut self, now: Time, node: &mut Node) {
        if self.traces.0.is_empty() {
            return;
        }
        while let Some(traced) = node.poll_trace() {
            let listeners = self.traces.0.iter_mut();
            for listener in listeners.filter(|listener| listener.peer == traced.peer) {
                listener.hear(traced.at, &traced.event);
            }
        }
        let Some(control) = &mut self.control else {
            return;
        };
        let (peers, mut ended) = (&self.peers, Vec::new());
        self.traces.0.retain_mut(|listener| {
            let Some(client) = control.client(listener.client) else {
                ended.push((listener.peer, core::mem::take(&mut listener.name)));
                return false;
            };
            if !peers.iter().any(|(peer, _)| *peer == listener.peer) {
                // It was taken out of the cluster file.
                client.end();
            }
            listener.tell(now, |text| client.add(text.as_bytes()));
            true
        });
        for (peer, name) in ended {
            if !self.traces.0.iter().any(|listener| listener.peer == peer) {
                node.trace(now, peer, false);
                log::line(format!("{name} is no longer traced"));
            }
        }
    }
}

/// The most peers that are named to a client that asks for an unknown one.
const NAMED_MAX: usize = 16;

impl Listener {
    fn hear(&mut self, at: Time, event: &TraceEvent) {
        self.writer.event(at, None, event, &mut self.text);
        self.events += 1;
    }

    /// Sends recorded events; `add` says whether there was room.
    fn tell(&mut self, now: Time, mut add: impl FnMut(&str) -> bool) {
        if self.left_out > 0 && self.events > 0 {
            let mut text = String::new();
            let events = self.left_out;
            let event = TraceEvent::LeftOut { events };
            self.writer.event(now, None, &event, &mut text);
            if add(&text) {
                self.left_out = 0;
            }
        }
        // Adding nothing still sends what waits.
        if self.left_out > 0 || !add(&self.text) {
            self.left_out += self.events;
        }
        self.events = 0;
        self.text.clear();
    }
}
