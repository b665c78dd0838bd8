//! The documents, cut into what a test can look at.

use std::fs;
use std::path::{Path, PathBuf};

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
    let of_docs = fs::read_dir(root.join("docs"))
        .expect("is there")
        .map(|entry| {
            let name = entry.expect("can be read").file_name();
            format!("docs/{}", name.to_str().expect("is text"))
        });
    let mut names: Vec<_> = of_docs.filter(|name| name.ends_with(".md")).collect();
    names.extend(["README.md", "SECURITY.md", "CONTRIBUTING.md"].map(str::to_owned));
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(root.join(&name)).expect("can be read");
        (name, text)
    };
    names.into_iter().map(read).collect()
}

pub fn blocks() -> Vec<Block> {
    let documents = documents();
    documents
        .iter()
        .flat_map(|(name, text)| blocks_of(name, text))
        .collect()
}

fn blocks_of(document: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut mark = None;
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let inside = lines
                .by_ref()
                .take_while(|(line, _)| !line.starts_with("```"));
            blocks.push(Block {
                place: format!("{document}:{number}"),
                language: language.to_owned(),
                text: inside.map(|(line, _)| format!("{line}\n")).collect(),
                mark: mark.take(),
            });
        } else if let Some(comment) = line
            .strip_prefix("<!--")
            .and_then(|l| l.strip_suffix("-->"))
        {
            mark = Some(comment.trim().to_owned());
        } else if !line.is_empty() {
            mark = None;
        }
    }
    blocks
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
