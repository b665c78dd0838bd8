//! Where another way is ahead of tabane: told plainly, not left to be found.

use super::plots::{Who, position, samples};
use super::{Cell, Samples, Table, digits};

/// Less than this is noise.
const AHEAD_MIN: f64 = 1.03;

/// One thing that was measured, by way.
struct Subject<'a> {
    what: String,
    unit: &'a str,
    figures: Vec<(Who, &'a Samples)>,
}

/// The subjects in which the best of the others is ahead of tabane; `None` if
/// there are none.
pub fn table(tables: &[Table]) -> Option<Table> {
    let note = "Every table above whose rows are ways, by its first figure. How many times as good tabane is \
        as the best of the others; left out where all ways of tabane are level (within 3%) or ahead.";
    let mut columns = vec!["what", "best of the others", "its figure"];
    columns.extend(
        Who::ALL
            .into_iter()
            .filter(|who| who.is_own())
            .map(Who::name),
    );
    let mut table = Table::new("Where another way is ahead", note, &columns);
    for subject in tables.iter().flat_map(subjects) {
        table.rows.extend(row(&subject));
    }
    (!table.rows.is_empty()).then_some(table)
}

fn row(subject: &Subject) -> Option<Vec<Cell>> {
    let less_is_better = !subject.unit.contains("/s");
    let goodness = |samples: &Samples| {
        let median = samples.median().filter(|&median| median > 0.0)?;
        Some(if less_is_better { 1.0 / median } else { median })
    };
    let of = |who: Who| {
        let found = subject.figures.iter().find(|(other, _)| *other == who);
        found.and_then(|(_, samples)| goodness(samples))
    };
    let others = subject.figures.iter();
    let others = others.filter(|(who, _)| !who.is_own());
    let rated = others.filter_map(|(who, samples)| Some((*who, *samples, goodness(samples)?)));
    let (best, figure, good) = rated.max_by(|(.., a), (.., b)| a.total_cmp(b))?;
    let own = Who::ALL.into_iter().filter(|who| who.is_own());
    let ratios: Vec<_> = own.map(|who| of(who).map(|own| own / good)).collect();
    let is_behind = ratios.iter().flatten().any(|ratio| ratio * AHEAD_MIN < 1.0);
    let shown = |ratio: Option<f64>| ratio.map_or("–".to_owned(), digits);
    is_behind.then(|| {
        let best_figure = digits(figure.median().unwrap_or_default());
        let mut row = vec![
            subject.what.clone().into(),
            best.name().into(),
            format!("{best_figure} {}", subject.unit).into(),
        ];
        row.extend(ratios.into_iter().map(|ratio| shown(ratio).into()));
        row
    })
}

/// What a table measured of each way; of several congestion controls, with
/// each.
fn subjects(table: &Table) -> Vec<Subject<'_>> {
    let Some(way_at) = position(table, "way") else {
        return Vec::new();
    };
    let Some(figure) = table.columns.get(way_at + 1) else {
        return Vec::new();
    };
    // "p50, µs" is in µs.
    let unit = figure.rsplit(", ").next().unwrap_or(figure);
    let mut all: Vec<Subject> = Vec::new();
    for row in &table.rows {
        let text = |at: usize| row.get(at).map(Cell::to_string).unwrap_or_default();
        let way = text(way_at);
        let figure = row.get(way_at + 1).and_then(samples);
        let (Some(who), Some(figure)) = (Who::of(&way), figure) else {
            continue;
        };
        let rest = way.strip_prefix(who.name()).unwrap_or_default();
        // What stands before the way says what of it was measured.
        let before = table.columns.iter().take(way_at).enumerate();
        let before = before.map(|(at, name)| match name.as_str() {
            "what" => format!(": {}", text(at)),
            name => format!(", {} {name}", text(at)),
        });
        let what = format!("{}{}{rest}", table.title, before.collect::<String>());
        match all.iter_mut().find(|subject| subject.what == what) {
            Some(subject) => subject.figures.push((who, figure)),
            None => all.push(Subject {
                what,
                unit,
                figures: vec![(who, figure)],
            }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race(unit: &str, tcp: f64, encrypted: f64, plain: f64) -> Table {
        let mut table = Table::new("Race", "", &["way", unit]);
        for (way, figure) in [
            ("TCP, one link, cubic", tcp),
            ("tabane, encrypted, cubic", encrypted),
            ("tabane, plain, cubic", plain),
        ] {
            table.rows.push(vec![way.into(), vec![figure].into()]);
        }
        table
    }

    #[test]
    fn a_peer_that_is_ahead_is_told() {
        let behind = table(&[race("Gb/s", 2.0, 1.0, 1.99)]).expect("is behind");
        let told = behind.to_string();
        assert!(
            told.contains("| Race, cubic | TCP, one link | 2.00 Gb/s | 0.500 | 0.995 | – | – |"),
            "{told}"
        );
        let slower = table(&[race("µs", 10.0, 20.0, 10.0)]).expect("is behind");
        assert!(slower.to_string().contains("| 0.500 | 1.00 |"));
    }

    #[test]
    fn ways_are_compared_in_the_same_thing_only() {
        let mut table_ = Table::new("Race", "", &["links", "way", "Gb/s"]);
        for (links, way, figure) in [
            ("1", "TCP, one link", 1.0),
            ("1", "tabane, encrypted", 1.0),
            ("2", "MPTCP", 2.0),
            ("2", "tabane, encrypted", 1.0),
        ] {
            let row = vec![links.into(), way.into(), vec![figure].into()];
            table_.rows.push(row);
        }
        let told = table(&[table_]).expect("is behind").to_string();
        assert!(
            told.contains("| Race, 2 links | MPTCP | 2.00 Gb/s | 0.500 | – | – | – |"),
            "{told}"
        );
        assert!(!told.contains("1 links"), "{told}");
    }

    #[test]
    fn level_or_ahead_is_not() {
        assert!(table(&[race("Gb/s", 1.0, 0.99, 2.0)]).is_none());
        assert!(table(&[race("µs", 10.0, 5.0, 9.0)]).is_none());
    }
}
