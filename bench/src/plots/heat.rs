//! The matrix of links that differ: a square for each pair of links.

use super::figures::{Figures, position, samples};
use crate::entrant::BESIDE;
use crate::{Table, digits};
use tabane_lab::svg::{Anchor, Canvas};

const TITLE_BEGINS: &str = "Do no harm: ";
/// Of the two-link tables; what comes before it is the line rate.
const TITLE_PART: &str = " and a link of ";
/// What is drawn: a column of the table, and what it says.
const BLOCKS: [(&str, &str); 2] = [
    ("tab0 × TCP", "TCP over tab0"),
    ("stream × alone", "a stream of the bundle"),
];
const LEFT: f64 = 118.0;
const TOP: f64 = 100.0;
const CELL_WIDTH: f64 = 40.0;
const CELL_HEIGHT: f64 = 26.0;
const BLOCK_GAP: f64 = 16.0;
/// Between what is drawn above and below.
const KIND_GAP: f64 = 52.0;
/// What the project promises.
const PROMISED: f64 = 0.98;

/// One pair of links.
struct Square {
    delay_ms: String,
    lost_percent: String,
    ratio: f64,
}

/// How many times the best link alone the bundle carries.
pub fn do_no_harm(figures: &Figures) -> Option<String> {
    let is_ours = |table: &&Table| {
        let title = &table.title;
        let is_pair = title.starts_with(TITLE_BEGINS) && title.contains(TITLE_PART);
        is_pair && !title.ends_with(BESIDE)
    };
    let tables: Vec<_> = figures.0.tables.iter().filter(is_ours).collect();
    let first = tables.first()?;
    let lines = distinct(first, "lost, %").len();
    let width = LEFT
        + tables
            .iter()
            .map(|table| block_width(table) + BLOCK_GAP)
            .sum::<f64>()
        + 8.0;
    let kind_height = lines as f64 * CELL_HEIGHT + KIND_GAP;
    let height = TOP + kind_height * BLOCKS.len() as f64 + 4.0;
    let heading = "Do no harm: the bundle of two links, × its best link alone";
    let mut canvas = Canvas::new(width, height, heading);
    let mut x = LEFT;
    for table in &tables {
        let (_, ratio) = table.title.split_once(TITLE_PART).unwrap_or_default();
        let middle = x + block_width(table) / 2.0;
        canvas.text(
            middle,
            58.0,
            Anchor::Middle,
            "",
            format!("{ratio} of the rate"),
        );
        x += block_width(table) + BLOCK_GAP;
    }
    for (index, (column, name)) in BLOCKS.iter().enumerate() {
        let top = TOP + kind_height * index as f64;
        kind(&mut canvas, &tables, (column, name), top);
    }
    let note = "Across: delay the worse link adds, each way. Down: share it loses, each way. Red is below 0.98.";
    canvas.text(16.0, height - 12.0, Anchor::Start, "m s", note);
    Some(canvas.finish())
}

fn block_width(table: &Table) -> f64 {
    distinct(table, "delay, ms").len() as f64 * CELL_WIDTH
}

/// One kind of stream: a block for each table.
fn kind(canvas: &mut Canvas, tables: &[&Table], (column, name): (&str, &str), top: f64) {
    canvas.text(16.0, top - 24.0, Anchor::Start, "", name);
    let mut x = LEFT;
    for (index, table) in tables.iter().enumerate() {
        let (delays, losses) = (distinct(table, "delay, ms"), distinct(table, "lost, %"));
        for (across, delay) in delays.iter().enumerate() {
            let middle = x + (across as f64 + 0.5) * CELL_WIDTH;
            canvas.text(
                middle,
                top - 6.0,
                Anchor::Middle,
                "m s",
                format!("{delay} ms"),
            );
        }
        for (down, loss) in losses.iter().enumerate() {
            if index == 0 {
                let y = top + (down as f64 + 0.5) * CELL_HEIGHT + 4.0;
                canvas.text(LEFT - 8.0, y, Anchor::End, "m s", format!("{loss}% lost"));
            }
        }
        for square in squares(table, column) {
            let place = |all: &[String], one| all.iter().position(|other| other == one);
            let across = place(&delays, &square.delay_ms).unwrap_or(0) as f64;
            let down = place(&losses, &square.lost_percent).unwrap_or(0) as f64;
            let corner = (x + across * CELL_WIDTH, top + down * CELL_HEIGHT);
            draw(canvas, square.ratio, corner);
        }
        x += block_width(table) + BLOCK_GAP;
    }
}

fn draw(canvas: &mut Canvas, ratio: f64, (x, y): (f64, f64)) {
    // Strength of the colour: how far from what is promised, up to twice it.
    let (class, strength) = if ratio < PROMISED {
        ("bad", 0.25 + (PROMISED - ratio).clamp(0.0, 0.5) * 1.5)
    } else {
        ("enc", 0.10 + (ratio - PROMISED).clamp(0.0, 1.0) * 0.7)
    };
    canvas.raw(format_args!(
        "<rect class=\"{class}\" fill=\"currentColor\" fill-opacity=\"{strength:.2}\" x=\"{x:.0}\" y=\"{y:.0}\" \
         width=\"{}\" height=\"{}\"/>",
        CELL_WIDTH - 2.0,
        CELL_HEIGHT - 2.0
    ));
    let middle = (x + CELL_WIDTH / 2.0 - 1.0, y + CELL_HEIGHT / 2.0 + 3.0);
    canvas.text(middle.0, middle.1, Anchor::Middle, "s", digits(ratio));
}

fn squares(table: &Table, column: &str) -> Vec<Square> {
    let at = |name| position(table, name);
    let of = |row: &Vec<crate::Cell>| {
        Some(Square {
            delay_ms: row.get(at("delay, ms")?)?.to_string(),
            lost_percent: row.get(at("lost, %")?)?.to_string(),
            ratio: samples(row.get(at(column)?)?)?.median()?,
        })
    };
    table.rows.iter().filter_map(of).collect()
}

/// What a column says, each once, in its order.
fn distinct(table: &Table, column: &str) -> Vec<String> {
    let mut all = Vec::new();
    let at = position(table, column);
    for cell in table.rows.iter().filter_map(|row| row.get(at?)) {
        let text = cell.to_string();
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}
