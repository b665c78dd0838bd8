//! The documents say what is so: their commands run, their examples are
//! accepted, the options and messages they name exist.
//!
//! Every `sh` block, and every line after `$ ` in another block, is run as it
//! stands on node n0 of a running cluster of two (`n0`, `n1`; two links; `tab0`
//! 10.99.0.1 and .2), as root there, in a directory of its own and with an `/etc`
//! of its own, which has the cluster file. A comment on the line above the block
//! says otherwise:
//!
//! - `<!-- run: fresh -->`: on two machines where nothing is set up yet,
//! - `<!-- not run: REASON -->`: why a test cannot; it must still be right.
//!
//! The guides (`docs/guides`) are followed from their first block to their last: `guides.rs` says how.

mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod guides;
mod machines;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use blocks::{Block, blocks, documents, is_of_a_guide, root, spans};
use common::{lab, tabane, text, wait_path};
use machines::Machines;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{PATIENCE, Scratch, output};

/// Fails with all of them.
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n\n"));
}

#[test]
fn commands_run_on_a_cluster() {
    let machines = Machines::running();
    let mut faults = Vec::new();
    let is_here = |block: &&Block| block.mark.is_none() && !is_of_a_guide(&block.place);
    for block in blocks().iter().filter(is_here) {
        let Some(script) = block.script() else {
            continue;
        };
        let ran = output("bash", machines.command(&script), PATIENCE);
        let what = match ran {
            Ok(ran) if ran.status.success() => continue,
            Ok(ran) => format!("{}{}", text(&ran.stdout), text(&ran.stderr)),
            Err(error) => error.to_string(),
        };
        faults.push(format!(
            "{}: these commands fail on a node of a running cluster. Mend them; or write \
             `<!-- not run: REASON -->` on the line above the block.\n{script}{what}",
            block.place
        ));
    }
    none(faults);
}

#[test]
fn a_fresh_cluster_is_set_up_as_told() {
    let fresh = |block: &Block| block.mark.as_deref() == Some("run: fresh");
    let blocks: Vec<_> = blocks().into_iter().filter(fresh).collect();
    assert!(
        !blocks.is_empty(),
        "the README no longer tells how a cluster is set up"
    );
    for block in blocks {
        let mut machines = Machines::fresh(lab(&LabConfig::default()));
        let script = block.script().expect("has commands");
        let ran = output("bash", machines.command(&script), PATIENCE).expect("ends");
        assert!(
            ran.status.success(),
            "{}: {}{}",
            block.place,
            text(&ran.stdout),
            text(&ran.stderr)
        );
        assert!(machines.up_if_noted(), "the commands end with `tabane up`");
    }
}

#[test]
fn links_and_pictures_of_installed_documents_are_there() {
    let scratch = Scratch::new().expect("is made");
    let mut install = Command::new(root().join("tools/install.sh"));
    install.arg("install").arg(tabane());
    install.env("DESTDIR", scratch.path()).env("PREFIX", "/usr");
    let ran = output("install.sh", install, PATIENCE).expect("ends");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let installed = scratch.path().join("usr/share/doc/tabane");
    let mut faults = Vec::new();
    for (name, document) in documents() {
        assert!(installed.join(&name).exists(), "{name} is not installed");
        let links = document
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'));
        for (link, _) in links {
            let (file, _) = link.split_once('#').unwrap_or((link, ""));
            let beside = installed.join(&name);
            let beside = beside.parent().expect("is in a directory");
            if !file.is_empty() && !link.contains("://") && !beside.join(file).exists() {
                faults.push(format!("{name}: {link} is not installed"));
            }
        }
    }
    none(faults);
}

#[test]
fn marks_are_understood_and_commands_are_a_shells() {
    let mut faults = Vec::new();
    for block in blocks() {
        let Some(script) = block.script() else {
            continue;
        };
        let is_known = match (&block.mark, block.reason()) {
            (_, Some(reason)) => reason.len() > 10,
            // Those of guides are understood where these are followed.
            (Some(_), None) if is_of_a_guide(&block.place) => true,
            (Some(mark), None) => mark == "run: fresh",
            (None, None) => true,
        };
        if !is_known {
            faults.push(format!(
                "{}: the comment above must be `<!-- not run: REASON -->` or `<!-- run: fresh -->`",
                block.place
            ));
        }
        let mut bash = std::process::Command::new("bash");
        bash.args(["-n", "-c", &script]);
        let read = output("bash", bash, PATIENCE).expect("ends");
        if !read.status.success() {
            faults.push(format!("{}: {}", block.place, text(&read.stderr)));
        }
    }
    none(faults);
}

#[test]
fn commands_options_and_targets_that_are_named_exist() {
    let mut faults = Vec::new();
    let scripts = blocks()
        .into_iter()
        .filter_map(|block| Some((block.place.clone(), block.script()?)));
    let lines = scripts.flat_map(|(place, script)| {
        script
            .lines()
            .map(|line| (place.clone(), line.to_owned()))
            .collect::<Vec<_>>()
    });
    for (place, line) in lines.chain(spans()) {
        if let Err(what) = words::check(&line) {
            faults.push(format!("{place}: `{line}`: {what}"));
        }
    }
    none(faults);
}

#[test]
fn cluster_files_that_are_shown_are_accepted() {
    // A part of a file lacks the rest; that is all that may be wrong with it.
    const LACKS: [&str; 3] = ["no nodes yet", "only node", "neither `key` nor `key_file`"];
    let scratch = Scratch::new().expect("is made");
    let mut faults = Vec::new();
    for block in blocks()
        .iter()
        .filter(|b| b.language == "toml" && b.reason().is_none())
    {
        let file = scratch.path().join("cluster.toml");
        let key = "0123456789abcdef".repeat(4);
        fs::write(&file, block.text.replace("…64 hexadecimal digits…", &key)).expect("is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("are set");
        let problems = match tabane_cluster::Cluster::load(&file) {
            Ok((_, warnings)) => warnings,
            Err(error) => error.problems,
        };
        for problem in problems.iter().map(ToString::to_string) {
            if !LACKS.iter().any(|lack| problem.contains(lack)) {
                faults.push(format!("{}: {problem}", block.place));
            }
        }
    }
    none(faults);
}

#[test]
fn messages_of_docs_configuration_are_what_is_said() {
    let blocks = blocks();
    let told = blocks
        .iter()
        .find(|b| {
            b.place.starts_with("docs/configuration.md") && b.text.starts_with("cluster.toml:1:")
        })
        .expect("shows messages");
    let file = format!(
        "key = \"{}\"\nprot = 7577\n\
         [[node]]\nname = \"n0\"\nlinks = [\"10.77.0.1\", \"10.77.1.1\"]\nvnic = \"10.99.0.1/24\"\n\
         [[node]]\nname = \"n1\"\nlinks = [\"10.77.0.2/24\", \"10.77.0.1\"]\nvnic = \"10.98.0.2/24\"\n",
        "0123456789abcdef".repeat(4).split_at(63).0
    );
    let scratch = Scratch::new().expect("is made");
    let path = scratch.path().join("cluster.toml");
    fs::write(&path, file).expect("is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("are set");
    let said = tabane_cluster::Cluster::load(&path)
        .expect_err("is wrong")
        .to_string();
    let without_lines = |text: &str| -> BTreeSet<String> {
        let message = |line: &str| {
            Some(
                line.split_once("cluster.toml:")?
                    .1
                    .split_once(": ")?
                    .1
                    .to_owned(),
            )
        };
        let line_of_node = |m: String| match m.split_once(" (line ") {
            Some((before, after)) => {
                format!("{before}{}", after.split_once(')').map_or("", |(_, a)| a))
            }
            None => m,
        };
        text.lines().filter_map(message).map(line_of_node).collect()
    };
    assert_eq!(without_lines(&told.text), without_lines(&said));
}

#[test]
fn messages_that_are_explained_are_in_the_program() {
    let mut program = String::new();
    for entry in fs::read_dir(root().join("crates/cluster/src")).expect("is there") {
        let path = entry.expect("can be read").path();
        if path.extension().is_some_and(|e| e == "rs") {
            program += &fs::read_to_string(path).expect("can be read");
        }
    }
    // A message that is broken over lines is one all the same.
    let program = words::joined(&program);
    let (_, document) = documents()
        .into_iter()
        .find(|(name, _)| name == "docs/configuration.md")
        .expect("is there");
    let mut faults = Vec::new();
    let mut is_table = false;
    for line in document.lines() {
        is_table = line.starts_with('|') && (is_table || line.starts_with("| the message says"));
        let first = line
            .trim_start_matches('|')
            .split('|')
            .next()
            .unwrap_or_default()
            .trim();
        if !is_table || first.starts_with("---") || first == "the message says" {
            continue;
        }
        for piece in words::literal_pieces(first) {
            if !words::is_said(&piece, &program) {
                faults.push(format!(
                    "docs/configuration.md explains `{first}`, but nothing says `{piece}`"
                ));
            }
        }
    }
    none(faults);
}

#[test]
fn the_status_that_is_shown_looks_like_the_real_one() {
    let cluster = common::cluster();
    let status = || {
        let mut status = cluster.tabane(0);
        status.arg("status");
        text(
            &output("tabane status", status, PATIENCE)
                .expect("ends")
                .stdout,
        )
    };
    let mut real = status();
    cluster
        .lab()
        .fail(1, tabane_lab::Fault::Silent, None)
        .expect("fails");
    wait_path(&cluster, 1, "down");
    real += &status();
    // What the table's own test has, too: states that do not come on demand.
    real += include_str!("../../src/status/tests/status.txt");
    let known: BTreeSet<String> = real.lines().map(words::shape).collect();
    let mut faults = Vec::new();
    let mut count = 0;
    // What guides show is compared where they are followed.
    let own = |block: &Block| !is_of_a_guide(&block.place);
    for block in blocks().into_iter().filter(own) {
        let Some((_, sample)) = block.text.split_once("$ tabane status\n") else {
            continue;
        };
        count += 1;
        let sample = sample.lines().take_while(|line| !line.starts_with("$ "));
        for line in sample.filter(|line| !known.contains(&words::shape(line))) {
            faults.push(format!(
                "{}: `tabane status` shows no such line: {line}",
                block.place
            ));
        }
    }
    assert!(count > 0, "no document shows `$ tabane status`");
    none(
        faults
            .into_iter()
            .chain((!real.contains("PEER, LINK")).then(|| real.clone()))
            .collect(),
    );
}
