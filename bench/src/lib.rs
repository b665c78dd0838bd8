//! What measures tabane, and what lets everything go wrong under it for a long time ([`soak`]).
//!
//! `make bench`: tabane beside single-link TCP, MPTCP and balance-rr, all on
//! labs of this machine, in turn, round by round.
//!
//! The machine under the lab is shared and drifts, so every figure is taken
//! several times, the ways alternating, and ratios are of the same round.

#![forbid(unsafe_code)]

mod ahead;
mod bulk;
mod connections;
mod crowd;
mod entrant;
mod figures;
mod flow;
mod helper;
pub mod iperf;
pub mod machine;
mod measure;
mod output;
mod pingpong;
mod plots;
mod pulse;
mod sink;
pub mod soak;
mod stolen;
mod streams;
mod timeline;
mod tools;
mod transport;
mod unread;

pub use entrant::{Build, Entrant, Programs, Stand};
pub use figures::{Bound, Cell, Goal, Report, Samples, Table, digits};
pub use helper::Helper;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};

use machine::Machine;
use tabane_lab::LabError;
use tabane_lab::interrupt;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    helper: Option<Hidden>,
    /// Only these measurements; without it all but `matrix`, which takes 20 minutes a round
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Measurement>,
    /// How often everything is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How often each failure is tried
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    times: u32,
    /// How long each stream runs, seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Line rate of `matrix` and `beside`, Mb/s; of `crowd` a tenth. Less where the processor is
    /// the limit
    #[arg(long, default_value_t = 1000, value_name = "MBIT", value_parser = clap::value_parser!(u64).range(100..=100_000))]
    line: u64,
    /// One round of everything, three of each failure: minutes instead of half an hour
    #[arg(long)]
    quick: bool,
    /// The program to measure [default: `tabane` beside this program]
    #[arg(long, value_name = "PATH")]
    tabane: Option<PathBuf>,
    /// Another build of the program, an older one say: every way that runs it is measured with both, in
    /// turn, and called "(beside)"
    #[arg(long, value_name = "PATH")]
    beside: Option<PathBuf>,
    /// Another build of bench, for the library of the build beside
    #[arg(long, value_name = "PATH", requires = "beside")]
    beside_bench: Option<PathBuf>,
    /// Also write bench.json and bench.md into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw the figures as SVG files into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Measure nothing: take the figures from the bench.json of earlier runs
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    from: Vec<PathBuf>,
}

#[derive(Debug, Clone, Subcommand)]
enum Hidden {
    /// What bench runs on the nodes
    #[command(subcommand, hide = true)]
    Helper(Helper),
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Measurement {
    /// One TCP stream on 1, 2 and 4 links of 1 Gb/s
    OneWay,
    /// One TCP stream each way at once on 2 links of 1 Gb/s
    BothWays,
    /// Links without a line rate: the processor is the limit
    Unshaped,
    /// Failures under load, to the millisecond
    Failover,
    /// The same with MPTCP, steered and by itself, under a stream of either node
    Steered,
    /// Links that differ, lose or delay
    Unequal,
    /// Do no harm: a link beside one that is slower, later, loses
    Matrix,
    /// 8 nodes send to 1, 8 to 8
    Crowd,
    /// Small messages beside the bulk of others
    Beside,
    /// Nodes that lose links crosswise go on through others; one of these is killed
    Relay,
    /// Bulk and connections beside hundreds of connections that nobody reads
    Unread,
    /// The outside address: who waits behind whom, what goes through, another gateway takes over
    Gateway,
    /// The outside address: clients and nodes that abuse it, and what becomes of others; what a gigabyte costs
    GatewayAbuse,
    /// A stranger's flood on one link
    Flood,
    /// Half round trips of 16 bytes to 1 MB
    Latency,
    /// Every way beside the others: rate, CPU, half round trip, gap at a failure
    Choose,
    /// Many connections: made one by one, at once, open together
    Connections,
    /// CPU and memory of an idle node with 8 peers
    Idle,
    /// What a thousand peers cost, simulated, and 1,024 nodes that are not there
    Peers,
    /// A program that does nothing: by itself and under `tabane run`
    Start,
    /// Downloads by HTTP: nginx and curl
    Http,
    /// TCP through a VXLAN: datagrams one by one
    Tunnel,
    /// redis-benchmark
    Redis,
    /// Two ranks without MPI: messages, writes to and reads of the other one's memory, regions
    Ranks,
    /// Jobs of Open MPI: exchanges of two ranks
    Mpi,
    /// The same: kernels that such jobs are made of
    Kernels,
    /// An exchange and the kernels while a switch hangs; what the others notice when a rank is killed
    MpiFailures,
    /// The same: 64 ranks on 8 nodes begin
    MpiStart,
    /// A halo exchange of Open MPI under four switches, with the file of `tabane place` and without; integer sort with few bundles
    Place,
}

impl Measurement {
    /// Whether it takes as long as all the others.
    fn is_long(self) -> bool {
        self == Measurement::Matrix
    }
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often everything is measured.
    pub rounds: usize,
    /// How often each failure is tried.
    pub times: usize,
    /// How long each stream runs, seconds.
    pub seconds: f64,
    /// Line rate of what does not keep to 1 Gb/s, Mb/s.
    pub line_mbit: u64,
    /// The program `tabane`.
    pub tabane: PathBuf,
    /// This program.
    pub helper: PathBuf,
    /// Another build, to be measured beside.
    pub beside: Option<Programs>,
}

/// Run it.
pub fn run(args: &BenchArgs) -> ExitCode {
    let done = match &args.helper {
        Some(Hidden::Helper(helper)) => helper.run().map_err(|error| error.to_string()),
        None if args.from.is_empty() => measure_all(args),
        None => show_again(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(args: &BenchArgs) -> Result<(), String> {
    interrupt::end_at_signal("bench").map_err(|error| format!("taking signals: {error}"))?;
    let settings = settings(args)?;
    let machine = Machine::look();
    println!("{}", output::heading(&machine, &settings));
    output::warn_if_busy(&machine);
    let mut report = Report::default();
    let begin = Instant::now();
    for &measurement in Measurement::value_variants() {
        let is_wanted = match args.only.as_slice() {
            [] => !measurement.is_long(),
            only => only.contains(&measurement),
        };
        if !is_wanted {
            continue;
        }
        eprintln!(
            "bench: {measurement:?}, {} s so far",
            begin.elapsed().as_secs()
        );
        let watch = stolen::Watch::begin();
        let measured = measure::run(measurement, &settings);
        report.stolen.extend(watch.end(format!("{measurement:?}")));
        // One that fails must not take the others' figures with it.
        match measured {
            Ok(part) => {
                part.tables.iter().for_each(|table| println!("{table}"));
                report.extend(part);
            }
            Err(error) if is_hopeless(&error) => return Err(error.to_string()),
            Err(error) => {
                eprintln!("bench: {measurement:?}: {error}");
                let what = format!("{measurement:?} can be measured");
                report
                    .goals
                    .push(Goal::new(what, None, Bound::AtLeast(1.0)));
            }
        }
    }
    println!("{}", output::closing(&report));
    let file = output::File {
        machine,
        rounds: settings.rounds,
        times: settings.times,
        seconds: settings.seconds,
        report,
    };
    keep(args, &file)
}

/// What earlier runs measured, written and drawn anew.
fn show_again(args: &BenchArgs) -> Result<(), String> {
    let file = output::read(&args.from)?;
    if args.out.is_none() && args.plots.is_none() {
        println!("{}", output::markdown(&file, &[]));
    }
    keep(args, &file)
}

fn keep(args: &BenchArgs, file: &output::File) -> Result<(), String> {
    let pictures = match &args.plots {
        Some(directory) => {
            let page = args.out.as_deref().unwrap_or(directory);
            plots::write(directory, page, &file.report)?
        }
        None => Vec::new(),
    };
    match &args.out {
        Some(directory) => output::write(directory, file, &pictures),
        None => Ok(()),
    }
}

/// Nothing else can be measured either.
fn is_hopeless(error: &LabError) -> bool {
    matches!(
        error,
        LabError::MissingTool { .. } | LabError::NotPermitted { .. }
    )
}

/// This program.
fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("this program: {error}"))
}

/// The program `tabane`: the one that is named, or else the one beside this program.
fn tabane(named: Option<&Path>) -> Result<PathBuf, String> {
    let hint = "build it (cargo build --release -p tabane) or name it (--tabane PATH)";
    let found = match named {
        Some(path) => program(path),
        None => program(&own_program()?.with_file_name("tabane")),
    };
    found.map_err(|error| format!("{error}; {hint}"))
}

/// A program that is named, wherever it is run.
fn program(path: &Path) -> Result<PathBuf, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("{} is not there", path.display())),
    }
}

fn settings(args: &BenchArgs) -> Result<Settings, String> {
    let helper = own_program()?;
    let tabane = tabane(args.tabane.as_deref())?;
    let beside = match &args.beside {
        Some(tabane) => Some(Programs {
            tabane: program(tabane)?,
            bench: args.beside_bench.as_deref().map(program).transpose()?,
        }),
        None => None,
    };
    let quick = |full: u32, quick: usize| if args.quick { quick } else { full as usize };
    Ok(Settings {
        rounds: quick(args.rounds, 1),
        times: quick(args.times, 3),
        seconds: f64::from(args.seconds),
        line_mbit: args.line,
        tabane,
        helper,
        beside,
    })
}
