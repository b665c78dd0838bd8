//! The ways that tabane has for programs, and those without it, beside each other: which to choose.

use super::failover::{FAILURES, Failure, once, one_link};
use super::latency::half_round_trips;
use super::race::{Entry, find, race};
use super::two_nodes;
use crate::pingpong::MESSAGE_BYTES;
use crate::{Bound, Entrant, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

const TCP: Way = Way::Tcp { link: 0 };
const WAYS: [Way; 6] = [
    Way::Tabane(Wire::Encrypted),
    Way::Run(Wire::Encrypted),
    Way::Steered,
    Way::Library {
        wire: Wire::Encrypted,
        spins: true,
    },
    Way::Mptcp,
    TCP,
];
/// The switch of either link fails silently; of TCP on one link there is nothing to be measured.
const FAILED: [Failure; 2] = [FAILURES[0], FAILURES[1]];
const CONGESTION: Congestion = Congestion::Cubic;

/// On 2 links of 1 Gb/s; each failure as often as everything else is measured.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let entries = race(settings, &config, &WAYS, &[CONGESTION], false)?;
    let latencies = half_round_trips(settings, &WAYS)?;
    let entrants = entries.iter().map(|entry| entry.entrant);
    let gaps = gaps(settings, entrants.filter(|entrant| entrant.way != TCP))?;
    let columns = [
        "way".to_owned(),
        "rate, Gb/s".to_owned(),
        "CPU s/GB".to_owned(),
        format!("half round trip of {MESSAGE_BYTES} bytes, p50, µs"),
        format!("gap, {}, ms", FAILED[0]),
        format!("gap, {}, ms", FAILED[1]),
    ];
    let columns = columns.each_ref().map(String::as_str);
    let note = "One stream, cubic where there is TCP. Gaps: the longest without a byte.";
    let mut table = Table::new("Which way to choose, 2 × 1 Gb/s", note, &columns);
    for entry in &entries {
        let latency = latencies
            .iter()
            .find(|latency| latency.entrant == entry.entrant);
        let p50_us = latency.map(|latency| latency.p50_us.clone());
        let gaps = gaps.iter().find(|(entrant, _)| *entrant == entry.entrant);
        let mut row = vec![
            entry.entrant.to_string().into(),
            entry.gbps().into(),
            cpu(entry).into(),
            p50_us.unwrap_or_default().into(),
        ];
        match gaps {
            Some((_, gaps)) => row.extend(gaps.iter().cloned().map(Into::into)),
            None => row.extend(FAILED.map(|_| "–".to_owned().into())),
        }
        table.rows.push(row);
    }
    let of = |way| find(&entries, way, CONGESTION).map(cpu);
    let ratio = of(Way::Steered).zip(of(Way::Mptcp));
    let ratio = ratio.and_then(|(steered, unsteered)| steered.over(&unsteered).median());
    let what = "CPU per GB of steered Multipath TCP over unsteered";
    Ok(Report {
        tables: vec![table],
        goals: vec![Goal::new(what.to_owned(), ratio, Bound::AtMost(1.05))],
        ..Report::default()
    })
}

fn cpu(entry: &Entry) -> Samples {
    entry.samples(|outcome| outcome.cpu_s_per_gb)
}

/// The longest gap of each entrant at each failure, in turn.
fn gaps(
    settings: &Settings,
    entrants: impl Iterator<Item = Entrant>,
) -> Result<Vec<(Entrant, [Samples; 2])>, LabError> {
    let one_link_gbps = one_link(settings)?;
    let mut gaps: Vec<_> = entrants
        .map(|entrant| (entrant, FAILED.map(|_| Samples::default())))
        .collect();
    for _ in 0..settings.rounds {
        for (entrant, samples) in &mut gaps {
            for (failure, samples) in FAILED.iter().zip(samples) {
                let run = once(settings, *entrant, 0, *failure, one_link_gbps)?;
                samples.0.push(run.judged.gap_ms);
            }
        }
    }
    Ok(gaps)
}
