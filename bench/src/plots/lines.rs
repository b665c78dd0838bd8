//! Lines over two logarithmic axes.

use super::figures::{Figures, Who, position, samples};
use crate::measure::latency;
use tabane_lab::svg::{Anchor, Canvas, short};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 776.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 346.0;

/// One line: who, and points of bytes and microseconds.
struct Line {
    who: Who,
    points: Vec<(f64, f64)>,
}

/// Half round trips by the length of the message.
pub fn half_round_trip(figures: &Figures) -> Option<String> {
    let table = figures.tables(latency::BY_LENGTH).next()?;
    let mut lines = Vec::new();
    for who in Who::ALL {
        let Some(at) = position(table, who.name()) else {
            continue;
        };
        let point = |row: &Vec<crate::Cell>| {
            let bytes = row.first()?.to_string().parse().ok()?;
            Some((bytes, samples(row.get(at)?)?.median()?))
        };
        let points: Vec<_> = table.rows.iter().filter_map(point).collect();
        if !points.is_empty() {
            lines.push(Line { who, points });
        }
    }
    let range = |of: fn(&(f64, f64)) -> f64| {
        let all = || lines.iter().flat_map(|line| &line.points).map(of);
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    };
    let (bytes, us) = (range(|point| point.0)?, range(|point| point.1)?);
    Some(draw(&lines, bytes, us))
}

/// Where a value is between two ends of a logarithmic axis.
fn log_share(value: f64, (low, high): (f64, f64)) -> f64 {
    (value / low).ln() / (high / low).ln().max(1e-9)
}

fn draw(lines: &[Line], bytes: (f64, f64), us: (f64, f64)) -> String {
    // Whole decades, half a step of room at the sides.
    let decades = (us.0.log10().floor() as i32, us.1.log10().ceil() as i32);
    let ends = (
        10f64.powi(decades.0),
        10f64.powi(decades.1.max(decades.0 + 1)),
    );
    let sides = (bytes.0 / 1.6, bytes.1.max(bytes.0 * 2.0) * 1.6);
    let x = |value: f64| LEFT + log_share(value, sides) * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - log_share(value, ends) * (BOTTOM - TOP);
    let mut canvas = Canvas::new(WIDTH, HEIGHT, "Half round trip by message size, 2 × 1 Gb/s");
    for decade in decades.0..=decades.1.max(decades.0 + 1) {
        let value = 10f64.powi(decade);
        canvas.line((LEFT, y(value)), (RIGHT, y(value)), "a");
        let name = if value < 1000.0 {
            format!("{value} µs")
        } else {
            format!("{} ms", value / 1000.0)
        };
        canvas.text(LEFT - 8.0, y(value) + 4.5, Anchor::End, "m", name);
        for part in 2..10 {
            let value = value * f64::from(part);
            if value < ends.1 {
                canvas.line((LEFT, y(value)), (RIGHT, y(value)), "g");
            }
        }
    }
    let mut size = bytes.0.max(1.0);
    while size <= bytes.1 {
        canvas.line((x(size), TOP), (x(size), BOTTOM), "g");
        canvas.text(x(size), BOTTOM + 20.0, Anchor::Middle, "m", size_name(size));
        size *= 16.0;
    }
    canvas.text(
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 42.0,
        Anchor::Middle,
        "m",
        "bytes of a message",
    );
    for line in lines {
        curve(&mut canvas, line, x, y);
    }
    let who: Vec<_> = lines.iter().map(|line| line.who).collect();
    canvas.legend(LEFT, HEIGHT - 18.0, who.iter().map(|who| who.legend()));
    canvas.finish()
}

fn curve(canvas: &mut Canvas, line: &Line, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) {
    let places: Vec<_> = line
        .points
        .iter()
        .map(|&(bytes, us)| (short(x(bytes)), short(y(us))))
        .collect();
    let path: Vec<_> = places.iter().map(|(x, y)| format!("{x} {y}")).collect();
    canvas.group(line.who.class());
    canvas.raw(format_args!(
        "<path fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" d=\"M{}\"/>",
        path.join("L")
    ));
    for (x, y) in places {
        canvas.raw(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"3.4\"/>"));
    }
    canvas.end();
}

fn size_name(bytes: f64) -> String {
    match bytes as u64 {
        bytes if bytes >= 1 << 20 => format!("{} MB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
