//! The picture: throughput over time of every run, failures shaded.

use std::fmt::Write;

use super::recording::Recording;
use crate::ways::Way;

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
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"17\" font-weight=\"600\">One TCP stream (iperf3) over two switches of 1 Gb/s, which fail silently in turn</text>\n"
    );
    if let Some(first) = recordings.first() {
        shade(&mut svg, &frame, first);
    }
    axes(&mut svg, &frame);
    for (recording, rates) in recordings.iter().zip(&rates).rev() {
        curve(&mut svg, &frame, recording.way, rates);
    }
    legend(&mut svg, recordings);
    svg.push_str("</svg>\n");
    svg
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

fn colour(way: Way) -> &'static str {
    match way {
        Way::Tabane(_) | Way::Run(_) | Way::Library { .. } | Way::Steered => "#0b6e4f",
        Way::Mptcp => "#c8553d",
        Way::BalanceRr => "#7a5195",
        Way::Tcp { .. } | Way::Datagrams => "#4a7fb5",
    }
}

fn shade(svg: &mut String, frame: &Frame, recording: &Recording) {
    for outage in &recording.outages {
        let (left, right) = (frame.x(outage.begin_s), frame.x(outage.end_s));
        let (width, height) = (right - left, HEIGHT - TOP - BOTTOM);
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"#f2e6c9\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"13\" fill=\"#8a6d1d\">switch {} silent</text>",
            (left + right) / 2.0,
            TOP - 8.0,
            outage.switch
        );
    }
}

fn axes(svg: &mut String, frame: &Frame) {
    let (left, right) = (frame.x(0.0), frame.x(frame.end_s));
    let mut gbps = 0.0;
    while gbps <= frame.full_gbps + 1e-9 {
        let y = frame.y(gbps);
        let _ = writeln!(
            svg,
            "<line x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" stroke=\"#ccc\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{gbps:.1}</text>",
            left - 8.0,
            y + 5.0
        );
        gbps += 0.5;
    }
    let bottom = frame.y(0.0);
    for second in 0..=frame.end_s as usize {
        let x = frame.x(second as f64);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{bottom:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#999\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{second}</text>",
            bottom + 5.0,
            bottom + 21.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">seconds</text>\n\
         <text x=\"16\" y=\"{:.1}\" transform=\"rotate(-90 16 {:.1})\" text-anchor=\"middle\">Gb/s received</text>",
        bottom + 40.0,
        (TOP + bottom) / 2.0,
        (TOP + bottom) / 2.0
    );
}

fn curve(svg: &mut String, frame: &Frame, way: Way, rates: &[f64]) {
    let mut points = String::new();
    for (bin, &gbps) in rates.iter().enumerate() {
        let at_s = (bin as f64 + 0.5) * BIN_S;
        let _ = write!(points, "{:.1},{:.1} ", frame.x(at_s), frame.y(gbps));
    }
    let width = if matches!(way, Way::Tabane(_)) {
        2.5
    } else {
        1.5
    };
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" stroke-linejoin=\"round\" points=\"{}\"/>",
        colour(way),
        points.trim_end()
    );
}

fn legend(svg: &mut String, recordings: &[Recording]) {
    let y = HEIGHT - 18.0;
    for (index, recording) in recordings.iter().enumerate() {
        let x = LEFT + 220.0 * index as f64;
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{:.1}\" x2=\"{}\" y2=\"{:.1}\" stroke=\"{}\" stroke-width=\"3\"/>\n\
             <text x=\"{}\" y=\"{y:.1}\">{}</text>",
            y - 5.0,
            x + 28.0,
            y - 5.0,
            colour(recording.way),
            x + 36.0,
            recording.way
        );
    }
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
