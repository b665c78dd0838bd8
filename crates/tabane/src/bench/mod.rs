//! `tabane bench PEER`: has the daemon measure its own bundle to a peer, and shows the result.
//!
//! The daemons of both ends do the work (`crates/tabane/src/daemon/bench/`): what they say each other is in [`words`], what
//! follows from their counters in [`sample`] and [`judge`].

pub mod judge;
mod report;
pub mod sample;
mod show;
pub mod words;

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

pub use report::{
    BenchReport, Cause, DatagramsResult, Limit, LinkResult, Processor, RoundTrips, SCHEMA,
    WayResult, quantile,
};

use crate::say;
use crate::status::{AskError, ask_bench, ask_here, to_line};

/// A measurement takes so much longer than was asked for at most: the peer answers late, or not.
const GRACE: Duration = Duration::from_secs(10);
/// The shortest and the longest measurement, in seconds: each of many phases has a part of it.
const SECONDS_MIN: i64 = 3;

/// Arguments of `tabane bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The peer, by its name in the cluster file
    pub peer: String,
    /// Also send datagrams, as UDP of programs goes over `tab0`, and count those that do not arrive
    #[arg(long)]
    pub udp: bool,
    /// One line of JSON instead of a table; docs/operation.md describes it
    #[arg(long)]
    pub json: bool,
    /// How long it takes
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(SECONDS_MIN..=words::SECONDS_MAX as i64))]
    pub seconds: u32,
}

/// What the daemon tells its client then, a line of JSON each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// What is being measured.
    Phase {
        /// In words.
        name: String,
    },
    /// The result. Nothing follows.
    Report(Box<BenchReport>),
    /// It goes no further. Nothing follows.
    Failed {
        /// Why.
        text: String,
    },
}

impl Told {
    /// The line, with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

/// Measures; returns the exit code.
pub fn run(args: &BenchArgs) -> u8 {
    let report = match measure(args) {
        Ok(Ok(report)) => report,
        Ok(Err(what)) => return say::failure(what),
        Err(error) => {
            say::failure(&error);
            return error.exit_code();
        }
    };
    match args.json {
        true => match serde_json::to_string(&report) {
            Ok(line) => say::print(&format!("{line}\n")),
            Err(error) => say::failure(error),
        },
        false => say::print(&show::table(&report)),
    }
}

/// Asks the daemon, and waits for its report; the other error is that the measurement failed, in words.
fn measure(args: &BenchArgs) -> Result<Result<BenchReport, String>, AskError> {
    let ask = |sockets: &_| ask_bench(sockets, &args.peer, args.seconds, args.udp);
    let mut lines = ask_here(ask)?;
    let longest = Duration::from_secs(args.seconds.into()) + GRACE;
    lines.get_ref().set_read_timeout(Some(longest))?;
    let shows = std::io::stderr().is_terminal();
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(Err(
                "the daemon has ended the measurement: it stops".to_owned()
            ));
        }
        match serde_json::from_str(&line) {
            Ok(Told::Phase { name }) if shows => say::eprintln_quietly(&show::phase(&name)),
            Ok(Told::Phase { .. }) => {}
            Ok(Told::Report(report)) => return Ok(Ok(*report)),
            Ok(Told::Failed { text }) => return Ok(Err(crate::status::clean(&text))),
            Err(error) => return Err(AskError::NotUnderstood(error.to_string())),
        }
    }
}
