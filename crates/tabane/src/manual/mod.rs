//! What the command line itself can tell: a manual page for each subcommand,
//! completions for three shells, and the pages of the cluster file and of the provider of libfabric from their documents.

mod markdown;
mod page;
mod sections;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use tabane_cluster::plain;

/// The program's name, of its pages and of its completions.
const NAME: &str = "tabane";

/// Documents that become manual pages, with their sections: the cluster file, and the libfabric provider.
const DOCUMENTS: [(&str, &str, &str, &str); 2] = [
    (
        "tabane-cluster.toml",
        "5",
        "the cluster file of tabane",
        include_str!("../../../../docs/configuration.md"),
    ),
    (
        "fi_tabane",
        "7",
        "the provider of libfabric that uses all links",
        include_str!("../../../../docs/libfabric.md"),
    ),
];

/// Why not everything was written; the caller must act.
#[derive(Debug)]
pub struct GenerateError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, error) = (self.path.display(), plain(&self.error));
        write!(f, "{path}: cannot be written: {error}")
    }
}

impl std::error::Error for GenerateError {}

/// Of the program with this command line: writes `DIRECTORY/man1/*.1`, `DIRECTORY/man5/*.5`, `DIRECTORY/man7/*.7` and
/// `DIRECTORY/completions/{tabane,_tabane,tabane.fish}` (bash, zsh, fish).
///
/// # Errors
/// A directory or file cannot be written.
pub fn generate(program: &Command, directory: &Path) -> Result<(), GenerateError> {
    // `help` repeats what `--help` says; a page for each of its words would be noise.
    let program = program.clone().disable_help_subcommand(true);
    for (name, text) in pages(program.clone()) {
        let section = name.rsplit('.').next().unwrap_or_default();
        write(&directory.join(format!("man{section}")).join(&name), &text)?;
    }
    for (name, text) in completions(program) {
        write(&directory.join("completions").join(name), &text)?;
    }
    Ok(())
}

/// All manual pages: file name (`tabane-up.1`) and content, in roff.
fn pages(mut program: Command) -> Vec<(String, Vec<u8>)> {
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages);
    for (name, section, what, text) in DOCUMENTS {
        let page = markdown::page(name, section, what, text);
        pages.push((format!("{name}.{section}"), page.into_bytes()));
    }
    pages
}

/// The completions: file name, as the shell looks for it, and content.
fn completions(mut program: Command) -> Vec<(&'static str, Vec<u8>)> {
    [
        (Shell::Bash, "tabane"),
        (Shell::Zsh, "_tabane"),
        (Shell::Fish, "tabane.fish"),
    ]
    .map(|(shell, file)| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut program, NAME, &mut text);
        (file, text)
    })
    .into()
}

fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    pages.push((format!("{name}.1"), page::page(command)));
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        add_pages(inner, pages);
    }
}

fn write(path: &Path, text: &[u8]) -> Result<(), GenerateError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| GenerateError {
            path: path.to_owned(),
            error,
        })
}
