//! `tabane init --scan` and `--answer`: machines that find each other before there is a cluster file.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::*;
use tabane_cluster::Cluster as File;
use tabane_lab::cluster::{Dialogue, PATIENCE, Program, output};
use tabane_lab::{Lab, LabConfig};

/// `tabane init` with these arguments on a machine of the lab.
fn init(lab: &Lab, node: usize, args: &[&str]) -> Command {
    let mut command = lab.command(node, tabane());
    command.arg("init").args(args);
    command
}

/// Three machines, of which the second and the third answer.
fn three() -> (Lab, [Program; 2]) {
    let lab = lab(&LabConfig {
        nodes: 3,
        ..LabConfig::default()
    });
    let answers = [1, 2].map(|node| {
        let name = format!("n{node}");
        let command = init(&lab, node, &["--answer", "--name", &name]);
        Program::start("tabane init --answer", command).expect("starts")
    });
    (lab, answers)
}

fn ended_well(answers: [Program; 2]) {
    for answer in answers {
        let done = answer
            .output(PATIENCE)
            .expect("ends when the file is written");
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    }
}

/// Name and link addresses of each node of a file.
fn nodes(file: &Path) -> Vec<(String, Vec<String>)> {
    let (cluster, warnings) = File::load(file).expect("the file is right");
    assert_eq!(warnings, []);
    let shown = |node: &tabane_cluster::NodeSpec| {
        let links = node.addresses().map(|(_, ip)| ip.to_string());
        (node.name.clone(), links.collect())
    };
    cluster.nodes.iter().map(shown).collect()
}

fn addresses(lab: &Lab, node: usize) -> Vec<String> {
    let address = |link| lab.address(node, link).to_string();
    [0, 1].map(address).to_vec()
}

#[test]
fn machines_that_answer_are_written_into_the_file() {
    let (lab, answers) = three();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cluster.toml");
    let path = file.to_str().expect("ASCII");
    let scan = init(&lab, 0, &["--scan", "--yes", "--name", "n0", path]);
    let done = output("tabane init --scan", scan, PATIENCE).expect("ends");
    let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
    assert_eq!(done.status.code(), Some(0), "{said}");
    ended_well(answers);
    let expected = [0, 1, 2].map(|node| (format!("n{node}"), addresses(&lab, node)));
    assert_eq!(nodes(&file), expected, "{said}");
}

#[test]
fn a_person_takes_leaves_out_and_renames() {
    let (lab, answers) = three();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cluster.toml");
    let path = file.to_str().expect("ASCII");
    let scan = init(&lab, 0, &["--scan", "--name", "head", path]);
    let mut person = Dialogue::start("tabane init --scan", scan).expect("starts");
    // To this machine, n1 and n2.
    for answer in ["", "n", "storage"] {
        person.tell(answer).expect("hears");
    }
    assert_eq!(person.wait().expect("ends").code(), Some(0));
    // Who was left out may go, too.
    ended_well(answers);
    let expected =
        [(0, "head"), (2, "storage")].map(|(node, name)| (name.to_owned(), addresses(&lab, node)));
    assert_eq!(nodes(&file), expected);
}

#[test]
fn where_nobody_answers_nothing_is_written() {
    let lab = lab(&LabConfig::default());
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cluster.toml");
    let path = file.to_str().expect("ASCII");
    let fails = |args: &[&str], right: &str| {
        let done = output("tabane init", init(&lab, 0, args), PATIENCE).expect("ends");
        let said = text(&done.stderr);
        assert!(said.contains(right), "{said}");
        assert_eq!(done.status.code(), Some(1), "{said}");
    };
    fails(
        &["--scan", path],
        "run `tabane init --answer` on the other machines",
    );
    assert!(!file.exists());
    fs::write(&file, "mine").expect("is written");
    fails(&["--scan", path], "is already there and was not touched");
    lab.ip(0, &["address", "flush", "dev", "eth0"])
        .expect("is flushed");
    lab.ip(0, &["address", "flush", "dev", "eth1"])
        .expect("is flushed");
    fails(
        &["--answer"],
        "no interface that is up has a private address",
    );
}
