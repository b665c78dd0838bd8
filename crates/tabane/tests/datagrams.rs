//! Datagrams that go over `tab0` one by one: of programs, and of tunnels.

mod common;

use common::*;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};

/// `datagrams.py take` and `datagrams.py send HOST`: batches of datagrams of all lengths, of four sockets mixed, one of
/// them without checksums; of each socket the same must arrive, in the same order.
const DATAGRAMS: &str = r#"
import hashlib, random, socket, sys
port = 7100
def sums(of):
    return " ".join(hashlib.sha256(b"".join(b"%d:" % len(one) + one for one in of.get(n, []))).hexdigest() for n in range(4))
if sys.argv[1] == "take":
    taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    taker.bind(("", port))
    asked = socket.create_server(("", port)).accept()[0].makefile("rw")
    for count in asked:
        of = {}
        taker.settimeout(10)
        for _ in range(int(count)):
            data = taker.recv(65535)
            of.setdefault(data[0], []).append(data)
        print(sums(of), file=asked, flush=True)
else:
    random.seed(28)
    asked = socket.create_connection((sys.argv[2], port), 10).makefile("rw")
    senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
    senders[3].setsockopt(socket.SOL_SOCKET, 11, 1) # SO_NO_CHECK
    for sender in senders:
        sender.connect((sys.argv[2], port))
    for _ in range(200):
        of, batch = {}, []
        for _ in range(random.randrange(1, 60)):
            n = random.randrange(4)
            length = random.choice([1, 30, 1200, 1400, 1400, 1400, 1472, 4000])
            data = bytes([n]) + random.randbytes(length)
            of.setdefault(n, []).append(data)
            batch.append((n, data))
        for n, data in batch:
            senders[n].send(data)
        print(len(batch), file=asked, flush=True)
        came = asked.readline().strip()
        assert came == sums(of), (came, sums(of))
    print("all are the same")
"#;

fn datagrams(cluster: &Cluster, node: usize, arguments: &[&str]) -> std::process::Command {
    let mut python = cluster.lab().command(node, "python3");
    python.arg("-c").arg(DATAGRAMS).args(arguments);
    python
}

/// A cluster whose virtual NICs are made this way.
fn cluster_with(backend: &str) -> Cluster {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    for node in [0, 1] {
        let mut up = up_behind(&cluster, node, &[]);
        up.env("TABANE_VNIC_BACKEND", backend);
        cluster.start_as(node, up).expect("starts");
    }
    wait_path(&cluster, 0, "up");
    cluster
}

#[test]
fn datagrams_of_programs_are_the_same_and_in_order() {
    for backend in backends() {
        let cluster = cluster_with(backend);
        let taker = Program::start("taker", datagrams(&cluster, 1, &["take"]));
        let mut taker = taker.expect("starts");
        taker.listens(7100).expect("listens");
        let to = cluster.address(1).to_string();
        let sent = output("sender", datagrams(&cluster, 0, &["send", &to]), PATIENCE);
        let sent = sent.expect("ends");
        let said = (text(&sent.stdout), text(&sent.stderr));
        assert_eq!(said.0.trim(), "all are the same", "{backend}: {}", said.1);
    }
}

/// What carries other packets: every datagram has two checksums then, one of which may still be to be made.
#[test]
fn a_tunnel_carries_what_it_is_given() {
    for (backend, sums) in backends()
        .iter()
        .flat_map(|b| [(b, "udpcsum"), (b, "noudpcsum")])
    {
        let cluster = cluster_with(backend);
        for node in [0, 1] {
            let (own, other) = (cluster.address(node), cluster.address(1 - node));
            let tunnel = format!("vx0 type vxlan id 7 dstport 4789 local {own} remote {other}");
            said(
                &cluster,
                node,
                &format!("ip link add {tunnel} dev tab0 {sums}"),
            );
            let address = format!("10.60.0.{}/24", node + 1);
            said(&cluster, node, &format!("ip address add {address} dev vx0"));
            said(&cluster, node, "ip link set vx0 mtu 1450 up");
        }
        // iperf3 does not wait for what the kernel still holds when it has given the last byte: some MB of each stream, at both ends.
        let report = iperf_to(&cluster, "10.60.0.2", &["-n", "120M", "-P", "4"]);
        let bytes = report["end"]["sum_received"]["bytes"].as_f64();
        assert!(
            bytes.is_some_and(|bytes| bytes > 40e6),
            "{:#}",
            report["end"]
        );
        for (node, protocol) in [0, 1].into_iter().flat_map(|n| [(n, "Tcp"), (n, "Udp")]) {
            let wrong = format!("nstat -asz {protocol}InCsumErrors");
            let wrong = said(&cluster, node, &wrong);
            assert_eq!(
                wrong.split_whitespace().rev().nth(1),
                Some("0"),
                "{backend}: {wrong}"
            );
        }
    }
}
