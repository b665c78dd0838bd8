//! What an operator relies on: good files are read, and every bad one is
//! answered with the exact line, cause and remedy.

mod bad_entries;
mod bad_nodes;
mod files;
mod gateway;
mod good;
mod here;
mod ranges;

use std::path::Path;

use super::{Cluster, ConfigError, Problem};

/// A key as good as any.
const KEY: &str = "5f8d3b1c0a9e4d7286f1c3b5a7e9d0124c6b8a0f2e4d6c8b0a9f8e7d6c5b4a39";

const N0: &str = "[[node]]\nname = \"n0\"\nlinks = [\"10.77.0.1\", \"10.77.1.1\"]\n";
const N1: &str = "[[node]]\nname = \"n1\"\nlinks = [\"10.77.0.2\", \"10.77.1.2\"]\n";

/// Parses a file of mode 0600 called `c`, with `KEY`, `N0` and `N1` filled in.
fn parse(template: &str) -> Result<(Cluster, Vec<Problem>), ConfigError> {
    Cluster::parse(Path::new("c"), &fill(template), 0o600)
}

fn fill(template: &str) -> String {
    template
        .replace("{KEY}", &format!("key = \"{KEY}\"\n"))
        .replace("{N0}", N0)
        .replace("{N1}", N1)
}

/// Everything that is said about the file, a line each.
fn said(result: Result<(Cluster, Vec<Problem>), ConfigError>) -> String {
    let problems = match result {
        Ok((_, warnings)) => warnings,
        Err(error) => error.problems,
    };
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// One file each, and all that must be said about it.
fn assert_table(cases: &[(&str, &str)]) {
    for (template, expected) in cases {
        let actual = said(parse(template));
        assert_eq!(
            &actual, expected,
            "\n--- file:\n{template}\n--- said:\n{actual}\n"
        );
        assert!(!actual.contains(KEY), "the key was shown: {actual}");
    }
}
