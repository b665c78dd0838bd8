//! Very many nodes, every one of which is there: who keeps bundles with whom, and what that costs.
//!
//! Switches lose nothing, but for those of [`Layout`]s, whose ports have queues. Processor time of a node is measured around the calls that a driver makes; everything else is
//! exact, and the same each time.

mod exchange;
mod figures;
mod wires;

use std::time::{Duration, Instant};

use tabane_proto::limits::LINKS_MAX;
use tabane_proto::link::PathState;
use tabane_proto::op::{OpEvent, Policy};
use tabane_proto::wire::{FEATURE_RELAYS, Switches};
use tabane_proto::{Event, LinkId, Node, NodeConfig, PeerId, PeerState, RelayConfig, Time};

use crate::agenda::{Agenda, Datagram, sends, take_in};
use crate::random::Random;
use crate::star::{self, ORIGIN};
pub use exchange::{Exchanged, Pattern, exchange};
pub use figures::{Figures, measure};
pub use wires::Layout;
use wires::Wires;

/// The way from anyone to anyone.
const DELAY: Duration = Duration::from_micros(50);
/// A process wakes up this often at most, and takes in what has arrived until then.
const WAKE_NS: u64 = 50_000;
/// A node's bundles over links are counted once in about so many turns.
const COUNT_EVERY: u64 = 16;

struct Host {
    node: Option<Node>,
    /// Before, it gets nothing.
    starts_at: Time,
    wake_at: Time,
    /// Messages that came.
    messages: u64,
    /// Processor time so far.
    work: Duration,
    /// The most bundles over links that it had at once.
    direct_max: usize,
}

/// Nodes that all know each other.
pub struct Many {
    now: Time,
    hosts: Vec<Host>,
    agenda: Agenda,
    /// Without, everything takes as long.
    wires: Option<Wires>,
    buffer: Vec<u8>,
    /// Events that say that a peer is gone, or was broken.
    pub losses: u64,
    /// Datagrams sent.
    pub sent: u64,
}

impl Many {
    /// So many nodes, each with so many bundles over links at most, that start at some time within `spread`.
    pub fn new(hosts: usize, bundles_max: Option<u16>, spread: Duration) -> Many {
        let mut random = Random::new(hosts as u64);
        let mut many = Many {
            now: ORIGIN,
            hosts: Vec::new(),
            agenda: Agenda::default(),
            wires: None,
            buffer: vec![0; 65_535],
            losses: 0,
            sent: 0,
        };
        for host in 0..hosts {
            let at = ORIGIN + Duration::from_nanos(random.below(spread.as_nanos() as u64 + 1));
            many.hosts.push(Host {
                node: None,
                starts_at: at,
                wake_at: at,
                messages: 0,
                work: Duration::ZERO,
                direct_max: 0,
            });
            many.agenda.plan(at, host, None);
        }
        many.bundles_max(bundles_max);
        many
    }

    /// Those of a layout, on wires that carry so much.
    pub fn on(layout: Layout, bundles_max: Option<u16>) -> Many {
        let hosts = layout.switches * layout.nodes_each;
        let mut many = Many::new(hosts, bundles_max, Duration::from_millis(100));
        many.wires = Some(Wires::new(layout, star::LINKS));
        many
    }

    /// Datagrams that were dropped on wires.
    pub fn lost(&self) -> u64 {
        self.wires.as_ref().map_or(0, Wires::lost)
    }

    fn bundles_max(&mut self, bundles_max: Option<u16>) {
        for host in 0..self.hosts.len() {
            let config = NodeConfig {
                name: name(host),
                features: FEATURE_RELAYS,
                relay: RelayConfig {
                    bundles_max,
                    ..RelayConfig::default()
                },
                ..star::config(host)
            };
            let at = self.hosts[host].wake_at;
            let began = Instant::now();
            let mut node = Node::new(at, config, star::seed(host)).expect("a good configuration");
            for other in (0..self.hosts.len()).filter(|other| *other != host) {
                node.add_peer(at, star::peer_named(name(other), other))
                    .expect("a good name");
            }
            self.hosts[host].work = began.elapsed();
            self.hosts[host].node = Some(node);
        }
    }

    /// How long it runs already.
    pub const fn age(&self) -> Duration {
        self.now.since(ORIGIN)
    }

    /// A node.
    ///
    /// # Panics
    /// It is gone.
    pub fn node(&self, host: usize) -> &Node {
        self.hosts[host].node.as_ref().expect("it is there")
    }

    /// A node's number for another one.
    pub const fn number_of(host: usize, other: usize) -> PeerId {
        PeerId(if other < host { other } else { other - 1 } as u32)
    }

    /// Messages that a node got.
    pub fn messages(&self, host: usize) -> u64 {
        self.hosts[host].messages
    }

    /// Processor time that a node took.
    pub fn work(&self, host: usize) -> Duration {
        self.hosts[host].work
    }

    /// The most bundles over links that a node had at once.
    pub fn direct_max(&self, host: usize) -> usize {
        self.hosts[host].direct_max
    }

    /// What one node says of its connection to another.
    pub fn state(&self, host: usize, other: usize) -> Option<PeerState> {
        let stats = self.node(host).peer_stats(Many::number_of(host, other));
        stats.map(|stats| stats.state)
    }

    /// Whether a node has a bundle to another one that is used over links.
    pub fn is_direct(&self, host: usize, other: usize) -> bool {
        let stats = self.node(host).peer_stats(Many::number_of(host, other));
        stats.is_some_and(|s| s.session_since.is_some() && !s.paths.is_empty())
    }

    /// Whether a node is there, and has a bundle over links with all with whom it keeps one.
    pub fn has_all_it_keeps(&self, host: usize) -> bool {
        let node = self.node(host);
        let count = node.bundle_count();
        count.kept == count.direct && count.direct > 0
    }

    /// A survey has found out on which switch each node is: all are told.
    pub fn tell_switches(&mut self, survey: u64, switch_of: impl Fn(usize) -> u16) {
        for host in 0..self.hosts.len() {
            let mut of = [None; LINKS_MAX];
            of[0] = Some(switch_of(host));
            let switches = Switches { survey, of };
            self.drive(host, |node, now| node.set_switches(now, switches));
        }
    }

    /// The nodes by which one goes to another, if it goes through any.
    pub fn relays(&self, host: usize, other: usize) -> Option<Vec<usize>> {
        let stats = self.node(host).peer_stats(Many::number_of(host, other))?;
        let way = stats
            .relayed
            .iter()
            .find(|way| way.state == PathState::Up)?;
        let node = |relay: &PeerId| {
            let number = relay.0 as usize;
            number + usize::from(number >= host)
        };
        Some(way.relays.iter().map(node).collect())
    }

    /// A node's process is gone.
    pub fn kill(&mut self, host: usize) {
        self.hosts[host].node = None;
    }

    /// A node sends another one a message, if there is room for it.
    pub fn message(&mut self, from: usize, to: usize, data: &[u8]) -> bool {
        let mut taken = false;
        self.drive(from, |node, now| {
            let peer = Many::number_of(from, to);
            let sent = node.send_message(now, peer, 0, None, data, Policy::Stripe);
            taken = sent.is_ok();
        });
        taken
    }

    /// Runs for so long.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let moves_at = self.wires.as_ref().and_then(Wires::next_at);
            let moves_at = moves_at.filter(|at| *at <= until);
            let next = self.agenda.next_until(moves_at.unwrap_or(until));
            let Some((at, host, datagrams)) = next else {
                let Some(wires) = self.wires.as_mut().filter(|_| moves_at.is_some()) else {
                    break;
                };
                if let Some((at, to, datagram)) = wires.step() {
                    self.agenda.plan(woken(at), to, Some(datagram));
                }
                continue;
            };
            self.now = at;
            let here = &self.hosts[host];
            let is_there = at >= here.starts_at;
            if is_there && (!datagrams.is_empty() || here.wake_at <= at) {
                self.drive(host, |node, now| take_in(node, now, datagrams));
            }
        }
        self.now = until;
    }

    /// A host's driver does `act`, then drains its node as the driver contract asks.
    fn drive(&mut self, host: usize, act: impl FnOnce(&mut Node, Time)) {
        let now = self.now;
        let Host { node, .. } = &mut self.hosts[host];
        let Some(node) = node.as_mut() else { return };
        let mut arrived = Vec::new();
        let began = Instant::now();
        act(node, now);
        let outbox = match &mut self.wires {
            Some(wires) => {
                self.sent += sends_on(wires, node, now, host, &mut self.buffer);
                Vec::new()
            }
            None => sends(node, now, &mut self.buffer),
        };
        while let Some(event) = node.poll_event() {
            match event {
                Event::Op {
                    peer,
                    event: OpEvent::MessageReady,
                } => arrived.push(peer),
                Event::PeerDown { .. }
                | Event::PeerUp {
                    restarted: true, ..
                }
                | Event::Op {
                    event: OpEvent::MessagesBroken { .. },
                    ..
                } => self.losses += 1,
                _ => {}
            }
        }
        let mut messages = 0;
        for peer in arrived {
            while node.receive_message(now, peer).is_some() {
                messages += 1;
            }
        }
        let opens_at = self.wires.as_ref().and_then(|w| w.opens_at(now, host));
        let timeout = node.poll_timeout().into_iter().chain(opens_at).min();
        let work = began.elapsed();
        // To count them takes longer than all else.
        let direct = match self.agenda.planned().is_multiple_of(COUNT_EVERY) {
            true => node.bundle_count().direct,
            false => 0,
        };
        let here = &mut self.hosts[host];
        here.work += work;
        here.messages += messages;
        here.direct_max = here.direct_max.max(direct);
        here.wake_at = timeout.unwrap_or(Time::NEVER);
        if let Some(at) = timeout {
            let at = at.max(now + Duration::from_nanos(1));
            self.agenda.plan(at, host, None);
        }
        self.sent += outbox.len() as u64;
        for (link, to, bytes) in outbox {
            let datagram = Datagram {
                link: link.0,
                from: star::address(host, link.0),
                bytes,
            };
            let at = woken(now + DELAY);
            self.agenda.plan(at, star::host_at(to), Some(datagram));
        }
    }
}

/// A node sends what it has to, on links whose socket takes it. Returns how many datagrams that were.
fn sends_on(wires: &mut Wires, node: &mut Node, now: Time, host: usize, buffer: &mut [u8]) -> u64 {
    let mut sent = 0;
    loop {
        for link in 0..star::LINKS {
            node.set_link_blocked(LinkId(link), wires.is_full(now, host, link));
        }
        let Some(t) = node.poll_transmit(now, buffer) else {
            return sent;
        };
        for bytes in buffer[..t.bytes].chunks(t.segment_bytes) {
            let datagram = Datagram {
                link: t.link.0,
                from: star::address(host, t.link.0),
                bytes: bytes.to_vec(),
            };
            wires.send(now, host, star::host_at(t.to), datagram);
            sent += 1;
        }
    }
}

/// When a process takes in what arrives at the time `at`.
fn woken(at: Time) -> Time {
    Time::from_ns(at.as_ns().next_multiple_of(WAKE_NS))
}

fn name(host: usize) -> String {
    format!("n{host:04}")
}
