//! Open MPI over TCP, one rank on each node.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::contest::{Better, Contest, Contestant};
use super::{files, finish};
use crate::tools::{MPICC, MPIRUN, MPTCPIZE};
use crate::{Report, Settings};
use tabane_lab::cluster::{Scratch, Wire};
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabConfig, LabError};

const PATTERNS: &str = include_str!("patterns.c");
/// Pattern, bytes, and how it is called.
const LINES: [(&str, usize, &str); 9] = [
    ("alltoall", 1 << 10, "all to all, 1 KB"),
    ("alltoall", 1 << 16, "all to all, 64 KB"),
    ("alltoall", 1 << 20, "all to all, 1 MB"),
    ("neighbours", 8, "with both neighbours, 8 B"),
    ("neighbours", 1 << 16, "with both neighbours, 64 KB"),
    ("neighbours", 1 << 20, "with both neighbours, 1 MB"),
    ("allreduce", 8, "sum to all, 8 B"),
    ("allreduce", 1 << 16, "sum to all, 64 KB"),
    ("allreduce", 1 << 22, "sum to all, 4 MB"),
];
/// It can use several links itself: a connection on each.
const BY_ITSELF: &str = "Open MPI over both links by itself";

/// On 2 and 4 nodes, 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    for nodes in [2, 4] {
        report.extend(on_nodes(settings, nodes)?);
    }
    Ok(report)
}

fn on_nodes(settings: &Settings, nodes: usize) -> Result<Report, LabError> {
    let contest = Contest {
        title: format!("Open MPI over TCP, {nodes} nodes, 2 × 1 Gb/s"),
        note: "Time of one round of each pattern; one rank on each node. Ranks wait by polling, \
               and all of them share this machine's processors with tabane's daemons. Cubic."
            .into(),
        tools: &[MPICC, MPIRUN],
        figures: &["µs"],
        better: Better::Less,
        batches: vec![LINES.iter().map(|&(_, _, name)| name.into()).collect()],
    };
    let built = files::scratch()?;
    let program = built.path().join("patterns");
    if MPICC.find().is_ok() {
        build(built.path(), &program)?;
    }
    let named = |way: Way| (way.to_string(), way);
    let ways = [
        named(Way::Tcp { link: 0 }),
        named(Way::Mptcp),
        named(Way::BalanceRr),
        (BY_ITSELF.to_owned(), Way::Tcp { link: 0 }),
        named(Way::Tabane(Wire::Encrypted)),
        named(Way::Tabane(Wire::Plain)),
    ];
    let config = LabConfig {
        nodes,
        ..LabConfig::default()
    };
    let set_up = |arena: &Arena| set_up(settings, arena);
    let ms = settings.seconds * 100.0;
    Ok(
        contest.run_on(&ways, settings, &config, set_up, |contestant, _| {
            run(contestant, &program, ms)
        }),
    )
}

fn build(directory: &Path, to: &Path) -> Result<(), LabError> {
    let source = directory.join("patterns.c");
    files::write_text(&source, PATTERNS)?;
    let mut mpicc = Command::new(MPICC.find()?);
    mpicc.args(["-O2", "-o"]).arg(to).arg(source);
    finish("mpicc", mpicc).map(drop)
}

/// What launches a program on another node: called as ssh is, with the node's
/// address and a command line.
fn set_up(settings: &Settings, arena: &Arena) -> Result<Scratch, LabError> {
    let own = files::scratch()?;
    let launcher = launcher(&own);
    let text = format!(
        "#!/bin/sh\nnode=n$((${{1##*.}} - 1))\nshift\n\
         exec '{}' lab exec --name '{}' \"$node\" -- sh -c \"$*\"\n",
        settings.tabane.display(),
        arena.lab().name()
    );
    files::write_text(&launcher, &text)?;
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o700))
        .map_err(LabError::io("the launcher"))?;
    Ok(own)
}

fn launcher(own: &Scratch) -> PathBuf {
    own.path().join("launch")
}

fn run(
    contestant: &Contestant<Scratch>,
    program: &Path,
    ms: f64,
) -> Result<Vec<Vec<f64>>, LabError> {
    let (arena, own) = (&contestant.arena, &contestant.state);
    let nodes = arena.lab().nodes();
    let hosts: Vec<_> = (0..nodes)
        .map(|node| format!("{}:1", arena.address(node)))
        .collect();
    let networks = match arena.way() {
        Way::Tabane(_) => "10.99.0.0/24",
        _ if contestant.name == BY_ITSELF => "10.77.0.0/24,10.77.1.0/24",
        _ => "10.77.0.0/24",
    };
    let first = networks.split(',').next().unwrap_or_default();
    let mut mpirun = arena.lab().command(0, MPIRUN.find()?);
    mpirun.args(["--host", &hosts.join(","), "-np", &nodes.to_string()]);
    mpirun.args([
        "--allow-run-as-root",
        "--bind-to",
        "none",
        "--oversubscribe",
    ]);
    let directory = own.path().display().to_string();
    let launcher = launcher(own).display().to_string();
    for (name, value) in [
        ("plm", "rsh"),
        ("plm_rsh_agent", &launcher),
        ("plm_rsh_no_tree_spawn", "1"),
        ("orte_tmpdir_base", &directory),
        ("oob_tcp_if_include", first),
        ("pml", "ob1"),
        ("btl", "self,tcp"),
        ("btl_tcp_if_include", networks),
        ("mpi_yield_when_idle", "1"),
    ] {
        mpirun.args(["--mca", name, value]);
    }
    if arena.way() == Way::Mptcp {
        mpirun.arg(MPTCPIZE.find()?).arg("run");
    }
    mpirun.arg(program).arg(ms.to_string());
    mpirun.args(LINES.map(|(pattern, bytes, _)| format!("{pattern}:{bytes}")));
    let said = finish("mpirun", mpirun)?;
    let text = String::from_utf8_lossy(&said.stdout);
    let rows: Vec<_> = text
        .lines()
        .filter_map(|line| Some(vec![line.parse().ok()?]))
        .collect();
    if rows.len() == LINES.len() {
        return Ok(rows);
    }
    Err(LabError::ToolFailed {
        tool: "mpirun",
        place: "n0".into(),
        message: format!("its answer was not understood: {text}"),
    })
}
