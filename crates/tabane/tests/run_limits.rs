//! `tabane run` where there are more ports and pairs of UDP ends than may be, where a port is root's,
//! and where the machine has other limits than the kernel's defaults.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use common::*;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};

/// What the programs of these tests share.
const PRELUDE: &str = "\
import errno, resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
";

/// Whoever runs the test is an ordinary user.
const ORDINARY: [&str; 4] = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];

/// A program in Python under `tabane run` on a node; `user` is what changes who runs it.
fn under_run(cluster: &Cluster, node: usize, user: &[&str], script: &str) -> Command {
    let mut run = tabane_behind(cluster, node, user, "run");
    run.args(["--", "python3"]);
    with_script(run, script)
}

fn plainly(cluster: &Cluster, node: usize, user: &[&str], script: &str) -> Command {
    with_script(behind(cluster, node, user, "python3"), script)
}

fn with_script(mut python: Command, script: &str) -> Command {
    python.arg("-c").arg(format!("{PRELUDE}{script}"));
    python.stdin(Stdio::null()).stdout(Stdio::piped());
    python
}

/// Starts a server, and waits until it has said that it is ready.
fn serve(command: Command) -> Program {
    let mut server = Program::start("server", command).expect("starts");
    let mut said = String::new();
    let mut stdout = BufReader::new(server.take_stdout().expect("is piped"));
    stdout.read_line(&mut said).expect("can be read");
    assert_eq!(said, "ready\n");
    server
}

fn said_by(command: Command) -> String {
    let said = output("python3", command, PATIENCE).expect("ends");
    text(&said.stdout) + &text(&said.stderr)
}

fn limit_hit(cluster: &Cluster, node: usize, limit: &str, times: u64) {
    let status = cluster.status(node).expect("status");
    assert_eq!(status["node"]["limits_hit"][limit], times, "{status:#}");
    let line = format!("limit hit: {limit} ");
    let told = || cluster.log(node).matches(&line).count();
    eventually("the log tells it once", || told() == 1);
}

/// One program has three of four ports at most. The one too many is reached by programs under
/// `tabane run` all the same, and by no others.
#[test]
fn a_program_has_so_many_ports_and_no_more() {
    const MOST: u64 = 4096 / 4 * 3;
    let cluster = cluster();
    let server = format!(
        "\
listeners = [socket.create_server(('', 10000 + n)) for n in range({MOST} + 1)]
print('ready', flush=True)
while True:
    listeners[-1].accept()[0].sendall(b'reached')
"
    );
    let _server = serve(under_run(&cluster, 1, &[], &server));
    let status = cluster.status(1).expect("status");
    assert_eq!(status["node"]["run"]["ports"], MOST);
    limit_hit(&cluster, 1, "run_share_full", 1);
    let client = format!(
        "\
try:
    print(socket.create_connection(('{}', 10000 + {MOST})).recv(100))
except OSError as e:
    print(errno.errorcode[e.errno])
",
        cluster.address(1)
    );
    assert_eq!(
        said_by(under_run(&cluster, 0, &[], &client)),
        "b'reached'\n"
    );
    assert_eq!(
        said_by(plainly(&cluster, 0, &[], &client)),
        "ECONNREFUSED\n"
    );
}

/// The pair that was silent longest is forgotten; what it says next begins it anew.
#[test]
fn there_are_so_many_pairs_of_ends_and_no_more() {
    let cluster = cluster();
    let address = cluster.address(1);
    let server = format!(
        "\
import select
sockets = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(2)]
for n, s in enumerate(sockets):
    s.bind(('{address}', 9999 + n))
print('ready', flush=True)
while True:
    for s in select.select(sockets, [], [])[0]:
        s.sendto(*s.recvfrom(100))
"
    );
    let _server = serve(plainly(&cluster, 1, &[], &server));
    let client = format!(
        "\
s = socket.socket(type=socket.SOCK_DGRAM)
s.settimeout(30)
def echoed(data, port):
    s.sendto(data, ('{address}', port))
    return s.recvfrom(100)
print(echoed(b'first', 10000), flush=True)
for n in range(4095):
    s.sendto(b'x', ('{address}', 10001 + n))
    # So that none is lost for want of room.
    if n % 64 == 0:
        echoed(b'paced', 9999)
print(echoed(b'again', 10000), flush=True)
sys.stdin.read()
"
    );
    let mut command = under_run(&cluster, 0, &[], &client);
    command.stdin(Stdio::piped());
    let mut client = Program::start("client", command).expect("starts");
    let mut stdout = BufReader::new(client.take_stdout().expect("is piped"));
    for word in ["first", "again"] {
        let mut said = String::new();
        stdout.read_line(&mut said).expect("can be read");
        assert_eq!(said, format!("(b'{word}', ('{address}', 10000))\n"));
    }
    let status = cluster.status(0).expect("status");
    assert_eq!(status["node"]["run"]["datagram_flows"], 4096);
    limit_hit(&cluster, 0, "run_flows_full", 2);
}

/// A program that sends to ever more ends forgets its own, and none of another program's.
#[test]
fn pairs_of_ends_of_others_are_not_forgotten() {
    let cluster = cluster();
    let address = cluster.address(1);
    let server = format!(
        "\
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind(('{address}', 9999))
print('ready', flush=True)
while True:
    _, peer = s.recvfrom(100)
    s.sendto(str(peer).encode(), peer)
"
    );
    let _server = serve(plainly(&cluster, 1, &[], &server));
    // Who it is to the server, before and after.
    let quiet = format!(
        "\
s = socket.socket(type=socket.SOCK_DGRAM)
s.settimeout(30)
for _ in range(2):
    s.sendto(b'who', ('{address}', 9999))
    print(s.recvfrom(100)[0], flush=True)
    sys.stdin.readline()
"
    );
    let mut command = under_run(&cluster, 0, &[], &quiet);
    command.stdin(Stdio::piped());
    let mut quiet = Program::start("client", command).expect("starts");
    let mut stdin = quiet.take_stdin().expect("is piped");
    let mut stdout = BufReader::new(quiet.take_stdout().expect("is piped"));
    let mut line = || {
        let mut said = String::new();
        stdout.read_line(&mut said).expect("can be read");
        said
    };
    let before = line();
    let loud = format!(
        "\
s = socket.socket(type=socket.SOCK_DGRAM)
s.settimeout(30)
for n in range(4200):
    s.sendto(b'x', ('{address}', 10001 + n))
    # So that none is lost for want of room.
    if n % 64 == 0:
        s.sendto(b'who', ('{address}', 9999))
        s.recvfrom(100)
print('done')
"
    );
    assert_eq!(said_by(under_run(&cluster, 0, &[], &loud)), "done\n");
    let status = cluster.status(0).expect("status");
    let full = status["node"]["limits_hit"]["run_flows_full"].as_u64();
    assert!(full > Some(0), "{status:#}");
    writeln!(stdin).expect("can be written");
    assert_eq!(line(), before);
}

/// Below 1024, root may, and nobody else; as without `tabane run`.
#[test]
fn ports_of_root_are_roots() {
    let server = "\
try:
    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(('', 80))
except OSError as e:
    print(errno.errorcode[e.errno])
try:
    listener = socket.create_server(('', 80))
    print('ready', flush=True)
    listener.accept()[0].sendall(b'reached')
except OSError as e:
    print(errno.errorcode[e.errno])
";
    let cluster = cluster();
    let refused = "EACCES\nEACCES\n";
    assert_eq!(said_by(plainly(&cluster, 1, &ORDINARY, server)), refused);
    assert_eq!(said_by(under_run(&cluster, 1, &ORDINARY, server)), refused);
    let client = format!(
        "print(socket.create_connection(('{}', 80)).recv(100))",
        cluster.address(1)
    );
    for client in [
        plainly(&cluster, 0, &[], &client),
        under_run(&cluster, 0, &[], &client),
    ] {
        let _server = serve(under_run(&cluster, 1, &[], server));
        assert_eq!(said_by(client), "b'reached'\n");
    }
}

/// What an operator has set for the machine's sockets holds for those of the program.
#[test]
fn settings_of_the_machine_hold() {
    let set = [
        ("core/somaxconn", "7"),
        ("ipv4/ip_unprivileged_port_start", "80"),
        ("ipv4/ip_local_port_range", "2000\t2099"),
        ("ipv4/tcp_keepalive_time", "77"),
    ];
    let server = "\
listener = socket.create_server(('', 80))
near = socket.create_connection(('127.0.0.1', 80))
port = near.getsockname()[1]
print('port 80,', 'from 20..,' if 2000 <= port < 2100 else port)
print(near.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 's')
waiting = [near]
try:
    while True:
        waiting.append(socket.create_connection(('127.0.0.1', 80), 1))
except OSError as e:
    print(len(waiting), type(e).__name__)
";
    let cluster = cluster();
    for (name, value) in set {
        let mut sysctl = cluster.lab().command(1, "sh");
        sysctl.args(["-c", "echo \"$1\" > /proc/sys/net/$0", name, value]);
        assert!(sysctl.status().expect("starts").success(), "{name}");
    }
    let said = said_by(plainly(&cluster, 1, &ORDINARY, server));
    assert!(said.starts_with("port 80, from 20..,\n77 s\n8 "), "{said}");
    assert_eq!(said_by(under_run(&cluster, 1, &ORDINARY, server)), said);
}

/// A program that leaves the choice of its port to the kernel gets one that is free at its node, also
/// where few are and many programs want one.
#[test]
fn a_port_of_any_number_is_one_that_others_reach() {
    const PROGRAMS: usize = 24;
    let cluster = cluster();
    let mut sysctl = cluster.lab().command(1, "sh");
    let few = "echo 2000 2063 > /proc/sys/net/ipv4/ip_local_port_range";
    assert!(sysctl.args(["-c", few]).status().expect("starts").success());
    // Bound first, or not at all.
    let server = |bound: &str| {
        format!(
            "\
s = socket.socket()
try:
    {bound}
    s.listen()
    print(s.getsockname()[1], flush=True)
    while True:
        s.accept()[0].sendall(b'reached')
except OSError as e:
    print(errno.errorcode[e.errno], flush=True)
"
        )
    };
    let servers = [server("s.bind(('', 0))"), server("pass")];
    let mut programs: Vec<_> = (0..PROGRAMS)
        .map(|n| {
            let server = under_run(&cluster, 1, &[], &servers[n % 2]);
            Program::start("server", server).expect("starts")
        })
        .collect();
    let ports = programs.iter_mut().map(|program| {
        let mut port = String::new();
        let mut stdout = BufReader::new(program.take_stdout().expect("is piped"));
        stdout.read_line(&mut port).expect("can be read");
        port.trim_end().to_owned()
    });
    let ports: Vec<String> = ports.collect();
    let client = format!(
        "\
for port in [{}]:
    print(socket.create_connection(('{}', port)).recv(100))
",
        ports.join(", "),
        cluster.address(1)
    );
    let said = said_by(plainly(&cluster, 0, &[], &client));
    assert_eq!(said, "b'reached'\n".repeat(PROGRAMS), "{ports:?}");
}
