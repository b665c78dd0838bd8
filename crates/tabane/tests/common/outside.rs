//! What tests of the outside address share: the cluster that has one, and where programs are.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;

use serde_json::Value;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, all_paths_up, output};
use tabane_lab::{LabConfig, OutsideSpec};

use super::{lab, tabane, text};

/// The outside addresses, and those of the clients.
pub const OUTSIDE: [&str; 2] = ["203.0.113.1", "2001:db8::1"];
pub const CLIENTS: [[&str; 2]; 2] = [
    ["203.0.113.101", "2001:db8::101"],
    ["203.0.113.102", "2001:db8::102"],
];

/// Three nodes, of which the first two lead outside over such a line; the first serves.
pub fn outside(line: OutsideSpec) -> Cluster {
    outside_of(3, line)
}

/// The same of so many.
pub fn outside_of(nodes: usize, line: OutsideSpec) -> Cluster {
    outside_with(nodes, line, "")
}

/// The same with more keys of `[gateway]`.
pub fn outside_with(nodes: usize, line: OutsideSpec, keys: &str) -> Cluster {
    let lab = lab(&LabConfig {
        nodes,
        outside: Some(line),
        ..LabConfig::default()
    });
    let config = ClusterConfig {
        gateway: true,
        ..ClusterConfig::default()
    };
    let mut cluster = Cluster::new(lab, tabane(), config).expect("is written");
    // The last table of the file is the gateway's.
    let file = OpenOptions::new().append(true).open(cluster.file());
    file.and_then(|mut file| file.write_all(keys.as_bytes()))
        .expect("is written");
    for node in 0..nodes {
        cluster.start(node).expect("starts");
    }
    for node in 0..nodes {
        cluster
            .wait_status(node, "all paths are up", all_paths_up)
            .expect("status");
    }
    // On a busy machine the first may have come too late.
    let serves = |status: &Value| gateway(status)["serving"].is_string();
    let status = cluster.wait_status(0, "a gateway serves", serves);
    if gateway(&status.expect("status"))["serving"] != "n0" {
        move_gateway(&cluster, &["n0"]);
    }
    for node in 0..nodes {
        wait_serving(&cluster, node, "n0");
    }
    cluster
}

/// Hands over to this one, or to the one that stands by.
pub fn move_gateway(cluster: &Cluster, to: &[&str]) {
    let mut command = cluster.lab().command(1, tabane());
    command.args(["gateway", "move"]).args(to);
    let said = output("tabane gateway move", command, PATIENCE).expect("ends");
    assert!(said.status.success(), "{}", text(&said.stderr));
}

pub fn gateway(status: &Value) -> &Value {
    &status["node"]["gateway"]
}

/// Until a node knows that this one serves.
pub fn wait_serving(cluster: &Cluster, node: usize, serving: &str) {
    cluster
        .wait_status(node, "the gateway serves", |status| {
            gateway(status)["serving"] == serving
        })
        .expect("status");
}

/// Until the gateway that serves knows that the other one could.
pub fn wait_standby(cluster: &Cluster, node: usize) {
    cluster
        .wait_status(node, "a gateway stands by", |status| {
            gateway(status)["standby"][0]["ready"] == true
        })
        .expect("status");
}

/// Where a program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// On a node, under `tabane run`.
    Node(usize),
    /// Outside, as it is.
    Client(usize),
}

pub fn command(cluster: &Cluster, at: At, program: &str) -> Command {
    match at {
        At::Node(node) => cluster.run(node, program),
        At::Client(client) => cluster.lab().client_command(client, program),
    }
}
