//! `tabane ping`: round trips by each path, as the daemon times them.

mod common;

use std::process::{Command, Output};

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, PATIENCE, output};
use tabane_lab::{Fault, LabConfig};

/// `tabane ping` with these words on node 0.
fn ping(cluster: &Cluster, words: &[&str]) -> Output {
    let mut command: Command = cluster.lab().command(0, tabane());
    command.arg("ping").args(words);
    output("tabane ping", command, PATIENCE).expect("ends")
}

fn report(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}", text(&done.stderr)))
}

#[test]
fn each_link_has_its_round_trips() {
    let cluster = cluster();
    let done = ping(&cluster, &["n1", "--count", "3", "--interval", "0.2"]);
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    for part in [
        "1: link 0 ",
        "3: link 0 ",
        "n0 to n1, 3 rounds",
        "link 1: min ",
    ] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    cluster.lab().fail(1, Fault::Silent, None).expect("fails");
    wait_path(&cluster, 1, "down");
    let done = ping(
        &cluster,
        &["n1", "--count", "2", "--interval", "0.2", "--json"],
    );
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report = report(&done);
    assert_eq!(
        (&report["schema"], &report["rounds"]),
        (&1.into(), &2.into())
    );
    assert_eq!(
        (&report["node"], &report["peer"]),
        (&"n0".into(), &"n1".into())
    );
    let [first, second] = report["ways"].as_array().expect("a list").as_slice() else {
        panic!("{report:#}");
    };
    assert!(first["median_us"].as_u64() > Some(0), "{report:#}");
    assert_eq!(
        (&second["link"], &second["lost"]),
        (&1.into(), &2.into()),
        "{report:#}"
    );
    assert_eq!(second["median_us"], Value::Null);
}

/// Both links to node 1 are cut, and node 2 relays.
#[test]
fn ways_through_others_are_measured_while_they_are_used() {
    let cluster = cluster_on(&LabConfig {
        nodes: 3,
        ..LabConfig::default()
    });
    // Each of the two has another link left.
    for (link, node) in [(0, 0), (1, 1)] {
        cluster
            .lab()
            .fail(link, Fault::Silent, Some(node))
            .expect("fails");
    }
    let mut last = Value::Null;
    eventually("a way through n2 is measured", || {
        let done = ping(&cluster, &["n1", "--count", "1", "--json"]);
        last = report(&done);
        let ways = last["ways"].as_array().expect("a list");
        let through = |way: &&Value| way["via"] == serde_json::json!(["n2"]);
        let answered = |way: &Value| way["count"].as_u64() > Some(0);
        done.status.success() && ways.iter().find(through).is_some_and(answered)
    });
}

#[test]
fn nothing_that_comes_back_is_a_failure() {
    let mut cluster = cluster();
    cluster.stop(1).expect("stops");
    let done = ping(&cluster, &["n1", "--count", "1"]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stdout));
    for (words, code, says) in [
        (&["n7"][..], 1, "no node `n7`; the peers are n1"),
        (&["n0"], 1, "`n0` is this node itself"),
        (&["n1", "--interval", "0"], 2, "0.01 to 3600 seconds"),
        (&[], 2, "<PEER>"),
    ] {
        let done = ping(&cluster, words);
        assert_eq!(done.status.code(), Some(code), "{}", text(&done.stderr));
        assert!(text(&done.stderr).contains(says), "{}", text(&done.stderr));
    }
    cluster.stop(0).expect("stops");
    let done = ping(&cluster, &["n1"]);
    assert_eq!(done.status.code(), Some(3), "{}", text(&done.stderr));
}
