//! A lab that comes up is the cluster that was asked for.

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use common::*;
use tabane_lab::{Lab, LabConfig, LinkSpec};

#[test]
fn every_node_reaches_every_other_over_every_link() {
    let lab = lab_with(
        3,
        vec![
            LinkSpec::default(),
            LinkSpec::mbit(250),
            LinkSpec::unshaped(),
        ],
    );
    for link in 0..3 {
        for (from, to) in [(0, 1), (1, 2), (2, 0)] {
            assert_eq!(
                pings(&lab, from, to, link, 3, 56),
                3,
                "n{from} to n{to} over link {link}"
            );
        }
    }
}

#[test]
fn nodes_see_their_own_nics_and_nothing_of_the_outside() {
    let lab = lab();
    for node in 0..2 {
        let mut look = lab.command(node, "sh");
        look.args([
            "-c",
            "hostname; echo $TABANE_LAB_NODE; ls /sys/class/net | tr '\\n' ' '; ip -br -4 addr",
        ]);
        let said = text(&run(look).stdout);
        assert!(
            said.starts_with(&format!("n{node}\nn{node}\neth0 eth1 lo ")),
            "{said}"
        );
        for link in 0..2 {
            assert!(
                said.contains(&format!("{}/24", lab.address(node, link))),
                "{said}"
            );
        }
    }
}

#[test]
fn the_mtu_is_the_one_asked_for() {
    let config = LabConfig {
        mtu: 9000,
        ..LabConfig::default()
    };
    let lab = Lab::up(&config).expect("up");
    assert_eq!(pings(&lab, 0, 1, 0, 3, 9000 - 28), 3);
    assert_eq!(pings(&lab, 0, 1, 0, 3, 9000 - 27), 0);
}

#[test]
fn a_command_is_the_program_itself() {
    let lab = lab();
    let mut code = lab.command(0, "sh");
    code.args(["-c", "exit 7"]);
    assert_eq!(run(code).status.code(), Some(7));

    let mut script = lab.command(1, "sh");
    let mut child = script
        .args(["-c", "echo $$; sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("a line");
    assert_eq!(line.trim(), child.id().to_string());
    child.kill().expect("is killed");
    assert!(!child.wait().expect("ends").success());
}

#[test]
fn a_node_that_is_not_there_is_an_error() {
    let lab = lab();
    assert!(lab.command(2, "true").spawn().is_err());
    assert!(
        lab.fail(2, tabane_lab::Fault::Silent, None)
            .unwrap_err()
            .to_string()
            .contains("0 to 1")
    );
    assert!(
        lab.fail(0, tabane_lab::Fault::Silent, Some(9))
            .unwrap_err()
            .to_string()
            .contains("n0 to n1")
    );
    let nonsense = [
        tabane_lab::Fault::Loss { percent: f64::NAN },
        tabane_lab::Fault::Mtu { bytes: 0 },
    ];
    for fault in nonsense {
        assert!(
            lab.fail(0, fault, None).unwrap_err().is_bad_input(),
            "{fault}"
        );
    }
    assert!(lab.heal(7).unwrap_err().is_bad_input());
}

#[test]
fn a_shaped_link_carries_traffic_at_no_more_than_its_rate() {
    let lab = lab_with(2, vec![LinkSpec::mbit(100)]);
    let mut server = lab.command(1, "iperf3");
    let mut server = server
        .args(["-s", "-1"])
        .stdout(Stdio::null())
        .spawn()
        .expect("iperf3 starts");
    let bits_per_s = || {
        let mut client = lab.command(0, "iperf3");
        client.args(["-c", "10.77.0.2", "-t", "2", "-O", "1", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&run(client).stdout).ok()?;
        report["end"]["sum_received"]["bits_per_second"].as_f64()
    };
    let mut got = None;
    assert!(eventually(|| {
        got = bits_per_s();
        got.is_some()
    }));
    assert!(
        got.is_some_and(|rate| rate > 0.0 && rate < 101e6),
        "{got:?}"
    );
    let _ = server.wait();
}

#[test]
fn the_delay_is_added_once_each_way() {
    let slow = LinkSpec {
        delay: Duration::from_millis(20),
        ..LinkSpec::default()
    };
    let lab = lab_with(3, vec![LinkSpec::default(), slow]);
    for (from, to) in [(0, 1), (2, 1)] {
        let rtt_ms = least_rtt_ms(&lab, from, to, 1);
        // Twice the delay, and not twice that: the bound is far from both.
        assert!((40.0..80.0).contains(&rtt_ms), "{rtt_ms} ms");
        assert!(least_rtt_ms(&lab, from, to, 0) < 40.0);
    }
}

fn least_rtt_ms(lab: &Lab, from: usize, to: usize, link: usize) -> f64 {
    let mut ping = lab.command(from, "ping");
    ping.args(["-q", "-c10", "-i0.05", &lab.address(to, link).to_string()]);
    let said = text(&run(ping).stdout);
    let figures = said.split("mdev = ").nth(1).expect("ping reports");
    figures
        .split('/')
        .next()
        .and_then(|least| least.parse().ok())
        .expect("a number")
}

#[test]
fn bulk_traffic_crosses_a_delayed_link_whole() {
    let delay = Duration::from_millis(2);
    let lab = lab_with(
        2,
        vec![LinkSpec {
            delay,
            ..LinkSpec::unshaped()
        }],
    );
    let mut sink = lab.command(1, "sh");
    sink.args(["-c", "socat -u TCP-LISTEN:5000 - | sha256sum"])
        .stdout(Stdio::piped());
    let sink = sink.spawn().expect("socat starts");
    let source =
        "head -c 50000000 /dev/zero | socat -u - TCP:10.77.0.2:5000,retry=100,interval=0.05";
    let mut send = lab.command(0, "sh");
    send.args(["-c", source]);
    assert!(run(send).status.success());
    let mut reference = std::process::Command::new("sh");
    reference.args(["-c", "head -c 50000000 /dev/zero | sha256sum"]);
    assert_eq!(
        text(&sink.wait_with_output().expect("ends").stdout),
        text(&run(reference).stdout)
    );
}

#[test]
fn loss_of_a_link_is_there_from_the_beginning_and_survives_healing() {
    let lossy = LinkSpec {
        loss_percent: 100.0,
        ..LinkSpec::default()
    };
    let lab = lab_with(2, vec![lossy, LinkSpec::default()]);
    assert_eq!(pings(&lab, 0, 1, 0, 5, 56), 0);
    lab.heal(0).expect("heals");
    assert_eq!(pings(&lab, 0, 1, 0, 5, 56), 0);
    assert!(works(&lab, 1));
}
