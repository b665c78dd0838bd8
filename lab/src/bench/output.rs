//! Where the figures go.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::figures::goals_table;
use super::{Machine, Report, Settings, timeline};

/// Another machine's share of this one that makes its figures doubtful.
const BUSY_SHARE_MAX: f64 = 0.1;

/// Say what the figures are of.
pub fn heading(machine: &Machine, settings: &Settings) {
    println!("{}", heading_text(machine, settings));
    if machine.busy_before > BUSY_SHARE_MAX {
        eprintln!(
            "bench: other programs keep {:.0}% of this machine busy: trust ratios only, if anything",
            machine.busy_before * 100.0
        );
    }
}

fn heading_text(machine: &Machine, settings: &Settings) -> String {
    format!(
        "{}, Linux {}, {} × {}, as {}; medians of {} rounds (least–greatest), failures {} times each; \
         {:.0}% of the machine busy with other things before\n",
        machine.date,
        machine.kernel,
        machine.cpus,
        machine.cpu,
        machine.user,
        settings.rounds,
        settings.times,
        machine.busy_before * 100.0,
    )
}

#[derive(Serialize)]
struct File<'a> {
    machine: &'a Machine,
    rounds: usize,
    times: usize,
    seconds: f64,
    #[serde(flatten)]
    report: &'a Report,
}

/// Write `bench.md`, `bench.json` and, if there are any, `timelines.csv`.
pub fn write(
    directory: &Path,
    machine: &Machine,
    settings: &Settings,
    report: &Report,
) -> Result<(), String> {
    let mut text = heading_text(machine, settings);
    for table in &report.tables {
        let _ = write!(text, "\n{table}");
    }
    if !report.goals.is_empty() {
        let _ = write!(text, "\n{}", goals_table(&report.goals));
    }
    let _ = write!(text, "{}", left_out(report));
    let file = File {
        machine,
        rounds: settings.rounds,
        times: settings.times,
        seconds: settings.seconds,
        report,
    };
    // On one line: the timelines would be one number a line.
    let json = serde_json::to_string(&file).map_err(|error| error.to_string())?;
    let put = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    put("bench.md", &text)?;
    if !report.timelines.is_empty() {
        put("timelines.csv", &timeline::csv(&report.timelines))?;
    }
    put("bench.json", &json)
}

/// What was not measured, as Markdown; nothing if all was.
pub fn left_out(report: &Report) -> String {
    if report.left_out.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n### Left out\n\n");
    for one in &report.left_out {
        let _ = writeln!(text, "- {one}");
    }
    text
}
