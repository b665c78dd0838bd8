//! Groups of bars.

use super::figures::{Figures, Who};
use crate::measure::throughput;
use crate::{Samples, digits};
use tabane_lab::LINKS_MAX;
use tabane_lab::svg::{Anchor, Canvas, steps};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 784.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 300.0;
/// A narrower bar has no room for three digits behind a point.
const WIDE: f64 = 36.0;

/// A group: its name and its bars.
type Group<'a> = (String, Vec<(Who, &'a Samples)>);

/// Throughput of one TCP stream over 1, 2, 4… links.
pub fn throughput(figures: &Figures) -> Option<String> {
    let of = |links| {
        let name = if links == 1 {
            "1 link".into()
        } else {
            format!("{links} links")
        };
        (name, figures.by_way(&throughput::title(links), "Gb/s"))
    };
    let groups: Vec<Group> = (1..=LINKS_MAX).map(of).collect();
    draw(
        "One TCP stream over links of 1 Gb/s each",
        "Gb/s of payload",
        groups,
    )
}

/// CPU time for each GB carried.
pub fn cpu(figures: &Figures) -> Option<String> {
    let of = |name: &str, title: &str| (name.to_owned(), figures.by_way(title, "CPU s/GB"));
    let groups = vec![
        of("2 links of 1 Gb/s", &throughput::title(2)),
        of("2 links without a line rate", throughput::UNSHAPED_TITLE),
    ];
    let heading = "CPU time of both hosts for each GB of one TCP stream (less is better)";
    draw(heading, "CPU seconds for each GB", groups)
}

fn draw(heading: &str, unit: &str, mut groups: Vec<Group>) -> Option<String> {
    groups.retain(|(_, bars)| !bars.is_empty());
    let all = || groups.iter().flat_map(|(_, bars)| bars);
    let highest = all()
        .filter_map(|(_, samples)| samples.max())
        .reduce(f64::max)?;
    let mut who = Who::ALL.to_vec();
    who.retain(|who| all().any(|(of, _)| of == who));

    let steps = steps(highest, 5);
    let top = steps.last().copied().unwrap_or(1.0);
    let y = |value: f64| BOTTOM - value / top * (BOTTOM - TOP);
    let mut canvas = Canvas::new(WIDTH, HEIGHT, heading);
    for &step in &steps {
        canvas.line((LEFT, y(step)), (RIGHT, y(step)), "g");
        canvas.text(
            LEFT - 8.0,
            y(step) + 4.5,
            Anchor::End,
            "m",
            (step * 100.0).round() / 100.0,
        );
    }
    canvas.text_upwards(18.0, (TOP + BOTTOM) / 2.0, unit);

    let group_width = (RIGHT - LEFT) / groups.len() as f64;
    let bar_width = (group_width * 0.86 / who.len() as f64).min(58.0);
    for (index, (name, bars)) in groups.iter().enumerate() {
        let middle = LEFT + group_width * (index as f64 + 0.5);
        canvas.text(middle, BOTTOM + 20.0, Anchor::Middle, "", name);
        let mut left = middle - bar_width * bars.len() as f64 / 2.0;
        for wanted in &who {
            let Some((_, samples)) = bars.iter().find(|(of, _)| of == wanted) else {
                continue;
            };
            bar(&mut canvas, *wanted, samples, (left, bar_width), y);
            left += bar_width;
        }
    }
    canvas.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "a");
    canvas.legend(LEFT, HEIGHT - 34.0, who.iter().map(|who| who.legend()));
    let note = "Medians; the thin lines go from the least to the greatest.";
    canvas.text(LEFT, HEIGHT - 12.0, Anchor::Start, "m s", note);
    Some(canvas.finish())
}

fn bar(
    canvas: &mut Canvas,
    who: Who,
    samples: &Samples,
    (left, width): (f64, f64),
    y: impl Fn(f64) -> f64,
) {
    let (Some(median), Some(min), Some(max)) = (samples.median(), samples.min(), samples.max())
    else {
        return;
    };
    canvas.group(who.class());
    canvas.rect(left + 1.5, y(median), width - 3.0, BOTTOM - y(median), "");
    canvas.end();
    let middle = left + width / 2.0;
    if samples.0.len() > 1 {
        canvas.line((middle, y(min)), (middle, y(max)), "w");
    }
    let above = y(max) - 5.0;
    let figure = match width < WIDE && median < 1.0 {
        true => format!("{median:.2}"),
        false => digits(median),
    };
    canvas.text(middle, above, Anchor::Middle, "s", figure);
}
