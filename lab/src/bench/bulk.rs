//! Streams of a bundle without a virtual NIC: `tabane bulk` on the nodes.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;

use crate::LabError;
use crate::cluster::{Cluster, PATIENCE, Program};

/// Beside the daemons, which have the cluster file's port.
const PORT: &str = "7601";

/// What one of them reports.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Report {
    /// The streams it took in.
    pub taken: Vec<Taken>,
    /// The small messages it sent, if it was told to.
    pub pinged: Option<Pinged>,
}

/// A stream that arrived.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Taken {
    /// Name of the node it came from.
    pub from: String,
    /// When its first byte came; the clock is the same for all.
    pub first_ns: Option<u64>,
    /// Width of the intervals, milliseconds.
    pub interval_ms: u64,
    /// Bytes in each interval from then on.
    pub interval_bytes: Vec<u64>,
}

/// Half round trips of small messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct Pinged {
    /// Half of them took at most so long, microseconds.
    pub p50_us: f64,
    /// 99 of 100 took at most so long, microseconds.
    pub p99_us: f64,
}

impl Taken {
    /// Bytes that came within a time, both ends in nanoseconds of the clock.
    pub fn bytes_within(&self, from_ns: u64, until_ns: u64) -> u64 {
        let Some(first_ns) = self.first_ns else {
            return 0;
        };
        let width_ns = self.interval_ms.max(1) * 1_000_000;
        let index = |at: u64| (at.saturating_sub(first_ns) / width_ns) as usize;
        let end = index(until_ns).min(self.interval_bytes.len());
        let begin = index(from_ns).min(end);
        self.interval_bytes[begin..end].iter().sum()
    }
}

/// Start it on a node; `to` and `ping` are nodes, `take` is how many streams come.
///
/// # Errors
/// It does not start.
pub fn start(cluster: &Cluster, node: usize, job: &Job, seconds: f64) -> Result<Program, LabError> {
    let mut command = cluster.tabane(node);
    command.arg("bulk").arg("--config").arg(cluster.file());
    command.args(["--port", PORT, "--node", &format!("n{node}")]);
    command.args(["--seconds", &format!("{}", seconds.ceil() as u64)]);
    command.args(["--take", &job.take.to_string()]);
    for to in &job.to {
        command.arg(format!("--to=n{to}"));
    }
    if let Some(ping) = job.ping {
        command.arg(format!("--ping=n{ping}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Program::start("tabane bulk", command)
}

/// What a node does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    /// Whom it sends a stream.
    pub to: Vec<usize>,
    /// Whom it sends small messages.
    pub ping: Option<usize>,
    /// How many streams it takes in, those of small messages among them.
    pub take: usize,
}

/// Its report, once it has ended.
///
/// # Errors
/// It hangs. One that failed has an empty report.
pub fn report(program: Program, seconds: f64) -> Result<Report, LabError> {
    let said = program.output(PATIENCE + Duration::from_secs_f64(seconds))?;
    Ok(serde_json::from_slice(&said.stdout).unwrap_or_default())
}

/// The rate of one stream from node 0 to node 1 over `seconds`, Gb/s, without
/// the first `omit_s`.
///
/// # Errors
/// As [`start`] and [`report`].
pub fn one_stream(cluster: &Cluster, seconds: f64, omit_s: f64) -> Result<f64, LabError> {
    let lasting = seconds + omit_s;
    let (send, take) = (
        Job {
            to: vec![1],
            ..Job::default()
        },
        Job {
            take: 1,
            ..Job::default()
        },
    );
    let receiver = start(cluster, 1, &take, lasting)?;
    let sender = start(cluster, 0, &send, lasting)?;
    report(sender, lasting)?;
    let taken = report(receiver, lasting)?.taken.pop().unwrap_or_default();
    let from_ns = taken.first_ns.unwrap_or(0) + (omit_s * 1e9) as u64;
    let bytes = taken.bytes_within(from_ns, from_ns + (seconds * 1e9) as u64);
    Ok(bytes as f64 * 8.0 / seconds / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_within_the_time_counts() {
        let taken = Taken {
            first_ns: Some(1_000_000_000),
            interval_ms: 10,
            interval_bytes: vec![1, 2, 4, 8],
            ..Taken::default()
        };
        let ms = |ms: u64| 1_000_000_000 + ms * 1_000_000;
        assert_eq!(taken.bytes_within(ms(10), ms(30)), 6);
        assert_eq!(taken.bytes_within(0, ms(1000)), 15);
        assert_eq!(taken.bytes_within(ms(50), ms(60)), 0);
        assert_eq!(Taken::default().bytes_within(0, 1), 0);
    }
}
