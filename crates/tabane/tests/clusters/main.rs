//! Programs of several members, unmodified, under `tabane run`, while links fail and members end: stores that agree by
//! votes, databases that follow one another, queues, calls and tunnels that stay open.
//!
//! Together they take many minutes, so `make soak-lab` runs them, and `make test` does not.

#[path = "../common/mod.rs"]
mod common;
#[path = "../programs/site.rs"]
mod site;

mod calls;
mod databases;
mod galera;
mod queues;
mod sentinel;
mod stores;
mod tunnels;
mod zookeeper;

use std::path::Path;
use std::process::Command;

use common::*;
use site::*;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{PATIENCE, Program, output};

/// A place for three members.
fn three() -> Site {
    Site::from(cluster_on(&LabConfig {
        nodes: 3,
        ..slow_links()
    }))
}

/// What a program says that ends well, without any failure.
fn asked(name: &str, command: Command) -> String {
    well(name, &output(name, command, PATIENCE).expect("ends"))
}

/// As [`across_failures`], and a member is killed in the middle.
fn across_failures_and_an_end(
    site: &Site,
    name: &str,
    client: Command,
    member: &mut Program,
) -> String {
    let said = across_failures_and(site, name, client, |failures| {
        if failures == 1 {
            member.kill();
        }
    });
    let ended = member.ended().expect("is known");
    assert!(ended.is_some(), "{name} ended before the member: {said}");
    said
}

/// A file of the place, as programs take it.
fn shown(site: &Site, name: &str) -> String {
    site.directory().join(name).display().to_string()
}

/// A client in Python, by the distribution's Python, which has the distribution's libraries.
fn python(site: &Site, node: usize, script: &str, arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clusters")
        .join(script);
    let mut command = under_run(site, node, "/usr/bin/python3", &["-B"]);
    command.arg(script).args(arguments);
    command
}
