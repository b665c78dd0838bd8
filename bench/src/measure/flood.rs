//! A stranger floods one link of a node; what is left of a stream of a steady rate,
//! beside TCP on that link with a UDP socket that nobody reads: what the kernel
//! itself takes for being flooded.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::machine::resident_bytes;
use crate::{Bound, Entrant, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::{PATIENCE, Program, Wire, output};
use tabane_lab::flood::{Flood, FloodConfig, Kind, PortCounters, Recorder, port_counters};
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabConfig, LabError, LinkSpec};

/// Room for a million small packets a second beside the stream.
const LINE_MBIT: u64 = 5_000;
/// What the stream carries, if it can.
const STREAM_MBIT: u64 = 1_000;
/// The stream goes from node 0 to node 1, which is flooded.
const VICTIM: usize = 1;
const STRANGER: usize = 2;
const LINK: usize = 0;
const WAYS: [Way; 2] = [Way::Tcp { link: LINK }, Way::Tabane(Wire::Encrypted)];
const KINDS: [(&str, Kind); 3] = [
    ("forged handshakes", Kind::Handshakes),
    ("garbage", Kind::Garbage),
    ("altered copies", Kind::Copies),
];

/// What one flood came to.
#[derive(Default)]
struct Round {
    before_gbps: f64,
    gbps: f64,
    /// Millions of packets a second at the victim's port.
    mpps: f64,
    answered: f64,
    failures: f64,
    grown_mb: f64,
}

/// Every kind on every way, the ways in turn.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let columns = [
        "flood of",
        "way",
        "million packets/s",
        "Gb/s before",
        "Gb/s during",
        "during / before",
        "bytes back / bytes in, %",
        "link failures",
        "memory grown, MB",
    ];
    let note = format!(
        "One stream of at most {STREAM_MBIT} Mb/s by iperf3; links of {} Gb/s, one of them flooded \
         from a third node, as fast as this machine goes beside it. TCP has that link alone, and a \
         UDP socket on the flooded port that nobody reads.",
        LINE_MBIT / 1000
    );
    let mut table = Table::new("A stranger's flood", note, &columns);
    let mut goals = Vec::new();
    for (name, kind) in KINDS {
        let entrants = settings.entrants(&WAYS).into_iter();
        let mut all: Vec<_> = entrants.map(|entrant| (entrant, Vec::new())).collect();
        for _ in 0..settings.rounds {
            for (entrant, rounds) in &mut all {
                rounds.push(one(settings, *entrant, kind)?);
            }
        }
        for (entrant, rounds) in all {
            let of = |value: fn(&Round) -> f64| Samples(rounds.iter().map(value).collect());
            let kept = of(|r| r.gbps / r.before_gbps.max(1e-9));
            let answered = of(|r| r.answered * 100.0);
            if entrant.is_own() && matches!(entrant.way, Way::Tabane(_)) {
                let what = |what| format!("flood of {name}: {what}");
                let least = Bound::AtLeast(0.9);
                goals.push(Goal::new(what("rate kept"), kept.median(), least));
                let most = Bound::AtMost(100.0);
                goals.push(Goal::new(what("answered, %"), answered.max(), most));
                let (failures, none) = (of(|r| r.failures).max(), Bound::AtMost(0.0));
                goals.push(Goal::new(what("link failures"), failures, none));
            }
            table.rows.push(vec![
                name.into(),
                entrant.to_string().into(),
                of(|r| r.mpps).into(),
                of(|r| r.before_gbps).into(),
                of(|r| r.gbps).into(),
                kept.into(),
                answered.into(),
                of(|r| r.failures).into(),
                of(|r| r.grown_mb).into(),
            ]);
        }
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

fn one(settings: &Settings, entrant: Entrant, kind: Kind) -> Result<Round, LabError> {
    let config = LabConfig {
        nodes: 3,
        links: vec![LinkSpec::mbit(LINE_MBIT); 2],
        ..LabConfig::default()
    };
    let arena = settings.stand(entrant, &config)?;
    let lab = arena.lab();
    let _unread = match arena.cluster() {
        Some(_) => None,
        None => {
            let mut unread = lab.command(VICTIM, &settings.helper);
            unread.args(["helper", "unread"]);
            Some(Program::start_quiet("bench helper", unread)?)
        }
    };
    let recorder = Recorder::start(lab, LINK)?;
    let mut round = Round {
        before_gbps: stream(&arena, settings)?,
        ..Round::default()
    };
    let (memory, failures) = (memory_mb(&arena)?, failures(&arena)?);
    let mut recorded = recorder.take();
    if recorded.is_empty() {
        // Plain TCP says nothing on tabane's port: something of that length.
        recorded.push(vec![0x10; 1200]);
    }
    let flood = FloodConfig {
        from: STRANGER,
        to: VICTIM,
        link: LINK,
        kind,
        count: u64::MAX,
        recorded,
    };
    let ports = || -> Result<[PortCounters; 2], LabError> {
        Ok([
            port_counters(lab, STRANGER, LINK)?,
            port_counters(lab, VICTIM, LINK)?,
        ])
    };
    let before = ports()?;
    let flood = Flood::start(lab, &flood)?;
    round.gbps = stream(&arena, settings)?;
    let elapsed = flood.stop().elapsed;
    let after = ports()?;
    let came = after[0].from_packets - before[0].from_packets;
    round.mpps = came as f64 / 1e6 / elapsed.as_secs_f64();
    let bytes = |of: fn(&PortCounters) -> u64| (of(&after[0]) - of(&before[0])) as f64;
    round.answered = bytes(|port| port.to_bytes) / bytes(|port| port.from_bytes).max(1.0);
    round.failures = self::failures(&arena)? - failures;
    round.grown_mb = memory_mb(&arena)? - memory;
    Ok(round)
}

/// What iperf3 gets through, Gb/s; a connection that dies is 0.
fn stream(arena: &Arena, settings: &Settings) -> Result<f64, LabError> {
    let _server = arena.serve_iperf3()?;
    let mut client = arena.command(0, "iperf3")?;
    client.args(["--json", "-c", &arena.address(VICTIM).to_string()]);
    client.args(["-t", &settings.seconds.to_string(), "-O", "1"]);
    client.args(["-b", &format!("{STREAM_MBIT}M")]);
    client.stderr(Stdio::null());
    let patience = PATIENCE + Duration::from_secs_f64(settings.seconds);
    let said = output("iperf3", client, patience)?;
    let report: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    let rate = &report["end"]["sum_received"]["bits_per_second"];
    Ok(rate.as_f64().unwrap_or(0.0) / 1e9)
}

/// How often the victim saw a link to the other fail.
fn failures(arena: &Arena) -> Result<f64, LabError> {
    let Some(cluster) = arena.cluster() else {
        return Ok(0.0);
    };
    let status = cluster.status(VICTIM)?;
    let peers = status["peers"].as_array().into_iter().flatten();
    let paths = peers.filter_map(|peer| peer["paths"].as_array()).flatten();
    let failures = paths.filter_map(|path| path["failures"].as_f64());
    Ok(failures.sum())
}

/// Memory of the victim's daemon, MB.
fn memory_mb(arena: &Arena) -> Result<f64, LabError> {
    let daemon = arena.cluster().and_then(|cluster| cluster.daemon(VICTIM));
    let bytes = daemon
        .map(|daemon| resident_bytes(daemon.id()))
        .transpose()?;
    Ok(bytes.unwrap_or(0) as f64 / 1e6)
}
