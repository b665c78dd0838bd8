//! The run of a plan: nodes, the network between them, and time.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use tabane_proto::op::{OpLimits, Policy};
use tabane_proto::wire::WireMode;
use tabane_proto::{
    DownReason, Event, Guests, Joining, LinkConfig, LinkId, Node, NodeConfig, PeerId, RelayConfig,
    Time,
};

use super::Mutant;
use super::check::{
    Broken, FORGET_AFTER, FORGOTTEN_WITHIN, KNOWN_AGAIN_WITHIN, KNOWN_WITHIN, Ledger, Life, Number,
    Rule,
};
use super::draw::{Action, LINKS, Plan, SEEDS};
use crate::net::{Events, MS, Ns, SECOND, US};
use crate::random::{Random, mix};

/// When a node that leaves has told all others.
const LEAVES_NS: Ns = 300 * MS;
/// A node sends to each other one so often, and the checkers look.
const SENDS_EVERY: Ns = 50 * MS;
/// On the way from anyone to anyone: so long, and up to so much longer.
const DELAY_NS: (Ns, Ns) = (40 * US, 40 * US);
/// Relays that a way has at most.
const RELAYS_MAX: usize = 3;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first broken promise, if any.
    pub broken: Option<Broken>,
    /// Messages that arrived.
    pub arrived: u64,
    /// The longest wait of one that had a way all the time.
    pub longest_wait: Ns,
    /// Tells one run from another.
    pub digest: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A datagram is at this place, on this link, from there.
    Datagram(usize, u8, SocketAddr, Vec<u8>),
    /// A node's timer.
    Wake(usize),
    /// It has left.
    Gone(usize, u32),
    /// The plan's action with this index.
    Act(usize),
    /// Nodes send to each other; the checkers look.
    Tick,
}

struct Host {
    node: Node,
    /// Who is connected, as far as it knows.
    peers: BTreeMap<PeerId, Life>,
    since: Ns,
    wake_at: Ns,
    leaves: bool,
    /// A message that is handed on after the next one.
    held: Option<(Life, Number)>,
    handed: u64,
    /// It does nothing until then.
    dawdles_until: Ns,
}

struct Town<'a> {
    plan: &'a Plan,
    mutant: Option<(usize, Mutant)>,
    now: Ns,
    events: Events<What>,
    random: Random,
    hosts: Vec<Option<Host>>,
    lives: Vec<u32>,
    /// Places that are empty: since when, and whether the last one left. Known to whom is to be forgotten.
    empty_since: Vec<(Ns, bool)>,
    silent: Vec<[bool; LINKS]>,
    parted: bool,
    /// When nodes were parted or joined together last.
    parted_at: Ns,
    /// Since when there is a way between two places.
    ways: Vec<Vec<Option<Ns>>>,
    ledger: Ledger,
    buffer: Vec<u8>,
    digest: u64,
}

/// Runs a plan.
#[must_use]
pub fn run(plan: &Plan, mutant: Option<(usize, Mutant)>) -> Outcome {
    let mut town = Town::new(plan, mutant);
    let broken = town.go().err();
    Outcome {
        broken,
        arrived: town.ledger.arrived,
        longest_wait: town.ledger.longest_wait,
        digest: town.digest,
    }
}

fn address(place: usize, link: u8) -> SocketAddr {
    ([10, 77, link, place as u8 + 1], 7577).into()
}

fn time(ns: Ns) -> Time {
    Time::from_ms(1000) + Duration::from_nanos(ns)
}

impl<'a> Town<'a> {
    fn new(plan: &'a Plan, mutant: Option<(usize, Mutant)>) -> Town<'a> {
        let places = plan.places;
        let mut town = Town {
            plan,
            mutant,
            now: 0,
            events: Events::default(),
            random: Random::new(mix(plan.seed) ^ 1),
            hosts: (0..places).map(|_| None).collect(),
            lives: vec![0; places],
            empty_since: vec![(0, true); places],
            silent: vec![[false; LINKS]; places],
            parted: false,
            parted_at: 0,
            ways: vec![vec![None; places]; places],
            ledger: Ledger::default(),
            buffer: vec![0; 65_535],
            digest: 0,
        };
        for (index, (at, _)) in plan.actions.iter().enumerate() {
            town.events.plan(*at, What::Act(index));
        }
        town.events.plan(SENDS_EVERY, What::Tick);
        town
    }

    fn is(&self, place: usize, mutant: Mutant) -> bool {
        self.mutant == Some((place, mutant))
    }

    fn go(&mut self) -> Result<(), Broken> {
        while let Some((at, what)) = self.events.next_before(self.plan.ends + 1) {
            self.now = at;
            match what {
                What::Datagram(place, link, from, mut bytes) => {
                    self.digest = mix(self.digest ^ mix(at) ^ place as u64);
                    if let Some(host) = &mut self.hosts[place] {
                        host.node
                            .handle_datagram(time(at), LinkId(link), from, &mut bytes);
                        self.turn(place)?;
                    }
                }
                What::Wake(place) => {
                    if self.hosts[place]
                        .as_ref()
                        .is_some_and(|host| host.wake_at <= at)
                    {
                        self.turn(place)?;
                    }
                }
                What::Gone(place, life) if self.lives[place] == life => {
                    if let Some(host) = &mut self.hosts[place] {
                        host.node.close(time(at));
                        self.turn(place)?;
                        self.crash(place);
                    }
                }
                What::Gone(..) => {}
                What::Act(index) => self.act(self.plan.actions[index].1)?,
                What::Tick => self.tick()?,
            }
        }
        self.ledger.judge_end(self.now)
    }

    // ---- what happens to nodes ----

    fn act(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::Start(place) => self.start(place)?,
            Action::Crash(place) => self.crash(place),
            Action::Leave(place) => {
                if let Some(host) = &mut self.hosts[place] {
                    host.node.leave();
                    host.leaves = true;
                    self.ledger.dies((place, self.lives[place]));
                    self.events
                        .plan(self.now + LEAVES_NS, What::Gone(place, self.lives[place]));
                    self.turn(place)?;
                }
            }
            Action::Silent(place, link, silent) => self.silent[place][link] = silent,
            Action::Parted(parted) => (self.parted, self.parted_at) = (parted, self.now),
        }
        self.find_ways();
        Ok(())
    }

    fn start(&mut self, place: usize) -> Result<(), Broken> {
        if self.hosts[place].is_some() {
            self.crash(place);
        }
        self.lives[place] += 1;
        let mut seed = [self.lives[place] as u8; 32];
        seed[..8].copy_from_slice(&(self.plan.seed ^ (place as u64) << 56).to_le_bytes());
        let mut node =
            Node::new(time(self.now), self.config(place), seed).expect("a good configuration");
        let seeds =
            (0..SEEDS).flat_map(|place| [0, 1].map(|link| (LinkId(link), address(place, link))));
        let seeds: Vec<_> = seeds
            .filter(|_| !self.is(place, Mutant::Unseeded))
            .collect();
        node.set_seeds(time(self.now), &seeds);
        self.hosts[place] = Some(Host {
            node,
            peers: BTreeMap::new(),
            since: self.now,
            wake_at: self.now,
            leaves: false,
            held: None,
            handed: 0,
            dawdles_until: 0,
        });
        self.turn(place)
    }

    fn config(&self, place: usize) -> NodeConfig {
        let forget_after = match self.is(place, Mutant::NeverForgets) {
            true => Duration::from_secs(1_000_000),
            false => Duration::from_nanos(FORGET_AFTER),
        };
        let link = |id| LinkConfig {
            id: LinkId(id),
            address: address(place, id),
            datagram_bytes_max: 1472,
        };
        NodeConfig {
            name: format!("n{place}"),
            keys: vec![[7; 32]],
            private: None,
            public: None,
            wire: WireMode::Encrypted,
            cipher_aes: true,
            receive_buffer_bytes: 4 << 20,
            links: (0..LINKS as u8).map(link).collect(),
            op_limits: OpLimits::default(),
            features: tabane_proto::wire::FEATURE_RELAYS,
            relay: RelayConfig::default(),
            congestion: tabane_proto::CongestionControl::default(),
            guests: Some(Guests::Joining(Joining {
                admits: true,
                count_max: 1000,
                incarnation: 1_000_000 + self.now / MS,
                inside: Some(([10, 99, 0, place as u8 + 1].into(), 24)),
                needs_key: false,
                forget_after,
            })),
        }
    }

    fn crash(&mut self, place: usize) {
        if let Some(host) = self.hosts[place].take() {
            self.empty_since[place] = (self.now, host.leaves);
            self.ledger.dies((place, self.lives[place]));
            self.find_ways();
        }
    }

    // ---- a node's turn ----

    fn turn(&mut self, place: usize) -> Result<(), Broken> {
        let Some(mut host) = self.hosts[place].take() else {
            return Ok(());
        };
        if host.dawdles_until <= self.now {
            let now = time(self.now);
            if host.node.poll_timeout().is_some_and(|at| at <= now) {
                host.node.handle_timeout(now);
            }
            self.transmit(place, &mut host);
            self.events(place, &mut host)?;
        }
        let next = host
            .node
            .poll_timeout()
            .map_or(Ns::MAX, |at| at.since(time(0)).as_nanos() as Ns);
        host.wake_at = next.max(self.now + 20 * US).max(host.dawdles_until);
        if next < Ns::MAX {
            self.events.plan(host.wake_at, What::Wake(place));
        }
        self.hosts[place] = Some(host);
        Ok(())
    }

    fn transmit(&mut self, place: usize, host: &mut Host) {
        let mut buffer = core::mem::take(&mut self.buffer);
        while let Some(t) = host.node.poll_transmit(time(self.now), &mut buffer) {
            let link = t.link.0;
            let there = (0..self.plan.places).find(|there| address(*there, link) == t.to);
            for datagram in buffer[..t.bytes].chunks(t.segment_bytes) {
                let is_lost = self.random.below(1_000_000) < self.plan.loss_ppm;
                let delay = DELAY_NS.0 + self.random.below(DELAY_NS.1);
                if let Some(there) =
                    there.filter(|there| self.passes(place, *there, usize::from(link)) && !is_lost)
                {
                    let what = What::Datagram(there, link, address(place, link), datagram.to_vec());
                    self.events.plan(self.now + delay, what);
                }
            }
        }
        self.buffer = buffer;
    }

    fn passes(&self, a: usize, b: usize, link: usize) -> bool {
        let is_cut = self.parted && (a + b) % 2 == 1;
        !is_cut && !self.silent[a][link] && !self.silent[b][link]
    }

    fn events(&mut self, place: usize, host: &mut Host) -> Result<(), Broken> {
        let own = (place, self.lives[place]);
        while let Some(event) = host.node.poll_event() {
            let place_of = |node: &Node, peer| {
                node.peer_name(peer)
                    .and_then(|name| name.strip_prefix('n')?.parse().ok())
            };
            match event {
                Event::PeerUp { peer, restarted } => {
                    if let Some(other) = place_of(&host.node, peer) {
                        let life = (other, self.lives[other]);
                        host.peers.insert(peer, life);
                        if restarted {
                            self.ledger.ends(own, life);
                        }
                    }
                }
                Event::PeerDown {
                    peer,
                    reason: DownReason::Closed { .. } | DownReason::Removed,
                }
                | Event::Parted { peer, .. } => {
                    if let Some(other) = host.peers.remove(&peer) {
                        self.ledger.ends(own, other);
                    }
                }
                Event::Op { peer, .. } => self.receive(own, host, peer)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self, own: Life, host: &mut Host, peer: PeerId) -> Result<(), Broken> {
        while let Some(message) = host.node.receive_message(time(self.now), peer) {
            let word = |at: usize| {
                u32::from_le_bytes(message.data[at..at + 4].try_into().expect("four bytes"))
            };
            let (from, number) = ((word(0) as usize, word(4)), (word(8), word(12)));
            host.handed += 1;
            let mut hands = vec![(from, number)];
            match self.mutant.filter(|(broken, _)| *broken == own.0) {
                Some((_, Mutant::Twice)) if host.handed > 50 => hands.push((from, number)),
                Some((_, Mutant::Drops)) if host.handed % 100 == 99 => hands.clear(),
                Some((_, Mutant::Swaps)) => match host.held.take() {
                    Some(held) => hands.push(held),
                    None if host.handed % 50 == 49 => host.held = hands.pop(),
                    None => {}
                },
                _ => {}
            }
            for (from, number) in hands {
                let way = self.ways[from.0][own.0];
                self.ledger.arrives(self.now, from, own, number, way)?;
            }
        }
        Ok(())
    }

    // ---- all of them ----

    /// Each sends to some, and the checkers look.
    fn tick(&mut self) -> Result<(), Broken> {
        for place in 0..self.plan.places {
            self.send(place)?;
        }
        let ways = &self.ways;
        self.ledger.overdue(self.now, |from, to| ways[from][to])?;
        self.check_known()?;
        self.events.plan(self.now + SENDS_EVERY, What::Tick);
        Ok(())
    }

    fn send(&mut self, place: usize) -> Result<(), Broken> {
        let from = (place, self.lives[place]);
        let dawdles = self.is(place, Mutant::Dawdles) && self.random.below(100) == 0;
        // Near the end, nothing new: what is on its way is to arrive.
        let is_over = self.now + 3 * SECOND > self.plan.ends;
        let Some(host) = self.hosts[place]
            .as_mut()
            .filter(|host| !host.leaves && !is_over)
        else {
            return Ok(());
        };
        if dawdles {
            host.dawdles_until = self.now + 4 * SECOND;
        }
        let peers: Vec<(PeerId, Life)> = host.peers.iter().map(|(peer, to)| (*peer, *to)).collect();
        for (peer, to) in peers {
            // What is sent to a life that is over, before that is known, is nobody's.
            let is_there = self.lives[to.0] == to.1
                && self.hosts[to.0].as_ref().is_some_and(|host| !host.leaves);
            let Some(host) = &mut self.hosts[place] else {
                continue;
            };
            // One in four: it is not always busy.
            if !is_there || !host.node.is_connected(peer) || self.random.below(4) > 0 {
                continue;
            }
            let number = self.ledger.sends(self.now, from, to);
            let mut data = vec![0; 16 + self.random.below(3000) as usize];
            for (at, word) in [from.0 as u32, from.1, number.0, number.1]
                .into_iter()
                .enumerate()
            {
                data[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
            }
            let sent = host
                .node
                .send_message(time(self.now), peer, 0, None, &data, Policy::Stripe);
            sent.expect("it is connected, and there is room");
        }
        self.turn(place)
    }

    /// Since when there has been a way from each to each, over nodes that are there.
    fn find_ways(&mut self) {
        let places = self.plan.places;
        let is_there = |place: usize| self.hosts[place].as_ref().is_some_and(|host| !host.leaves);
        let near = |a: usize, b: usize| (0..LINKS).any(|link| self.passes(a, b, link));
        let mut reached = vec![vec![false; places]; places];
        for from in (0..places).filter(|place| is_there(*place)) {
            let mut edge = VecDeque::from([(from, 0)]);
            reached[from][from] = true;
            while let Some((at, relays)) = edge.pop_front() {
                for next in (0..places).filter(|next| is_there(*next) && near(at, *next)) {
                    if !reached[from][next] && relays <= RELAYS_MAX {
                        reached[from][next] = true;
                        edge.push_back((next, relays + 1));
                    }
                }
            }
        }
        for (from, row) in self.ways.iter_mut().enumerate() {
            for (to, since) in row.iter_mut().enumerate() {
                *since = reached[from][to].then(|| since.unwrap_or(self.now));
            }
        }
    }

    fn check_known(&self) -> Result<(), Broken> {
        let knows =
            |host: &Host, other: usize| host.node.peer_named(&format!("n{other}")).is_some();
        let settled = self.now >= self.parted_at + KNOWN_AGAIN_WITHIN && !self.parted;
        for (place, host) in self.hosts.iter().enumerate() {
            let Some(host) = host.as_ref().filter(|host| !host.leaves) else {
                continue;
            };
            for other in (0..self.plan.places).filter(|other| *other != place) {
                let knows = knows(host, other);
                let name = format!("n{place} of n{other}");
                if let Some(there) = &self.hosts[other] {
                    let both_since = host.since.max(there.since);
                    let way = self.ways[place][other]
                        .is_some_and(|since| self.now > since.max(both_since) + KNOWN_WITHIN);
                    if settled && way && !there.leaves && !knows {
                        let what = format!(
                            "{name}: not known, {} ms after both were there",
                            (self.now - both_since) / MS
                        );
                        return Err(Broken {
                            rule: Rule::Known,
                            at: self.now,
                            what,
                        });
                    }
                    continue;
                }
                let (since, left) = self.empty_since[other];
                // Whom it told, it told all of them.
                let was_heard = left && since > self.parted_at + KNOWN_AGAIN_WITHIN;
                let patience = if was_heard {
                    KNOWN_WITHIN
                } else {
                    FORGOTTEN_WITHIN
                };
                let since = since.max(host.since);
                if settled && self.now > since.max(self.parted_at) + patience && knows {
                    let what = format!(
                        "{name}: still known, {} ms after it was gone",
                        (self.now - since) / MS
                    );
                    return Err(Broken {
                        rule: Rule::Forgotten,
                        at: self.now,
                        what,
                    });
                }
            }
        }
        Ok(())
    }
}
