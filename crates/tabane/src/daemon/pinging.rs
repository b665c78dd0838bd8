//! Round trips to a peer by each path, for clients of the control socket (`tabane ping`).
//!
//! What is timed are the probes that find out whether paths work: the daemon sends some more while a client listens.

use core::time::Duration;
use std::collections::BTreeMap;

use tabane_engine::Engine;
use tabane_proto::{LinkId, Node, PathStats, PeerId, Time};

use super::run::Daemon;
use crate::ping::{Round, Way, WayRound};
use crate::status::{Caller, PingBegun};

/// A probe that is not answered within this time counts as lost.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// The least time between two rounds that any user may ask for, as with `ping`; and that the owner may.
const INTERVAL_MIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(10)];
/// The longest.
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// A path of the present round.
#[derive(Debug)]
struct Asked {
    way: Way,
    /// Answers until the round began.
    answered: u16,
    rtt_us: Option<u32>,
}

/// A client.
#[derive(Debug)]
struct Pinger {
    client: u64,
    peer: PeerId,
    interval: Duration,
    rounds: u64,
    began: Time,
    /// The round under way; none while the next one is waited for.
    asked: Option<BTreeMap<LinkId, Asked>>,
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Pings(Vec<Pinger>);

/// The paths to a peer that are in use, and how they are called.
fn ways(node: &Node, peer: PeerId) -> Vec<(LinkId, Way, PathStats)> {
    let Some(stats) = node.peer_stats(peer) else {
        return Vec::new();
    };
    let links = stats.paths.into_iter().map(|path| {
        let way = Way::Link(path.link.0);
        (path.link, way, path.stats)
    });
    let name = |relay: &PeerId| node.peer_name(*relay).unwrap_or("?").to_owned();
    let relayed = stats.relayed.into_iter().map(|path| {
        let way = Way::Via(path.relays.iter().map(name).collect());
        (path.id, way, path.stats)
    });
    links.chain(relayed).collect()
}

impl Pinger {
    /// Probes all paths.
    fn ask(&mut self, now: Time, node: &mut Node) {
        node.want(now, self.peer);
        let asked = ways(node, self.peer).into_iter().map(|(id, way, stats)| {
            let answered = stats.probes_answered;
            let asked = Asked {
                way,
                answered,
                rtt_us: None,
            };
            (id, asked)
        });
        self.asked = Some(asked.collect());
        node.probe(self.peer);
        self.began = now;
        self.rounds += 1;
    }

    /// Notes the answers. Returns the round, if it is over.
    fn look(&mut self, now: Time, node: &Node) -> Option<Round> {
        let asked = self.asked.as_mut()?;
        for (id, of) in asked.iter_mut().filter(|(_, of)| of.rtt_us.is_none()) {
            let stats = node.path_stats(self.peer, *id);
            let new = stats.filter(|stats| stats.probes_answered != of.answered);
            let rtt = new.and_then(|stats| stats.probe_rtt);
            of.rtt_us = rtt.map(|rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX));
        }
        let is_whole = !asked.is_empty() && asked.values().all(|of| of.rtt_us.is_some());
        if !is_whole && now.since(self.began) < ANSWER_MAX {
            return None;
        }
        let ways = self.asked.take().unwrap_or_default().into_values();
        let ways = ways.map(|of| WayRound {
            way: of.way,
            rtt_us: of.rtt_us,
        });
        Some(Round {
            number: self.rounds,
            ways: ways.collect(),
        })
    }

    fn due(&self) -> Time {
        match self.asked {
            Some(_) => self.began + ANSWER_MAX,
            None => self.began + self.interval,
        }
    }
}

impl Pings {
    /// How long the loop may wait, at most `patience`.
    pub fn patience(&self, now: Time, patience: Duration) -> Duration {
        let due = self.0.iter().map(|pinger| pinger.due().since(now));
        due.fold(patience, Duration::min)
    }
}

impl Daemon {
    /// Begins to ping for a client.
    ///
    /// # Errors
    /// Why not, for people.
    pub(super) fn begin_ping(
        &mut self,
        now: Time,
        (client, caller): (u64, Caller),
        peer: &str,
        interval_ms: u64,
    ) -> Result<PingBegun, String> {
        let id = self.find_peer(peer)?;
        let least = INTERVAL_MIN[usize::from(caller == Caller::Owner)];
        let interval = Duration::from_millis(interval_ms);
        if !(least..=INTERVAL_MAX).contains(&interval) {
            return Err(format!(
                "rounds are {} to {} s apart; less than {} s only for root, or the user that the daemon runs as",
                least.as_secs_f64(),
                INTERVAL_MAX.as_secs(),
                INTERVAL_MIN[0].as_secs_f64()
            ));
        }
        self.pings.0.push(Pinger {
            client,
            peer: id,
            interval,
            rounds: 0,
            // At once.
            began: Time::from_ns(now.as_ns().saturating_sub(interval.as_nanos() as u64)),
            asked: None,
        });
        Ok(PingBegun {
            node: self.cluster.nodes[self.me].name.clone(),
            peer: peer.to_owned(),
        })
    }

    /// Asks, and tells clients of rounds that are over: once a turn of the loop.
    pub(super) fn turn_pings(&mut self, engine: &mut Engine) {
        if self.pings.0.is_empty() {
            return;
        }
        let now = engine.now();
        let (control, peers) = (&mut self.control, &self.peers);
        self.pings.0.retain_mut(|pinger| {
            let client = control.as_mut().and_then(|it| it.client(pinger.client));
            let Some(client) = client else {
                return false;
            };
            if !peers.iter().any(|(peer, _)| *peer == pinger.peer) {
                // It was taken out of the cluster file.
                client.end();
                return false;
            }
            if let Some(round) = pinger.look(now, &engine.node) {
                client.add(&round.to_line());
            }
            if pinger.asked.is_none() && now >= pinger.due() {
                pinger.ask(now, &mut engine.node);
            }
            true
        });
    }
}
