//! `soak`: what `make soak-lab` runs.

use std::process::ExitCode;

use clap::Parser;
use tabane_bench::soak::{SoakArgs, run};

/// Let everything go wrong under unmodified programs, for a long time
#[derive(Parser)]
#[command(name = "soak", version)]
struct Arguments {
    #[command(flatten)]
    soak: SoakArgs,
}

fn main() -> ExitCode {
    run(&Arguments::parse().soak)
}
