//! `tabane bulk`: streams of a bundle, driven by the program that uses them.

mod common;

use std::process::Stdio;

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, ClusterConfig, Program, Wire, output};
use tabane_lab::{Lab, LabConfig, LinkSpec};

/// A cluster file and no daemon.
fn file_only(nodes: usize, wire: Wire) -> Cluster {
    let config = LabConfig {
        nodes,
        links: vec![LinkSpec::mbit(100); 2],
        ..LabConfig::default()
    };
    let lab = Lab::up(&config).expect("the lab comes up");
    Cluster::new(
        lab,
        tabane(),
        ClusterConfig {
            wire,
            vnic: false,
            ..ClusterConfig::default()
        },
    )
    .expect("a cluster file")
}

fn bulk(cluster: &Cluster, node: usize, args: &[&str]) -> Program {
    let mut command = cluster.tabane(node);
    command.args(["bulk", "--seconds", "1", "--check", "--config"]);
    command.arg(cluster.file()).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Program::start("tabane bulk", command).expect("starts")
}

fn report(program: Program) -> Value {
    let said = program.output(tabane_lab::cluster::PATIENCE).expect("ends");
    let report = serde_json::from_slice(&said.stdout).expect("is JSON");
    assert!(said.status.success(), "{report:#}");
    report
}

#[test]
fn streams_of_several_senders_arrive_whole() {
    for wire in [Wire::Encrypted, Wire::Plain] {
        let cluster = file_only(3, wire);
        let taking = bulk(&cluster, 0, &["--take", "3"]);
        let sending = bulk(&cluster, 1, &["--to", "n0"]);
        let both = report(bulk(&cluster, 2, &["--to", "n0", "--ping", "n0"]));
        let (sent, took) = (report(sending), report(taking));
        let bytes = |of: &Value| of["bytes"].as_u64().expect("a number");
        // Two may have sent as much as each other.
        let taken = took["taken"].as_array().expect("a list");
        let mut taken: Vec<_> = taken.iter().map(bytes).collect();
        for sent in [&both["sent"][0], &sent["sent"][0]] {
            assert_eq!(sent["to"], "n0");
            let arrived = taken.iter().position(|taken| *taken == bytes(sent));
            taken.swap_remove(arrived.unwrap_or_else(|| panic!("{took:#}")));
        }
        for taken in took["taken"].as_array().expect("a list") {
            let intervals = taken["interval_bytes"].as_array().expect("a list");
            let sum: u64 = intervals.iter().filter_map(Value::as_u64).sum();
            assert_eq!(sum, bytes(taken));
            assert!(taken["wrong_at"].is_null() && sum > 0, "{taken:#}");
        }
        assert!(both["pinged"]["count"].as_u64() > Some(0), "{both:#}");
        assert!(both["pinged"]["p99_us"].as_f64() >= both["pinged"]["p50_us"].as_f64());
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let cluster = file_only(2, Wire::Encrypted);
    for (args, says) in [
        (&["--to", "n7"][..], "there is no node \"n7\""),
        (&["--to", "n0"], "n0 is this node"),
        (&[], "nothing to do"),
    ] {
        let mut command = tabane_behind(&cluster, 0, &[], "bulk");
        command.args(args);
        let said = output("tabane bulk", command, tabane_lab::cluster::PATIENCE).expect("ends");
        assert_eq!(said.status.code(), Some(1));
        assert!(text(&said.stderr).contains(says), "{}", text(&said.stderr));
    }
}
