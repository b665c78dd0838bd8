//! Nodes without a link in common that works reach each other through others.

mod common;

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, ClusterConfig, all_paths_up};
use tabane_lab::{Fault, LabConfig};

const SOME_BYTES: u64 = 4_000_000;

/// Three nodes; no daemon runs yet.
fn three() -> Cluster {
    let config = LabConfig {
        nodes: 3,
        ..slow_links()
    };
    Cluster::new(lab(&config), tabane(), ClusterConfig::default()).expect("a file")
}

fn start(cluster: &mut Cluster) {
    (0..3).for_each(|node| cluster.start(node).expect("starts"));
}

/// Link 0 of node 0 and link 1 of node 1 carry nothing: they share none that works.
fn cut_crosswise(cluster: &Cluster) {
    for node in [0, 1] {
        let failed = cluster.lab().fail(node, Fault::Silent, Some(node));
        failed.expect("fails");
    }
}

/// Waits until node 0 reaches node 1 by these nodes, or directly if there are none.
fn wait_way(cluster: &Cluster, via: &[&str]) {
    let is_so = |status: &Value| {
        let peers = status["peers"].as_array().into_iter().flatten();
        let mut n1 = peers.filter(|peer| peer["name"] == "n1");
        n1.any(|peer| {
            let relayed = peer["relayed"].as_array().into_iter().flatten();
            let mut working = relayed.filter(|path| path["state"] == "up");
            let is_there = match via {
                [] => peer["paths_up"] == 2 && working.next().is_none(),
                via => working.any(|path| path["via"] == Value::from(via.to_vec())),
            };
            peer["state"] == "up" && is_there
        })
    };
    let what = format!("the way by {via:?}");
    cluster.wait_status(0, &what, is_so).expect("status");
}

#[test]
fn a_stream_goes_on_through_a_third_node_and_back() {
    let mut cluster = three();
    start(&mut cluster);
    for node in 0..3 {
        let up = cluster.wait_status(node, "all paths are up", all_paths_up);
        up.expect("status");
    }
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    cut_crosswise(&cluster);
    wait_way(&cluster, &["n2"]);
    stream.flows(SOME_BYTES);
    assert_eq!(pings(&cluster, 1, 0, 3, 1000), 3);
    for link in 0..2 {
        cluster.lab().heal(link).expect("heals");
    }
    wait_way(&cluster, &[]);
    stream.flows(SOME_BYTES);
    stream.finish();
}

#[test]
fn nodes_that_start_without_a_link_in_common_find_each_other() {
    let mut cluster = three();
    cut_crosswise(&cluster);
    start(&mut cluster);
    wait_way(&cluster, &["n2"]);
    assert_eq!(pings(&cluster, 0, 1, 3, 1000), 3);
    let said = said(&cluster, 0, &format!("{} status", tabane().display()));
    assert!(said.contains("via n2"), "{said}");
}

/// More nodes than a node may have bundles over links: all reach all, and none has more.
#[test]
fn many_nodes_reach_each_other_over_few_bundles() {
    let (nodes, bundles) = (16, 8);
    let config = LabConfig {
        nodes,
        ..slow_links()
    };
    let mut cluster =
        Cluster::new(lab(&config), tabane(), ClusterConfig::default()).expect("a file");
    let file = std::fs::read_to_string(cluster.file()).expect("is there");
    let file = format!("{file}[mesh]\nbundles = {bundles}\n");
    std::fs::write(cluster.file(), file).expect("is written");
    (0..nodes).for_each(|node| cluster.start(node).expect("starts"));
    let within = |status: &Value| {
        let direct = status["node"]["bundles_direct"].as_u64().expect("a number");
        (1..=bundles).contains(&direct)
    };
    for node in 0..nodes {
        cluster
            .wait_status(node, "bundles are there", within)
            .expect("status");
    }
    for from in 0..nodes {
        for to in (0..nodes).filter(|to| *to != from) {
            // The first one may wait for a session.
            let comes = || pings(&cluster, from, to, 1, 100) == 1;
            assert!(comes() || comes(), "n{from} to n{to}");
        }
    }
    for node in 0..nodes {
        let status = cluster.status(node).expect("answers");
        assert!(within(&status), "{:#}", status["node"]);
    }
}
