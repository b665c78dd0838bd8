//! `[[flow]]` of the cluster file: what it says of some traffic is so, also while a link fails.

mod common;

use std::fs;
use std::process::Stdio;

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{
    Cluster, ClusterConfig, PATIENCE, Program, all_paths_up, path, path_state,
};
use tabane_lab::{Fault, LabConfig, LinkSpec};

/// Of each of the two links.
const LINK_MBPS: u64 = 50;
/// More than what a second of pings, probes and acknowledgements of either link is.
const LITTLE_BYTES: u64 = 1_000_000;

/// A cluster whose file ends with these words.
fn cluster_with(flows: &str) -> Cluster {
    let config = LabConfig {
        links: vec![LinkSpec::mbit(LINK_MBPS); 2],
        ..LabConfig::default()
    };
    let mut cluster =
        Cluster::new(lab(&config), tabane(), ClusterConfig::default()).expect("a file");
    append(&cluster, flows);
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    for node in 0..2 {
        cluster
            .wait_status(node, "all paths are up", all_paths_up)
            .expect("status");
    }
    cluster
}

fn append(cluster: &Cluster, flows: &str) {
    let mut file = fs::read_to_string(cluster.file()).expect("is there");
    file += flows;
    fs::write(cluster.file(), file).expect("is ours");
}

/// Bytes that node 0 has sent to node 1 over each link.
fn sent(cluster: &Cluster) -> [u64; 2] {
    let status = cluster.status(0).expect("status");
    [0, 1].map(|link| {
        let sent = path(&status, "n1", link).and_then(|path| path["tx_bytes"].as_u64());
        sent.expect("a path")
    })
}

/// The same of what happens meanwhile.
fn sent_during(cluster: &Cluster, happens: impl FnOnce(&Cluster)) -> [u64; 2] {
    let before = sent(cluster);
    happens(cluster);
    let after = sent(cluster);
    [0, 1].map(|link| after[link] - before[link])
}

/// What arrived of an iperf3, in Mb/s.
fn received_mbps(report: &Value) -> f64 {
    let received = report["end"]["sum_received"]["bits_per_second"].as_f64();
    received.expect("a sum") / 1e6
}

/// A transfer of iperf3 from n0 to n1 under `tabane run`.
fn iperf_by_run(cluster: &Cluster, args: &[&str]) -> Value {
    let mut server = cluster.run(1, "iperf3");
    server.args(["-s", "-1"]);
    let mut server = Program::start_quiet("iperf3", server).expect("iperf3 starts");
    server.listens(5201).expect("iperf3 listens");
    let mut client = cluster.run(0, "iperf3");
    client.args(["--json", "-c", "n1"]).args(args);
    client.stdin(Stdio::null()).stdout(Stdio::piped());
    let client = Program::start("iperf3", client).expect("iperf3 starts");
    let said = client.output(PATIENCE).expect("iperf3 ends");
    let report: Value = serde_json::from_slice(&said.stdout).expect("iperf3 reports");
    assert_eq!(report.get("error"), None, "{report:#}");
    report
}

#[test]
fn what_is_meant_for_a_link_goes_over_it_and_over_others_while_that_is_dead() {
    let cluster = cluster_with("[[flow]]\nprotocol = \"tcp\"\nnet = \"10.99.0.2\"\nlink = 1\n");
    let carry = |cluster: &Cluster| drop(iperf(cluster, &["-t", "2"]));
    let run = |cluster: &Cluster| drop(iperf_by_run(cluster, &["-t", "2"]));
    for happens in [&carry as &dyn Fn(&Cluster), &run] {
        let [other, own] = sent_during(&cluster, happens);
        assert!(
            own > 5 * LITTLE_BYTES && other < LITTLE_BYTES,
            "{other} {own}"
        );
    }

    // The link dies without a sign while a stream goes over it.
    let before = sent(&cluster);
    let mut server = cluster.lab().command(1, "iperf3");
    server.args(["-s", "-1"]);
    let mut server = Program::start_quiet("iperf3", server).expect("iperf3 starts");
    server.listens(5201).expect("iperf3 listens");
    let mut client = cluster.lab().command(0, "iperf3");
    let to = cluster.address(1).to_string();
    client.args(["--json", "-c", &to, "-t", "4"]);
    client.stdin(Stdio::null()).stdout(Stdio::piped());
    let client = Program::start("iperf3", client).expect("iperf3 starts");
    eventually("the stream goes over the link", || {
        sent(&cluster)[1] > before[1] + LITTLE_BYTES
    });
    cluster.lab().fail(1, Fault::Silent, None).expect("a fault");
    eventually("the stream goes over the other link", || {
        sent(&cluster)[0] > before[0] + LITTLE_BYTES
    });
    let said = client.output(PATIENCE).expect("iperf3 ends");
    let report: Value = serde_json::from_slice(&said.stdout).expect("iperf3 reports");
    assert_eq!(report.get("error"), None, "{report:#}");
    assert!(
        received_mbps(&report) > 0.5 * LINK_MBPS as f64,
        "{report:#}"
    );
    let shown = cluster.tabane(0).arg("status").output().expect("status");
    let shown = text(&shown.stdout);
    assert!(
        shown.contains("(link 1 to n1 does not work: the others carry it)"),
        "{shown}"
    );

    // It is back, and so is what is meant for it.
    cluster.lab().heal(1).expect("heals");
    cluster
        .wait_status(0, "the link is back", |status| {
            path_state(status, "n1", 1) == Some("up")
        })
        .expect("status");
    for happens in [&carry as &dyn Fn(&Cluster), &run] {
        let [other, own] = sent_during(&cluster, happens);
        assert!(
            own > 5 * LITTLE_BYTES && other < LITTLE_BYTES,
            "{other} {own}"
        );
    }
}

#[test]
fn what_is_mirrored_goes_over_both_links_and_loses_nothing_when_one_dies() {
    let cluster = cluster_with("[[flow]]\ndscp = \"ef\"\ncarry = \"mirror\"\n");
    // 46 << 2: the code point in the field's byte.
    let ping = |count: &str, args: &[&str]| {
        let mut ping = cluster.lab().command(0, "ping");
        ping.args(["-n", "-i", "0.005", "-s", "1200", "-c", count])
            .args(args);
        ping.arg(cluster.address(1).to_string());
        ping.stdin(Stdio::null()).stdout(Stdio::piped());
        Program::start("ping", ping).expect("ping starts")
    };
    let bytes = sent_during(&cluster, |_| {
        ping("200", &["-Q", "184"]).output(PATIENCE).expect("ends");
    });
    assert!(bytes.iter().all(|bytes| *bytes > 200 * 1200), "{bytes:?}");

    let before = sent(&cluster);
    let pings = ping("600", &["-Q", "184"]);
    eventually("pings go", || sent(&cluster)[0] > before[0] + 100 * 1200);
    cluster.lab().fail(0, Fault::Silent, None).expect("a fault");
    let said = text(&pings.output(PATIENCE).expect("ends").stdout);
    assert!(said.contains("600 received, 0% packet loss"), "{said}");
}

#[test]
fn no_more_goes_than_a_rate_allows() {
    const RATE_MBPS: f64 = 10.0;
    let cluster = cluster_with("[[flow]]\nport = \"5201-5999\"\nrate = \"10mbit\"\n");
    let of_stream = received_mbps(&iperf(&cluster, &["-t", "3"]));
    let of_streams = received_mbps(&iperf(&cluster, &["-t", "3", "-P", "4"]));
    let of_datagrams = received_mbps(&iperf(&cluster, &["-t", "3", "-u", "-b", "30M"]));
    let of_run = received_mbps(&iperf_by_run(&cluster, &["-t", "3", "-P", "2"]));
    for mbps in [of_stream, of_streams, of_datagrams, of_run] {
        let all = [of_stream, of_streams, of_datagrams, of_run];
        assert!(mbps < 1.1 * RATE_MBPS, "{all:?} Mb/s");
        assert!(mbps > 0.5 * RATE_MBPS, "{all:?} Mb/s");
    }
    let status = cluster.status(0).expect("status");
    let flow = &status["node"]["flows"][0];
    assert_eq!(flow["how"], "at most 10mbit");
    assert!(flow["bytes"].as_u64() > Some(LITTLE_BYTES), "{flow}");
    assert!(flow["packets_dropped"].as_u64() > Some(0), "{flow}");
    // Two for data, one for what iperf3 says.
    assert_eq!(flow["connections"], 3, "{flow}");

    // After a reload it is free.
    let file = fs::read_to_string(cluster.file()).expect("is there");
    fs::write(cluster.file(), file.replace("5201-5999", "7000")).expect("is ours");
    let told = cluster.tabane(0).arg("reload").output().expect("is told");
    let told = text(&told.stdout);
    assert!(
        told.contains("flow added, port 7000: at most 10mbit"),
        "{told}"
    );
    assert!(
        told.contains("flow removed, port 5201-5999: at most 10mbit"),
        "{told}"
    );
    let free = received_mbps(&iperf(&cluster, &["-t", "3"]));
    assert!(free > 1.2 * LINK_MBPS as f64, "{free} Mb/s");
}
