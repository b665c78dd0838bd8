//! Unmodified iperf3, from node 0 to node 1.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::machine::Processors;
use tabane_lab::LabError;
use tabane_lab::cluster::{PATIENCE, output};
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Arena;

/// What iperf3 is to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// How long its one stream runs, seconds, without `omit_s`.
    pub seconds: f64,
    /// Time at the beginning that does not count, seconds.
    pub omit_s: f64,
    /// Its congestion control; `None` is the kernel's default.
    pub congestion: Option<Congestion>,
    /// Another stream from node 1 to node 0 at the same time.
    pub both_ways: bool,
}

/// What came of it, as the receivers saw it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// From node 0 to node 1, Gb/s of payload.
    pub gbps: f64,
    /// From node 1 to node 0; 0 if it was not asked for.
    pub back_gbps: f64,
    /// Segments its TCP sent again, node 0.
    pub retransmits: u64,
    /// Busy seconds of the whole machine for each GB of payload (both ways).
    pub cpu_s_per_gb: f64,
}

/// Run it once.
///
/// # Errors
/// iperf3 is not installed or fails; a connection that dies is such a failure.
pub fn run(arena: &Arena, load: Load) -> Result<Outcome, LabError> {
    run_to(arena, arena.address(1), load)
}

/// The same to another address of node 1.
///
/// # Errors
/// As [`run`].
pub fn run_to(arena: &Arena, to: IpAddr, load: Load) -> Result<Outcome, LabError> {
    let mut server = arena.serve_iperf3()?;
    let mut client = arena.command(0, "iperf3")?;
    client.args(["--json", "-c", &to.to_string()]);
    client.args(["-t", &whole(load.seconds), "-O", &whole(load.omit_s)]);
    if let Some(congestion) = load.congestion {
        client.args(["-C", &congestion.to_string()]);
    }
    if load.both_ways {
        client.arg("--bidir");
    }
    client.stderr(Stdio::null());
    let before = Processors::now()?;
    let patience = PATIENCE + Duration::from_secs_f64(load.seconds + load.omit_s);
    let said = output("iperf3", client, patience)?;
    let busy_s = Processors::now()?.busy_s_since(before);
    server.wait(PATIENCE)?;
    let report: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    understand(&report, busy_s).ok_or_else(|| LabError::ToolFailed {
        tool: "iperf3",
        place: format!("n0 ({})", arena.way()),
        message: report["error"].as_str().unwrap_or("no report").to_owned(),
    })
}

/// iperf3 takes whole seconds.
fn whole(seconds: f64) -> String {
    format!("{}", seconds.round() as u64)
}

fn understand(report: &Value, busy_s: f64) -> Option<Outcome> {
    if report.get("error").is_some() {
        return None;
    }
    let end = &report["end"];
    let gbps = |sum: &str| end[sum]["bits_per_second"].as_f64().map(|rate| rate / 1e9);
    let bytes = |sum: &str, end_of: &str| {
        let intervals = report["intervals"].as_array().into_iter().flatten();
        let all = intervals.filter_map(|interval| interval[sum]["bytes"].as_f64());
        all.sum::<f64>()
            .max(end[end_of]["bytes"].as_f64().unwrap_or(0.0))
    };
    let total =
        bytes("sum", "sum_received") + bytes("sum_bidir_reverse", "sum_received_bidir_reverse");
    Some(Outcome {
        gbps: gbps("sum_received")?,
        back_gbps: gbps("sum_received_bidir_reverse").unwrap_or(0.0),
        retransmits: end["sum_sent"]["retransmits"].as_u64().unwrap_or(0),
        cpu_s_per_gb: busy_s / (total / 1e9).max(1e-9),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_understood() {
        let report = json!({
            "intervals": [
                {"sum": {"bytes": 1e9, "omitted": true}},
                {"sum": {"bytes": 1e9, "omitted": false}},
            ],
            "end": {
                "sum_sent": {"retransmits": 7},
                "sum_received": {"bits_per_second": 8e9, "bytes": 1e9},
            },
        });
        let outcome = understand(&report, 3.0).expect("is whole");
        assert_eq!(outcome.gbps, 8.0);
        assert_eq!(outcome.back_gbps, 0.0);
        assert_eq!(outcome.retransmits, 7);
        // The omitted second cost as much as the other.
        assert_eq!(outcome.cpu_s_per_gb, 1.5);
    }

    #[test]
    fn an_error_is_no_outcome() {
        assert_eq!(understand(&json!({"error": "reset", "end": {}}), 1.0), None);
        assert_eq!(understand(&Value::Null, 1.0), None);
    }
}
