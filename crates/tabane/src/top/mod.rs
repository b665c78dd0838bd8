//! `tabane top`: peers, paths and their traffic, live, in a terminal.
//!
//! `model` holds the data and the selection, `keys` the meaning of keys, `view` draws a
//! model, `terminal` has the terminal and the threads.

mod changes;
mod help;
mod history;
mod keys;
mod model;
mod outside;
mod rows;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;

use crate::{exit_codes, say};

/// Arguments of `tabane top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// How often to ask the daemon: 0.2 to 3600 seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Not here: `tabane status` shows everything once
    #[arg(long, hide = true)]
    pub once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().unwrap_or(0.0);
    if (0.2..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("a number of seconds from 0.2 to 3600 is needed".to_owned())
    }
}

/// Runs until the user leaves; returns the exit code.
pub fn run(args: &TopArgs) -> u8 {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.once || is_dumb || !is_terminal {
        say::failure(
            "top needs a terminal to draw on and keys to be left with; \
             for one look use `tabane status`, for programs `tabane status --json`",
        );
        return exit_codes::CONFIGURATION;
    }
    match terminal::run(args.interval) {
        Ok(()) => exit_codes::OK,
        Err(error) => say::failure(format!("the terminal: {}", tabane_cluster::plain(&error))),
    }
}
