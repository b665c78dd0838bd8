//! `bench`: what `make bench` runs.

use std::process::ExitCode;

use clap::Parser;
use tabane_bench::{BenchArgs, run};

/// Measure tabane beside single-link TCP, MPTCP and balance-rr
#[derive(Parser)]
#[command(name = "bench", version)]
struct Arguments {
    #[command(flatten)]
    bench: BenchArgs,
}

fn main() -> ExitCode {
    run(&Arguments::parse().bench)
}
