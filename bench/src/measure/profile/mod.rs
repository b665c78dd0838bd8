//! Where the processor's time goes while one TCP stream runs over `tab0`: perf
//! over the whole machine, its stacks sorted into groups, and drawn.

mod groups;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use self::groups::{GROUPS, group_of};
use super::programs::files;
use super::two_nodes;
use crate::iperf::{self, Load};
use crate::tools::{COLLAPSE, FLAMEGRAPH, PERF};
use crate::{Cell, Report, Settings, Table, digits};
use tabane_lab::cluster::{PATIENCE, Program, Wire};
use tabane_lab::peers::Congestion;
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabError, LinkSpec};

/// Samples of each processor in a second; not a divisor of anybody's timer.
const SAMPLES_PER_S: f64 = 997.0;
/// From the beginning of a stream until it counts.
const WARM_S: f64 = 1.0;
/// Of all samples; what is thinner is left out of the picture.
const SHARE_MIN_PERCENT: &str = "0.2";

/// One stream that is looked at.
struct Scene {
    /// In the table.
    name: &'static str,
    /// Of its picture.
    file: &'static str,
    wire: Wire,
    link: fn() -> LinkSpec,
}

const SCENES: [Scene; 4] = [
    Scene {
        name: "encrypted, 2 × 1 Gb/s",
        file: "2x1-encrypted",
        wire: Wire::Encrypted,
        link: LinkSpec::default,
    },
    Scene {
        name: "plain, 2 × 1 Gb/s",
        file: "2x1-plain",
        wire: Wire::Plain,
        link: LinkSpec::default,
    },
    Scene {
        name: "encrypted, no line rate",
        file: "unshaped-encrypted",
        wire: Wire::Encrypted,
        link: LinkSpec::unshaped,
    },
    Scene {
        name: "plain, no line rate",
        file: "unshaped-plain",
        wire: Wire::Plain,
        link: LinkSpec::unshaped,
    },
];

/// Every scene once.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    if let Err(error) = PERF.find() {
        report.leave_out("Where the time goes", error);
        return Ok(report);
    }
    if COLLAPSE.find().is_err() || FLAMEGRAPH.find().is_err() {
        let why = "inferno is not installed: cargo install --locked inferno";
        report.leave_out("Where the time goes", why);
        return Ok(report);
    }
    let mut columns = vec!["group"];
    let mut sorted = Vec::new();
    for scene in &SCENES {
        match look(settings, scene) {
            Ok(seen) => {
                columns.push(scene.name);
                sorted.push(sort(&seen));
                let file = format!("flamegraph-{}", scene.file);
                report.files.push((format!("{file}.svg"), seen.picture));
                report.files.push((format!("{file}.folded"), seen.folded));
            }
            Err(error) => {
                report.leave_out(format!("Where the time goes: {}", scene.name), error);
            }
        }
    }
    let note = format!(
        "CPU seconds of the whole machine for each GB of one cubic TCP stream over `tab0`, sampled \
         {SAMPLES_PER_S} times a second for {} s, by the function it was in; in brackets its share. \
         The first of these groups that fits counts; `lab/src/bench/measure/profile/groups.rs` says \
         what fits.",
        settings.seconds
    );
    let mut table = Table::new("Where the time goes", note, &columns);
    for (index, group) in GROUPS.iter().enumerate() {
        if GROUPS[..index]
            .iter()
            .any(|earlier| earlier.name == group.name)
        {
            continue;
        }
        let cells = sorted.iter().map(|all: &Vec<f64>| share(all[index], all));
        let mut row: Vec<Cell> = vec![group.name.into()];
        row.extend(cells);
        table.rows.push(row);
    }
    let total = |all: &Vec<f64>| Cell::from(digits(all.iter().sum()));
    let mut row: Vec<Cell> = vec!["all".into()];
    row.extend(sorted.iter().map(total));
    table.rows.push(row);
    if !sorted.is_empty() {
        report.tables.push(table);
    }
    Ok(report)
}

fn share(seconds: f64, all: &[f64]) -> Cell {
    let percent = seconds / all.iter().sum::<f64>().max(1e-9) * 100.0;
    format!("{} ({percent:.1}%)", digits(seconds)).into()
}

/// What perf saw.
struct Seen {
    /// A line for each stack, from the process to the leaf, and how often.
    folded: String,
    picture: String,
    /// Carried while it looked.
    gigabytes: f64,
}

/// CPU seconds for each GB, by group.
fn sort(seen: &Seen) -> Vec<f64> {
    let mut seconds = vec![0.0; GROUPS.len()];
    for line in seen.folded.lines() {
        let Some((stack, count)) = line.rsplit_once(' ') else {
            continue;
        };
        let count: f64 = count.parse().unwrap_or(0.0);
        if let Some(group) = group_of(stack) {
            seconds[group] += count / SAMPLES_PER_S / seen.gigabytes;
        }
    }
    seconds
}

fn look(settings: &Settings, scene: &Scene) -> Result<Seen, LabError> {
    let config = two_nodes(vec![(scene.link)(); 2]);
    let arena = Arena::up(Way::Tabane(scene.wire), &config, &settings.tabane)?;
    let scratch = files::scratch()?;
    let data = scratch.path().join("perf.data");
    let mut perf = Command::new(PERF.find()?);
    perf.args([
        "record",
        "--all-cpus",
        "-g",
        "--event",
        "cpu-clock",
        "--quiet",
    ]);
    perf.args(["--freq", &SAMPLES_PER_S.to_string(), "--output"])
        .arg(&data);
    // perf's own beginning is not to be seen.
    perf.args(["--delay", &(WARM_S * 1e3).to_string(), "--", "sleep"]);
    perf.arg((WARM_S + settings.seconds).to_string());
    perf.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let perf = Program::start("perf", perf)?;
    let load = Load {
        // Longer than perf looks, by what it needs to begin.
        seconds: WARM_S + settings.seconds + 1.0,
        omit_s: 0.0,
        congestion: Some(Congestion::Cubic),
        both_ways: false,
    };
    let outcome = iperf::run(&arena, load)?;
    let said = perf.output(PATIENCE)?;
    drop(arena);
    if !said.status.success() {
        return Err(failed("perf record", &said.stderr));
    }
    let mut script = Command::new(PERF.find()?);
    // Without the period each sample counts as one.
    script.args(["script", "--fields", "comm,tid,time,event,ip,sym,dso"]);
    script.arg("--input").arg(&data);
    let stacks = through(script, None)?;
    let folded = through(
        Command::new(COLLAPSE.find()?),
        Some((scratch.path(), &stacks)),
    )?;
    let folded = own_only(&String::from_utf8_lossy(&folded));
    let mut draw = Command::new(FLAMEGRAPH.find()?);
    draw.args([
        "--minwidth",
        SHARE_MIN_PERCENT,
        "--hash",
        "--notes",
        "tabane",
    ]);
    draw.args([
        "--title",
        &format!("One TCP stream over tab0, {}", scene.name),
    ]);
    let picture = through(draw, Some((scratch.path(), folded.as_bytes())))?;
    Ok(Seen {
        folded,
        picture: String::from_utf8_lossy(&picture).into_owned(),
        gigabytes: outcome.gbps / 8.0 * settings.seconds,
    })
}

/// Without what the processors do when there is nothing to do, and without
/// perf itself.
fn own_only(folded: &str) -> String {
    let is_ours = |line: &&str| {
        let stack = line.rsplit_once(' ').map_or(*line, |(stack, _)| stack);
        group_of(stack).is_some()
    };
    let lines = folded.lines().filter(is_ours);
    lines.map(|line| format!("{line}\n")).collect()
}

/// What a program makes of its input, which is put into a file in between: it
/// may be longer than a pipe holds.
fn through(mut command: Command, input: Option<(&Path, &[u8])>) -> Result<Vec<u8>, LabError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some((directory, text)) = input {
        let file = directory.join("input");
        fs::write(&file, text).map_err(LabError::io("input of a profile's program"))?;
        command.arg(file);
    }
    let said = Program::start("profile", command)?.output(Duration::from_secs(300))?;
    match said.status.success() {
        true => Ok(said.stdout),
        false => Err(failed("perf script, inferno", &said.stderr)),
    }
}

fn failed(tool: &'static str, said: &[u8]) -> LabError {
    LabError::ToolFailed {
        tool,
        place: "the host".into(),
        message: String::from_utf8_lossy(said).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_sorted_and_idling_is_left_out() {
        let folded = "swapper;do_idle;pv_native_safe_halt 5000\n\
                      tabane;do_syscall_64;__x64_sys_sendmsg;udp_sendmsg;_copy_from_iter 997\n\
                      iperf3;main;write;tcp_sendmsg 997\n";
        let folded = own_only(folded);
        assert_eq!(folded.lines().count(), 2);
        let seen = Seen {
            folded,
            picture: String::new(),
            gigabytes: 2.0,
        };
        let sorted = sort(&seen);
        assert_eq!(sorted.iter().sum::<f64>(), 1.0);
        assert_eq!(sorted.iter().filter(|&&seconds| seconds > 0.0).count(), 2);
    }
}
