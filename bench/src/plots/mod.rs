//! Pictures of a run's figures, for a page that may be light or dark.
//!
//! They are made of what [`super::output`] wrote, not of the measurements
//! themselves, so they can be drawn anew without measuring.

mod bars;
mod dots;
mod failover;
mod figures;
mod heat;
mod lines;

use std::fs;
use std::path::{Path, PathBuf};

use super::Report;
pub use figures::{Who, position, samples};

use figures::Figures;

/// Larger is too large for a page, and for the repository.
const SIZE_MAX_BYTES: usize = 60_000;

/// One picture: its file, what it shows in words, and what draws it if the
/// figures it needs are there.
struct Plot {
    file: &'static str,
    shows: &'static str,
    draw: fn(&Figures) -> Option<String>,
}

const PLOTS: [Plot; 7] = [
    Plot {
        file: "throughput.svg",
        shows: "Throughput of one TCP stream over links",
        draw: bars::throughput,
    },
    Plot {
        file: "cpu.svg",
        shows: "CPU time for each GB",
        draw: bars::cpu,
    },
    Plot {
        file: "half-round-trip.svg",
        shows: "Half round trip by message size",
        draw: lines::half_round_trip,
    },
    Plot {
        file: "failover.svg",
        shows: "Streams across failures",
        draw: failover::overview,
    },
    Plot {
        file: "failover-first-200ms.svg",
        shows: "The first 200 ms of the failures",
        draw: failover::close,
    },
    Plot {
        file: "programs.svg",
        shows: "Real programs, times as fast as over one link",
        draw: dots::programs,
    },
    Plot {
        file: "do-no-harm.svg",
        shows: "Two links that differ, times the best link alone",
        draw: heat::do_no_harm,
    },
];

/// Write every picture there are figures for into this directory; what is left
/// out is told. Returns the pictures as lines of a page in the
/// directory `page`.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path, page: &Path, report: &Report) -> Result<Vec<String>, String> {
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let figures = Figures(report);
    let way = way(page, directory)?;
    let way = way.display();
    let mut lines = Vec::new();
    for plot in PLOTS {
        let path = directory.join(plot.file);
        let Some(svg) = (plot.draw)(&figures) else {
            eprintln!("bench: no figures for {}", plot.file);
            continue;
        };
        if svg.len() > SIZE_MAX_BYTES {
            let (shown, size) = (path.display(), svg.len());
            eprintln!("bench: {shown} is large: {size} bytes, {SIZE_MAX_BYTES} wanted");
        }
        fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
        lines.push(format!("![{}]({way}/{})", plot.shows, plot.file));
    }
    Ok(lines)
}

/// The relative way from one directory to another.
fn way(from: &Path, to: &Path) -> Result<PathBuf, String> {
    let whole = |path: &Path| {
        let whole = std::path::absolute(path);
        whole.map_err(|error| format!("{}: {error}", path.display()))
    };
    let (from, to) = (whole(from)?, whole(to)?);
    let common = from.ancestors().find(|above| to.starts_with(above));
    let common = common.unwrap_or(Path::new("/"));
    let below = |path: &Path| path.strip_prefix(common).unwrap_or(path).to_owned();
    let up = below(&from).components().map(|_| "..").collect::<PathBuf>();
    Ok(up.join(below(&to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Recorded;
    use crate::{Samples, Table};

    /// Some figures of every kind.
    fn report() -> Report {
        let mut report = Report::default();
        let mut add = |title: &str, columns: &[&str], rows: &[&[&str]]| {
            let mut table = Table::new(title, "", columns);
            for row in rows {
                let (first, last) = (row[0].into(), Samples(vec![1.0, 2.0, f64::NAN]).into());
                let mut cells = vec![first];
                cells.extend(row[1..].iter().map(|&text| text.into()));
                cells.push(last);
                table.rows.push(cells);
            }
            report.tables.push(table);
        };
        let ways: &[&[&str]] = &[&["TCP, one link, cubic"], &["tabane, plain, cubic"]];
        add("One TCP stream, 2 × 1 Gb/s", &["way", "Gb/s"], ways);
        add("One TCP stream, 2 × 1 Gb/s", &["way", "CPU s/GB"], ways);
        let sizes: &[&[&str]] = &[&["1"], &["1048576"]];
        add(
            crate::measure::latency::BY_LENGTH,
            &["bytes", "MPTCP"],
            sizes,
        );
        let programs: &[&[&str]] = &[&["GET", "MPTCP"], &["GET", "tabane, plain"]];
        add(
            "Redis, 2 × 1 Gb/s",
            &["what", "way", "× TCP, one link"],
            programs,
        );
        let cells: &[&[&str]] = &[&["0", "1", "0.9"], &["2", "1", "1.9"]];
        let columns = ["delay, ms", "lost, %", "tab0 × TCP", "stream × alone"];
        add("Do no harm: 1000 Mb/s and a link of 1:4", &columns, cells);
        report.timelines.push(Recorded {
            way: "MPTCP".into(),
            failure: "switch 0 silent".into(),
            first_ms: -700,
            healed_ms: 800.0,
            bytes: vec![250_000; 3000],
        });
        report
    }

    #[test]
    fn every_picture_is_whole_and_small() {
        let report = report();
        for plot in PLOTS {
            let Some(svg) = (plot.draw)(&Figures(&report)) else {
                panic!("nothing drawn: {}", plot.file);
            };
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(svg.matches('<').count(), svg.matches('>').count());
            assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
            assert!(svg.len() < SIZE_MAX_BYTES);
        }
    }

    #[test]
    fn a_page_finds_its_pictures() {
        let way = |from: &str, to: &str| way(Path::new(from), Path::new(to)).unwrap();
        assert_eq!(way("figures", "docs/plots"), Path::new("../docs/plots"));
        assert_eq!(way("figures", "figures/plots"), Path::new("plots"));
        assert_eq!(way("/a/b", "/c"), Path::new("../../c"));
    }

    #[test]
    fn without_figures_nothing_is_drawn() {
        for plot in PLOTS {
            assert!((plot.draw)(&Figures(&Report::default())).is_none());
        }
    }
}
