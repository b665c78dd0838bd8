//! Where the figures go.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::figures::goals_table;
use super::{Machine, Report, Settings, ahead, stolen};

/// Another machine's share of this one that makes its figures doubtful.
const BUSY_SHARE_MAX: f64 = 0.1;

/// Above what is written.
const WRITTEN: &str = "<!-- Written by `bench` with its bench.json; not to be edited. -->\n\n";

/// A run, as `bench.json` has it.
#[derive(Debug, Serialize, Deserialize)]
pub struct File {
    /// The machine it was measured on.
    pub machine: Machine,
    /// As of [`Settings`].
    pub rounds: usize,
    /// As of [`Settings`].
    pub times: usize,
    /// As of [`Settings`].
    pub seconds: f64,
    /// The figures.
    #[serde(flatten)]
    pub report: Report,
}

/// What the figures are of.
pub fn heading(machine: &Machine, settings: &Settings) -> String {
    heading_text(machine, settings.rounds, settings.times)
}

/// Tell if other programs may have spoilt the figures.
pub fn warn_if_busy(machine: &Machine) {
    if machine.busy_before > BUSY_SHARE_MAX {
        eprintln!(
            "bench: other programs keep {:.0}% of this machine busy: trust ratios only, if anything",
            machine.busy_before * 100.0
        );
    }
}

fn heading_text(machine: &Machine, rounds: usize, times: usize) -> String {
    format!(
        "Commit {}, {}, Linux {}, {} × {}, as {}; medians of {rounds} rounds (least–greatest), failures {times} times each; \
         {:.0}% of the machine busy with other things before\n",
        machine.commit,
        machine.date,
        machine.kernel,
        machine.cpus,
        machine.cpu,
        machine.user,
        machine.busy_before * 100.0,
    )
}

/// The run as a page, with these pictures.
pub fn markdown(file: &File, pictures: &[String]) -> String {
    let report = &file.report;
    let mut text = heading_text(&file.machine, file.rounds, file.times);
    for picture in pictures {
        let _ = write!(text, "\n{picture}\n");
    }
    for table in &report.tables {
        let _ = write!(text, "\n{table}");
    }
    let _ = write!(text, "{}", closing(report));
    text
}

/// What is said after all tables: where others are ahead, the goals, what the host
/// took of this machine, and what was not measured.
pub fn closing(report: &Report) -> String {
    let mut text = String::new();
    if let Some(table) = ahead::table(&report.tables) {
        let _ = write!(text, "\n{table}");
    }
    if !report.goals.is_empty() {
        let _ = write!(text, "\n{}", goals_table(&report.goals));
    }
    if let Some(table) = stolen::table(&report.stolen) {
        let _ = write!(text, "\n{table}");
    }
    if !report.left_out.is_empty() {
        text.push_str("\n### Left out\n\n");
    }
    for one in &report.left_out {
        let _ = writeln!(text, "- {one}");
    }
    text
}

/// Write `bench.json`, and `bench.md` which is made of it.
pub fn write(directory: &Path, file: &File, pictures: &[String]) -> Result<(), String> {
    // On one line: the timelines would be one number a line.
    let json = serde_json::to_string(file).map_err(|error| error.to_string())?;
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    put(
        "bench.md",
        &format!("{WRITTEN}{}", markdown(file, pictures)),
    )?;
    put("bench.json", &json)
}

/// Runs from their `bench.json`, as one: its machine is the first one's.
pub fn read(paths: &[PathBuf]) -> Result<File, String> {
    let mut all: Option<File> = None;
    for path in paths {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let file: File = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        match &mut all {
            Some(all) => all.report.extend(file.report),
            None => all = Some(file),
        }
    }
    all.ok_or_else(|| "no bench.json is named".into())
}
