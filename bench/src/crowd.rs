//! Many streams between many nodes at once, and small messages beside them.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::bulk::{self, Job};
use super::flow::{Flow, rates_mbps};
use super::helper::{PORT, SINK_PORT};
use super::pingpong::Latency;
use super::{Settings, helper};
use tabane_lab::cluster::{Cluster, PATIENCE, Program, socket_address};
use tabane_lab::ways::Arena;
use tabane_lab::{LabError, PortCounters};

/// Of every stream, what does not count, seconds.
const OMIT_S: f64 = 1.0;
/// Streams begin one after the other; all of them run for the time that counts.
const SPARE_S: f64 = 1.0;

/// Who sends to whom.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traffic {
    /// A stream from the first to the second, for each.
    pub streams: Vec<(usize, usize)>,
    /// Small messages from the first to the second and back.
    pub ping: Option<(usize, usize)>,
}

/// What carries the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// TCP, on whatever way the arena is.
    Tcp,
    /// The bundles themselves, without `tab0`.
    Bundle,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The rate of every stream, Mb/s; 0 if it never arrived.
    pub mbps: Vec<f64>,
    /// Bytes of all streams, from the first to the last.
    pub bytes: u64,
    /// Half round trips of the small messages.
    pub latency: Option<Latency>,
    /// What the switch ports towards the receivers did meanwhile.
    pub ports: PortCounters,
}

impl Outcome {
    /// All streams together, Mb/s.
    pub fn sum_mbps(&self) -> f64 {
        self.mbps.iter().sum()
    }

    /// Share of packets that the ports had no room for, percent.
    pub fn dropped_percent(&self) -> f64 {
        let all = self.ports.packets + self.ports.drops;
        self.ports.drops as f64 * 100.0 / (all as f64).max(1.0)
    }
}

impl Traffic {
    /// Those that streams or messages go to.
    fn receivers(&self) -> Vec<usize> {
        let to = self.streams.iter().chain(&self.ping).map(|&(_, to)| to);
        distinct(to)
    }

    fn senders(&self) -> Vec<usize> {
        distinct(self.streams.iter().map(|&(from, _)| from))
    }

    fn from(&self, node: usize) -> Vec<usize> {
        let own = self.streams.iter().filter(|(from, _)| *from == node);
        own.map(|&(_, to)| to).collect()
    }

    fn count_to(&self, node: usize) -> usize {
        self.streams.iter().filter(|(_, to)| *to == node).count()
    }

    /// Have it run.
    ///
    /// # Errors
    /// A program does not start, or hangs.
    pub fn run(
        &self,
        settings: &Settings,
        arena: &Arena,
        carrier: Carrier,
    ) -> Result<Outcome, LabError> {
        let before = self.ports(arena)?;
        let (flows, latency) = match (carrier, arena.cluster()) {
            (Carrier::Bundle, Some(cluster)) => self.by_bundle(settings, cluster)?,
            _ => self.by_tcp(settings, arena)?,
        };
        let after = self.ports(arena)?;
        let mut mbps = rates_mbps(&flows, OMIT_S, settings.seconds);
        mbps.resize(self.streams.len(), 0.0);
        let bytes = flows.iter().map(|flow| flow.bytes_within(0, u64::MAX));
        Ok(Outcome {
            mbps,
            bytes: bytes.sum(),
            latency,
            ports: PortCounters {
                packets: after.packets - before.packets,
                drops: after.drops - before.drops,
            },
        })
    }

    fn ports(&self, arena: &Arena) -> Result<PortCounters, LabError> {
        let mut sum = PortCounters::default();
        for node in self.receivers() {
            let port = arena.lab().port_counters(node)?;
            sum.packets += port.packets;
            sum.drops += port.drops;
        }
        Ok(sum)
    }

    fn lasting_s(settings: &Settings) -> f64 {
        settings.seconds + OMIT_S + SPARE_S
    }

    fn by_tcp(
        &self,
        settings: &Settings,
        arena: &Arena,
    ) -> Result<(Vec<Flow>, Option<Latency>), LabError> {
        let start = |node: usize, words: &[String]| {
            let mut command = arena.command(node, &settings.helper)?;
            command.arg("helper").args(words);
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            Program::start("bench helper", command)
        };
        let mut sinks = Vec::new();
        for node in distinct(self.streams.iter().map(|&(_, to)| to)) {
            let count = self.count_to(node).to_string();
            let mut sink = start(node, &["sink".into(), count])?;
            sink.listens(SINK_PORT)?;
            sinks.push(sink);
        }
        let mut floods = Vec::new();
        let lasting = Duration::from_secs_f64(Self::lasting_s(settings));
        for node in self.senders() {
            let to = |to: &usize| socket_address(arena.address(*to), SINK_PORT);
            let mut words = vec!["flood".into(), lasting.as_millis().to_string()];
            words.extend(self.from(node).iter().map(to));
            floods.push(start(node, &words)?);
        }
        let mut latency = None;
        if let Some((from, to)) = self.ping {
            let mut echo = start(to, &["echo".into()])?;
            echo.listens(PORT)?;
            sleep(Duration::from_secs_f64(OMIT_S));
            let ms = (settings.seconds * 1e3).to_string();
            let to = socket_address(arena.address(to), PORT);
            let ping = start(from, &["ping".into(), to, ms])?;
            latency = helper::understand(&ping.output(PATIENCE)?.stdout);
            echo.wait(PATIENCE)?;
        }
        for flood in floods {
            flood.output(PATIENCE + lasting)?;
        }
        let mut flows: Vec<Flow> = Vec::new();
        for sink in sinks {
            let taken: Vec<Flow> = helper::understand(&sink.output(PATIENCE)?.stdout);
            flows.extend(taken);
        }
        Ok((flows, latency))
    }

    fn by_bundle(
        &self,
        settings: &Settings,
        cluster: &Cluster,
    ) -> Result<(Vec<Flow>, Option<Latency>), LabError> {
        let lasting_s = Self::lasting_s(settings);
        let mut programs = Vec::new();
        let mut nodes = self.receivers();
        nodes.extend(self.senders());
        for node in distinct(nodes.into_iter()) {
            let pinged = self.ping.is_some_and(|(_, to)| to == node);
            let job = Job {
                to: self.from(node),
                ping: None,
                take: self.count_to(node) + usize::from(pinged),
            };
            programs.push(bulk::start(cluster, node, &job, lasting_s)?);
        }
        let mut latency = None;
        if let Some((from, to)) = self.ping {
            sleep(Duration::from_secs_f64(OMIT_S));
            let job = Job {
                ping: Some(to),
                ..Job::default()
            };
            let ping = bulk::start(cluster, from, &job, settings.seconds)?;
            latency = bulk::report(ping, lasting_s)?.pinged;
            latency = latency.filter(|latency| latency.count > 0);
        }
        let mut flows = Vec::new();
        for program in programs {
            flows.extend(bulk::report(program, lasting_s)?.taken);
        }
        // The echoed stream is among them: small, and of no rate that counts.
        if self.ping.is_some() {
            flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes_within(0, u64::MAX)));
            flows.truncate(self.streams.len());
        }
        Ok((flows, latency))
    }
}

fn distinct(nodes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut distinct: Vec<_> = nodes.collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}
