//! What a run showed, and the judgement.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fault::NAMES;
use super::ledger::{Struck, unix_ms};
use super::nodes::Sample;
use super::traffic::{Count, Pings, Traffic};
use super::{Run, Settings, judge, log};

/// A daemon logs less than this: for itself, …
const LOG_BYTES: u64 = 16 << 10;
/// … and for each fault, with every path of it failing and returning some times.
const LOG_BYTES_PER_FAULT: u64 = 8 << 10;
/// What a daemon may have in memory at most: the buffers of two busy peers
/// (`memory_bytes` in `tabane status`), its packets, its program.
const RESIDENT_BYTES_MAX: u64 = 256 << 20;
/// A daemon that ran this long is asked whether it grows.
const TREND_AFTER: Duration = Duration::from_secs(600);
/// It grows if the last third of its time needed so much more than the second.
const TREND_BYTES: u64 = 8 << 20;
/// Control clients and a netlink socket may come and go.
const DESCRIPTORS_MORE: usize = 12;

/// The most that a node's daemons had.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Peak {
    /// How often it was started.
    pub starts: usize,
    /// In memory, bytes.
    pub resident_bytes: u64,
    /// Open files.
    pub descriptors: usize,
    /// Logged, bytes.
    pub log_bytes: u64,
}

/// What a run showed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was run.
    pub settings: Settings,
    /// What struck.
    pub struck: Vec<Struck>,
    /// What the programs did.
    pub counts: BTreeMap<&'static str, Count>,
    /// What became of pings.
    pub pings: Vec<Pings>,
    /// From the last fault's end until all paths were up.
    pub healed: Option<Duration>,
    /// What each node's daemons needed.
    pub peaks: Vec<Peak>,
    /// Failures of the link with a delay that no fault explains. They are not
    /// held against tabane: its frames wait for a thread of the lab, which waits
    /// for a processor like any other.
    pub delayed_link_failures: usize,
    /// Failures that a daemon reported and no fault explains, with its line.
    pub false_failures: Vec<String>,
    /// Longest time that this program, asleep until a certain time, had to wait
    /// for a processor afterwards: so long may a packet have waited, too.
    pub longest_stall: Duration,
    /// What else is wrong with tabane; empty is good.
    pub failures: Vec<String>,
    /// Strikes and logs, in order.
    pub timeline: String,
    /// Of each node: `tabane status --json` when something went wrong, or at the end.
    pub statuses: Vec<String>,
}

pub(super) fn judge(run: &Run, traffic: &Traffic, healed: Option<Duration>) -> Outcome {
    let settings = run.settings.clone();
    let struck = run.ledger.copy();
    let statuses = run.statuses();
    let mut failures = traffic.failures();
    let over_ms = unix_ms();
    if let Err(error) = run.nodes.end() {
        failures.push(error.to_string());
    }
    let (mut peaks, mut timeline) = (Vec::new(), strikes(&struck));
    let (mut delayed_link_failures, mut false_failures) = (0, Vec::new());
    for node in 0..settings.nodes {
        let (text, log_bytes) = run.nodes.log(node);
        let samples = run.nodes.samples(node);
        let all = || samples.iter().flatten();
        peaks.push(Peak {
            starts: samples.len(),
            resident_bytes: all().map(|sample| sample.resident_bytes).max().unwrap_or(0),
            descriptors: all().map(|sample| sample.descriptors).max().unwrap_or(0),
            log_bytes,
        });
        for line in text.lines() {
            let at_ms = log::time_ms(line).unwrap_or(0);
            timeline.push((at_ms, format!("n{node} {line}")));
        }
        let failed = text.lines().filter_map(log::failure);
        // What comes later tells of the end itself.
        let false_ones = failed
            .filter(|failure| failure.at_ms < over_ms)
            .filter(|failure| judge::is_false(node, failure, &struck, settings.links));
        let (late, false_ones): (Vec<_>, Vec<_>) =
            false_ones.partition(|failure| settings.may_be_late(failure.what));
        delayed_link_failures += late.len();
        let false_ones = false_ones.into_iter();
        false_failures.extend(false_ones.map(|one| format!("n{node}: {}", one.line)));
        failures.extend(
            text.lines()
                .filter(|line| line.contains("panicked"))
                .map(|line| format!("n{node}: {line}")),
        );
        failures.extend(unbounded(node, &samples, log_bytes, struck.len()));
    }
    timeline.sort_by_key(|(at_ms, _)| *at_ms);
    Outcome {
        settings,
        counts: traffic.counts(),
        pings: traffic.pings(),
        healed,
        peaks,
        delayed_link_failures,
        false_failures,
        longest_stall: Duration::from_micros(run.longest_stall_us.load(Ordering::Relaxed)),
        failures,
        timeline: timeline
            .into_iter()
            .map(|(at_ms, text)| format!("{at_ms} {text}\n"))
            .collect(),
        statuses,
        struck,
    }
}

fn strikes(struck: &[Struck]) -> Vec<(u64, String)> {
    let mut lines = Vec::new();
    for one in struck {
        lines.push((one.begin_ms, format!("+ {}", one.strike)));
        lines.extend(one.end_ms.map(|end| (end, format!("- {}", one.strike))));
    }
    lines
}

/// What grew without a bound.
fn unbounded(node: usize, daemons: &[Vec<Sample>], log_bytes: u64, faults: usize) -> Vec<String> {
    let mut failures = Vec::new();
    let log_bytes_max = LOG_BYTES + LOG_BYTES_PER_FAULT * faults as u64;
    if log_bytes > log_bytes_max {
        failures.push(format!(
            "n{node} logged {log_bytes} bytes; {faults} faults are worth {log_bytes_max}"
        ));
    }
    for samples in daemons {
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            continue;
        };
        if last.descriptors > first.descriptors + DESCRIPTORS_MORE {
            let (before, after) = (first.descriptors, last.descriptors);
            failures.push(format!("n{node} had {before} files open, now {after}"));
        }
        let most = samples.iter().map(|sample| sample.resident_bytes).max();
        if most.is_some_and(|most| most > RESIDENT_BYTES_MAX) {
            failures.push(format!("n{node} needed {most:?} bytes of memory"));
        }
        let (second, third) = (typical(samples, 1), typical(samples, 2));
        if last.age > TREND_AFTER && third > second + second / 4 + TREND_BYTES {
            failures.push(format!("n{node} grew from {second} to {third} bytes"));
        }
    }
    failures
}

/// The median memory in one third of a daemon's life.
fn typical(samples: &[Sample], third: usize) -> u64 {
    let length = samples.len() / 3;
    let part = &samples[third * length..(third + 1) * length];
    let mut bytes: Vec<u64> = part.iter().map(|sample| sample.resident_bytes).collect();
    bytes.sort_unstable();
    bytes.get(bytes.len() / 2).copied().unwrap_or(0)
}

impl Outcome {
    /// Whether nothing is wrong with tabane.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && self.false_failures.is_empty()
    }

    /// Tell what is needed to find out more, on standard error.
    pub fn explain(&self) {
        if !self.is_good() {
            eprintln!("{}\n{}", self.timeline, self.statuses.join("\n"));
        }
    }

    /// Write everything into a directory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("soak.md"), self.to_string())?;
        fs::write(directory.join("timeline.txt"), &self.timeline)?;
        fs::write(directory.join("statuses.txt"), self.statuses.join("\n"))
    }

    fn strikes_by_kind(&self) -> String {
        let counts = NAMES.into_iter().map(|name| {
            let of_kind = |one: &&Struck| one.strike.kind.name() == name;
            (self.struck.iter().filter(of_kind).count(), name)
        });
        let some = counts.filter(|(count, _)| *count > 0);
        some.map(|(count, name)| format!("{count} {name}"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        let Settings { nodes, links, .. } = settings;
        let busy = if settings.busy {
            ", processors busy"
        } else {
            ""
        };
        writeln!(
            f,
            "seed {}: {nodes} nodes, {links} links of {} Mb/s, {} s, {} faults{busy}",
            settings.seed,
            settings.mbit,
            settings.length.as_secs(),
            self.struck.len(),
        )?;
        writeln!(f, "faults: {}\n", self.strikes_by_kind())?;
        self.show_programs(f)?;
        self.show_pings(f)?;
        self.show_daemons(f)?;
        if let Some(healed) = self.healed {
            let seconds = healed.as_secs_f64();
            writeln!(f, "all paths up {seconds:.1} s after the last fault")?;
        }
        if self.delayed_link_failures > 0 {
            let count = self.delayed_link_failures;
            writeln!(
                f,
                "{count} failures of the delayed link, whose emulator shares the processors"
            )?;
        }
        let stall_ms = self.longest_stall.as_millis();
        writeln!(f, "a sleeper waited up to {stall_ms} ms for a processor")?;
        for failure in &self.false_failures {
            writeln!(f, "FALSE FAILURE: {failure}")?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED: {failure}")?;
        }
        let (other, false_ones) = (self.failures.len(), self.false_failures.len());
        write!(f, "{false_ones} false failures, {other} others")
    }
}

/// The tables.
impl Outcome {
    fn show_programs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| program | ended well | `tab0` away | amount | longest, s |"
        )?;
        writeln!(f, "|---|---|---|---|---|")?;
        for (name, count) in &self.counts {
            let longest_s = count.longest_ms as f64 / 1e3;
            let Count {
                done,
                excused,
                amount,
                ..
            } = count;
            writeln!(
                f,
                "| {name} | {done} | {excused} | {amount} | {longest_s:.2} |"
            )?;
        }
        Ok(())
    }

    fn show_pings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n| ping | sent | answered | longest gap, ms | … while no fault by itself parted the two | from, Unix ms |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for pings in &self.pings {
            let [from, to] = pings.nodes;
            let gaps = pings.longest(&self.struck);
            let [all, linked] = gaps.map(|(begin, end)| end - begin);
            let from_ms = gaps[1].0;
            let (sent, answered) = (pings.sent, pings.answered);
            writeln!(
                f,
                "| n{from} to n{to} | {sent} | {answered} | {all} | {linked} | {from_ms} |"
            )?;
        }
        Ok(())
    }

    fn show_daemons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n| daemon | starts | memory, MiB | open files | logged, bytes |"
        )?;
        writeln!(f, "|---|---|---|---|---|")?;
        for (node, peak) in self.peaks.iter().enumerate() {
            let mib = peak.resident_bytes as f64 / f64::from(1 << 20);
            let Peak {
                starts,
                descriptors,
                log_bytes,
                ..
            } = peak;
            writeln!(
                f,
                "| n{node} | {starts} | {mib:.1} | {descriptors} | {log_bytes} |"
            )?;
        }
        writeln!(f)
    }
}
