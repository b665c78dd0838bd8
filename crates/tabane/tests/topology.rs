//! `tabane topo`: switches are found by round trips alone, in a lab whose switches pass frames on whole.

mod common;

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};
use tabane_lab::{Lab, LabConfig, LinkSpec};

/// Two switches with these nodes under a third one.
const GROUPS: [&[&str]; 2] = [&["n0", "n1", "n2", "n3"], &["n4", "n5", "n6", "n7"]];
/// Other programs of this machine may hold a survey up so much that it says that it is not sure.
const SURVEYS_MAX: usize = 5;

fn lab_of_switches() -> Lab {
    lab(&LabConfig {
        nodes: 8,
        links: vec![LinkSpec::mbit(100)],
        tree: vec![4, 4],
        ..LabConfig::default()
    })
}

fn without_vnic() -> ClusterConfig {
    ClusterConfig {
        vnic: false,
        ..ClusterConfig::default()
    }
}

fn cluster() -> Cluster {
    let up = Cluster::up(lab_of_switches(), tabane(), without_vnic());
    up.expect("the cluster comes up")
}

/// What `tabane topo` with these words prints on a node, or what it complains of.
fn topo(cluster: &Cluster, node: usize, words: &[&str]) -> Result<String, String> {
    let mut command = cluster.lab().command(node, tabane());
    command.arg("topo").args(words);
    let done = output("tabane topo", command, PATIENCE).expect("ends");
    match done.status.code() {
        Some(0) => Ok(text(&done.stdout)),
        Some(1) => Err(text(&done.stderr)),
        other => panic!("{other:?}: {}", text(&done.stderr)),
    }
}

fn survey(cluster: &Cluster) -> Value {
    let said = topo(cluster, 0, &["--measure", "--json"]).expect("is measured");
    serde_json::from_str(&said).expect("is JSON")
}

/// The switches that have nodes, each with its id.
fn groups(found: &Value) -> Vec<(String, Vec<String>)> {
    let network = &found["networks"][0];
    let switches = network["switches"].as_array().expect("a list").iter();
    let words = |list: &Value| -> Vec<String> {
        let list = list.as_array().expect("a list").iter();
        list.map(|name| name.as_str().expect("a name").to_owned())
            .collect()
    };
    let mut groups: Vec<_> = switches
        .map(|s| {
            (
                s["id"].as_str().expect("an id").to_owned(),
                words(&s["nodes"]),
            )
        })
        .filter(|(_, nodes)| !nodes.is_empty())
        .collect();
    groups.sort_by(|a, b| a.1.cmp(&b.1));
    groups
}

fn is_right(found: &Value) -> bool {
    let groups = groups(found);
    groups.iter().map(|(_, nodes)| nodes).eq(GROUPS.iter())
}

/// What the first trunk of which that is known carries, in Mb/s.
fn mbps(found: &Value) -> Option<u64> {
    let trunks = found["networks"][0]["trunks"].as_array().expect("a list");
    trunks.iter().find_map(|trunk| trunk["mbps"].as_u64())
}

/// Waits until a node says of all others on which switches they are.
fn says_the_switches(cluster: &Cluster, asked: usize, groups: &[(String, Vec<String>)]) {
    let switch_of = |name: &str| {
        let mut groups = groups.iter();
        let found = groups.find(|(_, nodes)| nodes.iter().any(|node| node == name));
        found.map(|(id, _)| id.as_str())
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let mut nodes = cluster.tabane(asked);
        nodes.args(["nodes", "--json"]);
        let nodes = output("tabane nodes", nodes, PATIENCE).expect("ends");
        let nodes: Value = serde_json::from_slice(&nodes.stdout).expect("is JSON");
        let all = nodes["nodes"].as_array().expect("a list");
        let is_told = |node: &Value| {
            let name = node["name"].as_str().expect("a name");
            node["switches"][0].as_str() == switch_of(name)
        };
        if all.iter().all(is_told) {
            assert_eq!(all.len(), 7);
            return;
        }
        assert!(Instant::now() < until, "{nodes:#}");
        sleep(Duration::from_millis(100));
    }
}

/// Slurm's controller reads this `topology.conf`, and shows the same switches.
fn slurmctld_takes(cluster: &Cluster, topology: &str) {
    const PORT: u16 = 6817;
    let directory = cluster.directory().join("slurm");
    let state = directory.join("state");
    std::fs::create_dir_all(&state).expect("can be made");
    let here = |name: &str| directory.join(name).display().to_string();
    let settings = format!(
        "ClusterName=lab\nSlurmctldHost=localhost\nSlurmctldPort={PORT}\nSlurmUser=nobody\n\
         AuthType=auth/none\nCryptoType=crypto/none\nMailProg=/bin/true\nSelectType=select/linear\n\
         TopologyPlugin=topology/tree\nStateSaveLocation={}\nSlurmctldPidFile={}\n\
         NodeName=n[0-7] NodeAddr=127.0.0.1 Port=[7001-7008] CPUs=1\nPartitionName=all Nodes=n[0-7]\n",
        state.display(),
        here("pid"),
    );
    std::fs::write(here("slurm.conf"), settings).expect("can be written");
    std::fs::write(here("topology.conf"), topology).expect("can be written");
    // As root it would drop groups, which the root of an ordinary user's namespace may not.
    let mut slurmctld = cluster.lab().command(0, "unshare");
    slurmctld.args([
        "--user",
        "--map-user=nobody",
        "--map-group=nogroup",
        "slurmctld",
    ]);
    slurmctld.args(["-D", "-c", "-f", &here("slurm.conf"), "-L", &here("log")]);
    let mut slurmctld = Program::start_quiet("slurmctld", slurmctld).expect("slurmctld starts");
    if let Err(error) = slurmctld.listens(PORT) {
        panic!("{error:?}: {:?}", std::fs::read_to_string(here("log")));
    }
    let shown = |words: &[&str]| {
        let mut scontrol = cluster.lab().command(0, "scontrol");
        scontrol.env("SLURM_CONF", here("slurm.conf")).args(words);
        let done = output("scontrol", scontrol, PATIENCE).expect("ends");
        assert!(
            done.status.success(),
            "{}{}",
            text(&done.stdout),
            text(&done.stderr)
        );
        text(&done.stdout)
    };
    for nodes in GROUPS {
        let leaf = format!("Nodes={}", nodes.join(","));
        for node in nodes {
            let switches = shown(&["show", "topology", node]);
            let ours = switches.lines().find(|line| line.contains("Level=0"));
            assert!(ours.is_some_and(|ours| ours.ends_with(&leaf)), "{switches}");
        }
    }
    slurmctld.terminate().expect("slurmctld is told to end");
    slurmctld.wait(PATIENCE).expect("slurmctld ends");
}

#[test]
fn nodes_of_one_switch_are_found_and_programs_can_read_it() {
    let cluster = cluster();
    let before = topo(&cluster, 0, &[]).expect_err("nothing is known");
    assert!(before.contains("tabane topo --measure"), "{before}");

    let mut found = survey(&cluster);
    for _ in 1..SURVEYS_MAX {
        if is_right(&found) && mbps(&found).is_some() {
            break;
        }
        found = survey(&cluster);
    }
    assert!(is_right(&found), "{found:#}");
    assert_eq!(found["schema"], 1);
    assert_eq!(found["networks"][0]["link"], 0);
    assert!(found["measured_unix_ms"].as_u64().expect("a time") > 0);

    // Trunks are as fast as links: trains of two pairs of nodes show it.
    let shown = mbps(&found).expect("what a trunk carries");
    assert!((70..=130).contains(&shown), "{shown} Mb/s");

    // It is remembered, and shown in every form.
    let again = topo(&cluster, 0, &["--json"]).expect("is known");
    assert_eq!(
        serde_json::from_str::<Value>(&again).expect("is JSON"),
        found
    );
    let table = topo(&cluster, 0, &[]).expect("is known");
    for nodes in GROUPS {
        assert!(table.contains(&nodes.join(" ")), "{table}");
        let slurm = topo(&cluster, 0, &["--slurm"]).expect("is known");
        assert!(
            slurm.contains(&format!("Nodes={}\n", nodes.join(","))),
            "{slurm}"
        );
    }
    slurmctld_takes(
        &cluster,
        &topo(&cluster, 0, &["--slurm"]).expect("is known"),
    );
    assert!(
        topo(&cluster, 0, &["--dot"])
            .expect("is known")
            .starts_with("graph")
    );
    assert!(
        topo(&cluster, 0, &["--svg"])
            .expect("is known")
            .starts_with("<svg")
    );

    let file = cluster.directory().join("switches.json");
    std::fs::write(&file, again).expect("can be written");
    let mut place = cluster.lab().command(0, tabane());
    place.args(["place", "--np", "4", "--per-node", "1", "--format", "mpich"]);
    place.arg("--topology").arg(&file);
    let placed = output("tabane place", place, PATIENCE).expect("ends");
    assert!(placed.status.success(), "{}", text(&placed.stderr));

    // Who asks elsewhere may measure as well; switches are called as they were.
    let second = survey(&cluster);
    if is_right(&second) {
        assert_eq!(groups(&second), groups(&found));
    }
    // `tabane nodes` knows it, too, on every node.
    if is_right(&second) {
        for asked in [0, 3, 7] {
            says_the_switches(&cluster, asked, &groups(&second));
        }
    }
    let elsewhere = topo(&cluster, 7, &["--measure", "--json"]).expect("is measured");
    assert!(elsewhere.contains("\"n7\""), "{elsewhere}");
}

#[test]
fn a_node_that_is_not_there_is_said_to_be_nowhere() {
    let mut cluster = cluster();
    cluster.stop(5).expect("stops");
    let is_gone = |status: &Value| {
        let peers = status["peers"].as_array().into_iter().flatten();
        peers
            .into_iter()
            .any(|p| p["name"] == "n5" && p["state"] != "up")
    };
    cluster
        .wait_status(0, "n5 is gone", is_gone)
        .expect("status");
    let found = survey(&cluster);
    let switches = groups(&found);
    assert!(
        switches
            .iter()
            .all(|(_, nodes)| !nodes.contains(&"n5".to_owned()))
    );
    let ambiguous = found["networks"][0]["ambiguous"]
        .as_array()
        .expect("a list");
    let nowhere = serde_json::json!(["n5"]);
    assert!(ambiguous.contains(&nowhere), "{found:#}");
}

/// Nobody has a bundle over links with all others, and none is made for a survey: those are measured as well.
#[test]
fn nodes_that_keep_few_bundles_are_found_all_the_same() {
    let bundles = 4;
    let mut cluster =
        Cluster::new(lab_of_switches(), tabane(), without_vnic()).expect("the cluster file");
    let file = std::fs::read_to_string(cluster.file()).expect("the cluster file");
    let file = format!("{file}[mesh]\nbundles = {bundles}\n");
    std::fs::write(cluster.file(), file).expect("the cluster file");
    for node in 0..8 {
        cluster.start(node).expect("starts");
    }
    let within = |status: &Value| {
        let direct = status["node"]["bundles_direct"].as_u64().expect("a number");
        (1..=bundles).contains(&direct)
    };
    for node in 0..8 {
        cluster
            .wait_status(node, "bundles are there", within)
            .expect("status");
    }
    let found = (0..SURVEYS_MAX).map(|_| survey(&cluster)).find(is_right);
    let found = found.expect("the switches are found");
    says_the_switches(&cluster, 7, &groups(&found));
    for node in 0..8 {
        cluster
            .wait_status(node, "few bundles are there", within)
            .expect("status");
    }
}
