//! The peers tabane is measured beside use the links they should.

mod common;

use std::process::{Child, Command, Stdio};

use common::*;
use tabane_lab::peers::{self, Congestion};
use tabane_lab::{Lab, LinkSpec};

fn sent_bytes(lab: &Lab, node: usize, link: usize) -> u64 {
    let mut read = lab.command(node, "cat");
    read.arg(format!("/sys/class/net/eth{link}/statistics/tx_bytes"));
    text(&run(read).stdout).trim().parse().expect("a number")
}

const SENT_BYTES: u64 = 40_000_000;

fn sink(mut command: Command) -> Child {
    command
        .args(["-u", "TCP-LISTEN:5000", "-"])
        .stdout(Stdio::null());
    command.spawn().expect("socat starts")
}

/// Bytes sent on each link while [`SENT_BYTES`] go from n0 to n1.
fn spread(lab: &Lab, tcp: impl Fn(usize) -> Command) -> Vec<u64> {
    let mut sink = sink(tcp(1));
    let before: Vec<u64> = (0..lab.links())
        .map(|link| sent_bytes(lab, 0, link))
        .collect();
    let mut send = tcp(0);
    send.args(["-u", "-", "TCP:10.77.0.2:5000,retry=100,interval=0.05"])
        .stdin(Stdio::piped());
    let mut send = send.spawn().expect("socat starts");
    let mut input = send.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, &vec![0; SENT_BYTES as usize]).expect("is taken");
    drop(input);
    assert!(send.wait().expect("ends").success());
    assert!(sink.wait().expect("ends").success());
    (0..lab.links())
        .map(|link| sent_bytes(lab, 0, link) - before[link])
        .collect()
}

/// The congestion control of a connection from n0 to n1, as iperf3 finds it.
fn in_use(lab: &Lab) -> String {
    let mut server = lab.command(1, "iperf3");
    let mut server = server
        .args(["-s", "-1"])
        .stdout(Stdio::null())
        .spawn()
        .expect("iperf3 starts");
    let mut said = String::new();
    assert!(eventually(|| {
        let mut client = lab.command(0, "iperf3");
        client.args(["-c", "10.77.0.2", "-n", "1M", "--json"]);
        let report: serde_json::Value =
            serde_json::from_slice(&run(client).stdout).unwrap_or_default();
        said = report["end"]["sender_tcp_congestion"]
            .as_str()
            .unwrap_or_default()
            .into();
        !said.is_empty()
    }));
    server.wait().expect("ends");
    said
}

#[test]
fn single_tcp_uses_the_congestion_control_asked_for_and_one_link() {
    let lab = lab();
    for congestion in [Congestion::Cubic, Congestion::Bbr] {
        peers::congestion(&lab, congestion).expect("is known here");
        assert_eq!(in_use(&lab), congestion.to_string());
    }
    let spread = spread(&lab, |node| lab.command(node, "socat"));
    assert!(
        spread[0] > SENT_BYTES && spread[1] < SENT_BYTES / 100,
        "{spread:?}"
    );
}

#[test]
fn mptcp_uses_every_link() {
    for links in [2, 4] {
        let lab = lab_with(2, vec![LinkSpec::mbit(200); links]);
        peers::mptcp(&lab).expect("is set up");
        let spread = spread(&lab, |node| {
            peers::mptcp_command(&lab, node, "socat").expect("is installed")
        });
        assert!(
            spread.iter().all(|&bytes| bytes > SENT_BYTES / 40),
            "{spread:?}"
        );
    }
}

#[test]
fn balance_rr_shares_the_packets_equally() {
    for links in [2, 3] {
        let lab = lab_with(2, vec![LinkSpec::default(); links]);
        peers::balance_rr(&lab).expect("is set up");
        let spread = spread(&lab, |node| lab.command(node, "socat"));
        let share = SENT_BYTES / links as u64;
        assert!(
            spread
                .iter()
                .all(|&bytes| bytes > share / 2 && bytes < share * 3),
            "{spread:?}"
        );
    }
}
