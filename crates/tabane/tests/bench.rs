//! `tabane bench`: what two daemons measure of their bundle, and what they do not.

mod common;

use std::process::{Command, Output};

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};
use tabane_lab::{LabConfig, LinkSpec};

/// `tabane bench` with these words on a node.
fn bench(cluster: &Cluster, node: usize, words: &[&str]) -> Command {
    let mut command = cluster.lab().command(node, tabane());
    command.arg("bench").args(words);
    command
}

fn ended(command: Command) -> Output {
    output("tabane bench", command, PATIENCE).expect("ends")
}

fn nodes(nodes: usize) -> Cluster {
    cluster_on(&LabConfig {
        nodes,
        links: vec![LinkSpec::mbit(50); 2],
        ..LabConfig::default()
    })
}

/// A long measurement with node 1 that has begun.
fn begun(cluster: &Cluster) -> Program {
    let long = bench(cluster, 0, &["n1", "--seconds", "200"]);
    let long = Program::start_quiet("tabane bench", long).expect("starts");
    eventually("it begins", || {
        cluster
            .log(1)
            .contains("takes part in a measurement of n0's")
    });
    long
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is no number"))
}

#[test]
fn every_figure_is_measured_at_both_ends() {
    let cluster = nodes(2);
    let done = ended(bench(
        &cluster,
        0,
        &["n1", "--json", "--udp", "--seconds", "8"],
    ));
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).expect("is JSON");
    assert_eq!(
        (&report["schema"], &report["seconds"]),
        (&1.into(), &8.into())
    );
    assert_eq!(
        (&report["node"], &report["peer"]),
        (&"n0".into(), &"n1".into())
    );
    let links = report["links"].as_array().expect("a list");
    assert_eq!(links.len(), 2);
    for (number_of, link) in links.iter().enumerate() {
        assert_eq!(link["link"], number_of);
        for figure in [
            "alone_out_mbps",
            "alone_back_mbps",
            "wire_out_mbps",
            "wire_back_mbps",
        ] {
            assert!(number(&link[figure]) > 0.0, "{figure}: {report:#}");
        }
        assert!(number(&link["loss_out_percent"]) <= 100.0, "{report:#}");
    }
    for (way, from, to) in [
        ("out", "n0", "n1"),
        ("back", "n1", "n0"),
        ("both_out", "n0", "n1"),
        ("both_back", "n1", "n0"),
    ] {
        let result = &report[way];
        assert!(number(&result["mbps"]) > 0.0, "{way}: {report:#}");
        assert!(number(&result["sent_packets"]) > 0.0, "{way}: {report:#}");
        assert_eq!(
            (&result["sender"]["node"], &result["receiver"]["node"]),
            (&from.into(), &to.into())
        );
        for end in ["sender", "receiver"] {
            assert!(
                number(&result[end]["cpu_s_per_gb"]) > 0.0,
                "{way}: {report:#}"
            );
        }
        assert_ne!(result["limit"]["text"], "", "{way}: {report:#}");
    }
    for trips in ["idle", "loaded"] {
        assert!(number(&report[trips]["count"]) > 0.0, "{report:#}");
        assert!(number(&report[trips]["median_us"]) > 0.0, "{report:#}");
    }
    for way in ["datagrams_out", "datagrams_back"] {
        assert!(number(&report[way]["sent"]) > 0.0, "{report:#}");
        assert!(number(&report[way]["per_s"]) > 0.0, "{report:#}");
    }
    // Nothing of it is left: no stream, and no link that content is confined to.
    let is_idle = |status: &Value| status["peers"][0]["queued_bytes"] == 0;
    for node in [0, 1] {
        cluster
            .wait_status(node, "nothing is queued", is_idle)
            .expect("status");
    }
    let stream = Stream::start(&cluster);
    stream.flows(1_000_000);
    stream.finish();
}

#[test]
fn for_people_it_is_a_table_and_one_link_is_enough() {
    let cluster = cluster_on(&LabConfig {
        links: vec![LinkSpec::mbit(50)],
        ..LabConfig::default()
    });
    let done = ended(bench(&cluster, 1, &["n0", "--seconds", "3"]));
    assert!(done.status.success(), "{}", text(&done.stderr));
    let table = text(&done.stdout);
    for part in [
        "n1 to n0 and back",
        "all links",
        "both at once",
        "round trips, loaded",
        "limited by",
    ] {
        assert!(table.contains(part), "no {part:?} in {table}");
    }
    assert_eq!(text(&done.stderr), "");
}

/// What others send to the peer keeps all links, and goes on.
#[test]
fn no_link_is_measured_alone_while_others_fill_them() {
    let cluster = nodes(2);
    let stream = Stream::start(&cluster);
    stream.flows(1_000_000);
    let done = ended(bench(&cluster, 0, &["n1", "--json", "--seconds", "4"]));
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).expect("is JSON");
    for link in [0, 1] {
        let link = &report["links"][link];
        assert_eq!(link["alone_out_mbps"], Value::Null, "{report:#}");
        assert!(number(&link["alone_back_mbps"]) > 0.0, "{report:#}");
    }
    assert!(number(&report["out"]["mbps"]) > 0.0, "{report:#}");
    stream.flows(1_000_000);
    stream.finish();
}

#[test]
fn a_node_has_one_measurement_at_a_time_and_says_with_whom() {
    let cluster = nodes(3);
    let mut long = begun(&cluster);
    for (node, peer, says) in [
        (0, "n2", "n0 measures with n1 already"),
        (1, "n2", "n1 measures with n0 already"),
        (2, "n1", "n1 refuses: n1 measures with n0 already"),
    ] {
        let done = ended(bench(&cluster, node, &[peer]));
        let errors = text(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{errors}");
        assert!(errors.contains(says), "{errors}");
    }
    // Whoever began it is gone, so it is over at both ends.
    long.kill();
    eventually("the others may measure", || {
        ended(bench(&cluster, 2, &["n1", "--seconds", "3"]))
            .status
            .success()
    });
    // The peer hears a moment later that it is over.
    eventually("so may the one that took part", || {
        ended(bench(&cluster, 1, &["n0", "--seconds", "3"]))
            .status
            .success()
    });
}

#[test]
fn a_peer_that_stops_ends_it_with_a_reason() {
    let mut cluster = nodes(2);
    let long = begun(&cluster);
    cluster.stop(1).expect("stops");
    let done = long.output(PATIENCE).expect("ends");
    assert_eq!(done.status.code(), Some(1));
    // A peer that was not there is told of, too.
    let done = ended(bench(&cluster, 0, &["n1", "--seconds", "3"]));
    let errors = text(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{errors}");
    assert!(errors.contains("n1 is not connected"), "{errors}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_reason() {
    let mut cluster = nodes(2);
    for (words, code, says) in [
        (&["n7"][..], 1, "no node `n7`; the peers are n1"),
        (&["n0"], 1, "`n0` is this node itself"),
        (&["n1", "--seconds", "2"], 2, "2 is not in 3.."),
        (&[], 2, "<PEER>"),
    ] {
        let done = ended(bench(&cluster, 0, words));
        assert_eq!(done.status.code(), Some(code), "{}", text(&done.stderr));
        assert!(text(&done.stderr).contains(says), "{}", text(&done.stderr));
    }
    cluster.stop(0).expect("stops");
    let done = ended(bench(&cluster, 0, &["n1"]));
    assert_eq!(done.status.code(), Some(3), "{}", text(&done.stderr));
}
