//! Pings across a silent failure on a bundle that is else idle.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::two_nodes;
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::{PATIENCE, Program, Wire, all_paths_up};
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{Fault, LabError, LinkSpec};

const COUNT: usize = 200;
const INTERVAL_S: f64 = 0.01;
const BEFORE: Duration = Duration::from_millis(500);

/// Every 10 ms, for either switch.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let way = Way::Tabane(Wire::Encrypted);
    let arena = Arena::up(way, &config, &settings.tabane)?;
    let mut lost = [Samples::default(), Samples::default()];
    let mut doubled = [Samples::default(), Samples::default()];
    for _ in 0..settings.times {
        for link in 0..2 {
            let told = across_failure(&arena, link)?;
            lost[link].0.push(told.lost);
            doubled[link].0.push(told.doubled);
        }
    }
    let title = format!("{COUNT} pings, one every 10 ms, switch silent from the 50th on");
    let columns = ["switch", "lost, of each run", "answered twice"];
    let mut table = Table::new(title, "2 × 1 Gb/s, else idle.", &columns);
    let mut goals = Vec::new();
    for (link, (lost, doubled)) in lost.into_iter().zip(doubled).enumerate() {
        let what = format!("Pings lost across a silent failure of switch {link}, at most");
        goals.push(Goal::new(what, lost.max(), Bound::AtMost(1.0)));
        table
            .rows
            .push(vec![format!("{link}").into(), lost.into(), doubled.into()]);
    }
    Ok(Report {
        tables: vec![table],
        goals,
        ..Report::default()
    })
}

struct Told {
    lost: f64,
    doubled: f64,
}

fn across_failure(arena: &Arena, link: usize) -> Result<Told, LabError> {
    let mut ping = arena.command(0, "ping")?;
    ping.args(["-n", "-q", "-W", "1"]);
    ping.args(["-i", &INTERVAL_S.to_string(), "-c", &COUNT.to_string()]);
    ping.arg(arena.address(1).to_string());
    ping.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let ping = Program::start("ping", ping)?;
    sleep(BEFORE);
    arena.lab().fail(link, Fault::Silent, None)?;
    let said = ping.output(PATIENCE)?;
    arena.lab().heal(link)?;
    if let Some(cluster) = arena.cluster() {
        for node in 0..2 {
            cluster.wait_status(node, "all paths are up again", all_paths_up)?;
        }
    }
    let said = String::from_utf8_lossy(&said.stdout);
    let number = |word: &str| number_before(&said, word);
    Ok(Told {
        lost: COUNT as f64 - number(" received").unwrap_or(0.0),
        doubled: number(" duplicates").unwrap_or(0.0),
    })
}

/// `… 199 received, …`: the number before a word.
fn number_before(text: &str, word: &str) -> Option<f64> {
    let (before, _) = text.split_once(word)?;
    let number = before.rsplit([' ', '+', ',']).next()?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_is_understood() {
        let said = "200 packets transmitted, 199 received, +3 duplicates, 0.5% packet loss";
        assert_eq!(number_before(said, " received"), Some(199.0));
        assert_eq!(number_before(said, " duplicates"), Some(3.0));
        assert_eq!(number_before(said, " errors"), None);
    }
}
