//! Runs a schedule: virtual time from event to event, until everything is done or
//! something is wrong.

use crate::attack::Attacker;
use crate::check::{Checked, Observer, Progress, Relayed, Rule, Violation, agreement};
use crate::faults::Ground;
use crate::host::{Host, Notice, World};
use crate::mutant::{Mutant, Tap};
use crate::net::{Channel, Clock, Events, Happening, MS, Network, NetworkStats, Ns, Port, SECOND};
use crate::processor::Processor;
use crate::random::{Random, mix};
use crate::schedule::{Schedule, address};
use crate::workload::App;

/// The checkers look this often while something is going on …
const CHECK_EVERY_NS: Ns = 50 * MS;
/// … and this often once everything has arrived.
const SETTLE_EVERY_NS: Ns = 500 * MS;
/// After the last fault, everything must have arrived within this.
const COMPLETION_NS_MAX: Ns = 40 * SECOND;
/// After that, both sides must agree within this: an idle bundle probes every few
/// seconds only.
const AGREEMENT_NS_MAX: Ns = 60 * SECOND;
/// Steps of a host in one interval of checks, beside those that datagrams cause.
const STEPS_MAX: u64 = 20_000;

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Print what happens.
    pub trace: bool,
    /// Have the nodes tell what they do, and why ([`Outcome::qlog`]).
    pub qlog: bool,
    /// The host with this index is broken in this way.
    pub mutant: Option<(usize, Mutant)>,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first broken promise, if any.
    pub violation: Option<Violation>,
    /// Virtual time that passed.
    pub ended_at: Ns,
    /// Events that happened.
    pub steps: u64,
    /// Tells one run from another: all events and when they happened.
    pub digest: u64,
    /// What the network carried.
    pub network: NetworkStats,
    /// What the nodes told, if they were asked: the events of a qlog.
    pub qlog: Option<String>,
}

/// A run under way.
pub struct Run<'a> {
    schedule: &'a Schedule,
    now: Ns,
    events: Events,
    ground: Ground<'a>,
    hosts: Vec<Host>,
    observer: Observer,
    attacker: Attacker,
    progress: Progress,
    steps: u64,
    steps_at_check: u64,
    digest: u64,
    complete_at: Option<Ns>,
    agreed: u32,
}

/// Runs a schedule to its end.
pub fn run(schedule: &Schedule, options: &Options) -> Outcome {
    let mut run = Run::new(schedule, options);
    let violation = run.go().err();
    if let Some(violation) = &violation {
        run.observer.trace(run.now, || violation.to_string());
    }
    run.trace_end();
    Outcome {
        violation,
        ended_at: run.now,
        steps: run.steps,
        digest: run.digest,
        network: run.ground.network.stats,
        qlog: run.observer.qlog.take(),
    }
}

/// Runs a schedule without end for as long as it takes to measure: of each pair of hosts,
/// the bytes that the second got from the first between two instants, and the frames left
/// out on the way.
///
/// # Errors
/// What a checker found wrong.
pub fn goodput_between(
    schedule: &Schedule,
    (from, to): (Ns, Ns),
    pairs: &[(usize, usize)],
) -> Checked<Vec<(u64, u64)>> {
    let mut run = Run::new(schedule, &Options::default());
    run.plan();
    let mut at = |at| -> Checked<Vec<(u64, u64)>> {
        run.until(at)?;
        let carried = |&(from, to): &(usize, usize)| run.observer.carried_bytes(from, to);
        Ok(pairs.iter().map(carried).collect())
    };
    let (before, after) = (at(from)?, at(to)?);
    let between = before.iter().zip(&after);
    Ok(between.map(|(b, a)| (a.0 - b.0, a.1 - b.1)).collect())
}

/// What one host got from another between two instants.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// Bytes of content.
    pub bytes: u64,
    /// The longest that a message or frame took so far.
    pub longest_wait: Ns,
    /// Datagrams that all hosts sent meanwhile …
    pub sent: u64,
    /// … and those of them that did not arrive.
    pub lost: u64,
}

/// Runs a schedule without end for as long as it takes to measure what `pair` carries.
///
/// # Errors
/// What a checker found wrong.
pub fn carried_between(
    schedule: &Schedule,
    (from, to): (Ns, Ns),
    pair: (usize, usize),
) -> Checked<Carried> {
    let mut run = Run::new(schedule, &Options::default());
    run.plan();
    let mut at = |at| -> Checked<(u64, NetworkStats)> {
        run.until(at)?;
        let bytes = run.observer.carried_bytes(pair.0, pair.1).0;
        Ok((bytes, run.ground.network.stats))
    };
    let (before, after) = (at(from)?, at(to)?);
    Ok(Carried {
        bytes: after.0 - before.0,
        longest_wait: run.observer.units.longest_wait(),
        sent: after.1.sent - before.1.sent,
        lost: after.1.lost - before.1.lost,
    })
}

/// What a run without end came to by some instant.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// The longest that a message or frame took to arrive.
    pub longest_wait: Ns,
    /// What the network carried.
    pub network: NetworkStats,
}

/// Runs a schedule without end until `ends`.
///
/// # Errors
/// What a checker found wrong.
pub fn run_until(schedule: &Schedule, ends: Ns) -> Checked<Passed> {
    let mut run = Run::new(schedule, &Options::default());
    run.plan();
    run.until(ends)?;
    Ok(Passed {
        longest_wait: run.observer.units.longest_wait(),
        network: run.ground.network.stats,
    })
}

impl<'a> Run<'a> {
    fn new(schedule: &'a Schedule, options: &Options) -> Run<'a> {
        let mut random = Random::new(mix(schedule.seed));
        let mut network = network(schedule, &mut random);
        network.traces = options.trace;
        let maxima = schedule.hosts.iter();
        let maxima = maxima.map(|h| {
            h.datagram_bytes_max
                .iter()
                .map(|b| usize::from(*b))
                .collect()
        });
        let hosts = schedule.hosts.len();
        let mut observer = Observer::new(&schedule.plan, hosts, maxima.collect(), options.trace);
        observer.on_demand = schedule.bundles_max.is_some();
        observer.qlog = options.qlog.then(String::new);
        observer.relayed = (!schedule.encrypted).then(Relayed::default);
        let host = |(index, plan): (usize, &crate::schedule::HostPlan)| {
            let clock = Clock::new(0, plan.clock_ns, plan.clock_ppm);
            let app = App::new(0, index, hosts, &observer);
            let mutant = options.mutant.filter(|(host, _)| *host == index);
            let tap = Tap::new(mutant.map(|(_, mutant)| mutant));
            let processor = Processor::new(Random::new(mix(schedule.seed) ^ index as u64));
            Host::new(index, clock, plan.traits, processor, app, tap)
        };
        Run {
            hosts: schedule.hosts.iter().enumerate().map(host).collect(),
            now: 0,
            events: Events::default(),
            attacker: Attacker::new(random.fork(2), !schedule.encrypted),
            progress: Progress::new(hosts),
            ground: Ground::new(schedule, network, random.fork(3)),
            observer,
            schedule,
            steps: 0,
            steps_at_check: 0,
            digest: 0,
            complete_at: None,
            agreed: 0,
        }
    }

    fn plan(&mut self) {
        for (i, (at, _)) in self.schedule.faults.iter().enumerate() {
            self.events.plan(*at, Happening::Fault(i));
        }
        for (i, host) in self.schedule.hosts.iter().enumerate() {
            let start = self.schedule.faults.len() + i;
            self.events.plan(host.start, Happening::Fault(start));
        }
        self.events.plan(CHECK_EVERY_NS, Happening::Check);
        if self.schedule.attack_every_ns.is_some() {
            self.events.plan(0, Happening::Attack);
        }
    }

    fn go(&mut self) -> Checked {
        self.plan();
        self.until(Ns::MAX)?;
        self.finish()
    }

    /// Goes from event to event until `end`, or until all is done.
    fn until(&mut self, end: Ns) -> Checked {
        while let Some((now, what)) = self.events.next_before(end) {
            self.now = now;
            self.steps += 1;
            self.digest = mix(self.digest ^ mix(now) ^ what.code());
            match what {
                Happening::AtSwitch(id) => {
                    self.ground.network.at_switch(now, id, &mut self.events);
                }
                Happening::AtHost(id) => self.arrive(id),
                Happening::Wake(host) => self.run_host(host)?,
                Happening::Fault(i) => self.fault(i),
                Happening::Attack => self.attack(),
                Happening::Check => {
                    if self.check()? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// What every node has counted.
    fn trace_end(&self) {
        for host in &self.hosts {
            let Some(node) = &host.node else { continue };
            self.observer.trace(self.now, || {
                format!("host {}: {:?}", host.index, node.node_stats())
            });
            for id in host.peer_ids.iter().flatten() {
                let stats = node.peer_stats(*id);
                self.observer
                    .trace(self.now, || format!("host {}: {stats:#?}", host.index));
            }
        }
    }

    fn arrive(&mut self, id: crate::net::PacketId) {
        let network = &mut self.ground.network;
        let Some(packet) = network.at_host(id) else {
            return;
        };
        let mut overtaking = None;
        if self.schedule.attack_every_ns.is_some() && packet.from_host.is_some() {
            self.attacker.see(&packet);
            overtaking = self.attacker.overtake(&packet);
        }
        let mut world = World {
            now: self.now,
            network,
            events: &mut self.events,
            observer: &mut self.observer,
        };
        for packet in overtaking.into_iter().chain([packet]) {
            if let Some(bytes) = self.hosts[packet.to_host].arrive(packet, &mut world) {
                world.network.recycle(bytes);
            }
        }
    }

    fn run_host(&mut self, host: usize) -> Checked {
        let mut world = World {
            now: self.now,
            network: &mut self.ground.network,
            events: &mut self.events,
            observer: &mut self.observer,
        };
        self.hosts[host].run(&mut world)
    }

    fn fault(&mut self, index: usize) {
        let faults = &self.schedule.faults;
        let fault = match faults.get(index) {
            Some((_, fault)) => *fault,
            None => crate::schedule::Fault::Start(index - faults.len()),
        };
        self.observer.trace(self.now, || format!("{fault:?}"));
        let mut world = crate::faults::Scene {
            now: self.now,
            events: &mut self.events,
            hosts: &mut self.hosts,
            observer: &mut self.observer,
        };
        self.ground.apply(fault, &mut world);
    }

    fn attack(&mut self) {
        let Some(every) = self.schedule.attack_every_ns else {
            return;
        };
        if let Some(packet) = self.attacker.strike(&self.ground.network) {
            self.ground
                .network
                .inject(self.now, packet, &mut self.events);
        }
        if self.complete_at.is_none() {
            let at = self.attacker.next_strike(self.now, every);
            self.events.plan(at, Happening::Attack);
        }
    }

    /// The checks at intervals. True: the run is over.
    fn check(&mut self) -> Checked<bool> {
        let now = self.now;
        self.ground.network.refresh(now, false);
        self.check_memory()?;
        self.check_bundles()?;
        self.check_steps()?;
        self.progress
            .check(now, &self.observer, &self.ground.network)?;
        let end = self.schedule.faults_end();
        if self.complete_at.is_none() && now >= end && self.is_complete() {
            self.observer
                .trace(now, || "everything has arrived".to_string());
            self.complete_at = Some(now);
        }
        let Some(complete_at) = self.complete_at else {
            if now > end + COMPLETION_NS_MAX {
                return Err(self.incomplete());
            }
            self.events.plan(now + CHECK_EVERY_NS, Happening::Check);
            return Ok(false);
        };
        match agreement(now, &self.hosts, &self.ground.network) {
            Ok(()) => self.agreed += 1,
            Err(violation) if now > complete_at + AGREEMENT_NS_MAX => return Err(violation),
            Err(_) => self.agreed = 0,
        }
        self.events.plan(now + SETTLE_EVERY_NS, Happening::Check);
        Ok(self.agreed >= 3)
    }

    /// All is done: the last judgements.
    fn finish(&mut self) -> Checked {
        let dropped = |from: usize, to: usize| {
            let host = &self.hosts[from];
            let (node, id) = host.node.as_ref().zip(host.peer_ids[to])?;
            let op = node.peer_stats(id)?.op;
            Some(op.frames_crowded_out + op.frames_overdue)
        };
        let dropped = |from, to| dropped(from, to).unwrap_or_default();
        let blocks = |host: usize| self.schedule.hosts[host].traits.blocks_at_bytes.is_some();
        let network = &self.ground.network;
        self.observer.judge_gaps(network, dropped, blocks)?;
        let Some(host) = self.schedule.closes.filter(|h| self.hosts[*h].runs()) else {
            return Ok(());
        };
        let to_be_told = self.observer.to_be_told(host, &self.ground.network);
        self.hosts[host].notices.push_back(Notice::Close);
        self.hosts[host].due(self.now);
        self.run_host(host)?;
        self.hosts[host].crash();
        self.until(self.now + SECOND)?;
        self.observer.judge_end(self.now, host, &to_be_told)
    }

    fn is_complete(&self) -> bool {
        let o = &self.observer;
        let streams = (0..o.streams.plans().len()).all(|i| o.streams.complete(i));
        let flows = o.units.plans().iter().enumerate();
        streams
            && o.transfers.first_open().is_none()
            && flows.into_iter().all(|(i, plan)| {
                let all_sent = o.units.next_to_send(i).is_none();
                let waiting = o.units.waiting(self.now, i);
                let overdue = |at: Ns| at + 2 * SECOND < self.now;
                let frames = plan.kind == crate::workload::UnitKind::Frame;
                all_sent && waiting.is_none_or(|gap| frames && overdue(gap.sent_at))
            })
    }

    fn incomplete(&self) -> Violation {
        let o = &self.observer;
        let streams = 0..o.streams.plans().len();
        let stream = streams
            .into_iter()
            .find(|i| !o.streams.complete(*i))
            .map(|i| {
                let last = o.streams.attempts().iter().rfind(|a| a.plan == i);
                format!("stream plan {i} is at {last:?}")
            });
        let flows = 0..o.units.plans().len();
        let flow = flows.into_iter().find_map(|i| {
            let waiting = o.units.waiting(self.now, i);
            let next = o.units.next_to_send(i);
            let what = format!("flow {i}: next to send {next:?}, waiting {waiting:?}");
            (waiting.is_some() || next.is_some()).then_some(what)
        });
        let transfer = o.transfers.first_open();
        let transfer = transfer.map(|i| format!("transfer {i}: {:?}", o.transfers.due(i)));
        let what = stream.or(flow).or(transfer).unwrap_or_default();
        Violation::new(Rule::Completion, self.now, what)
    }

    fn check_memory(&mut self) -> Checked {
        let bound = memory_bound(self.schedule);
        for host in &mut self.hosts {
            let Some(node) = &host.node else { continue };
            let bytes = host.tap.memory_bytes(node.memory_bytes());
            if bytes > bound {
                let what = format!("host {} holds {bytes} bytes of {bound}", host.index);
                return Err(Violation::new(Rule::Memory, self.now, what));
            }
        }
        Ok(())
    }

    fn check_bundles(&self) -> Checked {
        let Some(max) = self.schedule.bundles_max else {
            return Ok(());
        };
        for host in &self.hosts {
            let Some(node) = &host.node else { continue };
            let direct = node.bundle_count().direct;
            if direct > usize::from(max) {
                let what = format!(
                    "host {} keeps {direct} bundles over links of {max}",
                    host.index
                );
                return Err(Violation::new(Rule::Bundles, self.now, what));
            }
        }
        Ok(())
    }

    /// Steps must be caused: by datagrams, or by timers at a bounded rate.
    fn check_steps(&mut self) -> Checked {
        let datagrams = self.ground.network.stats.sent + self.attacker.sent;
        let earned = STEPS_MAX * self.hosts.len() as u64 + 8 * datagrams;
        if self.steps > self.steps_at_check + earned {
            let what = format!(
                "{} steps since the last check",
                self.steps - self.steps_at_check
            );
            return Err(Violation::new(Rule::Calm, self.now, what));
        }
        self.steps_at_check = self.steps;
        Ok(())
    }
}

/// What a node may hold: what its limits say for each peer, a quarter more for
/// unused capacity, and for each path what tracking packets takes.
fn memory_bound(schedule: &Schedule) -> usize {
    const PATH_BYTES: usize = 4 * 1024 * 1024;
    let l = &schedule.op_limits;
    let content = l.frame_queue_bytes
        + l.frame_held_bytes
        + l.frame_reassembly_bytes
        + l.message_queue_bytes
        + l.streams_send_bytes
        + l.bundle_window_bytes as usize
        + l.message_window_bytes() as usize
        + l.pool_bytes;
    (schedule.hosts.len() - 1) * (content * 5 / 4 + schedule.links * PATH_BYTES)
}

fn network(schedule: &Schedule, random: &mut Random) -> Network {
    let ports = schedule.hosts.iter().enumerate().map(|(host, plan)| {
        let ports = plan
            .wires
            .iter()
            .enumerate()
            .map(|(link, (up, down))| Port {
                up: Channel::new(*up, random.fork(10)),
                down: Channel::new(*down, random.fork(11)),
                address: Some(address(host, link, 0)),
                carrier: true,
                excused_until: 0,
            });
        ports.collect()
    });
    let ports = ports.collect();
    let mut network = Network::new(ports, random.fork(1));
    network.checks_sums = !schedule.encrypted;
    network
}
