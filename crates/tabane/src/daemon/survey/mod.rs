//! Surveys: this node has pairs of nodes measure the paths between them, and derives which nodes share a switch.
//!
//! `crates/proto/src/mesh/topology/` decides which pairs, and evaluates the results. Here the nodes are asked, network after
//! network and round after round; busy ones are asked again.

mod brain;
mod measure;
mod pace;
mod trunks;

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tabane_io::notify::Notify;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::link::PathState;
use tabane_proto::wire::{Measured, Switches};
use tabane_proto::{LinkId, Node, PeerId, Time};

use super::run::Daemon;
use crate::log;
use crate::status::topology::{SCHEMA, Switch, TopoReport, Topology};
use measure::{Around, Job, Running};
use pace::Pace;
use tabane_io::clock::unix_ms;

/// Interval between surveys.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// A survey follows this long after a new node came: others may be about to come.
const AFTER_JOIN: Duration = Duration::from_secs(60);
/// Interval of checking whether a survey is due.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Probes are datagrams of this size where they can be: plain Ethernet's, under IPv4.
const DATAGRAM_BYTES: usize = 1472;

/// The surveys of this node.
pub struct Surveys {
    /// Made ready by the thread of a survey.
    pub notify: Arc<Notify>,
    running: Option<Running>,
    report: TopoReport,
    /// When the next one is due, if this node is the one that makes it.
    due: Time,
    look_at: Time,
}

impl Surveys {
    /// None yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(now: Time) -> std::io::Result<Surveys> {
        Ok(Surveys {
            notify: Arc::new(Notify::new()?),
            running: None,
            report: TopoReport::default(),
            due: now + EVERY,
            look_at: now + LOOK_EVERY,
        })
    }

    /// The report for `tabane topo`.
    pub fn report(&self) -> TopoReport {
        TopoReport {
            running: self.running.is_some(),
            ..self.report.clone()
        }
    }

    /// How long the loop may sleep, if it may sleep `patience` otherwise.
    pub fn patience(&self, now: Time, patience: Duration) -> Duration {
        let due = self.running.as_ref().and_then(Running::next_timeout);
        due.map_or(patience, |at| at.since(now).min(patience))
    }

    /// A measurement is over.
    pub fn on_measured(
        &mut self,
        now: Time,
        token: u32,
        outcome: Measured,
        behind: Option<Duration>,
    ) {
        if let Some(running) = &mut self.running {
            running.on_measured(now, token, outcome, behind);
        }
    }

    /// Goes on with the survey, if one is under way. Returns whether it has ended, and found something out.
    fn turn(&mut self, now: Time, node: &mut Node) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        self.notify.clear();
        let around = Around {
            now,
            node,
            notify: &self.notify,
            before: self.report.topology.as_ref(),
        };
        match running.turn(around) {
            Ok(None) => false,
            Ok(Some(networks)) => {
                let took = now.since(running.begun).as_secs_f64();
                let switches: usize = networks.iter().map(|n| n.switches.len()).sum();
                log::line(format!(
                    "topology: {switches} switches on {} networks, measured in {took:.1} s",
                    networks.len()
                ));
                self.report.topology = Some(Topology {
                    schema: SCHEMA,
                    measured_unix_ms: unix_ms(),
                    networks,
                });
                self.end(now, None);
                true
            }
            Err(trouble) => {
                self.end(now, Some(trouble));
                false
            }
        }
    }

    /// Abandons a survey whose premises have changed.
    pub fn abandon(&mut self, now: Time, why: &str) {
        if self.running.is_some() {
            self.end(now, Some(why.to_owned()));
        }
    }

    fn end(&mut self, now: Time, trouble: Option<String>) {
        if let Some(trouble) = &trouble {
            log::warn(format!("topology: not measured: {trouble}"));
        }
        self.running = None;
        self.report.finished += 1;
        self.report.trouble = trouble;
        self.due = now + EVERY;
    }

    /// On which switches a node is by the last survey, if that has found any.
    fn switches_of(&self, name: &str) -> Option<Switches> {
        let topology = self.report.topology.as_ref()?;
        let mut of = [None; LINKS_MAX];
        for network in &topology.networks {
            let has_it = |s: &&Switch| s.nodes.iter().any(|node| node == name);
            if let Some(place) = of.get_mut(usize::from(network.link)) {
                let switch = network.switches.iter().find(has_it);
                *place = switch.and_then(|switch| u16::try_from(switch.number()?).ok());
            }
        }
        let survey = topology.measured_unix_ms;
        let is_known = of.iter().any(Option::is_some);
        is_known.then_some(Switches { survey, of })
    }

    /// Whether the last survey did not have this node.
    fn lacks(&self, name: &str) -> bool {
        let networks = self.report.topology.iter().flat_map(|t| &t.networks);
        let switches = networks.flat_map(|n| &n.switches);
        let mut nodes = switches.flat_map(|s| &s.nodes);
        self.report.topology.is_some() && !nodes.any(|node| node == name)
    }
}

impl Daemon {
    /// Begins a survey, unless one is under way.
    pub(super) fn begin_survey(&mut self, now: Time, node: &mut Node) {
        if self.surveys.running.is_none() {
            let jobs = self.survey_jobs(now, node);
            self.surveys.running = Some(Running::new(now, jobs));
            self.turn_survey(now, node);
        }
    }

    /// Continues a survey that is under way. When it has ended, each node is told its switches, and tells all others.
    pub(super) fn turn_survey(&mut self, now: Time, node: &mut Node) {
        if !self.surveys.turn(now, node) {
            return;
        }
        if let Some(own) = self.surveys.switches_of(&self.cluster.nodes[self.me].name) {
            node.set_switches(now, own);
        }
        for (peer, index) in self.peers.clone() {
            if !self.tell_switches(node, index, peer) {
                node.want(now, peer);
            }
        }
    }

    /// Repeats the result to nodes that seem not to know it: a message may be lost.
    fn remind_of_switches(&self, node: &mut Node) {
        let Some(topology) = &self.surveys.report.topology else {
            return;
        };
        for &(peer, index) in &self.peers {
            let says = node.switches(Some(peer));
            if says.is_none_or(|says| says.survey < topology.measured_unix_ms) {
                self.tell_switches(node, index, peer);
            }
        }
    }

    /// Tells a peer its switches, if they are known. Returns whether it could be told, or need not be.
    fn tell_switches(&self, node: &mut Node, index: usize, peer: PeerId) -> bool {
        let switches = self.surveys.switches_of(&self.cluster.nodes[index].name);
        switches.is_none_or(|switches| node.tell_switches(peer, switches))
    }

    /// Begins a survey if one is due and this node's name sorts first among those that are here, so that only one node does.
    pub(super) fn consider_survey(&mut self, now: Time, node: &mut Node) {
        if now < self.surveys.look_at {
            return;
        }
        self.surveys.look_at = now + LOOK_EVERY;
        self.remind_of_switches(node);
        let own = &self.cluster.nodes[self.me].name;
        let here = |(peer, _): &&(PeerId, usize)| node.is_connected(*peer);
        let names = self.peers.iter().filter(here);
        let mut names = names.map(|(_, index)| &self.cluster.nodes[*index].name);
        if now < self.surveys.due || !self.is_for_all() || names.any(|name| name < own) {
            return;
        }
        self.begin_survey(now, node);
    }

    /// A peer is connected: tells it its switches, or, if it is new, schedules a survey.
    pub(super) fn survey_peer_up(&mut self, now: Time, node: &mut Node, peer: PeerId) {
        let Some(&(_, index)) = self.peers.iter().find(|(id, _)| *id == peer) else {
            return;
        };
        self.tell_switches(node, index, peer);
        if self.surveys.lacks(&self.cluster.nodes[index].name) {
            self.surveys.due = self.surveys.due.min(now + AFTER_JOIN);
        }
    }

    /// The survey's jobs: each network with the nodes on it.
    fn survey_jobs(&self, now: Time, node: &Node) -> VecDeque<Job> {
        let links = &self.cluster.nodes[self.me].links;
        let own = links.iter().enumerate();
        let own = own.filter_map(|(link, address)| Some((link, (*address)?)));
        own.map(|(link, address)| {
            let device = Pace::of_device(address);
            let mut job = Job {
                link: LinkId(link as u8),
                names: Vec::new(),
                peers: Vec::new(),
                absent: Vec::new(),
                device,
                pace: device,
                datagram_bytes: 0,
                was_in_vain: false,
            };
            let mut widest = 0;
            for (index, spec) in self.cluster.nodes.iter().enumerate() {
                if spec.links.get(link).copied().flatten().is_none() {
                    continue;
                }
                let peer = self.peers.iter().find(|(_, i)| *i == index).map(|p| p.0);
                let mtu_bytes = peer.and_then(|peer| mtu_of_path(node, peer, job.link));
                // For a peer without a bundle over links, others know whether it is there.
                let is_there =
                    |peer| mtu_bytes.is_some() || node.is_said_to_be_on(now, peer, job.link);
                if index != self.me && !peer.is_some_and(is_there) {
                    job.absent.push(spec.name.clone());
                    continue;
                }
                widest = widest.max(mtu_bytes.unwrap_or(0));
                job.names.push(spec.name.clone());
                job.peers.push(peer);
            }
            job.datagram_bytes = widest.min(DATAGRAM_BYTES) as u16;
            job
        })
        .collect()
    }
}

/// The largest datagram that passes to a peer on a link, if that works.
fn mtu_of_path(node: &Node, peer: PeerId, link: LinkId) -> Option<usize> {
    let stats = node.peer_stats(peer)?;
    let mut paths = stats.paths.into_iter().filter(|p| p.link == link);
    let up = paths.find(|p| p.state == PathState::Up)?;
    Some(up.stats.mtu_bytes)
}
