//! iperf3: streams one way, back, and several at once, in turn. Not `--bidir`: both its ends may write before either
//! reads, and then neither does any more (esnet/iperf issue 2029). The other programs use both ways at once.

use serde_json::Value;

use super::{Attempt, Traffic};
use tabane_lab::cluster::Program;

const PORT: u16 = 5201;

pub(super) fn keep_running(traffic: &Traffic) {
    let mut random = traffic.random(1);
    let ways: [&[&str]; 4] = [&[], &["-R"], &["-P", "4"], &["-P", "4", "-R"]];
    for way in ways.iter().cycle() {
        if !traffic.goes_on() {
            return;
        }
        let nodes = traffic.two_nodes(&mut random);
        let seconds = random.within(2..=8).to_string();
        let [from, to] = nodes;
        let mut server = traffic.cluster.lab().command(to, "iperf3");
        server.args(["-s", "-1", "-p", &PORT.to_string()]);
        let mut server = match Program::start_quiet("iperf3", server) {
            Ok(server) => server,
            Err(error) => return traffic.fail(error.to_string()),
        };
        if let Err(error) = server.listens(PORT) {
            return traffic.fail(error.to_string());
        }
        let mut command = traffic.cluster.lab().command(from, "iperf3");
        let address = traffic.cluster.address(to).to_string();
        command.args(["--json", "-p", &PORT.to_string(), "-c", &address]);
        command.args(["-t", &seconds]).args(*way);
        let what = format!("iperf3 n{from} to n{to} {}", way.join(" "));
        let attempt = Attempt {
            kind: "iperf3",
            what,
            nodes,
            command,
        };
        traffic.attempt(attempt, moved_bytes);
    }
}

/// With `--json` its exit status is good even if it could not connect.
fn moved_bytes(said: &str) -> Option<u64> {
    let report: Value = serde_json::from_str(said).ok()?;
    let moved = report["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
    Some(moved).filter(|&moved| moved > 0 && report.get("error").is_none())
}
