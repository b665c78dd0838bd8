//! How long a job of many ranks takes to begin, and what each of its ranks has then.

use std::process::Stdio;
use std::time::Duration;

use super::contest::Contest;
use super::last_lines;
use super::mpi::{Carrier, Contestant, Control, Job, contestants};
use crate::measure::two_nodes;
use crate::{Bound, Cell, Goal, Report, Settings};
use tabane_io::clock;
use tabane_lab::cluster::{Program, Wire};
use tabane_lab::{LabConfig, LabError, LinkSpec};

const NODES: usize = 8;
const RANKS_PER_NODE: usize = 8;
/// The first is what the others are compared with.
const CARRIERS: [Carrier; 5] = [
    Carrier::Tcp,
    Carrier::Tcp1,
    Carrier::Ucx,
    Carrier::Rxm,
    Carrier::Provider(Wire::Encrypted),
];
/// By then what was in use is given back.
const JOB: Job = Job {
    name: "start",
    arguments: &["8"],
};
/// Many more ranks than processors may take minutes.
const PATIENCE: Duration = Duration::from_secs(180);

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    let config = LabConfig {
        nodes: NODES,
        ..two_nodes(vec![LinkSpec::default(); 2])
    };
    let contestants = contestants(
        settings,
        &CARRIERS,
        &config,
        ("start.c", Control::Links),
        &mut report,
    );
    let names: Vec<_> = contestants
        .iter()
        .map(|it| it.carrier.name().to_owned())
        .collect();
    let ranks = NODES * RANKS_PER_NODE;
    let title = format!("{ranks} ranks of Open MPI on {NODES} nodes, 2 × 1 Gb/s");
    let contest = Contest {
        title: title.clone(),
        note: "From `mpirun` until every rank has had 8 bytes of every other one. Then all are idle for 8 s. Less is better.".into(),
        ways: &[],
        tools: &[],
        figures: &["s", "descriptors", "KB for each idle peer"],
        batches: vec![vec!["first all to all".into()]],
    };
    contest.play(settings, &names, &mut report, |index, _| {
        Ok(vec![start(&contestants[index])?])
    });
    let own = Carrier::Provider(Wire::Encrypted).name();
    let mut rows = report.tables.iter().flat_map(|table| &table.rows);
    let ratio = rows.find_map(|row| match (row.get(1)?, row.last()?) {
        (Cell::Text(way), Cell::Samples(ratio)) if way == own => ratio.median(),
        _ => None,
    });
    let what = format!("{title}: start to first all to all, over Open MPI TCP");
    let goal = Goal::new(what, ratio, Bound::AtMost(1.5));
    report.goals.push(goal);
    Ok(report)
}

/// Seconds until all have heard of all, descriptors of a rank, and KB for each peer.
fn start(contestant: &Contestant) -> Result<Vec<f64>, LabError> {
    let mut mpirun = contestant.mpirun(&JOB, (NODES, RANKS_PER_NODE))?;
    mpirun
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let begun_ns = clock::now_ns();
    let said = Program::start("mpirun", mpirun)?.output(PATIENCE)?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    understand(&text, begun_ns).ok_or_else(|| LabError::ToolFailed {
        tool: "mpirun",
        place: JOB.name.into(),
        message: last_lines(&format!("{text}{}", String::from_utf8_lossy(&said.stderr))),
    })
}

fn understand(said: &str, begun_ns: u64) -> Option<Vec<f64>> {
    let mut words = said.split_whitespace();
    let done_ns: u64 = words.next()?.parse().ok()?;
    let seconds = done_ns.checked_sub(begun_ns)? as f64 / 1e9;
    let rest: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
    (rest.len() == 2).then(|| [vec![seconds], rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_says_is_understood() {
        let said = understand("7500000000 31 12.5\n", 5_000_000_000);
        assert_eq!(said, Some(vec![2.5, 31.0, 12.5]));
        assert_eq!(understand("7500000000 31\n", 5_000_000_000), None);
        assert_eq!(understand("", 5_000_000_000), None);
    }
}
