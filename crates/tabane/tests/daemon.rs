//! The daemon's life: it starts, tells, restarts, refuses, ends.

mod common;

use std::process::Command;

use common::*;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, Wire, all_paths_up, output};

/// What `ip` says of `tab0` on a node; empty if there is none.
fn nic(cluster: &Cluster, node: usize) -> String {
    let mut ip = cluster.lab().command(node, "ip");
    ip.args(["-brief", "address", "show", "tab0"]);
    text(&output("ip", ip, PATIENCE).expect("ip ends").stdout)
}

#[test]
fn two_nodes_see_each_other() {
    let cluster = cluster();
    assert!(nic(&cluster, 0).contains("10.99.0.1/24"));
    assert_eq!(pings(&cluster, 0, 1, 5, 56), 5);
    assert_eq!(pings(&cluster, 1, 0, 5, 56), 5);
    let status = cluster.status(0).expect("status");
    assert_eq!(status["node"]["name"], "n0");
    assert_eq!(status["node"]["wire"], "encrypted");
    assert_eq!(status["node"]["vnic"]["address"], "10.99.0.1/24");
    assert_eq!(status["peers"][0]["name"], "n1");
    let links = status["node"]["links"].as_array().expect("links");
    for (link, device) in links.iter().zip(["eth0", "eth1"]) {
        assert_eq!(link["device"], device, "{status:#}");
        assert_eq!(link["up"], true, "{status:#}");
        let received = link["rx_datagrams"].as_u64();
        assert!(received >= link["rx_receives"].as_u64() && received > Some(0));
        assert!(
            link["receive_buffer_bytes"].as_u64() > Some(0),
            "{status:#}"
        );
    }
    assert_eq!(links.len(), 2, "{status:#}");
    let pid = cluster.daemon(0).map(Program::id);
    assert_eq!(status["node"]["pid"].as_u64(), pid.map(u64::from));
    assert!(status["node"]["busy_us"].as_u64() > Some(0), "{status:#}");
    assert!(
        cluster.log(0).contains("n1: connected"),
        "{}",
        cluster.log(0)
    );
}

#[test]
fn several_nodes_live_on_one_machine() {
    let nodes = 4;
    let cluster = cluster_on(&LabConfig {
        nodes,
        ..LabConfig::default()
    });
    for from in 0..nodes {
        for to in (0..nodes).filter(|&to| to != from) {
            assert_eq!(pings(&cluster, from, to, 2, 56), 2, "n{from} to n{to}");
        }
    }
}

#[test]
fn sigterm_and_sigint_remove_what_it_made() {
    let mut cluster = cluster();
    assert!(nic(&cluster, 1).contains("10.99.0.2/24"));
    assert!(cluster.stop(1).expect("ends").success());
    assert_eq!(nic(&cluster, 1), "");
    cluster.start(1).expect("starts again");
    cluster
        .wait_status(1, "all paths are up", all_paths_up)
        .expect("status");

    const SIGINT: i32 = 2;
    let mut daemon = cluster.take(1).expect("runs");
    daemon.signal(SIGINT).expect("is there");
    assert!(daemon.wait(PATIENCE).expect("ends").success());
    assert_eq!(nic(&cluster, 1), "");
}

#[test]
fn a_peer_that_was_stopped_or_killed_comes_back() {
    let mut cluster = cluster();
    cluster.stop(1).expect("ends");
    cluster
        .wait_status(0, "n1 is down", |status| {
            status["peers"][0]["state"] != "up"
        })
        .expect("status");
    cluster.start(1).expect("starts again");
    eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);

    cluster.kill(1).expect("is killed");
    cluster.start(1).expect("starts after a crash");
    eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);
    for node in 0..2 {
        cluster
            .wait_status(node, "all paths are up", all_paths_up)
            .expect("status");
    }
}

#[test]
fn a_peer_that_is_paused_comes_back() {
    const SIGSTOP: i32 = 19;
    const SIGCONT: i32 = 18;
    let cluster = cluster();
    cluster
        .daemon(1)
        .expect("runs")
        .signal(SIGSTOP)
        .expect("stops");
    wait_path(&cluster, 0, "down");
    wait_path(&cluster, 1, "down");
    cluster
        .daemon(1)
        .expect("runs")
        .signal(SIGCONT)
        .expect("goes on");
    eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);
    cluster
        .wait_status(0, "all paths are up", all_paths_up)
        .expect("status");
}

#[test]
fn a_second_daemon_is_refused_and_does_no_harm() {
    let cluster = cluster();
    let second = up_behind(&cluster, 0, &[]);
    let refused = output("tabane up", second, PATIENCE).expect("ends");
    let said = text(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(!text(&refused.stdout).contains("ready"), "{said}");
    assert!(said.contains("already"), "{said}");
    assert_eq!(pings(&cluster, 0, 1, 3, 56), 3);
    cluster
        .wait_status(0, "all paths are up", all_paths_up)
        .expect("status");
}

#[test]
fn nodes_start_in_any_order_and_without_their_links() {
    let lab = lab(&LabConfig::default());
    lab.fail(0, tabane_lab::Fault::Carrier, None)
        .expect("fails");
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    for node in [1, 0] {
        cluster.start(node).expect("starts");
    }
    eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);
    cluster.lab().heal(0).expect("heals");
    cluster
        .wait_status(0, "all paths are up", all_paths_up)
        .expect("status");
}

/// The daemon without some of root's power, which root in a namespace has, too.
fn with(cluster: &Cluster, node: usize, setpriv: &[&str]) -> Command {
    up_behind(cluster, node, &[&["setpriv"], setpriv, &["--"]].concat())
}

#[test]
fn without_cap_net_admin_tab0_is_refused_with_the_reason() {
    let config = ClusterConfig::default();
    let cluster = Cluster::new(lab(&LabConfig::default()), tabane(), config).expect("is written");
    let up = with(
        &cluster,
        0,
        &["--bounding-set=-net_admin", "--inh-caps=-net_admin"],
    );
    let refused = output("tabane up", up, PATIENCE).expect("ends");
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_NET_ADMIN"), "{said}");
}

#[test]
fn without_a_vnic_no_privilege_is_needed() {
    let config = ClusterConfig {
        vnic: false,
        ..ClusterConfig::default()
    };
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), config).expect("is written");
    for node in 0..2 {
        let up = with(&cluster, node, &["--bounding-set=-all", "--inh-caps=-all"]);
        cluster.start_as(node, up).expect("starts");
    }
    let status = cluster
        .wait_status(0, "all paths are up", all_paths_up)
        .expect("status");
    assert!(status["node"]["vnic"].is_null(), "{status:#}");
    cluster
        .lab()
        .fail(1, tabane_lab::Fault::Carrier, None)
        .expect("fails");
    wait_path(&cluster, 1, "down");
    cluster.lab().heal(1).expect("heals");
    wait_path(&cluster, 1, "up");
}

#[test]
fn a_plain_wire_works_and_is_told() {
    let config = ClusterConfig {
        wire: Wire::Plain,
        ..ClusterConfig::default()
    };
    let lab = lab(&slow_links());
    let cluster = Cluster::up(lab, tabane(), config).expect("comes up");
    assert_eq!(cluster.status(0).expect("status")["node"]["wire"], "plain");
    let stream = Stream::start(&cluster);
    stream.flows(4_000_000);
    cluster
        .lab()
        .fail(0, tabane_lab::Fault::Silent, None)
        .expect("fails");
    stream.flows(4_000_000);
    stream.finish();
}

#[test]
fn no_daemon_is_3() {
    let lab = lab(&LabConfig::default());
    let mut status = lab.command(0, tabane());
    status.arg("status");
    let asked = output("tabane status", status, PATIENCE).expect("ends");
    assert_eq!(asked.status.code(), Some(3), "{}", text(&asked.stderr));
}

#[test]
fn a_killed_cluster_leaves_no_process() {
    let cluster = cluster();
    let pids = [0, 1].map(|node| cluster.daemon(node).map(Program::id).expect("runs"));
    let directory = cluster.directory().to_path_buf();
    drop(cluster);
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
    assert!(!directory.exists());
}
