//! What programs send over `tab0` arrives, of whatever kind and size.

mod common;

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, PATIENCE, output, path};
use tabane_lab::{Fault, LabConfig, LinkSpec};

/// iperf3 stops reading when its client has written all, so that what it counts
/// is less by what was on its way.
fn received_bytes(report: &Value) -> f64 {
    report["end"]["sum_received"]["bytes"]
        .as_f64()
        .unwrap_or(0.0)
}

#[test]
fn an_unmodified_iperf3_uses_both_links() {
    let cluster = cluster();
    // How fast, and how soon the links share alike, is bench's business: where processor
    // time is short, a link that seems slow is tried again for seconds.
    eventually("both links carry both ways", || {
        for direction in [&["-t", "1"][..], &["-t", "1", "-R"]] {
            let report = iperf(&cluster, direction);
            if received_bytes(&report) <= 1e6 {
                return false;
            }
        }
        let status = cluster.status(0).expect("status");
        let carried = |link: usize, count: &str| {
            let bytes = path(&status, "n1", link).expect("is listed")[count].as_u64();
            bytes.is_some_and(|bytes| bytes > 5_000_000)
        };
        (0..2).all(|link| carried(link, "tx_bytes") && carried(link, "rx_bytes"))
    });
}

#[test]
fn both_directions_at_once() {
    let cluster = cluster();
    eventually("both carry", || {
        let report = iperf(&cluster, &["-t", "1", "--bidir"]);
        ["sum_received", "sum_received_bidir_reverse"]
            .iter()
            .all(|sum| {
                let bytes = report["end"][sum]["bytes"].as_f64();
                bytes.is_some_and(|bytes| bytes > 1e6)
            })
    });
}

#[test]
fn many_connections_at_once() {
    let report = iperf(&cluster(), &["-t", "1", "-P", "16"]);
    let streams = report["end"]["streams"].as_array().expect("are listed");
    assert_eq!(streams.len(), 16);
    assert!(received_bytes(&report) > 1e6, "{:#}", report["end"]);
}

/// Packets much shorter than the longest, of more connections than any queue has places for: none
/// may be dropped here, for TCP takes a second to send an only packet again.
#[test]
fn answers_of_a_middling_length_to_many_clients_are_all_carried() {
    let cluster = cluster();
    let (_server, benchmark) = redis(&cluster, &["-c", "200", "-n", "20000", "-d", "4000"]);
    let done = output("redis-benchmark", benchmark, PATIENCE).expect("ends");
    let said = text(&done.stdout);
    assert!(
        done.status.success() && said.contains("\"GET\""),
        "{said}{}",
        text(&done.stderr)
    );
    for node in 0..2 {
        let limits = &cluster.status(node).expect("status")["node"]["limits_hit"];
        let full = ["frames_queue_full", "vnic_queue_full", "vnic_overrun"];
        let is_full = full.iter().any(|name| !limits[name].is_null());
        assert!(!is_full, "n{node}: {limits}");
    }
}

#[test]
fn packets_of_every_size() {
    let cluster = cluster();
    for size in [
        0, 1, 56, 1372, 1400, 1472, 1473, 2000, 9000, 30_000, 61_000, 65_000,
    ] {
        assert_eq!(pings(&cluster, 0, 1, 3, size), 3, "{size} bytes");
    }
}

/// However long the packets that TCP makes, the other host's IP takes all of them.
#[test]
fn streams_of_both_families() {
    let cluster = cluster();
    let on_node = |node, program: &str, args: &[&str]| {
        let mut command = cluster.lab().command(node, program);
        let said = output(
            program,
            {
                command.args(args);
                command
            },
            PATIENCE,
        )
        .expect("ends");
        assert!(said.status.success(), "{}", text(&said.stderr));
        text(&said.stdout)
    };
    for (node, address) in ["fd99::1/64", "fd99::2/64"].into_iter().enumerate() {
        on_node(
            node,
            "ip",
            &["address", "add", address, "dev", "tab0", "nodad"],
        );
    }
    for address in [&cluster.address(1).to_string(), "fd99::2"] {
        let report = iperf_to(&cluster, address, &["-n", "40M"]);
        assert!(received_bytes(&report) > 10e6, "{address}: {report:#}");
    }
    let counted = on_node(1, "cat", &["/proc/net/snmp6"]);
    let counter = |name: &str| {
        let line = counted.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
    };
    assert!(counter("Ip6InReceives").is_some_and(|packets| packets > 100));
    for refused in ["Ip6InHdrErrors", "Ip6InTruncatedPkts"] {
        assert_eq!(counter(refused), Some(0), "{refused}");
    }
}

#[test]
fn udp_passes() {
    let cluster = cluster();
    for length in ["100", "1400", "8000", "60000"] {
        let report = iperf(&cluster, &["-u", "-b", "20M", "-n", "1M", "-l", length]);
        let sum = &report["end"]["sum"];
        // UDP may lose on a machine too busy to read it, but not most of it.
        let lost_percent = sum["lost_percent"].as_f64();
        assert!(
            lost_percent.is_some_and(|lost| lost < 50.0),
            "{length}: {:#}",
            report["end"]
        );
    }
}

/// The kernel's queue in front of the device is one for all TCP: what stands there is to be read.
#[test]
fn pings_pass_the_bulk_of_many_streams() {
    let cluster = cluster_on(&LabConfig {
        links: vec![LinkSpec::mbit(450); 2],
        ..LabConfig::default()
    });
    let standing = || {
        let limits = cluster.status(0).expect("status")["node"]["limits_hit"].take();
        limits["frames_crowded_out"].as_u64().unwrap_or(0)
    };
    std::thread::scope(|scope| {
        let bulk = scope.spawn(|| iperf(&cluster, &["-t", "5", "-P", "64"]));
        eventually("more waits than can be sent", || standing() > 0);
        assert_eq!(pings(&cluster, 0, 1, 50, 56), 50);
        bulk.join().expect("iperf3 ends");
    });
}

/// What comes faster than it can be carried is dropped, and that is told: once.
#[test]
fn a_flood_of_udp_is_told_of() {
    let cluster = cluster();
    let overruns = || {
        let limits = cluster.status(0).expect("status")["node"]["limits_hit"].take();
        limits["vnic_overrun"].as_u64().unwrap_or(0)
    };
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| iperf(&cluster, &["-u", "-b", "0", "-t", "3", "-P", "2"]));
        eventually("more comes than is read", || overruns() > 0);
        flood.join().expect("iperf3 ends");
    });
    let log = cluster.log(0);
    let told = log
        .lines()
        .filter(|line| line.contains("faster than can be carried"));
    assert_eq!(told.count(), 1, "{log}");
    eventually("it is over", || pings(&cluster, 0, 1, 3, 56) == 3);
}

#[test]
fn links_with_jumbo_frames() {
    let cluster = cluster_on(&LabConfig {
        mtu: 9000,
        ..LabConfig::default()
    });
    assert!(received_bytes(&iperf(&cluster, &["-n", "40M"])) > 10e6);
    assert_eq!(pings(&cluster, 0, 1, 3, 30_000), 3);
    cluster
        .wait_status(0, "jumbo frames are used", |status| {
            let mtu = |link| path(status, "n1", link)?["mtu_bytes"].as_u64();
            (0..2).all(|link| mtu(link).is_some_and(|mtu| mtu > 8900))
        })
        .expect("status");
}

/// A tunnel underneath, a port that somebody has set so: what passes is used, and it is said.
#[test]
fn links_that_pass_small_packets_only() {
    let cluster = cluster();
    let narrow = Fault::Mtu { bytes: 900 };
    let stream = Stream::start(&cluster);
    stream.flows(4_000_000);
    cluster.lab().fail(1, narrow, None).expect("fails");
    let is_narrow = |status: &Value, link| {
        let why = path(status, "n1", link)?["why"].as_str()?;
        Some(why.contains("no packets of more than"))
    };
    let said = cluster.wait_status(0, "the other link carries all, and why is said", |status| {
        is_narrow(status, 1) == Some(true) && is_narrow(status, 0).is_none()
    });
    let sent = |status: &Value| {
        [0, 1].map(|link| path(status, "n1", link).and_then(|path| path["tx_bytes"].as_u64()))
    };
    let before = sent(&said.expect("status")).map(|bytes| bytes.expect("is counted"));
    stream.flows(8_000_000);
    let after = cluster.wait_status(0, "a status", |status| sent(status)[1].is_some());
    let after = sent(&after.expect("status")).map(|bytes| bytes.expect("is counted"));
    let carried = [0, 1].map(|link| after[link] - before[link]);
    // Not a fair share: some while the other one is in doubt, on a machine that is too busy.
    assert!(carried[1] < carried[0] / 2, "{carried:?}");
    cluster.lab().fail(0, narrow, None).expect("fails");
    cluster
        .wait_status(0, "both are narrow", |status| {
            (0..2).all(|link| is_narrow(status, link) == Some(true))
        })
        .expect("status");
    stream.flows(4_000_000);
    cluster.lab().heal(1).expect("heals");
    cluster
        .wait_status(0, "one is wide again", |status| {
            is_narrow(status, 1).is_none() && is_narrow(status, 0) == Some(true)
        })
        .expect("status");
    stream.flows(4_000_000);
    stream.finish();
}

#[test]
fn links_that_differ() {
    let cluster = cluster_on(&LabConfig {
        links: vec![LinkSpec::mbit(400), LinkSpec::mbit(10)],
        ..LabConfig::default()
    });
    let stream = Stream::start(&cluster);
    stream.flows(20_000_000);
    stream.finish();
}

#[test]
fn one_link_and_eight() {
    for links in [1, 8] {
        let cluster: Cluster = cluster_on(&LabConfig {
            links: vec![LinkSpec::mbit(100); links],
            ..LabConfig::default()
        });
        let stream = Stream::start(&cluster);
        stream.flows(4_000_000);
        stream.finish();
    }
}
