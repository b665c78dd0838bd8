//! A picture of a trace: over one axis of time, what was sent on each path, windows, round trips, states and verdicts, and
//! why each path was chosen.

use std::collections::BTreeSet;

use tabane_lab::svg::{Anchor, Canvas, short, steps};

use super::read::{PathTrace, Trace};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 76.0;
const PANEL: f64 = 112.0;
const GAP: f64 = 34.0;
/// Height of one path's bar of states, with the words of its verdicts below.
const BAR: f64 = 40.0;
/// Height of one reason's row.
const ROW: f64 = 16.0;
/// Pixels for each point of a curve.
const PIXELS_EACH: f64 = 3.0;
/// The picture's time axis is this much longer than the trace.
const END_AFTER: f64 = 1.05;
/// Each path's colour.
const COLOURS: [&str; 7] = ["enc", "mptcp", "tcp", "rr", "run", "lib", "plain"];

/// Maps times to positions.
#[derive(Clone, Copy)]
struct Axis {
    ends_ms: f64,
}

impl Axis {
    fn x(self, at_ms: f64) -> f64 {
        LEFT + at_ms / self.ends_ms * (RIGHT - LEFT)
    }

    fn bins(self) -> usize {
        ((RIGHT - LEFT) / PIXELS_EACH) as usize
    }

    /// `None`: it is not in the picture.
    fn bin(self, at_ms: f64) -> Option<usize> {
        let bin = at_ms / self.ends_ms * self.bins() as f64;
        (at_ms <= self.ends_ms).then(|| (bin as usize).min(self.bins() - 1))
    }

    /// The middle of a bin, in pixels.
    fn middle(self, bin: usize) -> f64 {
        LEFT + (bin as f64 + 0.5) * PIXELS_EACH
    }

    /// The mean of the values in each bin; `None` where there are none.
    fn means(self, of: impl Iterator<Item = (f64, f64)>) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0_u32); self.bins()];
        for (at, value) in of {
            if let Some(bin) = self.bin(at) {
                let (sum, count) = &mut sums[bin];
                *sum += value;
                *count += 1;
            }
        }
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        sums.into_iter().map(mean).collect()
    }
}

/// Values of each bin, of one path, as a curve of this width.
struct Curve {
    class: &'static str,
    values: Vec<Option<f64>>,
    width: f64,
}

/// Draws a trace: SVG.
pub fn draw(trace: &Trace) -> String {
    let axis = Axis {
        ends_ms: end(trace).max(1e-3),
    };
    let paths: Vec<(&str, &'static str, &PathTrace)> = trace
        .paths
        .iter()
        .enumerate()
        .map(|(i, (name, path))| (name.as_str(), COLOURS[i % COLOURS.len()], path))
        .collect();
    let reasons: BTreeSet<&str> = paths
        .iter()
        .flat_map(|(_, _, path)| path.chosen.iter().map(|(_, why)| why.as_str()))
        .collect();
    let states_at = TOP + 3.0 * (PANEL + GAP);
    let reasons_at = states_at + paths.len() as f64 * BAR + GAP;
    let bottom = reasons_at + reasons.len() as f64 * ROW;
    let mut canvas = Canvas::new(WIDTH, bottom + 44.0, &trace.title);
    let names: Vec<String> = paths
        .iter()
        .map(|path| format!("path {}", path.0))
        .collect();
    let legend = paths.iter().zip(&names);
    canvas.legend(
        LEFT,
        46.0,
        legend.map(|(path, name)| (path.1, name.as_str())),
    );

    time_axis(&mut canvas, axis, bottom);
    panel(&mut canvas, axis, 0, "sent, Mb/s", &rates(axis, &paths));
    panel(
        &mut canvas,
        axis,
        1,
        "window, in flight (bold), KB",
        &windows(axis, &paths),
    );
    panel(
        &mut canvas,
        axis,
        2,
        "smoothed round trip, ms",
        &rtts(axis, &paths),
    );
    for (i, (name, class, path)) in paths.iter().enumerate() {
        let top = states_at + i as f64 * BAR;
        states(&mut canvas, axis, top, (name, class), path);
    }
    for (i, reason) in reasons.iter().enumerate() {
        let top = reasons_at + i as f64 * ROW;
        canvas.text(LEFT - 8.0, top + 11.0, Anchor::End, "m s", reason);
        for (n, (_, class, path)) in paths.iter().enumerate() {
            let share = (ROW - 4.0) / paths.len() as f64;
            chosen(
                &mut canvas,
                axis,
                (top + n as f64 * share, share),
                class,
                path,
                reason,
            );
        }
    }
    canvas.text(
        LEFT,
        reasons_at - 6.0,
        Anchor::Start,
        "m s",
        "chosen, and why",
    );
    canvas.finish()
}

/// When the picture ends: a little after paths were last chosen or judged, for then it was as at its end.
fn end(trace: &Trace) -> f64 {
    let chosen = |path: &PathTrace| path.chosen.last().map(|(at, _)| *at);
    let judged = |path: &PathTrace| path.states.last().map(|(at, _)| *at);
    let paths = trace.paths.values();
    let last = paths.flat_map(|path| [chosen(path), judged(path)]);
    let last = last.flatten().fold(0.0, f64::max);
    match last > 0.0 {
        true => (last * END_AFTER).min(trace.ends_ms),
        false => trace.ends_ms,
    }
}

type Paths<'a> = [(&'a str, &'static str, &'a PathTrace)];

/// Megabits per second sent in each bin.
fn rates(axis: Axis, paths: &Paths<'_>) -> Vec<Curve> {
    let bin_s = axis.ends_ms / 1e3 / axis.bins() as f64;
    let rate = |path: &PathTrace| {
        let mut bytes = vec![0.0; axis.bins()];
        for (at, length) in &path.sent {
            if let Some(bin) = axis.bin(*at) {
                bytes[bin] += length;
            }
        }
        let mbps = bytes
            .into_iter()
            .map(|bytes| Some(bytes * 8.0 / 1e6 / bin_s));
        mbps.collect()
    };
    let curve = |(_, class, path): &(&str, &'static str, &PathTrace)| Curve {
        class,
        values: rate(path),
        width: 1.4,
    };
    paths.iter().map(curve).collect()
}

/// Windows, and what of each is in flight.
fn windows(axis: Axis, paths: &Paths<'_>) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (_, class, path) in paths {
        for (which, width) in [(0, 0.8), (1, 2.0)] {
            let values = path.windows.iter();
            let values = values.map(|(at, both)| (*at, both[which] / 1e3));
            curves.push(Curve {
                class,
                values: axis.means(values),
                width,
            });
        }
    }
    curves
}

fn rtts(axis: Axis, paths: &Paths<'_>) -> Vec<Curve> {
    let curve = |(_, class, path): &(&str, &'static str, &PathTrace)| Curve {
        class,
        values: axis.means(path.rtts.iter().copied()),
        width: 1.4,
    };
    paths.iter().map(curve).collect()
}

/// Curves over an axis of their own.
fn panel(canvas: &mut Canvas, axis: Axis, index: usize, name: &str, curves: &[Curve]) {
    let top = TOP + index as f64 * (PANEL + GAP);
    let bottom = top + PANEL;
    let values = || {
        curves
            .iter()
            .flat_map(|curve| curve.values.iter().flatten())
    };
    let marks = steps(values().copied().fold(0.0, f64::max), 4);
    let highest = marks.last().copied().unwrap_or(1.0);
    let y = |value: f64| bottom - value / highest * PANEL;
    canvas.text(LEFT, top - 8.0, Anchor::Start, "m s", name);
    for mark in &marks {
        canvas.line((LEFT, y(*mark)), (RIGHT, y(*mark)), "g");
        let digits = if highest < 2.0 { 2 } else { 0 };
        let label = format!("{mark:.digits$}");
        canvas.text(LEFT - 8.0, y(*mark) + 4.0, Anchor::End, "m s", label);
    }
    for curve in curves {
        canvas.group(curve.class);
        let points = curve.values.iter().enumerate();
        let there = points.filter_map(|(bin, value)| Some((axis.middle(bin), y((*value)?))));
        canvas.curve(there, curve.width);
        canvas.end();
    }
}

/// A bar of a path's states: thick while it works, its losses above, verdicts in words below.
fn states(
    canvas: &mut Canvas,
    axis: Axis,
    top: f64,
    (name, class): (&str, &str),
    path: &PathTrace,
) {
    canvas.text(
        LEFT - 8.0,
        top + 11.0,
        Anchor::End,
        "m s",
        format!("path {name}"),
    );
    let ends = path.states.iter().skip(1).map(|(at, _)| *at);
    let ends = ends.chain([axis.ends_ms]);
    for ((at, state), end) in path.states.iter().zip(ends) {
        let (x, width) = (axis.x(*at), (axis.x(end) - axis.x(*at)).max(1.0));
        match state.as_str() {
            "up" => {
                canvas.group(class);
                canvas.rect(x, top, width, 12.0, "");
                canvas.end();
            }
            "suspect" => canvas.rect(x, top, width, 12.0, "x"),
            "down" => {
                canvas.group("bad");
                canvas.rect(x, top + 5.0, width, 2.0, "");
                canvas.end();
            }
            _ => {}
        }
    }
    canvas.group("bad");
    let losses: BTreeSet<usize> = path.lost.iter().filter_map(|at| axis.bin(*at)).collect();
    for bin in losses {
        canvas.rect(axis.middle(bin) - 1.0, top - 5.0, 2.0, 4.0, "");
    }
    canvas.end();
    // The first two say where the trace began.
    for (i, (at, text)) in path.verdicts.iter().skip(2).enumerate() {
        let x = axis.x(*at);
        let y = top + 23.0 + (i % 2) as f64 * 11.0;
        canvas.line((x, top), (x, y), "w");
        let (anchor, beside) = match x > (LEFT + RIGHT) / 2.0 {
            true => (Anchor::End, -3.0),
            false => (Anchor::Start, 3.0),
        };
        canvas.text(x + beside, y, anchor, "m s", text);
    }
}

/// Marks when a path was chosen for this reason.
fn chosen(
    canvas: &mut Canvas,
    axis: Axis,
    (top, height): (f64, f64),
    class: &str,
    path: &PathTrace,
    reason: &str,
) {
    let of_it = path.chosen.iter().filter(|(_, why)| why == reason);
    let bins: BTreeSet<usize> = of_it.filter_map(|(at, _)| axis.bin(*at)).collect();
    canvas.group(class);
    let mut run: Option<(usize, usize)> = None;
    let mut mark = |run: Option<(usize, usize)>| {
        if let Some((first, last)) = run {
            let width = (last - first + 1) as f64 * PIXELS_EACH;
            canvas.rect(
                axis.middle(first) - PIXELS_EACH / 2.0,
                top,
                width,
                height,
                "",
            );
        }
    };
    for bin in bins {
        run = match run {
            Some((first, last)) if last + 1 == bin => Some((first, bin)),
            before => {
                mark(before);
                Some((bin, bin))
            }
        };
    }
    mark(run);
    canvas.end();
}

fn time_axis(canvas: &mut Canvas, axis: Axis, bottom: f64) {
    canvas.line((LEFT, bottom), (RIGHT, bottom), "a");
    for mark in steps(axis.ends_ms, 10) {
        if mark <= axis.ends_ms {
            canvas.line((axis.x(mark), TOP), (axis.x(mark), bottom), "g");
            canvas.text(
                axis.x(mark),
                bottom + 16.0,
                Anchor::Middle,
                "m s",
                short(mark),
            );
        }
    }
    canvas.text(
        RIGHT,
        bottom + 34.0,
        Anchor::End,
        "m s",
        "milliseconds since the trace began",
    );
}
