//! What a node costs that does nothing.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::machine::{process_s, resident_bytes};
use crate::{Bound, Build, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::{Cluster, ClusterConfig};
use tabane_lab::{Lab, LabConfig, LabError};

const PEERS: usize = 8;
/// Keepalives slow down as nothing happens.
const SETTLE: Duration = Duration::from_secs(5);
const WATCH: Duration = Duration::from_secs(10);

/// What was seen of all nodes.
struct Seen {
    cpu_percent: Samples,
    peer_mb: Samples,
    daemon_mb: Samples,
}

/// Nine nodes on two links of 1 Gb/s, one build after the other.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let builds: Vec<_> = settings.builds().collect();
    let of = |build: &Build| watch(settings.tabane(*build));
    let seen: Vec<Seen> = builds.iter().map(of).collect::<Result<_, _>>()?;
    let mut columns = vec!["what".to_owned()];
    columns.extend(builds.iter().map(Build::to_string));
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let note = format!(
        "Each of the {} daemons is a sample, watched for {} s.",
        PEERS + 1,
        WATCH.as_secs()
    );
    let title = format!("An idle node with {PEERS} peers on 2 links");
    let mut table = Table::new(title, note, &columns);
    let mut row = |what: &str, of: fn(&Seen) -> &Samples| {
        let mut row = vec![what.into()];
        row.extend(seen.iter().map(|seen| of(seen).clone().into()));
        table.rows.push(row);
    };
    row("CPU, % of a core", |seen| &seen.cpu_percent);
    row("memory per peer, MB, by `tabane status`", |seen| {
        &seen.peer_mb
    });
    row("memory of the daemon, MB", |seen| &seen.daemon_mb);
    let what = format!("CPU of an idle node with {PEERS} peers, % of a core");
    let cpu = seen.first().and_then(|own| own.cpu_percent.median());
    Ok(Report {
        tables: vec![table],
        goals: vec![Goal::new(what, cpu, Bound::AtMost(0.5))],
        ..Report::default()
    })
}

fn watch(tabane: &Path) -> Result<Seen, LabError> {
    let config = LabConfig {
        nodes: PEERS + 1,
        ..LabConfig::default()
    };
    let cluster = Cluster::up(Lab::up(&config)?, tabane, ClusterConfig::default())?;
    sleep(SETTLE);
    let daemons = (0..=PEERS).filter_map(|node| Some(cluster.daemon(node)?.id()));
    let pids: Vec<u32> = daemons.collect();
    let used = || -> Result<Vec<f64>, _> { pids.iter().map(|&pid| process_s(pid)).collect() };
    let (before, begin) = (used()?, Instant::now());
    sleep(WATCH);
    let (after, elapsed_s) = (used()?, begin.elapsed().as_secs_f64());
    let percent = |(after, before): (&f64, &f64)| (after - before) / elapsed_s * 100.0;
    let cpu_percent = Samples(after.iter().zip(&before).map(percent).collect());
    let status = cluster.status(0)?;
    let peers = status["peers"].as_array().into_iter().flatten();
    let peer_mb = peers.filter_map(|peer| Some(peer["memory_bytes"].as_f64()? / 1e6));
    let resident = pids
        .iter()
        .map(|&pid| Ok(resident_bytes(pid)? as f64 / 1e6));
    Ok(Seen {
        cpu_percent,
        peer_mb: Samples(peer_mb.collect()),
        daemon_mb: Samples(resident.collect::<Result<_, LabError>>()?),
    })
}
