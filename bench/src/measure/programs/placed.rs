//! A halo exchange of 16 ranks on 16 nodes under four switches: where `tabane place` puts them, and elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{finish, last_lines, mpi_few};
use crate::{Bound, Build, Entrant, Goal, Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::Program;
use tabane_lab::mpi::Jobs;
use tabane_lab::ways::Way;
use tabane_lab::{LabConfig, LabError, LinkSpec};

const SWITCHES: usize = 4;
const ON_EACH: usize = 4;
const NODES: usize = SWITCHES * ON_EACH;
const RATE_MBIT: u64 = 100;
/// A job that waits for its trunks, on a machine that is full.
const PATIENCE: Duration = Duration::from_secs(300);
/// As the rows are called.
const PLACES: [&str; 3] = ["`--map-by node`", "shuffled hostfile", "`tabane place`"];

/// Trunks and links of 100 Mb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = LabConfig {
        nodes: NODES,
        links: vec![LinkSpec::mbit(RATE_MBIT)],
        tree: vec![ON_EACH; SWITCHES],
        ..LabConfig::default()
    };
    let entrant = Entrant {
        way: Way::Tcp { link: 0 },
        build: Build::Own,
    };
    let stand = settings.stand(entrant, &config)?;
    let provider = settings.helper.with_file_name("libtabane_fi.so");
    let jobs = Jobs::new(stand.lab(), &settings.tabane, &provider)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/kernels.c");
    let program = jobs.build(&source)?;
    let rankfile = placed(settings, &stand, &jobs)?;
    let mut took = [(); PLACES.len()].map(|()| Samples::default());
    for round in 0..settings.rounds {
        for (index, took) in took.iter_mut().enumerate() {
            let command = |mpirun: &Path| stand.command(0, mpirun);
            let mut mpirun = jobs.mpirun_anywhere(stand.lab(), command)?;
            match index {
                0 => mpirun.args(["--map-by", "node", "--host", &hosts(&stand, badly_numbered)]),
                1 => mpirun.args(["--host", &hosts(&stand, |at| shuffled(at, round))]),
                _ => mpirun.arg("--rankfile").arg(&rankfile),
            };
            took.0.push(halo(mpirun, &program)?);
        }
    }
    let mut report = report(took);
    mpi_few::measure(settings, &mut report);
    Ok(report)
}

fn report(took: [Samples; PLACES.len()]) -> Report {
    let title = format!(
        "Halo exchange of {NODES} ranks of Open MPI, {SWITCHES} switches, trunks of {RATE_MBIT} Mb/s"
    );
    let note = "`halo` of `bench/programs/kernels.c`, one rank on a node; nodes that follow each other in the hostfile are under different switches. Less is better.";
    let mut table = Table::new(&title, note, &["ranks by", "s", "× placed"]);
    let mut goals = Vec::new();
    for (name, samples) in PLACES.into_iter().zip(&took) {
        let ratio = samples.over(&took[PLACES.len() - 1]);
        if name != PLACES[PLACES.len() - 1] {
            let what = format!("{title}: {name} over placed");
            goals.push(Goal::new(what, ratio.median(), Bound::AtLeast(1.5)));
        }
        let row = vec![name.to_owned().into(), samples.clone().into(), ratio.into()];
        table.rows.push(row);
    }
    Report {
        tables: vec![table],
        goals,
        ..Report::default()
    }
}

/// Nodes in the order of a hostfile whose names do not follow the switches.
fn badly_numbered(at: usize) -> usize {
    at % SWITCHES * ON_EACH + at / SWITCHES
}

/// Another order, a different one each round.
fn shuffled(at: usize, round: usize) -> usize {
    // All of 0 to 15 once, since the factor is odd and 16 a power of two; then the upper bits are mixed in.
    let mixed = (at * 11 + 5 + 3 * round) % NODES;
    (mixed ^ (mixed >> 2)) % NODES
}

fn hosts(stand: &Stand, order: impl Fn(usize) -> usize) -> String {
    let address = |at| format!("{}:1", stand.lab().address(order(at), 0));
    let hosts: Vec<String> = (0..NODES).map(address).collect();
    hosts.join(",")
}

/// The rankfile that `tabane place` makes of the lab's switches.
fn placed(settings: &Settings, stand: &Stand, jobs: &Jobs) -> Result<PathBuf, LabError> {
    let address = |node: usize| format!("\"{}\"", stand.lab().address(node, 0));
    let switch = |switch: usize| {
        let nodes = (0..ON_EACH).map(|at| address(switch * ON_EACH + at));
        let nodes: Vec<String> = nodes.collect();
        format!("{{\"id\":\"s{switch}\",\"nodes\":[{}]}}", nodes.join(","))
    };
    let switches: Vec<String> = (0..SWITCHES).map(switch).collect();
    let trunk = |switch| format!("{{\"between\":[\"s{switch}\",\"s{SWITCHES}\"]}}");
    let trunks: Vec<String> = (0..SWITCHES).map(trunk).collect();
    let topology = format!(
        "{{\"schema\":1,\"networks\":[{{\"switches\":[{},{{\"id\":\"s{SWITCHES}\",\"nodes\":[]}}],\"trunks\":[{}]}}]}}",
        switches.join(","),
        trunks.join(",")
    );
    let (file, ranks) = (jobs.path("topology.json"), jobs.path("ranks"));
    fs::write(&file, topology).map_err(LabError::io("the topology"))?;
    let mut place = Command::new(&settings.tabane);
    place.args(["place", "--np", &NODES.to_string(), "--format", "openmpi"]);
    place.arg("--topology").arg(&file);
    let said = finish("tabane place", place)?;
    fs::write(&ranks, said.stdout).map_err(LabError::io("the rankfile"))?;
    Ok(ranks)
}

/// Seconds that the exchange takes.
fn halo(mut mpirun: Command, program: &Path) -> Result<f64, LabError> {
    let chosen = [
        ("pml", "ob1"),
        ("btl", "tcp,self"),
        ("btl_tcp_if_include", "eth0"),
        // There are more ranks than processors, which nodes of one rank each do not know.
        ("mpi_yield_when_idle", "1"),
    ];
    for (name, value) in chosen {
        mpirun.args(["--mca", name, value]);
    }
    mpirun
        .args(["-np", &NODES.to_string()])
        .arg(program)
        .arg("halo");
    mpirun
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let said = Program::start("mpirun", mpirun)?.output(PATIENCE)?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let seconds = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    seconds.ok_or_else(|| LabError::ToolFailed {
        tool: "mpirun",
        place: "halo".into(),
        message: last_lines(&format!("{text}{}", String::from_utf8_lossy(&said.stderr))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_has_each_node_once_and_neighbours_are_apart() {
        let is_order = |order: &dyn Fn(usize) -> usize| {
            let mut nodes: Vec<usize> = (0..NODES).map(order).collect();
            nodes.sort_unstable();
            nodes.into_iter().eq(0..NODES)
        };
        assert!(is_order(&badly_numbered));
        assert!((0..8).all(|round| is_order(&|at| shuffled(at, round))));
        let switches: Vec<usize> = (0..NODES).map(|at| badly_numbered(at) / ON_EACH).collect();
        assert!(switches.windows(2).all(|two| two[0] != two[1]));
    }
}
