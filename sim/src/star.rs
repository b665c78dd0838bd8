//! One node that meets very many: a hub, its spokes, and switches that lose nothing.
//!
//! The hub's processor time is measured around the calls that a driver makes. Time is virtual: the
//! same star does the same, event by event.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::agenda::{Agenda, Datagram, sends, take_in};
use tabane_proto::op::{OpEvent, OpLimits};
use tabane_proto::wire::WireMode;
use tabane_proto::{
    Event, LinkConfig, LinkId, Node, NodeConfig, PeerConfig, PeerId, RelayConfig, Time,
};

/// Links of everybody.
pub const LINKS: u8 = 2;
/// The way from anyone to anyone.
const DELAY_NS: u64 = 50_000;
/// Everybody's links carry 1 Gb/s.
const NS_PER_BYTE: u64 = 8;
/// A process wakes up this often at most, and takes in what has arrived until then.
const WAKE_NS: u64 = 20_000;
/// When everybody starts.
pub(crate) const ORIGIN: Time = Time::from_ms(1000);

/// What the hub did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Processor time, as far as nobody else had the processor.
    pub time: Duration,
    /// Datagrams it sent.
    pub sent: u64,
    /// Turns of its loop.
    pub turns: u64,
}

struct Spoke {
    node: Node,
    wake_at: Time,
    is_up: bool,
}

/// A hub and its spokes. Host 0 is the hub, host *n* the *n*th spoke.
pub struct Star {
    now: Time,
    hub: Node,
    hub_wake_at: Time,
    /// The hub's number for each spoke.
    peers: Vec<PeerId>,
    spokes: Vec<Spoke>,
    agenda: Agenda,
    /// Until then the hub's switch ports are busy.
    ports: [u64; LINKS as usize],
    buffer: Vec<u8>,
    work: Work,
    /// Hosts whose word alone counts as work for the hub, if not all.
    watched: Option<usize>,
    up: usize,
}

impl Star {
    /// A hub that knows `known` peers, of which the first `spokes` are there. All start at once.
    pub fn new(known: usize, spokes: usize) -> Star {
        let mut star = Star {
            now: ORIGIN,
            hub: node(0),
            hub_wake_at: Time::NEVER,
            peers: Vec::new(),
            spokes: Vec::new(),
            agenda: Agenda::default(),
            ports: [0; LINKS as usize],
            buffer: vec![0; 65_535],
            work: Work::default(),
            watched: None,
            up: 0,
        };
        for host in 1..=spokes {
            let mut node = node(host);
            node.add_peer(ORIGIN, peer(0)).expect("a good name");
            star.spokes.push(Spoke {
                node,
                wake_at: Time::NEVER,
                is_up: false,
            });
        }
        let began = Instant::now();
        for host in 1..=known {
            let id = star.hub.add_peer(ORIGIN, peer(host));
            star.peers.push(id.expect("a good name"));
        }
        star.work.time += began.elapsed();
        (0..=spokes).for_each(|host| star.turn(host, Vec::new()));
        star
    }

    /// How long it runs already.
    pub const fn age(&self) -> Duration {
        self.now.since(ORIGIN)
    }

    /// Peers that both ends say are up.
    pub fn up(&self) -> usize {
        self.up.min(self.spokes.iter().filter(|s| s.is_up).count())
    }

    /// What the hub did since this was last asked.
    pub fn take_work(&mut self) -> Work {
        core::mem::take(&mut self.work)
    }

    /// From now on only what concerns this spoke counts as the hub's work; `None`: all does.
    pub const fn watch(&mut self, spoke: Option<usize>) {
        self.watched = spoke;
    }

    /// The hub.
    pub const fn hub(&self) -> &Node {
        &self.hub
    }

    /// The hub goes; everybody else stays.
    pub fn without_hub(self) -> impl Sized {
        drop(self.hub);
        (self.spokes, self.agenda)
    }

    /// Runs for so long.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        self.run_while(until, |_| true);
        self.now = until;
    }

    /// Runs until `until`, or until `wanted` says no after a turn.
    fn run_while(&mut self, until: Time, mut wanted: impl FnMut(&Star) -> bool) {
        while wanted(self)
            && let Some((at, host, datagrams)) = self.agenda.next_until(until)
        {
            self.now = at;
            let wake_at = match host {
                0 => self.hub_wake_at,
                _ => self.spokes[host - 1].wake_at,
            };
            if !datagrams.is_empty() || wake_at <= at {
                self.turn(host, datagrams);
            }
        }
    }

    /// Runs until all spokes are up, for `patience` at most.
    pub fn run_until_all_are_up(&mut self, patience: Duration) {
        let (until, all) = (self.now + patience, self.spokes.len());
        self.run_while(until, |star| star.up() < all);
    }

    /// One turn of a host's loop.
    fn turn(&mut self, host: usize, datagrams: Vec<Datagram>) {
        let counts = self
            .watched
            .is_none_or(|spoke| datagrams.iter().any(|d| host_at(d.from) == spoke));
        self.drive(host, counts, |node, now| take_in(node, now, datagrams));
    }

    /// The hub's driver does `act`, and what is to be done after it.
    pub fn hub_does(&mut self, act: impl FnOnce(&mut Node, Time)) {
        self.drive(0, true, act);
    }

    /// The hub sends a spoke (from 1 on) a message.
    pub fn message(&mut self, spoke: usize, data: &[u8]) {
        let peer = self.peers[spoke - 1];
        self.hub_does(|node, now| {
            let policy = tabane_proto::op::Policy::Stripe;
            let sent = node.send_message(now, peer, 0, None, data, policy);
            sent.expect("there is room for it");
        });
    }

    /// A host's driver does `act`, then drains its node as the driver contract asks.
    fn drive(&mut self, host: usize, counts: bool, act: impl FnOnce(&mut Node, Time)) {
        let now = self.now;
        let (mut up, mut arrived) = (0_isize, Vec::new());
        let node = match host {
            0 => &mut self.hub,
            _ => &mut self.spokes[host - 1].node,
        };
        let began = Instant::now();
        act(node, now);
        let outbox = sends(node, now, &mut self.buffer);
        while let Some(event) = node.poll_event() {
            match event {
                Event::PeerUp { .. } => up += 1,
                Event::PeerDown { .. } => up -= 1,
                Event::Op {
                    peer,
                    event: OpEvent::MessageReady,
                } => arrived.push(peer),
                _ => {}
            }
        }
        for peer in arrived {
            while node.receive_message(now, peer).is_some() {}
        }
        let timeout = node.poll_timeout();
        if host == 0 {
            if counts {
                self.work.time += began.elapsed();
                self.work.turns += 1;
            }
            self.work.sent += outbox.len() as u64;
            self.up = self.up.checked_add_signed(up).expect("as many as came");
            self.hub_wake_at = timeout.unwrap_or(Time::NEVER);
        } else {
            let spoke = &mut self.spokes[host - 1];
            spoke.is_up = if up == 0 { spoke.is_up } else { up > 0 };
            spoke.wake_at = timeout.unwrap_or(Time::NEVER);
        }
        if let Some(at) = timeout {
            self.agenda
                .plan(at.max(now + Duration::from_nanos(1)), host, None);
        }
        for (link, to, bytes) in outbox {
            self.carry(host, link, to, bytes);
        }
    }

    /// A datagram is under way to the host that has this address, if that one is there.
    fn carry(&mut self, from: usize, link: LinkId, to: SocketAddr, bytes: Vec<u8>) {
        let to = host_at(to);
        if to > self.spokes.len() {
            return;
        }
        let mut at_ns = self.now.as_ns() + DELAY_NS;
        if to == 0 {
            let port = &mut self.ports[link.index()];
            at_ns = at_ns.max(*port) + bytes.len() as u64 * NS_PER_BYTE;
            *port = at_ns;
        }
        let at = Time::from_ns(at_ns.next_multiple_of(WAKE_NS));
        let datagram = Datagram {
            link: link.0,
            from: address(from, link.0),
            bytes,
        };
        self.agenda.plan(at, to, Some(datagram));
    }

    /// The number of a spoke that is up, from 1 on: a different one each time.
    pub const fn other(&self, nth: usize) -> usize {
        1 + nth % self.spokes.len()
    }
}

pub(crate) fn address(host: usize, link: u8) -> SocketAddr {
    SocketAddr::from(([10, link, (host >> 8) as u8, host as u8], 7117))
}

pub(crate) fn host_at(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(at) => {
            let [_, _, high, low] = at.ip().octets();
            usize::from(high) << 8 | usize::from(low)
        }
        SocketAddr::V6(_) => usize::MAX,
    }
}

/// Half of the spokes have names before the hub's, which decides whose call counts.
fn name(host: usize) -> String {
    match host {
        0 => "h".into(),
        _ if host.is_multiple_of(2) => format!("a{host}"),
        _ => format!("n{host}"),
    }
}

fn peer(host: usize) -> PeerConfig {
    peer_named(name(host), host)
}

/// A host under a name of its own.
pub(crate) fn peer_named(name: String, host: usize) -> PeerConfig {
    let mut peer = PeerConfig {
        name,
        addresses: Default::default(),
        public: None,
    };
    for link in 0..LINKS {
        peer.addresses[usize::from(link)] = Some(address(host, link));
    }
    peer
}

pub(crate) fn config(host: usize) -> NodeConfig {
    NodeConfig {
        name: name(host),
        keys: vec![[7; 32]],
        private: None,
        public: None,
        wire: WireMode::Encrypted,
        cipher_aes: true,
        receive_buffer_bytes: 4 << 20,
        links: (0..LINKS).map(|id| link(host, id)).collect(),
        op_limits: OpLimits::default(),
        features: 0,
        relay: RelayConfig::default(),
        guests: None,
        congestion: tabane_proto::CongestionControl::default(),
    }
}

pub(crate) fn seed(host: usize) -> [u8; 32] {
    let mut seed = [1; 32];
    seed[..8].copy_from_slice(&(host as u64).to_le_bytes());
    seed
}

fn node(host: usize) -> Node {
    Node::new(ORIGIN, config(host), seed(host)).expect("a good configuration")
}

fn link(host: usize, id: u8) -> LinkConfig {
    LinkConfig {
        id: LinkId(id),
        address: address(host, id),
        datagram_bytes_max: 1472,
    }
}
