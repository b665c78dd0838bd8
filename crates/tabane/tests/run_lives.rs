//! `tabane run` while daemons are killed, stopped and started: connections break, programs do not.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use common::*;
use serde_json::{Value, json};
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};
use tabane_lab::{Fault, LabConfig};

const PORT: &str = "8080";

/// A program under `tabane run` on a node, and the lines that it prints.
struct Live {
    program: Program,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Live {
    /// `lives.py`.
    fn start(cluster: &Cluster, node: usize, side: &str) -> Live {
        Live::of(cluster.run(node, "python3"), cluster, side)
    }

    /// The same without `tabane run`.
    fn start_plainly(cluster: &Cluster, node: usize, side: &str) -> Live {
        Live::of(cluster.lab().command(node, "python3"), cluster, side)
    }

    fn of(mut command: Command, cluster: &Cluster, side: &str) -> Live {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/run/lives.py");
        let address = cluster.address(1).to_string();
        command.arg(script).args([side, &address, PORT]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program::start(side, command).expect("starts");
        let stdout = BufReader::new(program.take_stdout().expect("is piped"));
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        Live {
            input: program.take_stdin().expect("is piped"),
            program,
            lines,
        }
    }

    /// A line for it to read.
    fn is_told(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("can be written");
    }

    /// The next line that it prints, and nothing else, is this.
    fn says(&self, expected: &str) {
        let said = self.lines.recv_timeout(PATIENCE);
        assert_eq!(said.as_deref(), Ok(expected));
    }
}

/// A cluster without daemons.
fn quiet_cluster() -> Cluster {
    let lab = lab(&LabConfig::default());
    Cluster::new(lab, tabane(), ClusterConfig::default()).expect("the file is written")
}

const HELLO: &str = "echoed b'hello'";

#[test]
fn a_daemon_that_is_killed_or_stopped_breaks_connections_and_no_program() {
    let mut cluster = cluster();
    let server = Live::start(&cluster, 1, "serve");
    server.says("listens");
    let client = Live::start(&cluster, 0, "connect");
    client.says(HELLO);
    let kill: fn(&mut Cluster, usize) = |cluster, node| cluster.kill(node).expect("runs");
    let stop: fn(&mut Cluster, usize) = |cluster, node| {
        cluster.stop(node).expect("runs");
    };
    for end in [kill, stop] {
        for node in [0, 1] {
            end(&mut cluster, node);
            cluster.start(node).expect("starts");
            server.says("server: ECONNRESET");
            client.says("client: ECONNRESET");
            client.says(HELLO);
        }
    }
}

/// The last bytes and the goodbye of the far daemon come together: what is missing is missed.
#[test]
fn bulk_that_is_cut_off_never_looks_complete() {
    const TIMES: usize = 10;
    let mut cluster = cluster();
    let server = Live::start(&cluster, 1, "pour");
    server.says("listens");
    let client = Live::start(&cluster, 0, "drain");
    for _ in 0..TIMES {
        client.says("flows");
        cluster.stop(1).expect("runs");
        client.says("client: ECONNRESET");
        cluster.start(1).expect("starts");
    }
}

#[test]
fn what_listens_while_no_daemon_runs_is_found_later() {
    let mut cluster = cluster();
    let mut server = Live::start(&cluster, 1, "late");
    server.says("waits");
    cluster.kill(1).expect("runs");
    server.is_told("listen");
    server.says("listens");
    cluster.start(1).expect("starts");
    // By a program that is not under `tabane run`, too: the node listens for it.
    for start in [Live::start, Live::start_plainly] {
        let client = start(&cluster, 0, "connect");
        client.says(HELLO);
        drop(client);
        server.says("server: ended");
    }
}

/// The file with the key is root's. Whoever may not read it is told by the daemon what there is to know.
#[test]
fn the_cluster_file_is_not_needed_while_a_daemon_runs() {
    let mut cluster = cluster();
    let asked = |cluster: &Cluster, script: &str| {
        let mut run = cluster.tabane(0);
        run.args(["run", "--", "sh", "-c", script]);
        output("tabane run", run, PATIENCE).expect("ends")
    };
    let address = cluster.address(1).to_string();
    let tabane = tabane().display();
    // Within, no daemon can be asked, nor need it be.
    let script =
        format!("getent ahostsv4 n1 | head -1; {tabane} run -- getent ahostsv4 n1 | head -1");
    let said = asked(&cluster, &script);
    let (out, err) = (text(&said.stdout), text(&said.stderr));
    assert_eq!(out.matches(&address).count(), 2, "{out}{err}");
    let server = Live::start(&cluster, 1, "serve");
    server.says("listens");
    let say = format!(
        "python3 -c \"import socket; s = socket.create_connection(('{address}', {PORT})); s.send(b'x')\""
    );
    let said = asked(&cluster, &say);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let status = cluster.status(0).expect("status");
    assert_eq!(status["node"]["run"]["carried"], 1, "{status:#}");

    cluster.kill(0).expect("runs");
    let said = asked(&cluster, "true");
    let err = text(&said.stderr);
    assert_eq!(said.status.code(), Some(2), "{err}");
    assert!(err.contains("no daemon answers here"), "{err}");
}

/// A processor that this process may use.
fn processor() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("can be read");
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let digits = |c: &char| c.is_ascii_digit();
    allowed
        .expect("is there")
        .trim()
        .chars()
        .take_while(digits)
        .collect()
}

/// A cluster whose second daemon runs on this processor only, and when nothing else wants to there.
fn cluster_with_a_late_daemon(processor: &str) -> Cluster {
    let mut cluster = cluster();
    cluster.stop(1).expect("runs");
    let last = ["taskset", "--cpu-list", processor, "chrt", "--idle", "0"];
    start_behind(&mut cluster, 1, &last);
    cluster
}

/// A program in Python that says when it is ready.
fn ready(mut python: Command, script: &str) -> (Program, impl BufRead) {
    python.args(["-c", script]);
    python.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut program = Program::start("python3", python).expect("starts");
    let mut stdout = BufReader::new(program.take_stdout().expect("is piped"));
    let mut said = String::new();
    stdout.read_line(&mut said).expect("can be read");
    assert_eq!(said, "ready\n");
    (program, stdout)
}

/// A program that the late daemon has connected may answer and end before the daemon sees that.
#[test]
fn what_a_program_answered_before_it_ended_arrives() {
    let processor = processor();
    let cluster = cluster_with_a_late_daemon(&processor);
    let answers = "\
import os, socket
listener = socket.create_server(('', 8080))
print('ready', flush=True)
listener.accept()[0].sendall(b'answered')
os._exit(0)
";
    let asks = format!(
        "import socket; print(socket.create_connection(('{}', 8080)).recv(100))",
        cluster.address(1)
    );
    let clients: [fn(&Cluster) -> Command; 2] = [
        |cluster| cluster.run(0, "python3"),
        |cluster| cluster.lab().command(0, "python3"),
    ];
    for python in clients.repeat(8) {
        let mut run = tabane_behind(&cluster, 1, &["taskset", "--cpu-list", &processor], "run");
        run.args(["--", "python3"]);
        let _server = ready(run, answers);
        let mut python = python(&cluster);
        python.args(["-c", &asks]);
        let said = output("client", python, PATIENCE).expect("ends");
        assert_eq!(text(&said.stdout) + &text(&said.stderr), "b'answered'\n");
    }
}

/// Datagrams, and what is said on a connection, by a program that ends at once.
#[test]
fn what_a_program_sent_before_it_ended_arrives() {
    let processor = processor();
    let cluster = cluster_with_a_late_daemon(&processor);
    let counts = "\
import socket
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(('', 8080))
listener = socket.create_server(('', 8080))
print('ready', flush=True)
connection, _ = listener.accept()
print(connection.recv(100))
datagrams.settimeout(1)
try:
    for n in range(1000):
        datagrams.recv(100)
except TimeoutError:
    print(n)
";
    // No more datagrams than the receiver's socket keeps while it waits for its processor.
    let sends = format!(
        "\
import os, socket
to = ('{}', 8080)
datagrams = socket.socket(type=socket.SOCK_DGRAM)
connection = socket.create_connection(to)
for _ in range(100):
    datagrams.sendto(b'x', to)
connection.sendall(b'said')
os._exit(0)
",
        cluster.address(0)
    );
    for _ in 0..3 {
        let (_server, mut said) = ready(cluster.lab().command(0, "python3"), counts);
        let mut run = tabane_behind(&cluster, 1, &["taskset", "--cpu-list", &processor], "run");
        run.args(["--", "python3", "-c", &sends]);
        let ended = output("client", run, PATIENCE).expect("ends");
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        let mut arrived = String::new();
        said.read_to_string(&mut arrived).expect("can be read");
        assert_eq!(arrived, "b'said'\n100\n");
    }
}

/// A program in the background that nobody can see to be one of those that the first one started: it
/// lives on when that has ended, for longer than the supervisor goes without looking.
#[test]
fn what_runs_on_out_of_sight_is_not_forgotten() {
    let cluster = cluster();
    let script = "\
import ctypes, os, socket, time
if os.fork():
    os._exit(0)
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
assert ctypes.CDLL(None).unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0
for _ in range(30):
    time.sleep(0.1)
    socket.create_server(('', 0)).close()
print('lives')
";
    let mut run = cluster.run(0, "python3");
    run.args(["-c", script]);
    let said = output("python3", run, PATIENCE).expect("ends");
    assert_eq!(text(&said.stdout), "lives\n", "{}", text(&said.stderr));
    let is_gone = |status: &Value| status["node"]["run"]["programs"] == json!([]);
    cluster
        .wait_status(0, "the program is gone", is_gone)
        .expect("status");
}

/// Cuts all links, or heals them, and waits until node 0 has noticed.
fn all_links(cluster: &Cluster, state: &str) {
    let is_up = state == "up";
    for link in 0..cluster.lab().links() {
        let done = match is_up {
            true => cluster.lab().heal(link),
            false => cluster.lab().fail(link, Fault::Silent, None),
        };
        done.expect("can be done");
    }
    for link in 0..cluster.lab().links() {
        wait_path(cluster, link, state);
    }
}

#[test]
fn connections_wait_for_a_link_for_as_long_as_the_file_says() {
    let cluster = cluster();
    let server = Live::start(&cluster, 1, "serve");
    server.says("listens");
    let mut client = Live::start(&cluster, 0, "talk");
    client.is_told("one");
    client.says("echoed b'one\\n'");
    all_links(&cluster, "down");
    client.is_told("two");
    all_links(&cluster, "up");
    client.says("echoed b'two\\n'");

    let mut file = fs::read_to_string(cluster.file()).expect("can be read");
    file += "[run]\nall_links_down_s = 1\n";
    fs::write(cluster.file(), file).expect("can be written");
    for node in [0, 1] {
        let mut reload = cluster.tabane(node);
        reload.arg("reload");
        let said = output("tabane reload", reload, PATIENCE).expect("ends");
        let changes = "connections under `tabane run` wait 1 s for a link\n";
        assert_eq!(text(&said.stdout), changes);
    }
    all_links(&cluster, "down");
    client.is_told("three");
    client.says("client: ECONNRESET");
    server.says("server: ECONNRESET");
    all_links(&cluster, "up");
    let mut client = Live::start(&cluster, 0, "talk");
    client.is_told("four");
    client.says("echoed b'four\\n'");
}

/// The process of the daemon that runs for programs of this user.
fn daemon(cluster: &Cluster, node: usize) -> u64 {
    let status = cluster.status(node).expect("a daemon runs");
    status["node"]["pid"].as_u64().expect("is a number")
}

fn signal(cluster: &Cluster, node: usize, signal: &str, pid: u64) {
    let mut kill = cluster.lab().command(node, "kill");
    kill.args([signal, &pid.to_string()]);
    assert!(
        output("kill", kill, PATIENCE)
            .expect("ends")
            .status
            .success()
    );
}

#[test]
fn a_daemon_of_ones_own_is_started_again() {
    let cluster = quiet_cluster();
    let server = Live::start(&cluster, 1, "serve");
    server.says("listens");
    let client = Live::start(&cluster, 0, "connect");
    client.says(HELLO);
    for how in ["-KILL", "-TERM"] {
        for node in [0, 1] {
            signal(&cluster, node, how, daemon(&cluster, node));
            server.says("server: ECONNRESET");
            client.says("client: ECONNRESET");
            client.says(HELLO);
        }
    }
}

/// As `killall tabane` does: what stays beside a program does not end, the daemon is started again.
#[test]
fn all_that_is_called_tabane_may_be_told_to_end() {
    let cluster = quiet_cluster();
    let server = Live::start(&cluster, 1, "serve");
    server.says("listens");
    let client = Live::start(&cluster, 0, "connect");
    client.says(HELLO);
    let programs = [server.program.id(), client.program.id()];
    for name in ["-TERM", "-USR1", "-QUIT", "-ALRM"] {
        for pid in called_tabane(&cluster, &programs) {
            signal(&cluster, 0, name, pid);
        }
        server.says("server: ECONNRESET");
        client.says("client: ECONNRESET");
        client.says(HELLO);
    }
}

/// The processes of `tabane` that have the cluster's file as an argument, and those beside these programs.
fn called_tabane(cluster: &Cluster, programs: &[u32]) -> Vec<u64> {
    let file = cluster.file().display().to_string();
    let processes = fs::read_dir("/proc").expect("is there").flatten();
    let is_meant = |pid: &u64| {
        let of = |what| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let words = text(&of("cmdline"));
        let words = words.trim_end_matches('\0');
        let is_beside = |program: &u32| {
            let names = ["finder", "supervisor"].map(|it| format!("tabane: {it} of {program}"));
            names.iter().any(|name| name == words)
        };
        let is_of_cluster = words.contains(&file) || programs.iter().any(is_beside);
        text(&of("comm")) == "tabane\n" && is_of_cluster
    };
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found: Vec<u64> = pids.filter(is_meant).collect();
    // Two beside each program, and the daemons.
    assert!(found.len() > 2 * programs.len(), "{found:?}");
    found
}

#[test]
fn a_daemon_for_everybody_takes_the_place_of_ones_own() {
    let mut cluster = quiet_cluster();
    let server = Live::start(&cluster, 1, "serve");
    server.says("listens");
    let client = Live::start(&cluster, 0, "connect");
    client.says(HELLO);
    let own = daemon(&cluster, 0);
    cluster.start(0).expect("starts");
    server.says("server: ECONNRESET");
    client.says("client: ECONNRESET");
    client.says(HELLO);
    assert_ne!(daemon(&cluster, 0), own);
}

#[test]
fn many_that_start_at_once_share_one_daemon() {
    const PROGRAMS: usize = 20;
    let cluster = quiet_cluster();
    for round in 0..5 {
        if round > 0 {
            // The next ones come while it ends.
            signal(&cluster, 0, "-TERM", daemon(&cluster, 0));
        }
        let programs: Vec<_> = (0..PROGRAMS)
            .map(|_| {
                let mut command = cluster.run(0, "true");
                command.stdin(Stdio::null()).stderr(Stdio::piped());
                Program::start("true", command).expect("starts")
            })
            .collect();
        for program in programs {
            let said = program.output(PATIENCE).expect("ends");
            assert!(
                said.status.success(),
                "round {round}: {}",
                text(&said.stderr)
            );
        }
    }
}

#[test]
fn many_that_lose_their_daemon_share_the_next() {
    const PROGRAMS: usize = 20;
    let cluster = quiet_cluster();
    let programs: Vec<_> = (0..PROGRAMS)
        .map(|_| {
            let mut command = cluster.run(0, "cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            Program::start("cat", command).expect("starts")
        })
        .collect();
    // By a daemon other than the one that was told to end, which may still answer.
    let all_are_there = |ended: u64| {
        let mut daemon = ended;
        eventually("all programs have a daemon", || {
            let status = cluster.status(0).unwrap_or_default();
            daemon = status["node"]["pid"].as_u64().unwrap_or(ended);
            let programs = status["node"]["run"]["programs"].as_array();
            daemon != ended && programs.is_some_and(|programs| programs.len() == PROGRAMS)
        });
        daemon
    };
    const NONE: u64 = 0;
    let mut daemon = all_are_there(NONE);
    for how in ["-KILL", "-TERM", "-KILL"] {
        signal(&cluster, 0, how, daemon);
        daemon = all_are_there(daemon);
    }
    for mut program in programs {
        drop(program.take_stdin());
        assert!(program.wait(PATIENCE).expect("ends").success());
    }
}

#[test]
fn the_status_tells_of_programs() {
    let cluster = cluster();
    let server = Live::start(&cluster, 1, "serve");
    server.says("listens");
    let client = Live::start(&cluster, 0, "connect");
    client.says(HELLO);
    for (node, accepted, ports) in [(0, 0, 0), (1, 1, 1)] {
        let run = cluster.status(node).expect("status")["node"]["run"].take();
        assert_eq!(run["programs"][0]["command"], "python3", "{run}");
        let pid = run["programs"][0]["pid"].as_u64().expect("is a number");
        assert!(PathBuf::from(format!("/proc/{pid}")).exists());
        assert_eq!(run["programs"][0]["connections"], 1, "{run}");
        for (name, count) in [
            ("connections", 1),
            ("plain_connections", 0),
            ("carried", 1),
            ("plain", 0),
            ("accepted", accepted),
            ("ports", ports),
            ("cut_off", 0),
        ] {
            assert_eq!(run[name], count, "{name} of n{node}: {run}");
        }
    }
    let mut status = cluster.tabane(0);
    status.arg("status");
    let said = output("tabane status", status, PATIENCE).expect("ends");
    let line = "tabane run: 1 program, 1 connection carried\n";
    assert!(text(&said.stdout).contains(line), "{}", text(&said.stdout));
    drop(client);
    let is_gone = |status: &Value| status["node"]["run"]["programs"] == json!([]);
    cluster
        .wait_status(0, "the program is gone", is_gone)
        .expect("status");
}

/// More programs than one user may have, which is not all: the last is told so.
#[test]
fn there_are_so_many_programs_of_a_user_and_no_more() {
    let cluster = cluster();
    let mut clients = cluster.lab().command(0, "python3");
    let connect = "\
import glob, os, resource, socket, sys
net = f'net-{os.stat(\"/proc/self/ns/net\").st_ino}'
# Where the daemon of root is, or that of another user.
own = os.environ.get('XDG_RUNTIME_DIR', '/none') + '/tabane'
[path] = [p for base in ('/run/tabane', own, '/tmp/tabane-*') for p in glob.glob(f'{base}/{net}/run')]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    return s
places = [connect() for _ in range(1024 * 7 // 8)]
print(connect().recv(100), flush=True)
sys.stdin.read()
";
    clients.args(["-c", connect]);
    clients.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut clients = Program::start("python3", clients).expect("starts");
    let mut said = String::new();
    let mut stdout = BufReader::new(clients.take_stdout().expect("is piped"));
    stdout.read_line(&mut said).expect("can be read");
    assert_eq!(said, "b'{\"says\":\"full\"}'\n");
    let mut run = cluster.run(0, "true");
    run.stdin(Stdio::null());
    let refused = output("tabane run", run, PATIENCE).expect("ends");
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains("no room for another program of this user"),
        "{said}"
    );
    let limits = cluster.status(0).expect("status")["node"]["limits_hit"].take();
    assert_eq!(limits["run_share_full"], 2);
    let told = |log: &str| log.matches("limit hit: run_share_full").count();
    eventually("the log tells it once", || told(&cluster.log(0)) == 1);
}

/// The supervisor of a program: in the same network namespace, and it is `tabane`.
fn supervisor_of(program: u32) -> u32 {
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let is_ours = |pid: u32| {
        let runs = std::fs::read_link(format!("/proc/{pid}/exe"));
        runs.is_ok_and(|runs| runs == tabane()) && namespace(pid) == namespace(program)
    };
    let all = std::fs::read_dir("/proc").expect("is listed").flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = pids.find(|pid| *pid != program && is_ours(*pid));
    found.expect("a supervisor")
}

fn send_signal(pid: u32, name: &str) {
    let mut kill = Command::new("kill");
    kill.args([name, &pid.to_string()]);
    assert!(kill.status().expect("starts").success());
}

/// Whoever wants a port that a program has whose supervisor is stopped is told that it is taken, and
/// does not wait for ever.
#[test]
fn a_supervisor_that_is_stopped_holds_nobody_up() {
    let cluster = cluster();
    let listen = "\
import errno, socket, sys
try:
    listener = socket.create_server(('', 8080))
    print('ready', flush=True)
    sys.stdin.read()
except OSError as e:
    print(errno.errorcode[e.errno])
";
    let listen = || {
        let mut server = cluster.run(1, "python3");
        server.args(["-c", listen]);
        server.stdin(Stdio::piped()).stdout(Stdio::piped());
        server
    };
    let mut first = Program::start("python3", listen()).expect("starts");
    let mut said = String::new();
    let mut stdout = BufReader::new(first.take_stdout().expect("is piped"));
    stdout.read_line(&mut said).expect("can be read");
    assert_eq!(said, "ready\n");
    let supervisor = supervisor_of(first.id());
    send_signal(supervisor, "-STOP");
    let second = output("python3", listen(), PATIENCE).expect("ends");
    send_signal(supervisor, "-CONT");
    assert_eq!(text(&second.stdout), "EADDRINUSE\n");
    let limits = cluster.status(1).expect("status")["node"]["limits_hit"].take();
    assert_eq!(limits["run_unanswered"], 1, "{limits}");
}
