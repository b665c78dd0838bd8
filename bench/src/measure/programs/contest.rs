//! One program on several ways, in turn, round by round.

use crate::{Report, Samples, Settings, Stand, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::{Congestion, congestion};
use tabane_lab::tools::Tool;
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabConfig, LabError};

/// The ways of TCP.
pub const WAYS: [Way; 4] = [
    Way::Tcp { link: 0 },
    Way::Mptcp,
    Way::Tabane(Wire::Encrypted),
    Way::Run(Wire::Encrypted),
];

/// What is measured, and how it is called.
pub struct Contest {
    /// Heading of the table.
    pub title: String,
    /// What the reader must know.
    pub note: String,
    /// The first is what the others are compared with.
    pub ways: &'static [Way],
    /// What it cannot do without.
    pub tools: &'static [Tool],
    /// Names of the figures; more of the first, which is compared, is better.
    pub figures: &'static [&'static str],
    /// What is done: each batch by one call, which returns the figures of all
    /// of its lines.
    pub batches: Vec<Vec<String>>,
}

/// One way under measurement.
pub struct Contestant<S> {
    pub stand: Stand,
    /// What set-up left, to end with it: servers, files.
    _state: S,
}

/// The figures of one line, by contestant; and why the last failure failed.
#[derive(Default)]
struct Line {
    figures: Vec<Samples>,
    failed: Option<String>,
}

impl Contest {
    /// Run it on labs of this kind. Whatever fails on one way does not take
    /// away the others' figures.
    pub fn run<S>(
        &self,
        settings: &Settings,
        config: &LabConfig,
        set_up: impl Fn(&Arena) -> Result<S, LabError>,
        once: impl Fn(&Contestant<S>, usize) -> Result<Vec<Vec<f64>>, LabError>,
    ) -> Report {
        let mut report = Report::default();
        if let Some(error) = self.tools.iter().find_map(|tool| tool.find().err()) {
            report.leave_out(&self.title, error);
            return report;
        }
        let mut contestants = Vec::new();
        for entrant in settings.entrants(self.ways) {
            let ready = settings.stand(entrant, config).and_then(|stand| {
                use_cubic(&stand)?;
                let _state = set_up(&stand)?;
                Ok(Contestant { stand, _state })
            });
            match ready {
                Ok(contestant) => contestants.push(contestant),
                Err(error) => report.leave_out(format!("{}: {entrant}", self.title), error),
            }
        }
        let names: Vec<_> = contestants
            .iter()
            .map(|one| one.stand.entrant.to_string())
            .collect();
        self.play(settings, &names, &mut report, |index, batch| {
            once(&contestants[index], batch)
        });
        report
    }

    /// The rounds, between those of these names, each by its number.
    pub fn play(
        &self,
        settings: &Settings,
        names: &[String],
        report: &mut Report,
        once: impl Fn(usize, usize) -> Result<Vec<Vec<f64>>, LabError>,
    ) {
        let mut lines: Vec<Vec<Vec<Line>>> = Vec::new();
        for batch in &self.batches {
            let each = |_| names.iter().map(|_| Line::default()).collect();
            lines.push((0..batch.len()).map(each).collect());
        }
        for _ in 0..settings.rounds {
            for (batch, lines) in lines.iter_mut().enumerate() {
                for index in 0..names.len() {
                    let result = once(index, batch);
                    let of_one = lines.iter_mut().map(|line| &mut line[index]);
                    self.note(of_one, result);
                }
            }
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let whats = self.batches.iter().flatten();
        let table = self.table(&names, whats.zip(lines.iter().flatten()), report);
        if !table.rows.is_empty() {
            report.tables.push(table);
        }
    }

    fn note<'a>(
        &self,
        lines: impl Iterator<Item = &'a mut Line>,
        result: Result<Vec<Vec<f64>>, LabError>,
    ) {
        let (rows, failed) = match result {
            Ok(rows) => (rows, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        for (index, line) in lines.enumerate() {
            line.figures.resize(self.figures.len(), Samples::default());
            for (figure, samples) in line.figures.iter_mut().enumerate() {
                let value = rows.get(index).and_then(|row| row.get(figure));
                samples.0.push(value.copied().unwrap_or(f64::NAN));
            }
            if let Some(why) = &failed {
                eprintln!("bench: {}: counted as failed: {why}", self.title);
                line.failed = Some(why.clone());
            }
        }
    }

    fn table<'a>(
        &self,
        names: &[&str],
        lines: impl Iterator<Item = (&'a String, &'a Vec<Line>)>,
        report: &mut Report,
    ) -> Table {
        let ratio = names
            .first()
            .map_or(String::new(), |base| format!("× {base}"));
        let mut columns = vec!["what", "way"];
        columns.extend(self.figures);
        columns.push(&ratio);
        let mut table = Table::new(&self.title, &self.note, &columns);
        // What failed for one reason is told once.
        let mut failed: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for (what, of_all) in lines {
            let Some(base) = of_all.first().and_then(|line| line.figures.first()) else {
                continue;
            };
            for (name, line) in names.iter().zip(of_all) {
                let first = line.figures.first();
                if first.is_none_or(|samples| samples.median().is_none()) {
                    let why = line.failed.as_deref().unwrap_or("it said nothing");
                    let same =
                        |(way, reason, _): &&mut (&str, &str, _)| way == name && *reason == why;
                    match failed.iter_mut().find(same) {
                        Some((.., whats)) => whats.push(what),
                        None => failed.push((name, why, vec![what])),
                    }
                    continue;
                }
                let ratio = first.map(|own| own.over(base));
                let mut row = vec![what.as_str().into(), (*name).into()];
                row.extend(line.figures.iter().cloned().map(Into::into));
                row.push(ratio.unwrap_or_default().into());
                table.rows.push(row);
            }
        }
        for (name, why, whats) in failed {
            let whats = whats.join("; ");
            report.leave_out(format!("{}: {name}: {whats}", self.title), why);
        }
        table
    }
}

/// What every way's TCP uses: programs do not choose, the kernels of different
/// machines differ in their default, and cubic is the usual one.
fn use_cubic(arena: &Arena) -> Result<(), LabError> {
    let lab = arena.lab();
    congestion(lab, Congestion::Cubic)?;
    if arena.cluster().is_none() {
        return Ok(());
    }
    for node in 0..lab.nodes() {
        let source = arena.address(node);
        let route = format!(
            "route change 10.99.0.0/24 dev tab0 proto kernel scope link src {source} congctl cubic"
        );
        lab.ip(node, &route.split(' ').collect::<Vec<_>>())?;
    }
    Ok(())
}
