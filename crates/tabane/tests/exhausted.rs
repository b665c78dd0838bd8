//! A daemon that can open no more files goes on with those it has.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use common::*;
use tabane_lab::cluster::{PATIENCE, all_paths_up, output, path_state};

fn limit_files(pid: u32, soft: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &pid.to_string()]);
    prlimit.arg(format!("--nofile={soft}:"));
    let done = output("prlimit", prlimit, PATIENCE).expect("prlimit ends");
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// So that the next one it opens would be one too many.
fn exhaust(pid: u32) {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("is listed");
    let numbers = open.flatten().map(|entry| entry.file_name());
    let open: BTreeSet<u32> = numbers
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    let free = (0..).find(|number| !open.contains(number)).expect("one is");
    limit_files(pid, &free.to_string());
}

#[test]
fn without_descriptors_it_carries_on_and_catches_up_later() {
    let cluster = cluster_on(&slow_links());
    let pid = cluster.daemon(0).expect("runs").id();
    let stream = Stream::start(&cluster);
    exhaust(pid);
    for _ in 0..20 {
        assert!(cluster.status(0).is_err(), "a client was served");
    }
    address(&cluster, "del");
    let gone = |status: &_| path_state(status, "n0", 1) == Some("down");
    cluster
        .wait_status(1, "n1 misses it", gone)
        .expect("status");
    address(&cluster, "add");
    stream.flows(4_000_000);
    limit_files(pid, "1024");
    for node in 0..2 {
        let what = "all paths are up again";
        cluster
            .wait_status(node, what, all_paths_up)
            .expect("status");
    }
    stream.finish();
    let log = cluster.log(0);
    let said = log.lines().filter(|line| line.contains("open files"));
    assert!(
        said.count() <= 3,
        "said once each, not for each try:\n{log}"
    );
}
