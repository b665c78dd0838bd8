//! Lines of the table and bars of the graphs, as wide as there is room.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::changes::Mood;
use crate::status::{Colours, metric};

/// The terminal's capabilities.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Colours, or only bold and reversed.
    pub colours: Colours,
    /// Block elements, or only ASCII.
    pub blocks: bool,
}

impl Look {
    /// As the environment says: `NO_COLOR`, `TERM`, the locale.
    pub fn from_environment() -> Look {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let is_utf8 = |locale: String| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        };
        Look {
            colours: Colours::wanted(true),
            blocks: locale.is_some_and(is_utf8),
        }
    }

    /// How a state is shown.
    pub fn style(self, mood: Mood) -> Style {
        let colour = match mood {
            Mood::Good => Color::Green,
            Mood::Uncertain => Color::Yellow,
            Mood::Bad => Color::Red,
        };
        match (self.colours, mood) {
            (Colours::On, _) => Style::new().fg(colour),
            (Colours::Off, Mood::Good) => Style::new(),
            (Colours::Off, _) => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// How a state is shown in the selected line, which is reversed: green would look like an alarm there, and
    /// black on red is hard to read.
    fn style_selected(self, mood: Mood) -> Style {
        match (self.colours, mood) {
            (_, Mood::Good) => Style::new(),
            (Colours::On, Mood::Bad) => Style::new()
                .fg(Color::White)
                .bg(Color::Red)
                .remove_modifier(Modifier::REVERSED),
            _ => self.style(mood),
        }
    }

    /// Bars for `values` up to `max`, in this many rows, the top row first.
    pub fn bars(self, values: &[f64], max: f64, rows: usize) -> Vec<String> {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', '.', ':', ':', '|', '|', '#', '#'];
        let glyphs = if self.blocks { BLOCKS } else { ASCII };
        let eighths = |value: &f64| {
            let full = rows as f64 * 8.0;
            let height = (value / max * full).clamp(0.0, full);
            // Any traffic is visible.
            if *value > 0.0 {
                (height as usize).max(1)
            } else {
                0
            }
        };
        let heights: Vec<usize> = values.iter().map(eighths).collect();
        let row = |below: usize| {
            let part = |height: &usize| glyphs[height.saturating_sub(8 * below).min(8)];
            heights.iter().map(part).collect()
        };
        (0..rows).rev().map(row).collect()
    }
}

/// Content of a line of the table.
#[derive(Debug, Default)]
pub struct Cells {
    /// Peer, or link and address.
    pub label: String,
    /// A word for the state, and how it should look.
    pub state: Option<(&'static str, Mood)>,
    /// Working and possible paths, and how that should look.
    pub links: (String, Mood),
    /// How long the state lasts.
    pub since: String,
    /// Round trip time.
    pub rtt: String,
    /// Rate sent, and its graph.
    pub out: (f64, String),
    /// Rate received, and its graph.
    pub back: (f64, String),
    /// Loss.
    pub loss: String,
    /// Bytes sent once more.
    pub resent: String,
}

/// How wide the columns are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The first one.
    pub label: usize,
    /// The graphs behind the rates.
    pub graph: usize,
}

/// All columns but the first and the graphs, with a space before each.
const FIXED: usize = 8 + 6 + 7 + 7 + 7 + 7 + 7 + 7;
const LABEL_MIN: usize = 12;
const GRAPH_MAX: usize = 30;

impl Columns {
    /// For a terminal of this width and labels of up to this many characters.
    pub fn fit(width: usize, longest_label: usize) -> Columns {
        let room = width.saturating_sub(FIXED);
        let label = longest_label.clamp(LABEL_MIN, LABEL_MIN.max(room * 2 / 3));
        let graph = (room.saturating_sub(label) / 2).min(GRAPH_MAX);
        Columns { label, graph }
    }

    /// Characters of a graph, behind a space.
    pub fn graph_chars(self) -> usize {
        self.graph.saturating_sub(1)
    }

    /// The line above the table.
    pub fn titles(self, label: &str) -> Line<'static> {
        let Columns { label: wide, graph } = self;
        let text = format!(
            "{label:wide$} {:7} {:>5} {:>6} {:>6} {:>6}{:graph$} {:>6}{:graph$} {:>6} {:>6}",
            "STATE", "LINKS", "SINCE", "RTT", "OUT", "", "IN", "", "LOSS", "RESENT"
        );
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    /// One line of the table.
    pub fn line(self, cells: &Cells, look: Look, is_selected: bool) -> Line<'static> {
        let Columns { label: wide, graph } = self;
        let (state, mood) = cells.state.unwrap_or(("", Mood::Good));
        let (links, links_mood) = &cells.links;
        let style = |mood| match is_selected {
            true => look.style_selected(mood),
            false => look.style(mood),
        };
        let label = cut(&cells.label, wide);
        let rate = |(rate, bars): &(f64, String)| {
            let space = if graph > 0 { " " } else { "" };
            format!(" {:>6}{space}{bars}", metric(*rate))
        };
        let links_style = match links_mood {
            Mood::Good => Style::new(),
            worse => style(*worse),
        };
        let line = Line::from(vec![
            Span::raw(format!("{label:wide$} ")),
            Span::styled(format!("{state:7}"), style(mood)),
            Span::raw(" "),
            Span::styled(format!("{links:>5}"), links_style),
            Span::raw(format!(" {:>6} {:>6}", cells.since, cells.rtt)),
            Span::raw(rate(&cells.out)),
            Span::raw(rate(&cells.back)),
            Span::raw(format!(" {:>6} {:>6}", cells.loss, cells.resent)),
        ]);
        if is_selected {
            line.style(Style::new().add_modifier(Modifier::REVERSED))
        } else {
            line
        }
    }
}

/// Where something is missing.
pub const MARK: &str = "…";

/// Cuts to at most this many characters, with a mark if something is missing.
pub fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars.saturating_sub(1)).collect();
    kept + MARK
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: Look = Look {
        colours: Colours::Off,
        blocks: true,
    };

    #[test]
    fn bars_grow_from_below() {
        assert_eq!(BLOCKS.bars(&[0.0, 1.0, 4.0, 8.0, 9.0], 8.0, 1), [" ▁▄██"]);
        assert_eq!(BLOCKS.bars(&[0.0, 4.0, 6.0, 8.0], 8.0, 2), ["  ▄█", " ███"]);
        assert_eq!(BLOCKS.bars(&[0.0, 0.001], 1e9, 1), [" ▁"]);
        assert_eq!(BLOCKS.bars(&[f64::NAN, 0.0], 0.0, 1), ["  "]);
        assert_eq!(BLOCKS.bars(&[1.0], 1.0, 0), [""; 0]);
        let ascii = Look {
            blocks: false,
            ..BLOCKS
        };
        assert!(
            ascii
                .bars(&[0.0, 1.0, 5.0, 8.0], 8.0, 2)
                .iter()
                .all(|row| row.is_ascii())
        );
    }

    #[test]
    fn columns_fit_from_80_on() {
        for width in 80..300 {
            for label in 0..70 {
                let columns = Columns::fit(width, label);
                let titles = columns.titles("PEER").width();
                assert!(titles <= width, "{width}, {label}: {titles}");
                let cells = Cells {
                    label: "n".repeat(label),
                    out: (1e9, "x".repeat(columns.graph_chars())),
                    back: (1e9, "x".repeat(columns.graph_chars())),
                    ..Cells::default()
                };
                let line = columns.line(&cells, BLOCKS, false).width();
                assert_eq!(line, titles, "{width}, {label}");
            }
        }
        assert!(Columns::fit(80, 12).graph >= 5);
    }
}
