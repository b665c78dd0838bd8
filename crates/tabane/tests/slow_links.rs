//! Links that are far slower than the programs: who sends little does not wait for who
//! sends much.

mod common;

use std::process::Stdio;

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, path};
use tabane_lab::{LabConfig, LinkSpec};

/// Two of them: 16 Mb/s.
const LINK_MBPS: u64 = 8;
const STREAMS: &str = "4";
const SECONDS: &str = "15";
const PINGS: &str = "50";

/// Without turns every ping waits for all that four streams have under way: for seconds.
/// With them it waits for a packet or two, and for this machine.
const MEDIAN_MS_MAX: f64 = 100.0;
/// It takes both links twice as long.
const QUEUED_BYTES: u64 = 400_000;

#[test]
fn a_ping_passes_four_streams_of_tcp_that_fill_the_links() {
    let cluster = cluster_on(&LabConfig {
        links: vec![LinkSpec::mbit(LINK_MBPS); 2],
        ..LabConfig::default()
    });
    let mut server = cluster.lab().command(1, "iperf3");
    server.args(["-s", "-1"]);
    let mut server = Program::start_quiet("iperf3", server).expect("iperf3 starts");
    server.listens(5201).expect("iperf3 listens");
    let to = cluster.address(1).to_string();
    let mut bulk = cluster.lab().command(0, "iperf3");
    bulk.args(["--json", "-c", &to, "-P", STREAMS, "-t", SECONDS]);
    bulk.stdin(Stdio::null()).stdout(Stdio::piped());
    let bulk = Program::start("iperf3", bulk).expect("iperf3 starts");
    // More than what programs and links hold: the queue has had time to grow.
    cluster
        .wait_status(0, "the streams fill both links", |status| {
            let sent = |link| path(status, "n1", link)?["tx_bytes"].as_u64();
            (0..2).all(|link| sent(link).is_some_and(|bytes| bytes > 3_000_000))
        })
        .expect("status");
    pings_pass(&cluster);

    let said = bulk.output(PATIENCE).expect("iperf3 ends");
    let report: Value = serde_json::from_slice(&said.stdout).expect("iperf3 reports");
    let mbps = |sum: &str| report["end"][sum]["bits_per_second"].as_f64();
    let received = mbps("sum_received").unwrap_or(0.0) / 1e6;
    let both = 2.0 * LINK_MBPS as f64;
    assert!(received > both * 0.8, "{received} Mb/s: {report:#}");
}

/// What programs have queued under `tabane run`, twice as much as a ping may wait for, is not before
/// what others send over `tab0`.
#[test]
fn a_ping_passes_streams_under_tabane_run_that_fill_the_links() {
    let cluster = cluster_on(&LabConfig {
        links: vec![LinkSpec::mbit(LINK_MBPS); 2],
        ..LabConfig::default()
    });
    let mut server = cluster.run(1, "iperf3");
    server.args(["-s", "-1"]);
    let mut server = Program::start_quiet("iperf3", server).expect("iperf3 starts");
    server.listens(5201).expect("iperf3 listens");
    let mut bulk = cluster.run(0, "iperf3");
    bulk.args(["-c", "n1", "-P", STREAMS, "-t", SECONDS]);
    bulk.stdin(Stdio::null());
    let _bulk = Program::start_quiet("iperf3", bulk).expect("iperf3 starts");
    let filled = |status: &Value| status["peers"][0]["queued_bytes"].as_u64() > Some(QUEUED_BYTES);
    cluster
        .wait_status(0, "much is queued", filled)
        .expect("status");
    pings_pass(&cluster);
}

/// Pings from node 0 to node 1, over `tab0`, do not wait for all that is queued.
fn pings_pass(cluster: &Cluster) {
    let to = cluster.address(1).to_string();
    let mut ping = cluster.lab().command(0, "ping");
    ping.args(["-n", "-i", "0.1", "-W", "20", "-c", PINGS, &to]);
    ping.stdin(Stdio::null()).stdout(Stdio::piped());
    let ping = Program::start("ping", ping).expect("ping starts");
    let ended = ping.output(PATIENCE).expect("ping ends");
    let pinged = text(&ended.stdout);
    assert!(ended.status.success(), "{}: {pinged}", ended.status);
    let mut ms: Vec<f64> = pinged.lines().filter_map(round_trip_ms).collect();
    ms.sort_by(f64::total_cmp);
    assert!(ms.len() > 40, "{pinged}");
    let median = ms[ms.len() / 2];
    assert!(median < MEDIAN_MS_MAX, "{median} ms: {pinged}");
}

/// Of a line of `ping` that tells of an answer.
fn round_trip_ms(line: &str) -> Option<f64> {
    let (_, time) = line.split_once("time=")?;
    time.split(' ').next()?.parse().ok()
}
