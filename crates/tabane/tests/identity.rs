//! Nodes with key pairs: who has another node's files is not taken for this one, and one
//! node is locked out by its entry alone.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use common::*;
use serde_json::Value;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, output};

const KEY: &str = "5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b01";

/// What an entry of the cluster file says: name, whose links and virtual NIC, `public` line.
type Entry<'a> = (&'a str, usize, &'a str);

/// Three machines on one link, each with its own directory for its files.
fn idle() -> Cluster {
    let config = LabConfig {
        nodes: 3,
        links: vec![tabane_lab::LinkSpec::mbit(200)],
        ..LabConfig::default()
    };
    let cluster = Cluster::new(lab(&config), tabane(), ClusterConfig::default());
    let cluster = cluster.expect("is written");
    for node in 0..3 {
        fs::create_dir(directory(&cluster, node)).expect("is made");
    }
    cluster
}

fn directory(cluster: &Cluster, node: usize) -> PathBuf {
    cluster.directory().join(format!("etc-{node}"))
}

fn file(cluster: &Cluster, node: usize) -> PathBuf {
    directory(cluster, node).join("cluster.toml")
}

fn node_key(cluster: &Cluster, node: usize) -> PathBuf {
    directory(cluster, node).join("node.key")
}

fn run(cluster: &Cluster, node: usize, args: &[&str]) -> Output {
    let mut tabane = cluster.tabane(node);
    tabane.args(args);
    output("tabane", tabane, PATIENCE).expect("ends")
}

fn config(cluster: &Cluster, node: usize) -> String {
    file(cluster, node).to_str().expect("is text").to_owned()
}

/// The line that `tabane key` prints, for the cluster file.
fn public_line(cluster: &Cluster, node: usize) -> String {
    let shown = run(cluster, node, &["key", "--config", &config(cluster, node)]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let line = text(&shown.stdout);
    assert!(line.starts_with("public = \""), "{line}");
    line
}

fn write(cluster: &Cluster, node: usize, entries: &[Entry<'_>]) {
    let mut file_text = format!("key = \"{KEY}\"\n");
    for (name, machine, public) in entries {
        let (link, vnic) = (
            cluster.lab().address(*machine, 0),
            cluster.address(*machine),
        );
        file_text += &format!(
            "[[node]]\nname = \"{name}\"\nlinks = [\"{link}\"]\nvnic = \"{vnic}/24\"\n{public}\n"
        );
    }
    let path = file(cluster, node);
    fs::write(&path, file_text).expect("is written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("is ours");
}

fn start(cluster: &mut Cluster, node: usize) {
    let mut up = cluster.tabane(node);
    up.arg("up").arg("--config").arg(file(cluster, node));
    cluster.start_as(node, up).expect("starts");
}

fn reload(cluster: &Cluster, node: usize) -> String {
    let done = run(cluster, node, &["reload"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout)
}

fn state<'a>(status: &'a Value, peer: &str) -> Option<&'a str> {
    let peers = status["peers"].as_array()?;
    peers.iter().find(|p| p["name"] == peer)?["state"].as_str()
}

/// Waits until node 0 has this peer.
fn wait_up(cluster: &Cluster, peer: &str) {
    let up = |status: &Value| state(status, peer) == Some("up");
    cluster.wait_status(0, peer, up).expect("status");
}

/// What node 0 says of why it refuses the machine, if it does for this reason, and how often it has.
fn refused<'a>(
    cluster: &Cluster,
    status: &'a Value,
    machine: usize,
    reason: &str,
) -> Option<(&'a str, u64)> {
    let address = format!("{}:7577", cluster.lab().address(machine, 0));
    let mut listed = status["refused"].as_array()?.iter();
    let entry = listed.find(|r| r["reason"] == reason && r["address"] == address.as_str())?;
    Some((entry["text"].as_str()?, entry["count"].as_u64()?))
}

/// Waits until node 0 has refused machine 2, which poses as n1, several times more than `before`.
fn wait_refused(cluster: &Cluster, says: &str, before: u64) -> Value {
    let often = |status: &Value| {
        let refused = refused(cluster, status, 2, "wrong_identity");
        refused.is_some_and(|(text, count)| text.contains(says) && count > before + 3)
    };
    let status = cluster.wait_status(0, says, often).expect("status");
    let log = cluster.log(2);
    assert!(!log.contains("n0: connected"), "{log}");
    status
}

#[test]
fn who_has_stolen_another_nodes_files_is_not_taken_for_this_one() {
    let mut cluster = idle();
    let publics = [0, 1, 2].map(|node| public_line(&cluster, node));
    let [p0, p1, p2] = [&publics[0], &publics[1], &publics[2]].map(|line| line.as_str());
    let entries = [("n0", 0, p0), ("n1", 1, p1), ("n2", 2, p2)];
    for node in 0..2 {
        write(&cluster, node, &entries);
        start(&mut cluster, node);
    }
    wait_up(&cluster, "n1");
    let table = text(&run(&cluster, 0, &["status"]).stdout);
    let key = p1.split('"').nth(1).expect("is quoted");
    assert!(
        table.contains(&format!("has shown its key: {key}")),
        "{table}"
    );

    // Machine 2 has all that n2 has, and says that it is n1. Then without any key of its own.
    let with_key: [Entry<'_>; 2] = [("n0", 0, p0), ("n1", 2, p2)];
    let without: [Entry<'_>; 2] = [("n0", 0, ""), ("n1", 2, "")];
    for (thief, says) in [
        (with_key, "has another key"),
        (without, "does not show that node's key"),
    ] {
        write(&cluster, 2, &thief);
        if thief == without {
            fs::remove_file(node_key(&cluster, 2)).expect("was there");
        }
        start(&mut cluster, 2);
        wait_refused(&cluster, says, 0);
        let log = cluster.log(0);
        assert!(log.contains("poses as n1"), "{log}");
        assert!(!log.contains("n1: not connected"), "{log}");
        cluster.stop(2).expect("ends");
    }

    // Nor while the real one is away.
    cluster.stop(1).expect("ends");
    let is_away = |status: &Value| state(status, "n1") != Some("up");
    let before = cluster
        .wait_status(0, "n1 is away", is_away)
        .expect("status");
    start(&mut cluster, 2);
    let (says, before) =
        refused(&cluster, &before, 2, "wrong_identity").expect("was refused before");
    let status = wait_refused(&cluster, says, before);
    assert_ne!(state(&status, "n1"), Some("up"), "{status:#}");
    start(&mut cluster, 1);
    wait_up(&cluster, "n1");
}

#[test]
fn a_node_is_locked_out_and_another_gets_a_new_key_while_all_run() {
    let mut cluster = idle();
    let mut publics = [0, 1, 2].map(|node| public_line(&cluster, node));
    let all = |cluster: &Cluster, publics: &[String; 3]| {
        let entries = [("n0", 0), ("n1", 1), ("n2", 2)];
        let entries = entries.map(|(name, node)| (name, node, publics[node].as_str()));
        (0..3).for_each(|node| write(cluster, node, &entries));
    };
    all(&cluster, &publics);
    for node in 0..3 {
        start(&mut cluster, node);
    }
    wait_up(&cluster, "n1");
    wait_up(&cluster, "n2");

    // n1 gets a new key; each node reads the new file when it comes to it. No connection breaks.
    let flows = |cluster: &Cluster| eventually("pings", || pings(cluster, 0, 1, 3, 56) == 3);
    let old = fs::read(node_key(&cluster, 1)).expect("is there");
    fs::remove_file(node_key(&cluster, 1)).expect("was there");
    publics[1] = public_line(&cluster, 1);
    all(&cluster, &publics);
    for node in [1, 0, 2] {
        let said = reload(&cluster, node);
        assert!(said.contains("has another public key"), "{said}");
        flows(&cluster);
    }
    for node in 0..3 {
        let log = cluster.log(node);
        assert!(!log.contains("not connected"), "{log}");
    }

    // A key that is not the one in the file is told at once, by reload, doctor and up.
    let new = fs::read(node_key(&cluster, 1)).expect("is there");
    fs::write(node_key(&cluster, 1), old).expect("is written");
    let wrong = "the `public` key of node \"n1\" is not that of the private one";
    let done = run(&cluster, 1, &["reload"]);
    assert_eq!(done.status.code(), Some(2), "{}", text(&done.stdout));
    assert!(text(&done.stderr).contains(wrong), "{}", text(&done.stderr));
    let config_1 = config(&cluster, 1);
    let done = run(
        &cluster,
        1,
        &["doctor", "--seconds", "0.5", "--config", &config_1],
    );
    let said = text(&done.stdout);
    let said: Vec<_> = said.split_whitespace().collect();
    assert!(said.join(" ").contains(wrong), "{said:?}");
    cluster.stop(1).expect("ends");
    let done = run(&cluster, 1, &["up", "--config", &config_1]);
    assert_eq!(done.status.code(), Some(2), "{}", text(&done.stdout));
    assert!(text(&done.stderr).contains(wrong), "{}", text(&done.stderr));
    fs::write(node_key(&cluster, 1), new).expect("is written");
    start(&mut cluster, 1);
    flows(&cluster);

    // n2 is taken out; its own files have not changed.
    for node in 0..2 {
        let left = ["n0", "n1"].into_iter().zip(0..);
        let left: Vec<_> = left
            .map(|(name, n)| (name, n, publics[n].as_str()))
            .collect();
        write(&cluster, node, &left);
        assert_eq!(reload(&cluster, node), "n2 removed\n");
    }
    let locked_out = |status: &Value| refused(&cluster, status, 2, "unknown_node").is_some();
    let status = cluster.wait_status(0, "n2 is refused", locked_out);
    assert_eq!(state(&status.expect("status"), "n2"), None);
    let alone = |status: &Value| state(status, "n0") == Some("connecting");
    cluster
        .wait_status(2, "n2 is alone", alone)
        .expect("status");
    flows(&cluster);
}
