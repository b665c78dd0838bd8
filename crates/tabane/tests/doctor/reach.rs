//! What makes a path, or a peer, unreachable.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use ring::{hkdf, hmac};
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, all_paths_up};
use tabane_lab::{Fault, LabConfig};
use tabane_proto::wire::{INIT_BYTES, Kind, MAC_BYTES, VERSION};

use crate::common::*;
use crate::diagnosis::*;

fn down(cluster: &Cluster, link: usize, fault: Fault, node: Option<usize>) {
    cluster.lab().fail(link, fault, node).expect("fails");
    wait_path(cluster, link, "down");
}

#[test]
fn a_dead_switch_and_a_pulled_cable() {
    let cluster = cluster();
    down(&cluster, 1, Fault::Silent, None);
    let said = doctor(&cluster, 0);
    assert_eq!(said.only("link_dead", &[1])["severity"], "degraded");
    cluster.lab().heal(1).expect("heals");
    wait_path(&cluster, 1, "up");

    down(&cluster, 0, Fault::Carrier, Some(0));
    doctor(&cluster, 0).only("no_carrier", &[0]);
    doctor(&cluster, 1).only("link_dead", &[0]);
}

#[test]
fn one_direction() {
    let cluster = cluster();
    down(&cluster, 1, Fault::OneWay, Some(0));
    let said = doctor(&cluster, 0);
    assert_eq!(
        said.only("one_way", &[1])["peers"],
        serde_json::json!(["n1"])
    );
    doctor(&cluster, 1).only("link_dead", &[1]);
}

#[test]
fn an_interface_that_is_off_or_lost_its_address() {
    let cluster = cluster();
    run(&cluster, 0, "ip", &["link", "set", "eth1", "down"]);
    wait_path(&cluster, 1, "down");
    doctor(&cluster, 0).only("link_off", &[1]);
    run(&cluster, 0, "ip", &["link", "set", "eth1", "up"]);
    wait_path(&cluster, 1, "up");
    let address = "10.77.1.1/24";
    run(
        &cluster,
        0,
        "ip",
        &["address", "del", address, "dev", "eth1"],
    );
    wait_path(&cluster, 1, "down");
    doctor(&cluster, 0).only("address_missing", &[1]);
}

#[test]
fn firewalls_here() {
    let cluster = cluster();
    firewall(&cluster, 0, "input", "iifname eth1 udp dport 7577 drop");
    wait_path(&cluster, 1, "down");
    let said = doctor(&cluster, 0);
    let evidence = said.only("firewall_here", &[1])["evidence"].to_string();
    assert!(evidence.contains("0 reached the daemon"), "{evidence}");
    doctor(&cluster, 1).only("firewall_there", &[1]);
    run(&cluster, 0, "nft", &["delete", "table", "inet", "wall"]);
    wait_path(&cluster, 1, "up");

    firewall(&cluster, 0, "output", "oifname eth0 udp dport 7577 drop");
    wait_path(&cluster, 0, "down");
    doctor(&cluster, 0).only("firewall_here", &[0]);
}

#[test]
fn firewalls_there() {
    let cluster = cluster();
    let reject = "iifname eth1 udp dport 7577 reject with icmp type admin-prohibited";
    firewall(&cluster, 1, "input", reject);
    wait_path(&cluster, 1, "down");
    doctor(&cluster, 0).only("firewall_there", &[1]);
}

#[test]
fn no_daemon_there() {
    let mut cluster = cluster();
    cluster.stop(1).expect("ends");
    cluster
        .wait_status(0, "n1 is gone", |s| s["peers"][0]["state"] != "up")
        .expect("status");
    let said = doctor(&cluster, 0);
    assert_eq!(
        said.only("no_daemon_there", &[0, 1])["severity"],
        "unreachable"
    );
    doctor_unprivileged(&cluster, 0).only("no_daemon_there", &[0, 1]);

    // A firewall that drops hides that.
    firewall(&cluster, 1, "input", "udp dport 7577 drop");
    doctor(&cluster, 0).only("firewall_there", &[0, 1]);
}

#[test]
fn a_daemon_that_hangs() {
    const SIGSTOP: i32 = 19;
    const SIGCONT: i32 = 18;
    let cluster = cluster();
    let hung = |signal: i32| {
        let daemon = cluster.daemon(1).expect("runs");
        daemon.signal(signal).expect("is sent");
    };
    hung(SIGSTOP);
    cluster
        .wait_status(0, "n1 is silent", |s| {
            let paths = s["peers"][0]["paths"].as_array().expect("paths");
            paths.iter().all(|path| path["state"] == "down")
        })
        .expect("status");
    let there = doctor(&cluster, 0);
    let here = doctor(&cluster, 1);
    hung(SIGCONT);
    let what = there.only("firewall_there", &[0, 1])["what"].to_string();
    assert!(what.contains("or the daemon there hangs"), "{what}");
    // Its own device and ports are no second fault.
    let (causes, notes) = (here.causes(), here.notes());
    assert_eq!(causes, ["daemon_silent"], "{:#}", here.value);
    assert!(!notes.contains(&"cluster_file"), "{:#}", here.value);
}

/// Node 1 runs from another file than node 0: what differs is named.
fn with_other_file(change: impl Fn(String) -> String) -> Diagnosis {
    let mut cluster = Cluster::new(
        lab(&LabConfig::default()),
        tabane(),
        ClusterConfig::default(),
    )
    .expect("the file is written");
    let other = cluster.directory().join("other.toml");
    // A copy has the permissions of the original.
    fs::copy(cluster.file(), &other).expect("is copied");
    let text = fs::read_to_string(&other).expect("is read");
    fs::write(&other, change(text)).expect("is written");
    cluster.start(0).expect("starts");
    let mut up = cluster.tabane(1);
    up.arg("up").arg("--config").arg(&other);
    cluster.start_as(1, up).expect("starts");
    cluster
        .wait_status(0, "somebody is refused", |s| {
            let is_any = s["refused"].as_array().is_some_and(|r| !r.is_empty());
            is_any || s["node"]["dropped"]["stranger"].as_u64() > Some(1)
        })
        .expect("status");
    // Handshakes are repeated every two seconds.
    doctor_with(&cluster, 0, &["--seconds", "4"])
}

#[test]
fn another_key() {
    let said = with_other_file(|text| {
        let at = text.find("key = \"").expect("there is a key") + 7;
        let mut text = text;
        let other = if text[at..].starts_with('0') {
            "1"
        } else {
            "0"
        };
        text.replace_range(at..=at, other);
        text
    });
    assert_eq!(said.causes(), ["wrong_key"], "{:#}", said.value);
    assert_eq!(said.first("wrong_key")["peers"], serde_json::json!(["n1"]));
}

#[test]
fn another_wire() {
    let said = with_other_file(|text| text.replace("wire = \"encrypted\"", "wire = \"plain\""));
    assert_eq!(said.causes(), ["wrong_wire"], "{:#}", said.value);
    said.first("wrong_wire");
}

#[test]
fn another_name() {
    let said = with_other_file(|text| text.replace("name = \"n1\"", "name = \"m1\""));
    assert!(said.causes().contains(&"files_differ"), "{:#}", said.value);
}

#[test]
fn two_nodes_with_one_name() {
    let said = with_other_file(|text| {
        let swapped = text.replace("name = \"n0\"", "name = \"x\"");
        swapped.replace("name = \"n1\"", "name = \"n0\"")
    });
    assert!(said.causes().contains(&"name_conflict"), "{:#}", said.value);
}

#[test]
fn links_that_are_swapped() {
    // What is link 0 in one file is link 1 in the other.
    let said = with_other_file(|text| {
        let swapped = text.replace("10.77.0.", "10.77.9.");
        let swapped = swapped.replace("10.77.1.", "10.77.0.");
        swapped.replace("10.77.9.", "10.77.1.")
    });
    assert_eq!(said.causes(), ["swapped_links"], "{:#}", said.value);
    let first = said.first("swapped_links");
    assert_eq!(first["peers"], serde_json::json!(["n1"]));
    assert_eq!(first["links"], serde_json::json!([0, 1]));
}

#[test]
fn cables_that_are_crossed() {
    let cluster = cluster();
    // Each address is on the other switch from now on, as if the cables were.
    for (address, from, to) in [
        ("10.77.0.1/24", "eth0", "eth1"),
        ("10.77.1.1/24", "eth1", "eth0"),
    ] {
        run(&cluster, 0, "ip", &["address", "del", address, "dev", from]);
        run(&cluster, 0, "ip", &["address", "add", address, "dev", to]);
    }
    for link in [0, 1] {
        wait_path(&cluster, link, "down");
    }
    for node in [0, 1] {
        let said = doctor(&cluster, node);
        said.only("swapped_links", &[0, 1]);
    }
}

#[test]
fn another_version() {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    cluster.start(0).expect("starts");
    // There is but one version: so what another one sends is made by hand.
    let text = fs::read_to_string(cluster.file()).expect("is read");
    let datagram = first_message_of_version(&text, VERSION + 1);
    let mut socat = cluster.lab().command(1, "socat");
    socat.args(["-u", "-", "UDP:10.77.0.1:7577,bind=10.77.0.2:7577"]);
    socat.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut socat = Program::start("socat", socat).expect("socat starts");
    let mut input = socat.take_stdin().expect("is a pipe");
    input.write_all(&datagram).expect("is sent");
    drop(input);
    assert!(socat.wait(PATIENCE).expect("ends").success());
    let is_refused = |status: &serde_json::Value| status["refused"][0]["peer"] == "n1";
    cluster
        .wait_status(0, "it is refused", is_refused)
        .expect("status");
    let said = doctor(&cluster, 0);
    let first = said.first("wrong_version");
    assert_eq!(
        first["peers"],
        serde_json::json!(["n1"]),
        "{:#}",
        said.value
    );
}

/// The first message of a handshake as far as a node of another version reads it: its
/// kind, the version, and the proof that the sender has the key (docs/protocol.md).
fn first_message_of_version(file: &str, version: u16) -> Vec<u8> {
    let at = file.find("key = \"").expect("there is a key") + 7;
    let digits = |byte: usize| u8::from_str_radix(&file[at + 2 * byte..][..2], 16);
    let secret: [u8; 32] = std::array::from_fn(|byte| digits(byte).expect("is hexadecimal"));
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tabane").extract(&secret);
    let mut key = [0; 32];
    let okm = prk.expand(&[b"tabane mac"], hkdf::HKDF_SHA256);
    okm.and_then(|okm| okm.fill(&mut key)).expect("is derived");
    let mut datagram = vec![0; INIT_BYTES];
    datagram[0] = Kind::Init as u8;
    datagram[6..8].copy_from_slice(&version.to_be_bytes());
    let (signed, mac) = datagram.split_at_mut(INIT_BYTES - MAC_BYTES);
    let proof = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), signed);
    mac.copy_from_slice(proof.as_ref());
    datagram
}

#[test]
fn switches_that_are_joined() {
    let cluster = cluster();
    cluster.lab().join(0, 1).expect("are joined");
    // A switch forwards on a new port some time after its carrier is up.
    eventually("the switches are joined", || {
        !doctor(&cluster, 0).causes().is_empty()
    });
    for node in [0, 1] {
        doctor(&cluster, node).only("shared_network", &[0, 1]);
    }
}

#[test]
fn another_machine_with_our_address_or_the_peers() {
    let config = LabConfig {
        nodes: 3,
        ..LabConfig::default()
    };
    let cluster = Cluster::up(lab(&config), tabane(), ClusterConfig::default()).expect("is up");
    run(
        &cluster,
        2,
        "ip",
        &["address", "add", "10.77.0.1/24", "dev", "eth0"],
    );
    let first = doctor(&cluster, 0);
    let evidence = first.first("address_conflict")["evidence"].to_string();
    assert!(evidence.contains("02:7a:62:00:00:03"), "{evidence}");
    // As the peer sees it, two machines answer for one address.
    let said = doctor_with(&cluster, 1, &["n0"]);
    assert_eq!(
        said.first("address_conflict")["peers"],
        serde_json::json!(["n0"])
    );
    run(
        &cluster,
        2,
        "ip",
        &["address", "del", "10.77.0.1/24", "dev", "eth0"],
    );
    // The other machine's Ethernet address may have stayed in the peer's table.
    let said = doctor_with(&cluster, 1, &["n0"]);
    if !said.causes().is_empty() {
        said.only("wrong_neighbour", &[0]);
        let forget = ["neigh", "del", "10.77.0.1", "dev", "eth0"];
        run(&cluster, 1, "ip", &forget);
    }
    cluster
        .wait_status(1, "all is well again", all_paths_up)
        .expect("status");
    doctor_with(&cluster, 1, &["n0"]).well();
}

#[test]
fn packets_for_the_bundle_that_take_another_way_or_are_dropped() {
    let cluster = cluster();
    let ip = |args: &[&str]| run(&cluster, 0, "ip", args);
    let past = ["10.99.0.2/32", "via", "10.77.0.2"];
    ip(&[&["route", "add"], &past[..]].concat());
    let said = doctor(&cluster, 0);
    let finding = said.only("vnic_route", &[]);
    assert_eq!(finding["severity"], "degraded");
    doctor(&cluster, 1).well();
    ip(&[&["route", "del"], &past[..]].concat());
    ip(&["rule", "add", "to", "10.99.0.0/24", "prohibit"]);
    let said = doctor(&cluster, 0);
    let finding = said.only("vnic_route", &[]);
    assert_eq!(finding["severity"], "unreachable");
    ip(&["rule", "del", "to", "10.99.0.0/24", "prohibit"]);

    firewall(&cluster, 1, "input", "iifname tab0 drop");
    for node in [0, 1] {
        doctor(&cluster, node).only("vnic_firewall", &[]);
    }
}
