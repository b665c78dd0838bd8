//! Redis: redis-benchmark on node 0, redis-server on node 1.

use super::contest::{Contest, WAYS};
use super::{files, finish};
use crate::measure::two_nodes;
use crate::tools::{REDIS_BENCHMARK, REDIS_SERVER};
use crate::{Report, Settings};
use tabane_lab::cluster::{Program, Scratch};
use tabane_lab::ways::Arena;
use tabane_lab::{LabError, LinkSpec};

const PORT: u16 = 6379;

/// One way to ask.
#[derive(Clone, Copy)]
struct Load {
    clients: u32,
    /// Requests on their way at once for each client.
    pipelined: u32,
    /// How many in a second, roughly: the run is that long.
    per_second: f64,
}

const LOADS: [Load; 4] = [
    load(1, 1, 12e3),
    load(1, 16, 150e3),
    load(50, 1, 70e3),
    load(50, 16, 500e3),
];

const fn load(clients: u32, pipelined: u32, per_second: f64) -> Load {
    Load {
        clients,
        pipelined,
        per_second,
    }
}

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let name = |test: &str, load: &Load| {
        let (clients, pipelined) = (load.clients, load.pipelined);
        let clients = if clients == 1 {
            "1 client".into()
        } else {
            format!("{clients} clients")
        };
        let pipelined = if pipelined == 1 {
            "".into()
        } else {
            format!(", {pipelined} pipelined")
        };
        format!("{test}, {clients}{pipelined}")
    };
    let batch = |load: &Load| vec![name("SET", load), name("GET", load)];
    let contest = Contest {
        title: "Redis, redis-benchmark, 2 × 1 Gb/s".into(),
        note: "Values of 3 bytes, the program's default. Cubic.".into(),
        ways: &WAYS,
        tools: &[REDIS_SERVER, REDIS_BENCHMARK],
        figures: &["requests/s", "p50, µs", "p99, µs"],
        batches: LOADS.iter().map(batch).collect(),
    };
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    Ok(contest.run(settings, &config, serve, |contestant, batch| {
        ask(&contestant.stand, LOADS[batch], settings.seconds / 2.0)
    }))
}

fn serve(arena: &Arena) -> Result<(Program, Scratch), LabError> {
    let own = files::scratch()?;
    let mut server = arena.command(1, REDIS_SERVER.find()?)?;
    server.args([
        "--port",
        &PORT.to_string(),
        "--bind",
        "0.0.0.0",
        "--protected-mode",
        "no",
    ]);
    server
        .args([
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--dir",
        ])
        .arg(own.path());
    let mut server = Program::start_quiet("redis-server", server)?;
    arena.listens(1, &mut server, PORT)?;
    Ok((server, own))
}

fn ask(arena: &Arena, load: Load, seconds: f64) -> Result<Vec<Vec<f64>>, LabError> {
    let mut benchmark = arena.command(0, REDIS_BENCHMARK.find()?)?;
    let count = (load.per_second * seconds) as u64;
    benchmark.args(["-h", &arena.address(1).to_string(), "-p", &PORT.to_string()]);
    benchmark.args([
        "-c",
        &load.clients.to_string(),
        "-P",
        &load.pipelined.to_string(),
    ]);
    benchmark.args(["-n", &count.to_string(), "-t", "set,get", "--csv"]);
    let said = finish("redis-benchmark", benchmark)?;
    let rows = understand(&String::from_utf8_lossy(&said.stdout));
    if rows.len() == 2 {
        return Ok(rows);
    }
    Err(LabError::ToolFailed {
        tool: "redis-benchmark",
        place: "n0".into(),
        message: "its answer was not understood".into(),
    })
}

/// `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",…` and a
/// line for each test.
fn understand(said: &str) -> Vec<Vec<f64>> {
    let fields = |line: &str| -> Vec<String> {
        let words = line
            .split(',')
            .map(|word| word.trim_matches('"').to_owned());
        words.collect()
    };
    let mut lines = said
        .lines()
        .filter(|line| line.starts_with('"'))
        .map(fields);
    let Some(heading) = lines.next() else {
        return Vec::new();
    };
    let row = |line: Vec<String>| {
        let of = |name: &str| {
            let at = heading.iter().position(|word| word == name)?;
            line.get(at)?.parse::<f64>().ok()
        };
        let us = |name: &str| of(name).map(|ms| ms * 1e3);
        Some(vec![
            of("rps")?,
            us("p50_latency_ms")?,
            us("p99_latency_ms")?,
        ])
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_understood() {
        let said = "WARNING: no config\n\
            \"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
            \"SET\",\"14836.80\",\"0.063\",\"0.024\",\"0.063\",\"0.087\",\"0.135\",\"0.735\"\n\
            \"GET\",\"15000.00\",\"0.060\",\"0.024\",\"0.055\",\"0.087\",\"0.100\",\"0.735\"\n";
        let rows = understand(said);
        assert_eq!(rows, [[14836.8, 63.0, 135.0], [15000.0, 55.0, 100.0]]);
        assert!(understand("nonsense").is_empty());
    }
}
