//! `tabane ping PEER`: round trips to a peer by each link, and by the ways through others while these are used.
//!
//! The daemon times its own probes (`crates/tabane/src/daemon/pinging.rs`); this counts and shows them.

use std::fmt;
use std::fmt::Write;
use std::io::BufRead;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::bench::RoundTrips;
use crate::status::{
    AskError, PingBegun, ask_here, ask_ping, clean, round_trip, round_trip_if_known, to_line,
};
use crate::{exit_codes, say};

/// The version of what `--json` prints.
pub const SCHEMA: u32 = 1;
/// A round takes no longer than this: answers that take longer count as lost.
const ROUND_MAX: Duration = Duration::from_secs(5);
/// Rounds of which the round trips are remembered, of each way: later ones take the place of the oldest.
const KEPT: usize = 100_000;

/// Arguments of `tabane ping`.
#[derive(Debug, Args)]
pub struct PingArgs {
    /// The peer, by its name in the cluster file
    pub peer: String,
    /// End after so many rounds; 0: with Ctrl-C, and without a summary
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub count: u64,
    /// From one round to the next; less than 0.2 only as root, or as the user that the daemon runs as
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_interval)]
    pub interval: f64,
    /// At the end one line of JSON, and nothing else; docs/operation.md describes it
    #[arg(long)]
    pub json: bool,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    match (0.01..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("it must be 0.01 to 3600 seconds".to_owned()),
    }
}

/// A path, by the name that it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Over the links of this number.
    Link(u8),
    /// Through these nodes, in order.
    Via(Vec<String>),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Link(link) => write!(f, "link {link}"),
            Way::Via(nodes) => write!(f, "through {}", clean(&nodes.join(", "))),
        }
    }
}

/// One round, a line of JSON from the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// They count from 1.
    pub number: u64,
    /// Every path in use.
    pub ways: Vec<WayRound>,
}

/// What a round showed of one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayRound {
    /// The path.
    pub way: Way,
    /// How long the answer took; `None`: it did not come.
    pub rtt_us: Option<u32>,
}

impl Round {
    /// The line, with its newline.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

/// All rounds, as `tabane ping --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PingReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// This node.
    pub node: String,
    /// The peer.
    pub peer: String,
    /// How many rounds there were.
    pub rounds: u64,
    /// One for each path that was ever asked.
    pub ways: Vec<WayReport>,
}

/// All rounds of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WayReport {
    /// The path.
    #[serde(flatten)]
    pub way: Way,
    /// How often it was asked.
    pub asked: u64,
    /// How often no answer came in time.
    pub lost: u64,
    /// The answers.
    #[serde(flatten)]
    pub trips: RoundTrips,
}

/// What is known of one path so far.
#[derive(Debug)]
struct Seen {
    way: Way,
    asked: u64,
    lost: u64,
    rtts_us: Vec<u32>,
}

/// All rounds so far.
#[derive(Debug, Default)]
struct Rounds {
    count: u64,
    ways: Vec<Seen>,
}

impl Rounds {
    fn add(&mut self, round: &Round) {
        self.count += 1;
        for of in &round.ways {
            let place = self.ways.iter().position(|seen| seen.way == of.way);
            let place = place.unwrap_or_else(|| {
                self.ways.push(Seen {
                    way: of.way.clone(),
                    asked: 0,
                    lost: 0,
                    rtts_us: Vec::new(),
                });
                self.ways.len() - 1
            });
            let seen = &mut self.ways[place];
            let answers = (seen.asked - seen.lost) as usize;
            seen.asked += 1;
            match of.rtt_us {
                None => seen.lost += 1,
                Some(rtt_us) if answers < KEPT => seen.rtts_us.push(rtt_us),
                Some(rtt_us) => seen.rtts_us[answers % KEPT] = rtt_us,
            }
        }
    }

    fn report(self, begun: &PingBegun) -> PingReport {
        let ways = self.ways.into_iter().map(|seen| WayReport {
            way: seen.way,
            asked: seen.asked,
            lost: seen.lost,
            trips: RoundTrips::of(seen.rtts_us),
        });
        PingReport {
            schema: SCHEMA,
            node: begun.node.clone(),
            peer: begun.peer.clone(),
            rounds: self.count,
            ways: ways.collect(),
        }
    }
}

/// Pings; returns the exit code.
pub fn run(args: &PingArgs) -> u8 {
    match ping(args) {
        Ok(code) => code,
        Err(error) => {
            say::failure(&error);
            error.exit_code()
        }
    }
}

fn ping(args: &PingArgs) -> Result<u8, AskError> {
    let interval_ms = (args.interval * 1e3).round() as u64;
    let ask = |sockets: &_| ask_ping(sockets, &args.peer, interval_ms);
    let (begun, mut lines) = ask_here(ask)?;
    let longest = Duration::from_millis(interval_ms) + ROUND_MAX;
    lines.get_ref().set_read_timeout(Some(longest))?;
    let (mut rounds, mut line) = (Rounds::default(), String::new());
    while args.count == 0 || rounds.count < args.count {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            say::failure(
                "the daemon has ended it: it stops, or the peer was taken out of its cluster file",
            );
            break;
        }
        let round: Round = serde_json::from_str(&line)
            .map_err(|error| AskError::NotUnderstood(error.to_string()))?;
        rounds.add(&round);
        if !args.json && say::print(&round_line(&round)) != exit_codes::OK {
            return Ok(exit_codes::FAILURE);
        }
    }
    let report = rounds.report(&begun);
    let came_back = report.ways.iter().any(|way| way.asked > way.lost);
    let printed = match args.json {
        true => match serde_json::to_string(&report) {
            Ok(line) => say::print(&format!("{line}\n")),
            Err(error) => say::failure(error),
        },
        false => say::print(&summary(&report)),
    };
    Ok(match came_back {
        true => printed,
        false => exit_codes::FAILURE,
    })
}

/// `1: link 0 152us, link 1 lost`.
fn round_line(round: &Round) -> String {
    let way = |of: &WayRound| match of.rtt_us {
        Some(us) => format!("{} {}", of.way, round_trip(us)),
        None => format!("{} lost", of.way),
    };
    let ways: Vec<String> = round.ways.iter().map(way).collect();
    match ways.is_empty() {
        true => format!("{}: no way leads there\n", round.number),
        false => format!("{}: {}\n", round.number, ways.join(", ")),
    }
}

fn summary(report: &PingReport) -> String {
    let mut out = format!(
        "\n{} to {}, {} rounds\n",
        clean(&report.node),
        clean(&report.peer),
        report.rounds
    );
    for of in &report.ways {
        let _ = writeln!(
            out,
            "{}: min {}, median {}, max {}, {} of {} lost",
            of.way,
            round_trip_if_known(of.trips.min_us),
            round_trip_if_known(of.trips.median_us),
            round_trip_if_known(of.trips.max_us),
            of.lost,
            of.asked
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: u64, first_us: Option<u32>) -> Round {
        let way = |way, rtt_us| WayRound { way, rtt_us };
        Round {
            number,
            ways: vec![
                way(Way::Link(0), first_us),
                way(Way::Via(vec!["n2".to_owned()]), Some(300)),
            ],
        }
    }

    fn begun() -> PingBegun {
        PingBegun {
            node: "n0".to_owned(),
            peer: "n1".to_owned(),
        }
    }

    #[test]
    fn each_way_is_counted_by_itself() {
        let mut rounds = Rounds::default();
        for (number, rtt_us) in [(1, Some(150)), (2, None), (3, Some(1200)), (4, Some(170))] {
            rounds.add(&round(number, rtt_us));
        }
        let report = rounds.report(&begun());
        assert_eq!(
            summary(&report),
            "\n\
             n0 to n1, 4 rounds\n\
             link 0: min 150us, median 170us, max 1.2ms, 1 of 4 lost\n\
             through n2: min 300us, median 300us, max 300us, 0 of 4 lost\n"
        );
        let json = serde_json::to_value(&report).expect("is JSON");
        assert_eq!(json["ways"][0]["link"], 0);
        assert_eq!(json["ways"][1]["via"][0], "n2");
        assert_eq!(json["ways"][0]["median_us"], 170);
    }

    #[test]
    fn a_round_is_a_line() {
        let line = round_line(&round(7, None));
        assert_eq!(line, "7: link 0 lost, through n2 300us\n");
        let none = Round {
            number: 1,
            ways: Vec::new(),
        };
        assert_eq!(round_line(&none), "1: no way leads there\n");
        let said = String::from_utf8(round(7, None).to_line()).expect("is text");
        assert_eq!(
            serde_json::from_str::<Round>(&said).expect("is understood"),
            round(7, None)
        );
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut rounds = Rounds::default();
        for number in 0..KEPT as u64 + 5 {
            rounds.add(&round(number, Some(1)));
        }
        assert_eq!(rounds.ways[0].rtts_us.len(), KEPT);
    }

    #[test]
    fn intervals() {
        for (text, is_good) in [
            ("1", true),
            ("0.2", true),
            ("0", false),
            ("x", false),
            ("1e9", false),
            ("NaN", false),
        ] {
            assert_eq!(parse_interval(text).is_ok(), is_good, "{text}");
        }
    }
}
