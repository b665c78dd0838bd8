//! Nothing wrong is found where nothing is, and what is asked is done.

use std::fs;

use tabane_lab::cluster::{ClusterConfig, PATIENCE, Program, output};
use tabane_lab::{Fault, LabConfig, LinkSpec};

use crate::common::*;
use crate::diagnosis::*;

#[test]
fn an_idle_cluster_has_no_findings() {
    let cluster = cluster();
    for node in [0, 1] {
        let said = doctor(&cluster, node);
        said.well();
        assert_eq!(said.value["node"], format!("n{node}"));
        assert_eq!(said.value["daemon"], true);
        assert_eq!(
            said.value["unseen"],
            serde_json::json!([]),
            "{:#}",
            said.value
        );
        assert!(
            said.value["checked"]
                .as_array()
                .is_some_and(|c| c.len() > 10)
        );
    }
    let mut command = cluster.tabane(0);
    command
        .args(["doctor", "--alone", "--seconds", "0.5", "--config"])
        .arg(cluster.file());
    let done = output("tabane doctor", command, PATIENCE).expect("ends");
    let said = text(&done.stdout);
    assert!(said.starts_with("n0: nothing wrong found"), "{said}");
    assert!(said.contains("Looked for: "), "{said}");
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn a_cluster_under_load_has_no_findings() {
    let cluster = cluster_on(&LabConfig {
        links: vec![LinkSpec::mbit(20); 2],
        ..LabConfig::default()
    });
    let stream = Stream::start(&cluster);
    stream.flows(2_000_000);
    for node in [0, 1] {
        doctor(&cluster, node).well();
    }
    stream.finish();
}

/// The kernel answers for each address of the machine with each NIC that hears the question.
#[test]
fn a_second_nic_of_a_peer_on_a_link_is_no_other_machine() {
    let cluster = cluster();
    let add = ["link", "add", "m0", "link", "eth0", "type", "macvlan"];
    run(&cluster, 1, "ip", &add);
    run(&cluster, 1, "ip", &["link", "set", "m0", "up"]);
    doctor(&cluster, 0).well();
    doctor(&cluster, 1).well();
}

#[test]
fn without_privileges_it_does_what_it_may_and_says_what_it_could_not() {
    let cluster = cluster();
    let said = doctor_unprivileged(&cluster, 0);
    said.well();
    let unseen = said.value["unseen"].as_array().expect("a list").clone();
    let tells = |words: &str| {
        let mut all = unseen.iter().filter_map(|u| u["what"].as_str());
        all.any(|what| what.contains(words))
    };
    assert!(
        tells("address conflicts") && tells("loss on idle links"),
        "{:#}",
        said.value
    );

    cluster.lab().fail(1, Fault::Silent, None).expect("fails");
    wait_path(&cluster, 1, "down");
    doctor_unprivileged(&cluster, 0).only("link_dead", &[1]);
}

#[test]
fn without_a_daemon_it_looks_at_the_rest() {
    let lab = lab(&LabConfig::default());
    let mut cluster = tabane_lab::cluster::Cluster::new(lab, tabane(), ClusterConfig::default())
        .expect("the file is written");
    cluster.start(1).expect("starts");
    let said = doctor(&cluster, 0);
    assert_eq!(
        (said.causes(), said.exit),
        (vec!["no_daemon"], Some(3)),
        "{:#}",
        said.value
    );
    assert_eq!(said.value["node"], "n0");

    let mut other = cluster.lab().command(0, "socat");
    other.args(["-u", "UDP-RECV:7577,bind=10.77.0.1", "/dev/null"]);
    let other = Program::start_quiet("socat", other).expect("socat starts");
    eventually("the port is taken", || {
        doctor(&cluster, 0).causes().contains(&"port_taken")
    });
    drop(other);

    run(&cluster, 0, "ip", &["link", "set", "eth1", "down"]);
    let said = doctor(&cluster, 0);
    assert_eq!(said.causes(), ["no_daemon", "link_off"], "{:#}", said.value);

    let file = cluster.directory().join("bad.toml");
    fs::write(&file, "wire = \"plane\"\n").expect("is written");
    let mut command = cluster.tabane(0);
    command
        .args(["doctor", "--json", "--seconds", "0.5", "--config"])
        .arg(&file);
    let said = diagnose(command);
    assert_eq!(
        said.causes(),
        ["no_daemon", "cluster_file"],
        "{:#}",
        said.value
    );
    assert_eq!(said.exit, Some(3));
}

#[test]
fn a_peer_is_chosen_by_name() {
    let config = LabConfig {
        nodes: 3,
        ..LabConfig::default()
    };
    let cluster = cluster_on(&config);
    cluster
        .lab()
        .fail(1, Fault::Carrier, Some(2))
        .expect("fails");
    wait_path_to(&cluster, "n2", 1, "down");
    doctor_with(&cluster, 0, &["n1"]).well();
    let said = doctor_with(&cluster, 0, &["n2"]);
    assert_eq!(
        said.only("link_dead", &[1])["peers"],
        serde_json::json!(["n2"])
    );

    for wrong in [&["n7"][..], &["--seconds", "0"], &["--measure"]] {
        let mut command = cluster.tabane(0);
        command.arg("doctor").args(wrong);
        let done = output("tabane doctor", command, PATIENCE).expect("ends");
        assert_eq!(done.status.code(), Some(2), "{}", text(&done.stderr));
        assert!(!done.stderr.is_empty());
    }
}

fn wait_path_to(cluster: &tabane_lab::cluster::Cluster, peer: &str, link: usize, state: &str) {
    let is_so = |status: &serde_json::Value| {
        tabane_lab::cluster::path_state(status, peer, link) == Some(state)
    };
    cluster
        .wait_status(0, "the path is as it should be", is_so)
        .expect("status");
}
