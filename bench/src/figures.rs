//! What was measured, on its way to a table.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::stolen::Stolen;
use super::timeline::Recorded;

/// One figure, measured once a round; not a number where a round failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples(#[serde(deserialize_with = "or_nan")] pub Vec<f64>);

/// JSON has no word for what is not a number but `null`.
fn or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let known = Vec::<Option<f64>>::deserialize(from)?;
    Ok(known.into_iter().map(|n| n.unwrap_or(f64::NAN)).collect())
}

impl Samples {
    /// The middle one; of an even number, the mean of the two in the middle.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The value below which this share of them lies, 0 to 1.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.retain(|sample| !sample.is_nan());
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = share.clamp(0.0, 1.0) * last as f64;
        let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        Some(low + (high - low) * at.fract())
    }

    /// The least.
    pub fn min(&self) -> Option<f64> {
        self.0.iter().copied().reduce(f64::min)
    }

    /// The greatest.
    pub fn max(&self) -> Option<f64> {
        self.0.iter().copied().reduce(f64::max)
    }

    /// Round by round, how many times the other's figure this one is: the
    /// drift of the machine from round to round cancels out.
    pub fn over(&self, base: &Samples) -> Samples {
        let ratio = |(own, base): (&f64, &f64)| own / base;
        Samples(self.0.iter().zip(&base.0).map(ratio).collect())
    }
}

/// `1.88 (1.85–1.90)`: the median, and the least and greatest if there are
/// several; rounds that failed are counted in brackets.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.0.iter().filter(|sample| sample.is_nan()).count();
        match (self.median(), self.min(), self.max()) {
            (Some(median), Some(min), Some(max)) => {
                f.write_str(&digits(median))?;
                if self.0.len() > 1 {
                    write!(f, " ({}–{})", digits(min), digits(max))?;
                }
            }
            _ => f.write_str("–")?,
        }
        match failed {
            0 => Ok(()),
            _ => write!(f, " [failed: {failed}]"),
        }
    }
}

/// Three digits, or all before the point.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size == 0.0 || size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A field of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// Measured.
    Samples(Samples),
    /// Said.
    Text(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Samples(samples) => samples.fmt(f),
            Cell::Text(text) => f.write_str(text),
        }
    }
}

impl From<Samples> for Cell {
    fn from(samples: Samples) -> Self {
        Cell::Samples(samples)
    }
}

impl From<Vec<f64>> for Cell {
    fn from(samples: Vec<f64>) -> Self {
        Cell::Samples(Samples(samples))
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.into())
    }
}

/// Figures that belong together.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// What the reader must know.
    pub note: String,
    /// Names of the columns, with units.
    pub columns: Vec<String>,
    /// As many cells as columns each.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows yet.
    pub fn new(title: impl Into<String>, note: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            note: note.into(),
            columns: columns.iter().map(|&name| name.into()).collect(),
            rows: Vec::new(),
        }
    }
}

/// As Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.title)?;
        if !self.note.is_empty() {
            writeln!(f, "{}\n", self.note)?;
        }
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(self.columns.len()))?;
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(Cell::to_string).collect();
            writeln!(f, "| {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

/// What a figure is to be held against.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Bound {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
}

/// A figure the project has set itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Goal {
    /// What, with its unit.
    pub what: String,
    /// What it came to; `None` if it did not happen at all.
    pub value: Option<f64>,
    /// What it should come to.
    pub bound: Bound,
}

impl Goal {
    /// A goal and what it came to.
    pub fn new(what: impl Into<String>, value: Option<f64>, bound: Bound) -> Goal {
        Goal {
            what: what.into(),
            value,
            bound,
        }
    }

    /// Whether it was reached.
    pub fn is_met(&self) -> bool {
        match (self.value, self.bound) {
            (None, _) => false,
            (Some(value), Bound::AtLeast(least)) => value >= least,
            (Some(value), Bound::AtMost(most)) => value <= most,
        }
    }
}

/// The goals as a table.
pub fn goals_table(goals: &[Goal]) -> Table {
    let columns = ["goal", "bound", "measured", "met"];
    let mut table = Table::new("Goals", "", &columns);
    for goal in goals {
        let bound = match goal.bound {
            Bound::AtLeast(least) => format!("≥ {}", digits(least)),
            Bound::AtMost(most) => format!("≤ {}", digits(most)),
        };
        let value = goal.value.map_or("never".into(), digits);
        let met = if goal.is_met() { "yes" } else { "**no**" };
        table.rows.push(vec![
            goal.what.clone().into(),
            bound.into(),
            value.into(),
            met.into(),
        ]);
    }
    table
}

/// What a measurement gives.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// The figures.
    pub tables: Vec<Table>,
    /// Those among them that are goals.
    pub goals: Vec<Goal>,
    /// Streams across a failure, millisecond by millisecond.
    #[serde(default)]
    pub timelines: Vec<Recorded>,
    /// What could not be measured here, and why.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// What the host of this machine took of it, for each measurement.
    #[serde(default)]
    pub stolen: Vec<Stolen>,
}

impl Report {
    /// Note, and say at once, that something is not measured, and why.
    pub fn leave_out(&mut self, what: impl fmt::Display, why: impl fmt::Display) {
        let message = format!("{what}: {why}");
        eprintln!("bench: LEFT OUT: {message}");
        self.left_out.push(message);
    }

    /// Add another's.
    pub fn extend(&mut self, other: Report) {
        self.tables.extend(other.tables);
        self.goals.extend(other.goals);
        self.timelines.extend(other.timelines);
        self.left_out.extend(other.left_out);
        self.stolen.extend(other.stolen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_and_its_neighbours() {
        let samples = Samples(vec![3.0, 1.0, 2.0]);
        assert_eq!(samples.median(), Some(2.0));
        assert_eq!(Samples(vec![1.0, 2.0]).median(), Some(1.5));
        assert_eq!(samples.to_string(), "2.00 (1.00–3.00)");
        assert_eq!(Samples(vec![0.5]).to_string(), "0.500");
        assert_eq!(Samples::default().to_string(), "–");
        assert_eq!(samples.quantile(1.0), samples.max());
    }

    #[test]
    fn a_round_that_failed_is_counted_and_comes_back_from_json() {
        let samples = Samples(vec![f64::NAN, 2.0, 4.0]);
        assert_eq!(samples.to_string(), "3.00 (2.00–4.00) [failed: 1]");
        assert_eq!(Samples(vec![f64::NAN]).to_string(), "– [failed: 1]");
        let json = serde_json::to_string(&samples).expect("is JSON");
        let back: Cell = serde_json::from_str(&json).expect("is understood");
        assert_eq!(back.to_string(), samples.to_string());
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let over = Samples(vec![4.0, 1.0]).over(&Samples(vec![2.0, 0.5]));
        assert_eq!(over, Samples(vec![2.0, 2.0]));
    }

    #[test]
    fn a_goal_that_never_happened_is_not_met() {
        assert!(Goal::new("rate", Some(1.9), Bound::AtLeast(1.9)).is_met());
        assert!(!Goal::new("gap", Some(51.0), Bound::AtMost(50.0)).is_met());
        assert!(!Goal::new("gap", None, Bound::AtMost(50.0)).is_met());
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new("T", "", &["a", "b"]);
        table.rows.push(vec!["x".into(), vec![1.0].into()]);
        assert_eq!(
            table.to_string(),
            "### T\n\n| a | b |\n|---|---|\n| x | 1.00 |\n"
        );
    }
}
