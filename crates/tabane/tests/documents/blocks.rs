//! The documents, cut into what a test can look at.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the guides are.
pub const GUIDES: &str = "docs/guides";

/// What the comments of a guide begin with that are no marks of blocks.
const ORDERS: [&str; 3] = ["machines:", "cut:", "mend:"];

/// What a document consists of, as far as a test looks at it.
pub enum Part {
    Block(Block),
    /// A comment that is no block's mark: its place, and what stands between `<!--` and `-->`.
    Order(String, String),
}

/// A fenced block of a document.
pub struct Block {
    /// "docs/status.md:12", for messages.
    pub place: String,
    /// What follows the fence: `sh`, `toml`, `text`, ….
    pub language: String,
    pub text: String,
    /// The comment right above it: what stands between `<!--` and `-->`.
    pub mark: Option<String>,
}

impl Block {
    /// Why it is not run, if it is marked so.
    pub fn reason(&self) -> Option<&str> {
        self.mark
            .as_deref()?
            .strip_prefix("not run:")
            .map(str::trim)
    }

    /// What a reader would type: all of a `sh` block, the lines after `$ ` of others.
    pub fn script(&self) -> Option<String> {
        if self.language == "sh" {
            return Some(self.text.clone());
        }
        let typed: Vec<_> = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("$ "))
            .collect();
        (!typed.is_empty()).then(|| typed.join("\n"))
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("is there")
}

/// The documents for users and operators: name and text.
pub fn documents() -> Vec<(String, String)> {
    let root = root();
    let names_in = |directory: &str| -> Vec<String> {
        let entries = fs::read_dir(root.join(directory)).expect("is there");
        let names = entries.map(|entry| {
            let name = entry.expect("can be read").file_name();
            format!("{directory}/{}", name.to_str().expect("is text"))
        });
        names.filter(|name| name.ends_with(".md")).collect()
    };
    let mut names = [names_in("docs"), names_in(GUIDES)].concat();
    names.extend(["README.md", "SECURITY.md", "CONTRIBUTING.md"].map(str::to_owned));
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(root.join(&name)).expect("can be read");
        (name, text)
    };
    names.into_iter().map(read).collect()
}

/// Whether a block with this place stands in a guide, which is run as a whole.
pub fn is_of_a_guide(place: &str) -> bool {
    place.starts_with(GUIDES)
}

pub fn blocks() -> Vec<Block> {
    let documents = documents();
    let parts = documents
        .iter()
        .flat_map(|(name, text)| parts_of(name, text));
    let block = |part| match part {
        Part::Block(block) => Some(block),
        Part::Order(..) => None,
    };
    parts.filter_map(block).collect()
}

/// The blocks and orders of a document, in their order.
pub fn parts_of(document: &str, text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut mark = None;
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let place = format!("{document}:{number}");
        if let Some(language) = line.strip_prefix("```") {
            let inside = lines
                .by_ref()
                .take_while(|(line, _)| !line.starts_with("```"));
            parts.push(Part::Block(Block {
                place,
                language: language.to_owned(),
                text: inside.map(|(line, _)| format!("{line}\n")).collect(),
                mark: mark.take(),
            }));
        } else if let Some(comment) = line
            .strip_prefix("<!--")
            .and_then(|l| l.strip_suffix("-->"))
        {
            let comment = comment.trim().to_owned();
            if ORDERS.iter().any(|order| comment.starts_with(order)) {
                parts.push(Part::Order(place, comment));
            } else {
                mark = Some(comment);
            }
        } else if !line.is_empty() {
            mark = None;
        }
    }
    parts
}

/// What stands between backquotes outside of blocks, with its place.
pub fn spans() -> Vec<(String, String)> {
    let mut spans = Vec::new();
    for (name, text) in documents() {
        let mut is_inside = false;
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with("```") {
                is_inside = !is_inside;
            } else if !is_inside {
                let odd = line.split('`').skip(1).step_by(2);
                spans.extend(odd.map(|span| (format!("{name}:{number}"), span.to_owned())));
            }
        }
    }
    spans
}
