//! `tabane run -- PROGRAM…`: runs an unmodified program whose TCP connections to other nodes the bundle
//! carries.
//!
//! This process moves into a network namespace of its own and hands the sockets that catch new
//! connections there to the agent (the daemon's, [`agent`]). It leaves a supervisor behind (in the
//! namespace, and a finder outside of it) and becomes the program: process id, parent, terminal, signals
//! and exit code are its own. [`mptcp`] works differently, without a namespace.

mod claims;
mod finder;
mod join;
mod known;
mod mptcp;
mod pings;
mod ports;
mod supervisor;

use core::time::Duration;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::{Args, ValueEnum, ValueHint};
use tabane_cluster::{ConfigError, InterfaceAddress, plain};
use tabane_io::capture::{Capture, Echoes, Namespace, Wide, is_inside};
use tabane_io::handover::Handover;
use tabane_io::outside::Tun;
use tabane_io::process::{Watched, leave_helper};
use tabane_io::socket_calls::SocketCalls;
use tabane_io::sockets::Audience;

use crate::agent::{self, ToAgent, ToSupervisor};
use crate::names::DOMAIN;
use crate::say;
use crate::status::NodeAddresses;
use finder::Finder;
use known::Known;
use supervisor::{Left, supervise};

/// How long daemons may go on ending just when they are asked.
const ENDING_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// The program is not there (as shells and env(1) say it).
const NOT_FOUND: u8 = 127;
/// It is there and cannot be run.
const NOT_RUNNABLE: u8 = 126;

/// The carrier of a program's TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Via {
    /// tabane's bundles: encrypted, with a network namespace for the program
    Bundle,
    /// The kernel's Multipath TCP: in the clear, without a namespace; no cluster file is read
    Mptcp,
}

/// How a program reaches hosts that are no nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Outside {
    /// The cluster's gateway: they see the cluster's outside address
    Gateway,
    /// Its own node, as where there is no gateway
    Node,
}

/// Arguments of `tabane run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What carries the program's TCP
    #[arg(long, value_enum, default_value = "bundle")]
    pub via: Via,
    /// The cluster file; without it the daemon is asked, and /etc/tabane/cluster.toml read if
    /// none runs
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The node this machine is; if not given, the daemon's, or found by its addresses
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// How the program reaches hosts that are no nodes, where the cluster has a gateway
    #[arg(long, value_enum, default_value = "gateway")]
    pub outside: Outside,
    /// Run in the place of a program that is under `tabane run` already, given by its process id, its name, or its
    /// systemd unit. The two have one loopback, and see each other's abstract sockets
    #[arg(long, value_name = "PROGRAM|PID|UNIT", conflicts_with_all = ["config", "node", "via"])]
    pub join: Option<String>,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub program: Vec<OsString>,
}

/// Becomes the program; returns only if that fails, with the exit code.
///
/// # Errors
/// What is wrong with the cluster file, if that is needed.
pub fn run(args: &RunArgs) -> Result<u8, ConfigError> {
    if let Some(whom) = &args.join {
        return Ok(match join::join(whom) {
            Ok(()) => become_program(&args.program, []),
            Err(message) => say::failure(message),
        });
    }
    // Started by a program that is, it is where it ought to be, and out of the daemon's hearing.
    if !is_inside().unwrap_or(false)
        && let Err(message) = prepare(args, &Known::learn(args)?)
    {
        return Ok(say::failure(message));
    }
    Ok(become_program(&args.program, []))
}

/// Becomes the program, with TCP sockets of Multipath TCP, if that is available.
pub fn run_by_mptcp(args: &RunArgs) -> u8 {
    match mptcp::prepare() {
        Ok(()) => become_program(&args.program, []),
        Err(message) => say::failure(message),
    }
}

/// Becomes it, with these variables set; returns only if that fails, with the exit code.
pub fn become_program<'a>(
    words: &[OsString],
    set: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> u8 {
    let (program, arguments) = match words.split_first() {
        Some(split) => split,
        None => return say::failure("no program is given"),
    };
    let mut error = Command::new(program).args(arguments).envs(set).exec();
    // Of a directory that may not be looked into, the system says the same as of such a program.
    if error.kind() == io::ErrorKind::PermissionDenied && !is_there(Path::new(program)) {
        error = io::ErrorKind::NotFound.into();
    }
    say::failure(format!("{}: {}", program.to_string_lossy(), plain(&error)));
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
fn prepare(args: &RunArgs, known: &Known) -> Result<(), String> {
    // Before this process leaves the network namespace in which the agent has its name.
    let finder = Finder::leave(known)
        .map_err(|error| format!("no process can be left behind: {}", plain(&error)))?;
    // From this process, so that the kernel tells the agent whose program it is, and from this namespace,
    // where the agent can be found. If that fails, the finder says why.
    let agent = find_agent(&finder).map_or_else(|| finder.start(), Ok);
    // Those that are not there yet have no network.
    let own = addresses_for_programs(known.own(), &known.here);
    let outside = match args.outside {
        Outside::Gateway => known.outside.clone(),
        Outside::Node => Vec::new(),
    };
    let wide = (!outside.is_empty()).then(|| Wide {
        addresses: outside.clone(),
        nodes: addresses_of_nodes(&known.nodes).collect(),
    });
    let (namespace, tun) =
        Namespace::enter(&own, wide.as_ref()).map_err(|error| error.to_string())?;
    if let Err(error) = namespace.add_names(names(&known.nodes)) {
        // Programs find the nodes by their addresses all the same.
        say::warn(error);
    }
    let own_addresses = own.iter().map(|(address, _)| *address);
    let addresses: Vec<_> = own_addresses.chain(outside.iter().copied()).collect();
    let capture = Capture::open(&addresses).map_err(|error| {
        format!("connections cannot be caught here: {error} (it needs nf_tables with tproxy, socket, reject and log)")
    })?;
    // If the kernel's settings cannot be changed, it answers pings to every address.
    let echoes = Echoes::open().ok();
    let begin = ToAgent::begin(own, outside, std::process::id(), &args.program[0]);
    let handed = handed_over(&capture, tun.as_ref());
    let agent = take_part(agent?, &finder, &handed, &begin)?;
    let program = Watched::new(std::process::id())
        .map_err(|error| format!("this process cannot be watched: {}", plain(&error)))?;
    let joins = join::listen()
        .map_err(|error| format!("no other program can join this one: {}", plain(&error)))?;
    let mut kept = vec![
        agent.as_fd(),
        finder.as_fd(),
        program.as_fd(),
        joins.as_fd(),
    ];
    kept.extend(&handed);
    kept.extend(echoes.iter().flat_map(Echoes::descriptors));
    let supervisor = leave_supervisor(&kept, |calls| {
        let left = Left {
            finder: &finder,
            capture: &capture,
            tun: tun.as_ref(),
            echoes: echoes.as_ref(),
            begin: &begin,
            program: &program,
            joins: &joins,
        };
        // Nobody is left to report an error to: the agent sees that this process is gone.
        let _ = supervise(&left, &agent, calls);
    })?;
    match SocketCalls::of_ports() {
        Ok(calls) => take_over(&supervisor, &calls),
        Err(error) => {
            say::warn(format!(
                "servers are reached by programs under `tabane run` only: {}",
                plain(&error)
            ));
            Ok(())
        }
    }
}

/// Leaves behind a process that does `work` after it has got the intercepted calls, or the message that
/// there are none. Only then may calls be intercepted: the supervisor's own must not be.
fn leave_supervisor(
    kept: &[BorrowedFd<'_>],
    work: impl FnOnce(Option<SocketCalls>),
) -> Result<Handover, String> {
    let trouble = |error: io::Error| format!("no supervisor can be left behind: {}", plain(&error));
    let (ours, supervisors) = Handover::pair().map_err(trouble)?;
    let kept = [kept, &[supervisors.as_fd()]].concat();
    let works = || work(taken_over(&supervisors));
    leave_helper("supervisor", &kept, works).map_err(trouble)?;
    Ok(ours)
}

/// Makes the supervisor take over the calls of the program that this process becomes.
fn take_over(supervisor: &Handover, calls: &SocketCalls) -> Result<(), String> {
    supervisor
        .send(b"calls", &[calls.as_fd()])
        .map_err(|error| format!("the supervisor is gone: {}", plain(&error)))
}

/// The program's intercepted calls, once they are set up; `None`: they are not.
fn taken_over(from: &Handover) -> Option<SocketCalls> {
    let (_, descriptors) = from.receive().ok()?;
    let calls = descriptors.into_iter().next()?;
    Some(SocketCalls::from_descriptor(calls))
}

/// The agent of this node, or that of this user's programs, if there is one.
fn find_agent(finder: &Finder) -> Option<Handover> {
    if let Ok(agent) = agent::find_daemon(Audience::Everybody) {
        return Some(agent);
    }
    let agent = agent::find_daemon(Audience::User).ok()?;
    finder.is_own().ok()?;
    Some(agent)
}

/// The agent that watches the sockets of the namespace from now on; `found`: where to try first.
fn take_part(
    found: Handover,
    finder: &Finder,
    handed: &[BorrowedFd<'_>],
    begin: &ToAgent,
) -> Result<Handover, String> {
    let until = Instant::now() + ENDING_MAX;
    let mut agent = found;
    loop {
        match hand_over(&agent, handed, begin) {
            Ok(Some(ToSupervisor::Go)) => return Ok(agent),
            Ok(Some(ToSupervisor::Full)) => {
                return Err(format!(
                    "the daemon has no room for another program of this user (there may be {} in all, seven \
                     of eight of root, {} of any other user); end some of them, or start several by one \
                     `tabane run`",
                    agent::PLACES_MAX,
                    agent::PLACES_OF_USER_MAX
                ));
            }
            Ok(Some(ToSupervisor::Ended { why })) => {
                return Err(format!("the daemon does not serve this program: {why}"));
            }
            Ok(_) => return Err("the daemon is of another version; restart it".to_owned()),
            // It has just ended: find or start another one.
            Err(_) if Instant::now() < until => {
                std::thread::sleep(PAUSE);
                agent = finder.start()?;
            }
            Err(error) => return Err(format!("the daemon does not take part: {}", plain(&error))),
        }
    }
}

/// The parts of a namespace that an agent gets: its sockets, and the TUN that leads outside, if there is
/// one.
fn handed_over<'a>(capture: &'a Capture, tun: Option<&'a Tun>) -> Vec<BorrowedFd<'a>> {
    let sockets = capture.descriptors().into_iter();
    sockets.chain(tun.map(AsFd::as_fd)).collect()
}

/// Gives the agent the sockets; its answer.
fn hand_over(
    agent: &Handover,
    handed: &[BorrowedFd<'_>],
    begin: &ToAgent,
) -> io::Result<Option<ToSupervisor>> {
    match agent.send(&begin.encode(), handed) {
        // It may have said why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    let (answer, _) = match agent.receive() {
        // It has not read everything; its earlier messages come after this error.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => agent.receive()?,
        received => received?,
    };
    if answer.is_empty() {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(ToSupervisor::parse(&answer))
}

/// The nodes' names and their addresses for programs: the virtual NIC's, or else the first link's.
fn names(nodes: &[NodeAddresses]) -> impl Iterator<Item = (String, IpAddr)> {
    nodes.iter().filter_map(|node| {
        let vnic = node.vnic.map(|(address, _)| address);
        let address = vnic.or_else(|| node.links.iter().flatten().next().copied())?;
        let name = &node.name;
        Some((format!("{name} {name}.{DOMAIN}"), address))
    })
}

/// All addresses of all nodes.
fn addresses_of_nodes(nodes: &[NodeAddresses]) -> impl Iterator<Item = IpAddr> {
    nodes.iter().flat_map(|node| {
        let links = node.links.iter().flatten().copied();
        links.chain(node.vnic.map(|(address, _)| address))
    })
}

/// The addresses at which programs of other nodes look for a node, its virtual NIC's first, with prefix
/// lengths; for links these come from the devices `here`.
fn addresses_for_programs(node: &NodeAddresses, here: &[InterfaceAddress]) -> Vec<(IpAddr, u8)> {
    let links = node.links.iter().flatten().map(|&address| {
        let known = here.iter().find(|known| known.address == address);
        let whole = if address.is_ipv4() { 32 } else { 128 };
        (address, known.map_or(whole, |known| known.prefix))
    });
    node.vnic.into_iter().chain(links).collect()
}
