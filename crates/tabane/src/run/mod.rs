//! `tabane run -- PROGRAM…`: a program whose TCP connections to other nodes are carried by the
//! bundle, without a change to it.
//!
//! This process moves into a network namespace of its own, hands the sockets that catch what
//! begins there to the agent (the daemon's, [`agent`](crate::agent)), leaves a supervisor behind
//! and becomes the program: its process id, parent, terminal, signals and exit code are its own.

mod claims;
mod ports;
mod supervisor;

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use tabane_cluster::{Cluster, DEFAULT_PATH, NodeIndex, plain};
use tabane_io::capture::{Capture, Namespace};
use tabane_io::credentials::own_uid;
use tabane_io::handover::Handover;
use tabane_io::process::{Watched, leave_behind};
use tabane_io::socket_calls::SocketCalls;

use crate::agent::{self, ToAgent, ToSupervisor};
use crate::cli;

/// The program is not there (as shells and env(1) say it).
const NOT_FOUND: u8 = 127;
/// It is there and cannot be run.
const NOT_RUNNABLE: u8 = 126;

/// Arguments of `tabane run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The cluster file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
    /// The node this machine is; found by its addresses if not given
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub program: Vec<OsString>,
}

/// Becomes the program; returns only if that fails, with the exit code.
pub fn run(args: &RunArgs, cluster: &Cluster, me: NodeIndex) -> u8 {
    if let Err(message) = prepare(cluster, me) {
        return cli::failure(message);
    }
    let (program, arguments) = match args.program.split_first() {
        Some(split) => split,
        None => return cli::failure("no program is given"),
    };
    let mut error = Command::new(program).args(arguments).exec();
    // Of a directory that may not be looked into, the system says the same as of such a program.
    if error.kind() == io::ErrorKind::PermissionDenied && !is_there(Path::new(program)) {
        error = io::ErrorKind::NotFound.into();
    }
    cli::failure(format!("{}: {}", program.to_string_lossy(), plain(&error)));
    match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUNNABLE,
    }
}

/// Whether there is such a program: at its path, or in a directory of PATH.
fn is_there(program: &Path) -> bool {
    if program.components().count() > 1 || program.is_absolute() {
        return true;
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| directory.join(program).exists())
}

/// Moves this process to where its connections are caught.
fn prepare(cluster: &Cluster, me: NodeIndex) -> Result<(), String> {
    let own = addresses_for_programs(cluster, me);
    // Before this process leaves the network namespace in which the agent has its name.
    let agent = find_agent(cluster, me)?;
    let namespace = Namespace::enter(&own).map_err(|error| error.to_string())?;
    if let Err(error) = namespace.add_names(names(cluster)) {
        // Programs find the nodes by their addresses all the same.
        cli::warn(error);
    }
    let capture = Capture::open(&own).map_err(|error| {
        format!("connections cannot be caught here: {error} (it needs nf_tables with tproxy)")
    })?;
    hand_over(&agent, &capture, own)
        .map_err(|error| format!("the daemon does not take part: {error}"))?;
    drop(capture);
    let program = std::process::id();
    let watched = Watched::new(program)
        .map_err(|error| format!("this process cannot be watched: {}", plain(&error)))?;
    let trouble = |error: io::Error| format!("no supervisor can be left behind: {}", plain(&error));
    let (ours, supervisors) = Handover::pair().map_err(trouble)?;
    let kept = [agent.as_fd(), watched.as_fd(), supervisors.as_fd()];
    leave_behind(&kept, || {
        let calls = taken_over(&supervisors);
        supervisor::supervise(&agent, &watched, calls.as_ref());
    })
    .map_err(trouble)?;
    // Only now: the supervisor's own calls are its own affair.
    match SocketCalls::watch() {
        Ok(calls) => ours
            .send(b"calls", &[calls.as_fd()])
            .map_err(|error| format!("the supervisor is gone: {}", plain(&error))),
        Err(error) => {
            cli::warn(format!(
                "servers are reached by programs under `tabane run` only: {}",
                plain(&error)
            ));
            Ok(())
        }
    }
}

/// Where the program's calls are told, once it can be; `None`: they are not.
fn taken_over(from: &Handover) -> Option<SocketCalls> {
    let (_, descriptors) = from.receive().ok()?;
    let calls = descriptors.into_iter().next()?;
    Some(SocketCalls::from_descriptor(calls))
}

/// The daemon of this node, or that of this user's programs, which is started if need be.
fn find_agent(cluster: &Cluster, me: NodeIndex) -> Result<Handover, String> {
    let own = agent::socket_of_user(own_uid());
    for name in [agent::SOCKET_NAME, &own] {
        match Handover::connect(name) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(format!("the daemon cannot be asked: {}", plain(&error))),
            Ok(agent) => return Ok(agent),
        }
    }
    start_agent(cluster, me)?;
    // Another program of this user may have started it at the same time.
    Handover::connect(&own).map_err(|error| format!("the daemon is gone: {}", plain(&error)))
}

/// Starts a daemon for this user's programs, and waits until it is ready.
fn start_agent(cluster: &Cluster, me: NodeIndex) -> Result<(), String> {
    let trouble = |error: io::Error| format!("no daemon can be started: {}", plain(&error));
    let this = std::env::current_exe().map_err(trouble)?;
    let (mut says, told) = io::pipe().map_err(trouble)?;
    let mut daemon = Command::new(this);
    daemon.arg("agent").arg("--config").arg(&cluster.file);
    daemon.args(["--node", &cluster.nodes[me].name]);
    leave_behind(&[told.as_fd()], || {
        if let (Ok(out), Ok(err)) = (told.try_clone(), told.try_clone()) {
            // If it fails, the pipe is closed and nothing was said.
            let _ = daemon.stdout(out).stderr(err).exec();
        }
    })
    .map_err(trouble)?;
    drop(told);
    let mut said = String::new();
    // Until it is ready: then it closes nothing, but says so.
    let mut reader = BufReader::new(&mut says);
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) if line == "ready\n" => return Ok(()),
            Ok(_) => said += &line,
        }
    }
    if said.contains("already") {
        return Ok(());
    }
    Err(format!(
        "no daemon runs here, and none can be started:\n{}",
        said.trim_end()
    ))
}

fn hand_over(agent: &Handover, capture: &Capture, own: Vec<IpAddr>) -> Result<(), String> {
    let begin = ToAgent::Begin { own };
    let sent = agent.send(&begin.encode(), &capture.descriptors());
    sent.map_err(|error| plain(&error))?;
    let (answer, _) = agent.receive().map_err(|error| plain(&error))?;
    match ToSupervisor::parse(&answer) {
        Some(ToSupervisor::Go) => Ok(()),
        _ => Err("it is too busy, or of another version".to_owned()),
    }
}

/// What the nodes are called, and where programs find them: the virtual NIC, or else the first link.
fn names(cluster: &Cluster) -> impl Iterator<Item = (&str, IpAddr)> {
    let indices = 0..cluster.nodes.len();
    indices.filter_map(|node| {
        let address = addresses_for_programs(cluster, node).into_iter().next()?;
        Some((cluster.nodes[node].name.as_str(), address))
    })
}

/// The addresses of node `me` at which programs of other nodes look for it: that of its virtual
/// NIC first, which is the source of what they send.
pub fn addresses_for_programs(cluster: &Cluster, me: NodeIndex) -> Vec<IpAddr> {
    let node = &cluster.nodes[me];
    let vnic = node.vnic.map(|(address, _)| address);
    let links = node.addresses().map(|(_, address)| address);
    vnic.into_iter().chain(links).collect()
}
