//! Two ranks without MPI, on two nodes: what an endpoint does by itself.

use std::path::Path;
use std::process::{Command, Stdio};

use super::two_nodes;
use crate::helper::{PORT, understand};
use crate::{Bound, Build, Entrant, Goal, Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::{PATIENCE, Program, Scratch, Wire, output, socket_address};
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

/// How the ranks' packets travel.
const WIRES: [Wire; 2] = [Wire::Encrypted, Wire::Plain];
const WRITTEN: &str = "half round trip of writes, 8 bytes";
const SPINNING: &str = "half round trip of a spinning UDP ping-pong, 8 bytes";

/// What one line of the ranks says: what it is of, the figure, its unit.
type Said = (String, f64, String);

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let entrant = Entrant {
        way: Way::Tcp { link: 0 },
        build: Build::Own,
    };
    let stand = settings.stand(entrant, &config)?;
    let mut rows: Vec<(String, String, [Samples; 2])> = Vec::new();
    let mut spinning = Samples::default();
    for _ in 0..settings.rounds {
        spinning.0.push(spin(&stand)?);
        for (index, wire) in WIRES.into_iter().enumerate() {
            for (what, figure, unit) in exchange(&stand, wire)? {
                let row = match rows.iter().position(|(known, ..)| *known == what) {
                    Some(row) => row,
                    None => {
                        rows.push((what, unit, Default::default()));
                        rows.len() - 1
                    }
                };
                rows[row].2[index].0.push(figure);
            }
        }
    }
    Ok(report(rows, spinning))
}

fn report(rows: Vec<(String, String, [Samples; 2])>, spinning: Samples) -> Report {
    let columns = ["what", "unit", "encrypted", "plain"];
    let note = "`crates/rank/examples/exchange.rs`; 64 messages, writes or reads at a time. A write is done when the other end \
                has said that the bytes are there.";
    let mut table = Table::new("Two ranks without MPI, 2 × 1 Gb/s", note, &columns);
    let written = rows.iter().find(|(what, ..)| what == WRITTEN);
    let ratio = written.and_then(|(.., [encrypted, _])| encrypted.over(&spinning).median());
    for (what, unit, [encrypted, plain]) in rows {
        table.rows.push(vec![
            what.into(),
            unit.into(),
            encrypted.into(),
            plain.into(),
        ]);
    }
    table.rows.push(vec![
        SPINNING.into(),
        "us".into(),
        "–".into(),
        spinning.into(),
    ]);
    let what = "Half round trip of writes of 8 bytes, over a spinning UDP ping-pong";
    Report {
        tables: vec![table],
        goals: vec![Goal::new(what, ratio, Bound::AtMost(1.25))],
        ..Report::default()
    }
}

/// Half a round trip of plain datagrams, µs.
fn spin(stand: &Stand) -> Result<f64, LabError> {
    let helper = |node: usize| {
        let mut command = stand.lab().command(node, &stand.helper);
        command.args(["helper", "spin"]);
        command
    };
    let mut back = helper(1);
    back.stdin(Stdio::null()).stdout(Stdio::null());
    let _back = Program::start("bench helper", back)?;
    let mut ping = helper(0);
    ping.arg(socket_address(stand.lab().address(1, 0), PORT));
    let said = output("bench helper", ping, PATIENCE)?;
    Ok(understand::<Option<f64>>(&said.stdout).unwrap_or(f64::NAN))
}

fn exchange(stand: &Stand, wire: Wire) -> Result<Vec<Said>, LabError> {
    let here = Scratch::new().map_err(LabError::io("a directory"))?;
    let program = stand.helper.with_file_name("examples").join("exchange");
    let start = |node: usize| -> Result<Program, LabError> {
        let mut command = rank(stand, &program, here.path(), node, wire);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Program::start("exchange", command)
    };
    let (first, second) = (start(0)?, start(1)?);
    let said = first.output(PATIENCE)?;
    second.output(PATIENCE)?;
    Ok(String::from_utf8_lossy(&said.stdout)
        .lines()
        .filter_map(line)
        .collect())
}

fn rank(stand: &Stand, program: &Path, here: &Path, node: usize, wire: Wire) -> Command {
    let lab = stand.lab();
    let mut command = lab.command(node, program);
    command
        .arg(here.join("address"))
        .arg(node.to_string())
        .args((0..lab.links()).map(|link| lab.address(node, link).to_string()))
        .env("TABANE_WIRE", wire.to_string());
    command
}

/// `WHAT: NUMBER UNIT`.
fn line(line: &str) -> Option<Said> {
    let (what, rest) = line.rsplit_once(": ")?;
    let (number, unit) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((what.to_owned(), number.parse().ok()?, unit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ranks_are_understood() {
        let said = line("messages, 8 bytes: 1490000 1/s").expect("is one");
        assert_eq!(
            said,
            ("messages, 8 bytes".into(), 1_490_000.0, "1/s".into())
        );
        let said = line("late accesses refused, of 10000: 10000").expect("is one");
        assert_eq!((said.1, &*said.2), (10_000.0, ""));
        assert_eq!(line("nothing"), None);
    }
}
