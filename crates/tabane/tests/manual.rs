//! What is generated from the command line: manual pages and completions.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::CommandFactory;
use tabane_program::cli::Cli;

/// `tabane generate` into a directory of its own, removed afterwards.
struct Generated(PathBuf);

impl Generated {
    fn new(name: &str) -> Generated {
        let name = format!("tabane-manual-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let mut tabane = Command::new(env!("CARGO_BIN_EXE_tabane"));
        said(tabane.arg("generate").arg(&directory));
        Generated(directory)
    }

    fn read(&self, file: &str) -> String {
        let path = self.0.join(file);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for Generated {
    fn drop(&mut self) {
        // Best effort: a directory left among temporary files fails no test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a program that must not fail says.
fn said(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("is there");
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {errors}");
    assert_eq!(errors, "", "{command:?}");
    String::from_utf8(stdout).expect("is text")
}

/// All commands that are shown, with their words: ["lab", "up"].
fn commands() -> Vec<(Vec<String>, clap::Command)> {
    fn add(
        words: Vec<String>,
        command: &clap::Command,
        all: &mut Vec<(Vec<String>, clap::Command)>,
    ) {
        for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            if inner.get_name() != "help" {
                add(
                    [&words[..], &[inner.get_name().to_owned()]].concat(),
                    inner,
                    all,
                );
            }
        }
        all.push((words, command.clone()));
    }
    let mut root = Cli::command();
    root.build();
    let mut all = Vec::new();
    add(Vec::new(), &root, &mut all);
    all
}

/// As a reader sees it: without the marks of roff.
fn plain(page: &str) -> String {
    page.replace("\\fB", "")
        .replace("\\fI", "")
        .replace("\\fR", "")
        .replace("\\-", "-")
}

#[test]
fn every_command_has_a_page_with_all_of_its_options() {
    let generated = Generated::new("pages");
    for (words, command) in commands() {
        let name = ["tabane".to_owned()]
            .iter()
            .chain(&words)
            .cloned()
            .collect::<Vec<_>>()
            .join("-");
        let page = plain(&generated.read(&format!("man1/{name}.1")));
        assert!(page.contains(".SH NAME\n"), "{name}: {page}");
        for argument in command.get_arguments().filter(|a| !a.is_hide_set()) {
            let shown = match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => argument.get_id().as_str().to_uppercase(),
            };
            assert!(
                page.contains(&shown),
                "{name} says nothing of {shown}: {page}"
            );
        }
        for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let inner = inner.get_name();
            assert!(
                inner == "help" || page.contains(&format!("{name}-{inner}(1)")),
                "{name}: {page}"
            );
        }
    }
}

#[test]
fn the_cluster_file_has_a_page_with_all_of_its_keys() {
    let page = plain(&Generated::new("file").read("man5/tabane-cluster.toml.5"));
    for key in [
        "key", "key_file", "wire", "port", "[[node]]", "name", "links", "vnic",
    ] {
        let explained = [" ", "\n"].map(|end| format!("\n.TP\n{key}{end}"));
        let is_there = explained.iter().any(|term| page.contains(term));
        assert!(is_there, "{key} is missing: {page}");
    }
}

#[test]
fn the_provider_of_libfabric_has_a_page_with_all_of_its_variables() {
    let page = plain(&Generated::new("provider").read("man7/fi_tabane.7"));
    assert!(page.starts_with(".TH FI_TABANE 7 "), "{page}");
    for (_, help) in tabane_fi::environment::VARIABLES {
        let help = help.to_str().expect("is text");
        let (name, _) = help.split_once(": ").expect("begins with its name");
        assert!(
            page.contains(&format!("\n.TP\n{name}\n")),
            "{name} is missing: {page}"
        );
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let generated = Generated::new("bash");
    let completed = |words: &str| {
        let count = words.split(' ').count() - 1;
        let file = generated.0.join("completions/tabane");
        let script = format!(
            "source {} && COMP_WORDS=({words}) COMP_CWORD={count} && \
             _tabane tabane \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\" && echo \"${{COMPREPLY[*]}}\"",
            file.display()
        );
        said(Command::new("bash").args(["--norc", "-c", &script]))
    };
    assert_eq!(completed("tabane sta"), "status\n");
    assert_eq!(completed("tabane up --con"), "--config\n");
    assert_eq!(completed("tabane lab fa"), "fail\n");
    assert_eq!(completed("tabane lab fail --mode car"), "carrier\n");
    assert_eq!(completed("tabane run --via mp"), "mptcp\n");
    assert_eq!(completed("tabane lab flood --kind mix"), "mixed\n");
}

#[test]
fn zsh_and_fish_load_theirs() {
    let generated = Generated::new("shells");
    let at = |file: &str| generated.0.join("completions").join(file);
    let zsh = format!(
        "autoload -U compinit && compinit -D -u && source {} && whence -w _tabane",
        at("_tabane").display()
    );
    assert_eq!(
        said(Command::new("zsh").args(["-f", "-c", &zsh])),
        "_tabane: function\n"
    );
    let fish = format!(
        "source {}; complete -C 'tabane sta'",
        at("tabane.fish").display()
    );
    let home = Path::new(&generated.0);
    let told = said(
        Command::new("fish")
            .args(["--no-config", "-c", &fish])
            .env("HOME", home),
    );
    assert!(told.starts_with("status\t"), "{told}");
    let zsh = generated.read("completions/_tabane");
    let programs = zsh.matches("_cmdambivalent").count();
    assert!(
        programs >= 3,
        "run, mpi and lab exec complete programs, not {programs}"
    );
}
