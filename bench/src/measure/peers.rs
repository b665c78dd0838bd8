//! Very many peers: what they cost a node in the simulator, and a daemon whose cluster file names 1,024 of which
//! nobody is there.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::two_nodes;
use crate::machine::{process_s, resident_bytes};
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, output};
use tabane_lab::{Lab, LabError, LinkSpec};

const NODES: usize = 1024;
/// Peers of the simulated node.
const SIMULATED: &str = "1000";
/// Until a peer that never answers is asked as rarely as can be.
const SETTLE: Duration = Duration::from_secs(480);
const WATCH: Duration = Duration::from_secs(60);
/// The simulator is slow beside a busy machine.
const SIMULATOR: Duration = Duration::from_secs(600);

/// What each figure of `sim peers` may be.
const BOUNDS: [(&str, f64); 9] = [
    ("a peer that is known, bytes", 1024.0),
    ("all absent: processor, %", 0.5),
    ("all absent: datagrams a second", 20.0),
    (
        "all start at once: processor of the one they meet, ms",
        300.0,
    ),
    ("until all are up, virtual ms", 1000.0),
    ("an idle bundle over 2 links, bytes", 12.0 * 1024.0),
    ("all idle: processor, %", 0.2),
    ("amid all", 1.2),
    ("amid all, to another one each time", 1.2),
];

/// The simulator, then the daemon.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = simulated(settings)?;
    let absent = absent(settings)?;
    report.tables.extend(absent.tables);
    report.goals.extend(absent.goals);
    Ok(report)
}

fn simulated(settings: &Settings) -> Result<Report, LabError> {
    let mut sim = Command::new(settings.helper.with_file_name("sim"));
    sim.args(["peers", SIMULATED]);
    let said = output("sim (make bench builds it)", sim, SIMULATOR)?;
    let said = String::from_utf8_lossy(&said.stdout);
    let note = "Processor time of the node's calls alone, the least of several runs; all else is exact. \
        In brackets: times as long as amid 8.";
    let title = format!("A node with {SIMULATED} peers over 2 links, simulated (`sim peers`)");
    let mut table = Table::new(title, note, &["what", "figure"]);
    let mut goals = Vec::new();
    for (what, figure) in said.lines().skip(1).filter_map(figure) {
        let bound = BOUNDS.iter().find(|(name, _)| *name == what);
        if let Some((name, most)) = bound {
            let goal = format!("{SIMULATED} peers: {name}");
            goals.push(Goal::new(goal, number(figure), Bound::AtMost(*most)));
        }
        table
            .rows
            .push(vec![what.to_owned().into(), figure.to_owned().into()]);
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

/// A line of `sim peers`: what, and how much.
fn figure(line: &str) -> Option<(&str, &str)> {
    let (what, figure) = line.trim().split_once("  ")?;
    Some((what, figure.trim()))
}

/// The ratio in brackets, or else the number.
fn number(figure: &str) -> Option<f64> {
    let ratio = figure.split_once('(').map(|(_, ratio)| ratio);
    let word = ratio.unwrap_or(figure).split_whitespace().next()?;
    word.parse().ok()
}

/// One daemon, and nobody else.
fn absent(settings: &Settings) -> Result<Report, LabError> {
    let title = format!("A file of {NODES} nodes over 2 links, of which nobody else is there");
    let note = format!(
        "Processor and packets: for {} s, {} s after the start.",
        WATCH.as_secs(),
        SETTLE.as_secs()
    );
    let mut table = Table::new(title, note, &["what", "figure"]);
    let mut goals = Vec::new();
    for build in settings.builds() {
        let seen = watch(settings.tabane(build))?;
        for (what, figure, most) in seen {
            let what = format!("{what}{}", build.mark());
            if build.mark().is_empty() {
                let goal = format!("{NODES} nodes, nobody there: {what}");
                goals.push(Goal::new(goal, Some(figure), Bound::AtMost(most)));
            }
            table
                .rows
                .push(vec![what.into(), Samples(vec![figure]).into()]);
        }
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

/// What was seen of it, and what is wanted at most.
fn watch(tabane: &Path) -> Result<[(&'static str, f64, f64); 4], LabError> {
    let config = ClusterConfig::default();
    let lab = Lab::up(&two_nodes(vec![LinkSpec::default(); 2]))?;
    let mut cluster = Cluster::new(lab, tabane, config)?;
    let mut nodes = String::new();
    for node in cluster.lab().nodes()..NODES {
        let (high, low) = (node / 250, node % 250 + 1);
        let _ = writeln!(nodes, "[[node]]\nname = \"n{node}\"");
        let _ = writeln!(
            nodes,
            "links = [\"10.80.{high}.{low}\", \"10.81.{high}.{low}\"]"
        );
    }
    let file = cluster.file();
    let text = fs::read_to_string(&file).map_err(LabError::io("the cluster file"))?;
    fs::write(&file, text + &nodes).map_err(LabError::io("the cluster file"))?;
    // Packets to those that are not there leave: a host that asks for addresses first has its own pace.
    for (link, net) in ["10.80.0.0/16", "10.81.0.0/16"].into_iter().enumerate() {
        let device = format!("eth{link}");
        let lab = cluster.lab();
        lab.ip(0, &["link", "set", &device, "arp", "off"])?;
        lab.ip(0, &["route", "add", net, "dev", &device])?;
    }
    let begin = Instant::now();
    cluster.start(0)?;
    let ready_s = begin.elapsed().as_secs_f64();
    sleep(SETTLE);
    let pid = cluster.daemon(0).map_or(0, |daemon| daemon.id());
    let (used_s, sent, begin) = (process_s(pid)?, packets(&cluster)?, Instant::now());
    sleep(WATCH);
    let elapsed_s = begin.elapsed().as_secs_f64();
    Ok([
        ("ready, s", ready_s, 0.2),
        (
            "CPU, % of a core",
            (process_s(pid)? - used_s) / elapsed_s * 100.0,
            0.5,
        ),
        (
            "packets a second",
            (packets(&cluster)? - sent) / elapsed_s,
            20.0,
        ),
        (
            "memory, MiB",
            resident_bytes(pid)? as f64 / f64::from(1 << 20),
            20.0,
        ),
    ])
}

/// Packets that node 0 has sent on both links.
fn packets(cluster: &Cluster) -> Result<f64, LabError> {
    let mut cat = cluster.lab().command(0, "cat");
    cat.arg("/proc/net/dev").stdin(Stdio::null());
    let said = output("cat", cat, PATIENCE)?;
    let said = String::from_utf8_lossy(&said.stdout);
    let links = said.lines().filter(|line| line.trim().starts_with("eth"));
    let sent = links.filter_map(|line| {
        line.split_once(':')?
            .1
            .split_whitespace()
            .nth(9)?
            .parse::<f64>()
            .ok()
    });
    Ok(sent.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_simulators_is_understood() {
        let line = "  amid all, to another one each time                                     5.54 (1.05 x)";
        let (what, of) = figure(line).expect("is one");
        assert_eq!(what, "amid all, to another one each time");
        assert_eq!(number(of), Some(1.05));
        assert_eq!(number("12011"), Some(12011.0));
        assert_eq!(number("not counted"), None);
    }
}
