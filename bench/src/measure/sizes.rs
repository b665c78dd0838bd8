//! Half round trips by the length of the message.

use std::time::Duration;

use super::two_nodes;
use crate::helper::Pair;
use crate::pingpong::Latency;
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::{Way, arenas};
use tabane_lab::{LabError, LinkSpec};

/// Of the table, so that it is found again to be drawn.
pub const TITLE: &str = "Half round trip by message size, 2 × 1 Gb/s, else idle";
/// From a byte to a mebibyte.
const SIZES_BYTES: [usize; 11] = [
    1,
    4,
    16,
    64,
    256,
    1 << 10,
    1 << 12,
    1 << 14,
    1 << 16,
    1 << 18,
    1 << 20,
];
const WAYS: [Way; 6] = [
    Way::Tcp { link: 0 },
    Way::Mptcp,
    Way::Tabane(Wire::Encrypted),
    Way::Tabane(Wire::Plain),
    Way::Run(Wire::Encrypted),
    Way::Library {
        wire: Wire::Encrypted,
        spins: true,
    },
];

/// On 2 links of 1 Gb/s, nothing else going on.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let arenas = arenas(&WAYS, &config, &settings.tabane)?;
    let mut figures = vec![vec![Samples::default(); arenas.len()]; SIZES_BYTES.len()];
    let lasting = Duration::from_secs_f64(settings.seconds / 4.0);
    for _ in 0..settings.rounds {
        for (bytes, figures) in SIZES_BYTES.iter().zip(&mut figures) {
            for (arena, samples) in arenas.iter().zip(figures) {
                let options = ["--bytes".to_owned(), bytes.to_string()];
                let words = ("ping", "echo");
                let pair = Pair::start_with(settings, arena, words, lasting, &options)?;
                let (latency, ()): (Option<Latency>, ()) = pair.results()?;
                samples
                    .0
                    .push(latency.map_or(f64::NAN, |latency| latency.p50_us));
            }
        }
    }
    let faster_from = faster_from_bytes(&figures);
    let note = "Half of the time from sending a message until all of it is back, p50, µs. \
                The echo begins when the whole message is there.";
    let names: Vec<_> = arenas.iter().map(|arena| arena.way().to_string()).collect();
    let mut columns = vec!["bytes"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(TITLE, note, &columns);
    for (bytes, figures) in SIZES_BYTES.iter().zip(figures) {
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

/// From which size on the last way is faster than the first, for this and all larger ones.
fn faster_from_bytes(figures: &[Vec<Samples>]) -> Option<f64> {
    let is_faster = |figures: &[Samples]| {
        let (tcp, library) = (figures.first()?.median()?, figures.last()?.median()?);
        Some(library < tcp)
    };
    let sizes = SIZES_BYTES.iter().zip(figures).rev();
    let faster = sizes.take_while(|(_, figures)| is_faster(figures) == Some(true));
    faster.last().map(|(bytes, _)| *bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_least_from_which_on_it_stays_faster() {
        let of = |tcp, library| vec![Samples(vec![tcp]), Samples(vec![library])];
        let mut figures = vec![of(2.0, 1.0); SIZES_BYTES.len()];
        assert_eq!(faster_from_bytes(&figures), Some(1.0));
        figures[3] = of(1.0, 2.0);
        assert_eq!(faster_from_bytes(&figures), Some(256.0));
        figures[10] = of(1.0, 2.0);
        assert_eq!(faster_from_bytes(&figures), None);
    }
}
