//! Makes the schedule's faults happen.

use crate::check::Observer;
use crate::host::{Host, Notice};
use crate::net::{Conditions, Events, Network, Ns, SECOND, Switch};
use crate::random::Random;
use crate::schedule::{Change, Fault, Schedule, Side, address};
use crate::workload::App;
use std::net::SocketAddr;
use tabane_proto::crypto::{PrivateKey, PublicKey, public_key};
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::wire::{FEATURE_MEMORY, FEATURE_RELAYS, WireMode};
use tabane_proto::{LinkConfig, LinkId, Node, NodeConfig, PeerConfig};

/// Both ends have found out about a new address by then.
const ADDRESS_EXCUSED_NS: Ns = 3 * SECOND;
/// The cluster's key, the same on every host, and the one it is changed to.
const OLD_KEY: [u8; 32] = [42; 32];
const NEW_KEY: [u8; 32] = [43; 32];

/// The private key of a node that poses as another one.
const IMPOSTORS_KEY: PrivateKey = [99; 32];

/// The private key of a host, if it has one.
fn private_key(host: usize) -> PrivateKey {
    [host as u8 + 1; 32]
}

/// The keys of a host at a step of the change (SECURITY.md).
fn keys(step: usize) -> Vec<[u8; 32]> {
    match step {
        0 => vec![OLD_KEY],
        1 => vec![OLD_KEY, NEW_KEY],
        2 => vec![NEW_KEY, OLD_KEY],
        _ => vec![NEW_KEY],
    }
}

/// The network, and what stands in the cluster file.
pub struct Ground<'a> {
    /// The network.
    pub network: Network,
    schedule: &'a Schedule,
    /// The addresses in the cluster file.
    book: Vec<Vec<SocketAddr>>,
    /// How often each address was changed.
    epochs: Vec<Vec<usize>>,
    /// The step of the change of keys that each host has taken, and whether it has a wrong key.
    key_steps: Vec<(usize, bool)>,
    random: Random,
}

/// What faults act on.
pub struct Scene<'a> {
    /// Virtual time.
    pub now: Ns,
    /// The plan of what happens.
    pub events: &'a mut Events,
    /// The hosts.
    pub hosts: &'a mut [Host],
    /// The checkers.
    pub observer: &'a mut Observer,
}

impl<'a> Ground<'a> {
    /// The ground at the start.
    pub fn new(schedule: &'a Schedule, network: Network, random: Random) -> Ground<'a> {
        let hosts = 0..schedule.hosts.len();
        let book = hosts.map(|h| (0..schedule.links).map(|l| address(h, l, 0)).collect());
        Ground {
            book: book.collect(),
            epochs: vec![vec![0; schedule.links]; schedule.hosts.len()],
            key_steps: vec![(0, false); schedule.hosts.len()],
            network,
            schedule,
            random,
        }
    }

    /// Makes a fault happen.
    pub fn apply(&mut self, fault: Fault, s: &mut Scene<'_>) {
        let now = s.now;
        match fault {
            Fault::Wire(host, link, side, change) => {
                let original = self.schedule.hosts[host].wires[link];
                self.network.change_port(now, host, link, |port| {
                    if side != Side::Down {
                        alter(&mut port.up.conditions, &original.0, change);
                    }
                    if side != Side::Up {
                        alter(&mut port.down.conditions, &original.1, change);
                    }
                });
            }
            Fault::Switch(link, dead) => {
                self.network
                    .change_switch(now, link, |switch| switch.dead = dead);
            }
            Fault::Cut(link, pair, on) => {
                self.network.change_switch(now, link, |s| cut(s, pair, on))
            }
            Fault::Carrier(host, link, up) => {
                self.network
                    .change_port(now, host, link, |port| port.carrier = up);
                s.observer.hosts[host].kernel_said_at[link] = Some(now);
                tell(s, host, Notice::Carrier(LinkId(link as u8), up));
            }
            Fault::Link(host, link, there) => self.link(host, link, there, s),
            Fault::Address(host, link, told) => self.readdress(host, link, told, s),
            Fault::Crash(host) => {
                s.hosts[host].crash();
                s.observer.crashed(host);
            }
            Fault::Start(host) => self.start(host, self.identity(host), s),
            Fault::Impostor(host, has_key) => self.replace(host, has_key, s),
            Fault::Pause(host) => {
                s.hosts[host].paused = s.hosts[host].node.is_some();
                s.observer.stands(host);
            }
            Fault::Resume(host) => resume(host, s),
            Fault::Short(host, shortage) => {
                s.hosts[host].processor.set(now, shortage);
                s.hosts[host].wake(now, s.events);
            }
            Fault::ClockRate(host, ppm) => {
                s.hosts[host].clock.set_rate(now, ppm);
                s.hosts[host].wake(now, s.events);
            }
            Fault::Keys(host, step) => {
                self.key_steps[host].0 = step;
                tell(s, host, Notice::Keys(self.keys_of(host)));
            }
            Fault::WrongKey(host, wrong) => {
                self.key_steps[host].1 = wrong;
                tell(s, host, Notice::Keys(self.keys_of(host)));
            }
            Fault::Peer(host, other, there) => {
                let config = there.then(|| Box::new(self.peer_config(other)));
                tell(s, host, Notice::Peer(other, config));
            }
            Fault::Unlisted(host, link, gone) => {
                self.link(host, link, !gone, s);
                let address = (!gone).then(|| self.book[host][link]);
                for other in (0..s.hosts.len()).filter(|other| *other != host) {
                    let notice = Notice::PeerAddress(host, LinkId(link as u8), address);
                    tell(s, other, notice);
                    s.observer.hosts[other].kernel_said_at[link] = Some(now);
                }
            }
        }
    }

    fn link(&mut self, host: usize, link: usize, there: bool, s: &mut Scene<'_>) {
        let current = address(host, link, self.epochs[host][link]);
        let config = there.then(|| self.link_config(host, link));
        self.network.change_port(s.now, host, link, |port| {
            port.address = there.then_some(current);
            port.excused_until = s.now + ADDRESS_EXCUSED_NS;
        });
        s.observer.hosts[host].kernel_said_at[link] = Some(s.now);
        tell(s, host, Notice::Link(LinkId(link as u8), config));
    }

    fn readdress(&mut self, host: usize, link: usize, told: bool, s: &mut Scene<'_>) {
        if self.network.port(host, link).address.is_none() {
            return;
        }
        self.epochs[host][link] += 1;
        let new = address(host, link, self.epochs[host][link]);
        self.network.change_port(s.now, host, link, |port| {
            port.address = Some(new);
            port.excused_until = s.now + ADDRESS_EXCUSED_NS;
        });
        let (id, config) = (LinkId(link as u8), self.link_config(host, link));
        tell(s, host, Notice::Link(id, Some(config)));
        if told {
            self.book[host][link] = new;
            for other in (0..s.hosts.len()).filter(|other| *other != host) {
                tell(s, other, Notice::PeerAddress(host, id, Some(new)));
            }
        }
    }

    fn link_config(&self, host: usize, link: usize) -> LinkConfig {
        LinkConfig {
            id: LinkId(link as u8),
            address: address(host, link, self.epochs[host][link]),
            datagram_bytes_max: self.schedule.hosts[host].datagram_bytes_max[link],
        }
    }

    fn keys_of(&self, host: usize) -> Vec<[u8; 32]> {
        match self.key_steps[host] {
            (_, true) => vec![[99; 32]],
            (step, false) => keys(step),
        }
    }

    /// Somebody else runs in a host's place, perhaps with a key of their own.
    fn replace(&mut self, host: usize, has_key: bool, s: &mut Scene<'_>) {
        s.hosts[host].crash();
        s.observer.crashed(host);
        let own = has_key.then_some(IMPOSTORS_KEY);
        self.start(host, (own, own.map(|key| public_key(&key))), s);
        s.observer.poses(s.now, host);
    }

    /// The private key of a host, and its public one in the cluster file.
    fn identity(&self, host: usize) -> (Option<PrivateKey>, Option<PublicKey>) {
        let private = self.schedule.identities[host].then(|| private_key(host));
        (private, private.map(|key| public_key(&key)))
    }

    fn peer_config(&self, peer: usize) -> PeerConfig {
        let mut addresses = [None; LINKS_MAX];
        for (link, address) in self.book[peer].iter().enumerate() {
            addresses[link] = Some(*address);
        }
        PeerConfig {
            name: name(peer),
            addresses,
            public: self.identity(peer).1,
        }
    }

    fn start(
        &mut self,
        index: usize,
        (private, public): (Option<PrivateKey>, Option<PublicKey>),
        s: &mut Scene<'_>,
    ) {
        let host = &mut s.hosts[index];
        if host.node.is_some() {
            return;
        }
        let plan = &self.schedule.hosts[index];
        let links = (0..self.schedule.links)
            .filter(|link| self.network.port(index, *link).address.is_some())
            .map(|link| self.link_config(index, link));
        let config = NodeConfig {
            name: name(index),
            keys: self.keys_of(index),
            private,
            public,
            wire: if self.schedule.encrypted {
                WireMode::Encrypted
            } else {
                WireMode::Plain
            },
            cipher_aes: true,
            receive_buffer_bytes: plan.traits.socket_bytes as u32,
            links: links.collect(),
            op_limits: self.schedule.op_limits.clone(),
            features: FEATURE_MEMORY | FEATURE_RELAYS,
            relay: host.tap.relay(self.schedule.bundles_max),
            guests: None,
            congestion: self.schedule.congestion,
        };
        let local = host.clock.time(s.now);
        let mut node = Node::new(local, config, self.random.bytes32())
            .expect("the schedule's configuration is good");
        node.set_memory(s.observer.transfers.memory(index, host.tap.mutant()));
        host.peer_ids = (0..self.schedule.hosts.len())
            .map(|peer| {
                let mut peer_config = self.peer_config(peer);
                peer_config.public = host.tap.public(peer_config.public);
                (peer != index).then(|| {
                    node.add_peer(local, peer_config)
                        .expect("the schedule's configuration is good")
                })
            })
            .collect();
        for link in 0..self.schedule.links {
            if !self.network.port(index, link).carrier {
                node.handle_link(local, LinkId(link as u8), false);
            }
        }
        host.node = Some(node);
        host.paused = false;
        host.app = App::new(s.now, index, self.schedule.hosts.len(), s.observer);
        s.observer.started(s.now, index);
        host.wake(s.now, s.events);
    }
}

fn name(host: usize) -> String {
    format!("n{host}")
}

/// A stopped process goes on.
fn resume(host: usize, s: &mut Scene<'_>) {
    s.hosts[host].paused = false;
    if s.hosts[host].node.is_some() {
        s.observer.runs(s.now, host);
    }
    s.hosts[host].wake(s.now, s.events);
}

fn tell(s: &mut Scene<'_>, host: usize, notice: Notice) {
    if s.hosts[host].node.is_some() {
        s.hosts[host].notices.push_back(notice);
        s.hosts[host].wake(s.now, s.events);
    }
}

fn cut(switch: &mut Switch, pair: (usize, usize), on: bool) {
    switch.cut.retain(|cut| *cut != pair);
    if on {
        switch.cut.push(pair);
    }
}

fn alter(c: &mut Conditions, original: &Conditions, change: Change) {
    match change {
        Change::Dead => c.dead = true,
        Change::HandshakesOnly => c.handshakes_only = true,
        Change::Loss(ppm) => c.loss_ppm = ppm,
        Change::Bursts(begins, ends) => {
            c.burst_begins_ppm = begins;
            c.burst_ends_ppm = ends;
        }
        Change::Corrupt(ppm) => c.corrupt_ppm = ppm,
        Change::Duplicate(ppm) => c.duplicate_ppm = ppm,
        Change::Jitter(ns, reorders) => {
            c.jitter_ns = ns;
            c.reorders = reorders;
        }
        Change::Delay(ns) => c.delay_ns = ns,
        Change::Rate(bps) => c.rate_bps = bps,
        Change::Queue(bytes) => c.queue_bytes = bytes,
        Change::DatagramBytesMax(bytes) => c.datagram_bytes_max = bytes,
        Change::Restore => *c = *original,
    }
}
