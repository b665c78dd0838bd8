//! `tabane mpi -- mpirun …`: sets the environment in which any of the MPIs loads the libfabric provider and passes it to
//! the ranks on other nodes. Then this process becomes the launcher.
//!
//! It reports errors that it can detect before there are ranks: the messages of hundreds of ranks at once are unreadable.

pub mod installed;
pub mod library;
pub mod variables;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tabane_cluster::{ClusterKey, DEFAULT_PATH, plain};
use tabane_fi::environment::{self, Problem, links};

use crate::{exit_codes, run, say};
use installed::{Kind, Mpi};
use variables::Environment;

/// Arguments of `tabane mpi`.
#[derive(Debug, Default, Args)]
pub struct MpiArgs {
    /// The links to be used: names of devices, addresses or networks, in the same order on all nodes
    /// [default: TABANE_LINKS, or all with private addresses]
    #[arg(long, value_name = "LINK,…")]
    pub links: Option<String>,
    /// Where the provider, libtabane-fi.so, is on all nodes [default: beside this program]
    #[arg(long, value_name = "DIR")]
    pub library: Option<PathBuf>,
    /// Print the variables that would be set, as shell commands, and start nothing
    #[arg(long)]
    pub print: bool,
    /// The launcher and its arguments: mpirun, mpiexec, srun, or a script that runs one of these
    #[arg(
        required_unless_present = "print",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "LAUNCHER",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub launcher: Vec<OsString>,
}

/// Why no ranks can be started, and the exit code.
type Refusal = (String, u8);

/// Becomes the launcher; returns only if that fails, or is not asked for, with the exit code.
pub fn run(args: &MpiArgs) -> u8 {
    match prepare(args) {
        Ok((environment, _)) if args.print => {
            warn_of_links(&environment);
            say::print(&environment.shown())
        }
        Ok((environment, launcher)) => {
            warn_of_links(&environment);
            run::become_program(&launcher, environment.set())
        }
        Err((message, code)) => {
            say::failure(message);
            code
        }
    }
}

/// Why a job would not start on this node, even before one is wanted; for `tabane doctor`.
pub fn trouble() -> Option<String> {
    let environment = match prepare(&MpiArgs::default()) {
        Ok((environment, _)) => environment,
        Err((message, _)) => return Some(message),
    };
    links_here(&environment).err().map(|Problem(line)| line)
}

/// Whether the user has set a variable of the provider here.
pub fn is_wanted() -> bool {
    environment::is_wanted()
}

/// The environment to set, and the launcher's words.
///
/// # Errors
/// The first thing that would keep ranks from starting.
fn prepare(args: &MpiArgs) -> Result<(Environment, Vec<OsString>), Refusal> {
    let wrong = |message| (message, exit_codes::CONFIGURATION);
    let failed = |message| (message, exit_codes::FAILURE);
    let launcher = args.launcher.first().map(Path::new);
    let mpi = launcher.and_then(installed::launcher);
    if let Some(obstacle) = mpi.as_ref().and_then(Mpi::obstacle) {
        return Err(failed(obstacle));
    }
    variables::check_words(&args.launcher).map_err(wrong)?;
    let library = library::find(args.library.as_deref()).map_err(failed)?;
    let mut environment = Environment::new(|name| std::env::var(name).ok());
    environment.look_in(&library);
    if let Some(links) = &args.links {
        environment.put("TABANE_LINKS", links);
    }
    environment.choose_provider().map_err(wrong)?;
    let has_key = |name| environment.of_provider(name).is_some();
    if !["KEY", "KEY_FILE"].into_iter().any(has_key) {
        let key = tabane_io::entropy::seed().map_err(|error| {
            failed(format!(
                "no random bytes for the job's key: {}",
                plain(&error)
            ))
        })?;
        environment.put_secret("TABANE_KEY", &ClusterKey::new(key).to_hex());
    }
    let variable = |name: &str| environment.of_provider(name);
    environment::with_links(&variable, Path::new(DEFAULT_PATH), Vec::new())
        .map_err(|Problem(line)| wrong(line))?;
    let is_open_mpi = mpi.is_some_and(|mpi| mpi.kind == Kind::OpenMpi);
    if is_open_mpi && args.launcher.iter().any(|word| word == "-x") {
        let launcher = environment.forward_by_words(&args.launcher);
        return Ok((environment, launcher));
    }
    environment.forward();
    Ok((environment, args.launcher.clone()))
}

/// Warns of problems that would keep ranks from running on this node, which need not be one of the job's.
fn warn_of_links(environment: &Environment) {
    match links_here(environment) {
        Ok(odd) => odd.iter().for_each(|Problem(line)| say::warn(line)),
        Err(Problem(line)) => say::warn(format!("no rank can run on this node: {line}")),
    }
}

/// Oddities of the links that ranks on this node would use.
///
/// # Errors
/// There are none.
fn links_here(environment: &Environment) -> Result<Vec<Problem>, Problem> {
    // Without the list of devices they cannot be checked.
    let Ok(interfaces) = tabane_io::netlink::interfaces() else {
        return Ok(Vec::new());
    };
    let named = environment.of_provider("LINKS");
    links::choose(named.as_deref(), &interfaces).map(|(_, odd)| odd)
}
