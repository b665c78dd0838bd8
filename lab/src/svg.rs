//! A small writer of SVG, in colours for a light and for a dark page; for the demo's picture and bench's.

use std::fmt::{Display, Write};

/// As GitHub's pages are, light and dark. `color` is each one's own.
const STYLE: &str = "\
svg{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}\
.bg{fill:#fff}text{fill:#24292f}.m{fill:#57606a}.h{font-size:16px;font-weight:600}.s{font-size:11.5px}\
.g{stroke:#d8dee4}.a{stroke:#8c959f}.w{stroke:#24292f}.x{fill:#f3e3b3}\
.tcp{color:#4a7fb5}.mptcp{color:#c8553d}.rr{color:#8250a5}.run{color:#9a6700}.lib{color:#a33a7c}.enc{color:#0b6e4f}.plain{color:#5fb08f}.bad{color:#d1242f}\
@media(prefers-color-scheme:dark){\
.bg{fill:#0d1117}text{fill:#e6edf3}.m{fill:#9198a1}.g{stroke:#2a313c}.a{stroke:#656c76}.w{stroke:#e6edf3}.x{fill:#4a3d12}\
.tcp{color:#6ca4df}.mptcp{color:#f0836b}.rr{color:#b78fd6}.run{color:#d4a72c}.lib{color:#e083bd}.enc{color:#2ea97c}.plain{color:#93dcbd}.bad{color:#ff6a62}}";

/// Where a text ends up relative to its point.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// To its right.
    Start,
    /// Around it.
    Middle,
    /// To its left.
    End,
}

/// A picture being drawn; x goes right, y goes down, both in pixels.
#[derive(Debug)]
pub struct Canvas {
    svg: String,
    width: f64,
}

/// To a tenth of a pixel, without what says nothing.
pub fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl Canvas {
    /// An empty picture with a heading, and a description for those who cannot
    /// see it.
    pub fn new(width: f64, height: f64, heading: &str) -> Canvas {
        let title = escape(heading);
        let mut canvas = Canvas {
            svg: format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
                 <title>{title}</title>\n<style>{STYLE}</style>\n\
                 <rect class=\"bg\" width=\"{width}\" height=\"{height}\"/>\n"
            ),
            width,
        };
        canvas.text(16.0, 26.0, Anchor::Start, "h", heading);
        canvas
    }

    /// Text in one of the style's classes (`m` muted, `s` small, `h` heading).
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: impl Display) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, text) = (short(x), short(y), escape(&text.to_string()));
        self.raw(format_args!(
            "<text x=\"{x}\" y=\"{y}\"{anchor} class=\"{class}\">{text}</text>"
        ));
    }

    /// Text that reads upwards, around its point.
    pub fn text_upwards(&mut self, x: f64, y: f64, text: &str) {
        let (x, y, text) = (short(x), short(y), escape(text));
        self.raw(format_args!(
            "<text transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\" class=\"m\">{text}</text>"
        ));
    }

    /// A line in one of the style's classes (`g` grid, `a` axis, `w` whisker).
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(short);
        self.raw(format_args!(
            "<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>"
        ));
    }

    /// A filled rectangle; without a class it has the colour of its group.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        let [x, y, width, height] = [x, y, width, height].map(short);
        let class = match class {
            "" => String::new(),
            class => format!(" class=\"{class}\""),
        };
        self.raw(format_args!(
            "<rect{class} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        ));
    }

    /// What follows until [`Canvas::end`] is in the colour of this class (`tcp`, `mptcp`, `rr`, `enc`, `plain`,
    /// `run`, `lib`, `bad`).
    pub fn group(&mut self, class: &str) {
        self.raw(format_args!("<g class=\"{class}\" fill=\"currentColor\">"));
    }

    /// A line through these points, so wide, in its group's colour.
    pub fn curve(&mut self, points: impl IntoIterator<Item = (f64, f64)>, width: f64) {
        let points: Vec<_> = points
            .into_iter()
            .map(|(x, y)| format!("{},{}", short(x), short(y)))
            .collect();
        self.raw(format_args!(
            "<polyline fill=\"none\" stroke=\"currentColor\" stroke-width=\"{width}\" stroke-linejoin=\"round\" points=\"{}\"/>",
            points.join(" ")
        ));
    }

    /// Ends a group.
    pub fn end(&mut self) {
        self.raw(format_args!("</g>"));
    }

    /// SVG of one's own.
    pub fn raw(&mut self, element: std::fmt::Arguments) {
        let _ = writeln!(self.svg, "{element}");
    }

    /// Colours, by their classes, and names, in as many rows as they need. `y` is the last row's; the others
    /// are above it.
    pub fn legend<'a>(&mut self, x: f64, y: f64, of: impl IntoIterator<Item = (&'a str, &'a str)>) {
        const ROW: f64 = 20.0;
        // Roughly as wide as the letters are.
        let end = |left: f64, name: &str| left + 20.0 + 7.0 * name.chars().count() as f64;
        let (mut left, mut row, mut places) = (x, 0.0, Vec::new());
        for (class, name) in of {
            if left > x && end(left, name) > self.width {
                (left, row) = (x, row + 1.0);
            }
            places.push((class, name, left, row));
            left = end(left, name) + 16.0;
        }
        for (class, name, left, of_row) in places {
            let y = y - ROW * (row - of_row);
            self.group(class);
            self.rect(left, y - 10.0, 14.0, 11.0, "");
            self.end();
            self.text(left + 20.0, y, Anchor::Start, "", name);
        }
    }

    /// The picture.
    pub fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Steps of an axis from 0 that are 1, 2 or 5 times a power of ten, at most
/// `count` of them; the last is not below `highest`.
pub fn steps(highest: f64, count: usize) -> Vec<f64> {
    let wanted = highest.max(1e-9) / count.max(1) as f64;
    let power = 10f64.powf(wanted.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let step = factors
        .iter()
        .map(|factor| factor * power)
        .find(|&step| step >= wanted * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let last = (highest / step - 1e-9).ceil().max(1.0) as usize;
    (0..=last).map(|index| index as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_reach_the_highest() {
        assert_eq!(steps(3.8, 4), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(steps(7.6, 5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(steps(0.2, 4), [0.0, 0.05, 0.1, 0.15000000000000002, 0.2]);
        assert_eq!(steps(0.0, 4).len(), 2);
    }

    #[test]
    fn a_legend_stays_on_the_picture() {
        let mut canvas = Canvas::new(300.0, 100.0, "");
        let names = ["TCP, one link", "MPTCP", "tabane, encrypted", "library"];
        canvas.legend(16.0, 80.0, names.map(|name| ("tcp", name)));
        let svg = canvas.finish();
        for at in [
            "x=\"36\" y=\"60\" class=\"\">TCP",
            "y=\"60\" class=\"\">MPTCP",
            "x=\"36\" y=\"80\" class=\"\">tabane",
        ] {
            assert!(svg.contains(at), "{at}: {svg}");
        }
    }

    #[test]
    fn numbers_are_short_and_text_is_escaped() {
        assert_eq!((short(3.0), short(2.64)), ("3".into(), "2.6".into()));
        let mut canvas = Canvas::new(10.0, 10.0, "a<b & c");
        canvas.legend(0.0, 0.0, [("tcp", "TCP, one link")]);
        let svg = canvas.finish();
        assert!(svg.contains("a&lt;b &amp; c") && !svg.contains("a<b"));
    }
}
