//! A survey that is under way.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tabane_io::notify::Notify;
use tabane_proto::topology::{Map, Probe};
use tabane_proto::wire::{Measure, Measured};
use tabane_proto::{LinkId, Node, PeerId, Time};

use super::brain::{Brain, Results, Said};
use super::pace::{Pace, bits_on_wire};
use super::trunks::Trunks;
use crate::status::topology::{Network, Topology};

/// A network's speed is measured on the paths to at most this many peers, one after the other.
const PACED_MAX: usize = 5;
/// Interval of these probes, three at a time, in microseconds: 1% of a network of 100 Mb/s.
const PACED_PAUSE_US: u32 = 37_500;
/// Others' measurements may take this much longer than their own limit: question and answer travel.
const GRACE: Duration = Duration::from_millis(500);
/// A busy node is asked again after this time, a limited number of times; so is one whose answer was lost.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
const TRIES: u8 = 4;

/// One network to be surveyed.
#[derive(Debug)]
pub struct Job {
    pub link: LinkId,
    /// The nodes on it, in the order of the cluster file.
    pub names: Vec<String>,
    /// Their numbers here; `None` for this node.
    pub peers: Vec<Option<PeerId>>,
    /// Nodes that have such a link, and cannot be reached on it now.
    pub absent: Vec<String>,
    /// The speed that its device reports.
    pub device: Pace,
    /// The measured speed.
    pub pace: Pace,
    /// Of a probe.
    pub datagram_bytes: u16,
    /// A survey yielded nothing: it is tried once more.
    pub was_in_vain: bool,
}

/// A pair that is being measured.
#[derive(Debug)]
pub struct Asked {
    probe: Probe,
    token: u32,
    tries: u8,
    state: State,
}

/// How far that is.
#[derive(Debug)]
enum State {
    /// It is asked (again) then.
    At(Time),
    /// It was asked, and is given up then.
    Until(Time),
    /// It is over: the least round trip in ns, if there is one.
    Over(Option<u64>),
}

/// It is found out how fast a network is, on the way to some peers.
#[derive(Debug)]
struct Pacing {
    /// Those to come.
    peers: VecDeque<PeerId>,
    /// The token of the measurement under way, and when to give it up.
    asked: Option<(u32, Time)>,
    behind: Vec<Duration>,
}

#[derive(Debug)]
enum Phase {
    Pace(Pacing),
    /// Deciding what to measure next.
    Think(Brain),
    /// A round is measured.
    Round(Brain, Vec<Asked>),
    /// It is found out how fast trunks are.
    Trunks(Box<Trunks>),
}

/// Result of a phase's turn.
enum Turned {
    /// Something has to happen before it goes on.
    Waits(Phase),
    /// It goes on at once.
    Next(Phase),
    /// The network is known.
    Done(Network),
}

/// A survey.
#[derive(Debug)]
pub struct Running {
    pub begun: Time,
    /// Networks to come; the first one is under way.
    jobs: VecDeque<Job>,
    phase: Option<Phase>,
    /// Those before.
    networks: Vec<Network>,
    token: u32,
}

/// What a turn needs.
pub struct Around<'a> {
    pub now: Time,
    pub node: &'a mut Node,
    pub notify: &'a Arc<Notify>,
    /// Result of the previous survey.
    pub before: Option<&'a Topology>,
}

impl Running {
    /// One of these networks.
    pub fn new(now: Time, jobs: VecDeque<Job>) -> Running {
        Running {
            begun: now,
            jobs,
            phase: None,
            networks: Vec::new(),
            // An answer to an earlier survey may still arrive.
            token: now.as_us_wrapping(),
        }
    }

    /// When to call [`turn`](Running::turn) at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.phase.as_ref()? {
            Phase::Pace(pacing) => pacing.asked.map(|asked| asked.1),
            Phase::Think(_) => None,
            Phase::Round(_, asked) => asked.iter().filter_map(Asked::due).min(),
            Phase::Trunks(trunks) => trunks.asked().iter().filter_map(Asked::due).min(),
        }
    }

    /// A measurement is over.
    pub fn on_measured(
        &mut self,
        now: Time,
        token: u32,
        outcome: Measured,
        behind: Option<Duration>,
    ) {
        let asked: &mut [Asked] = match &mut self.phase {
            Some(Phase::Pace(pacing)) => {
                if pacing.asked.take_if(|asked| asked.0 == token).is_some() {
                    pacing.behind.extend(behind);
                }
                return;
            }
            Some(Phase::Round(_, asked)) => asked,
            Some(Phase::Trunks(trunks)) => trunks.asked_mut(),
            Some(Phase::Think(_)) | None => return,
        };
        let is_it = |a: &&mut Asked| a.token == token && matches!(a.state, State::Until(_));
        if let Some(asked) = asked.iter_mut().find(is_it) {
            asked.state = match outcome {
                Measured::Least { ns } => State::Over(Some(u64::from(ns))),
                Measured::Unreached => State::Over(None),
                Measured::Busy => State::At(now + AGAIN_AFTER),
            };
        }
    }

    /// Does what can be done now. Returns the networks when all are known.
    ///
    /// # Errors
    /// Why it cannot go on, in words for people.
    pub fn turn(&mut self, mut around: Around<'_>) -> Result<Option<Vec<Network>>, String> {
        loop {
            let Some(job) = self.jobs.front_mut() else {
                return Ok(Some(core::mem::take(&mut self.networks)));
            };
            let token = &mut self.token;
            let turned = match self.phase.take() {
                None if job.names.len() < 2 => Turned::Done(job.network(None)),
                None => Turned::Next(Phase::Pace(Pacing::new(job))),
                Some(Phase::Pace(pacing)) => pacing.turn(job, token, &mut around)?,
                Some(Phase::Think(brain)) => match brain.take() {
                    None => Turned::Waits(Phase::Think(brain)),
                    Some(Said::Round(probes)) => {
                        let asked = |probe| Asked::new(around.now, probe);
                        Turned::Next(Phase::Round(brain, probes.into_iter().map(asked).collect()))
                    }
                    Some(Said::Done(map)) if map.switches.is_empty() && !job.was_in_vain => {
                        job.was_in_vain = true;
                        Turned::Next(Phase::Pace(Pacing::new(job)))
                    }
                    Some(Said::Done(map)) => {
                        let network = job.network(Some((map.clone(), around.before)));
                        Turned::Next(Phase::Trunks(Box::new(Trunks::new(network, &map))))
                    }
                },
                Some(Phase::Trunks(mut trunks)) => match trunks.turn(job, token, &mut around) {
                    true => Turned::Done(trunks.network),
                    false => Turned::Waits(Phase::Trunks(trunks)),
                },
                Some(Phase::Round(brain, asked)) => round(brain, asked, job, token, &mut around)?,
            };
            match turned {
                Turned::Next(phase) => self.phase = Some(phase),
                Turned::Waits(phase) => {
                    self.phase = Some(phase);
                    return Ok(None);
                }
                Turned::Done(network) => {
                    self.networks.push(network);
                    self.jobs.pop_front();
                }
            }
        }
    }
}

impl Job {
    /// The result for the network: a map, with switches named as before; or nothing.
    fn network(&self, found: Option<(Map, Option<&Topology>)>) -> Network {
        let link = self.link.0;
        let Some((mut map, before)) = found else {
            let unknown = [&self.names[..], &self.absent].concat();
            return Network::of(link, &Map::default(), &[], &unknown);
        };
        let networks = before.map_or(&[][..], |topology| &topology.networks);
        if let Some(before) = networks.iter().find(|network| network.link == link) {
            map.keep_ids(&before.as_map(&self.names));
        }
        Network::of(link, &map, &self.names, &self.absent)
    }

    fn measure(&self) -> Measure {
        self.pace.measure(self.link, self.datagram_bytes)
    }

    /// How a train is sent there.
    pub fn train(&self) -> Measure {
        self.pace.train(self.link, self.datagram_bytes)
    }

    /// The rate on the wire of this many packets a second of a train, in Mb/s.
    pub fn mbps_of(&self, packets_per_s: f64) -> u32 {
        (packets_per_s * bits_on_wire(self.datagram_bytes) as f64 / 1e6).round() as u32
    }
}

impl Pacing {
    fn new(job: &Job) -> Pacing {
        let peers = job.peers.iter().copied().flatten();
        Pacing {
            peers: peers.take(PACED_MAX).collect(),
            asked: None,
            behind: Vec::new(),
        }
    }

    fn turn(
        mut self,
        job: &mut Job,
        token: &mut u32,
        around: &mut Around<'_>,
    ) -> Result<Turned, String> {
        if self.asked.is_some_and(|asked| around.now < asked.1) {
            return Ok(Turned::Waits(Phase::Pace(self)));
        }
        if let Some(peer) = self.peers.pop_front() {
            let how = Measure {
                pause_us: PACED_PAUSE_US,
                ..job.measure()
            };
            *token = token.wrapping_add(1);
            around.node.measure(around.now, *token, peer, how, true);
            self.asked = Some((*token, around.now + lasts(&how)));
            return Ok(Turned::Waits(Phase::Pace(self)));
        }
        self.behind.sort_unstable();
        let middle = self.behind.get(self.behind.len() / 2).copied();
        job.pace = job.device.corrected(job.datagram_bytes, middle);
        let config = job.pace.config(job.datagram_bytes);
        let brain = Brain::start(job.names.len(), config, around.notify.clone());
        let brain = brain.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Turned::Next(Phase::Think(brain)))
    }
}

impl Asked {
    /// Nobody is asked yet.
    pub const fn new(now: Time, probe: Probe) -> Asked {
        Asked {
            probe,
            token: 0,
            tries: 0,
            state: State::At(now),
        }
    }

    /// When to act on it, unless it is over.
    fn due(&self) -> Option<Time> {
        match self.state {
            State::At(at) | State::Until(at) => Some(at),
            State::Over(_) => None,
        }
    }

    /// Asks the measuring node, unless it was asked often enough.
    fn ask(&mut self, job: &Job, how: Measure, token: u32, around: &mut Around<'_>) {
        let now = around.now;
        let end = |node: usize| job.peers.get(node).copied();
        self.token = token;
        self.tries += 1;
        self.state = State::Until(now + lasts(&how));
        let is_asked = match (end(self.probe.from), end(self.probe.to)) {
            _ if self.tries > TRIES => false,
            (Some(None), Some(Some(to))) => {
                around.node.measure(now, token, to, how, false);
                true
            }
            (Some(Some(by)), Some(to)) => {
                // If the bundle is on demand, connect now and ask a moment later.
                if !around.node.is_connected(by) {
                    around.node.want(now, by);
                    self.state = State::At(now + AGAIN_AFTER);
                    return;
                }
                around.node.ask_to_measure(token, by, to, how)
            }
            _ => false,
        };
        if !is_asked {
            self.state = State::Over(None);
        }
    }
}

/// How long a measurement takes at most, until its answer is here.
fn lasts(how: &Measure) -> Duration {
    Duration::from_micros(u64::from(how.pause_us)) * 3 * u32::from(how.probes) + GRACE
}

/// Asks the nodes that are due. Returns all results when all are over.
pub fn ask_all(
    all: &mut [Asked],
    job: &Job,
    how: Measure,
    token: &mut u32,
    around: &mut Around<'_>,
) -> Option<Results> {
    for asked in &mut *all {
        if asked.due().is_some_and(|at| at <= around.now) {
            *token = token.wrapping_add(1);
            asked.ask(job, how, *token, around);
        }
    }
    let over = |asked: &Asked| match asked.state {
        State::Over(least_ns) => Some((asked.probe, least_ns)),
        State::At(_) | State::Until(_) => None,
    };
    all.iter().map(over).collect()
}

/// Asks the nodes that are due; when all pairs are over, decides what to measure next.
fn round(
    brain: Brain,
    mut all: Vec<Asked>,
    job: &Job,
    token: &mut u32,
    around: &mut Around<'_>,
) -> Result<Turned, String> {
    let Some(results) = ask_all(&mut all, job, job.measure(), token, around) else {
        return Ok(Turned::Waits(Phase::Round(brain, all)));
    };
    match brain.tell(results) {
        true => Ok(Turned::Next(Phase::Think(brain))),
        false => Err("the thread that thinks it over has failed".to_owned()),
    }
}
