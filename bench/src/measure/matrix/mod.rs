//! Do no harm: whatever the other links are like, the bundle is no slower than
//! its best link alone.

mod cells;

use std::thread::sleep;
use std::time::Duration;

use self::cells::{Cell, RATIOS, four_links, two_links};
use super::race;
use super::two_nodes;
use crate::iperf::Load;
use crate::{Bound, Build, Entrant, Goal, Report, Samples, Settings, Stand, Table, bulk, digits};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

const WIRE: Wire = Wire::Encrypted;
/// A worse link is found out while it is used; before that nothing counts.
const SETTLE: Duration = Duration::from_secs(1);
/// Of every stream, what does not count, seconds.
const OMIT_S: f64 = 1.0;
/// Of the best link alone.
const SHARE_OF_BEST: f64 = 0.98;
/// Of all links together, if none of them loses.
const SHARE_OF_SUM: f64 = 0.93;

/// Every cell, each on a fresh lab, beside the best link alone.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mbit = settings.line_mbit;
    let best = settings.builds().map(|build| Best::up(settings, build));
    let best: Vec<_> = best.collect::<Result<_, _>>()?;
    let mut report = Report::default();
    for ratio in RATIOS {
        let title = format!("Do no harm: {mbit} Mb/s and a link of 1:{ratio}");
        report.extend(group(settings, &best, &title, two_links(ratio))?);
    }
    let title = format!("Do no harm: 3 × {mbit} Mb/s and a bad link");
    report.extend(group(settings, &best, &title, four_links())?);
    Ok(report)
}

/// The best link, alone, for one build.
struct Best {
    build: Build,
    tcp: Stand,
    tabane: Stand,
}

impl Best {
    fn up(settings: &Settings, build: Build) -> Result<Best, LabError> {
        let config = two_nodes(vec![LinkSpec::mbit(settings.line_mbit)]);
        let tcp = Entrant {
            way: Way::Tcp { link: 0 },
            build: Build::Own,
        };
        Ok(Best {
            build,
            tcp: settings.stand(tcp, &config)?,
            tabane: settings.connected(WIRE, build, &config)?,
        })
    }
}

/// What was measured of a cell, one figure a round, Gb/s.
#[derive(Clone, Default)]
struct Measured {
    /// TCP on the best link.
    tcp: Samples,
    /// TCP over tab0.
    over_tab0: Samples,
    /// A stream of a bundle of the best link alone.
    stream_alone: Samples,
    /// A stream of the bundle.
    stream: Samples,
}

/// One of the figures.
type Figure = fn(&Measured) -> &Samples;

/// What is held against what.
struct Claim {
    what: &'static str,
    figure: Figure,
    base: Figure,
}

const CLAIMS: [Claim; 3] = [
    Claim {
        what: "TCP over tab0 over TCP on the best link",
        figure: |m| &m.over_tab0,
        base: |m| &m.tcp,
    },
    Claim {
        what: "a bundle's stream over TCP on the best link",
        figure: |m| &m.stream,
        base: |m| &m.tcp,
    },
    Claim {
        what: "a bundle's stream over that of the best link alone",
        figure: |m| &m.stream,
        base: |m| &m.stream_alone,
    },
];

impl Claim {
    /// Times the best link.
    fn over_best(&self, measured: &Measured) -> Samples {
        (self.figure)(measured).over((self.base)(measured))
    }

    /// Times the sum of all links, if none of them loses.
    fn over_sum(&self, cell: Cell, measured: &Measured) -> Samples {
        let Some(times) = cell.sum_of_best() else {
            return Samples::default();
        };
        let shares = self.over_best(measured).0.into_iter();
        Samples(shares.map(|share| share / times).collect())
    }
}

/// Cells that make a table; one for each build, measured in turn.
fn group(
    settings: &Settings,
    best: &[Best],
    title: &str,
    cells: Vec<Cell>,
) -> Result<Report, LabError> {
    let new = |cell| (cell, Measured::default());
    let group: Vec<_> = cells.into_iter().map(new).collect();
    let mut groups = vec![group; best.len()];
    for _ in 0..settings.rounds {
        for index in 0..groups[0].len() {
            for (best, group) in best.iter().zip(&mut groups) {
                let (cell, measured) = &mut group[index];
                once(settings, best, *cell, measured)?;
            }
        }
    }
    let mut report = Report::default();
    for (best, group) in best.iter().zip(&groups) {
        let title = format!("{title}{}", best.build.mark());
        report.tables.push(table(&title, group));
        if best.build == Build::Own {
            report.goals.extend(goals(&title, group));
        }
    }
    Ok(report)
}

/// Measure a cell once.
fn once(
    settings: &Settings,
    best: &Best,
    cell: Cell,
    measured: &mut Measured,
) -> Result<(), LabError> {
    let load = Load {
        seconds: settings.seconds,
        omit_s: OMIT_S,
        congestion: Some(Congestion::Cubic),
        both_ways: false,
    };
    let config = two_nodes(cell.links(settings.line_mbit));
    let stand = settings.connected(WIRE, best.build, &config)?;
    sleep(SETTLE);
    let stream = |stand: &Stand| match stand.cluster() {
        Some(cluster) => bulk::one_stream(cluster, settings.seconds, OMIT_S),
        None => Ok(0.0),
    };
    let gbps = [
        race::outcome(&best.tcp, load)?.gbps,
        race::outcome(&stand, load)?.gbps,
        stream(&best.tabane)?,
        stream(&stand)?,
    ];
    let kept = [
        &mut measured.tcp,
        &mut measured.over_tab0,
        &mut measured.stream_alone,
        &mut measured.stream,
    ];
    kept.into_iter()
        .zip(gbps)
        .for_each(|(kept, gbps)| kept.0.push(gbps));
    let [tcp, over_tab0, stream_alone, stream] = gbps;
    eprintln!(
        "bench: {}, {} links, {}: TCP {} → {} ({}), stream {} → {} ({})",
        best.build,
        cell.links,
        cell.name(),
        digits(tcp),
        digits(over_tab0),
        digits(over_tab0 / tcp),
        digits(stream_alone),
        digits(stream),
        digits(stream / stream_alone),
    );
    Ok(())
}

fn table(title: &str, group: &[(Cell, Measured)]) -> Table {
    let note = "One stream, TCP's is cubic; tabane is encrypted. Delay and loss are of the worse link, \
        each way. The sum is what the best link carries, for each link by its share of the rate.";
    let mut columns = vec![
        "ratio",
        "delay, ms",
        "lost, %",
        "TCP, best link, Gb/s",
        "TCP over tab0",
        "stream, best link alone",
        "stream",
    ];
    columns.extend([
        "tab0 × TCP",
        "stream × TCP",
        "stream × alone",
        "tab0 × sum",
        "stream × sum",
    ]);
    let mut table = Table::new(title, note, &columns);
    for (cell, measured) in group {
        let worse = cell.worse;
        let mut row = vec![
            format!("1:{}", worse.ratio).into(),
            worse.delay_ms.to_string().into(),
            worse.loss_percent.to_string().into(),
        ];
        let gbps = [
            &measured.tcp,
            &measured.over_tab0,
            &measured.stream_alone,
            &measured.stream,
        ];
        row.extend(gbps.map(|samples| samples.clone().into()));
        row.extend(CLAIMS.map(|claim| claim.over_best(measured).into()));
        let of_sum = CLAIMS[..2].iter();
        row.extend(of_sum.map(|claim| claim.over_sum(*cell, measured).into()));
        table.rows.push(row);
    }
    table
}

/// The worst cell speaks for all.
fn goals(title: &str, group: &[(Cell, Measured)]) -> Vec<Goal> {
    let worst = |what: &str, of: &dyn Fn(Cell, &Measured) -> Samples, share| {
        let medians = group
            .iter()
            .filter_map(|(cell, measured)| Some((of(*cell, measured).median()?, *cell)));
        let (value, cell) = medians.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let what = format!("{title}: {what}; least: {}", cell.name());
        Some(Goal::new(what, Some(value), Bound::AtLeast(share)))
    };
    let of_best = CLAIMS
        .iter()
        .map(|claim| worst(claim.what, &|_, m| claim.over_best(m), SHARE_OF_BEST));
    let of_sum = CLAIMS[..2].iter().map(|claim| {
        let what = format!("{}, × the sum", claim.what);
        worst(&what, &|cell, m| claim.over_sum(cell, m), SHARE_OF_SUM)
    });
    of_best.chain(of_sum).flatten().collect()
}
