//! The picture: throughput over time of every run, failures shaded.

use super::recording::Recording;
use crate::svg::{Anchor, Canvas};
use crate::ways::Way;

const HEADING: &str =
    "One TCP stream (iperf3) over two switches of 1 Gb/s, which fail silently in turn";
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 84.0;
/// Rates are averaged over this long.
const BIN_S: f64 = 0.05;

/// The picture of these runs, which all followed one script; the first is drawn
/// on top.
pub fn picture(recordings: &[Recording]) -> String {
    let end_s = recordings.iter().map(Recording::end_s).fold(1.0, f64::max);
    let rates: Vec<Vec<f64>> = recordings.iter().map(rates).collect();
    let highest = rates.iter().flatten().copied().fold(1.0, f64::max);
    let frame = Frame {
        end_s,
        full_gbps: (highest * 2.0).ceil() / 2.0,
    };
    let mut canvas = Canvas::new(WIDTH, HEIGHT, HEADING);
    if let Some(first) = recordings.first() {
        shade(&mut canvas, &frame, first);
    }
    axes(&mut canvas, &frame);
    for (recording, rates) in recordings.iter().zip(&rates).rev() {
        curve(&mut canvas, &frame, recording.way, rates);
    }
    let names: Vec<_> = recordings.iter().map(|one| one.way.to_string()).collect();
    let classes = recordings.iter().map(|one| class(one.way));
    let legend = classes.zip(names.iter().map(String::as_str));
    canvas.legend(LEFT, HEIGHT - 18.0, legend);
    canvas.finish()
}

/// Where seconds and Gb/s are in the picture.
struct Frame {
    end_s: f64,
    full_gbps: f64,
}

impl Frame {
    fn x(&self, at_s: f64) -> f64 {
        LEFT + at_s / self.end_s * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, gbps: f64) -> f64 {
        HEIGHT - BOTTOM - gbps / self.full_gbps * (HEIGHT - TOP - BOTTOM)
    }
}

fn rates(recording: &Recording) -> Vec<f64> {
    let bins = (recording.end_s() / BIN_S) as usize;
    let rate = |bin| recording.gbps(bin as f64 * BIN_S, (bin + 1) as f64 * BIN_S);
    (0..bins).map(rate).collect()
}

/// Its colour in the picture's style.
fn class(way: Way) -> &'static str {
    match way {
        Way::Tabane(_) | Way::Run(_) | Way::Library { .. } | Way::Steered => "enc",
        Way::Mptcp => "mptcp",
        Way::BalanceRr | Way::Babel => "rr",
        Way::Tcp { .. } => "tcp",
    }
}

fn shade(canvas: &mut Canvas, frame: &Frame, recording: &Recording) {
    for outage in &recording.outages {
        let (left, right) = (frame.x(outage.begin_s), frame.x(outage.end_s));
        canvas.rect(left, TOP, right - left, HEIGHT - TOP - BOTTOM, "x");
        let what = format!("switch {} silent", outage.switch);
        canvas.text((left + right) / 2.0, TOP - 8.0, Anchor::Middle, "m", what);
    }
}

fn axes(canvas: &mut Canvas, frame: &Frame) {
    let (left, right) = (frame.x(0.0), frame.x(frame.end_s));
    let steps = (frame.full_gbps * 2.0).round() as usize;
    for gbps in (0..=steps).map(|step| step as f64 / 2.0) {
        let y = frame.y(gbps);
        canvas.line((left, y), (right, y), "g");
        canvas.text(left - 8.0, y + 5.0, Anchor::End, "m", format!("{gbps:.1}"));
    }
    let bottom = frame.y(0.0);
    for second in 0..=frame.end_s as usize {
        let x = frame.x(second as f64);
        canvas.line((x, bottom), (x, bottom + 5.0), "a");
        canvas.text(x, bottom + 21.0, Anchor::Middle, "m", second);
    }
    canvas.text(right, bottom + 40.0, Anchor::End, "m", "seconds");
    canvas.text_upwards(20.0, (TOP + bottom) / 2.0, "Gb/s received");
}

fn curve(canvas: &mut Canvas, frame: &Frame, way: Way, rates: &[f64]) {
    let at = |bin: usize| frame.x((bin as f64 + 0.5) * BIN_S);
    let points = rates.iter().enumerate();
    let width = if matches!(way, Way::Tabane(_)) {
        2.5
    } else {
        1.5
    };
    canvas.group(class(way));
    canvas.curve(points.map(|(bin, &gbps)| (at(bin), frame.y(gbps))), width);
    canvas.end();
}

#[cfg(test)]
mod tests {
    use super::super::recording::example;
    use super::*;

    #[test]
    fn the_picture_has_every_run_and_every_failure() {
        let svg = picture(&[example(), example()]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("switch 1 silent").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches('<').count(), svg.matches('>').count());
    }

    #[test]
    fn a_run_that_gave_nothing_is_drawn_as_nothing() {
        let mut empty = example();
        empty.samples.clear();
        assert!(!picture(&[empty]).contains("NaN"));
        assert!(picture(&[]).ends_with("</svg>\n"));
    }
}
