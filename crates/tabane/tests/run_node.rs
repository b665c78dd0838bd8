//! Programs under `tabane run` beside others of their own node, and what their kernel does for them as it does
//! without: what a user of one machine takes for granted.

mod common;

use std::ops::Range;
use std::process::{Command, Stdio};

use common::*;
use serde_json::Value;
use tabane_lab::Fault;
use tabane_lab::cluster::{Cluster, ClusterConfig, Dialogue, PATIENCE, output, path_state};

/// A program in Python that is given its text.
fn with_script(mut python: Command, script: &str) -> Command {
    python.arg("-c").arg(format!(
        "import array, errno, os, socket, struct, sys, time\n{script}"
    ));
    python
}

fn under_run(cluster: &Cluster, node: usize, script: &str) -> Command {
    with_script(cluster.run(node, "python3"), script)
}

fn plainly(cluster: &Cluster, node: usize, script: &str) -> Command {
    with_script(cluster.lab().command(node, "python3"), script)
}

/// A server that says that it is ready.
fn serve(command: Command) -> Dialogue {
    Dialogue::start("server", command).expect("is ready")
}

fn said_by(mut command: Command) -> String {
    command.stdin(Stdio::null());
    let said = output("client", command, PATIENCE).expect("ends");
    text(&said.stdout) + &text(&said.stderr)
}

/// Says its name to whoever comes to a port, by TCP and by UDP.
fn server(name: &str, address: &str, port: u16) -> String {
    format!(
        "\
import threading
family = socket.AF_INET6 if ':' in '{address}' else socket.AF_INET
listener = socket.create_server(('{address}', {port}), family=family)
datagrams = socket.socket(family, socket.SOCK_DGRAM)
datagrams.bind(('{address}', {port}))
def tcp():
    while True:
        s = listener.accept()[0]
        s.sendall(b'{name}')
        s.close()
threading.Thread(target=tcp, daemon=True).start()
print('ready', flush=True)
while True:
    datagrams.sendto(b'{name}', datagrams.recvfrom(100)[1])
"
    )
}

/// What is heard at each of these ends, by TCP and by UDP.
fn heard_at(ends: &[(&str, u16)]) -> String {
    format!(
        "\
def tcp(end):
    with socket.create_connection(end, 10) as s:
        return s.recv(100).decode()
def udp(end):
    family, _, _, _, end = socket.getaddrinfo(*end, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect(end)
        s.send(b'?')
        return s.recv(100).decode()
def outcome(ask, end):
    try:
        return ask(end)
    except OSError as e:
        return errno.errorcode.get(e.errno, type(e).__name__)
for end in {}:
    print(outcome(tcp, end), outcome(udp, end))
",
        format_args!(
            "[{}]",
            ends.iter()
                .map(|end| format!("{end:?},"))
                .collect::<String>()
        )
    )
}

#[test]
fn programs_of_one_node_reach_each_other() {
    let cluster = cluster();
    let _run = serve(under_run(&cluster, 0, &server("run", "", 8080)));
    let _own = serve(under_run(&cluster, 0, &server("own", "127.0.0.1", 8081)));
    let _plain = serve(plainly(&cluster, 0, &server("plain", "127.0.0.1", 8082)));
    let _stub = serve(plainly(&cluster, 0, &server("stub", "127.0.0.53", 5300)));
    let vnic = cluster.address(0).to_string();
    let links = [0, 1].map(|link| cluster.lab().address(0, link).to_string());
    let ends = [
        ("n0", 8080),
        (&vnic, 8080),
        (&links[0], 8080),
        (&links[1], 8080),
        ("127.0.0.1", 8080),
        ("127.0.0.1", 8081),
        ("127.0.0.1", 8082),
        ("127.0.0.53", 5300),
        (&vnic, 8081),
        ("127.0.0.1", 8083),
    ];
    let expected = "run run\n".repeat(5)
        + "own own\nplain plain\nstub stub\n"
        + &"ECONNREFUSED ECONNREFUSED\n".repeat(2);
    assert_eq!(said_by(under_run(&cluster, 0, &heard_at(&ends))), expected);
    // And plain programs reach them where they would be without.
    assert_eq!(
        said_by(plainly(&cluster, 0, &heard_at(&ends[1..]))),
        expected[8..]
    );
    // What is loopback at one node is not at another.
    let elsewhere = said_by(under_run(&cluster, 1, &heard_at(&ends[4..6])));
    assert_eq!(elsewhere, "ECONNREFUSED ECONNREFUSED\n".repeat(2));
}

#[test]
fn a_program_reaches_itself_first() {
    let cluster = cluster();
    let _plain = serve(plainly(&cluster, 0, &server("plain", "127.0.0.1", 8080)));
    let script = "\
print('before', flush=True)
listener = socket.socket()
try:
    listener.bind(('127.0.0.1', 8080))
    listener.listen()
except OSError as e:
    print(errno.errorcode[e.errno])
listener = socket.create_server(('127.0.0.1', 8081))
for _ in range(3):
    client = socket.create_connection(('127.0.0.1', 8081))
    server = listener.accept()[0]
    server.sendall(b'itself')
    server.close()
    print(client.recv(100).decode())
";
    let said = said_by(under_run(&cluster, 0, script));
    assert_eq!(said, "before\nEADDRINUSE\nitself\nitself\nitself\n");
}

/// The virtual NIC is not there, whose address the node's name stands for.
#[test]
fn programs_of_one_node_reach_each_other_by_a_daemon_of_their_own() {
    let lab = lab(&Default::default());
    let cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    let _run = serve(under_run(&cluster, 0, &server("run", "", 8080)));
    let vnic = cluster.address(0).to_string();
    let ends = [
        ("n0", 8080),
        (&vnic, 8080),
        ("127.0.0.1", 8080),
        ("n0", 8081),
    ];
    let expected = "run run\n".repeat(3) + "ECONNREFUSED ECONNREFUSED\n";
    assert_eq!(said_by(under_run(&cluster, 0, &heard_at(&ends))), expected);
}

/// What the agent keeps for itself is not to be seen, from anywhere: of all ports those answer that a program
/// has opened. (Of those that are asked through the daemon one by one, not all.)
#[test]
fn only_what_a_program_has_opened_answers() {
    let cluster = cluster();
    let within = "
import threading
def scan(address, ports):
    found = []
    for port in ports:
        with socket.socket() as s:
            s.settimeout(10)
            # One that is given the same port as its own finds itself, as anywhere.
            if s.connect_ex((address, port)) != errno.ECONNREFUSED and s.getsockname()[1] != port:
                found.append(port)
    return found
";
    let run = format!(
        "{within}
listener = socket.create_server(('', 8080))
print('ready', flush=True)
sys.stdin.readline()
for address, end in ('127.0.0.1', 1025), ('{}', 8200):
    print(scan(address, range(1, end)), flush=True)
sys.stdin.read()
",
        cluster.address(0)
    );
    let mut run = serve(under_run(&cluster, 0, &run));
    let scan = |ports: Range<u32>| {
        format!(
            "{within}\nprint(scan('{}', range({}, {})))",
            cluster.address(0),
            ports.start,
            ports.end
        )
    };
    // In parts, for a busy machine takes its time for all of them.
    for (first, found) in [
        (1, "[8080]\n"),
        (16_384, "[]\n"),
        (32_768, "[]\n"),
        (49_152, "[]\n"),
    ] {
        let ports = scan(first..(first + 16_384).min(65_536));
        assert_eq!(said_by(plainly(&cluster, 1, &ports)), found);
    }
    // A question to the other node each: not all of them.
    let some = scan(1..1025);
    assert_eq!(said_by(under_run(&cluster, 1, &some)), "[]\n");
    let some = scan(8000..8100);
    assert_eq!(said_by(under_run(&cluster, 1, &some)), "[8080]\n");
    run.tell("scan").expect("hears");
    for found in ["[]\n", "[8080]\n"] {
        assert_eq!(run.says("").expect("scans"), found);
    }
    let vnic = cluster.address(0).to_string();
    let ends = [(vnic.as_str(), 1)];
    for node in [0, 1] {
        let said = said_by(under_run(&cluster, node, &heard_at(&ends)));
        assert_eq!(said, "ECONNREFUSED ECONNREFUSED\n", "n{node}");
    }
}

/// A service manager has opened the listener (sd_listen_fds(3)): outside, so others reach it plainly.
#[test]
fn a_listener_that_was_opened_outside_serves() {
    let cluster = cluster();
    let serves = "\
import socket
listener = socket.socket(fileno=3)
print('ready', flush=True)
while True:
    s, (ip, _) = listener.accept()
    s.sendall(ip.encode())
    s.close()
";
    let opens = "\
listener = socket.create_server(('', 8080))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ['LISTEN_FDS'] = '1'
os.execv(sys.argv[1], sys.argv[1:])
";
    let mut opens = plainly(&cluster, 1, opens);
    opens
        .arg(cluster.program())
        .args(["run", "--config"])
        .arg(cluster.file());
    opens.args(["--", "python3", "-c", serves]);
    let _server = serve(opens);
    let to = cluster.address(1).to_string();
    let asks = format!("print(socket.create_connection(('{to}', 8080), 10).recv(100).decode())");
    let from = format!("{}\n", cluster.address(0));
    assert_eq!(said_by(under_run(&cluster, 0, &asks)), from);
    assert_eq!(said_by(plainly(&cluster, 0, &asks)), from);
}

/// A container that shares its network with who starts it is in the same place; one that does not has none.
#[test]
fn a_container_is_where_its_network_is() {
    let cluster = cluster();
    let _server = serve(under_run(&cluster, 1, &server("run", "", 8080)));
    let to = cluster.address(1).to_string();
    let contained = |network: &[&str]| {
        let mut bwrap = cluster.run(0, "bwrap");
        bwrap.args(["--dev-bind", "/", "/", "--unshare-pid", "--die-with-parent"]);
        bwrap.args(network).arg("python3");
        said_by(with_script(bwrap, &heard_at(&[(&to, 8080)])))
    };
    assert_eq!(contained(&[]), "run run\n");
    assert_eq!(contained(&["--unshare-net"]), "ENETUNREACH ENETUNREACH\n");
}

/// All links fail in silence, or are well again; both nodes have noticed.
fn all_links(cluster: &Cluster, works: bool) {
    for link in 0..cluster.lab().links() {
        let done = match works {
            true => cluster.lab().heal(link),
            false => cluster.lab().fail(link, Fault::Silent, None),
        };
        done.expect("can be done");
    }
    let state = if works { "up" } else { "down" };
    for (node, peer) in [(0, "n1"), (1, "n0")] {
        let is_so = |status: &Value| {
            (0..cluster.lab().links()).all(|link| path_state(status, peer, link) == Some(state))
        };
        let what = format!("all links are {state}");
        cluster.wait_status(node, &what, is_so).expect("status");
    }
}

/// Connections that ask their kernel to tell of a far end that is gone: one that is idle, by keepalives, and one
/// that has something to say, by TCP_USER_TIMEOUT; and one that asks for nothing.
const ASKS: &str = "\
def asks(idle, busy):
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL:
        idle.setsockopt(socket.IPPROTO_TCP, option, 1)
    idle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
    busy.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 2000)
def tells(idle, busy, patient):
    print('stands', flush=True)
    sys.stdin.readline()
    patient.settimeout(60)
    for s in busy, patient:
        s.sendall(b'x')
    for s in idle, busy:
        s.settimeout(30)
        try:
            s.recv(100)
            print('goes on')
        except OSError as e:
            print(errno.errorcode.get(e.errno, type(e).__name__))
    sys.stdout.flush()
    print(patient.recv(100), flush=True)
";

/// A host that is gone is noticed when a program has asked for it, whichever end it is, and only then.
#[test]
fn a_far_end_that_is_gone_is_told_as_the_program_has_asked() {
    let cluster = cluster();
    let serves = format!(
        "{ASKS}
listener = socket.create_server(('', 8080))
print('listens', flush=True)
three = [listener.accept()[0] for _ in range(3)]
asks(*three[:2])
tells(*three)
"
    );
    let connects = format!(
        "{ASKS}
three = []
for _ in range(3):
    three.append(socket.create_connection(('{}', 8080)))
    time.sleep(0.1)
asks(*three[:2])
tells(*three)
",
        cluster.address(1)
    );
    let mut server = serve(under_run(&cluster, 1, &serves));
    let mut client = serve(under_run(&cluster, 0, &connects));
    server.says("stands").expect("all three");
    all_links(&cluster, false);
    for end in [&mut server, &mut client] {
        end.tell("go").expect("hears");
    }
    for end in [&mut server, &mut client] {
        for _ in 0..2 {
            end.says("ETIMEDOUT").expect("is told");
        }
    }
    all_links(&cluster, true);
    for end in [&mut server, &mut client] {
        end.says("b'x'").expect("goes on");
    }
}

/// A server hands its listener to a successor that was started by itself, and ends: nobody is refused.
#[test]
fn a_listener_lives_for_as_long_as_anybody_has_it() {
    let cluster = cluster();
    let path = cluster.directory().join("hand-over").display().to_string();
    let serves = "\
while True:
    s = listener.accept()[0]
    s.sendall(name)
    s.close()
";
    let first = format!(
        "\
import threading
name = b'first'
listener = socket.create_server(('', 8080))
hands = socket.socket(socket.AF_UNIX)
hands.bind('{path}')
hands.listen()
os.chmod('{path}', 0o666)
print('ready', flush=True)
def hand_over():
    to = hands.accept()[0]
    socket.send_fds(to, [b'x'], [listener.fileno()])
    to.recv(1)
    os._exit(0)
threading.Thread(target=hand_over).start()
{serves}"
    );
    let second = format!(
        "\
name = b'second'
hands = socket.socket(socket.AF_UNIX)
hands.connect('{path}')
_, fds, _, _ = socket.recv_fds(hands, 1, 1)
listener = socket.socket(fileno=fds[0])
hands.close()
time.sleep(0.5)
print('ready', flush=True)
{serves}"
    );
    let to = cluster.address(1).to_string();
    let asks = format!("print(socket.create_connection(('{to}', 8080), 10).recv(100).decode())");
    let mut first = serve(under_run(&cluster, 1, &first));
    assert_eq!(said_by(under_run(&cluster, 0, &asks)), "first\n");
    let second = serve(under_run(&cluster, 1, &second));
    assert!(first.wait().expect("ends").success());
    // For longer than it is looked whether anything is left.
    for _ in 0..3 {
        assert_eq!(said_by(under_run(&cluster, 0, &asks)), "second\n");
        assert_eq!(said_by(plainly(&cluster, 0, &asks)), "second\n");
        std::thread::sleep(core::time::Duration::from_millis(700));
    }
    drop(second);
    eventually("nobody listens any more", || {
        said_by(plainly(&cluster, 0, &asks)).contains("ConnectionRefusedError")
    });
}

/// `tabane run --join` of a process, or another that is meant by this, on a node.
fn joins(cluster: &Cluster, node: usize, whom: &str, script: &str) -> Command {
    let mut joins = cluster.tabane(node);
    joins.args(["run", "--join", whom, "--", "python3"]);
    with_script(joins, script)
}

/// It is where the first program is, as if that one had started it, and stays when that one has ended.
#[test]
fn a_program_joins_another_and_outlives_it() {
    let cluster = cluster();
    let first = serve(under_run(
        &cluster,
        0,
        "\
listener = socket.create_server(('127.0.0.1', 8080))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind('\\0here')
abstract.listen()
print('ready', flush=True)
s = listener.accept()[0]
s.sendall(b'loopback')
s.close()
s = abstract.accept()[0]
s.sendall(b'abstract')
sys.stdin.read()
",
    ));
    let heard = "\
with socket.create_connection(('127.0.0.1', 8080), 10) as s:
    print(s.recv(100).decode())
with socket.socket(socket.AF_UNIX) as s:
    s.connect('\\0here')
    print(s.recv(100).decode())
print(os.getcwd())
";
    let whom = first.id().to_string();
    let here = std::env::current_dir().expect("is there");
    let said = said_by(joins(&cluster, 0, &whom, heard));
    assert_eq!(said, format!("loopback\nabstract\n{}\n", here.display()));
    // Others find its ports as the first one's.
    let mut second = serve(joins(&cluster, 0, &whom, &server("second", "", 8081)));
    let third = second.id().to_string();
    drop(first);
    let vnic = cluster.address(0).to_string();
    let ends = [(vnic.as_str(), 8081)];
    for _ in 0..3 {
        assert_eq!(
            said_by(under_run(&cluster, 1, &heard_at(&ends))),
            "second second\n"
        );
        assert_eq!(
            said_by(plainly(&cluster, 1, &heard_at(&ends))),
            "second second\n"
        );
        let said = said_by(joins(
            &cluster,
            0,
            &third,
            &heard_at(&[("127.0.0.1", 8081)]),
        ));
        assert_eq!(said, "second second\n");
        std::thread::sleep(core::time::Duration::from_millis(700));
    }
    second.end_input();
}

#[test]
fn who_cannot_be_joined_is_told() {
    let cluster = cluster();
    let plain = serve(plainly(
        &cluster,
        0,
        "print('ready', flush=True); sys.stdin.read()",
    ));
    let said = |whom: &str| said_by(joins(&cluster, 0, whom, "print('joined')"));
    let number = plain.id().to_string();
    for (whom, why) in [
        (number.as_str(), "is not under `tabane run`"),
        ("4194304", "there is no process 4194304"),
        ("no-such-program-1", "there is no process no-such-program-1"),
        (
            "no-such-unit-1.service",
            "no unit no-such-unit-1.service runs",
        ),
    ] {
        let said = said(whom);
        assert!(said.contains(why), "{whom}: {said}");
    }
}

/// The kernel of the program's namespace has every address, and would answer for all.
#[test]
fn pings_are_answered_by_whom_they_are_for_or_by_nobody() {
    let cluster = cluster();
    let (link, vnic) = (
        cluster.lab().address(1, 0).to_string(),
        cluster.address(1).to_string(),
    );
    let own = cluster.lab().address(0, 1).to_string();
    let nobody = {
        let (network, _) = link.rsplit_once('.').expect("an address of IPv4");
        format!("{network}.199")
    };
    for (to, answers) in [
        (&*link, true),
        (&vnic, true),
        (&own, true),
        ("127.0.0.1", true),
        ("::1", true),
        (&nobody, false),
        ("192.0.2.77", false),
        ("2001:db8::77", false),
    ] {
        let words = ["-c", "2", "-i", "0.2", "-W", "2", "-s", "4000", to];
        let plainly = cluster.lab().command(0, "ping");
        for mut ping in [plainly, cluster.run(0, "ping")] {
            ping.args(words);
            let said = output("ping", ping, PATIENCE).expect("ends");
            assert_eq!(
                said.status.success(),
                answers,
                "{to}: {}",
                text(&said.stdout)
            );
        }
    }
    // More than are remembered, and each hears its own answer.
    let many = format!(
        "\
from concurrent.futures import ThreadPoolExecutor
import subprocess
def ping(n):
    return subprocess.run(['ping', '-c1', '-W5', '-q', '{link}'], stdout=subprocess.DEVNULL).returncode
print(set(ThreadPoolExecutor(8).map(ping, range(300))))"
    );
    assert_eq!(said_by(under_run(&cluster, 0, &many)), "{0}\n");
}

/// Of a socket that is connected, bound to a port or not: a resolver does not wait then.
#[test]
fn who_sends_to_where_no_way_leads_is_told() {
    let cluster = cluster();
    let script = "\
def told(is_bound):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if is_bound:
        s.bind(('', 0))
    until = time.monotonic() + 20
    try:
        s.connect(('192.0.2.77', 53))
        while time.monotonic() < until:
            s.send(b'?')
            time.sleep(0.05)
    except OSError as e:
        return errno.errorcode[e.errno]
print(told(False), told(True))";
    let expected = "ENETUNREACH ENETUNREACH\n";
    assert_eq!(said_by(plainly(&cluster, 0, script)), expected);
    assert_eq!(said_by(under_run(&cluster, 0, script)), expected);
}
