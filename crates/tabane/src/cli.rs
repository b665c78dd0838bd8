//! The command line: what can be asked of the program, and its exit code.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, CommandFactory, Parser, Subcommand};
use tabane_cluster::{
    Cluster, ConfigError, DEFAULT_PATH, InterfaceAddress, NodeIndex, Problem, Severity, VNIC_NAME,
};
use tabane_io::sockets::{Audience, Sockets};
use tabane_proto::crypto::public_key;

use crate::bench::{self, BenchArgs};
use crate::bugreport::{self, BugreportArgs};
use crate::bulk::{self, BulkArgs};
use crate::daemon::Life;
use crate::here::{as_node, own_addresses};
use crate::init::InitError;
use crate::init::nodes::{GivenNode, VnicNetwork};
use crate::mpi::MpiArgs;
use crate::ping::{self, PingArgs};
use crate::place::PlaceArgs;
use crate::run::{self, RunArgs, Via};
use crate::say::{eprintln_quietly, failure, print, report, warn};
use crate::status::{self, AskError, Check, Colours, Detail, MembersReport, StatusReport};
use crate::{
    daemon, doctor, exit_codes, init, log, manual, mpi, names, place, steer, top, topo, trace,
};

mod panic;

/// Bundles several cheap Ethernet links into one fast, fault-tolerant cluster network.
#[derive(Debug, Parser)]
#[command(
    name = "tabane",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong command line or cluster file, \
3 no daemon here, 70 a bug in tabane."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented cluster file with a fresh key, and this machine's own key
    ///
    /// The file gets mode 0600; one that is already there is never overwritten.
    /// Add the nodes to it, copy it to every node, run `tabane up` on each.
    Init(InitArgs),
    /// Show this node's public key, as its line of the cluster file
    ///
    /// Makes the key pair first, if this machine has none: the private one goes into `node.key`
    /// beside the cluster file, mode 0600, and must not leave the machine. With `public` in the
    /// cluster file nobody else can pass for this node, even with the cluster key.
    Key(KeyArgs),
    /// Run this node in the foreground
    ///
    /// Says `ready` when `tab0` is there with its address; peers connect after that, each as
    /// soon as a link leads to it (`tabane status`). Ends on SIGTERM or Ctrl-C. Needs
    /// CAP_NET_ADMIN for a `vnic` and for `mptcp = true`, and no privilege else.
    Up(UpArgs),
    /// Run a program whose TCP connections to other nodes are carried by the bundle
    ///
    /// No change to the program, no root. Programs under `tabane run` on other nodes reach its
    /// listeners; connections to other hosts go as usual. The exit code is the program's.
    ///
    /// With `--via mptcp` its TCP is the kernel's Multipath TCP, in the clear: a process beside it
    /// makes its TCP sockets (seccomp).
    Run(RunArgs),
    /// Run a job of MPI over all links of its nodes
    ///
    /// Sets the environment in which Open MPI, MPICH and Intel MPI find tabane's libfabric provider, also for the ranks on
    /// other nodes, makes a key for the job if neither TABANE_KEY nor TABANE_KEY_FILE is set, and becomes the
    /// launcher, whose exit code it returns. No daemon, no cluster file, no root; the other nodes need only the
    /// library. fi_tabane(7) has the variables.
    Mpi(MpiArgs),
    /// Assign the ranks of a job to nodes, so that ranks with much traffic share a switch
    ///
    /// Prints the file for Open MPI, MPICH or Slurm. Puts ranks with neighbouring numbers under one switch; with
    /// `--matrix`, ranks that exchange most. docs/mpi.md describes the file of switches.
    Place(PlaceArgs),
    /// Show which nodes share a switch, and how the switches are connected
    ///
    /// This is measured, from round trips alone: with `--measure` now, else once a day by the first node by name, and a minute after
    /// a node has joined. Switches and nodes that cannot be distinguished are listed. docs/topology.md says how certain the result is.
    Topo(topo::TopoArgs),
    /// Show how the daemon of this network namespace, its peers and paths are
    Status(StatusArgs),
    /// List all other nodes: which of their links are up, and how they are reached
    Nodes(NodesArgs),
    /// Leave the cluster, where nodes join and leave: the others forget this node, and its daemon ends
    ///
    /// For clusters with `join` in `[mesh]` of the cluster file. If a node only stops, the others wait for it, and forget it after
    /// ten minutes. For root, or the user that the daemon runs as.
    Leave,
    /// Make another gateway serve the cluster's outside address
    Gateway(GatewayArgs),
    /// Make the daemon read its cluster file anew, without breaking a flow
    ///
    /// Nodes, links and keys come and go as the file says; SIGHUP does the same.
    /// An unusable file is refused as a whole, with all its errors, and the
    /// daemon goes on as before.
    Reload(ReloadArgs),
    /// Watch peers, paths and what they carry, live
    ///
    /// `q` leaves. For one look, and for programs, there is `tabane status`.
    Top(top::TopArgs),
    /// Measure the links to a peer: rates, round trips, loss, processor time, and what limits them
    ///
    /// The daemons of both ends do it over their bundle: nothing is to be started on the peer, and no port opened. Each link is measured
    /// alone and all together, to the peer, back, and both at once. Other traffic goes on beside it. For root, or the user
    /// that the daemon runs as. docs/operation.md explains the figures.
    Bench(BenchArgs),
    /// Measure round trips to a peer, by each link and by the ways through others that are in use
    ///
    /// What is timed are the daemon's own probes; nothing else of the peer need answer. Exit codes: 0 something came back, 1 nothing did.
    Ping(PingArgs),
    /// Record what the daemon does for a peer and why: paths chosen, windows, losses, verdicts
    ///
    /// Writes a qlog (draft-ietf-quic-qlog-main-schema-14) live, until the time is up or Ctrl-C: each packet, by
    /// number and length, and each decision. It contains no content and no keys. For root, or the user that the daemon
    /// runs as. docs/operation.md says when to use it and what opens it.
    Trace(trace::TraceArgs),
    /// Find out why the bundle is slow or a peer unreachable, and what to do
    ///
    /// Watches for a few seconds, pings the peers' link addresses, and looks at
    /// interfaces, kernel settings and programs. As root it sees more; it says
    /// what it could not look at. Exit codes: 0 nothing wrong found, 1 something
    /// is wrong, 3 no daemon runs here (it looks at the rest nevertheless).
    Doctor(doctor::DoctorArgs),
    /// Write one text with all that a bug report should have, and no key
    ///
    /// Version, kernel, status, what the doctor finds, the cluster file without keys and comments, the log's last lines, interfaces,
    /// routes, sockets, settings. As root it sees more. Nothing is sent anywhere.
    Bugreport(BugreportArgs),
    /// Build and break virtual clusters on this machine, to try things out
    Lab(tabane_lab::cli::LabArgs),
    /// Watch a switch die: two virtual nodes, two switches, one iperf3
    ///
    /// The same is then done with MPTCP and with TCP on one link. Takes less
    /// than a minute, leaves nothing but the picture.
    Demo(tabane_lab::demo::DemoArgs),
    /// Send and take in streams of a bundle, without a virtual NIC (for `make bench`)
    #[command(hide = true)]
    Bulk(BulkArgs),
    /// Be the daemon of this user's programs under `tabane run`, as long as there are any
    #[command(hide = true)]
    Agent(UpArgs),
    /// Steer the kernel's Multipath TCP for the daemon at the other end of standard input
    #[command(hide = true)]
    Keeper,
    /// Write the nodes' names into /etc/hosts for the daemon at the other end of standard input
    #[command(hide = true)]
    Scribe,
    /// Write the manual pages and the shells' completions into a directory
    ///
    /// For packaging or installing the program: man1, man5, man7, completions.
    #[command(hide = true)]
    Generate {
        /// The directory; made if it is not there
        directory: PathBuf,
    },
}

/// How often `tabane status --watch` asks.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Has a terminal show what follows on an empty screen (ECMA-48).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Arguments of `tabane status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Show only this peer
    #[arg(value_name = "PEER")]
    pub peer: Option<String>,
    /// JSON instead of a table: one line, or indented on a terminal; docs/status.md describes it
    #[arg(long)]
    pub json: bool,
    /// One line and an exit code, as Nagios and health checks want them: 0 all is well, 1 a link or a standby is
    /// lost, 2 a peer or the outside cannot be reached, or no daemon answers
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub check: bool,
    /// Show it anew every second, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
}

/// Arguments of `tabane nodes`.
#[derive(Debug, Args)]
pub struct NodesArgs {
    /// One line of JSON instead of a table; docs/status.md describes it
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tabane reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// Only say what would change, or what is wrong
    #[arg(long)]
    pub check: bool,
}

/// Arguments of `tabane gateway`.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// What to do
    #[command(subcommand)]
    pub command: GatewayCommand,
}

/// Commands for the gateway.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Hand over to another gateway: connections go on
    ///
    /// For root, or the user that the daemon runs as, on any node. `tabane status` shows which one serves.
    Move {
        /// The node that is to serve; if not given, the next one of the file that can
        node: Option<String>,
    },
}

/// Arguments of `tabane init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The file to write
    #[arg(default_value = DEFAULT_PATH)]
    pub path: PathBuf,
    /// A node, and its address on each network; once for each. Ranges stand for many:
    /// 'n[0-3]=10.77.0.[1-4],10.77.1.[1-4]'. Without any the file has examples to be filled in
    #[arg(long = "node", value_name = "NAME=ADDRESS,ADDRESS…")]
    pub nodes: Vec<GivenNode>,
    /// The network of the nodes' addresses on the bundle (`tab0`), in the order of the nodes; none: without `tab0`
    #[arg(long, value_name = "NETWORK", default_value = "10.99.0.0/24")]
    pub vnic: VnicNetwork,
    /// Find the nodes: ask on each network who is there, and propose them, each to be confirmed. `tabane init --answer` runs on
    /// the other machines meanwhile
    #[arg(long, group = "finding", conflicts_with = "nodes")]
    pub scan: bool,
    /// Take all that is proposed
    #[arg(long, requires = "scan")]
    pub yes: bool,
    /// Write nothing, but answer `tabane init --scan` of another machine, until that has written its file
    #[arg(long, group = "finding", conflicts_with_all = ["nodes", "path", "vnic"])]
    pub answer: bool,
    /// With --scan or --answer: the name of this machine [default: its host name]
    #[arg(long, value_name = "NAME", requires = "finding", value_parser = node_name)]
    pub name: Option<String>,
}

fn node_name(text: &str) -> Result<String, String> {
    match tabane_cluster::is_node_name(text) {
        true => Ok(text.to_owned()),
        false => Err(tabane_cluster::RIGHT_NAME.to_owned()),
    }
}

/// Arguments of `tabane key`.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The cluster file; it need not be there yet
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
}

/// Arguments of `tabane up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The cluster file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
    /// The node to be; found by this machine's addresses if not given
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
}

impl UpArgs {
    /// Reads and checks the cluster file for this machine, which has the addresses `own`: returns the cluster, which node
    /// this is, and warnings for the log.
    ///
    /// # Errors
    /// All errors, to be shown with [`report`].
    pub fn prepare(
        &self,
        own: &[InterfaceAddress],
    ) -> Result<(Cluster, NodeIndex, Vec<Problem>), ConfigError> {
        let (mut cluster, mut warnings) = Cluster::load(&self.config)?;
        let me = tabane_cluster::identify(&cluster, own, self.node.as_deref())?;
        warnings.extend(cluster.read_node_key(me, public_key).err());
        warnings.extend(tabane_cluster::check_here(&cluster, me, own));
        if warnings.iter().any(|p| p.severity == Severity::Error) {
            return Err(ConfigError { problems: warnings });
        }
        Ok((cluster, me, warnings))
    }
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    panic::install_hook();
    // Unwinding removes whatever a command made; the hook has already told the user.
    std::panic::catch_unwind(|| obey(Cli::parse())).unwrap_or_else(|payload| {
        let is_quiet = panic::is_broken_pipe(&*payload);
        ExitCode::from(if is_quiet {
            exit_codes::OK
        } else {
            exit_codes::INTERNAL
        })
    })
}

fn obey(cli: Cli) -> ExitCode {
    let code = match cli.command {
        Command::Init(args) => run_init(&args),
        Command::Key(args) => run_key(&args.config),
        Command::Up(args) => run_up(&args),
        Command::Status(args) => run_status(&args),
        Command::Nodes(args) => run_nodes(&args),
        Command::Leave => run_leave(),
        Command::Gateway(args) => run_gateway(&args),
        Command::Reload(args) => run_reload(&args),
        Command::Top(args) => top::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Lab(args) => return tabane_lab::cli::run(args),
        Command::Demo(args) => return run_demo(&args),
        Command::Run(args) => run_program(&args),
        Command::Mpi(args) => mpi::run(&args),
        Command::Place(args) => run_place(&args),
        Command::Topo(args) => topo::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Ping(args) => ping::run(&args),
        Command::Bugreport(args) => bugreport::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Agent(args) => match as_node(&args.config, args.node.as_deref()) {
            Ok((cluster, me, _)) => daemon::up(&cluster, me, &[], Life::WhileUsed),
            Err(error) => report(&error),
        },
        Command::Bulk(args) => run_bulk(&args),
        Command::Keeper => steer::keep(),
        Command::Scribe => names::write(),
        Command::Generate { directory } => {
            manual::generate(&Cli::command(), &directory).map_or_else(failure, |()| exit_codes::OK)
        }
    };
    ExitCode::from(code)
}

fn run_demo(args: &tabane_lab::demo::DemoArgs) -> ExitCode {
    match std::env::current_exe() {
        Ok(tabane) => tabane_lab::demo::run(args, &tabane),
        Err(error) => ExitCode::from(failure(format!(
            "this program: {}",
            tabane_cluster::plain(&error)
        ))),
    }
}

fn run_init(args: &InitArgs) -> u8 {
    let path = args.path.as_path();
    if args.answer {
        return match init::scan::answer::answer(args.name.as_deref()) {
            Ok(()) => print("The file is written there: copy it here, then run `tabane up`.\n"),
            Err(why) => failure(why),
        };
    }
    if args.scan && path.exists() {
        return failure(InitError::Exists(path.to_owned()));
    }
    let scanned = args
        .scan
        .then(|| init::scan::ask::scan(args.name.as_deref(), args.yes));
    let scanned = match scanned.transpose() {
        Ok(scanned) => scanned,
        Err(why) => return failure(why),
    };
    let nodes = scanned.as_ref().map_or(&args.nodes, |scan| &scan.nodes);
    // They only go into comments of the file: it is as good without them.
    let own = own_addresses().unwrap_or_default();
    match init::init(path, &own, nodes, args.vnic) {
        Ok(()) => {}
        Err(error @ InitError::Nodes(_)) => {
            eprintln_quietly(&error.to_string());
            return exit_codes::CONFIGURATION;
        }
        Err(error) => return failure(error),
    }
    if let Some(scan) = &scanned {
        scan.tell_written();
    }
    let made = match init::node_key(path) {
        Ok((_, key)) if key.made => format!(
            "{} written, with this machine's private key: it stays here.\n",
            key.file.display()
        ),
        Ok(_) => String::new(),
        Err(error) => return failure(error),
    };
    let next = match nodes.as_slice() {
        [] => "add your nodes to it, copy it to every node, and run there",
        _ => "copy it to every node, and run there",
    };
    let shown = path.display();
    // What is read without `--config` is not named.
    let config = match path == Path::new(DEFAULT_PATH) {
        true => String::new(),
        false => format!(" --config {shown}"),
    };
    print(&format!(
        "{shown} written, with a fresh key.\n{made}\
         Next: {next}\n  \
         tabane up{config}\n\
         `tabane key{config}` on a node prints its `public` key, for its place in the file.\n"
    ))
}

fn run_key(config: &Path) -> u8 {
    let (public, key) = match init::node_key(config) {
        Ok(known) => known,
        Err(error) => return failure(error),
    };
    if key.made {
        eprintln_quietly(&format!(
            "tabane: {} made, with the private key of this machine: it stays here",
            key.file.display()
        ));
    }
    // The node's name helps whoever collects these lines, but is not necessary.
    let here = own_addresses().unwrap_or_default();
    let cluster = Cluster::load(config).map(|(cluster, _)| cluster);
    let known = cluster.and_then(|cluster| {
        let me = tabane_cluster::identify(&cluster, &here, None)?;
        Ok(cluster.nodes[me].clone())
    });
    let Ok(node) = known else {
        return print(&format!("public = \"{public}\"\n"));
    };
    if node.public.is_some_and(|in_file| in_file != public) {
        warn(format!(
            "{}:{} has another `public` for {}: write this one, on every node",
            config.display(),
            node.lines.public,
            node.name
        ));
    }
    print(&format!("public = \"{public}\"  # {}\n", node.name))
}

fn run_up(args: &UpArgs) -> u8 {
    let own = match settled_addresses() {
        Ok(own) => own,
        Err(error) => {
            let error = tabane_cluster::plain(&error);
            return failure(format!(
                "the addresses of this machine cannot be listed: {error}"
            ));
        }
    };
    match args.prepare(&own) {
        Ok((cluster, me, warnings)) => daemon::up(&cluster, me, &warnings, Life::UntilTold),
        Err(error) => report(&error),
    }
}

fn run_bulk(args: &BulkArgs) -> u8 {
    match as_node(&args.config, args.node.as_deref()) {
        Ok((cluster, me, _)) => bulk::run(args, cluster, me),
        Err(error) => report(&error),
    }
}

fn run_program(args: &RunArgs) -> u8 {
    match args.via {
        Via::Mptcp => run::run_by_mptcp(args),
        Via::Bundle => run::run(args).unwrap_or_else(|error| {
            if args.config.is_none() && args.node.is_none() {
                warn("no daemon answers here, so the cluster file itself is needed");
            }
            report(&error)
        }),
    }
}

fn run_place(args: &PlaceArgs) -> u8 {
    match place::run(args) {
        Ok(text) => print(&text),
        Err(error) => {
            failure(error);
            place::REFUSED
        }
    }
}

fn run_status(args: &StatusArgs) -> u8 {
    loop {
        let shown = match asked_status(args.peer.as_deref()) {
            Ok(Ok(value)) => shown_status(args, value),
            Ok(Err(unknown)) => return failure(unknown),
            Err(error) => Err(error),
        };
        let code = match shown {
            Ok((text, code)) if print(&text) == exit_codes::OK => code,
            Ok(_) => return exit_codes::FAILURE,
            Err(error) if args.check => {
                let check = Check::failed(&error.to_string());
                print(&check.line);
                check.code
            }
            Err(error) => refused(error),
        };
        if !args.watch || code != exit_codes::OK {
            return code;
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

/// What the daemon says, of one peer or of all; or that there is no such peer, in words.
fn asked_status(peer: Option<&str>) -> Result<Result<serde_json::Value, String>, AskError> {
    let mut value = status::ask_here(status::ask_status)?;
    let Some(name) = peer else {
        return Ok(Ok(value));
    };
    let Some(peers) = value["peers"].as_array_mut() else {
        return Err(AskError::NotUnderstood("it names no peers".to_owned()));
    };
    peers.retain(|peer| peer["name"] == name);
    let is_known = !peers.is_empty();
    Ok(match is_known {
        true => Ok(value),
        false => Err(format!(
            "{name}: there is no such peer; `tabane nodes` lists them"
        )),
    })
}

fn shown_status(args: &StatusArgs, value: serde_json::Value) -> Result<(String, u8), AskError> {
    let is_terminal = io::stdout().is_terminal();
    if args.json {
        let text = match is_terminal {
            true => format!("{value:#}\n"),
            false => format!("{value}\n"),
        };
        return Ok((text, exit_codes::OK));
    }
    let report: StatusReport =
        serde_json::from_value(value).map_err(|e| AskError::NotUnderstood(e.to_string()))?;
    if args.check {
        let check = Check::of(&report);
        return Ok((check.line, check.code));
    }
    let detail = match args.peer {
        Some(_) => Detail::Whole,
        None => Detail::Row,
    };
    let table = status::render(&report, detail, Colours::wanted(is_terminal));
    let clear = if args.watch && is_terminal { CLEAR } else { "" };
    Ok((format!("{clear}{table}"), exit_codes::OK))
}

fn run_nodes(args: &NodesArgs) -> u8 {
    let shown = status::ask_here(status::ask_members).and_then(|value| {
        if args.json {
            return Ok(format!("{value}\n"));
        }
        let report: MembersReport =
            serde_json::from_value(value).map_err(|e| AskError::NotUnderstood(e.to_string()))?;
        Ok(report.render())
    });
    shown.map_or_else(refused, |text| print(&text))
}

fn run_leave() -> u8 {
    let left = status::ask_here(status::ask_leave);
    left.map_or_else(refused, |told| {
        print(&format!(
            "{} has left the cluster; its daemon ends\n",
            told.node
        ))
    })
}

fn run_gateway(args: &GatewayArgs) -> u8 {
    let GatewayCommand::Move { node } = &args.command;
    let ask = |sockets: &Sockets| status::ask_gateway_move(sockets, node.as_deref());
    status::ask_here(ask).map_or_else(refused, |told| print(&format!("{told}\n")))
}

/// The daemon gave no answer, or refused.
fn refused(error: AskError) -> u8 {
    failure(&error);
    error.exit_code()
}

fn run_reload(args: &ReloadArgs) -> u8 {
    let report = match status::ask_here(|sockets| status::ask_reload(sockets, args.check)) {
        Ok(report) => report,
        Err(error) => {
            failure(&error);
            return error.exit_code();
        }
    };
    // Run by systemd, it writes into the same journal as the daemon, which has told it all.
    if log::is_journal() && !args.check {
        return match report.accepted {
            true => exit_codes::OK,
            false => exit_codes::CONFIGURATION,
        };
    }
    report.problems.iter().for_each(|p| eprintln_quietly(p));
    if !report.accepted {
        eprintln_quietly("tabane: the cluster file is refused; everything stays as it was");
        return exit_codes::CONFIGURATION;
    }
    if report.changes.is_empty() {
        return print("nothing has changed\n");
    }
    print(
        &report
            .changes
            .iter()
            .map(|c| format!("{c}\n"))
            .collect::<String>(),
    )
}

/// Like [`own_addresses`], without `tab0` of a daemon that has just crashed: the kernel removes it in the background, so
/// this waits for that or removes it.
fn settled_addresses() -> io::Result<Vec<InterfaceAddress>> {
    const REMOVAL_MAX: Duration = Duration::from_secs(5);
    let until = Instant::now() + REMOVAL_MAX;
    loop {
        let own = own_addresses()?;
        let is_left = own.iter().any(|a| a.interface == VNIC_NAME);
        // A daemon can be asked before it makes the device, so one that cannot has none.
        let no_daemon = || {
            let everybodys = Sockets::of(Audience::Everybody);
            matches!(status::ask_status(&everybodys), Err(AskError::NoDaemon))
        };
        if !is_left || Instant::now() > until || !no_daemon() {
            return Ok(own);
        }
        // Refused without privilege; anything that stays is reported when it is in the way.
        let _ = tabane_io::vnic::remove_left_behind(VNIC_NAME);
        std::thread::sleep(Duration::from_millis(10));
    }
}
