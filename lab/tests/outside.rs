//! The network outside: clients, the line to them, and the cables that lead there.

mod common;

use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use tabane_lab::cluster::{Cluster, ClusterConfig, Program};
use tabane_lab::{Fault, Lab, LabConfig, LabError, OUTSIDE_ADDRESSES, OUTSIDE_DEVICE, OutsideSpec};

/// A round trip to a client takes this long at least.
const ROUND_TRIP: Duration = Duration::from_millis(20);
const RATE_BITS_PER_S: u64 = 50_000_000;

fn outside(nodes: usize, round_trip: Duration) -> Lab {
    let spec = OutsideSpec {
        rate_bits_per_s: Some(RATE_BITS_PER_S),
        round_trip,
    };
    let config = LabConfig {
        nodes,
        outside: Some(spec),
        ..LabConfig::default()
    };
    Lab::up(&config).expect("a lab comes up")
}

/// Gives a node the outside addresses, as a gateway would have them; they are returned.
fn give_addresses(lab: &Lab, node: usize) -> [IpAddr; 2] {
    OUTSIDE_ADDRESSES.map(|address| {
        let words = ["address", "add", address, "dev", OUTSIDE_DEVICE, "nodad"];
        let words = match address.contains(':') {
            true => &words[..],
            false => &words[..5],
        };
        lab.ip(node, words).expect("is given");
        let (address, _) = address.split_once('/').expect("has a length");
        address.parse().expect("is an address")
    })
}

/// Whether all of some pings are answered, each after this time at the earliest.
fn answered(mut ping: Command, to: IpAddr, at_least: Duration) -> bool {
    ping.args(["-c", "3", "-i", "0.01", "-W", "1", &to.to_string()]);
    let said = text(&run(ping).stdout);
    let times = said.lines().filter_map(|line| line.split_once("time="));
    let times = times.filter_map(|(_, time)| time.split(' ').next()?.parse::<f64>().ok());
    let times: Vec<f64> = times.collect();
    let least_ms = at_least.as_secs_f64() * 1000.0;
    assert!(times.iter().all(|ms| *ms >= least_ms), "{said}");
    times.len() == 3
}

fn reaches(lab: &Lab, client: usize, to: IpAddr, at_least: Duration) -> bool {
    answered(lab.client_command(client, "ping"), to, at_least)
}

fn has_carrier(lab: &Lab, node: usize) -> bool {
    let mut read = lab.command(node, "cat");
    read.arg(format!("/sys/class/net/{OUTSIDE_DEVICE}/carrier"));
    text(&run(read).stdout).trim() == "1"
}

#[test]
fn clients_reach_each_other_at_once_and_nodes_after_the_round_trip() {
    let lab = outside(3, ROUND_TRIP);
    assert_eq!((lab.gateways(), lab.clients()), (2, 2));
    let [c0, c1] = [0, 1].map(|client| lab.client_addresses(client));
    assert_eq!(
        c0.map(|a| a.to_string()),
        ["203.0.113.101", "2001:db8::101"]
    );
    for to in c1 {
        assert!(reaches(&lab, 0, to, Duration::ZERO), "{to}");
    }
    for to in c0 {
        assert!(reaches(&lab, 1, to, Duration::ZERO), "{to}");
    }
    let cluster = give_addresses(&lab, 1);
    for to in cluster {
        for client in 0..2 {
            assert!(reaches(&lab, client, to, ROUND_TRIP), "c{client} to {to}");
        }
    }
    for to in c1 {
        assert!(answered(lab.command(1, "ping"), to, ROUND_TRIP), "{to}");
    }
    assert!(!has_carrier(&lab, 2), "the third node has no such device");
}

#[test]
fn a_client_is_a_machine_of_its_own() {
    let lab = outside(1, Duration::ZERO);
    assert_eq!(lab.gateways(), 1);
    let mut look = lab.client_command(1, "sh");
    look.args([
        "-c",
        "hostname; echo $TABANE_LAB_NODE; echo $(ls /sys/class/net)",
    ]);
    assert_eq!(text(&run(look).stdout), "c1\nc1\neth0 lo\n");
    assert!(lab.client_command(2, "true").spawn().is_err());
    let mut addresses = lab.command(0, "ip");
    addresses.args(["-br", "address", "show", "dev", OUTSIDE_DEVICE]);
    let said = text(&run(addresses).stdout);
    assert!(said.contains(" UP "), "{said}");
    assert!(!said.contains('/'), "it has no address: {said}");
}

/// How long [`CARRIED_BYTES`] take from a program here to one there, by TCP.
fn carried(mut from: Command, mut there: Command, to: IpAddr) -> Duration {
    there.args(["-s", "-1", "-p", "5201"]).stdout(Stdio::null());
    let mut there = Program::start("iperf3", there).expect("starts");
    there.listens(5201).expect("listens");
    from.args(["-c", &to.to_string(), "-n", &CARRIED_BYTES.to_string()]);
    let begun = Instant::now();
    let said = run(from);
    assert!(said.status.success(), "{}", text(&said.stdout));
    there.wait(PATIENCE).expect("ends");
    begun.elapsed()
}

const CARRIED_BYTES: u64 = 8_000_000;

#[test]
fn the_rate_binds_both_ways_with_a_delay_and_without() {
    for round_trip in [Duration::ZERO, Duration::from_millis(2)] {
        let lab = outside(1, round_trip);
        let [cluster, _] = give_addresses(&lab, 0);
        let [client, _] = lab.client_addresses(0);
        let out = carried(
            lab.command(0, "iperf3"),
            lab.client_command(0, "iperf3"),
            client,
        );
        let within = carried(
            lab.client_command(0, "iperf3"),
            lab.command(0, "iperf3"),
            cluster,
        );
        // Less what a shaper that has rested lets through at once.
        let least = Duration::from_secs_f64(CARRIED_BYTES as f64 * 8.0 / RATE_BITS_PER_S as f64);
        assert!(out >= least * 9 / 10, "{out:?}");
        assert!(within >= least * 9 / 10, "{within:?}");
    }
}

#[test]
fn a_cable_outside_fails_alone_and_is_healed() {
    let lab = outside(2, Duration::from_millis(1));
    let [to, _] = give_addresses(&lab, 0);
    let other = "203.0.113.2";
    lab.ip(
        1,
        &["address", "add", "203.0.113.2/24", "dev", OUTSIDE_DEVICE],
    )
    .expect("is given");
    let other = other.parse().expect("is an address");
    let works = |to| reaches(&lab, 0, to, Duration::ZERO);
    assert!(works(to) && works(other));
    for fault in [
        Fault::Silent,
        Fault::Carrier,
        Fault::OneWay,
        Fault::Loss { percent: 100.0 },
    ] {
        lab.fail_outside(fault, Some(0)).expect("fails");
        assert!(!works(to), "{fault}");
        assert!(works(other), "{fault}");
        assert!(has_carrier(&lab, 1));
        assert!(
            eventually(|| has_carrier(&lab, 0) == (fault != Fault::Carrier)),
            "{fault}"
        );
        lab.heal_outside().expect("heals");
        assert!(eventually(|| works(to)), "{fault}");
    }
    lab.fail_outside(Fault::Silent, None).expect("fails");
    assert!(!works(to) && !works(other));
    assert!(pings(&lab, 0, 1, 0, 3, 56) == 3, "the links are untouched");
    lab.heal_outside().expect("heals");
    assert!(eventually(|| works(to) && works(other)));
}

#[test]
fn what_the_outside_does_not_have_is_said() {
    let lab = outside(3, Duration::ZERO);
    let says = |result: Result<_, LabError>, what: &str| {
        let error = result.expect_err("is refused");
        assert!(
            error.is_bad_input() && error.to_string().contains(what),
            "{error}"
        );
    };
    says(lab.fail_outside(Fault::Silent, Some(2)), "n0 and n1");
    says(lab.fail_outside(Fault::Silent, Some(9)), "n0 to n2");
    says(lab.fail_outside(Fault::Mtu { bytes: 1400 }, None), "oneway");
    let without = common::lab();
    assert_eq!((without.gateways(), without.clients()), (0, 0));
    assert!(without.client_command(0, "true").spawn().is_err());
    says(without.fail_outside(Fault::Silent, None), "--outside");
    says(without.heal_outside(), "--outside");
}

#[test]
fn an_outside_leaves_nothing_behind() {
    let lab = outside(2, Duration::from_millis(1));
    // Makes sockets that keep namespaces.
    lab.heal_outside().expect("heals");
    let trace = trace(&lab);
    let mut left = lab.client_command(0, "sleep");
    let mut left = left.arg("1000").spawn().expect("starts");
    let again = Lab::open(lab.name()).expect("is up");
    assert_eq!((again.gateways(), again.clients()), (2, 2));
    drop(again);
    lab.down().expect("goes down");
    assert!(trace.is_gone(), "{:?}", trace.holders());
    assert!(!left.wait().expect("was ended").success());
}

/// Writes the least that the cluster file begins with, as `tabane init` does.
const INIT: &str = "#!/bin/sh\necho '[mesh]' > \"$2\"\n";

#[test]
fn the_cluster_file_names_the_gateways_if_that_is_asked_for() {
    let scratch = tabane_lab::cluster::Scratch::new().expect("is made");
    let init = scratch.path().join("init");
    std::fs::write(&init, INIT).expect("is written");
    let mut executable = Command::new("chmod");
    executable.args(["+x".as_ref(), init.as_os_str()]);
    assert!(run(executable).status.success());
    let file = |lab, gateway| {
        let config = ClusterConfig {
            gateway,
            ..ClusterConfig::default()
        };
        let cluster = Cluster::new(lab, &init, config)?;
        Ok::<_, LabError>(std::fs::read_to_string(cluster.file()).expect("is there"))
    };
    let with = file(outside(3, Duration::ZERO), true).expect("is written");
    let wanted = "[gateway]\nnodes = [\"n0\", \"n1\"]\naddresses = [\"203.0.113.1/24\", \"2001:db8::1/64\"]\ninterface = \"ext0\"\n";
    assert!(with.ends_with(wanted), "{with}");
    let without = file(outside(1, Duration::ZERO), false).expect("is written");
    assert!(!without.contains("gateway"), "{without}");
    let refused = file(lab(), true).expect_err("there is no outside");
    assert!(refused.is_bad_input(), "{refused}");
}
