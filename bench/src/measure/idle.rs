//! What a node costs that does nothing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::machine::{process_s, resident_bytes};
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::{Cluster, ClusterConfig};
use tabane_lab::{Lab, LabConfig, LabError};

const PEERS: usize = 8;
/// Keepalives slow down as nothing happens.
const SETTLE: Duration = Duration::from_secs(5);
const WATCH: Duration = Duration::from_secs(10);

/// Nine nodes on two links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = LabConfig {
        nodes: PEERS + 1,
        ..LabConfig::default()
    };
    let cluster = Cluster::up(
        Lab::up(&config)?,
        &settings.tabane,
        ClusterConfig::default(),
    )?;
    sleep(SETTLE);
    let pids: Vec<u32> = (0..=PEERS)
        .filter_map(|node| Some(cluster.daemon(node)?.id()))
        .collect();
    let used = || {
        pids.iter()
            .map(|&pid| process_s(pid))
            .collect::<Result<Vec<_>, _>>()
    };
    let (before, begin) = (used()?, Instant::now());
    sleep(WATCH);
    let (after, elapsed_s) = (used()?, begin.elapsed().as_secs_f64());
    let share = |(after, before): (&f64, &f64)| (after - before) / elapsed_s * 100.0;
    let cpu = Samples(after.iter().zip(&before).map(share).collect());
    let status = cluster.status(0)?;
    let peers = status["peers"].as_array().into_iter().flatten();
    let memory = peers.filter_map(|peer| Some(peer["memory_bytes"].as_f64()? / 1e6));
    let memory = Samples(memory.collect());
    let resident = pids
        .iter()
        .map(|&pid| Ok(resident_bytes(pid)? as f64 / 1e6));
    let resident = Samples(resident.collect::<Result<_, LabError>>()?);

    let mut table = Table::new(
        format!("An idle node with {PEERS} peers on 2 links"),
        format!(
            "Each of the {} daemons is a sample, watched for {} s.",
            PEERS + 1,
            WATCH.as_secs()
        ),
        &["what", "measured"],
    );
    table.rows = vec![
        vec!["CPU, % of a core".into(), cpu.clone().into()],
        vec![
            "memory per peer, MB, by `tabane status`".into(),
            memory.into(),
        ],
        vec!["memory of the daemon, MB".into(), resident.into()],
    ];
    let what = format!("CPU of an idle node with {PEERS} peers, % of a core");
    Ok(Report {
        tables: vec![table],
        goals: vec![Goal::new(what, cpu.median(), Bound::AtMost(0.5))],
        ..Report::default()
    })
}
