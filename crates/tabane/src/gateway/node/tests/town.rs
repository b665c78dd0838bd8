//! A cluster and its outside in virtual time: the real nodes and gateways, and around them wires, kernels and programs.

mod kernels;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use tabane_proto::{Node, Time};
use tabane_sim::net::{Clock, Events, MS, Ns, US};
use tabane_sim::{Random, mix};

use super::CLIENTS;
use super::host::{Host, Want, address, host_at};
use super::machine::refusal;
use super::mutant::Mutant;
use super::outside::{Client, Port, Switch, client_address, speaks_for_cluster};
use super::packets::{Said, cut};
use super::talk::{Kind, Side};
use crate::gateway::node::Gateway;
use crate::vswitch::frame::ETHERNET_BYTES;

/// From one node to another: so long, and up to so much longer.
const INSIDE_NS: (Ns, Ns) = (50 * US, 30 * US);
/// Through the switch outside, as well.
const OUTSIDE_NS: (Ns, Ns) = (60 * US, 60 * US);
/// From something's arrival to the turn of the loop that takes it in.
const WAKES_NS: Ns = 20 * US;
/// A service manager starts a daemon anew after this, and its programs' supervisors find it within so much more.
const RESTARTS_AFTER: Ns = 150 * MS;
const FOUND_WITHIN: Ns = 1000 * MS;
/// A machine has booted after this.
const BOOTS_AFTER: Ns = 600 * MS;
/// Who must wait for a port as long had no gateway to ask (`PATIENCE` of claims.rs).
const UNASKED_AFTER: Ns = 900 * MS;

/// Where an end of a conversation is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Seat {
    /// With a client.
    Outside(usize),
    /// With the programs of a host.
    Host(usize),
}

/// What is to happen.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Datagram(usize, u8, SocketAddr, Vec<u8>),
    Wake(usize),
    /// A frame comes out at a port of the switch.
    Frame(Port, Vec<u8>),
    /// A timer of an end.
    Timer(usize, usize),
    /// A daemon begins, if the host has not begun another life.
    Begin(usize, u32),
    /// Its programs' supervisor finds it.
    Join(usize, u32),
    /// A kernel tells of the device outside.
    Look(usize),
}

/// A conversation.
pub struct Conversation {
    pub kind: Kind,
    /// The host with the program, and the client.
    pub host: usize,
    pub began: Ns,
    /// Who has begun it, and the other one, when it was reached.
    pub sides: [Option<Side>; 2],
    pub seats: [Seat; 2],
    /// It may be reset: a machine with one of its ends is gone.
    pub is_excused: bool,
    due: [Ns; 2],
}

impl Conversation {
    /// It was reset, or nothing is left to be said.
    pub fn is_over(&self) -> bool {
        self.is_excused || self.is_done()
    }

    fn is_reset(&self) -> bool {
        let is_reset = |side: &Side| matches!(side, Side::Tcp(end) if end.is_reset);
        self.sides.iter().flatten().any(is_reset)
    }

    pub fn is_done(&self) -> bool {
        self.sides
            .iter()
            .all(|side| side.as_ref().is_some_and(Side::is_done))
    }
}

/// How a gateway fails, and whether its machine comes back by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    Daemon,
    Machine,
    Cable,
}

pub struct Town {
    pub now: Ns,
    pub seed: u64,
    pub hosts: Vec<Host>,
    pub random: Random,
    events: Events<What>,
    /// Nothing passes from one to the other on a link.
    pub cut: BTreeSet<(usize, usize, u8)>,
    /// How long a datagram is under way at least, and up to how much longer.
    pub inside: (Ns, Ns),
    switch: Switch,
    last_at: BTreeMap<Port, Ns>,
    clients: Vec<Client>,
    pub conversations: Vec<Conversation>,
    /// Which end a packet is for that comes to a seat.
    table: BTreeMap<(Seat, bool, SocketAddr, SocketAddr), (usize, usize)>,
    /// By the first number of whoever begins.
    by_first: BTreeMap<u32, usize>,
    /// Who has which port, as the gateway has told programs.
    pub given: BTreeMap<Want, BTreeSet<usize>>,
    /// A gateway that fails by a fuse fails so.
    pub crash: Crash,
    /// When the last one has failed.
    pub failed_at: Option<Ns>,
    pub crashes: u32,
    pub mutant: Option<(usize, Mutant)>,
    /// Connections may be reset: a gateway that has begun waits for 300 ms to hear what a node has, and not for longer. And how many were.
    pub may_reset: bool,
    pub resets: u32,
    /// The ports that kernels have chosen last: outside, and at each host.
    next_port: u16,
    begins_at: Vec<u16>,
    sent: u64,
    pub broken: Option<String>,
    pub digest: u64,
    pub traces: bool,
}

impl Town {
    /// So many hosts, the first ones of which are gateways; every host's programs listen at ports of their own.
    pub fn new(
        seed: u64,
        (gateways, hosts): (usize, usize),
        mutant: Option<(usize, Mutant)>,
    ) -> Town {
        let mut random = Random::new(mix(seed));
        let mut all = Vec::new();
        for index in 0..hosts {
            let rate = random.between(0, 400) as i64 - 200;
            let shows = random.between(1000 * MS, 100_000 * MS);
            let mut host = Host::new(index, Clock::new(0, shows, rate), (gateways, hosts));
            host.mutant = mutant
                .filter(|(of, _)| *of == index)
                .map(|(_, mutant)| mutant);
            for is_tcp in [true, false] {
                host.wants.insert(Want {
                    is_tcp,
                    number: listens_at(index),
                });
            }
            all.push(host);
        }
        let mut town = Town {
            now: 0,
            seed,
            hosts: all,
            random,
            events: Events::default(),
            cut: BTreeSet::new(),
            inside: INSIDE_NS,
            switch: Switch::default(),
            last_at: BTreeMap::new(),
            clients: (0..CLIENTS).map(Client::new).collect(),
            conversations: Vec::new(),
            table: BTreeMap::new(),
            by_first: BTreeMap::new(),
            given: BTreeMap::new(),
            crash: Crash::Daemon,
            failed_at: None,
            crashes: 0,
            mutant,
            may_reset: false,
            resets: 0,
            next_port: 20_000,
            begins_at: vec![32_768; hosts],
            sent: 0,
            broken: None,
            digest: 0,
            traces: std::env::var_os("TABANE_SIM_TRACE").is_some(),
        };
        for host in 0..hosts {
            town.plan(0, What::Begin(host, 0));
        }
        town
    }

    pub fn plan(&mut self, after: Ns, what: What) {
        self.events.plan(self.now + after, what);
    }

    /// A promise was not kept.
    pub fn fail(&mut self, what: impl Into<String>) {
        let (seed, at) = (self.seed, self.now / US);
        let what = what.into();
        self.broken
            .get_or_insert_with(|| format!("seed {seed}, at {at} us: {what}"));
    }

    pub fn trace(&self, what: impl FnOnce() -> String) {
        if self.traces {
            eprintln!("{:>9} us: {}", self.now / US, what());
        }
    }

    /// Goes on until then, or until a promise is not kept.
    pub fn run_until(&mut self, end: Ns) {
        while self.broken.is_none() {
            let Some((at, what)) = self.events.next_before(end + 1) else {
                self.now = end;
                return;
            };
            self.now = at;
            match what {
                What::Datagram(to, link, from, bytes) => self.datagram(to, link, from, bytes),
                What::Wake(host) => {
                    if self.hosts[host].wake_at <= at {
                        self.turn(host);
                    }
                }
                What::Frame(port, frame) => self.frame(port, &frame),
                What::Timer(conversation, side) => self.timer(conversation, side),
                What::Begin(host, life) => self.begin(host, life),
                What::Join(host, life) if self.hosts[host].life == life => {
                    self.hosts[host].join(at);
                    self.turn(host);
                }
                What::Join(..) => {}
                What::Look(host) => {
                    self.hosts[host].look_outside(at);
                    self.turn(host);
                }
            }
        }
    }

    /// Goes on until something is so, at most so long. Returns whether it is.
    pub fn run_while(&mut self, most: Ns, goes_on: impl Fn(&Town) -> bool) -> bool {
        let end = self.now + most;
        while goes_on(self) {
            if self.now >= end || self.broken.is_some() {
                return false;
            }
            self.run_until((self.now + MS).min(end));
        }
        true
    }

    /// The gateway that serves.
    pub fn serving(&self) -> Option<usize> {
        let serves = |host: &&Host| host.serves(self.now);
        self.hosts.iter().find(serves).map(|host| host.index)
    }

    // ---- inside ----

    fn begin(&mut self, host: usize, life: u32) {
        let here = &mut self.hosts[host];
        if here.life != life || here.node.is_some() {
            return;
        }
        here.is_on = true;
        here.begin(self.now, &mut self.random);
        let life = here.life;
        // Programs that are there already are found; others begin.
        let found = self.random.between(20 * MS, FOUND_WITHIN);
        let found = if life == 1 { 20 * MS } else { found };
        self.plan(found, What::Join(host, life));
        self.turn(host);
    }

    fn datagram(&mut self, to: usize, link: u8, from: SocketAddr, bytes: Vec<u8>) {
        self.digest = mix(self.digest ^ self.now ^ to as u64);
        let host = &mut self.hosts[to];
        if host.node.is_none() || host.inbox.len() > 4096 {
            return;
        }
        host.inbox.push((link, from, bytes));
        self.wake(to);
    }

    fn wake(&mut self, host: usize) {
        let at = self.now + WAKES_NS;
        let here = &mut self.hosts[host];
        if here.node.is_some() && at < here.wake_at {
            here.wake_at = at;
            self.events.plan(at, What::Wake(host));
        }
    }

    fn turn(&mut self, host: usize) {
        let here = &mut self.hosts[host];
        if here.node.is_none() {
            return;
        }
        if here.stopped_until > self.now {
            here.wake_at = here.stopped_until;
            let at = here.wake_at;
            return self.events.plan(at, What::Wake(host));
        }
        let turned = here.turn(self.now);
        let at = here.wake_at;
        self.events.plan(at, What::Wake(host));
        for line in &turned.lines {
            self.trace(|| format!("host {host}: {line}"));
        }
        if let Some(broken) = turned.broken {
            self.fail(broken);
        }
        for (link, to, bytes) in turned.datagrams {
            let to = host_at(to);
            if self.cut.contains(&(host, to, link)) {
                continue;
            }
            let takes = self.inside.0 + self.random.below(self.inside.1);
            self.plan(takes, What::Datagram(to, link, address(host, link), bytes));
        }
        for (want, result, took) in turned.claimed {
            self.claimed(host, want, result.is_ok(), took);
        }
        self.look_at_machine(host);
    }

    /// What a host's daemon has done to its machine takes effect.
    fn look_at_machine(&mut self, host: usize) {
        let mut state = self.hosts[host].machine.0.borrow_mut();
        let spoken = core::mem::take(&mut state.spoken);
        let given = core::mem::take(&mut state.given);
        let to_programs = core::mem::take(&mut state.to_programs);
        let wrong = state.wrong.take();
        let is_dead = state.is_dead || state.dies;
        drop(state);
        if let Some(wrong) = wrong {
            self.fail(format!("host {host}: {wrong}"));
        }
        for (at, frame) in spoken {
            for frame in cut(&frame) {
                for frame in self.tampered(host, frame) {
                    self.speaks(host, at, frame);
                }
            }
        }
        for packet in given {
            self.kernel_hears(host, &packet);
        }
        for packet in to_programs {
            self.kernel_of(Seat::Host(host), &packet);
        }
        if is_dead {
            self.crash(host, self.crash);
        }
    }

    /// What a mutant does to a frame that leaves.
    fn tampered(&mut self, host: usize, mut frame: Vec<u8>) -> Vec<Vec<u8>> {
        let Some((_, mutant)) = self.mutant.filter(|(of, _)| *of == host) else {
            return vec![frame];
        };
        let (ethernet, packet) = frame.split_at(ETHERNET_BYTES);
        let said = match packet[0] >> 4 {
            4 => Said::parse(packet).ok().flatten(),
            _ => None,
        };
        let Some(mut said) = said else {
            return vec![frame];
        };
        self.sent += 1;
        let is_its_turn = self.sent.is_multiple_of(16);
        match mutant {
            Mutant::Doubles if said.tcp.is_none() => return vec![frame.clone(), frame],
            Mutant::Changes if is_its_turn && !said.data.is_empty() => {
                if let Some(last) = said.data.last_mut() {
                    *last ^= 1;
                }
            }
            Mutant::AcknowledgesMore if is_its_turn => {
                if let Some(tcp) = &mut said.tcp {
                    tcp.acknowledged = tcp.acknowledged.wrapping_add(100);
                }
            }
            _ => return vec![frame],
        }
        frame = [ethernet, &said.packet()].concat();
        vec![frame]
    }

    fn claimed(&mut self, host: usize, want: Want, has: bool, took: Ns) {
        self.trace(|| format!("host {host}: {want:?} {has} after {} us", took / US));
        if !has {
            return;
        }
        let holders = self.given.entry(want).or_default();
        holders.insert(host);
        if holders.len() > 1 && took < UNASKED_AFTER {
            let what = format!("{want:?} was given to hosts {holders:?}");
            self.fail(what);
        }
    }

    // ---- outside ----

    /// A gateway's machine sends a frame outside.
    fn speaks(&mut self, host: usize, at: Ns, frame: Vec<u8>) {
        if speaks_for_cluster(&frame) {
            let is_other = |other: &&Host| other.index != host && other.serves(self.now);
            if let Some(other) = self.hosts.iter().find(is_other).map(|other| other.index) {
                self.fail(format!(
                    "host {host} speaks for the outside addresses while host {other} serves"
                ));
            }
        }
        if self.hosts[host].is_plugged && self.hosts[host].is_on {
            self.passes(host, at, &frame);
        }
    }

    fn passes(&mut self, from: Port, at: Ns, frame: &[u8]) {
        let ports = self.hosts.len() + self.clients.len();
        for port in self.switch.passes(from, frame, ports) {
            let takes = OUTSIDE_NS.0 + self.random.below(OUTSIDE_NS.1);
            let last = self.last_at.entry(port).or_default();
            *last = (at.max(self.now) + takes).max(*last + 1);
            self.events.plan(*last, What::Frame(port, frame.to_vec()));
        }
    }

    fn frame(&mut self, port: Port, frame: &[u8]) {
        self.digest = mix(self.digest ^ self.now ^ (port as u64) << 32);
        let hosts = self.hosts.len();
        if port >= hosts {
            return self.client_hears(port - hosts, frame);
        }
        let host = &mut self.hosts[port];
        if !host.is_plugged || !host.is_on {
            return;
        }
        let mut state = host.machine.0.borrow_mut();
        state.hears(frame);
        let is_heard = state.has_heard();
        // A kernel that is not kept silent answers itself.
        let is_for_it = frame[..6] == state.mac;
        let answers = state.has_addresses
            && !state.is_silent
            && is_for_it
            && frame[12] == 8
            && frame[13] != 6;
        drop(state);
        if answers {
            self.kernel_hears(port, &frame[14..]);
        }
        if is_heard {
            self.wake(port);
        }
    }

    /// The kernel of a gateway's machine has nobody for what comes for the outside addresses.
    fn kernel_hears(&mut self, host: usize, packet: &[u8]) {
        let Some(refused) = refusal(packet) else {
            return;
        };
        self.trace(|| format!("the kernel of host {host} refuses {refused:?}"));
        let to = self
            .client_of(refused.to)
            .map(|client| self.clients[client].mac);
        let state = self.hosts[host].machine.0.borrow();
        let (mac, speaks) = (state.mac, state.has_addresses);
        drop(state);
        if let Some(to) = to.filter(|_| speaks) {
            self.speaks(
                host,
                self.now,
                super::packets::ethernet(to, mac, &refused.packet()),
            );
        }
    }

    fn client_of(&self, address: SocketAddr) -> Option<usize> {
        (0..self.clients.len())
            .find(|client| client_address(*client, address.is_ipv4()) == address.ip())
    }

    fn local(&self) -> Time {
        Time::from_ns(self.now + 1_000_000_000)
    }

    fn client_hears(&mut self, client: usize, frame: &[u8]) {
        let now = self.local();
        let (frames, packet) = self.clients[client].hears(now, frame);
        let packet = packet.map(<[u8]>::to_vec);
        for frame in frames {
            self.passes(self.hosts.len() + client, self.now, &frame);
        }
        if let Some(packet) = packet {
            self.kernel_of(Seat::Outside(client), &packet);
        }
    }

    // ---- faults ----

    /// A daemon is told something by its operator.
    pub fn at_daemon(&mut self, host: usize, tell: impl FnOnce(Time, &mut Node, &mut Gateway)) {
        let here = &mut self.hosts[host];
        let local = here.clock.time(self.now);
        if let (Some(node), Some(gateway)) = (&mut here.node, &mut here.gateway) {
            tell(local, node, gateway);
            self.turn(host);
        }
    }

    /// A host fails.
    pub fn crash(&mut self, host: usize, crash: Crash) {
        self.trace(|| format!("host {host} fails: {crash:?}"));
        self.failed_at = Some(self.now);
        self.crashes += 1;
        let life = self.hosts[host].life;
        if crash != Crash::Cable {
            // Its programs have ports again when they have found the next daemon.
            for holders in self.given.values_mut() {
                holders.remove(&host);
            }
        }
        match crash {
            Crash::Cable => {
                self.plug(host, false);
                let mut state = self.hosts[host].machine.0.borrow_mut();
                (state.is_dead, state.dies, state.fuse) = (false, false, None);
            }
            Crash::Daemon => {
                self.hosts[host].daemon_ends();
                if self.hosts[host].mutant == Some(Mutant::KernelSpeaks) {
                    self.hosts[host].machine.0.borrow_mut().is_silent = false;
                }
                self.plan(RESTARTS_AFTER, What::Begin(host, life));
            }
            Crash::Machine => {
                let here = &mut self.hosts[host];
                here.daemon_ends();
                here.machine.0.borrow_mut().power_ends();
                here.is_on = false;
                self.switch.unplugged(host);
                self.table.retain(|(seat, ..), _| *seat != Seat::Host(host));
                for one in self
                    .conversations
                    .iter_mut()
                    .filter(|one| one.host == host && !one.is_done())
                {
                    one.is_excused = true;
                    let side = usize::from(one.seats[1] == Seat::Host(host));
                    one.sides[side] = None;
                }
                self.plan(BOOTS_AFTER, What::Begin(host, life));
            }
        }
    }

    /// The cable of a host's device outside is put in, or comes out: its kernel tells soon.
    pub fn plug(&mut self, host: usize, is_plugged: bool) {
        self.hosts[host].is_plugged = is_plugged;
        if !is_plugged {
            self.switch.unplugged(host);
        }
        self.plan(2 * MS, What::Look(host));
    }
}

/// The port of TCP and UDP at which programs of a host listen.
pub const fn listens_at(host: usize) -> u16 {
    8000 + host as u16
}
