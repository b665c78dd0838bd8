//! The cluster's outside address: programs nobody changed, on any node, and clients who know of one host only.

mod abuse;
#[path = "../common/mod.rs"]
mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use common::outside::*;
use common::*;
use tabane_lab::cluster::{Cluster, Dialogue, PATIENCE, Program, output};
use tabane_lab::{Fault, OutsideSpec};

fn semantics() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/run/semantics.py")
}

fn python(cluster: &Cluster, at: At, arguments: &[&str]) -> Command {
    let mut command = command(cluster, at, "python3");
    command.arg(semantics()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// What client and server of a case print.
fn outcome(
    cluster: &Cluster,
    [server_at, client_at]: [At; 2],
    family: usize,
    case: &str,
    port: u16,
) -> [String; 2] {
    let address = match server_at {
        At::Node(_) => OUTSIDE[family],
        At::Client(client) => CLIENTS[client][family],
    };
    let port = port.to_string();
    let arguments = |side| [side, case, address, &port];
    let mut server =
        Program::start(case, python(cluster, server_at, &arguments("serve"))).expect("starts");
    let mut stdout = BufReader::new(server.take_stdout().expect("is piped"));
    let mut served = String::new();
    stdout.read_line(&mut served).expect("can be read");
    let client = python(cluster, client_at, &arguments("connect"));
    let said = output(case, client, PATIENCE).expect("ends");
    stdout.read_to_string(&mut served).expect("can be read");
    let mut connected = text(&said.stdout);
    if !said.status.success() {
        connected += &format!("{}\n{}", said.status, text(&said.stderr));
    }
    let status = server.wait(PATIENCE).expect("ends");
    if !status.success() {
        served += &format!("{status}\n");
    }
    [connected, served]
}

/// Cases that mean hosts of another lab by their addresses: the client's, or nobody's. What they are about is in tests of its own.
const OF_OTHER_LABS: [&str; 3] = ["Addresses", "NobodyThere", "ToItself"];
/// The same in IPv6.
const OF_OTHER_LABS_V6: [&str; 2] = ["DatagramsWithoutRoute", "DatagramPortsTaken"];

fn is_for(case: &str, family: usize) -> bool {
    !OF_OTHER_LABS.contains(&case) && (family == 0 || !OF_OTHER_LABS_V6.contains(&case))
}

fn cases() -> Vec<(String, u16)> {
    let mut list = Command::new("python3");
    list.arg(semantics()).arg("list");
    let said = output("semantics.py", list, PATIENCE).expect("ends");
    let names = text(&said.stdout);
    let numbered = names.lines().zip(20_000..);
    numbered
        .map(|(name, port)| (name.to_owned(), port))
        .collect()
}

/// Every fourth case from `first` on is as between two hosts outside: a server on a node, and a client on one.
fn are_those_of_hosts(node: usize, family: usize, first: usize) {
    let cluster = outside(OutsideSpec::default());
    let mut differences = String::new();
    for (case, port) in cases().into_iter().skip(first).step_by(4) {
        if !is_for(&case, family) {
            continue;
        }
        let outcome = |ends| outcome(&cluster, ends, family, &case, port);
        let plain = outcome([At::Client(1), At::Client(0)]);
        for ends in [
            [At::Node(node), At::Client(0)],
            [At::Client(1), At::Node(node)],
        ] {
            let ours = outcome(ends);
            if plain != ours {
                differences += &format!("{case}: plain {plain:#?}, {ends:?} {ours:#?}\n");
            }
        }
    }
    assert!(differences.is_empty(), "{differences}{}", cluster.log(0));
}

#[test]
fn programs_are_as_on_one_host_1() {
    are_those_of_hosts(2, 0, 0);
}

#[test]
fn programs_are_as_on_one_host_2() {
    are_those_of_hosts(2, 0, 1);
}

/// The gateway's own programs are no others.
#[test]
fn programs_are_as_on_one_host_3() {
    are_those_of_hosts(0, 0, 2);
}

#[test]
fn programs_are_as_on_one_host_4() {
    are_those_of_hosts(1, 0, 3);
}

#[test]
fn programs_are_as_on_one_host_in_ipv6_1() {
    are_those_of_hosts(1, 1, 0);
}

#[test]
fn programs_are_as_on_one_host_in_ipv6_2() {
    are_those_of_hosts(0, 1, 1);
}

#[test]
fn programs_are_as_on_one_host_in_ipv6_3() {
    are_those_of_hosts(2, 1, 2);
}

#[test]
fn programs_are_as_on_one_host_in_ipv6_4() {
    are_those_of_hosts(2, 1, 3);
}

fn script(cluster: &Cluster, at: At, script: &str) -> Command {
    let mut python = command(cluster, at, "python3");
    python.arg("-c").arg(format!(
        "import errno, os, signal, socket, struct, sys, time\n{script}"
    ));
    python
}

fn said_by(cluster: &Cluster, at: At, text_of: &str) -> String {
    let mut command = script(cluster, at, text_of);
    command.stdin(Stdio::null());
    let said = output("script", command, PATIENCE).expect("ends");
    text(&said.stdout) + &text(&said.stderr)
}

const BIND: &str = "
def bind(port, address='', kind=socket.SOCK_STREAM, shared=False):
    s = socket.socket(socket.AF_INET6 if ':' in address else socket.AF_INET, kind)
    if shared:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen()
        held.append(s)
        return s.getsockname()[1] if port == 0 else 'bound'
    except OSError as e:
        return errno.errorcode[e.errno]
held = []
";

/// A program that has bound what it is told, and says so.
fn holder(cluster: &Cluster, at: At, what: &str) -> Dialogue {
    let text = format!("{BIND}{what}\nprint('ready', flush=True)\nsys.stdin.readline()");
    Dialogue::start("holder", script(cluster, at, &text)).expect("is ready")
}

#[test]
fn a_port_is_one_programs_in_the_whole_cluster() {
    let cluster = outside(OutsideSpec::default());
    let held = holder(
        &cluster,
        At::Node(1),
        "bind(8080); bind(5300, kind=socket.SOCK_DGRAM)",
    );
    let tries = "
print(bind(8080), bind(5300, kind=socket.SOCK_DGRAM), bind(8080, '203.0.113.1'), bind(8081), bind(8080, '::'))
print(bind(8080, '127.0.0.1'))
";
    for node in [2, 0] {
        let said = said_by(&cluster, At::Node(node), &format!("{BIND}{tries}"));
        let all = "EADDRINUSE EADDRINUSE EADDRINUSE bound EADDRINUSE\nbound\n";
        assert_eq!(said, all, "node {node}");
    }
    // Of what the gateway's own host has, too.
    let mut plain = cluster.lab().command(0, "python3");
    let has = format!(
        "import errno, os, signal, socket, struct, sys, time\n{BIND}bind(8082)\nprint('ready', flush=True)\nsys.stdin.readline()"
    );
    plain.arg("-c").arg(has);
    let _own = Dialogue::start("own", plain).expect("is ready");
    let said = said_by(&cluster, At::Node(2), &format!("{BIND}print(bind(8082))"));
    assert_eq!(said, "EADDRINUSE\n");
    // Any port is one that is free everywhere, and shared ones are shared by one user.
    let any = said_by(
        &cluster,
        At::Node(2),
        &format!(
            "{BIND}ports = [bind(0) for _ in range(50)]\nprint(len(set(ports)), 8080 in ports)"
        ),
    );
    assert_eq!(any, "50 False\n");
    drop(held);
    eventually("the port is free", || {
        said_by(&cluster, At::Node(2), &format!("{BIND}print(bind(8080))")) == "bound\n"
    });
}

#[test]
fn a_port_is_free_when_whoever_had_it_is_gone() {
    let cluster = outside(OutsideSpec::default());
    for end in [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "held[0].close(); time.sleep(5)",
    ] {
        let text = format!("{BIND}print(bind(8080), flush=True)\n{end}");
        let mut command = script(&cluster, At::Node(1), &text);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut program = Program::start("holder", command).expect("starts");
        let mut line = String::new();
        BufReader::new(program.take_stdout().expect("is piped"))
            .read_line(&mut line)
            .expect("can be read");
        assert_eq!(line, "bound\n");
        eventually("the port is free", || {
            said_by(&cluster, At::Node(2), &format!("{BIND}print(bind(8080))")) == "bound\n"
        });
    }
}

/// A server that answers with who it is and whom it sees, and the address it is reached at.
const SERVER: &str = "
import threading
def serve(name, port, shared=False):
    listener = socket.socket(socket.AF_INET6)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(('::', port))
    listener.listen(100)
    print('ready', flush=True)
    while True:
        s, who = listener.accept()
        s.sendall(repr((name, who[0], who[1], s.getsockname()[0])).encode())
        s.close()
";

fn server(cluster: &Cluster, node: usize, name: &str, shared: &str) -> Dialogue {
    let text = format!("{SERVER}serve('{name}', 8080, {shared})");
    Dialogue::start("server", script(cluster, At::Node(node), &text)).expect("is ready")
}

const ASK: &str = "
def ask(address, port=8080):
    try:
        with socket.create_connection((address, port), 10) as s:
            own = s.getsockname()
            said = b''
            while piece := s.recv(1000):
                said += piece
            name, who, their_port, at = eval(said)
            return name, who.removeprefix('::ffff:') == own[0], their_port == own[1], at.removeprefix('::ffff:')
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
";

#[test]
fn a_server_sees_its_clients_wherever_they_are() {
    let cluster = outside(OutsideSpec::default());
    let _server = server(&cluster, 2, "two", "False");
    for at in [At::Client(0), At::Client(1)] {
        for address in OUTSIDE {
            let said = said_by(&cluster, at, &format!("{ASK}print(ask('{address}'))"));
            assert_eq!(
                said,
                format!("('two', True, True, '{address}')\n"),
                "{at:?}"
            );
        }
    }
    // From inside, too, from any node.
    for node in 0..3 {
        let said = said_by(
            &cluster,
            At::Node(node),
            &format!("{ASK}print(ask('{}')[0])", OUTSIDE[0]),
        );
        assert_eq!(said, "two\n", "node {node}");
    }
    // Where nobody listens it is as at any host.
    for at in [At::Client(0), At::Node(0), At::Node(1)] {
        let said = said_by(
            &cluster,
            at,
            &format!("{ASK}print(ask('203.0.113.1', 8081))"),
        );
        assert_eq!(said, "ECONNREFUSED\n", "{at:?}");
    }
}

#[test]
fn a_shared_port_is_shared_among_nodes() {
    let cluster = outside(OutsideSpec::default());
    let servers = [1, 2].map(|node| server(&cluster, node, &format!("n{node}"), "True"));
    let many = format!("{ASK}print(sorted(set(ask('203.0.113.1')[0] for _ in range(20))))");
    assert_eq!(said_by(&cluster, At::Client(0), &many), "['n1', 'n2']\n");
    let [_first, second] = servers;
    drop(second);
    eventually("one has it alone", || {
        said_by(&cluster, At::Client(0), &many) == "['n1']\n"
    });
}

/// A client that talks every few milliseconds, and says how long the longest silence was.
const TALK: &str = "
s = socket.create_connection((address, 8080), 10)
s.settimeout(30)
print('ready', flush=True)
longest, until, n = 0, time.monotonic() + seconds, 0
while time.monotonic() < until:
    begun = time.monotonic()
    n += 1
    word = struct.pack('!Q', n) * 16
    s.sendall(word)
    said = b''
    while len(said) < len(word):
        piece = s.recv(1000)
        assert piece, 'closed'
        said += piece
    assert said == word, (said, word)
    longest = max(longest, time.monotonic() - begun)
    time.sleep(0.005)
print('longest', longest)
";

const ECHO: &str = "
import threading
def echo(s):
    while data := s.recv(1 << 16):
        s.sendall(data)
def serve(family, address):
    listener = socket.socket(family)
    listener.bind((address, 8080))
    listener.listen(100)
    print('ready', flush=True)
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
";

/// A conversation that lasts for some seconds.
struct Talk {
    program: Program,
    said: BufReader<ChildStdout>,
}

impl Talk {
    /// It has begun.
    fn begin(cluster: &Cluster, at: At, address: &str, seconds: u32) -> Talk {
        let text = format!("address, seconds = '{address}', {seconds}\n{TALK}");
        let mut command = script(cluster, at, &text);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut program = Program::start("talk", command).expect("starts");
        let mut said = BufReader::new(program.take_stdout().expect("is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("can be read");
        assert_eq!(line, "ready\n");
        Talk { program, said }
    }

    /// It goes on to its end.
    fn goes_on(mut self, cluster: &Cluster) {
        let status = self.program.wait(PATIENCE).expect("ends");
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("can be read");
        assert!(
            status.success() && rest.starts_with("longest"),
            "{status} {rest} {}",
            cluster.log(1)
        );
    }
}

/// Conversations both ways go on while `change` happens to the gateway.
fn go_on(change: impl FnOnce(&mut Cluster)) {
    let mut cluster = outside(OutsideSpec::default());
    wait_standby(&cluster, 0);
    let inside = format!("{ECHO}serve(socket.AF_INET6, '::')");
    let _inside =
        Dialogue::start("inside", script(&cluster, At::Node(2), &inside)).expect("is ready");
    let outer = format!("{ECHO}serve(socket.AF_INET, '')");
    let _outer =
        Dialogue::start("outer", script(&cluster, At::Client(1), &outer)).expect("is ready");
    let talks = [
        (At::Client(0), OUTSIDE[0]),
        (At::Client(0), OUTSIDE[1]),
        (At::Node(2), CLIENTS[1][0]),
    ]
    .map(|(at, address)| Talk::begin(&cluster, at, address, 4));
    std::thread::sleep(Duration::from_millis(300));
    change(&mut cluster);
    for talk in talks {
        talk.goes_on(&cluster);
    }
    wait_serving(&cluster, 2, "n1");
    // And others can begin.
    let said = said_by(
        &cluster,
        At::Client(1),
        &format!(
            "s = socket.create_connection(('{}', 8080), 10)\ns.sendall(b'x')\nprint(s.recv(9))",
            OUTSIDE[0]
        ),
    );
    assert_eq!(said, "b'x'\n");
}

#[test]
fn connections_go_on_when_the_gateway_is_moved() {
    go_on(|cluster| move_gateway(cluster, &[]));
}

#[test]
fn connections_go_on_when_the_gateway_is_stopped() {
    go_on(|cluster| {
        cluster.stop(0).expect("stops");
    });
}

#[test]
fn connections_go_on_when_the_gateway_is_killed() {
    go_on(|cluster| cluster.kill(0).expect("is killed"));
}

#[test]
fn connections_go_on_when_the_gateways_cable_is_gone() {
    go_on(|cluster| {
        let lab = cluster.lab();
        lab.fail_outside(Fault::Carrier, Some(0)).expect("fails");
    });
}

/// Of the node whose program it is as well: what its kernel has, the next daemon goes on with.
#[test]
fn connections_go_on_when_their_nodes_daemon_is_started_anew() {
    let mut cluster = outside(OutsideSpec::default());
    let inside = format!("{ECHO}serve(socket.AF_INET6, '::')");
    let _inside =
        Dialogue::start("inside", script(&cluster, At::Node(2), &inside)).expect("is ready");
    let talk = Talk::begin(&cluster, At::Client(0), OUTSIDE[0], 4);
    cluster.stop(2).expect("stops");
    cluster.start(2).expect("starts");
    talk.goes_on(&cluster);
}

/// A machine that is busy, say, has its daemon not run for a while. That it has not said what it has does not mean that nobody has it.
#[test]
fn connections_go_on_when_their_node_stands_still_meanwhile() {
    let mut cluster = outside_of(5, OutsideSpec::default());
    wait_standby(&cluster, 0);
    let inside = format!("{ECHO}serve(socket.AF_INET6, '::')");
    let _inside =
        Dialogue::start("inside", script(&cluster, At::Node(4), &inside)).expect("is ready");
    let talk = Talk::begin(&cluster, At::Client(0), OUTSIDE[0], 3);
    cluster.daemon(4).expect("runs").pause().expect("stops");
    cluster.kill(0).expect("is killed");
    wait_serving(&cluster, 2, "n1");
    // The client says it again meanwhile.
    std::thread::sleep(Duration::from_millis(800));
    cluster.daemon(4).expect("runs").go_on().expect("goes on");
    talk.goes_on(&cluster);
    let again = format!("address, seconds = '{}', 0.1\n{TALK}", OUTSIDE[1]);
    let said = said_by(&cluster, At::Client(1), &again);
    assert!(said.starts_with("ready\nlongest"), "{said}");
}

/// Also to the outside address from inside: from other nodes, from the node itself, and from another program there.
#[test]
fn datagrams_reach_whoever_has_the_port() {
    let cluster = outside(OutsideSpec::default());
    let serve = "
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind(('::', 5300))
print('ready', flush=True)
while True:
    data, who = s.recvfrom(1 << 16)
    s.sendto(data.upper() + b' ' + who[0].removeprefix('::ffff:').encode(), who)
";
    let _server =
        Dialogue::start("server", script(&cluster, At::Node(2), serve)).expect("is ready");
    let ask = |address: &str, port: u16| {
        format!(
            "
s = socket.socket(socket.AF_INET6 if ':' in '{address}' else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.connect(('{address}', {port}))
try:
    s.send(b'word' * 5000)
    said = s.recv(1 << 16)
    print(said.startswith(b'WORD' * 5000), said[20001:].decode() == s.getsockname()[0])
except OSError as e:
    print(errno.errorcode.get(e.errno, type(e).__name__))
"
        )
    };
    for address in OUTSIDE {
        for at in [At::Client(0), At::Node(0), At::Node(1), At::Node(2)] {
            let said = said_by(&cluster, at, &ask(address, 5300));
            assert_eq!(said, "True True\n", "{at:?} {address}");
            let said = said_by(&cluster, at, &ask(address, 5301));
            assert_eq!(said, "ECONNREFUSED\n", "{at:?} {address}");
        }
    }
}

/// Of a program elsewhere as well, also at the gateway after the one that gave it its port.
#[test]
fn what_is_carried_and_for_whom_is_seen() {
    let cluster = outside(OutsideSpec::default());
    let _server = server(&cluster, 2, "two", "False");
    let ask = format!("{ASK}print(ask('203.0.113.1')[0])");
    assert_eq!(said_by(&cluster, At::Client(0), &ask), "two\n");
    let is_seen = |status: &serde_json::Value| {
        let gateway = gateway(status);
        let ports = gateway["ports"].as_array().expect("ports");
        let port = ports
            .iter()
            .find(|it| it["port"] == 8080 && it["family"] == 4);
        port.is_some_and(|it| it["node"] == "n2" && it["command"] == "python3")
    };
    let status = cluster.wait_status(0, "a server", is_seen).expect("status");
    let seen = gateway(&status);
    assert_eq!(seen["voters"], serde_json::json!(["n0", "n1", "n2"]));
    assert_eq!(
        (&seen["ready"], seen["trouble"].is_null()),
        (&true.into(), true)
    );
    assert!(
        seen["qdisc"].is_string() && seen["qdisc_queued_bytes"].is_u64(),
        "{seen}"
    );
    let carried = ["tx_bytes", "rx_bytes"].map(|name| seen[name].as_u64().expect("a number"));
    assert!(carried.iter().all(|bytes| *bytes > 100), "{carried:?}");
    wait_standby(&cluster, 0);
    move_gateway(&cluster, &["n1"]);
    cluster.wait_status(1, "a server", is_seen).expect("status");
}

fn reload(cluster: &Cluster, node: usize, file: &str) -> std::process::Output {
    std::fs::write(cluster.file(), file).expect("is written");
    let mut tabane = cluster.tabane(node);
    tabane.arg("reload");
    output("tabane", tabane, PATIENCE).expect("ends")
}

/// The rate, the routers (here one that has only the address of its link) and who votes; not who may serve, and not so many nodes that the
/// gateway would lose most of its votes.
#[test]
fn the_file_is_read_anew_while_a_conversation_goes_on() {
    let cluster = outside(OutsideSpec::default());
    let inside = format!("{ECHO}serve(socket.AF_INET6, '::')");
    let _inside =
        Dialogue::start("inside", script(&cluster, At::Node(2), &inside)).expect("is ready");
    let talk = Talk::begin(&cluster, At::Client(0), OUTSIDE[0], 4);
    let file = std::fs::read_to_string(cluster.file()).expect("is read");
    let node = |n: usize| {
        format!(
            "[[node]]\nname = \"n{n}\"\nlinks = [\"10.77.0.{}\", \"10.77.1.{}\"]\n",
            n + 1,
            n + 1
        )
    };
    let many: String = (3..9).map(node).collect();
    let other = file.replace("[\"n0\", \"n1\"]", "[\"n1\", \"n0\"]");
    for (wrong, why) in [
        (
            format!("{file}{many}"),
            "with so many nodes that come or go at once",
        ),
        (
            other,
            "`nodes` of `[gateway]` is n1, n0, but the node runs with n0, n1",
        ),
        (
            file.replace("ext0", "ext1"),
            "`interface` of `[gateway]` is ext1, ext1, but",
        ),
    ] {
        let refused = reload(&cluster, 0, &wrong);
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
        assert!(
            text(&refused.stderr).contains(why),
            "{}",
            text(&refused.stderr)
        );
    }
    let more = "[gateway]\nrate = \"500mbit\"\nrouters = [\"fe80::fe\"]\n";
    let right = file.replace("[gateway]\n", more) + &node(3);
    for node in [1, 0, 2] {
        let done = reload(&cluster, node, &right);
        let said = text(&done.stdout);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert!(
            said.contains("the gateway sends at most 500000 kb/s outside"),
            "{said}"
        );
        assert!(
            said.contains("the gateway's routers are fe80::fe"),
            "{said}"
        );
        assert!(said.contains("n3 added"), "{said}");
    }
    let status = cluster.wait_status(0, "it serves", |status| {
        gateway(status)["voters_missing"] == serde_json::json!(["n3"])
    });
    let status = status.expect("status");
    assert_eq!(gateway(&status)["serving"], "n0");
    assert_eq!(gateway(&status)["rate_mbps"], 500);
    // Somebody beyond the router: a client is that.
    for order in [
        "addr add fe80::fe/64 dev eth0 nodad",
        "addr add 2001:db8:9::1/128 dev lo",
    ] {
        let mut ip = cluster.lab().client_command(1, "ip");
        ip.args(order.split(' '));
        assert!(
            output("ip", ip, PATIENCE).expect("ends").status.success(),
            "{order}"
        );
    }
    let far = format!("{ECHO}serve(socket.AF_INET6, '2001:db8:9::1')");
    let _far = Dialogue::start("far", script(&cluster, At::Client(1), &far)).expect("is ready");
    let said = said_by(
        &cluster,
        At::Node(2),
        "s = socket.create_connection(('2001:db8:9::1', 8080), 10)\ns.sendall(b'x')\nprint(s.recv(9))",
    );
    assert_eq!(said, "b'x'\n");
    talk.goes_on(&cluster);
}

/// As a service manager does it: the one before has ended, and its end need not have been told to everybody.
#[test]
fn a_server_that_is_started_anew_has_its_port_at_once() {
    let cluster = outside(OutsideSpec::default());
    let again = format!("{BIND}print(bind(8080), bind(5300, kind=socket.SOCK_DGRAM))");
    for _ in 0..10 {
        assert_eq!(said_by(&cluster, At::Node(2), &again), "bound bound\n");
    }
}
