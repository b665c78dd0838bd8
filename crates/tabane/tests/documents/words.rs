//! What is read out of lines: commands, options, messages.

use std::fs;

use clap::CommandFactory;
use tabane_program::cli::Cli;

/// Whether the `tabane …` and `make …` of a line of shell, or of a code span, exist.
pub fn check(line: &str) -> Result<(), String> {
    // A comment is for people; brackets only say what may be left out.
    let line = line
        .split(" #")
        .next()
        .unwrap_or_default()
        .replace(['[', ']'], " ");
    for part in line.split(['|', ';', '&', '(', ')']) {
        let words: Vec<_> = part
            .split_whitespace()
            .skip_while(|word| *word == "sudo")
            .collect();
        match words.split_first() {
            Some((&"tabane", rest)) => command(rest)?,
            Some((&"make", rest)) => targets(rest)?,
            _ => {}
        }
    }
    Ok(())
}

/// `lab fail 1 --mode oneway`: the words after `tabane`.
fn command(words: &[&str]) -> Result<(), String> {
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for word in words {
        if *word == "--" {
            return Ok(());
        }
        if let Some(option) = word.strip_prefix("--") {
            let option = option.split('=').next().unwrap_or_default();
            let has = |c: &clap::Command| c.get_arguments().any(|a| a.get_long() == Some(option));
            if !has(command) && option != "version" {
                return Err(format!("`{}` has no option --{option}", command.get_name()));
            }
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
        } else if command.has_subcommands() {
            let is_word = word.starts_with(|c: char| c.is_ascii_lowercase());
            if is_word {
                return Err(format!("`{}` has no command `{word}`", command.get_name()));
            }
            return Ok(());
        }
    }
    Ok(())
}

fn targets(words: &[&str]) -> Result<(), String> {
    let makefile = fs::read_to_string(super::root().join("Makefile")).expect("can be read");
    // What follows a variable may be a part of its quoted value.
    for word in words.iter().take_while(|word| !word.contains('=')) {
        let is_there = makefile
            .lines()
            .any(|line| line.starts_with(&format!("{word}:")));
        if !is_there && !word.starts_with('-') {
            return Err(format!("the Makefile has no target {word}"));
        }
    }
    Ok(())
}

/// Rust source with its string literals that go on over several lines as one.
pub fn joined(source: &str) -> String {
    let mut out = String::new();
    for line in source.lines() {
        match line.trim_end().strip_suffix('\\') {
            Some(start) if out.ends_with(' ') => out += start.trim_start(),
            Some(start) => out += start,
            None if out.ends_with(' ') => out = out + line.trim_start() + "\n",
            None => out = out + line + "\n",
        }
    }
    out.replace("\\\"", "\"")
}

/// The literal parts of "link … has the same address as link …; …": what is
/// the same in each such message.
pub fn literal_pieces(explained: &str) -> Vec<String> {
    let without_note = explained.split(" (warning)").next().unwrap_or_default();
    let pieces = without_note.split(['…', ';', '`', '"', ',']);
    let is_literal = |piece: &str| !piece.chars().any(|c| c.is_ascii_digit()) && piece.len() > 4;
    pieces
        .map(|piece| piece.trim().to_owned())
        .filter(|piece| is_literal(piece))
        .collect()
}

/// Whether the program's text has this piece, be it in two parts: what is in
/// between, or behind, may be filled in ("the key {error}").
pub fn is_said(piece: &str, program: &str) -> bool {
    let splits = piece.match_indices(' ').map(|(at, _)| piece.split_at(at));
    program.contains(piece)
        || splits
            .into_iter()
            .any(|(one, two)| program.contains(one) && program.contains(two.trim()))
}

/// A line of `tabane status` without what differs from one moment to the next.
pub fn shape(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let word = word.trim_end_matches([',', ':']);
        let is_value = word == "-" || word.contains(|c: char| c.is_ascii_digit());
        if is_value { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}
