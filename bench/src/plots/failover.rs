//! What arrived around a failure: small pictures, a row for each failure, a
//! column for each way.

use std::fmt::Write;
use std::ops::Range;

use super::figures::{Figures, Who};
use crate::timeline::{KEPT_MS, Recorded};
use tabane_lab::svg::{Anchor, Canvas, short};

const LEFT: f64 = 184.0;
const TOP: f64 = 74.0;
const PANEL_WIDTH: f64 = 228.0;
const PANEL_HEIGHT: f64 = 58.0;
const GAP: f64 = 14.0;
/// Heights are drawn in whole steps of this, to be short.
const LEVEL_GBPS: f64 = 0.02;

/// Which part of the timelines, and how finely.
struct View {
    heading: &'static str,
    span_ms: Range<i64>,
    bin_ms: u32,
    tick_ms: usize,
    full_gbps: f64,
}

/// From before the failure until after it is healed.
pub fn overview(figures: &Figures) -> Option<String> {
    let view = View {
        heading: "One TCP stream over 2 × 1 Gb/s across failures",
        span_ms: KEPT_MS,
        bin_ms: 5,
        tick_ms: 400,
        full_gbps: 2.2,
    };
    draw(&view, &figures.0.timelines)
}

/// The first moments, to the millisecond.
pub fn close(figures: &Figures) -> Option<String> {
    let view = View {
        heading: "The same failures: the first 200 ms, millisecond by millisecond",
        span_ms: -25..200,
        bin_ms: 1,
        tick_ms: 50,
        full_gbps: 2.6,
    };
    draw(&view, &figures.0.timelines)
}

fn draw(view: &View, timelines: &[Recorded]) -> Option<String> {
    let mut failures: Vec<&str> = Vec::new();
    let mut ways: Vec<&str> = Vec::new();
    for one in timelines {
        for (all, name) in [(&mut failures, &one.failure), (&mut ways, &one.way)] {
            if !all.contains(&name.as_str()) {
                all.push(name);
            }
        }
    }
    if failures.is_empty() {
        return None;
    }
    let width = LEFT + ways.len() as f64 * (PANEL_WIDTH + GAP) + 2.0;
    let bottom = TOP + failures.len() as f64 * (PANEL_HEIGHT + GAP);
    let mut canvas = Canvas::new(width, bottom + 54.0, view.heading);
    let left = |way: usize| LEFT + way as f64 * (PANEL_WIDTH + GAP);
    let top = |failure: usize| TOP + failure as f64 * (PANEL_HEIGHT + GAP);
    for (index, way) in ways.iter().enumerate() {
        let middle = left(index) + PANEL_WIDTH / 2.0;
        canvas.text(middle, TOP - 14.0, Anchor::Middle, "", way);
        ticks(&mut canvas, view, left(index), bottom - GAP);
    }
    for (index, failure) in failures.iter().enumerate() {
        row_name(&mut canvas, failure, top(index));
        for (column, way) in ways.iter().enumerate() {
            let of = |one: &&Recorded| one.way == *way && one.failure == *failure;
            let place = (left(column), top(index));
            panel(&mut canvas, view, place, timelines.iter().find(of));
        }
    }
    let note = format!(
        "Up: Gb/s received, every {} ms. Across: ms since the failure; shaded until it is healed.",
        view.bin_ms
    );
    canvas.text(16.0, bottom + 42.0, Anchor::Start, "m s", note);
    Some(canvas.finish())
}

/// In as many lines as it needs.
fn row_name(canvas: &mut Canvas, name: &str, top: f64) {
    const LETTERS_MAX: usize = 23;
    let mut lines = vec![String::new()];
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(last) if last.len() + word.len() < LETTERS_MAX => {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let first = top + PANEL_HEIGHT / 2.0 + 4.5 - (lines.len() - 1) as f64 * 8.0;
    for (index, line) in lines.iter().enumerate() {
        canvas.text(
            LEFT - 36.0,
            first + index as f64 * 16.0,
            Anchor::End,
            "s",
            line,
        );
    }
}

fn x(view: &View, left: f64, ms: f64) -> f64 {
    let (first, last) = (view.span_ms.start as f64, view.span_ms.end as f64);
    left + ((ms - first) / (last - first)).clamp(0.0, 1.0) * PANEL_WIDTH
}

fn ticks(canvas: &mut Canvas, view: &View, left: f64, bottom: f64) {
    for ms in (0..view.span_ms.end).step_by(view.tick_ms) {
        let at = x(view, left, ms as f64);
        canvas.line((at, bottom), (at, bottom + 4.0), "a");
        canvas.text(at, bottom + 17.0, Anchor::Middle, "m s", ms);
    }
}

fn panel(canvas: &mut Canvas, view: &View, (left, top): (f64, f64), one: Option<&Recorded>) {
    let bottom = top + PANEL_HEIGHT;
    let y = |gbps: f64| bottom - gbps / view.full_gbps * PANEL_HEIGHT;
    let Some(one) = one else {
        canvas.text(
            left + PANEL_WIDTH / 2.0,
            top + PANEL_HEIGHT / 2.0,
            Anchor::Middle,
            "m s",
            "–",
        );
        return;
    };
    let (from, to) = (x(view, left, 0.0), x(view, left, one.healed_ms));
    canvas.rect(from, top, to - from, PANEL_HEIGHT, "x");
    canvas.group(Who::of(&one.way).unwrap_or(Who::Tcp).class());
    let across =
        PANEL_WIDTH * f64::from(view.bin_ms) / (view.span_ms.end - view.span_ms.start) as f64;
    let up = LEVEL_GBPS / view.full_gbps * PANEL_HEIGHT;
    canvas.raw(format_args!(
        "<path transform=\"translate({} {}) scale({across:.4} {:.4})\" d=\"{}\"/>",
        short(left),
        short(bottom),
        -up,
        area(view, one)
    ));
    canvas.end();
    for gbps in [1.0, 2.0] {
        canvas.line((left, y(gbps)), (left + PANEL_WIDTH, y(gbps)), "g");
    }
    canvas.line((left, bottom), (left + PANEL_WIDTH, bottom), "a");
    if left == LEFT {
        for gbps in [0.0, 1.0, 2.0] {
            canvas.text(left - 6.0, y(gbps) + 4.0, Anchor::End, "m s", gbps);
        }
    }
}

/// The outline: a unit to the right is a bin, a unit up a level.
fn area(view: &View, one: &Recorded) -> String {
    let mut path = String::from("M0 0");
    let (mut level, mut run) = (0, 0);
    for ms in view.span_ms.clone().step_by(view.bin_ms as usize) {
        let gbps = one.gbps(ms, view.bin_ms).min(view.full_gbps);
        let now = (gbps / LEVEL_GBPS).round() as i64;
        if now != level {
            if run > 0 {
                let _ = write!(path, "h{run}");
            }
            let _ = write!(path, "V{now}");
            (level, run) = (now, 0);
        }
        run += 1;
    }
    let _ = write!(path, "h{run}V0z");
    path
}
