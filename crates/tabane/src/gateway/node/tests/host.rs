//! A host of the town: its node, the glue between that and its gateway, and the loop of a daemon around both.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use tabane_proto::gateway::{Electorate, Refused, Transport};
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::link::PathState;
use tabane_proto::op::{OpEvent, OpLimits};
use tabane_proto::wire::{FEATURE_RELAYS, Name, NodeId, WireMode};
use tabane_proto::{
    Event, LinkConfig, LinkId, Node, NodeConfig, PeerConfig, PeerId, PeerState, RelayConfig, Time,
};
use tabane_sim::Random;
use tabane_sim::net::{Clock, Ns};

use super::machine::Machine;
use super::mutant::Mutant;
use super::{ADDRESSES, LINKS, Mac, PLACE};
use crate::gateway::node::{Gateway, Part};
use crate::gateway::serving::Site;
use crate::gateway::{carriage, claims::Given};
use std::rc::Rc;

/// A gateway that is not done after so many turns at one instant never is.
const TURNS_MAX: usize = 1000;

/// A port that the programs of a host want.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Want {
    pub is_tcp: bool,
    pub number: u16,
}

/// A datagram under way to a node.
pub type Datagram = (u8, SocketAddr, Vec<u8>);

/// A host.
pub struct Host {
    pub index: usize,
    pub node: Option<Node>,
    pub gateway: Option<Gateway>,
    pub clock: Clock,
    pub machine: Machine,
    peers: Vec<Option<PeerId>>,
    silent: BTreeSet<PeerId>,
    pub inbox: Vec<Datagram>,
    pub wake_at: Ns,
    /// Its daemon is stopped until then.
    pub stopped_until: Ns,
    /// The machine has power.
    pub is_on: bool,
    /// Its device outside is connected.
    pub is_plugged: bool,
    pub life: u32,
    /// What its programs want to have, and of which it was asked when.
    pub wants: BTreeSet<Want>,
    asked: BTreeMap<u32, (Want, Ns)>,
    pub mutant: Option<Mutant>,
    /// How many gateways there are, and hosts.
    pub size: (usize, usize),
    buffer: Vec<u8>,
}

/// What came of a turn.
#[derive(Default)]
pub struct Turned {
    pub datagrams: Vec<(u8, SocketAddr, Vec<u8>)>,
    /// Ports that were given or refused, and how long that took.
    pub claimed: Vec<(Want, Result<Given, Refused>, Ns)>,
    pub lines: Vec<String>,
    pub broken: Option<String>,
}

pub fn name(host: usize) -> String {
    format!("n{host}")
}

pub fn id(host: usize) -> NodeId {
    NodeId::of(&Name::new(&name(host)).expect("a good name"))
}

pub fn address(host: usize, link: u8) -> SocketAddr {
    ([10, 77, link, host as u8 + 1], 7577).into()
}

pub fn host_at(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(v4) => usize::from(v4.octets()[3]) - 1,
        IpAddr::V6(_) => unreachable!("links are of IPv4"),
    }
}

pub const fn mac(host: usize) -> Mac {
    [2, 0, 0, 0, 1, host as u8]
}

/// Which of a town's hosts are gateways: the first ones.
pub fn electorate(gateways: usize, hosts: usize) -> Electorate {
    let gateways: Vec<NodeId> = (0..gateways).map(id).collect();
    let nodes = (0..hosts).map(id).collect();
    Electorate {
        gateways,
        nodes,
        others: Vec::new(),
    }
}

fn node(now: Time, host: usize, hosts: usize, seed: [u8; 32]) -> (Node, Vec<Option<PeerId>>) {
    let links = (0..LINKS).map(|link| LinkConfig {
        id: LinkId(link),
        address: address(host, link),
        datagram_bytes_max: 1472,
    });
    let config = NodeConfig {
        name: name(host),
        keys: vec![[7; 32]],
        private: None,
        public: None,
        wire: WireMode::Plain,
        cipher_aes: true,
        receive_buffer_bytes: 4 << 20,
        links: links.collect(),
        op_limits: OpLimits::default(),
        features: FEATURE_RELAYS,
        relay: RelayConfig::default(),
        guests: None,
        congestion: tabane_proto::CongestionControl::default(),
    };
    let mut node = Node::new(now, config, seed).expect("a good configuration");
    let peers = (0..hosts).map(|other| {
        let mut addresses = [None; LINKS_MAX];
        for link in 0..LINKS {
            addresses[usize::from(link)] = Some(address(other, link));
        }
        let peer = PeerConfig {
            name: name(other),
            addresses,
            public: None,
        };
        (other != host).then(|| node.add_peer(now, peer).expect("a good name"))
    });
    let peers = peers.collect();
    (node, peers)
}

impl Host {
    pub fn new(index: usize, clock: Clock, size: (usize, usize)) -> Host {
        let machine = Machine::default();
        {
            let mut state = machine.0.borrow_mut();
            state.mac = mac(index);
            state.outside = ADDRESSES.iter().map(|(address, _)| *address).collect();
        }
        Host {
            index,
            node: None,
            gateway: None,
            clock,
            machine,
            peers: Vec::new(),
            silent: BTreeSet::new(),
            inbox: Vec::new(),
            wake_at: Ns::MAX,
            stopped_until: 0,
            is_on: true,
            is_plugged: true,
            life: 0,
            wants: BTreeSet::new(),
            asked: BTreeMap::new(),
            mutant: None,
            size,
            buffer: vec![0; 65_536],
        }
    }

    /// Its daemon begins. Its programs are known to it later.
    pub fn begin(&mut self, now: Ns, random: &mut Random) {
        let (gateways, hosts) = self.size;
        let local = self.clock.time(now);
        self.life += 1;
        let (node, peers) = node(local, self.index, hosts, random.bytes32());
        let part = Part {
            me: id(self.index),
            life: random.u64(),
            electorate: electorate(gateways, hosts),
            addresses: ADDRESSES.iter().map(|(address, _)| *address).collect(),
            ports_max: 100,
            conversations_max: 1000,
        };
        let devices = Rc::new(self.machine.clone());
        let mut gateway = Gateway::new(local, devices, part);
        let of_peers = peers.iter().enumerate();
        let of_peers = of_peers.filter_map(|(host, peer)| Some((id(host), (*peer)?)));
        let inside =
            (0..hosts).flat_map(|host| (0..LINKS).map(move |link| address(host, link).ip()));
        gateway.set_peers(of_peers, inside.collect());
        (self.node, self.gateway, self.peers) = (Some(node), Some(gateway), peers);
        // As the daemon does when it begins.
        self.machine.0.borrow_mut().has_addresses = false;
        self.look_outside(now);
    }

    /// Its device outside is there, or not.
    pub fn look_outside(&mut self, now: Ns) {
        let site = (self.index < self.size.0 && self.is_plugged).then(|| site(self.index));
        let local = self.clock.time(now);
        if let Some(gateway) = &mut self.gateway {
            gateway.set_site(local, site.ok_or_else(|| "no cable".to_owned()));
        }
    }

    /// Its daemon is gone.
    pub fn daemon_ends(&mut self) {
        // What its end would undo nobody undoes.
        self.machine.0.borrow_mut().is_dead = true;
        (self.node, self.gateway) = (None, None);
        self.machine.0.borrow_mut().daemon_ends();
        self.inbox.clear();
        self.silent.clear();
        self.asked.clear();
        (self.wake_at, self.stopped_until) = (Ns::MAX, 0);
    }

    /// The supervisor of its programs has found the daemon.
    pub fn join(&mut self, now: Ns) {
        let local = self.clock.time(now);
        let (Some(gateway), Some(node)) = (&mut self.gateway, &mut self.node) else {
            return;
        };
        gateway.begin(PLACE, 1000, Box::new(self.machine.clone()));
        for want in self.wants.clone() {
            let transport = if want.is_tcp {
                Transport::Tcp
            } else {
                Transport::Udp
            };
            let anywhere = (IpAddr::from([0_u16; 8]), want.number);
            let how = (false, false);
            if let Some(id) = gateway.claim(local, node, PLACE, transport, anywhere, how) {
                self.asked.insert(id, (want, now));
            }
        }
    }

    /// Whether it serves, as the votes are now.
    pub fn serves(&self, now: Ns) -> bool {
        let gateway = self.gateway.as_ref();
        gateway.is_some_and(|it| it.election.serves(self.clock.time(now)).is_some())
    }

    /// Whether it could.
    pub fn is_able(&self) -> bool {
        self.gateway
            .as_ref()
            .is_some_and(|it| it.election.is_able())
    }

    /// One turn of the daemon's loop: all that waits is taken in, and all that is to be said comes out.
    pub fn turn(&mut self, now: Ns) -> Turned {
        let mut turned = Turned::default();
        let local = self.clock.time(now);
        let (Some(mut node), Some(mut gateway)) = (self.node.take(), self.gateway.take()) else {
            return turned;
        };
        self.machine.0.borrow_mut().now = now;
        for (link, from, mut bytes) in core::mem::take(&mut self.inbox) {
            node.handle_datagram(local, LinkId(link), from, &mut bytes);
        }
        self.deliver(local, &mut node, &mut gateway);
        for count in 0.. {
            if node.poll_timeout().is_some_and(|at| at <= local) {
                node.handle_timeout(local);
            }
            self.look_what_waits(&mut gateway);
            self.tamper(local, &mut gateway);
            let more = gateway.turn(local, &mut node);
            self.take_answers(now, &mut gateway, &mut turned);
            self.send(local, &mut node, &mut turned);
            let heard = self.deliver(local, &mut node, &mut gateway);
            let is_due = node.poll_timeout().is_some_and(|at| at <= local);
            if !more && !heard && !is_due {
                break;
            }
            if count == TURNS_MAX {
                turned.broken = Some(format!("host {} is never done", self.index));
                break;
            }
        }
        turned.lines = gateway.take_lines();
        let patience = self.clock.time(now) + core::time::Duration::from_secs(1);
        let due = [node.poll_timeout(), gateway.next_timeout(), Some(patience)];
        let due = due.into_iter().flatten().min().expect("it has patience");
        let room_at = self.machine.0.borrow().room_at().unwrap_or(Ns::MAX);
        self.wake_at = self
            .clock
            .instant(now, due)
            .max(now + 1)
            .min(room_at.max(now + 1));
        (self.node, self.gateway) = (Some(node), Some(gateway));
        if self.machine.0.borrow().is_dead {
            turned.datagrams.clear();
        }
        turned
    }

    /// What the poller would say.
    fn look_what_waits(&self, gateway: &mut Gateway) {
        let state = self.machine.0.borrow();
        if state.has_heard() {
            gateway.can_receive();
        }
        if !state.from_programs.is_empty() {
            gateway.can_read(PLACE);
        }
    }

    fn take_answers(&mut self, now: Ns, gateway: &mut Gateway, turned: &mut Turned) {
        while let Some((id, result)) = gateway.poll_claimed() {
            if let Some((want, since)) = self.asked.remove(&id) {
                turned.claimed.push((want, result, now - since));
            }
        }
        while gateway.poll_owner().is_some() {}
        while gateway.poll_given().is_some() {}
    }

    fn send(&mut self, local: Time, node: &mut Node, turned: &mut Turned) {
        let is_dead = self.machine.0.borrow().is_dead;
        while let Some(t) = node.poll_transmit(local, &mut self.buffer) {
            for bytes in self.buffer[..t.bytes]
                .chunks(t.segment_bytes)
                .filter(|_| !is_dead)
            {
                turned.datagrams.push((t.link.0, t.to, bytes.to_vec()));
            }
        }
    }

    /// Tells the gateway what the node has for it. Returns whether there was anything.
    fn deliver(&mut self, local: Time, node: &mut Node, gateway: &mut Gateway) -> bool {
        let mut heard = false;
        while let Some(event) = node.poll_event() {
            match event {
                Event::PeerUp { peer, restarted } => gateway.peer_up(local, peer, restarted),
                Event::PeerDown { peer, .. } => gateway.peer_down(local, peer),
                Event::LinkUp { peer, .. } | Event::LinkDown { peer, .. } => {
                    self.link_changed(node, gateway, peer);
                }
                Event::Op {
                    peer,
                    event: OpEvent::MessageReady,
                } => gateway.hear(local, node, peer),
                _ => continue,
            }
            heard = true;
        }
        while let Some((from, mut frame)) = node.receive_frame() {
            if carriage::is_packet(&frame) {
                gateway.carried(local, from, &mut frame);
                heard = true;
            }
            node.recycle_frame(frame);
        }
        heard
    }

    /// As `Agent::link_changed`.
    fn link_changed(&mut self, node: &Node, gateway: &mut Gateway, peer: PeerId) {
        let is_silent = is_without_links(node, peer);
        let has_changed = match is_silent {
            true => self.silent.insert(peer),
            false => self.silent.remove(&peer),
        };
        if has_changed {
            gateway.set_away(peer, is_silent);
        }
    }
}

/// As `crate::agent::relays::without_links`.
fn is_without_links(node: &Node, peer: PeerId) -> bool {
    let Some(stats) = node.peer_stats(peer) else {
        return false;
    };
    let works = |state| matches!(state, PathState::Up | PathState::Suspect);
    match stats.paths.is_empty() {
        true => stats.state == PeerState::Down,
        false => !stats.paths.iter().any(|path| works(path.state)),
    }
}

fn site(host: usize) -> Site {
    Site {
        device: "ext0".to_owned(),
        index: 7,
        mac: mac(host),
        addresses: ADDRESSES.to_vec(),
        routers: Vec::new(),
        queue_bytes: 64 * 1024,
        rate_bps: None,
        is_fair: true,
        ports_max: 100,
        conversations_max: 1000,
    }
}
