//! The machine itself.

use std::fs;

use tabane_io::udp::RECEIVE_BUFFER_BYTES;
use tabane_lab::cluster::{Cluster, ClusterConfig, Program, all_paths_up};
use tabane_lab::{LabConfig, LinkSpec};

use crate::common::*;
use crate::diagnosis::*;

#[test]
fn a_daemon_that_uses_all_of_a_processor() {
    let config = LabConfig {
        links: vec![LinkSpec::unshaped(); 2],
        ..LabConfig::default()
    };
    let mut cluster = Cluster::new(lab(&config), tabane(), ClusterConfig::default()).expect("file");
    cluster.start(1).expect("starts");
    // On one processor with another program that never rests.
    let on_first = |cluster: &Cluster, program: &std::path::Path| {
        let mut command = cluster.lab().command(0, "taskset");
        command.args(["-c", "0"]).arg(program);
        command
    };
    let mut up = on_first(&cluster, tabane());
    up.arg("up").arg("--config").arg(cluster.file());
    let mut hog = on_first(&cluster, "sh".as_ref());
    hog.args(["-c", "while :; do :; done"]);
    cluster.start_as(0, up).expect("starts");
    cluster
        .wait_status(0, "all is up", all_paths_up)
        .expect("status");
    let hog = Program::start_quiet("sh", hog).expect("starts");
    // As much as can be sent, all the time.
    eventually("the processor is named", || {
        let said = doctor_with(&cluster, 0, &["n1", "--measure"]);
        said.is_short_of_cpu()
    });
    drop(hog);
}

#[test]
fn small_socket_buffers() {
    let config = ClusterConfig {
        vnic: false,
        ..ClusterConfig::default()
    };
    let mut cluster = Cluster::new(lab(&LabConfig::default()), tabane(), config).expect("file");
    cluster.start(1).expect("starts");
    // Without CAP_NET_ADMIN the kernel's limit holds.
    let mut up = cluster.lab().command(0, "setpriv");
    up.args([
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--ambient-caps=-all",
    ]);
    up.arg(tabane())
        .arg("up")
        .arg("--config")
        .arg(cluster.file());
    cluster.start_as(0, up).expect("starts");
    cluster
        .wait_status(0, "all is up", all_paths_up)
        .expect("status");
    let limit = fs::read_to_string("/proc/sys/net/core/rmem_max").expect("is read");
    let limit: usize = limit.trim().parse().expect("a number");
    let said = doctor(&cluster, 0);
    said.well();
    assert_eq!(
        said.notes().contains(&"buffers"),
        limit < RECEIVE_BUFFER_BYTES,
        "{:#}",
        said.value
    );
}

#[test]
fn offloads_that_are_off() {
    let cluster = cluster();
    run(
        &cluster,
        0,
        "ethtool",
        &["-K", "eth1", "tx", "off", "gso", "off"],
    );
    let said = doctor(&cluster, 0);
    let mend = said.only("offloads", &[1])["mend"].to_string();
    assert!(mend.contains("ethtool -K eth1 tx on gso on"), "{mend}");
}
