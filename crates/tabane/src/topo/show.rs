//! A topology for people: as text, and as a picture.

use std::fmt::Write;

use super::formats::unknown;
use super::tree::{Branch, trees};
use crate::status::topology::{Network, Topology, Trunk};
use crate::status::{clean, duration};

/// The tree of every network, from the top.
pub fn table(topology: &Topology, now_unix_ms: u64) -> String {
    let age = now_unix_ms.saturating_sub(topology.measured_unix_ms) / 1000;
    let mut text = format!("Measured {} ago.\n", duration(age));
    for network in &topology.networks {
        let _ = writeln!(text, "\nlink {}", network.link);
        for tree in trees(network) {
            list(network, &tree, 1, None, &mut text);
        }
        for ambiguity in &network.doubts {
            let nodes = clean(&ambiguity.nodes.join(", "));
            let _ = match (nodes.is_empty(), &ambiguity.switches[..]) {
                (true, switches) => writeln!(
                    text,
                    "  not sure: how {} are connected",
                    switches.join(", ")
                ),
                (false, []) => writeln!(text, "  not known: where {nodes} is"),
                (false, switches) => writeln!(
                    text,
                    "  not sure: {nodes} may be on {}",
                    switches.join(" or ")
                ),
            };
        }
    }
    text
}

fn list(
    network: &Network,
    branch: &Branch,
    level: usize,
    trunk: Option<&Trunk>,
    text: &mut String,
) {
    let switch = &network.switches[branch.switch];
    let nodes = match switch.nodes.is_empty() {
        true => "(no nodes)".to_owned(),
        false => clean(&switch.nodes.join(" ")),
    };
    let far = match trunk.map_or(1, |trunk| trunk.hops) {
        0 | 1 => String::new(),
        hops => format!("  {hops} trunks away"),
    };
    let mbps = trunk.and_then(|trunk| trunk.mbps);
    let carries = mbps.map_or(String::new(), |mbps| format!("  over {mbps} Mb/s"));
    let sure = switch.confidence * 100.0;
    let _ = writeln!(
        text,
        "{:indent$}{}  {sure:.0}%  {nodes}{far}{carries}",
        "",
        switch.id,
        indent = level * 2
    );
    for (lower, _) in &branch.below {
        let trunk = network.trunk(branch.switch, lower.switch);
        list(network, lower, level + 1, trunk, text);
    }
}

/// How a picture is laid out, in pixels.
const LINE: f64 = 20.0;
const LEVEL: f64 = 170.0;
const LEFT: f64 = 24.0;
/// A node's name is at most so wide, for all that is known.
const LETTER: f64 = 8.0;
/// Nodes of a switch in a line.
const IN_A_LINE: usize = 8;

/// A picture: the tree of every network from left to right.
pub fn svg(topology: &Topology) -> String {
    let mut drawing = Drawing {
        text: String::new(),
        y: LINE * 2.0,
        width: 320.0,
    };
    for network in &topology.networks {
        drawing.words(LEFT, "h", &format!("link {}", network.link));
        for tree in trees(network) {
            drawing.draw(network, &tree, LEFT);
        }
        let lost = unknown(network);
        if !lost.is_empty() {
            drawing.words(LEFT, "m", &format!("not known where: {}", lost.join(" ")));
        }
        drawing.y += LINE;
    }
    let (width, height) = (drawing.width, drawing.y);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>Which nodes share switches</title>\n\
         <style>svg{{font:13px system-ui,sans-serif}}.bg{{fill:#fff}}text{{fill:#24292f}}.m{{fill:#57606a}}\
         .h{{font-weight:600}}rect.s{{fill:#d8dee4}}path{{stroke:#57606a;stroke-width:2;fill:none}}\
         @media(prefers-color-scheme:dark){{.bg{{fill:#0d1117}}text{{fill:#e6edf3}}.m{{fill:#9198a1}}\
         rect.s{{fill:#2a313c}}path{{stroke:#9198a1}}}}</style>\n\
         <rect class=\"bg\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n{}</svg>\n",
        drawing.text
    )
}

struct Drawing {
    text: String,
    /// Position of the next line.
    y: f64,
    width: f64,
}

impl Drawing {
    fn words(&mut self, x: f64, class: &str, words: &str) {
        let y = self.y;
        let shown = words.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\">{shown}</text>"
        );
        let end = x + LETTER * words.chars().count() as f64 + LEFT;
        self.width = self.width.max(end);
        self.y += LINE;
    }

    /// Draws a switch, its nodes, and everything below it; returns the height of its box's
    /// middle.
    fn draw(&mut self, network: &Network, branch: &Branch, x: f64) -> f64 {
        let switch = &network.switches[branch.switch];
        let middle = self.y;
        let title = format!("{} {:.0}%", switch.id, switch.confidence * 100.0);
        let _ = writeln!(
            self.text,
            "<rect class=\"s\" rx=\"3\" x=\"{x:.0}\" y=\"{:.0}\" width=\"86\" height=\"18\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\">{title}</text>",
            middle - 9.0,
            x + 8.0,
            middle + 5.0,
        );
        self.y += 4.0;
        for nodes in switch.nodes.chunks(IN_A_LINE) {
            self.words(x + 96.0, "m", &nodes.join(" "));
        }
        self.y = self.y.max(middle + LINE) + 4.0;
        for (lower, hops) in &branch.below {
            let to = self.draw(network, lower, x + LEVEL);
            let _ = writeln!(
                self.text,
                "<path d=\"M{:.0} {:.0}V{to:.0}H{:.0}\"/>",
                x + 16.0,
                middle + 9.0,
                x + LEVEL
            );
            if *hops > 1 {
                let _ = writeln!(
                    self.text,
                    "<text class=\"m\" x=\"{:.0}\" y=\"{:.0}\">{hops} hops</text>",
                    x + 40.0,
                    to - 4.0
                );
            }
        }
        middle
    }
}
