//! A stranger on the switch floods a node with whatever it can make or has heard.

use serde_json::Value;
use tabane_bench::machine::resident_bytes;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, path_state};
use tabane_lab::flood::{Flood, FloodConfig, Kind, Recorder, port_counters};

use crate::common::{Stream, eventually, lab, tabane};

/// Node 0 and node 1 have a bundle; node 2 is the stranger's.
const STRANGER: usize = 2;
/// Few enough that each is taken in and counted by its reason.
const TRICKLE: u64 = 400;
/// What the kernel has to keep off, of each kind.
const FLOOD: u64 = 100_000;
/// Above what a busy bundle takes.
const MEMORY_GROWTH_BYTES_MAX: u64 = 96 << 20;

fn send(cluster: &Cluster, kind: Kind, count: u64, recorded: &[Vec<u8>]) {
    let config = FloodConfig {
        from: STRANGER,
        to: 1,
        link: 0,
        kind,
        count,
        recorded: recorded.to_vec(),
    };
    let flood = Flood::start(cluster.lab(), &config).expect("the flood starts");
    assert_eq!(flood.wait().packets, count);
}

fn dropped(status: &Value, reason: &str) -> u64 {
    status["node"]["dropped"][reason].as_u64().unwrap_or(0)
}

/// Waits until something was dropped for each of these; of several reasons joined by a
/// bar, one suffices.
fn wait_dropped(cluster: &Cluster, reasons: &[&str]) {
    let counted = |status: &Value| {
        let one = |any: &str| any.split('|').any(|reason| dropped(status, reason) > 0);
        reasons.iter().all(|reason| one(reason))
    };
    let what = format!("dropped for {reasons:?}");
    let told = cluster.wait_status(1, &what, counted);
    told.expect("status is answered");
}

#[test]
fn a_bundle_survives_what_a_stranger_makes_up_and_what_it_has_heard() {
    let config = LabConfig {
        nodes: 3,
        ..LabConfig::default()
    };
    let mut cluster =
        Cluster::new(lab(&config), tabane(), ClusterConfig::default()).expect("a cluster");
    // The cluster does not know the stranger.
    let file = std::fs::read_to_string(cluster.file()).expect("the cluster file");
    let known = &file[..file.rfind("[[node]]").expect("three nodes")];
    std::fs::write(cluster.file(), known).expect("the cluster file");
    // Somebody listens from the first handshake on.
    let heard = [0, 1].map(|link| Recorder::start(cluster.lab(), link).expect("it listens"));
    cluster.start(0).expect("n0 starts");
    cluster.start(1).expect("n1 starts");
    for link in [0, 1] {
        let is_up = |status: &Value| path_state(status, "n0", link) == Some("up");
        cluster.wait_status(1, "its links work", is_up).expect("up");
    }
    let stream = Stream::start(&cluster);
    stream.flows(1 << 20);
    let daemon = cluster.daemon(1).expect("n1 runs").id();
    let memory_bytes = resident_bytes(daemon).expect("n1 runs");

    // Made up: not a single answer.
    let answers = Recorder::at_node(cluster.lab(), STRANGER, 0).expect("it listens");
    send(&cluster, Kind::Handshakes, TRICKLE, &[]);
    send(&cluster, Kind::Garbage, TRICKLE, &[]);
    wait_dropped(&cluster, &["malformed", "unknown_session", "stranger"]);
    // Heard: at most a cookie for the first message of a handshake, which is longer.
    let made_up = answers.take();
    assert_eq!(made_up, Vec::<Vec<u8>>::new(), "a stranger was answered");
    let recorded: Vec<_> = heard.iter().flat_map(Recorder::take).collect();
    let before = port_counters(cluster.lab(), STRANGER, 0).expect("the port counts");
    send(&cluster, Kind::Copies, TRICKLE, &recorded);
    // Heard a while ago, most of it: whether it was seen before, nobody can tell any more.
    wait_dropped(&cluster, &["replayed|too_old", "wrong_link"]);

    for kind in [Kind::Handshakes, Kind::Garbage, Kind::Copies] {
        send(&cluster, kind, FLOOD, &recorded);
        stream.flows(1 << 20);
    }
    let after = port_counters(cluster.lab(), STRANGER, 0).expect("the port counts");
    let sent = after.from_bytes - before.from_bytes;
    assert!(after.to_bytes - before.to_bytes < sent, "amplification");
    const COOKIE: u8 = 0x03;
    let mut answers = answers.take().into_iter();
    assert_eq!(answers.find(|answer| answer[0] != COOKIE), None);

    stream.finish();
    let memory_after = resident_bytes(daemon).expect("n1 runs");
    assert!(memory_after < memory_bytes + MEMORY_GROWTH_BYTES_MAX);
    eventually("the links work", || {
        let status = cluster.status(1).expect("status is answered");
        [0, 1]
            .iter()
            .all(|&link| path_state(&status, "n0", link) == Some("up"))
    });
}
