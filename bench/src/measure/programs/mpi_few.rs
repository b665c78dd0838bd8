//! Integer sort (paper 002, figure 5) with few bundles, and with all.

use std::process::Stdio;
use std::time::Duration;

use super::contest::Contest;
use super::mpi::{Carrier, Control, Job, contestants};
use super::{finish, last_lines};
use crate::measure::two_nodes;
use crate::{Report, Settings};
use tabane_lab::cluster::{Program, Wire};
use tabane_lab::{Lab, LabConfig, LabError, LinkSpec};

const NODES: usize = 16;
const RANKS_PER_NODE: usize = 2;
/// `TABANE_BUNDLES`: what the mesh of 32 takes, so many more for what is relayed much, and one with each.
const BUNDLES: [(&str, &str); 5] = [
    ("all", "all"),
    ("7, no shortcuts", "7"),
    ("11, 4 shortcuts", "11"),
    ("23, 16 shortcuts", "23"),
    (HALF, "all"),
];
/// The paper's other way to have few connections: between a random half of the nodes no link carries tabane's packets.
const HALF: &str = "random half of the pairs";
const JOB: Job = Job {
    name: "integer sort",
    arguments: &["is"],
};
const OWN: Carrier = Carrier::Provider(Wire::Encrypted);
/// Many more ranks than processors.
const PATIENCE: Duration = Duration::from_secs(180);

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings, report: &mut Report) {
    let config = LabConfig {
        nodes: NODES,
        ..two_nodes(vec![LinkSpec::default(); 2])
    };
    let here = contestants(
        settings,
        &[OWN],
        &config,
        ("kernels.c", Control::Links),
        report,
    );
    let Some(here) = here.first() else { return };
    let names = BUNDLES.map(|(name, _)| name.to_owned());
    let ranks = NODES * RANKS_PER_NODE;
    let contest = Contest {
        title: format!("Integer sort of {ranks} ranks on {NODES} nodes, by TABANE_BUNDLES"),
        note: "Bundles: the most that a rank had over links. KB: what the rank that has most holds for all peers together. Ranks of one \
               node talk through shared memory. Less is better."
            .into(),
        ways: &[],
        tools: &[],
        figures: &["s", "bundles", "KB"],
        batches: vec![vec![JOB.name.into()]],
    };
    contest.play(settings, &names, report, |index, _| {
        let variables = [
            ("TABANE_BUNDLES", BUNDLES[index].1),
            ("TABANE_STATS", "1"),
            // As `tabane mpi` does: all peers are named at once.
            ("OMPI_MCA_mpi_add_procs_cutoff", "1000000"),
        ];
        let mut mpirun = here.mpirun_with(&JOB, (NODES, RANKS_PER_NODE), &variables)?;
        mpirun
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let halved = BUNDLES[index].0 == HALF;
        if halved {
            part(here.stand.lab())?;
        }
        let said = Program::start("mpirun", mpirun)?.output(PATIENCE);
        if halved {
            join(here.stand.lab())?;
        }
        let said = said?;
        let (told, stats) = (
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr),
        );
        let figures = understand(&told, &stats).ok_or_else(|| LabError::ToolFailed {
            tool: "mpirun",
            place: JOB.name.into(),
            message: last_lines(&stats),
        })?;
        Ok(vec![figures])
    });
}

/// Half of the pairs of nodes, the same each time.
fn is_apart(one: usize, other: usize) -> bool {
    let pair = (one.min(other) * NODES + one.max(other)) as u32;
    pair.wrapping_mul(0x9e37_79b9) >> 23 & 1 == 0
}

/// From now on nodes that are apart drop each other's datagrams.
fn part(lab: &Lab) -> Result<(), LabError> {
    for node in 0..NODES {
        let others = (0..NODES).filter(|other| *other != node && is_apart(node, *other));
        let addresses = others.flat_map(|other| (0..2).map(move |link| lab.address(other, link)));
        let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
        let rules = format!(
            "add table inet half; add chain inet half in {{ type filter hook input priority 0; }}; \
             add rule inet half in meta l4proto udp ip saddr {{ {} }} drop",
            addresses.join(", ")
        );
        nft(lab, node, &rules)?;
    }
    Ok(())
}

/// All are together again.
fn join(lab: &Lab) -> Result<(), LabError> {
    (0..NODES).try_for_each(|node| nft(lab, node, "delete table inet half"))
}

fn nft(lab: &Lab, node: usize, rules: &str) -> Result<(), LabError> {
    let mut nft = lab.command(node, "nft");
    nft.arg(rules);
    finish("nft", nft).map(drop)
}

/// Seconds; bundles and KB of the ranks that have most.
fn understand(told: &str, stats: &str) -> Option<Vec<f64>> {
    let seconds: f64 = told.split_whitespace().next()?.parse().ok()?;
    let before = |line: &str, word: &str| -> Option<f64> {
        let head = line.split(word).next().filter(|head| *head != line)?;
        head.split_whitespace().last()?.parse().ok()
    };
    let most = |word: &str| {
        let all = stats.lines().filter_map(|line| before(line, word));
        all.reduce(f64::max)
    };
    Some(vec![seconds, most(" bundles,")?, most(" KB held")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_pairs_are_apart_and_everybody_reaches_everybody_by_one_other() {
        let others = |node: usize| (0..NODES).filter(move |other| *other != node);
        let apart = (0..NODES).flat_map(|one| others(one).filter(move |two| is_apart(one, *two)));
        let half = NODES * (NODES - 1) / 2;
        assert!(apart.count().abs_diff(half) <= half / 8);
        for (one, two) in (0..NODES).flat_map(|one| others(one).map(move |two| (one, two))) {
            let by =
                |other: &usize| *other != two && !is_apart(one, *other) && !is_apart(*other, two);
            assert!(!is_apart(one, two) || others(one).any(|other| by(&other)));
        }
    }

    #[test]
    fn what_ranks_say_at_their_end_is_understood() {
        let stats = "10.77.0.1:4#ab: link 0 sent 7; 3 peers, 2 bundles, 40 KB held for them, 4 packets sent again\n\
                     10.77.0.2:4#ac: link 0 sent 7; 3 peers, 5 bundles, 30 KB held for them, 4 packets sent again\n";
        assert_eq!(understand("1.5\n", stats), Some(vec![1.5, 5.0, 40.0]));
        assert_eq!(understand("1.5\n", ""), None);
        assert_eq!(understand("", stats), None);
    }
}
