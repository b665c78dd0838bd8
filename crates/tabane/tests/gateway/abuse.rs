//! Who asks for more than there is, and who lies: others go on, and it is counted.

use super::*;

/// How often a gateway says that something went nowhere for this reason.
fn dropped(cluster: &Cluster, node: usize, why: &str) -> u64 {
    let status = cluster.status(node).expect("status");
    let count = gateway(&status)["dropped"][why].as_u64();
    count.unwrap_or(0)
}

/// What `ports_per_node` leaves to others.
#[test]
fn a_node_that_claims_everything_has_its_share() {
    let cluster = outside_with(3, OutsideSpec::default(), "ports_per_node = 50\n");
    let all = "
results = [bind(port) for port in range(20000, 20120)]
print(results.count('bound'), results.count('ENOBUFS'), flush=True)
";
    let mut greedy = script(
        &cluster,
        At::Node(1),
        &format!("{BIND}{all}sys.stdin.readline()"),
    );
    greedy.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut greedy = Program::start("greedy", greedy).expect("starts");
    let _input = greedy.take_stdin();
    let mut said = String::new();
    BufReader::new(greedy.take_stdout().expect("is piped"))
        .read_line(&mut said)
        .expect("can be read");
    assert_eq!(said, "50 70\n");
    assert_eq!(dropped(&cluster, 1, "program_ports_full"), 70);
    // Another program of the same node is none of the others: that is the gateway's to see.
    let said = said_by(&cluster, At::Node(1), &format!("{BIND}print(bind(8080))"));
    assert_eq!(said, "ENOBUFS\n");
    assert_eq!(dropped(&cluster, 0, "node_ports_full"), 1);
    for node in [0, 2] {
        let said = said_by(
            &cluster,
            At::Node(node),
            &format!("{BIND}print(bind(8080), bind(0) > 0)"),
        );
        assert_eq!(said, "bound True\n", "node {node}");
    }
}

/// Each port for a moment: what was not seen to be in use is not in use for ever.
#[test]
fn ports_that_are_had_for_a_moment_are_free_again() {
    let cluster = outside_with(3, OutsideSpec::default(), "ports_per_node = 20\n");
    let churn = "
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for port in range(20000, 20400):
        while (result := bind(port, kind=kind)) == 'ENOBUFS':
            time.sleep(0.02)
        assert result == 'bound', (kind, port, result)
        held.pop().close()
print('all')
";
    let said = said_by(&cluster, At::Node(1), &format!("{BIND}{churn}"));
    assert_eq!(said, "all\n");
}

#[test]
fn a_scan_is_answered_and_leaves_nothing_behind() {
    let cluster = outside(OutsideSpec::default());
    let _server = server(&cluster, 2, "two", "False");
    let scan = format!(
        "{ASK}said = [ask('203.0.113.1', port) for port in range(7900, 8300)]
print([at + 7900 for at, one in enumerate(said) if one != 'ECONNREFUSED'], said[180][0])"
    );
    assert_eq!(said_by(&cluster, At::Client(1), &scan), "[8080] two\n");
    let status = cluster.status(0).expect("status");
    assert_eq!(gateway(&status)["connections"], 1);
    assert_eq!(gateway(&status)["ports"].as_array().map(Vec::len), Some(2));
}

/// Clients that read nothing of what they have asked for keep it in the server's sockets, and nobody else from being served.
#[test]
fn slow_readers_keep_nobody_from_being_served() {
    let cluster = outside(OutsideSpec::default());
    let endless = "
import threading
def pour(s):
    while True:
        s.sendall(bytes(1 << 16))
def serve():
    listener = socket.socket()
    listener.bind(('', 8081))
    listener.listen(400)
    print('ready', flush=True)
    while True:
        threading.Thread(target=pour, args=(listener.accept()[0],), daemon=True).start()
serve()
";
    let _endless =
        Dialogue::start("endless", script(&cluster, At::Node(2), endless)).expect("is ready");
    let _server = server(&cluster, 2, "two", "False");
    let slow = "
held = []
for _ in range(200):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(10)
    s.connect(('203.0.113.1', 8081))
    assert s.recv(1)
    held.append(s)
print('ready', flush=True)
sys.stdin.readline()
";
    let _slow = Dialogue::start("slow", script(&cluster, At::Client(1), slow)).expect("is ready");
    for at in [At::Client(0), At::Client(1)] {
        let said = said_by(
            &cluster,
            at,
            &format!("{ASK}print([ask('203.0.113.1')[0] for _ in range(20)].count('two'))"),
        );
        assert_eq!(said, "20\n", "{at:?}");
    }
    assert_eq!(dropped(&cluster, 0, "queue_full"), 0);
}

/// What pretends to be from elsewhere goes nowhere, and is counted where that is seen.
#[test]
fn lies_about_addresses_are_counted() {
    let cluster = outside(OutsideSpec::default());
    let forge = "
def checksum(data):
    s = sum(struct.unpack(f'!{len(data) // 2}H', data))
    s = (s & 0xffff) + (s >> 16)
    return ~(s + (s >> 16)) & 0xffff
def forge(source, to):
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 32, 7, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(to))
    head = head[:10] + struct.pack('!H', checksum(head)) + head[12:]
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    s.sendto(head + struct.pack('!HHHH', 5000, 7010, 12, 0) + b'lies', (to, 0))
";
    // From outside, in the name of a node, and of the cluster itself.
    for (count, source) in [(1, "10.99.0.3"), (2, "10.77.0.2"), (3, OUTSIDE[0])] {
        let lie = format!("{forge}forge('{source}', '{}')", OUTSIDE[0]);
        assert_eq!(said_by(&cluster, At::Client(0), &lie), "");
        eventually("it is counted", || dropped(&cluster, 0, "spoofed") == count);
    }
    // From a node, in its own name, and in a client's.
    for (count, source) in [(1, "10.99.0.3"), (2, CLIENTS[1][0])] {
        let lie = format!("{forge}forge('{source}', '{}')", CLIENTS[0][0]);
        assert_eq!(said_by(&cluster, At::Node(2), &lie), "");
        eventually("it is counted", || dropped(&cluster, 2, "foreign") == count);
    }
}
