//! Half round trips: of small messages, and by the length of the message.

use std::time::Duration;

use super::two_nodes;
use crate::helper::Pair;
use crate::pingpong::{Latency, MESSAGE_BYTES};
use crate::{Bound, Entrant, Goal, Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::Way;
use tabane_lab::{LabError, LinkSpec};

/// Of the table by length, so that it is found again to be drawn.
pub const BY_LENGTH: &str = "Half round trip by message size, 2 × 1 Gb/s, else idle";
/// From the smallest that is measured to a mebibyte.
const LENGTHS_BYTES: [usize; 5] = [MESSAGE_BYTES, 256, 4 << 10, 64 << 10, 1 << 20];
const WIRE: Wire = Wire::Encrypted;
const TCP: Way = Way::Tcp { link: 0 };
const LIBRARY: Way = Way::Library {
    wire: WIRE,
    spins: true,
};
const ASLEEP: Way = Way::Library {
    wire: WIRE,
    spins: false,
};
const BY_LENGTH_WAYS: [Way; 5] = [TCP, Way::Mptcp, Way::Tabane(WIRE), Way::Run(WIRE), LIBRARY];
/// Those of tabane, and how many times that of TCP on one link they may take.
const MOST: [(Way, f64); 4] = [
    (Way::Tabane(WIRE), 1.5),
    (Way::Run(WIRE), 2.0),
    (ASLEEP, 1.1),
    (LIBRARY, 0.5),
];

/// On 2 links of 1 Gb/s, nothing else going on.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = of_small(settings)?;
    report.extend(by_length(settings)?);
    Ok(report)
}

fn of_small(settings: &Settings) -> Result<Report, LabError> {
    let ways = [
        TCP,
        Way::Tabane(WIRE),
        Way::Tabane(Wire::Plain),
        Way::Run(WIRE),
        ASLEEP,
        LIBRARY,
    ];
    let figures = half_round_trips(settings, &ways)?;
    let title = format!("Half round trip of {MESSAGE_BYTES} bytes, 2 × 1 Gb/s, else idle");
    let columns = ["way", "p50, µs", "p99, µs", "p50 × TCP, one link"];
    let mut report = Report::default();
    let mut table = Table::new(title, "", &columns);
    let base = figures.iter().find(|figures| figures.entrant.way == TCP);
    let base = base.map(|base| base.p50_us.clone()).unwrap_or_default();
    for one in &figures {
        let ratio = one.p50_us.over(&base);
        let is_stated = |(way, _): &&(Way, f64)| one.entrant.is_own() && one.entrant.way == *way;
        if let Some((_, most)) = MOST.iter().find(is_stated) {
            let what = format!(
                "Half round trip of {MESSAGE_BYTES} bytes, p50: {} over TCP on one link",
                one.entrant
            );
            let goal = Goal::new(what, ratio.median(), Bound::AtMost(*most));
            report.goals.push(goal);
        }
        table.rows.push(vec![
            one.entrant.to_string().into(),
            one.p50_us.clone().into(),
            one.p99_us.clone().into(),
            ratio.into(),
        ]);
    }
    report.tables.push(table);
    Ok(report)
}

fn by_length(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let stands = settings.stands(&BY_LENGTH_WAYS, &config)?;
    let mut figures = vec![vec![Samples::default(); stands.len()]; LENGTHS_BYTES.len()];
    let lasting = Duration::from_secs_f64(settings.seconds / 4.0);
    for _ in 0..settings.rounds {
        for (bytes, figures) in LENGTHS_BYTES.iter().zip(&mut figures) {
            for (stand, samples) in stands.iter().zip(figures) {
                let options = ["--bytes".to_owned(), bytes.to_string()];
                let words = ("ping", "echo");
                let pair = Pair::start_with(stand, words, lasting, &options)?;
                let (latency, ()): (Option<Latency>, ()) = pair.results()?;
                samples
                    .0
                    .push(latency.map_or(f64::NAN, |latency| latency.p50_us));
            }
        }
    }
    let place = |way| stands.iter().position(|stand| stand.way() == way);
    let faster_from = place(TCP).zip(place(LIBRARY));
    let faster_from = faster_from.and_then(|(tcp, own)| faster_from_bytes(&figures, tcp, own));
    let note = "Half of the time from sending a message until all of it is back, p50, µs. \
                The echo begins when the whole message is there.";
    let names: Vec<_> = stands
        .iter()
        .map(|stand| stand.entrant.to_string())
        .collect();
    let mut columns = vec!["bytes"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(BY_LENGTH, note, &columns);
    for (bytes, figures) in LENGTHS_BYTES.iter().zip(figures) {
        let mut row = vec![bytes.to_string().into()];
        row.extend(figures.into_iter().map(Into::into));
        table.rows.push(row);
    }
    let what = "Message from which on the library is faster than TCP on one link, bytes";
    Ok(Report {
        tables: vec![table],
        goals: vec![Goal::new(what, faster_from, Bound::AtMost(4096.0))],
        ..Report::default()
    })
}

/// From which size on one way is faster than another, for this and all larger ones.
fn faster_from_bytes(figures: &[Vec<Samples>], slow: usize, fast: usize) -> Option<f64> {
    let is_faster = |figures: &[Samples]| {
        let (slow, fast) = (figures.get(slow)?.median()?, figures.get(fast)?.median()?);
        Some(fast < slow)
    };
    let lengths = LENGTHS_BYTES.iter().zip(figures).rev();
    let faster = lengths.take_while(|(_, figures)| is_faster(figures) == Some(true));
    faster.last().map(|(bytes, _)| *bytes as f64)
}

/// Half round trips on one way, one figure a round.
pub struct Figures {
    /// Whose they are.
    pub entrant: Entrant,
    /// Half of them are shorter.
    pub p50_us: Samples,
    /// One in a hundred is longer.
    pub p99_us: Samples,
}

/// Those of [`MESSAGE_BYTES`] bytes on these ways, in turn.
pub fn half_round_trips(settings: &Settings, ways: &[Way]) -> Result<Vec<Figures>, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let stands = settings.stands(ways, &config)?;
    let new = |stand: &Stand| Figures {
        entrant: stand.entrant,
        p50_us: Samples::default(),
        p99_us: Samples::default(),
    };
    let mut figures: Vec<_> = stands.iter().map(new).collect();
    for _ in 0..settings.rounds {
        for (stand, figures) in stands.iter().zip(&mut figures) {
            let lasting = Duration::from_secs_f64(settings.seconds / 2.0);
            let pair = Pair::start(stand, ("ping", "echo"), lasting)?;
            let (latency, ()): (Option<Latency>, ()) = pair.results()?;
            let push = |to: &mut Samples, of: fn(&Latency) -> f64| {
                to.0.push(latency.as_ref().map_or(f64::NAN, of));
            };
            push(&mut figures.p50_us, |latency| latency.p50_us);
            push(&mut figures.p99_us, |latency| latency.p99_us);
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_least_from_which_on_it_stays_faster() {
        let of = |tcp, library| vec![Samples(vec![tcp]), Samples(vec![library])];
        let mut figures = vec![of(2.0, 1.0); LENGTHS_BYTES.len()];
        let faster_from = |figures: &[Vec<Samples>]| faster_from_bytes(figures, 0, 1);
        assert_eq!(faster_from(&figures), Some(16.0));
        figures[1] = of(1.0, 2.0);
        assert_eq!(faster_from(&figures), Some(4096.0));
        figures[4] = of(1.0, 2.0);
        assert_eq!(faster_from(&figures), None);
    }
}
