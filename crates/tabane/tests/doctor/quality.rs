//! Links that work, but not as they should.

use std::io::Write;
use std::thread;

use tabane_lab::{Fault, LabConfig, LinkSpec};

use crate::common::*;
use crate::diagnosis::*;

const LOSS: Fault = Fault::Loss { percent: 10.0 };

#[test]
fn loss_on_an_idle_link() {
    let cluster = cluster();
    cluster.lab().fail(1, LOSS, None).expect("fails");
    // On a busy machine few pings go out in a second.
    eventually("the loss is named", || {
        let said = doctor_with(&cluster, 0, &["--seconds", "2"]);
        if said.causes().is_empty() {
            return false;
        }
        let evidence = said.only("lossy_link", &[1])["evidence"].to_string();
        evidence.contains("pings")
    });
}

#[test]
fn loss_on_a_busy_link() {
    let cluster = cluster_on(&slow_links());
    cluster.lab().fail(1, LOSS, None).expect("fails");
    let stream = Stream::start(&cluster);
    stream.flows(8_000_000);
    eventually("the loss is named", || {
        let said = doctor(&cluster, 0);
        let findings = said.value["findings"].as_array().expect("a list").clone();
        let lossy = findings.iter().find(|f| f["cause"] == "lossy_link");
        lossy.is_some_and(|finding| {
            assert_eq!(finding["links"], serde_json::json!([1]), "{:#}", said.value);
            let evidence = finding["evidence"].to_string();
            evidence.contains("packets sent on it were lost")
        })
    });
    stream.finish();
}

/// Two links, one of a tenth of the other's rate.
fn unequal() -> LabConfig {
    LabConfig {
        links: vec![LinkSpec::mbit(100), LinkSpec::mbit(10)],
        ..LabConfig::default()
    }
}

#[test]
fn a_slow_link() {
    let cluster = cluster_on(&unequal());
    eventually("the slow link is named", || {
        let said = doctor_with(&cluster, 0, &["n1", "--measure", "--seconds", "2"]);
        if said.is_short_of_cpu() {
            // It says so instead: what the links can do is not seen then.
            return true;
        }
        let findings = said.value["findings"].as_array().expect("a list").clone();
        let mut slow = findings.iter().filter(|f| f["cause"] == "slow_link");
        slow.any(|finding| {
            assert_eq!(finding["links"], serde_json::json!([1]), "{:#}", said.value);
            finding["cost_share"].as_f64() > Some(0.1)
        })
    });
}

#[test]
fn a_link_that_passes_no_large_packets() {
    let cluster = cluster();
    let hole = Fault::Mtu { bytes: 1400 };
    cluster.lab().fail(1, hole, None).expect("fails");
    doctor(&cluster, 0).only("mtu", &[1]);
}

#[test]
fn jumbo_frames_at_one_end_only() {
    let cluster = cluster();
    run(&cluster, 0, "ip", &["link", "set", "eth1", "mtu", "9000"]);
    let mut said = None;
    eventually("the MTU is named", || {
        let this = doctor(&cluster, 0);
        let is_named = this.causes() == ["mtu"];
        said = Some(this);
        is_named
    });
    let said = said.expect("was asked");
    let mend = said.only("mtu", &[1])["mend"].to_string();
    assert!(mend.contains("ip link set eth1 mtu 1500"), "{mend}");
    doctor(&cluster, 1).well();
}

#[test]
fn half_duplex() {
    let cluster = cluster();
    // A veth is always full duplex; a TAP is what one says.
    run(
        &cluster,
        0,
        "ip",
        &["tuntap", "add", "dev", "tap9", "mode", "tap"],
    );
    run(
        &cluster,
        0,
        "ip",
        &["address", "del", "10.77.1.1/24", "dev", "eth1"],
    );
    run(&cluster, 0, "ip", &["link", "set", "tap9", "up"]);
    run(
        &cluster,
        0,
        "ip",
        &["address", "add", "10.77.1.1/24", "dev", "tap9"],
    );
    run(
        &cluster,
        0,
        "ethtool",
        &["-s", "tap9", "speed", "100", "duplex", "half"],
    );
    wait_path(&cluster, 1, "down");
    let said = doctor(&cluster, 0);
    assert!(said.causes().contains(&"half_duplex"), "{:#}", said.value);
}

#[test]
fn a_program_that_does_not_read() {
    let cluster = cluster_on(&slow_links());
    // Nobody reads what arrives.
    let (mut sender, _receiver) = socat_pair(&cluster);
    let mut input = sender.take_stdin().expect("is a pipe");
    let writer = thread::spawn(move || while input.write_all(&[7; 65_536]).is_ok() {});
    // On a machine that is short of processor time it is not said at once.
    let says = |node: usize, words: &str| {
        let said = doctor(&cluster, node);
        let findings = said.value["findings"].as_array().expect("a list").clone();
        let mut slow = findings.iter().filter(|f| f["cause"] == "slow_program");
        slow.any(|f| f["what"].as_str().is_some_and(|what| what.contains(words)))
    };
    eventually("the sender is seen to wait", || {
        says(0, "10.99.0.2:5000 does not take")
    });
    eventually("the receiver is seen not to read", || {
        says(1, "10.99.0.2:5000 reads slowly")
    });
    sender.kill();
    writer.join().expect("ends");
}
