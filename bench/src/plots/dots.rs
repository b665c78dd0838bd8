//! Real programs: a line for each thing they do, a dot for each way.

use super::figures::{Figures, Who, position, samples};
use crate::Table;
use tabane_lab::svg::{Anchor, Canvas};

const WIDTH: f64 = 800.0;
const LEFT: f64 = 290.0;
const RIGHT: f64 = 756.0;
const TOP: f64 = 62.0;
const ROW: f64 = 17.0;
const HEADING: f64 = 25.0;
const RATIO: &str = "× TCP, one link";
/// Farther right is drawn at the edge.
const RATIO_MAX: f64 = 2.5;

/// How many times as fast as over one link everything is.
pub fn programs(figures: &Figures) -> Option<String> {
    let is_program = |table: &&Table| {
        // What is compared with something else (jobs of MPI) has no dots here.
        table.columns.starts_with(&["what".into(), "way".into()])
            && position(table, RATIO).is_some()
            && !table.rows.is_empty()
    };
    let tables: Vec<_> = figures.0.tables.iter().filter(is_program).collect();
    let lines = tables.iter().map(|table| whats(table).len()).sum::<usize>();
    if tables.is_empty() {
        return None;
    }
    let bottom = TOP + lines as f64 * ROW + tables.len() as f64 * HEADING;
    let heading = "Real programs, 2 × 1 Gb/s: how many times as fast as TCP over one link";
    let mut canvas = Canvas::new(WIDTH, bottom + 62.0, heading);
    axis(&mut canvas, bottom);
    let (mut y, mut seen) = (TOP, Vec::new());
    for table in tables {
        y += HEADING;
        let name = table.title.trim_end_matches(", 2 × 1 Gb/s");
        canvas.text(16.0, y - 6.0, Anchor::Start, "", name);
        for what in whats(table) {
            canvas.text(LEFT - 14.0, y + ROW / 2.0 + 4.0, Anchor::End, "m s", &what);
            for (who, ratio) in ratios(table, &what) {
                dot(&mut canvas, who, ratio, y + ROW / 2.0);
                seen.push(who);
            }
            y += ROW;
        }
    }
    let mut who = Who::ALL.to_vec();
    // One link is the line at 1.
    who.retain(|who| *who != Who::Tcp && seen.contains(who));
    canvas.legend(16.0, bottom + 48.0, who.iter().map(|who| who.legend()));
    Some(canvas.finish())
}

fn x(ratio: f64) -> f64 {
    LEFT + ratio.clamp(0.0, RATIO_MAX) / RATIO_MAX * (RIGHT - LEFT)
}

fn axis(canvas: &mut Canvas, bottom: f64) {
    for half in 0..=5 {
        let ratio = f64::from(half) / 2.0;
        let class = if half == 2 { "a" } else { "g" };
        canvas.line((x(ratio), TOP - 8.0), (x(ratio), bottom + 4.0), class);
        for y in [TOP - 14.0, bottom + 20.0] {
            let edge = ["", " or more"][usize::from(ratio == RATIO_MAX)];
            canvas.text(x(ratio), y, Anchor::Middle, "m", format!("{ratio}{edge}"));
        }
    }
}

/// The lines of a table, in its order.
fn whats(table: &Table) -> Vec<String> {
    let mut all = Vec::new();
    for row in &table.rows {
        let what = row.first().map(ToString::to_string).unwrap_or_default();
        if !all.contains(&what) {
            all.push(what);
        }
    }
    all
}

fn ratios(table: &Table, what: &str) -> Vec<(Who, f64)> {
    let at = position(table, RATIO);
    let of = |row: &Vec<crate::Cell>| {
        let (own, way) = (row.first()?.to_string(), row.get(1)?.to_string());
        let ratio = samples(row.get(at?)?)?.median()?;
        (own == what).then_some((Who::of(&way)?, ratio))
    };
    table.rows.iter().filter_map(of).collect()
}

/// tabane, which the page is about, stands out.
fn dot(canvas: &mut Canvas, who: Who, ratio: f64, y: f64) {
    let radius = match who {
        Who::Tcp => return,
        who if who.is_own() => 5.0,
        _ => 4.0,
    };
    canvas.group(who.class());
    canvas.raw(format_args!(
        "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill-opacity=\".85\"/>",
        x(ratio)
    ));
    canvas.end();
}
