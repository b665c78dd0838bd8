//! The cluster file changes while the daemons run: what stays goes on, what
//! cannot be is refused as a whole.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{
    Cluster, ClusterConfig, PATIENCE, all_paths_up, output, path, path_state,
};
use tabane_lab::{LabConfig, LinkSpec};

const KEYS: [&str; 2] = [
    "5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b0c5f8d0b01",
    "a1d0b0ca1d0b0ca1d0b0ca1d0b0ca1d0b0ca1d0b0ca1d0b0ca1d0b0ca1d0b0c2",
];

/// What a cluster file says.
#[derive(Clone)]
struct Words {
    key: &'static str,
    second_key: Option<&'static str>,
    more: &'static str,
    /// Name, links, and number of its virtual NIC's address.
    nodes: Vec<(String, Vec<String>, usize)>,
}

impl Words {
    /// The first nodes of a lab, on its first links.
    fn of(cluster: &Cluster, nodes: usize, links: usize) -> Words {
        let node = |node: usize| {
            let address = |link| cluster.lab().address(node, link).to_string();
            (format!("n{node}"), (0..links).map(address).collect(), node)
        };
        Words {
            key: KEYS[0],
            second_key: None,
            more: "",
            nodes: (0..nodes).map(node).collect(),
        }
    }

    fn text(&self, cluster: &Cluster) -> String {
        let mut text = format!("key = \"{}\"\n{}", self.key, self.more);
        if let Some(key) = self.second_key {
            text += &format!("second_key = \"{key}\"\n");
        }
        for (name, links, vnic) in &self.nodes {
            let vnic = cluster.address(*vnic);
            text +=
                &format!("[[node]]\nname = \"{name}\"\nlinks = {links:?}\nvnic = \"{vnic}/24\"\n");
        }
        text
    }
}

/// Each node has a file of its own here, since they change one by one.
fn file(cluster: &Cluster, node: usize) -> PathBuf {
    cluster.directory().join(format!("cluster-{node}.toml"))
}

fn write(cluster: &Cluster, node: usize, text: &str) {
    let path = file(cluster, node);
    fs::write(&path, text).expect("is written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("is ours");
}

fn start(cluster: &mut Cluster, node: usize) {
    let mut up = cluster.tabane(node);
    up.arg("up").arg("--config").arg(file(cluster, node));
    up.args(["--node", &format!("n{node}")]);
    cluster.start_as(node, up).expect("starts");
}

fn run(cluster: &Cluster, node: usize, args: &[&str]) -> Output {
    let mut tabane = cluster.tabane(node);
    tabane.args(args);
    output("tabane", tabane, PATIENCE).expect("ends")
}

/// Has a node read this file; it must be accepted. Returns what has changed.
fn reload(cluster: &Cluster, node: usize, words: &Words) -> String {
    write(cluster, node, &words.text(cluster));
    let done = run(cluster, node, &["reload"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout)
}

/// Has a node read this file; it must be refused. Returns why.
fn refused(cluster: &Cluster, node: usize, file: &str) -> String {
    write(cluster, node, file);
    let refused = run(cluster, node, &["reload"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
    assert_eq!(text(&refused.stdout), "");
    text(&refused.stderr)
}

/// A lab whose nodes are not started.
fn idle(nodes: usize, links: usize) -> Cluster {
    let lab = lab(&LabConfig {
        nodes,
        links: vec![LinkSpec::mbit(200); links],
        ..LabConfig::default()
    });
    Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written")
}

/// The first two nodes, running with these words.
fn two(cluster: &mut Cluster, words: &Words) {
    for node in 0..2 {
        write(cluster, node, &words.text(cluster));
        start(cluster, node);
    }
    for node in 0..2 {
        let up = cluster.wait_status(node, "all paths are up", all_paths_up);
        up.expect("status");
    }
}

fn links(status: &Value, peer: &str) -> Vec<u64> {
    let peers = status["peers"].as_array().into_iter().flatten();
    let paths = peers
        .filter(|p| p["name"] == peer)
        .flat_map(|p| p["paths"].as_array());
    paths.flatten().filter_map(|p| p["link"].as_u64()).collect()
}

#[test]
fn nodes_and_links_come_and_go_under_a_stream() {
    let mut cluster = idle(3, 3);
    let mut words = Words::of(&cluster, 2, 2);
    two(&mut cluster, &words);
    let stream = Stream::start(&cluster);
    stream.flows(1_000_000);

    words = Words::of(&cluster, 3, 2);
    write(&cluster, 2, &words.text(&cluster));
    start(&mut cluster, 2);
    assert_eq!(reload(&cluster, 0, &words), "n2 added\n");
    assert_eq!(reload(&cluster, 1, &words), "n2 added\n");
    stream.flows(1_000_000);
    eventually("the new node answers", || pings(&cluster, 0, 2, 3, 56) == 3);
    assert_eq!(reload(&cluster, 0, &words), "nothing has changed\n");

    // A third link for all; the nodes are told one by one.
    words = Words::of(&cluster, 3, 3);
    for node in 0..3 {
        let said = reload(&cluster, node, &words);
        let address = cluster.lab().address(node, 2);
        assert!(
            said.starts_with(&format!("link 2 added, {address}\n")),
            "{said}"
        );
        stream.flows(1_000_000);
    }
    wait_path(&cluster, 2, "up");

    // And the first one goes.
    for (_, links, _) in &mut words.nodes {
        links[0] = String::new();
    }
    for node in [1, 0, 2] {
        let said = reload(&cluster, node, &words);
        assert!(said.starts_with("link 0 removed\n"), "{said}");
        stream.flows(1_000_000);
    }
    let status = cluster.status(0).expect("status");
    assert_eq!(links(&status, "n1"), [1, 2], "{status:#}");
    stream.flows(4_000_000);

    words.nodes.pop();
    for node in 0..2 {
        assert_eq!(reload(&cluster, node, &words), "n2 removed\n");
    }
    stream.flows(1_000_000);
    stream.finish();
    let status = cluster.status(0).expect("status");
    assert_eq!(status["peers"].as_array().map(Vec::len), Some(1));
    let told = |status: &Value| {
        let refused = status["refused"].as_array().into_iter().flatten();
        refused.into_iter().any(|r| r["reason"] == "unknown_node")
    };
    cluster
        .wait_status(0, "the removed node is refused", told)
        .expect("status");
    let log = cluster.log(0);
    for link in 0..3 {
        let line = format!("refused a node at {}", cluster.lab().address(2, link));
        assert!(log.matches(&line).count() <= 1, "once for each link: {log}");
    }
}

#[test]
fn a_link_gets_another_address_under_a_stream() {
    let mut cluster = idle(2, 2);
    let mut words = Words::of(&cluster, 2, 2);
    two(&mut cluster, &words);
    let stream = Stream::start(&cluster);
    let old = words.nodes[1].1[1].clone();
    let new = old.replace(".2", ".77");
    let mut ip = cluster.lab().command(1, "ip");
    ip.args(["-brief", "address", "show", "to", &old]);
    let shown = text(&output("ip", ip, PATIENCE).expect("ip ends").stdout);
    let device = shown.split(['@', ' ']).next().expect("has the address");
    let add = ["address", "add", &format!("{new}/24"), "dev", device];
    cluster.lab().ip(1, &add).expect("is added");

    words.nodes[1].1[1] = new.clone();
    let said = format!("n1: link 1 is now {new}, was {old}\n");
    assert_eq!(reload(&cluster, 0, &words), said);
    stream.flows(4_000_000);
    let said = format!("link 1 is now {new}, was {old}\n");
    assert_eq!(reload(&cluster, 1, &words), said);
    stream.flows(4_000_000);
    let moved = |status: &Value| {
        let remote = path(status, "n1", 1).and_then(|p| p["remote"].as_str());
        let is_new = remote.is_some_and(|r| r.starts_with(&new));
        is_new && path_state(status, "n1", 1) == Some("up")
    };
    cluster
        .wait_status(0, "the path is up at its new address", moved)
        .expect("status");
    stream.finish();
}

#[test]
fn a_bad_file_is_refused_and_the_old_one_stays() {
    let mut cluster = idle(3, 2);
    let words = Words::of(&cluster, 2, 2);
    two(&mut cluster, &words);
    let stream = Stream::start(&cluster);
    let good = words.text(&cluster);
    let path = file(&cluster, 0);
    let shown = path.display();

    let said = refused(&cluster, 0, &good.replace("[[node]]", "[[node"));
    assert!(said.contains(&format!("{shown}:2: is not TOML")), "{said}");
    // All that is wrong at once, and nothing of it is done: neither the new node,
    // nor the other key.
    let more = Words::of(&cluster, 3, 2);
    let bad = more.text(&cluster).replace(KEYS[0], KEYS[1]);
    let bad = bad.replace(
        "[[node]]\nname = \"n0\"",
        "wire = \"plain\"\nport = 7578\n[[node]]\nname = \"n0\"",
    );
    let said = refused(&cluster, 0, &bad.replace("10.99.0.1/", "10.99.0.9/"));
    for expected in [
        "wire is \"plain\", but the node runs with \"encrypted\"",
        "port is 7578, but the node runs with 7577",
        "this node's vnic is 10.99.0.9/24, but the node runs with 10.99.0.1/24",
        "restart `tabane up`",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    let said = refused(&cluster, 0, &good.replace("\"n0\"", "\"n7\""));
    assert!(
        said.contains("this node, \"n0\", is no longer in it"),
        "{said}"
    );

    write(&cluster, 0, &good);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("is ours");
    let open = run(&cluster, 0, &["reload"]);
    assert_eq!(open.status.code(), Some(2));
    assert!(
        text(&open.stderr).contains("chmod 600"),
        "{}",
        text(&open.stderr)
    );
    fs::remove_file(&path).expect("was there");
    let missing = run(&cluster, 0, &["reload"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        text(&missing.stderr).contains("cannot be read"),
        "{}",
        text(&missing.stderr)
    );

    stream.flows(1_000_000);
    let log = cluster.log(0);
    assert_eq!(
        log.matches("the cluster file is refused; everything stays")
            .count(),
        5,
        "{log}"
    );
    assert!(log.contains("chmod 600"), "{log}");
    let status = cluster.status(0).expect("status");
    assert_eq!(status["peers"].as_array().map(Vec::len), Some(1));

    // Asking changes nothing.
    write(&cluster, 0, &more.text(&cluster));
    let asked = run(&cluster, 0, &["reload", "--check"]);
    assert_eq!(text(&asked.stdout), "n2 added\n");
    let status = cluster.status(0).expect("status");
    assert_eq!(status["peers"].as_array().map(Vec::len), Some(1));
    // The custom of daemons does it, too.
    const SIGHUP: i32 = 1;
    cluster
        .daemon(0)
        .expect("runs")
        .signal(SIGHUP)
        .expect("is there");
    let added = |status: &Value| status["peers"].as_array().is_some_and(|p| p.len() == 2);
    cluster
        .wait_status(0, "n2 is there", added)
        .expect("status");
    stream.finish();
}

#[test]
fn only_who_runs_the_daemon_may_tell_it_to_reload() {
    let mut cluster = idle(2, 1);
    let words = Words::of(&cluster, 2, 1);
    two(&mut cluster, &words);
    let as_other = |args: &[&str]| {
        let mut other = cluster.lab().command(0, "setpriv");
        other
            .args(["--reuid=12345", "--clear-groups", "--"])
            .arg(tabane())
            .args(args);
        output("setpriv", other, PATIENCE).expect("ends")
    };
    // An ordinary user's lab has no other users; and then nobody is to be refused.
    if as_other(&["status"]).status.success() {
        let refused = as_other(&["reload"]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(
            text(&refused.stderr).contains("only root"),
            "{}",
            text(&refused.stderr)
        );
    }
}

/// The keys of a file at each step of a change: all nodes take a step before any takes the next.
const STEPS: [(&str, Option<&str>); 3] = [
    (KEYS[0], Some(KEYS[1])),
    (KEYS[1], Some(KEYS[0])),
    (KEYS[1], None),
];

#[test]
fn the_key_is_changed_under_a_stream() {
    let mut cluster = idle(2, 2);
    let mut words = Words::of(&cluster, 2, 2);
    two(&mut cluster, &words);
    let stream = Stream::start(&cluster);
    for (step, (key, second_key)) in STEPS.into_iter().enumerate() {
        (words.key, words.second_key) = (key, second_key);
        for node in [step % 2, 1 - step % 2] {
            let said = reload(&cluster, node, &words);
            assert!(said.contains("key"), "{said}");
            stream.flows(2_000_000);
        }
    }
    // The sessions have moved to the new key: none is older than the last change.
    for node in 0..2 {
        let renewed = |status: &Value| {
            let age = status["peers"][0]["session_age_s"].as_u64();
            age < status["node"]["uptime_s"].as_u64()
        };
        cluster
            .wait_status(node, "a new session", renewed)
            .expect("status");
        let status = cluster.status(node).expect("status");
        assert_eq!(status["refused"], Value::Array(Vec::new()), "{status:#}");
        assert!(
            !cluster.log(node).contains("not connected"),
            "{}",
            cluster.log(node)
        );
    }
    stream.flows(2_000_000);
    stream.finish();
}

#[test]
fn the_key_is_changed_by_restarts() {
    let mut cluster = idle(2, 2);
    let mut words = Words::of(&cluster, 2, 2);
    two(&mut cluster, &words);
    for (key, second_key) in STEPS {
        (words.key, words.second_key) = (key, second_key);
        for node in 0..2 {
            write(&cluster, node, &words.text(&cluster));
            cluster.stop(node).expect("ends");
            start(&mut cluster, node);
            eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);
        }
    }
}

/// Starts both nodes, with other words on node 1; waits until node 0 tells why it
/// refuses node 1, and returns what it says.
fn refusal(cluster: &mut Cluster, words: [&Words; 2], reason: &str) -> Value {
    for (node, words) in words.into_iter().enumerate() {
        write(cluster, node, &words.text(cluster));
        start(cluster, node);
    }
    let find = |status: &Value| {
        let refused = status["refused"].as_array().into_iter().flatten();
        refused.into_iter().find(|r| r["reason"] == reason).cloned()
    };
    let told = |status: &Value| find(status).is_some_and(|r| r["count"].as_u64() > Some(5));
    let status = cluster.wait_status(0, reason, told).expect("status");
    find(&status).expect("was found")
}

#[test]
fn another_key_is_told_once_with_the_address() {
    let mut cluster = idle(2, 1);
    let words = Words::of(&cluster, 2, 1);
    let mut other = words.clone();
    other.key = KEYS[1];
    let told = refusal(&mut cluster, [&words, &other], "wrong_key");
    assert_eq!(told["peer"], "n1");
    assert_eq!(told["link"], 0);
    let address = words.nodes[1].1[0].clone();
    assert_eq!(told["address"], format!("{address}:7577"));
    let log = cluster.log(0);
    assert_eq!(
        log.matches("not made with this cluster's key").count(),
        1,
        "{log}"
    );
    let status = cluster.status(0).expect("status");
    assert_eq!(status["peers"][0]["state"], "connecting");
    let why = status["peers"][0]["why"].as_str().expect("says why");
    assert!(why.contains("not made with this cluster's key"), "{why}");
    let table = text(&run(&cluster, 0, &["status"]).stdout);
    assert!(
        table.contains(&format!("refused: {address} (n1) on link 0")),
        "{table}"
    );
    assert!(
        status["node"]["dropped"]["stranger"].as_u64() > Some(5),
        "{status:#}"
    );

    // Once it has the right one, all is well and nothing is listed any more.
    reload(&cluster, 1, &words);
    let settled =
        |status: &Value| all_paths_up(status) && status["refused"] == Value::Array(vec![]);
    cluster
        .wait_status(0, "connected", settled)
        .expect("status");
}

#[test]
fn another_wire_another_name_and_links_in_another_order_are_told() {
    let mut cluster = idle(2, 2);
    let words = Words::of(&cluster, 2, 2);
    let mut plain = words.clone();
    plain.more = "wire = \"plain\"\n";
    let mut renamed = words.clone();
    renamed.nodes[0].0 = "n9".to_owned();
    let mut unknown = words.clone();
    unknown.nodes[1].0 = "n8".to_owned();
    let mut swapped = words.clone();
    for (_, links, _) in &mut swapped.nodes {
        links.swap(0, 1);
    }
    // What node 0 has of its peer, what node 1 has of itself.
    for (zero, one, reason) in [
        (&words, &plain, "wrong_wire"),
        (&words, &renamed, "wrong_destination"),
        (&unknown, &words, "unknown_node"),
        (&words, &swapped, "wrong_link"),
    ] {
        let told = refusal(&mut cluster, [zero, one], reason);
        let text = told["text"].as_str().expect("is text");
        let log = cluster.log(0);
        let lines = log.matches(text).count();
        assert!((1..=2).contains(&lines), "once for each link: {log}");
        for node in 0..2 {
            cluster.stop(node).expect("ends");
        }
    }
}

#[test]
fn nobody_is_connected_over_swapped_links() {
    let mut cluster = idle(2, 2);
    let words = Words::of(&cluster, 2, 2);
    let mut swapped = words.clone();
    for (_, links, _) in &mut swapped.nodes {
        links.swap(0, 1);
    }
    refusal(&mut cluster, [&words, &swapped], "wrong_link");
    // Handshakes come through again and again.
    let many = |status: &Value| status["node"]["dropped"]["wrong_link"].as_u64() > Some(20);
    let status = cluster.wait_status(0, "more are dropped", many);
    let status = status.expect("status");
    assert_eq!(status["peers"][0]["state"], "connecting", "{status:#}");
    let why = status["peers"][0]["why"].as_str().expect("says why");
    assert!(why.contains("the order of `links`"), "{why}");
    let log = cluster.log(0);
    assert!(log.contains("(n1) on link"), "{log}");
    assert!(!log.contains("connected"), "{log}");
}

#[test]
fn two_machines_of_one_name_are_told_and_the_first_goes_on() {
    let mut cluster = idle(3, 1);
    let words = Words::of(&cluster, 2, 1);
    two(&mut cluster, &words);
    let stream = Stream::start(&cluster);
    // The third machine calls itself n1, too, and has its own address in its file.
    let mut twin = words.clone();
    twin.nodes[1].1 = vec![cluster.lab().address(2, 0).to_string()];
    twin.nodes[1].2 = 2;
    write(&cluster, 2, &twin.text(&cluster));
    let mut up = cluster.tabane(2);
    up.arg("up").arg("--config").arg(file(&cluster, 2));
    cluster.start_as(2, up).expect("starts");
    let find = |status: &Value| {
        let refused = status["refused"].as_array().into_iter().flatten();
        let twin = refused
            .into_iter()
            .find(|r| r["reason"] == "duplicate_name");
        twin.cloned()
    };
    let status = cluster
        .wait_status(0, "two are told", |s| find(s).is_some())
        .expect("status");
    let told = find(&status).expect("was found");
    assert_eq!(
        told["address"],
        format!("{}:7577", cluster.lab().address(2, 0))
    );
    stream.flows(4_000_000);
    stream.finish();
    let log = cluster.log(0);
    assert_eq!(log.matches("so does another machine").count(), 1, "{log}");
    assert!(!log.contains("not connected"), "{log}");
}
