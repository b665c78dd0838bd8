//! Measurements of the bundle to a peer (`tabane bench`): this node's own ([`ours`]), and those that peers ask it to take
//! part in ([`theirs`]). A node has one at a time, of either kind.

mod figures;
mod flows;
mod ours;
mod plan;
mod theirs;

use core::time::Duration;

use tabane_engine::{Engine, LoopTurn};
use tabane_proto::op::OpEvent;
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::conversation::Conversation;
use super::run::Daemon;
use crate::agent::give_up;
use crate::bench::Told;
use crate::bench::words::{CODE_UNWANTED, SECONDS_MAX, SERVICE, is_datagram};
use crate::log;
use crate::status::{BenchBegun, Caller};
use flows::Flows;
use ours::Ours;
use theirs::Theirs;

/// Streams of one peer that have not said yet what they are for, at most; further ones are refused.
const NEWCOMERS_MAX: usize = 4;

/// A measurement that this node has to do with.
#[derive(Debug, Default)]
pub(super) struct Bench {
    ours: Option<Box<Ours>>,
    theirs: Option<Box<Theirs>>,
    newcomers: Vec<Conversation>,
    flows: Flows,
    is_eager: bool,
}

impl Bench {
    /// Something happened to a stream. Returns whether it was one of a measurement.
    pub fn event(&mut self, now: Time, node: &mut Node, peer: PeerId, event: OpEvent) -> bool {
        match event {
            OpEvent::StreamOpened {
                id,
                service: SERVICE,
            } => {
                let of_peer = self.newcomers.iter().filter(|it| it.peer == peer);
                if of_peer.count() < NEWCOMERS_MAX {
                    self.newcomers.push(Conversation::new(peer, id));
                } else {
                    give_up(now, node, peer, id, CODE_UNWANTED);
                }
                true
            }
            OpEvent::Readable(id) => {
                if let Some(ours) = self.ours.as_mut().filter(|ours| ours.has(peer, id)) {
                    ours.hear_echo(now, node, id);
                    return true;
                }
                self.flows.readable(now, node, peer, id) || self.talks_on(peer, id)
            }
            OpEvent::Writable(id) => {
                self.flows.writable(peer, id);
                false
            }
            OpEvent::Reset { id, code } | OpEvent::Stopped { id, code } => {
                self.over(now, node, peer, (id, Some(code)))
            }
            OpEvent::Broken(id) => self.over(now, node, peer, (id, None)),
            _ => false,
        }
    }

    /// Whether lines are said on a stream: they are read in [`Daemon::turn_bench`].
    fn talks_on(&self, peer: PeerId, stream: StreamId) -> bool {
        self.newcomers.iter().any(|it| it.is(peer, stream))
            || self
                .theirs
                .iter()
                .any(|theirs| theirs.session.is(peer, stream))
    }

    /// A stream is over, for this reason of the other end's.
    fn over(
        &mut self,
        now: Time,
        node: &mut Node,
        peer: PeerId,
        (stream, code): (StreamId, Option<u32>),
    ) -> bool {
        let this = |it: &Conversation| it.is(peer, stream);
        let was_new = self.newcomers.iter().any(this);
        self.newcomers.retain(|it| !this(it));
        if let Some(ours) = self.ours.as_mut().filter(|ours| ours.has(peer, stream)) {
            ours.broken(stream, code);
            return true;
        }
        if self.theirs.as_ref().is_some_and(|it| this(&it.session)) {
            self.end_theirs(now, node);
            return true;
        }
        let is_flow = self.flows.over(node, peer, stream);
        if is_flow || was_new {
            // Nothing more comes or goes on it.
            give_up(now, node, peer, stream, CODE_UNWANTED);
        }
        is_flow || was_new
    }

    fn end_theirs(&mut self, now: Time, node: &mut Node) {
        if let Some(theirs) = self.theirs.take() {
            theirs.session.give_up(now, node, CODE_UNWANTED);
            self.flows.end(now, node);
        }
    }

    /// A frame arrived. Returns whether it is one of a measurement; it is counted while one with that peer goes on.
    pub fn frame(&mut self, from: PeerId, frame: &[u8]) -> bool {
        let is_its = is_datagram(frame);
        let with = [
            self.ours.as_ref().map(|ours| ours.peer()),
            self.theirs.as_ref().map(|theirs| theirs.session.peer),
        ];
        if is_its && with.contains(&Some(from)) {
            self.flows.counts.datagrams_taken += 1;
        }
        is_its
    }

    /// Whether the loop must not wait.
    pub fn before_wait(&self, node: &Node) -> bool {
        self.is_eager || self.flows.wants(node)
    }

    fn is_idle(&self) -> bool {
        self.ours.is_none() && self.theirs.is_none() && self.newcomers.is_empty()
    }

    /// How long the loop may wait, at most `patience`.
    pub fn patience(&self, now: Time, patience: Duration) -> Duration {
        let due = [
            self.ours.as_ref().map(|ours| ours.due()),
            self.theirs.as_ref().map(|theirs| theirs.until),
        ];
        let due = due.into_iter().flatten().map(|at| at.since(now));
        due.fold(patience, Duration::min)
    }
}

impl Daemon {
    /// Begins a measurement for a client.
    ///
    /// # Errors
    /// Why not, for people.
    pub(super) fn begin_bench(
        &mut self,
        turn: &mut LoopTurn<'_>,
        (client, caller): (u64, Caller),
        peer: &str,
        (seconds, datagrams): (u32, bool),
    ) -> Result<BenchBegun, String> {
        if caller == Caller::Anyone {
            let who = "only root, or the user that the daemon runs as, may measure with a peer";
            return Err(who.to_owned());
        }
        let id = self.find_peer(peer)?;
        if let Some(why) = self.bench_is_busy(turn.now) {
            return Err(why);
        }
        if !(1..=SECONDS_MAX).contains(&seconds) {
            return Err(format!("a measurement takes 1 to {SECONDS_MAX} s"));
        }
        let node = self.cluster.nodes[self.me].name.clone();
        let names = [node.clone(), peer.to_owned()];
        let ours = Ours::begin(turn, client, (id, names), (seconds, datagrams))?;
        self.bench.ours = Some(Box::new(ours));
        log::line(format!("measures with {peer} for {seconds} s"));
        let peer = peer.to_owned();
        Ok(BenchBegun {
            node,
            peer,
            seconds,
        })
    }

    /// Why this node cannot begin or take part in another measurement now.
    fn bench_is_busy(&self, now: Time) -> Option<String> {
        let me = &self.cluster.nodes[self.me].name;
        let (with, until) = match (&self.bench.ours, &self.bench.theirs) {
            (Some(ours), _) => (ours.peer_name().to_owned(), ours.until()),
            (_, Some(theirs)) => (self.name(theirs.session.peer), theirs.until),
            _ => return None,
        };
        let left_s = until.since(now).as_secs() + 1;
        Some(format!(
            "{me} measures with {with} already, for another {left_s} s; one measurement at a time is made"
        ))
    }

    /// Goes on with measurements, if there are any: once a turn of the loop.
    pub(super) fn turn_bench(&mut self, engine: &mut Engine) {
        self.bench.is_eager = false;
        if self.bench.is_idle() {
            return;
        }
        let now = engine.now();
        self.hear_newcomers(now, engine);
        self.turn_theirs(now, engine);
        self.turn_ours(now, engine);
        self.bench.is_eager = self.bench.flows.turn(now, &mut engine.node);
    }

    /// Goes on with this node's own measurement, and tells the client of it.
    fn turn_ours(&mut self, now: Time, engine: &mut Engine) {
        let Some(mut ours) = self.bench.ours.take() else {
            return;
        };
        let told = ours.turn(now, engine, &mut self.bench.flows);
        let client = self.control.as_mut().and_then(|it| it.client(ours.client));
        let is_over = match client {
            None => {
                log::line("the measurement is given up: nobody waits for it");
                true
            }
            Some(client) => {
                let mut is_over = false;
                for told in &told {
                    client.add(&told.to_line());
                    is_over |= !matches!(told, Told::Phase { .. });
                }
                if is_over {
                    client.end();
                }
                is_over
            }
        };
        if is_over {
            self.bench.flows.end(now, &mut engine.node);
            ours.end(now, &mut engine.node);
        } else {
            self.bench.ours = Some(ours);
        }
    }
}
