//! Links fail and come back under running programs, which notice nothing but
//! the rate.

mod common;

use std::fs;

use common::*;
use serde_json::Value;
use tabane_lab::Fault;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output, path};

const SOME_BYTES: u64 = 4_000_000;

fn fail(cluster: &Cluster, link: usize, fault: Fault, node: Option<usize>) {
    cluster.lab().fail(link, fault, node).expect("fails");
}

fn heal(cluster: &Cluster, link: usize) {
    cluster.lab().heal(link).expect("heals");
}

#[test]
fn a_stream_survives_every_kind_of_failure() {
    let cluster = cluster_on(&slow_links());
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    for (link, fault, node) in FAILURES {
        fail(&cluster, link, fault, node);
        wait_path(&cluster, link, "down");
        stream.flows(SOME_BYTES);
        heal(&cluster, link);
        wait_path(&cluster, link, "up");
        stream.flows(SOME_BYTES);
    }
    stream.finish();
}

#[test]
fn a_stream_survives_loss_on_a_link() {
    let cluster = cluster_on(&slow_links());
    let stream = Stream::start(&cluster);
    for percent in [5.0, 30.0] {
        fail(&cluster, 1, Fault::Loss { percent }, None);
        stream.flows(2 * SOME_BYTES);
        heal(&cluster, 1);
    }
    stream.flows(SOME_BYTES);
    stream.finish();
}

#[test]
fn a_stream_survives_a_link_that_passes_only_shorter_packets() {
    let cluster = cluster_on(&slow_links());
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    for link in 0..2 {
        fail(&cluster, link, Fault::Mtu { bytes: 1400 }, None);
        stream.flows(2 * SOME_BYTES);
        heal(&cluster, link);
        wait_path(&cluster, link, "up");
    }
    stream.finish();
}

#[test]
fn a_stream_waits_while_all_links_are_down() {
    let cluster = cluster_on(&slow_links());
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    for link in 0..2 {
        fail(&cluster, link, Fault::Silent, None);
    }
    for link in 0..2 {
        wait_path(&cluster, link, "down");
    }
    for link in 0..2 {
        heal(&cluster, link);
    }
    stream.flows(SOME_BYTES);
    stream.finish();
}

#[test]
fn an_address_is_taken_from_a_nic_and_given_back() {
    let cluster = cluster_on(&slow_links());
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    address(&cluster, "del");
    wait_path(&cluster, 1, "down");
    stream.flows(SOME_BYTES);
    address(&cluster, "add");
    wait_path(&cluster, 1, "up");
    stream.flows(SOME_BYTES);
    stream.finish();
}

#[test]
fn a_nic_is_renamed() {
    let cluster = cluster_on(&slow_links());
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    for change in ["down", "name lan1", "up"] {
        let nic = if change == "up" { "lan1" } else { "eth1" };
        said(&cluster, 0, &format!("ip link set {nic} {change}"));
    }
    let is_told = |status: &Value| status["node"]["links"][1]["device"] == "lan1";
    cluster.wait_status(0, "the name", is_told).expect("status");
    wait_path(&cluster, 1, "up");
    stream.flows(SOME_BYTES);
    stream.finish();
}

/// Not what made it fail, if that is over.
#[test]
fn status_says_what_keeps_a_path_down() {
    let cluster = cluster();
    let why = || {
        let status = wait_path(&cluster, 1, "down");
        let path = path(&status, "n1", 1).expect("is configured");
        path["why"].as_str().unwrap_or_default().to_owned()
    };
    address(&cluster, "del");
    eventually("the kernel's word is told", || why().contains("kernel"));
    fail(&cluster, 1, Fault::Silent, None);
    address(&cluster, "add");
    eventually("the link is known to be up", || why().contains("up again"));
}

#[test]
fn a_virtual_nic_that_somebody_removes_is_made_again() {
    let cluster = cluster_on(&slow_links());
    // With its number.
    let device = || {
        let devices = said(&cluster, 1, "ip -o link");
        let mut lines = devices.lines().map(str::to_owned);
        lines.find(|line| line.contains("tab0"))
    };
    let number = |line: String| line.split(':').next().map(str::to_owned);
    let before = device().and_then(number);
    let stream = Stream::start(&cluster);
    stream.flows(SOME_BYTES);
    said(&cluster, 1, "ip link delete tab0");
    eventually("another one", || {
        device().is_some_and(|line| number(line) != before)
    });
    stream.flows(SOME_BYTES);
    for (change, undo) in [
        ("link set tab0 down", "link set tab0 up"),
        (
            "address flush dev tab0",
            "address add 10.99.0.2/24 dev tab0",
        ),
    ] {
        said(&cluster, 1, &format!("ip {change}"));
        let is_told = |status: &Value| status["node"]["vnic"]["trouble"].is_string();
        cluster.wait_status(1, change, is_told).expect("status");
        said(&cluster, 1, &format!("ip {undo}"));
        let is_sound = |status: &Value| status["node"]["vnic"]["trouble"].is_null();
        cluster.wait_status(1, undo, is_sound).expect("status");
    }
    stream.flows(SOME_BYTES);
    stream.finish();
}

#[test]
fn status_says_what_failed_and_why() {
    let cluster = cluster();
    for (link, fault) in [(1, Fault::Silent), (0, Fault::Carrier)] {
        fail(&cluster, link, fault, None);
        let status = wait_path(&cluster, link, "down");
        let failed = path(&status, "n1", link).expect("is listed");
        assert!(
            failed["why"].as_str().is_some_and(|why| !why.is_empty()),
            "{status:#}"
        );
        let other = path(&status, "n1", 1 - link).expect("is listed");
        assert_eq!(other["state"], "up", "{status:#}");
        assert_eq!(status["peers"][0]["state"], "up", "{status:#}");
        heal(&cluster, link);
        wait_path(&cluster, link, "up");
    }
}

#[test]
fn a_download_survives_a_switch() {
    const PORT: u16 = 8080;
    let cluster = cluster_on(&slow_links());
    let directory = cluster.directory();
    let (page, got) = (directory.join("page"), directory.join("got"));
    let mut bytes = vec![0; 60_000_000];
    Random::new().fill(&mut bytes);
    fs::write(&page, &bytes).expect("is written");
    let shown = directory.display();
    let configuration = format!(
        "user root; daemon off; master_process off; pid {shown}/nginx.pid; error_log {shown}/nginx.log;\n\
         events {{}}\n\
         http {{ access_log off; client_body_temp_path {shown}/b; proxy_temp_path {shown}/p;\n\
         fastcgi_temp_path {shown}/f; uwsgi_temp_path {shown}/u; scgi_temp_path {shown}/s;\n\
         server {{ listen {PORT}; root {shown}; }} }}\n"
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, configuration).expect("is written");
    let mut nginx = cluster.lab().command(1, "nginx");
    nginx
        .arg("-c")
        .arg(&file)
        .arg("-e")
        .arg(directory.join("nginx.log"));
    let mut nginx = Program::start("nginx", nginx).expect("nginx starts");
    nginx.listens(PORT).expect("nginx listens");

    let mut curl = cluster.lab().command(0, "curl");
    curl.args(["--silent", "--show-error", "--fail", "--output"])
        .arg(&got);
    curl.arg(format!("http://{}:{PORT}/page", cluster.address(1)));
    let mut curl = Program::start("curl", curl).expect("curl starts");
    eventually("the download begins", || {
        fs::metadata(&got).is_ok_and(|file| file.len() > SOME_BYTES)
    });
    fail(&cluster, 0, Fault::Silent, None);
    assert!(curl.wait(PATIENCE).expect("ends").success());
    assert!(
        fs::read(&got).expect("is there") == bytes,
        "the download is not the file"
    );
}

#[test]
fn redis_goes_on_while_a_switch_fails() {
    let cluster = cluster();
    let (_server, benchmark) = redis(&cluster, &["-c", "8", "-n", "20000", "-d", "1000"]);
    let benchmark = std::thread::spawn(|| output("redis-benchmark", benchmark, PATIENCE));
    fail(&cluster, 1, Fault::Silent, None);
    wait_path(&cluster, 1, "down");
    heal(&cluster, 1);
    let done = benchmark.join().expect("is waited for").expect("ends");
    let said = text(&done.stdout);
    assert!(
        done.status.success() && said.contains("\"GET\""),
        "{said}{}",
        text(&done.stderr)
    );
}
