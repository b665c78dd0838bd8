//! One doctor asks the others: a fault is named at the node where it lies.

use serde_json::{Value, json};
use tabane_lab::LabConfig;
use tabane_lab::cluster::{PATIENCE, output};

use crate::common::*;
use crate::diagnosis::*;

fn joint(cluster: &tabane_lab::cluster::Cluster, node: usize) -> Diagnosis {
    doctor_of_all(cluster, node, &[])
}

/// The evidence of a finding, as one text.
fn evidence(finding: &Value) -> String {
    finding["evidence"].to_string()
}

#[test]
fn a_firewall_and_a_switched_off_link_are_named_where_they_are() {
    let cluster = cluster();
    firewall(&cluster, 1, "input", "iifname eth1 udp dport 7577 drop");
    wait_path(&cluster, 1, "down");
    let said = joint(&cluster, 0);
    assert_eq!(said.value["asked"], json!(["n1"]), "{:#}", said.value);
    let finding = said.only("firewall_here", &[1]);
    assert_eq!(finding["node"], "n1", "{:#}", said.value);
    assert!(evidence(finding).contains("n0 sees it, too"), "{finding:#}");
    // Where it lies the same is said.
    let said = joint(&cluster, 1);
    assert_eq!(said.only("firewall_here", &[1])["node"], "n1");
    run(&cluster, 1, "nft", &["delete", "table", "inet", "wall"]);
    wait_path(&cluster, 1, "up");

    run(&cluster, 1, "ip", &["link", "set", "eth0", "down"]);
    wait_path(&cluster, 0, "down");
    let said = joint(&cluster, 0);
    let finding = said.only("link_off", &[0]);
    assert_eq!(finding["node"], "n1", "{:#}", said.value);
    assert!(evidence(finding).contains("[link_dead]"), "{finding:#}");
}

#[test]
fn what_is_wrong_at_a_peer_alone_is_told_of_it() {
    let config = LabConfig {
        nodes: 3,
        ..LabConfig::default()
    };
    let cluster = cluster_on(&config);
    let said = joint(&cluster, 0);
    said.well();
    assert_eq!(said.value["asked"], json!(["n1", "n2"]), "{:#}", said.value);
    let past = ["route", "add", "10.99.0.1/32", "via", "10.77.0.1"];
    run(&cluster, 2, "ip", &past);
    let said = joint(&cluster, 0);
    assert_eq!(said.only("vnic_route", &[])["node"], "n2");
    let mut command = tabane_behind(&cluster, 0, &[], "doctor");
    command.args(["--seconds", "0.5"]);
    let shown = text(
        &output("tabane doctor", command, PATIENCE)
            .expect("ends")
            .stdout,
    );
    let words: Vec<&str> = shown.split_whitespace().collect();
    let words = words.join(" ");
    assert!(
        words.contains("At n2: Packets to n0 do not go over tab0"),
        "{shown}"
    );
    assert!(words.contains("asked n1 and n2"), "{shown}");
    // Only n1 is asked of the way to n1.
    let said = doctor_of_all(&cluster, 0, &["n1"]);
    said.well();
    assert_eq!(said.value["asked"], json!(["n1"]), "{:#}", said.value);
}

#[test]
fn a_peer_that_says_nothing_is_not_waited_for_without_end() {
    let cluster = cluster();
    let daemon = cluster.daemon(1).expect("runs");
    daemon.pause().expect("stops");
    let said = joint(&cluster, 0);
    daemon.go_on().expect("goes on");
    let unseen = said.value["unseen"].to_string();
    assert!(unseen.contains("what n1 finds"), "{:#}", said.value);
    assert_eq!(said.value["asked"], json!([]), "{:#}", said.value);
}
