//! The peers tabane is measured beside use the links they should.

mod common;

use std::process::{Command, Stdio};

use common::*;
use tabane_lab::peers::{self, Congestion};
use tabane_lab::{Lab, LinkSpec};

fn sent_bytes(lab: &Lab, node: usize, link: usize) -> u64 {
    let mut read = lab.command(node, "cat");
    read.arg(format!("/sys/class/net/eth{link}/statistics/tx_bytes"));
    text(&run(read).stdout).trim().parse().expect("a number")
}

const SENT_BYTES: u64 = 40_000_000;

/// Sends [`SENT_BYTES`] from n0 to n1 by iperf3, whose report is returned. It
/// listens on all addresses, and goes on listening, as MPTCP's joins need.
fn transfer(server: Command, client: impl Fn() -> Command) -> serde_json::Value {
    let mut server = server;
    let mut server = server
        .args(["-s", "-1"])
        .stdout(Stdio::null())
        .spawn()
        .expect("iperf3 starts");
    let mut report = serde_json::Value::Null;
    assert!(eventually(|| {
        let mut client = client();
        client.args(["-c", "10.77.0.2", "-n", &SENT_BYTES.to_string(), "--json"]);
        report = serde_json::from_slice(&run(client).stdout).unwrap_or_default();
        report["end"]["sum_sent"].is_object()
    }));
    server.wait().expect("ends");
    report
}

/// Bytes n0 sends on each link in a [`transfer`].
fn spread(lab: &Lab, iperf3: impl Fn(usize) -> Command) -> Vec<u64> {
    let sent = || {
        (0..lab.links())
            .map(|link| sent_bytes(lab, 0, link))
            .collect::<Vec<_>>()
    };
    let before = sent();
    transfer(iperf3(1), || iperf3(0));
    sent()
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect()
}

/// The congestion control of a connection from n0 to n1, as iperf3 finds it.
fn in_use(lab: &Lab) -> String {
    let report = transfer(lab.command(1, "iperf3"), || lab.command(0, "iperf3"));
    report["end"]["sender_tcp_congestion"]
        .as_str()
        .unwrap_or_default()
        .into()
}

#[test]
fn single_tcp_uses_the_congestion_control_asked_for_and_one_link() {
    let lab = lab();
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        peers::congestion(&lab, congestion).expect("is known here");
        assert_eq!(in_use(&lab), congestion.to_string());
    }
    let spread = spread(&lab, |node| lab.command(node, "iperf3"));
    assert!(
        spread[0] > SENT_BYTES / 2 && spread[1] < SENT_BYTES / 100,
        "{spread:?}"
    );
}

#[test]
fn mptcp_uses_every_link() {
    for links in [2, 4] {
        let lab = lab_with(2, vec![LinkSpec::mbit(200); links]);
        peers::mptcp(&lab).expect("is set up");
        // Each subflow is set up when the kernel gets round to it.
        let mut seen = Vec::new();
        let all_used = eventually(|| {
            seen = spread(&lab, |node| {
                peers::mptcp_command(&lab, node, "iperf3").expect("is installed")
            });
            seen.iter().all(|&bytes| bytes > SENT_BYTES / 40)
        });
        assert!(all_used, "{seen:?}");
    }
}

#[test]
fn balance_rr_shares_the_packets_equally() {
    for links in [2, 3] {
        let lab = lab_with(2, vec![LinkSpec::default(); links]);
        peers::balance_rr(&lab).expect("is set up");
        let spread = spread(&lab, |node| lab.command(node, "iperf3"));
        let share = SENT_BYTES / links as u64;
        assert!(
            spread
                .iter()
                .all(|&bytes| bytes > share / 2 && bytes < share * 3),
            "{spread:?}"
        );
    }
}
