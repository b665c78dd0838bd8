//! How long a program takes that does nothing: by itself, and under `tabane run`.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::two_nodes;
use crate::{Report, Samples, Settings, Table};
use tabane_lab::cluster::{Cluster, ClusterConfig, Wire};
use tabane_lab::{Lab, LabError, LinkSpec};

const PROGRAM: &str = "true";
/// How often in a row where it can be repeated.
const REPEATS: usize = 100;
const CONFIG: ClusterConfig = ClusterConfig {
    wire: Wire::Encrypted,
    vnic: true,
    mptcp: false,
    gateway: false,
};

/// On 2 links of 1 Gb/s, nothing else going on.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let mut alone = Samples::default();
    let new = |build| (build, Samples::default(), Samples::default());
    let mut all: Vec<_> = settings.builds().map(new).collect();
    for _ in 0..settings.rounds {
        for (build, with_daemon, first) in &mut all {
            let tabane = settings.tabane(*build);
            let cluster = Cluster::up(Lab::up(&config)?, tabane, CONFIG)?;
            for _ in 0..REPEATS {
                alone.0.push(took_ms(cluster.lab().command(0, PROGRAM))?);
                with_daemon.0.push(took_ms(cluster.run(0, PROGRAM))?);
            }
            // A daemon is started for the first one, and stays for a while.
            let cluster = Cluster::new(Lab::up(&config)?, tabane, CONFIG)?;
            first.0.push(took_ms(cluster.run(0, PROGRAM))?);
        }
    }
    let note = format!(
        "From fork() to wait(), {REPEATS} times in each round; without a daemon the first one of each round."
    );
    let mut table = Table::new(format!("`{PROGRAM}`"), note, &["how", "ms"]);
    table.rows.push(vec!["by itself".into(), alone.into()]);
    for (build, with_daemon, first) in all {
        let how = |what| format!("under tabane run{}, {what}", build.mark());
        let with = vec![how("a daemon runs").into(), with_daemon.into()];
        let without = vec![how("none runs yet").into(), first.into()];
        table.rows.extend([with, without]);
    }
    Ok(Report {
        tables: vec![table],
        ..Report::default()
    })
}

fn took_ms(mut command: Command) -> Result<f64, LabError> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begin = Instant::now();
    let status = command.status().map_err(LabError::io(PROGRAM))?;
    if !status.success() {
        let why = format!("{PROGRAM} ended with {status}");
        return Err(LabError::BadInput(why));
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}
