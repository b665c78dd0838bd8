//! Nodes that no other node's cluster file names: each has only itself in its own, and an address of one that admits it.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use common::*;
use serde_json::Value;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, output};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const A_WHILE: Duration = Duration::from_secs(20);

fn lab_of(nodes: usize) -> Cluster {
    let config = LabConfig {
        nodes,
        ..slow_links()
    };
    Cluster::new(lab(&config), tabane(), ClusterConfig::default()).expect("a file")
}

fn file(cluster: &Cluster, node: usize) -> PathBuf {
    cluster.directory().join(format!("n{node}.toml"))
}

/// The file of a node, which has nobody else in it, under this name.
fn write(cluster: &Cluster, node: usize, name: &str, join: &str, entries: &str) {
    let link = |link| cluster.lab().address(node, link);
    let text = format!(
        "key = \"{KEY}\"\n[mesh]\njoin = [{join}]\n{entries}[[node]]\nname = \"{name}\"\nlinks = [\"{}\", \"{}\"]\n\
         vnic = \"10.99.0.{}/24\"\n",
        link(0),
        link(1),
        node + 1
    );
    let file = file(cluster, node);
    fs::write(&file, text).expect("is written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("is private");
}

fn start(cluster: &mut Cluster, node: usize) {
    let mut up = cluster.tabane(node);
    up.arg("up").arg("--config").arg(file(cluster, node));
    cluster.start_as(node, up).expect("starts");
}

/// Nodes of which all but node 0 ask that one.
fn joined(nodes: usize) -> Cluster {
    let mut cluster = lab_of(nodes);
    let seeds = [0, 1].map(|link| format!("\"{}\"", cluster.lab().address(0, link)));
    for node in 0..nodes {
        write(&cluster, node, &format!("n{node}"), &seeds.join(", "), "");
        start(&mut cluster, node);
    }
    for node in 0..nodes {
        wait_reached(&cluster, node, nodes);
    }
    cluster
}

fn nodes(cluster: &Cluster, node: usize) -> Vec<Value> {
    let mut ask = cluster.tabane(node);
    ask.args(["nodes", "--json"]);
    let said = output("tabane nodes", ask, A_WHILE).expect("answers");
    assert!(said.status.success(), "{}", text(&said.stderr));
    let report: Value = serde_json::from_slice(&said.stdout).expect("is JSON");
    assert_eq!(report["schema"], 1);
    report["nodes"].as_array().expect("a list").clone()
}

/// Waits until a node reaches all others of so many, directly.
fn wait_reached(cluster: &Cluster, node: usize, count: usize) {
    let others = (0..count).filter(|other| *other != node);
    let names: Vec<String> = others.map(|other| format!("n{other}")).collect();
    eventually(&format!("n{node} reaches {names:?}"), || {
        let all = nodes(cluster, node);
        let reached = all.iter().filter(|node| {
            node["reached"] == "direct" && node["links_up"] == Value::from(vec![0, 1])
        });
        let reached: Vec<&str> = reached.filter_map(|node| node["name"].as_str()).collect();
        reached == names
    });
}

fn wait_gone(cluster: &Cluster, node: usize, name: &str) {
    eventually(&format!("n{node} has forgotten {name}"), || {
        nodes(cluster, node).iter().all(|node| node["name"] != name)
    });
}

#[test]
fn whoever_joins_is_known_to_all_and_programs_reach_it() {
    let mut cluster = joined(3);
    for (from, to) in [(1, 2), (2, 1), (0, 2)] {
        assert_eq!(pings(&cluster, from, to, 3, 1000), 3, "{from} to {to}");
    }
    let n2 = nodes(&cluster, 1)
        .into_iter()
        .find(|node| node["name"] == "n2");
    let before = n2.expect("is there")["incarnation"]
        .as_u64()
        .expect("is a number");
    // Who is killed and comes back wins over its past.
    cluster.kill(2).expect("ends");
    start(&mut cluster, 2);
    wait_reached(&cluster, 2, 3);
    eventually("it is known anew", || {
        let all = nodes(&cluster, 1);
        let n2 = all.iter().find(|node| node["name"] == "n2");
        n2.is_some_and(|node| node["incarnation"].as_u64() > Some(before))
    });
    assert_eq!(pings(&cluster, 1, 2, 3, 1000), 3);
    // One that leaves is forgotten, and ends.
    let mut leave = cluster.tabane(2);
    leave.arg("leave");
    let said = output("tabane leave", leave, A_WHILE).expect("answers");
    assert_eq!(
        text(&said.stdout),
        "n2 has left the cluster; its daemon ends\n"
    );
    let mut daemon = cluster.take(2).expect("runs");
    assert!(daemon.wait(A_WHILE).expect("ends").success());
    for node in [0, 1] {
        wait_gone(&cluster, node, "n2");
        says(&cluster, node, "n2: left the cluster");
    }
}

/// Waits until the log of a node says this.
fn says(cluster: &Cluster, node: usize, words: &str) {
    eventually(words, || cluster.log(node).contains(words));
}

#[test]
fn who_is_silent_is_forgotten_and_a_twin_is_refused() {
    let mut cluster = lab_of(3);
    let seed = format!("\"{}\"", cluster.lab().address(0, 0));
    for node in 0..3 {
        let name = if node == 2 {
            "n1".to_owned()
        } else {
            format!("n{node}")
        };
        write(&cluster, node, &name, &seed, "forget_after_s = 10\n");
    }
    start(&mut cluster, 0);
    start(&mut cluster, 1);
    wait_reached(&cluster, 0, 2);
    start(&mut cluster, 2);
    says(&cluster, 2, "not admitted by n0 at ");
    says(&cluster, 2, "another node has this one's name");
    says(&cluster, 0, "and so does another machine at ");
    assert_eq!(pings(&cluster, 0, 1, 3, 1000), 3, "the first one goes on");
    // When the first one is gone, the other one may come in, and is not asked for a restart.
    cluster.kill(1).expect("ends");
    eventually("the other one is admitted", || {
        pings(&cluster, 0, 2, 1, 100) == 1
    });
    cluster.kill(2).expect("ends");
    wait_gone(&cluster, 0, "n1");
    says(
        &cluster,
        0,
        "n1: forgotten: nothing was heard of it for long",
    );
}

#[test]
fn a_reload_keeps_who_has_joined_and_adopts_who_is_named() {
    let cluster = joined(3);
    let reload = |cluster: &Cluster| {
        let mut reload = cluster.tabane(0);
        reload.arg("reload");
        let said = output("tabane reload", reload, A_WHILE).expect("answers");
        (
            said.status.success(),
            text(&said.stdout),
            text(&said.stderr),
        )
    };
    assert_eq!(
        reload(&cluster),
        (true, "nothing has changed\n".to_owned(), String::new())
    );
    wait_reached(&cluster, 0, 3);
    // Named in the file, it is not forgotten, whatever it says.
    let own = fs::read_to_string(file(&cluster, 0)).expect("is there");
    let n1 = fs::read_to_string(file(&cluster, 1)).expect("is there");
    let (_, n1) = n1.split_once("[[node]]").expect("has one");
    fs::write(file(&cluster, 0), format!("{own}[[node]]{n1}")).expect("is written");
    let (accepted, _, problems) = reload(&cluster);
    assert!(accepted, "{problems}");
    assert_eq!(pings(&cluster, 0, 1, 3, 1000), 3);
    let joined = |name: &str| {
        let all = nodes(&cluster, 0);
        let node = all.iter().find(|node| node["name"] == name).cloned();
        node.expect("is there")["joined"].clone()
    };
    assert_eq!(
        (joined("n1"), joined("n2")),
        (Value::from(false), Value::from(true))
    );
    let without = own.replace(
        &own[own.find("join").expect("has it")..own.find("[[node]]").expect("has one")],
        "",
    );
    fs::write(file(&cluster, 0), format!("{without}[[node]]{n1}")).expect("is written");
    let (accepted, _, problems) = reload(&cluster);
    assert!(
        !accepted && problems.contains("has no `join` any more"),
        "{problems}"
    );
}

#[test]
fn where_the_files_have_all_nodes_nobody_joins_or_leaves() {
    let mut cluster = lab_of(3);
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    wait_known(&cluster);
    let all = nodes(&cluster, 0);
    assert_eq!(all.len(), 2);
    assert!(all[0]["incarnation"].as_u64().is_some(), "{all:?}");
    assert_eq!(all[1]["reached"], Value::Null, "{all:?}");
    let mut leave = cluster.tabane(0);
    leave.arg("leave");
    let said = output("tabane leave", leave, A_WHILE).expect("answers");
    let why = text(&said.stderr);
    assert!(
        !said.status.success() && why.contains("there is no `join` in `[mesh]`"),
        "{why}"
    );
    let mut table = cluster.tabane(0);
    table.arg("nodes");
    let table = output("tabane nodes", table, A_WHILE).expect("answers");
    assert_eq!(
        text(&table.stdout),
        "NODE  LINKS UP  REACHED\nn1    0,1       direct\nn2    -         no\n"
    );
}

/// Waits until node 0 knows which links of node 1 are up.
fn wait_known(cluster: &Cluster) {
    eventually("n0 knows n1", || {
        let all = nodes(cluster, 0);
        let n1 = all.iter().find(|node| node["name"] == "n1");
        n1.is_some_and(|n1| n1["links_up"] == Value::from(vec![0, 1]) && n1["incarnation"].is_u64())
    });
}
