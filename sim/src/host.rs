//! A host: a node, its clock, its sockets, its application, and the loop that
//! drives them as the driver contract asks.

use crate::check::{Checked, Flight, Observer, Rule, Violation};
use crate::mutant::Tap;
use crate::net::{Clock, Events, Happening, Network, Ns, Packet};
use crate::processor::Processor;
use crate::qlog;
use crate::workload::{App, Scene};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::{Event, LinkConfig, LinkId, Node, PeerConfig, PeerId, Time, Transmit};

/// How a host behaves beside its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostTraits {
    /// From a datagram's arrival to the node's reading it.
    pub wake_ns: Ns,
    /// Timers fire up to this much late.
    pub timer_slack_ns: Ns,
    /// Bytes that each socket holds for the node; more is dropped.
    pub socket_bytes: usize,
    /// Datagrams handled before the loop drains what the node has to say.
    pub batch: usize,
    /// Bytes waiting on a wire at which its socket takes no more; `None`: it takes
    /// everything, and the wire drops what does not fit.
    pub blocks_at_bytes: Option<u64>,
}

/// Something the operator or the kernel tells a node.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// The kernel's word on a link.
    Carrier(LinkId, bool),
    /// A link of this host appeared, changed or went.
    Link(LinkId, Option<LinkConfig>),
    /// Another host has another address.
    PeerAddress(usize, LinkId, Option<SocketAddr>),
    /// The cluster has other keys.
    Keys(Vec<[u8; 32]>),
    /// Another host is in the cluster file, or no longer.
    Peer(usize, Option<Box<PeerConfig>>),
    /// The node is to stop.
    Close,
}

/// One loop of the driver ends after so many transmits at one instant.
const TRANSMITS_MAX: usize = 20_000;
/// A timer that is due may be handled so often at one instant.
const TIMEOUTS_MAX: usize = 100;

/// A host.
pub struct Host {
    /// Its number.
    pub index: usize,
    /// Its node; `None` while it is crashed.
    pub node: Option<Node>,
    /// Its clock.
    pub clock: Clock,
    /// Its process is stopped.
    pub paused: bool,
    /// When its process can run.
    pub processor: Processor,
    /// Its application.
    pub app: App,
    /// Its node's number for each host.
    pub peer_ids: Vec<Option<PeerId>>,
    /// What it will be told when it runs.
    pub notices: VecDeque<Notice>,
    /// What may tamper with it.
    pub tap: Tap,
    traits: HostTraits,
    sockets: [VecDeque<Packet>; LINKS_MAX],
    socket_bytes: [usize; LINKS_MAX],
    blocked: [bool; LINKS_MAX],
    /// Of each peer and link.
    flights: BTreeMap<(PeerId, LinkId), Flight>,
    wake_at: Ns,
    buffer: Vec<u8>,
}

/// What a host acts in.
pub struct World<'a> {
    /// Virtual time.
    pub now: Ns,
    /// The network.
    pub network: &'a mut Network,
    /// The plan of what happens.
    pub events: &'a mut Events,
    /// The checkers.
    pub observer: &'a mut Observer,
}

impl Host {
    /// A host that is not yet started.
    pub fn new(
        index: usize,
        clock: Clock,
        traits: HostTraits,
        processor: Processor,
        app: App,
        tap: Tap,
    ) -> Host {
        Host {
            index,
            node: None,
            clock,
            paused: false,
            processor,
            app,
            peer_ids: Vec::new(),
            notices: VecDeque::new(),
            tap,
            traits,
            sockets: Default::default(),
            socket_bytes: [0; LINKS_MAX],
            blocked: [false; LINKS_MAX],
            flights: BTreeMap::new(),
            wake_at: Ns::MAX,
            buffer: vec![0; 65_536],
        }
    }

    /// Whether its node takes part now.
    pub fn runs(&self) -> bool {
        self.node.is_some() && !self.paused
    }

    /// Its process is gone, and what its sockets held with it.
    pub fn crash(&mut self) {
        self.node = None;
        self.paused = false;
        self.sockets.iter_mut().for_each(VecDeque::clear);
        self.socket_bytes = [0; LINKS_MAX];
        self.blocked = [false; LINKS_MAX];
        self.notices.clear();
        self.flights.clear();
        self.wake_at = Ns::MAX;
    }

    /// A datagram comes to its socket. Returns its storage if there is no room for it.
    pub fn arrive(&mut self, packet: Packet, w: &mut World<'_>) -> Option<Vec<u8>> {
        let link = packet.link;
        let holds = self.socket_bytes[link] + packet.bytes.len() <= self.traits.socket_bytes;
        if self.node.is_none() || !holds {
            return Some(packet.bytes);
        }
        self.socket_bytes[link] += packet.bytes.len();
        self.sockets[link].push_back(packet);
        self.wake(w.now + self.traits.wake_ns, w.events);
        None
    }

    /// Plans that the host runs its loop at `at`, if it would not before.
    pub fn wake(&mut self, at: Ns, events: &mut Events) {
        if at < self.wake_at {
            self.wake_at = at;
            events.plan(at, Happening::Wake(self.index));
        }
    }

    /// The host runs its loop at `now`, whatever was planned.
    pub const fn due(&mut self, now: Ns) {
        self.wake_at = now;
    }

    /// Runs the loop once if it is due: everything that waits is handed in, and
    /// everything the node has to say is taken out.
    pub fn run(&mut self, w: &mut World<'_>) -> Checked {
        if w.now != self.wake_at {
            return Ok(());
        }
        self.wake_at = Ns::MAX;
        let runs_at = self.processor.next(w.now);
        if runs_at > w.now {
            self.wake(runs_at, w.events);
            return Ok(());
        }
        let Some(mut node) = self.node.take_if(|_| !self.paused) else {
            return Ok(());
        };
        self.tap.at(w.now);
        let local = self.clock.time(w.now);
        let ran = self.run_node(&mut node, local, w);
        let timeout = self.tap.timeout(local, node.poll_timeout());
        self.node = Some(node);
        let app_at = ran?;
        if let Some(timeout) = timeout {
            let due = self.clock.instant(w.now, timeout);
            // Late by as much as is left of the timer's grain.
            let late = due.next_multiple_of(self.traits.timer_slack_ns.max(1));
            self.wake(late.max(w.now + 1), w.events);
        }
        if let Some(at) = app_at {
            self.wake(at.max(w.now + 1), w.events);
        }
        Ok(())
    }

    fn run_node(&mut self, node: &mut Node, local: Time, w: &mut World<'_>) -> Checked<Option<Ns>> {
        if w.observer.qlog.is_some() {
            // It may have been started, and peers come and go.
            for peer in self.peer_ids.iter().copied().flatten() {
                node.trace(local, peer, true);
            }
        }
        while let Some(notice) = self.notices.pop_front() {
            self.notify(node, local, notice, w);
            self.drain(node, local, w)?;
        }
        let mut handled = 0;
        for link in 0..w.network.links() {
            while let Some(mut packet) = self.sockets[link].pop_front() {
                self.socket_bytes[link] -= packet.bytes.len();
                w.observer.datagram(w.now, self.index, &packet);
                let id = LinkId(link as u8);
                node.handle_datagram(local, id, packet.source, &mut packet.bytes);
                w.network.recycle(packet.bytes);
                handled += 1;
                if handled % self.traits.batch == 0 {
                    self.drain(node, local, w)?;
                }
            }
        }
        self.unblock(node, w);
        self.drain(node, local, w)?;
        for round in 0.. {
            let due = self.tap.timeout(local, node.poll_timeout());
            if due.is_none_or(|at| at > local) {
                break;
            }
            if round == TIMEOUTS_MAX {
                let what = format!("host {}: a timer is due for ever", self.index);
                return Err(Violation::new(Rule::Calm, w.now, what));
            }
            node.handle_timeout(local);
            self.drain(node, local, w)?;
        }
        let app_at = self.act(node, local, w)?;
        self.drain(node, local, w)?;
        let app_after = self.act(node, local, w)?;
        self.drain(node, local, w)?;
        let unblock_at = self.unblock_at(w);
        Ok([app_at, app_after, unblock_at].into_iter().flatten().min())
    }

    fn notify(&mut self, node: &mut Node, local: Time, notice: Notice, w: &mut World<'_>) {
        match notice {
            Notice::Carrier(link, up) => node.handle_link(local, link, up),
            Notice::Link(link, config) => {
                node.set_link(local, link, config)
                    .expect("the schedule's links are good");
            }
            Notice::PeerAddress(host, link, address) => {
                if let Some(peer) = self.peer_ids[host] {
                    node.set_peer_address(local, peer, link, address);
                }
            }
            Notice::Keys(keys) => node.set_keys(local, keys).expect("there are keys"),
            Notice::Peer(host, None) => {
                if let Some(peer) = self.peer_ids[host].take() {
                    node.remove_peer(local, peer);
                    w.observer.removed(self.index, host);
                    self.app.forget_peer(w.now, host, w.observer);
                }
            }
            Notice::Peer(host, Some(config)) => {
                if self.peer_ids[host].is_none() {
                    let added = node.add_peer(local, *config);
                    self.peer_ids[host] = Some(added.expect("the schedule's peers are good"));
                }
            }
            Notice::Close if !self.tap.hears_close() => (),
            Notice::Close => node.close(local),
        }
    }

    /// Takes out events and transmits until there are none.
    fn drain(&mut self, node: &mut Node, local: Time, w: &mut World<'_>) -> Checked {
        self.events(node, local, w)?;
        for count in 0.. {
            if count > TRANSMITS_MAX {
                let what = format!("host {} transmits without end", self.index);
                return Err(Violation::new(Rule::Calm, w.now, what));
            }
            let mut buffer = core::mem::take(&mut self.buffer);
            let transmit = node.poll_transmit(local, &mut buffer);
            self.buffer = buffer;
            let Some(transmit) = transmit else { break };
            let Some(transmit) = self.tap.transmit(transmit) else {
                continue;
            };
            let link = transmit.link.index();
            self.check_transmit(&transmit, w)?;
            self.check_flight(node, &transmit, w.now)?;
            for copy in 0..self.tap.copies(&self.buffer[..transmit.bytes]) {
                if copy > 0 {
                    self.tap.copy(&mut self.buffer[..transmit.bytes]);
                }
                self.send(&transmit, w)?;
            }
            if let Some(limit) = self.traits.blocks_at_bytes
                && w.network.port(self.index, link).up.backlog_bytes(w.now) > limit
            {
                self.blocked[link] = true;
                node.set_link_blocked(transmit.link, true);
            }
        }
        self.tell_trace(node, w);
        self.events(node, local, w)
    }

    /// Takes out what the node tells of itself. It is told at the network's time, which all hosts share.
    fn tell_trace(&self, node: &mut Node, w: &mut World<'_>) {
        let Some(text) = &mut w.observer.qlog else {
            return;
        };
        let writer = qlog::writer();
        while let Some(traced) = node.poll_trace() {
            let peer = self.peer_ids.iter().position(|id| *id == Some(traced.peer));
            let group = qlog::group(self.index, peer.unwrap_or(usize::MAX));
            writer.event(Time::from_ns(w.now), Some(&group), &traced.event, text);
        }
    }

    fn send(&self, t: &Transmit, w: &mut World<'_>) -> Checked {
        let bytes = &self.buffer[..t.bytes];
        for datagram in bytes.chunks(t.segment_bytes) {
            w.observer.sends(w.now, self.index, datagram)?;
            w.observer
                .sends_to(w.now, self.index, t.to, datagram.len())?;
        }
        let from = (self.index, t.link.index());
        let network = &mut *w.network;
        network.transmit(w.now, from, t.to, bytes, t.segment_bytes, w.events);
        Ok(())
    }

    /// Whether there was room for what was just sent. (Whom to, only the figures of the paths show.)
    fn check_flight(&mut self, node: &Node, t: &Transmit, now: Ns) -> Checked {
        for peer in self.peer_ids.iter().copied().flatten() {
            if let Some(stats) = node.path_stats(peer, t.link) {
                let flight = self.flights.entry((peer, t.link)).or_default();
                flight.sent(now, t.bytes, &self.tap.path_stats(stats))?;
            }
        }
        Ok(())
    }

    fn check_transmit(&self, t: &Transmit, w: &World<'_>) -> Checked {
        let link = t.link.index();
        let wrong = if t.segment_bytes == 0 || t.bytes == 0 || t.bytes > 65_535 {
            "has an impossible length"
        } else if t.bytes.div_ceil(t.segment_bytes) > 64 {
            "has more segments than the kernel takes"
        } else if t.segment_bytes > w.observer.datagram_bytes_max(self.index, link) {
            "is larger than its link carries"
        } else if self.blocked[link] {
            "goes to a blocked link"
        } else {
            return Ok(());
        };
        let what = format!("host {}: {t:?} {wrong}", self.index);
        Err(Violation::new(Rule::Contract, w.now, what))
    }

    fn events(&mut self, node: &mut Node, local: Time, w: &mut World<'_>) -> Checked {
        while let Some(event) = self.tap.event(local).or_else(|| node.poll_event()) {
            w.observer
                .trace(w.now, || format!("host {}: {event:?}", self.index));
            // Of a host that was taken out, nothing is of interest any more.
            let is_gone = |peer| !self.peer_ids.contains(&Some(peer));
            if event.peer().is_some_and(is_gone) {
                continue;
            }
            let host_of = |peer| {
                let found = self.peer_ids.iter().position(|p| *p == Some(peer));
                found.unwrap_or(usize::MAX)
            };
            match event {
                Event::PeerUp { peer, restarted } => {
                    let peer = host_of(peer);
                    let ends = (self.index, peer);
                    w.observer.peer_up(w.now, ends, restarted, w.network)?;
                    self.app.on_peer_up(w.now, peer, restarted, w.observer);
                }
                Event::PeerDown { peer, reason } => {
                    w.observer.peer_down(self.index, host_of(peer), reason);
                    self.app.on_peer_down(host_of(peer));
                }
                Event::LinkDown {
                    peer,
                    link,
                    witness,
                    ..
                } => {
                    let ends = (self.index, host_of(peer));
                    w.observer
                        .link_down(w.now, ends, link.index(), witness, w.network)?;
                }
                Event::LinkUp { .. }
                | Event::Guest { .. }
                | Event::Member { .. }
                | Event::Parted { .. }
                | Event::NotAdmitted { .. }
                | Event::Measured { .. }
                | Event::Refused { .. } => {}
                Event::Op { peer, event } => {
                    let peer = host_of(peer);
                    let mut scene = Scene {
                        now: w.now,
                        local,
                        node,
                        peer_ids: &self.peer_ids,
                        observer: w.observer,
                        tap: &mut self.tap,
                    };
                    self.app.on_op(&mut scene, peer, event)?;
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, node: &mut Node, local: Time, w: &mut World<'_>) -> Checked<Option<Ns>> {
        let mut scene = Scene {
            now: w.now,
            local,
            node,
            peer_ids: &self.peer_ids,
            observer: w.observer,
            tap: &mut self.tap,
        };
        self.app.act(&mut scene)
    }

    fn unblock(&mut self, node: &mut Node, w: &World<'_>) {
        for link in 0..w.network.links() {
            let backlog = w.network.port(self.index, link).up.backlog_bytes(w.now);
            let limit = self.traits.blocks_at_bytes.unwrap_or(u64::MAX);
            if self.blocked[link] && backlog <= limit / 2 {
                self.blocked[link] = false;
                node.set_link_blocked(LinkId(link as u8), false);
            }
        }
    }

    fn unblock_at(&self, w: &World<'_>) -> Option<Ns> {
        let limit = self.traits.blocks_at_bytes?;
        (0..w.network.links())
            .filter(|link| self.blocked[*link])
            .map(|link| w.network.port(self.index, link).up.drained_to_at(limit / 2) + 1)
            .min()
    }
}
