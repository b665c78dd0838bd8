//! Streams of a bundle without a virtual NIC: `tabane bulk` on the nodes.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;

use super::flow::{Flow, rates_mbps};
use super::pingpong::Latency;
use tabane_lab::LabError;
use tabane_lab::cluster::{Cluster, PATIENCE, Program};

/// Beside the daemons, which have the cluster file's port.
const PORT: &str = "7601";

/// What one of them reports.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Report {
    /// The streams it took in.
    pub taken: Vec<Flow>,
    /// The small messages it sent, if it was told to.
    pub pinged: Option<Latency>,
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
    let taken = report(receiver, lasting)?.taken;
    let mbps: f64 = rates_mbps(&taken, omit_s, seconds).iter().sum();
    Ok(mbps / 1e3)
}
