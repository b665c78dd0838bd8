//! Failures under load, to the millisecond.

use std::fmt;
use std::thread::sleep;
use std::time::Duration;

use super::two_nodes;
use crate::helper::{Pair, target};
use crate::timeline::{Failover, Recorded, Sent, Timeline, judge};
use crate::{Bound, Build, Entrant, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{Fault, Injection, LabError, LinkSpec, monotonic_ns};

const BEFORE: Duration = Duration::from_millis(700);
const FAILED: Duration = Duration::from_millis(800);
const AFTER: Duration = Duration::from_millis(1500);

/// What happens to a link under a stream between nodes 0 and 1.
#[derive(Debug, Clone, Copy)]
pub enum Failure {
    Link {
        link: usize,
        fault: Fault,
        node: Option<usize>,
    },
    /// Node 0's address is taken from the NIC.
    Address { link: usize },
}

const fn link(link: usize, fault: Fault, node: Option<usize>) -> Failure {
    Failure::Link { link, fault, node }
}

/// All of them.
pub const FAILURES: [Failure; 7] = [
    link(0, Fault::Silent, None),
    link(1, Fault::Silent, None),
    link(0, Fault::Carrier, None),
    link(1, Fault::Carrier, None),
    link(1, Fault::OneWay, Some(0)),
    link(1, Fault::OneWay, Some(1)),
    Failure::Address { link: 1 },
];

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Failure::Link { link, fault, node } => match (fault, node) {
                (Fault::OneWay, Some(0)) => write!(f, "switch {link} drops what goes there"),
                (Fault::OneWay, _) => write!(f, "switch {link} drops what comes back"),
                (Fault::Carrier, _) => write!(f, "carrier lost on link {link}"),
                _ => write!(f, "switch {link} {fault}"),
            },
            Failure::Address { link } => write!(f, "address of link {link} removed"),
        }
    }
}

impl Failure {
    /// It happens now; returns when, on the clock of [`monotonic_ns`].
    pub fn begin(self, arena: &Arena) -> Result<u64, LabError> {
        match self {
            Failure::Link { link, fault, node } => {
                let Injection { begun_ns, .. } = arena.lab().fail(link, fault, node)?;
                Ok(begun_ns)
            }
            Failure::Address { link } => address(arena, link, "del"),
        }
    }

    fn end(self, arena: &Arena) -> Result<u64, LabError> {
        match self {
            Failure::Link { link, fault, .. } => {
                let injection = arena.lab().heal(link)?;
                Ok(match fault {
                    Fault::Silent | Fault::Carrier => injection.begun_ns,
                    _ => injection.done_ns,
                })
            }
            Failure::Address { link } => address(arena, link, "add"),
        }
    }
}

fn address(arena: &Arena, link: usize, action: &str) -> Result<u64, LabError> {
    let lab = arena.lab();
    let address = format!("{}/24", lab.address(0, link));
    let device = format!("eth{link}");
    let begun_ns = monotonic_ns();
    lab.ip(0, &["address", action, &address, "dev", &device])?;
    Ok(begun_ns)
}

const LIBRARY: Way = Way::Library {
    wire: Wire::Encrypted,
    spins: true,
};
/// Of these the stream with the middle gap is kept to be drawn, for each failure.
const DRAWN: [Way; 3] = [Way::Tabane(Wire::Encrypted), LIBRARY, Way::Mptcp];

/// A way, how often each failure is tried with it, and at most, ms: the longest gap, and until one link is full.
type Tries = (Way, usize, Option<[f64; 2]>);

/// Every failure, `times` times on tabane, once a round on MPTCP.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let wire = Wire::Encrypted;
    let tries = [
        (Way::Tabane(wire), settings.times, Some([50.0, 100.0])),
        (Way::Run(wire), settings.times, Some([50.0, 100.0])),
        (LIBRARY, settings.times, Some([20.0, 100.0])),
        (Way::Mptcp, settings.rounds, None),
    ];
    let mut report = Report::default();
    failures(settings, 0, &tries, &DRAWN, &mut report)?;
    Ok(report)
}

/// Every failure with MPTCP, steered `times` times and by itself once a round, under a stream of either node.
pub fn steered(settings: &Settings) -> Result<Report, LabError> {
    let tries = [
        (Way::Steered, settings.times, Some([50.0, 150.0])),
        (Way::Mptcp, settings.rounds, None),
    ];
    let mut report = Report::default();
    for from in [0, 1] {
        failures(settings, from, &tries, &[], &mut report)?;
    }
    Ok(report)
}

/// Under a stream of node `from`.
fn failures(
    settings: &Settings,
    from: usize,
    tries: &[Tries],
    drawn: &[Way],
    report: &mut Report,
) -> Result<(), LabError> {
    let one_link_gbps = one_link(settings)?;
    let columns = [
        "failure",
        "longest gap, ms",
        "≥95% of one link, ms",
        "both links again, ms",
        "rate before, Gb/s",
        "rate while failed, Gb/s",
        "bytes lost",
        "broken",
    ];
    for &(way, times, most_ms) in tries {
        let entrants = settings.entrants(&[way]);
        let mut all: Vec<_> = entrants
            .iter()
            .map(|_| FAILURES.map(|_| Vec::new()))
            .collect();
        for _ in 0..times {
            for (index, failure) in FAILURES.into_iter().enumerate() {
                for (entrant, runs) in entrants.iter().zip(&mut all) {
                    runs[index].push(once(settings, *entrant, from, failure, one_link_gbps)?);
                }
            }
        }
        for (entrant, runs) in entrants.into_iter().zip(all) {
            let title = format!("Failures under one stream of node {from}, 2 × 1 Gb/s: {entrant}");
            let note = format!(
                "{times} times each, on a fresh lab every time. One link alone carries \
                 {one_link_gbps:.3} Gb/s. Where a switch drops what goes there, it drops what node 0 sends. \
                 Medians (least–greatest); \"never\" within {} ms is counted in brackets.",
                FAILED.as_millis()
            );
            let mut table = Table::new(title, note, &columns);
            for (failure, runs) in FAILURES.into_iter().zip(runs) {
                if entrant.is_own() && drawn.contains(&way) {
                    report.timelines.extend(representative(&runs));
                }
                let runs: Vec<_> = runs.into_iter().map(|run| run.judged).collect();
                table.rows.push(row(failure, &runs));
                if let (true, Some(most_ms)) = (entrant.is_own(), most_ms) {
                    let what = format!("{way}, of node {from}, {failure}");
                    report.goals.extend(goals(&what, &runs, most_ms));
                }
            }
            report.tables.push(table);
        }
    }
    Ok(())
}

/// The stream whose gap is in the middle of all.
fn representative(runs: &[Run]) -> Option<Recorded> {
    let mut kept: Vec<_> = runs.iter().filter(|run| run.recorded.is_some()).collect();
    kept.sort_by(|a, b| a.judged.gap_ms.total_cmp(&b.judged.gap_ms));
    kept.get(kept.len() / 2)?.recorded.clone()
}

fn row(failure: Failure, runs: &[Failover]) -> Vec<crate::Cell> {
    let samples = |of: fn(&Failover) -> f64| Samples(runs.iter().map(of).collect());
    let times = |of: fn(&Failover) -> Option<f64>| {
        let reached = Samples(runs.iter().filter_map(of).collect());
        match runs.len() - reached.0.len() {
            0 => reached.to_string(),
            never => format!("{reached} [never: {never}]"),
        }
    };
    vec![
        failure.to_string().into(),
        samples(|run| run.gap_ms).into(),
        times(|run| run.one_link_ms).into(),
        times(|run| run.both_links_ms).into(),
        samples(|run| run.before_gbps).into(),
        samples(|run| run.during_gbps).into(),
        format!("{}", runs.iter().map(|run| run.lost_bytes).sum::<u64>()).into(),
        format!("{}", runs.iter().filter(|run| run.is_broken).count()).into(),
    ]
}

/// The worst of all runs counts. At most: the longest gap, and until one link is full.
fn goals(of: &str, runs: &[Failover], most_ms: [f64; 2]) -> Vec<Goal> {
    let worst = |of: fn(&Failover) -> Option<f64>| {
        let all: Option<Vec<f64>> = runs.iter().map(of).collect();
        Samples(all?).max()
    };
    let goal =
        |what: &str, value, most| Goal::new(format!("{of}: {what}"), value, Bound::AtMost(most));
    let lost = worst(|run| Some(run.lost_bytes as f64));
    let broken = worst(|run| Some(f64::from(u8::from(run.is_broken))));
    vec![
        goal("longest gap, ms", worst(|run| Some(run.gap_ms)), most_ms[0]),
        goal(
            "until ≥95% of one link, ms",
            worst(|run| run.one_link_ms),
            most_ms[1],
        ),
        goal(
            "until both links again, ms",
            worst(|run| run.both_links_ms),
            1000.0,
        ),
        goal("bytes lost", lost, 0.0),
        goal("connections broken", broken, 0.0),
    ]
}

/// What the same stream does over one link, Gb/s.
pub fn one_link(settings: &Settings) -> Result<f64, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let tcp = Entrant {
        way: Way::Tcp { link: 0 },
        build: Build::Own,
    };
    let stand = settings.stand(tcp, &config)?;
    let pair = Pair::start(&stand, ("send", "receive"), BEFORE + FAILED)?;
    let (_, timeline): (Sent, Timeline) = pair.results()?;
    Ok(timeline.steady_gbps())
}

/// One stream across one failure.
pub struct Run {
    /// How it bore it.
    pub judged: Failover,
    /// What came, if it got so far.
    recorded: Option<Recorded>,
}

/// One stream of node `from` across one failure, on a lab of its own; judged by what one link carries.
pub fn once(
    settings: &Settings,
    entrant: Entrant,
    from: usize,
    failure: Failure,
    one_link_gbps: f64,
) -> Result<Run, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let stand = settings.stand(entrant, &config)?;
    let lasting = BEFORE + FAILED + AFTER;
    let client = [target(&stand, 1 - from), lasting.as_millis().to_string()];
    let pair = Pair::begin_from(from, &stand, ("send", &client), ("receive", &[]))?;
    sleep(BEFORE);
    let failed_ns = failure.begin(&stand)?;
    sleep(FAILED);
    let healed_ns = failure.end(&stand)?;
    let (sent, timeline) = match pair.results::<Sent, Timeline>() {
        Ok(results) => results,
        Err(error) => {
            eprintln!("bench: {entrant}, {failure}: counted as broken: {error}");
            let judged = Failover {
                gap_ms: FAILED.as_secs_f64() * 1e3,
                is_broken: true,
                ..Failover::default()
            };
            return Ok(Run {
                judged,
                recorded: None,
            });
        }
    };
    if let Some(at) = timeline.wrong_at {
        eprintln!("bench: {entrant}, {failure}: what arrived is wrong from byte {at} on");
    }
    Ok(Run {
        judged: judge(&timeline, &sent, failed_ns, healed_ns, one_link_gbps),
        recorded: Some(Recorded::of(
            entrant, failure, &timeline, failed_ns, healed_ns,
        )),
    })
}
