//! Many senders: how much arrives, how fairly it is shared, what small
//! messages suffer.

use std::fmt;

use crate::crowd::{Carrier, Outcome, Traffic};
use crate::flow::jain_index;
use crate::{Bound, Build, Goal, Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::Way;
use tabane_lab::{LabConfig, LabError, LinkSpec};

/// Eight and the one they send to.
const NODES: usize = 9;
const LINKS: usize = 2;
/// Slow enough for two processors to be all of nine nodes: links of 100 Mb/s if
/// the line is of 1 Gb/s.
const SLOWER: u64 = 10;
/// Nodes of the small messages: the receiver, two that send bulk, and their own.
const FEW: usize = 4;
/// Of what one TCP stream carries on each of the receiver's links.
const SHARE_OF_LINKS: f64 = 0.95;
const JAIN: f64 = 0.95;
/// How many times slower than idle a small message may be.
const TIMES_IDLE: f64 = 5.0;

/// Who competes: a way, and what carries the streams on it.
#[derive(Clone, Copy)]
struct Contestant {
    way: Way,
    build: Build,
    carrier: Carrier,
    /// How many of the links it uses.
    links: usize,
}

const fn tabane(carrier: Carrier) -> Contestant {
    Contestant {
        way: Way::Tabane(Wire::Encrypted),
        build: Build::Own,
        carrier,
        links: LINKS,
    }
}

const ALL: [Contestant; 4] = [
    Contestant {
        way: Way::Tcp { link: 0 },
        build: Build::Own,
        carrier: Carrier::Tcp,
        links: 1,
    },
    Contestant {
        way: Way::Mptcp,
        build: Build::Own,
        carrier: Carrier::Tcp,
        links: LINKS,
    },
    tabane(Carrier::Tcp),
    tabane(Carrier::Bundle),
];

impl Contestant {
    /// Goals are tabane's.
    fn has_goals(self) -> bool {
        matches!(self.way, Way::Tabane(_)) && self.build == Build::Own
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.way, self.carrier) {
            (Way::Tabane(_), Carrier::Bundle) => f.write_str("tabane, bundle streams")?,
            (Way::Tabane(_), Carrier::Tcp) => f.write_str("tabane, TCP over tab0")?,
            (way, _) => way.fmt(f)?,
        }
        f.write_str(self.build.mark())
    }
}

/// What a contestant did, one figure a round.
#[derive(Default)]
struct Figures {
    goodput: Samples,
    share: Samples,
    jain: Samples,
    least: Samples,
    dropped: Samples,
    p50: Samples,
    p99: Samples,
}

impl Figures {
    fn note(&mut self, outcome: &Outcome, receivers: usize, one_link_mbps: f64, links: usize) {
        let each = outcome.sum_mbps() / receivers as f64;
        self.goodput.0.push(each);
        self.share.0.push(each / (one_link_mbps * links as f64));
        self.jain.0.push(jain_index(&outcome.mbps));
        let least = outcome.mbps.iter().copied().reduce(f64::min);
        self.least.0.push(least.unwrap_or(0.0));
        self.dropped.0.push(outcome.dropped_percent());
        let latency = outcome.latency;
        let figure = |of: fn(crate::pingpong::Latency) -> f64| latency.map_or(f64::NAN, of);
        self.p50.0.push(figure(|latency| latency.p50_us));
        self.p99.0.push(figure(|latency| latency.p99_us));
    }
}

/// The traffic of a table.
fn patterns() -> [(&'static str, Traffic, usize); 2] {
    let incast = (1..NODES).map(|from| (from, 0)).collect();
    let pairs = (1..NODES).flat_map(|from| (1..NODES).map(move |to| (from, to)));
    let all_to_all = pairs.filter(|(from, to)| from != to).collect();
    let of = |streams| Traffic {
        streams,
        ping: None,
    };
    [
        ("8 nodes send to 1", of(incast), 1),
        ("8 nodes, each sends to the 7 others", of(all_to_all), 8),
    ]
}

/// Incast, and all to all.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    let slower = settings.line_mbit / SLOWER;
    let nine = labs(settings, NODES, slower)?;
    for (title, traffic, receivers) in patterns() {
        let title = format!("{title}, {LINKS} × {slower} Mb/s");
        report.extend(many(settings, &nine, &title, &traffic, receivers)?);
    }
    Ok(report)
}

/// A lab for each way and build.
fn labs(settings: &Settings, nodes: usize, mbit: u64) -> Result<Vec<Stand>, LabError> {
    let config = LabConfig {
        nodes,
        links: vec![LinkSpec::mbit(mbit); LINKS],
        ..LabConfig::default()
    };
    let ways = [ALL[0].way, ALL[1].way, ALL[2].way];
    settings.stands(&ways, &config)
}

/// The contestants whose ways this machine can do.
fn contestants(stands: &[Stand]) -> Vec<(Contestant, &Stand)> {
    let of = |contestant: Contestant| {
        let same = stands
            .iter()
            .filter(move |stand| stand.way() == contestant.way);
        same.map(move |stand| {
            let build = stand.entrant.build;
            (
                Contestant {
                    build,
                    ..contestant
                },
                stand,
            )
        })
    };
    ALL.into_iter().flat_map(of).collect()
}

/// What one TCP stream carries on one link.
fn one_link_mbps(settings: &Settings, stands: &[Stand]) -> Result<f64, LabError> {
    let alone = Traffic {
        streams: vec![(1, 0)],
        ping: None,
    };
    let (contestant, stand) = contestants(stands)[0];
    Ok(alone.run(settings, stand, contestant.carrier)?.sum_mbps())
}

fn many(
    settings: &Settings,
    stands: &[Stand],
    title: &str,
    traffic: &Traffic,
    receivers: usize,
) -> Result<Report, LabError> {
    let contestants = contestants(stands);
    let mut figures: Vec<_> = contestants.iter().map(|_| Figures::default()).collect();
    for _ in 0..settings.rounds {
        let one = one_link_mbps(settings, stands)?;
        for ((contestant, stand), figures) in contestants.iter().zip(&mut figures) {
            let outcome = traffic.run(settings, stand, contestant.carrier)?;
            figures.note(&outcome, receivers, one, contestant.links);
        }
    }
    let columns = [
        "way",
        "each receiver gets, Mb/s",
        "× its links",
        "Jain index",
        "slowest stream, Mb/s",
        "dropped at the ports, %",
    ];
    let note = "Its links: what one TCP stream carries on a link, times the links that the way uses. \
        The ports are those of the switches towards the receivers.";
    let mut table = Table::new(title, note, &columns);
    let mut report = Report::default();
    for ((contestant, _), figures) in contestants.iter().zip(figures) {
        if contestant.has_goals() {
            let goal = |what: &str, of: &Samples, least| {
                Goal::new(
                    format!("{title}: {contestant}: {what}"),
                    of.median(),
                    Bound::AtLeast(least),
                )
            };
            let share = goal(
                "goodput over the receiver's links",
                &figures.share,
                SHARE_OF_LINKS,
            );
            let jain = goal("Jain index", &figures.jain, JAIN);
            report.goals.extend([share, jain]);
        }
        table.rows.push(vec![
            contestant.to_string().into(),
            figures.goodput.into(),
            figures.share.into(),
            figures.jain.into(),
            figures.least.into(),
            figures.dropped.into(),
        ]);
    }
    report.tables.push(table);
    Ok(report)
}

/// Small messages of one node beside the bulk of two others.
pub fn beside(settings: &Settings) -> Result<Report, LabError> {
    let stands = labs(settings, FEW, settings.line_mbit)?;
    let ping = Some((3, 0));
    let idle = Traffic {
        streams: Vec::new(),
        ping,
    };
    let busy = Traffic {
        streams: vec![(1, 0), (2, 0)],
        ping,
    };
    let contestants = contestants(&stands);
    let new = || (Figures::default(), Figures::default());
    let mut figures: Vec<_> = contestants.iter().map(|_| new()).collect();
    for _ in 0..settings.rounds {
        let one = one_link_mbps(settings, &stands)?;
        for ((contestant, stand), (before, beside)) in contestants.iter().zip(&mut figures) {
            for (traffic, figures) in [(&idle, before), (&busy, beside)] {
                let outcome = traffic.run(settings, stand, contestant.carrier)?;
                figures.note(&outcome, 1, one, contestant.links);
            }
        }
    }
    let columns = [
        "way",
        "idle p50, µs",
        "idle p99, µs",
        "p50 beside bulk, µs",
        "p99 beside bulk, µs",
        "p99 × idle",
        "bulk × its links",
        "dropped at the ports, %",
    ];
    let mbit = settings.line_mbit;
    let title = format!("Messages of 16 bytes beside bulk, {LINKS} × {mbit} Mb/s");
    let note = "Half round trips between two nodes, while two others send to the same receiver.";
    let mut table = Table::new(&title, note, &columns);
    let mut report = Report::default();
    for ((contestant, _), (idle, busy)) in contestants.iter().zip(figures) {
        let times = busy.p99.over(&idle.p99);
        if contestant.has_goals() {
            let what = format!("{title}: {contestant}: p99 over its idle value");
            let goal = Goal::new(what, times.median(), Bound::AtMost(TIMES_IDLE));
            report.goals.push(goal);
        }
        table.rows.push(vec![
            contestant.to_string().into(),
            idle.p50.into(),
            idle.p99.into(),
            busy.p50.into(),
            busy.p99.into(),
            times.into(),
            busy.share.into(),
            busy.dropped.into(),
        ]);
    }
    report.tables.push(table);
    Ok(report)
}
