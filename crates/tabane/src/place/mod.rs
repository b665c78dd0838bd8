//! `tabane place`: which rank of a job runs on which node, so that ranks with much traffic share a switch.
//!
//! If a job is started node by node, the names of the nodes decide where neighbouring ranks run, and their traffic shares the
//! trunks (paper 002, figure 5). MPI itself does not look at switches. Here the nodes are taken in the order of the tree of
//! switches ([`network`]); if the traffic between ranks is known ([`traffic`]), ranks are placed so that it crosses the fewest
//! trunks ([`assign`]).

mod assign;
mod network;
mod traffic;

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tabane_cluster::plain;

use crate::exit_codes;
use network::Network;
use traffic::Traffic;

/// Ranks of a job at most.
pub const RANKS_MAX: usize = 16_384;

/// Arguments of `tabane place`.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// How many ranks the job has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=RANKS_MAX as i64))]
    np: u16,
    /// The most ranks on a node; the fewest for which there are enough nodes if not given
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    per_node: Option<u16>,
    /// The switches and their nodes, as JSON; `-` is standard input
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,
    /// Traffic between ranks: lines `from,to,bytes`, ranks counted from 0
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    /// The launcher that will read it; the first line of the output says how
    #[arg(long, value_enum)]
    format: Format,
}

/// The launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    // Not a hostfile with a line for each rank (`--map-by seq`): Open MPI does not find a first node there whose name is not the
    // host's own.
    /// A rankfile: each rank of a node has a processor of its own
    #[value(name = "openmpi")]
    OpenMpi,
    /// A hostfile, and the rank map that goes with it
    Mpich,
    /// A host list with a line for each rank
    Slurm,
}

/// Prints where ranks go.
///
/// # Errors
/// What is wrong, in words for people: with file and line.
pub fn run(args: &PlaceArgs) -> Result<String, String> {
    let topology = shown(&args.topology);
    let text = read(&args.topology)?;
    let network = Network::read(&text).map_err(|what| format!("{topology}: {what}"))?;
    let ranks = usize::from(args.np);
    let traffic = match &args.matrix {
        None => Traffic::none(ranks),
        Some(file) => Traffic::read(&read(file)?, ranks)
            .map_err(|(line, what)| format!("{}:{line}: {what}", shown(file)))?,
    };
    let nodes = network.nodes().len();
    let per_node = args
        .per_node
        .map_or_else(|| ranks.div_ceil(nodes), usize::from);
    if ranks > nodes * per_node {
        return Err(format!(
            "{ranks} ranks do not find room: {topology} has {nodes} nodes, and a node runs {per_node}; use --per-node {} or more",
            ranks.div_ceil(nodes)
        ));
    }
    let order = network.closest(ranks.div_ceil(per_node));
    let placed = assign::assign(&network, &order, per_node, &traffic);
    Ok(write(args.format, &network, &order, &placed))
}

/// The code that the program ends with, after [`run`] has failed.
pub const REFUSED: u8 = exit_codes::CONFIGURATION;

/// `-` is standard input.
fn is_input(file: &Path) -> bool {
    file == Path::new("-")
}

fn shown(file: &Path) -> String {
    match is_input(file) {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

fn read(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = match is_input(file) {
        true => std::io::stdin().read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(format!("{}: {}", shown(file), plain(&error))),
    }
}

/// The launcher's file: `placed` has the node of each rank, `order` the nodes that are used.
fn write(format: Format, network: &Network, order: &[usize], placed: &[usize]) -> String {
    let (nodes, ranks) = (network.nodes(), placed.len());
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut line = |words: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{words}");
    };
    match format {
        Format::OpenMpi => line(format_args!("# mpirun --rankfile THIS_FILE -np {ranks} …")),
        Format::Slurm => line(format_args!(
            "# SLURM_HOSTFILE=THIS_FILE srun -m arbitrary -n {ranks} …"
        )),
        Format::Mpich => {
            let number = |node: &usize| order.iter().position(|other| other == node).unwrap_or(0);
            let map: Vec<String> = placed.iter().map(|node| number(node).to_string()).collect();
            line(format_args!(
                "# mpiexec -f THIS_FILE -rankmap {} -n {ranks} …",
                map.join(",")
            ));
        }
    }
    match format {
        Format::OpenMpi => {
            let mut next = vec![0; nodes.len()];
            for (rank, node) in placed.iter().enumerate() {
                let (name, slot) = (&nodes[*node], next[*node]);
                line(format_args!("rank {rank}={name} slot={slot}"));
                next[*node] += 1;
            }
        }
        Format::Slurm => {
            let each = placed.iter();
            each.for_each(|node| line(format_args!("{}", nodes[*node])));
        }
        Format::Mpich => {
            for node in order {
                let count = placed.iter().filter(|other| *other == node).count();
                line(format_args!("{}:{count}", nodes[*node]));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two switches; the names of the nodes alternate between them.
    const TWO: &str = r#"{"schema":1,"networks":[{"link":0,
        "switches":[{"id":"s0","nodes":["n0","n2"]},{"id":"s1","nodes":["n1","n3"]}],
        "trunks":[{"between":["s0","s1"],"mbps":null,"hops":1}]}]}"#;

    fn files(matrix: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let home = tempfile::tempdir().expect("is made");
        let (topology, csv) = (home.path().join("t.json"), home.path().join("m.csv"));
        std::fs::write(&topology, TWO).expect("is written");
        std::fs::write(&csv, matrix).expect("is written");
        (home, topology, csv)
    }

    fn args(np: u16, per_node: Option<u16>, topology: PathBuf, format: Format) -> PlaceArgs {
        PlaceArgs {
            np,
            per_node,
            topology,
            matrix: None,
            format,
        }
    }

    #[test]
    fn neighbours_are_under_one_switch_in_each_format() {
        let (_home, topology, _) = files("");
        for (format, expected) in [
            (
                Format::OpenMpi,
                "# mpirun --rankfile THIS_FILE -np 4 …\nrank 0=n0 slot=0\nrank 1=n2 slot=0\nrank 2=n1 slot=0\n\
                 rank 3=n3 slot=0\n",
            ),
            (
                Format::Mpich,
                "# mpiexec -f THIS_FILE -rankmap 0,1,2,3 -n 4 …\nn0:1\nn2:1\nn1:1\nn3:1\n",
            ),
            (
                Format::Slurm,
                "# SLURM_HOSTFILE=THIS_FILE srun -m arbitrary -n 4 …\nn0\nn2\nn1\nn3\n",
            ),
        ] {
            let said = run(&args(4, None, topology.clone(), format));
            assert_eq!(said.as_deref(), Ok(expected));
        }
    }

    #[test]
    fn who_talks_shares_a_node_and_else_a_switch() {
        // 0 talks with 7 most, then with 5; so do 1 with 6, and with 4.
        let (_home, topology, csv) =
            files("from,to,bytes\n0,7,1000\n6,1,1000\n5,2,900\n3,4,900\n0,5,10\n1,4,10\n");
        let mut asked = args(8, Some(2), topology, Format::Slurm);
        asked.matrix = Some(csv);
        let said = run(&asked).expect("is placed");
        let of: Vec<&str> = said.lines().skip(1).collect();
        let switch = |rank: usize| matches!(of[rank], "n0" | "n2");
        for (a, b) in [(0, 7), (1, 6), (2, 5), (3, 4)] {
            assert_eq!(of[a], of[b], "{of:?}");
        }
        assert_eq!((switch(0), switch(1)), (switch(5), switch(4)), "{of:?}");
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_line() {
        let (_home, topology, csv) = files("0,1,5\n0,9,5\n");
        let mut asked = args(8, Some(2), topology.clone(), Format::Slurm);
        asked.matrix = Some(csv.clone());
        let expected = format!("{}:2: there is no rank 9; ranks are 0 to 7", csv.display());
        assert_eq!(run(&asked), Err(expected));
        let expected = format!(
            "9 ranks do not find room: {} has 4 nodes, and a node runs 2; use --per-node 3 or more",
            topology.display()
        );
        let asked = args(9, Some(2), topology, Format::Slurm);
        assert_eq!(run(&asked), Err(expected));
    }
}
