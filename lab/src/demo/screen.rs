//! What is seen while the demo runs: a moving picture on a terminal, plain
//! lines anywhere else.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use super::graph;
use super::recording::Recording;
use super::script::{END_S, LINKS};
use crate::sys;

const FULL_GBPS: f64 = 2.0;
const HEIGHT: usize = 9;
const WIDTH_MAX: usize = 100;
/// Left of the graph: `2.0 ┤`.
const MARGIN: usize = 6;

const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

/// How a link is, in the eyes of whoever uses it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkView {
    /// `up`, `down`, …; empty if nobody says.
    pub state: String,
    /// Why.
    pub why: String,
    /// What it carries, Mb/s.
    pub mbps: Option<f64>,
    /// Round trip, µs.
    pub rtt_us: Option<f64>,
}

/// Where the demo is shown.
pub struct Screen {
    /// Columns of the terminal, if it is one that can be drawn on.
    terminal: Option<usize>,
    has_colours: bool,
    is_cursor_hidden: bool,
    /// How many lines of the picture are on it.
    drawn: usize,
    plain_until_s: f64,
}

impl Screen {
    /// Standard output, whatever it is.
    pub fn new() -> Screen {
        let stdout = io::stdout();
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let size = sys::terminal_size(stdout.as_fd());
        Screen {
            terminal: size
                .filter(|&(columns, rows)| {
                    stdout.is_terminal() && !is_dumb && columns >= 40 && rows >= 20
                })
                .map(|(columns, _)| columns),
            has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            is_cursor_hidden: false,
            drawn: 0,
            plain_until_s: 0.0,
        }
    }

    /// A run begins.
    pub fn begin(&mut self, title: &str) {
        let title = if self.terminal.is_some() {
            format!("{}\x1b[?25l", self.coloured(BOLD, title))
        } else {
            title.to_owned()
        };
        (self.drawn, self.plain_until_s) = (0, 0.0);
        self.is_cursor_hidden = self.terminal.is_some();
        say(&format!("\n{title}\n"));
    }

    /// Something happened. On a terminal the picture shows it.
    pub fn event(&mut self, at_s: f64, what: &str) {
        if self.terminal.is_none() {
            say(&format!("{at_s:5.1} s  {what}\n"));
        }
    }

    /// Show how far the run is.
    pub fn show(&mut self, recording: &Recording, links: &[LinkView; LINKS]) {
        match self.terminal {
            Some(columns) => self.draw(columns, recording, links),
            None => self.tell(recording, links),
        }
    }

    /// The run is over; what comes next is written below its picture.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.is_cursor_hidden) {
            say("\x1b[?25h");
        }
        self.drawn = 0;
    }

    /// A line every half second.
    fn tell(&mut self, recording: &Recording, links: &[LinkView; LINKS]) {
        const EVERY_S: f64 = 0.5;
        while recording.end_s() >= self.plain_until_s + EVERY_S {
            let from_s = self.plain_until_s;
            self.plain_until_s += EVERY_S;
            let rate = recording.gbps(from_s, self.plain_until_s);
            let known = links.iter().enumerate();
            let known = known.filter(|(_, view)| !view.state.is_empty());
            let states: String = known
                .map(|(link, view)| format!("  link {link} {}", view.state))
                .collect();
            say(&format!(
                "{:5.1} s  {rate:.2} Gb/s{states}\n",
                self.plain_until_s
            ));
        }
    }

    fn draw(&mut self, columns: usize, recording: &Recording, links: &[LinkView; LINKS]) {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        let lines = self.picture(columns, recording, links);
        for line in &lines {
            text.push_str(&format!("\r{line}\x1b[K\n"));
        }
        self.drawn = lines.len();
        say(&text);
    }

    fn picture(
        &self,
        columns: usize,
        recording: &Recording,
        links: &[LinkView; LINKS],
    ) -> Vec<String> {
        let width = columns.saturating_sub(MARGIN + 1).min(WIDTH_MAX);
        let bin_s = END_S / graph::columns(width) as f64;
        let bins = ((recording.end_s() / bin_s) as usize).min(graph::columns(width));
        let rates: Vec<f64> = (0..bins)
            .map(|bin| recording.gbps(bin as f64 * bin_s, (bin + 1) as f64 * bin_s))
            .collect();
        let mut lines = Vec::new();
        for (row, line) in graph::area(&rates, FULL_GBPS, width, HEIGHT)
            .iter()
            .enumerate()
        {
            let label = match row {
                0 => "2.0",
                row if row == HEIGHT / 2 => "1.0",
                _ => "",
            };
            lines.push(format!("{label:>4} │{}", self.coloured(GREEN, line)));
        }
        let until_s = recording.end_s();
        let axis = |column: usize| column as f64 / width as f64 * END_S;
        let mark = |column: usize| match recording.silent_at(axis(column)) {
            Some(_) if axis(column) <= until_s => '▒',
            _ => '─',
        };
        let marks: String = (0..width).map(mark).collect();
        lines.push(format!(" 0.0 └{}", self.coloured(YELLOW, &marks)));
        let now = recording.gbps((until_s - 0.25).max(0.0), until_s);
        let legend = format!("      Gb/s over {END_S:.0} s; now {until_s:4.1} s, {now:.2} Gb/s");
        let length = legend.chars().count();
        lines.push(clip(columns, (legend, length)));
        for (link, view) in links.iter().enumerate() {
            let is_silent = recording.silent_at(until_s) == Some(link);
            lines.push(clip(columns, self.link_line(link, view, is_silent)));
        }
        lines
    }

    /// The switch as the lab has it, the link as `tabane status` has it.
    fn link_line(&self, link: usize, view: &LinkView, is_silent: bool) -> (String, usize) {
        let (colour, switch) = if is_silent {
            (RED, "silent")
        } else {
            (GREEN, "works ")
        };
        let mut plain = format!("switch {link} {switch}");
        let mut shown = format!("switch {link} {}", self.coloured(colour, switch));
        if !view.state.is_empty() {
            let colour = match view.state.as_str() {
                "up" => GREEN,
                "down" => RED,
                _ => YELLOW,
            };
            let mut rest = String::new();
            if let Some(mbps) = view.mbps {
                rest.push_str(&format!("  {mbps:6.0} Mb/s"));
            }
            if let Some(rtt_us) = view.rtt_us {
                rest.push_str(&format!("  rtt {:.1} ms", rtt_us / 1000.0));
            }
            if !view.why.is_empty() {
                rest.push_str(&format!("  ({})", view.why));
            }
            plain.push_str(&format!("   link {link} {:<10}{rest}", view.state));
            let state = format!("{:<10}", view.state);
            shown.push_str(&format!(
                "   link {link} {}{rest}",
                self.coloured(colour, &state)
            ));
        }
        (shown, plain.chars().count())
    }

    fn coloured(&self, colour: &str, text: &str) -> String {
        if self.has_colours {
            format!("{colour}{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }
}

/// Leaves the terminal usable, also after an error.
impl Drop for Screen {
    fn drop(&mut self) {
        self.end();
    }
}

/// A line that would wrap around breaks the picture: its end is cut off. The
/// length is that of what is seen.
fn clip(columns: usize, (line, length): (String, usize)) -> String {
    let excess = (length + 1).saturating_sub(columns);
    let keep = line.chars().count().saturating_sub(excess);
    line.chars().take(keep).collect()
}

/// A reader that went away is no reason to stop before all is removed.
pub fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::super::recording::example;
    use super::*;

    fn screen() -> Screen {
        Screen {
            terminal: Some(80),
            has_colours: false,
            is_cursor_hidden: false,
            drawn: 0,
            plain_until_s: 0.0,
        }
    }

    #[test]
    fn the_picture_fits_the_terminal() {
        let mut links: [LinkView; LINKS] = Default::default();
        links[1] = LinkView {
            state: "down".into(),
            why: "nothing arrived while other links worked, and much more was said about it".into(),
            mbps: Some(940.0),
            rtt_us: Some(300.0),
        };
        for columns in [40, 80, 200] {
            let lines = screen().picture(columns, &example(), &links);
            assert_eq!(lines.len(), HEIGHT + 2 + LINKS);
            for line in lines {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn failures_are_marked_below_the_graph() {
        let lines = screen().picture(80, &example(), &Default::default());
        let marks = lines[HEIGHT].matches('▒').count();
        // One second of the script's length.
        assert!((3..=6).contains(&marks), "{}", lines[HEIGHT]);
    }
}
