//! `tabane topo`: which nodes share a switch, and how the switches are connected, as measured.
//!
//! A daemon makes the survey (`crates/tabane/src/daemon/survey/`); this asks for it and prints it.

mod formats;
mod show;
#[cfg(test)]
mod tests;
mod tree;

use std::time::Duration;

use clap::Args;

use crate::say;
use crate::status::topology::{TopoReport, Topology};
use crate::status::{AskError, ask_here, ask_topo};
use tabane_io::clock::unix_ms;

/// How often a daemon is asked whether its survey has ended.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Arguments of `tabane topo`.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// Measure now, and wait for it; as root, or as the user that the daemon runs as
    #[arg(long)]
    pub measure: bool,
    /// One line of JSON, which `tabane place --topology` reads; docs/topology.md describes it
    #[arg(long, group = "format")]
    pub json: bool,
    /// A graph for Graphviz
    #[arg(long, group = "format")]
    pub dot: bool,
    /// A picture
    #[arg(long, group = "format")]
    pub svg: bool,
    /// A topology.conf for Slurm, of the first network
    #[arg(long, group = "format")]
    pub slurm: bool,
}

/// Prints the known topology; returns the exit code.
pub fn run(args: &TopoArgs) -> u8 {
    let report = match args.measure {
        true => measure(),
        false => ask_here(|sockets| ask_topo(sockets, false)),
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            say::failure(&error);
            return error.exit_code();
        }
    };
    if let Some(trouble) = report.trouble.filter(|_| args.measure) {
        return say::failure(trouble);
    }
    let Some(topology) = report.topology else {
        return say::failure(match report.running {
            true => "it is being measured for the first time; ask again in a moment",
            false => "nothing was measured by this node yet; `tabane topo --measure` does it now",
        });
    };
    match shown(args, &topology) {
        Ok(text) => say::print(&text),
        Err(what) => say::failure(what),
    }
}

fn shown(args: &TopoArgs, topology: &Topology) -> Result<String, String> {
    if args.json {
        let line = serde_json::to_string(topology).map_err(|error| error.to_string())?;
        return Ok(format!("{line}\n"));
    }
    if args.dot {
        return Ok(formats::dot(topology));
    }
    if args.svg {
        return Ok(show::svg(topology));
    }
    if args.slurm {
        return formats::slurm(topology);
    }
    Ok(show::table(topology, unix_ms()))
}

/// Makes the daemon measure, or waits for the survey under way; returns the report.
fn measure() -> Result<TopoReport, AskError> {
    let ask = |measures| ask_here(|sockets| ask_topo(sockets, measures));
    let before = ask(true)?.finished;
    loop {
        std::thread::sleep(ASK_EVERY);
        let report = ask(false)?;
        if report.finished != before || !report.running {
            return Ok(report);
        }
    }
}
