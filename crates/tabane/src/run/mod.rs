//! `tabane run -- PROGRAM…`: a program whose TCP connections to other nodes are carried by the
//! bundle, without a change to it.
//!
//! This process moves into a network namespace of its own, hands the sockets that catch what
//! begins there to the agent (the daemon's, [`agent`](crate::agent)), leaves a supervisor behind
//! and becomes the program: its process id, parent, terminal, signals and exit code are its own.

mod supervisor;

use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use tabane_cluster::{Cluster, DEFAULT_PATH, NodeIndex, plain};
use tabane_io::capture::{Capture, Namespace};
use tabane_io::handover::Handover;
use tabane_io::process::leave_behind;

use crate::agent::{SOCKET_NAME, ToAgent, ToSupervisor};
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
    let error = Command::new(program).args(arguments).exec();
    cli::failure(format!("{}: {}", program.to_string_lossy(), plain(&error)));
    match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUNNABLE,
    }
}

/// Moves this process to where its connections are caught.
fn prepare(cluster: &Cluster, me: NodeIndex) -> Result<(), String> {
    let own = addresses_for_programs(cluster, me);
    // Before this process leaves the network namespace in which the agent has its name.
    let agent = Handover::connect(SOCKET_NAME).map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            "no daemon runs here; start it: `tabane up`".to_owned()
        }
        _ => format!("the daemon cannot be asked: {}", plain(&error)),
    })?;
    Namespace::enter(&own).map_err(|error| error.to_string())?;
    let capture = Capture::open(&own).map_err(|error| {
        format!("connections cannot be caught here: {error} (it needs nf_tables with tproxy)")
    })?;
    hand_over(&agent, &capture, own)
        .map_err(|error| format!("the daemon does not take part: {error}"))?;
    drop(capture);
    let program = std::process::id();
    let watched = tabane_io::process::Watched::new(program)
        .map_err(|error| format!("this process cannot be watched: {}", plain(&error)))?;
    use std::os::fd::AsFd;
    leave_behind(&[agent.as_fd(), watched.as_fd()], || {
        supervisor::supervise(&agent, &watched);
    })
    .map_err(|error| format!("no supervisor can be left behind: {}", plain(&error)))
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

/// The addresses of node `me` at which programs of other nodes look for it: that of its virtual
/// NIC first, which is the source of what they send.
pub fn addresses_for_programs(cluster: &Cluster, me: NodeIndex) -> Vec<IpAddr> {
    let node = &cluster.nodes[me];
    let vnic = node.vnic.map(|(address, _)| address);
    let links = node.addresses().map(|(_, address)| address);
    vnic.into_iter().chain(links).collect()
}
