//! `tabane-lab`: the command line of the lab by itself; `tabane lab` is the same.

use std::process::ExitCode;

use clap::Parser;
use tabane_lab::cli::{LabArgs, run};

/// A virtual cluster of network namespaces: nodes, switches, line rates, faults
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    lab: LabArgs,
}

fn main() -> ExitCode {
    run(Arguments::parse().lab)
}
