//! Real programs, unmodified, on every way in turn.

mod contest;
pub mod files;
mod http;
mod mpi;
mod mpi_failures;
mod mpi_few;
mod mpi_killed;
mod mpi_start;
mod placed;
mod redis;
mod tunnel;

pub use http::measure as http;
pub use mpi::{kernels, measure as mpi};
pub use mpi_failures::measure as mpi_failures;
pub use mpi_start::measure as mpi_start;
pub use placed::measure as placed;
pub use redis::measure as redis;
pub use tunnel::measure as tunnel;

use std::process::{Command, Output};

use crate::machine::Processors;
use tabane_lab::LabError;
use tabane_lab::cluster::{PATIENCE, output};

/// Run a program of node 0 to its end; that it fails is an error with what it
/// said.
fn finish(name: &'static str, command: Command) -> Result<Output, LabError> {
    let said = output(name, command, PATIENCE)?;
    if said.status.success() {
        return Ok(said);
    }
    let text = String::from_utf8_lossy(&said.stderr);
    Err(LabError::ToolFailed {
        tool: name,
        place: "n0".into(),
        message: format!("{}: {}", said.status, last_lines(&text)),
    })
}

/// Enough to see what was wrong.
fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().rev().take(4).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("; ")
}

/// How long something took, and what it cost the machine.
struct Cost {
    elapsed_s: f64,
    busy_s: f64,
}

impl Cost {
    fn of<T>(act: impl FnOnce() -> Result<T, LabError>) -> Result<(T, Cost), LabError> {
        let before = Processors::now()?;
        let begin = std::time::Instant::now();
        let result = act()?;
        let cost = Cost {
            elapsed_s: begin.elapsed().as_secs_f64(),
            busy_s: Processors::now()?.busy_s_since(before),
        };
        Ok((result, cost))
    }

    /// MB/s and CPU s/GB of so many bytes carried.
    fn figures(&self, bytes: u64) -> Vec<f64> {
        let bytes = bytes as f64;
        vec![bytes / 1e6 / self.elapsed_s, self.busy_s / (bytes / 1e9)]
    }
}
