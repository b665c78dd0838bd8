//! What a peer may make this host believe over `tab0`, and what it may not; VLANs.

mod common;

use std::io::{BufRead, BufReader, ErrorKind, IoSlice};
use std::process::{ChildStdout, Stdio};

use common::*;
use serde_json::Value;
use tabane_cluster::mac_of;
use tabane_io::vnic::{Backend, Vnic, VnicOptions};
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};
use tabane_program::vswitch::{VNET_HDR_BYTES, VSwitch};

/// Begins scripts of Python that send frames as they are, by `frame(to, type, packet)`.
const FRAMES: &str = r#"
import socket, struct
device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
device.bind(("tab0", 0))
own = device.getsockname()[4]
def mac(host):
    return bytes([2, 0x74, 10, 99, 0, host])
def frame(to, kind, packet):
    device.send(to + own + bytes.fromhex(kind) + packet)
def total(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", total ^ 0xffff)
def ipv4(source, to, protocol, content):
    header = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(content), 1, 0, 64, protocol)
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    return header + total(header + bytes(2) + ends) + ends + content
def udp(source, to, content):
    return ipv4(source, to, 17, struct.pack("!HHHH", 7000, 7000, 8 + len(content), 0) + content)
def ipv6(source, to, extensions, icmp):
    ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to)
    icmp = icmp[:2] + total(ends + struct.pack("!II", len(icmp), 58) + icmp) + icmp[4:]
    content = b"".join(bytes([next, 0, 1, 4, 0, 0, 0, 0]) for next in (extensions + [58])[1:]) + icmp
    first = (extensions + [58])[0]
    return struct.pack("!IHBB", 6 << 28, len(content), first, 255) + ends + content
"#;

/// Sends frames on a node: what a script does with [`FRAMES`].
fn send_frames(cluster: &Cluster, node: usize, script: &str) {
    let mut python = cluster.lab().command(node, "python3");
    python.arg("-c").arg(format!("{FRAMES}{script}"));
    let done = output("python3", python, PATIENCE).expect("ends");
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// Takes datagrams at port 7000 of a node, as long as it lives; each is a line.
struct Taker {
    _program: Program,
    lines: BufReader<ChildStdout>,
}

impl Taker {
    fn start(cluster: &Cluster, node: usize) -> Taker {
        let mut python = cluster.lab().command(node, "python3");
        python.arg("-c").arg(
            "import socket\n\
             socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             socket.bind(('', 7000))\n\
             print('ready', flush=True)\n\
             while True: print(socket.recvfrom(100)[0].decode(), flush=True)",
        );
        python.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut program = Program::start("python3", python).expect("starts");
        let lines = BufReader::new(program.take_stdout().expect("is piped"));
        let mut taker = Taker {
            _program: program,
            lines,
        };
        assert_eq!(taker.line(), "ready");
        taker
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("can be read");
        line.trim_end().to_owned()
    }
}

fn hits(cluster: &Cluster, node: usize, limit: &str) -> u64 {
    let status = cluster.status(node).expect("status");
    status["node"]["limits_hit"][limit].as_u64().unwrap_or(0)
}

fn ip(cluster: &Cluster, node: usize, words: &str) -> String {
    said(cluster, node, &format!("ip {words}"))
}

#[test]
fn a_peer_sends_from_no_other_nodes_address() {
    let cluster = cluster_on(&LabConfig {
        nodes: 3,
        ..LabConfig::default()
    });
    let mut taker = Taker::start(&cluster, 0);
    // Of another node, of the very node, of nobody in the file, and its own. The kernel takes off a tag
    // with a priority and no VLAN.
    send_frames(
        &cluster,
        1,
        "for source in ['10.99.0.3', '10.99.0.1', '10.99.0.77', '10.99.0.2']:\n\
         \x20   for tag in ['', '81000000']:\n\
         \x20       data = (source + ' ' + tag).encode()\n\
         \x20       frame(mac(1), tag + '0800', udp(source, '10.99.0.1', data))",
    );
    let mut came: Vec<String> = (0..4).map(|_| taker.line()).collect();
    came.sort();
    let true_ones = [
        "10.99.0.2",
        "10.99.0.2 81000000",
        "10.99.0.77",
        "10.99.0.77 81000000",
    ];
    assert_eq!(came, true_ones);
    eventually("the others are counted", || {
        hits(&cluster, 0, "vnic_refused_foreign_address") == 4
    });
}

#[test]
fn a_peer_becomes_no_router_by_saying_so() {
    let cluster = cluster_on(&LabConfig {
        nodes: 3,
        ..LabConfig::default()
    });
    // A router for 1800 s, and a prefix for addresses (RFC 4861, 4.2 and 4.6.2); redirects.
    send_frames(
        &cluster,
        1,
        "prefix = bytes([3, 4, 64, 0xc0]) + struct.pack('!III', 3600, 3600, 0)\n\
         prefix += socket.inet_pton(socket.AF_INET6, 'fd55::')\n\
         router = bytes([134, 0, 0, 0, 64, 0]) + struct.pack('!HII', 1800, 0, 0) + prefix\n\
         all = bytes.fromhex('333300000001')\n\
         frame(all, '86dd', ipv6('fe80::666', 'ff02::1', [], router))\n\
         frame(all, '86dd', ipv6('fe80::666', 'ff02::1', [0, 60], router))\n\
         better = bytes([137]) + bytes(7)\n\
         better += socket.inet_pton(socket.AF_INET6, 'fe80::666')\n\
         better += socket.inet_pton(socket.AF_INET6, 'fd66::1')\n\
         frame(all, '86dd', ipv6('fe80::666', 'ff02::1', [], better))\n\
         old = ipv4('10.99.0.1', '10.1.1.1', 17, bytes(8))\n\
         redirect = bytes([5, 1]) + bytes(2) + socket.inet_aton('10.99.0.2') + old\n\
         redirect = redirect[:2] + total(redirect) + redirect[4:]\n\
         frame(mac(1), '0800', ipv4('10.99.0.2', '10.99.0.1', 1, redirect))",
    );
    eventually("all are counted", || {
        let hits = |node| hits(&cluster, node, "vnic_refused_routing");
        hits(0) == 4 && hits(2) == 3
    });
    for node in [0, 2] {
        assert_eq!(ip(&cluster, node, "-6 route show default dev tab0"), "");
        let addresses = ip(&cluster, node, "-6 address show dev tab0");
        assert!(!addresses.contains("fd55:"), "{addresses}");
    }
    let log = cluster.log(0);
    assert!(!log.contains("could not be set"), "{log}");
}

/// Duplicate address detection, neighbours that are in no file, and packets in fragments.
#[test]
fn ipv6_that_is_in_no_file_goes_on_working() {
    let cluster = cluster();
    for node in [0, 1] {
        let words = format!("address add fd99::{}/64 dev tab0", node + 1);
        ip(&cluster, node, &words);
    }
    eventually("the addresses are nobody else's", || {
        (0..2).all(|node| !ip(&cluster, node, "-6 address show dev tab0").contains("tentative"))
    });
    for size in ["56", "65000"] {
        eventually("a ping of IPv6 comes back", || {
            let mut ping = cluster.lab().command(0, "ping");
            ping.args(["-6", "-c", "1", "-W", "1", "-s", size, "fd99::2"]);
            output("ping", ping, PATIENCE)
                .expect("ends")
                .status
                .success()
        });
    }
    let refused = cluster.status(1).expect("status")["node"]["limits_hit"].take();
    assert!(refused["vnic_refused_routing"].is_null(), "{refused}");
    assert!(refused["vnic_refused_foreign_address"].is_null());
}

#[test]
fn vlans_are_networks_of_their_own() {
    for backend in backends() {
        let lab = lab(&LabConfig::default());
        let config = ClusterConfig::default();
        let mut cluster = Cluster::new(lab, tabane(), config).expect("a file");
        for node in [0, 1] {
            let mut up = up_behind(&cluster, node, &[]);
            up.env("TABANE_VNIC_BACKEND", backend);
            cluster.start_as(node, up).expect("starts");
        }
        wait_path(&cluster, 0, "up");
        let status = cluster.status(0).expect("status");
        let made = status["node"]["vnic"]["backend"].as_str();
        assert_eq!(made == Some("tap"), backend == "tap");

        // What is tagged does not come to where nothing is.
        let mut taker = Taker::start(&cluster, 1);
        send_frames(
            &cluster,
            0,
            "for tags in ['81000007', '88a80007', '88a8000781000005', '']:\n\
             \x20   data = tags.encode() or b'plain'\n\
             \x20   frame(mac(2), tags + '0800', udp('10.99.0.1', '10.99.0.2', data))",
        );
        assert_eq!(taker.line(), "plain", "with {backend}");

        for node in [0, 1] {
            for limit in ["vnic_refused_offload", "vnic_frames_refused"] {
                assert_eq!(hits(&cluster, node, limit), 0, "{limit} with {backend}");
            }
        }
    }
}

/// What a node says of its virtual NIC.
fn vnic(cluster: &Cluster, node: usize) -> Value {
    cluster.status(node).expect("status")["node"]["vnic"].take()
}

/// The cluster file with this MTU; the nodes read it anew.
fn reload_with_mtu(cluster: &Cluster, plain: &str, mtu: u32, nodes: &[usize]) {
    let file = format!("{plain}[vnic]\nmtu = {mtu}\n");
    std::fs::write(cluster.file(), file).expect("is written");
    for node in nodes {
        let mut reload = cluster.tabane(*node);
        reload.arg("reload");
        let done = output("reload", reload, PATIENCE).expect("ends");
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
}

#[test]
fn the_mtu_is_as_the_file_or_somebody_says() {
    let cluster = cluster();
    let plain = std::fs::read_to_string(cluster.file()).expect("is there");
    assert_eq!(vnic(&cluster, 0)["mtu_bytes"], 62_000);
    // By hand on one node: what is longer does not come in, and that is counted.
    ip(&cluster, 0, "link set tab0 mtu 1500");
    eventually("the MTU is noticed", || {
        vnic(&cluster, 0)["mtu_bytes"] == 1500
    });
    assert_eq!(hits(&cluster, 0, "vnic_refused_too_long"), 0);
    assert_eq!(pings(&cluster, 0, 1, 1, 1000), 1);
    let mut ping = cluster.lab().command(1, "ping");
    ping.args(["-c", "3", "-i", "0.2", "-W", "1", "-s", "8000", "10.99.0.1"]);
    output("ping", ping, PATIENCE).expect("ends");
    assert_eq!(hits(&cluster, 0, "vnic_refused_too_long"), 3);
    // By the file on both, down and up.
    for mtu in [1500, 9000] {
        reload_with_mtu(&cluster, &plain, mtu, &[0, 1]);
        for node in [0, 1] {
            assert_eq!(vnic(&cluster, node)["mtu_bytes"], mtu);
            let device = ip(&cluster, node, "link show dev tab0");
            assert!(device.contains(&format!("mtu {mtu} ")), "{device}");
        }
        assert_eq!(pings(&cluster, 0, 1, 3, 30_000), 3);
        assert_eq!(pings(&cluster, 1, 0, 3, 30_000), 3);
    }
    assert_eq!(hits(&cluster, 0, "vnic_refused_too_long"), 3);
}

#[test]
fn a_device_that_somebody_renames_goes_on() {
    let cluster = cluster();
    ip(&cluster, 0, "link set tab0 down");
    ip(&cluster, 0, "link set tab0 name lan0");
    ip(&cluster, 0, "link set lan0 up");
    eventually("the name is noticed", || {
        let vnic = vnic(&cluster, 0);
        vnic["name"] == "lan0" && vnic["trouble"].is_null()
    });
    assert_eq!(pings(&cluster, 0, 1, 3, 56), 3);
    let mut doctor = tabane_behind(&cluster, 0, &[], "doctor");
    doctor.args(["--json", "--seconds", "0.5"]);
    let said = output("doctor", doctor, PATIENCE).expect("ends");
    let said = text(&said.stdout);
    assert!(
        said.contains("findings") && !said.contains("vnic_changed"),
        "{said}"
    );
}

/// As in a container, and under the systemd unit.
#[test]
fn settings_that_cannot_be_changed_are_told_once_and_stop_nothing() {
    let mut cluster = Cluster::new(
        lab(&LabConfig::default()),
        tabane(),
        ClusterConfig::default(),
    )
    .expect("a file");
    let script =
        "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec \"$@\"";
    cluster.start(1).expect("starts");
    start_behind(
        &mut cluster,
        0,
        &["unshare", "-m", "sh", "-c", script, "sh"],
    );
    // One that is made again is no news.
    ip(&cluster, 0, "link delete tab0");
    eventually("it is made again", || pings(&cluster, 0, 1, 1, 56) == 1);
    let log = cluster.log(0);
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("could not be set to 0"))
        .collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(
        told[0].contains("net.ipv6.conf.tab0.accept_ra,"),
        "{told:?}"
    );
    // That of IPv4 needs no file.
    assert!(!told[0].contains("ipv4"), "{told:?}");
}

/// Has this test run by itself, in a node's namespace.
const INSIDE: &str = "TABANE_TEST_INSIDE";

#[test]
fn the_kernel_takes_every_header_that_a_peer_may_send() {
    if std::env::var_os(INSIDE).is_some() {
        for backend in backends() {
            send_headers(match backend {
                "tap" => Backend::Tap,
                _ => Backend::Packet,
            });
        }
        return;
    }
    let lab = lab(&LabConfig::default());
    let own = std::env::current_exe().expect("is there");
    let mut test = lab.command(0, own);
    let name = "the_kernel_takes_every_header_that_a_peer_may_send";
    test.args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    let done = output("the test", test, PATIENCE).expect("ends");
    assert!(
        done.status.success(),
        "{}{}",
        text(&done.stdout),
        text(&done.stderr)
    );
}

/// Headers with some bytes drawn at random, before frames of all kinds: those that the switch lets
/// through go to the kernel.
fn send_headers(backend: Backend) {
    const ROUNDS: usize = 200_000;
    let node = |host| std::net::IpAddr::from([10, 99, 0, host]);
    let switch = VSwitch::new(mac_of(node(1)), node(1), &[(0, node(2))]);
    let mut vnic = Vnic::open(&VnicOptions {
        name: "tab0",
        mac: mac_of(node(1)),
        mtu: 9000,
        addresses: &[(node(1), 24)],
        gso_bytes_max: 65_536,
        tx_queue_length: 100,
        backend,
    })
    .expect("a device");
    let frames = frames_with_offloads(mac_of(node(1)), mac_of(node(2)));
    let (mut random, mut drawn) = (Random::new(), [0; 16]);
    let mut taken = 0;
    for round in 0..ROUNDS {
        let mut frame = frames[round % frames.len()].clone();
        random.fill(&mut drawn);
        for change in drawn[..6].chunks(2).take(1 + usize::from(drawn[6] % 3)) {
            // Small numbers are near what is right.
            let value = if drawn[7] & 1 == 0 {
                change[1] % 64
            } else {
                change[1]
            };
            frame[usize::from(change[0]) % VNET_HDR_BYTES] = value;
        }
        if switch.accept(&frame, 0).is_err() {
            continue;
        }
        match vnic.write(&[IoSlice::new(&frame)]) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                panic!("{:?} of {backend:?}: {error}", &frame[..VNET_HDR_BYTES])
            }
            // No room at the moment.
            _ => taken += 1,
        }
    }
    assert!(taken > ROUNDS / 20 && taken < ROUNDS, "{taken} of {ROUNDS}");
}

/// Frames of TCP and UDP over both versions of IP, with and without a tag, with headers that leave to
/// the kernel what can be left.
fn frames_with_offloads(to: [u8; 6], from: [u8; 6]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (version, protocol, tag) in [
        (4, 6, &[][..]),
        (4, 17, &[]),
        (6, 6, &[]),
        (6, 17, &[]),
        (4, 6, &[0x81, 0, 0, 5]),
        (6, 17, &[0x81, 0, 0, 0]),
    ] {
        // Few enough segments for every kernel, however short they are.
        const CONTENT: u16 = 60;
        let (gso_type, header_bytes, sum_at) = match (protocol, version) {
            (6, 4) => (1, 20, 16),
            (6, _) => (4, 20, 16),
            _ => (5, 8, 6),
        };
        let length = header_bytes + CONTENT;
        let (kind, mut packet) = if version == 4 {
            let [high, low] = (20 + length).to_be_bytes();
            let ends = [10, 99, 0, 2, 10, 99, 0, 1];
            let fixed = [0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0];
            ([8, 0], [&fixed[..], &ends].concat())
        } else {
            let [high, low] = length.to_be_bytes();
            let mut packet = vec![0x60, 0, 0, 0, high, low, protocol, 64];
            packet.extend([0xfd; 32]);
            ([0x86, 0xdd], packet)
        };
        let start = (14 + tag.len() + packet.len()) as u16;
        packet.resize(packet.len() + usize::from(length), 0);
        let transport = packet.len() - usize::from(length);
        packet[transport + 12] = 5 << 4;
        let words = [start + header_bytes, 10, start, sum_at].map(u16::to_le_bytes);
        let header = [&[1, gso_type], words.as_flattened()].concat();
        frames.push([&header[..], &to, &from, tag, &kind, &packet].concat());
    }
    frames
}
