//! The machine itself.

use std::fs;
use std::process::Stdio;

use tabane_io::udp::RECEIVE_BUFFER_BYTES;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};
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
    start_behind(&mut cluster, 0, &["taskset", "-c", "0"]);
    let mut hog = cluster.lab().command(0, "taskset");
    hog.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    let hog = Program::start_quiet("sh", hog).expect("starts");
    // As much as can be sent, all the time.
    eventually("the processor is named", || {
        let said = doctor_with(&cluster, 0, &["n1", "--measure"]);
        said.is_short_of_cpu()
    });
    drop(hog);
}

/// Node 0's daemon without CAP_NET_ADMIN: the kernel's limit of buffers holds. Returns
/// whether it grants less than is asked for.
fn with_small_buffers() -> (Cluster, bool) {
    let config = ClusterConfig {
        vnic: false,
        ..ClusterConfig::default()
    };
    let mut cluster = Cluster::new(lab(&LabConfig::default()), tabane(), config).expect("file");
    cluster.start(1).expect("starts");
    start_behind(&mut cluster, 0, &WITHOUT_PRIVILEGES);
    let limit = fs::read_to_string("/proc/sys/net/core/rmem_max").expect("is read");
    let limit: usize = limit.trim().parse().expect("a number");
    (cluster, limit < RECEIVE_BUFFER_BYTES)
}

#[test]
fn small_socket_buffers() {
    let (cluster, are_small) = with_small_buffers();
    let said = doctor(&cluster, 0);
    said.well();
    assert_eq!(
        said.notes().contains(&"buffers"),
        are_small,
        "{:#}",
        said.value
    );
}

#[test]
fn small_socket_buffers_that_lose_packets() {
    const SIGSTOP: i32 = 19;
    const SIGCONT: i32 = 18;
    let (cluster, are_small) = with_small_buffers();
    let mut command = tabane_behind(&cluster, 0, &[], "doctor");
    command.args(["--alone", "--json", "--seconds", "3"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut doctor = Program::start("tabane doctor", command).expect("starts");
    // Again and again the daemon is late, and more comes than any buffer holds: large
    // datagrams, so that the few it finds are no flood of strangers.
    let signal = |signal| cluster.daemon(0).expect("runs").signal(signal);
    while doctor.ended().expect("the system says").is_none() {
        signal(SIGSTOP).expect("stops");
        let mut socat = cluster.lab().command(1, "socat");
        socat.args(["-u", "-b60000", "OPEN:/dev/zero,readbytes=24000000"]);
        socat.arg("UDP:10.77.0.1:7577");
        assert!(
            output("socat", socat, PATIENCE)
                .expect("ends")
                .status
                .success()
        );
        signal(SIGCONT).expect("goes on");
        // Doctor has its answers as well.
        cluster.status(0).expect("the daemon answers");
    }
    let said = doctor.output(PATIENCE).expect("ends").stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).expect("is JSON");
    let findings = said["findings"].as_array().expect("a list");
    let named = findings.iter().find(|f| f["cause"] == "buffers");
    assert_eq!(named.is_some(), are_small, "{said:#}");
    if let Some(named) = named {
        assert_eq!(named["severity"], "slow", "{said:#}");
        let evidence = named["evidence"].to_string();
        assert!(evidence.contains("had no room in the sockets"), "{said:#}");
        let mend = named["mend"].to_string();
        assert!(mend.contains("sysctl -w net.core.rmem_max="), "{said:#}");
    }
}

/// Datagrams of UDP as a NIC with bad memory makes them, 20 a second: `altered.py MAC`.
const ALTERED: &str = r#"
import socket, struct, sys, time
own, other = (socket.inet_aton(address) for address in ("10.77.0.2", "10.77.0.1"))
udp = struct.pack("!HHHH", 7577, 7577, 8 + 100, 0x1234) + bytes(100)
def sum16(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + own + other
ip = ip[:10] + struct.pack("!H", sum16(ip)) + ip[12:]
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("eth0", 0))
frame = bytes.fromhex(sys.argv[1].replace(":", "")) + wire.getsockname()[4] + b"\x08\x00" + ip + udp
while True:
    wire.send(frame)
    time.sleep(0.05)
"#;

#[test]
fn packets_that_were_altered_on_the_way() {
    let cluster = cluster();
    let mac = said(&cluster, 0, "cat /sys/class/net/eth0/address");
    let mut python = cluster.lab().command(1, "python3");
    python.args(["-c", ALTERED, mac.trim()]);
    let sender = Program::start("python3", python).expect("starts");
    eventually("they are named", || {
        let said = doctor(&cluster, 0);
        let causes = said.causes();
        if causes.is_empty() {
            return false;
        }
        let evidence = said.only("altered_packets", &[])["evidence"].to_string();
        evidence.contains("with a wrong checksum")
    });
    drop(sender);
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

#[test]
fn packets_that_nobody_joins() {
    let cluster = cluster();
    // Cut before the wire, as a NIC does it, and not joined behind it.
    let cut = ["-K", "eth1", "tx-udp-segmentation", "off"];
    run(&cluster, 0, "ethtool", &cut);
    run(&cluster, 1, "ethtool", &["-K", "eth1", "gro", "off"]);
    let stream = Stream::start(&cluster);
    eventually("it is named", || {
        let said = doctor(&cluster, 1);
        let findings = said.value["findings"].as_array().expect("a list").clone();
        let mut named = findings.iter().filter(|f| f["cause"] == "offloads");
        named.any(|finding| {
            assert_eq!(finding["links"], serde_json::json!([1]), "{:#}", said.value);
            let mend = finding["mend"].to_string();
            mend.contains("ethtool -K eth1 gro on")
        })
    });
    stream.finish();
}

#[test]
fn the_virtual_nic_is_changed_by_somebody() {
    let cluster = cluster();
    for (change, undo) in [
        ("link set tab0 down", "link set tab0 up"),
        (
            "address flush dev tab0",
            "address add 10.99.0.1/24 dev tab0",
        ),
        (
            "link set tab0 address 02:00:00:00:00:07",
            "link set tab0 address 02:74:0a:63:00:01",
        ),
    ] {
        ip(&cluster, change);
        let said = doctor(&cluster, 0);
        let finding = said.only("vnic_changed", &[]);
        let mend = format!("`ip {undo}`");
        assert_eq!(finding["mend"], serde_json::json!([mend]), "{change}");
        ip(&cluster, undo);
    }
}

fn ip(cluster: &Cluster, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    run(cluster, 0, "ip", &words);
}

#[test]
fn a_variable_that_keeps_jobs_of_mpi_from_starting() {
    let cluster = cluster();
    let words = ["env", "TABANE_LINKS=eth77"];
    let mut command = tabane_behind(&cluster, 0, &words, "doctor");
    command.args(["--alone", "--json", "--seconds", "1"]);
    let said = diagnose(command);
    let finding = said.only("mpi_not_ready", &[]);
    let line = finding["evidence"][0].as_str().expect("is text");
    assert!(line.contains("TABANE_LINKS=eth77"), "{line}");
}
