//! A program under `tabane run` that reads nothing stops its own connections and nobody else's, and
//! is named.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};

/// Connections that nobody reads.
const UNREAD: usize = 200;
const UNREAD_PORT: u16 = 5001;
const BULK_PORT: u16 = 5201;
const HTTP_PORT: u16 = 8080;

/// Accepts all that come, and reads nothing.
const SERVER: &str = "\
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
listener = socket.create_server(('', int(sys.argv[1])), backlog=1000)
print('ready', flush=True)
accepted = []
while True:
    accepted.append(listener.accept()[0])
";

/// Opens so many connections, and writes to all of them until none takes anything for a second.
const WRITER: &str = "\
import resource, select, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
sockets = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(int(sys.argv[3]))]
poll = select.epoll()
of = {}
for s in sockets:
    s.setblocking(False)
    of[s.fileno()] = s
    poll.register(s, select.EPOLLOUT)
data = bytes(256 * 1024)
total = 0
while ready := poll.poll(1):
    for fd, _ in ready:
        try:
            total += of[fd].send(data)
        except BlockingIOError:
            pass
print('all are full after', total, flush=True)
sys.stdin.read()
";

/// Fetches a page again and again, each time by a connection of its own.
const FETCHER: &str = "\
import sys, urllib.request
for _ in range(100):
    page = urllib.request.urlopen(f'http://{sys.argv[1]}:{sys.argv[2]}/cluster.toml').read()
    assert page.startswith(open('cluster.toml', 'rb').read(8)), page
print('fetched', flush=True)
";

fn python(cluster: &Cluster, node: usize, script: &str, arguments: &[&str]) -> Command {
    let mut python = cluster.run(node, "python3");
    python.arg("-c").arg(script).args(arguments);
    python
        .current_dir(cluster.directory())
        .stdout(Stdio::piped());
    python
}

/// Starts a program, and returns the first line that it says.
fn start(mut command: Command) -> (Program, String) {
    command.stdin(Stdio::piped());
    let mut program = Program::start("python3", command).expect("starts");
    let mut said = String::new();
    let mut stdout = BufReader::new(program.take_stdout().expect("is piped"));
    stdout.read_line(&mut said).expect("can be read");
    (program, said)
}

/// A program on the second node that is reached at a port.
fn serve(cluster: &Cluster, program: &str, arguments: &[&str], ports: usize) -> Program {
    let mut server = cluster.run(1, program);
    server.args(arguments).current_dir(cluster.directory());
    let server = Program::start_quiet(program, server).expect("starts");
    let listens = |status: &Value| status["node"]["run"]["ports"].as_u64() == Some(ports as u64);
    let what = format!("{program} listens");
    cluster.wait_status(1, &what, listens).expect("status");
    server
}

/// Bulk both ways, and connections one after the other, by other programs: they go on, and end.
fn others_go_on(cluster: &Cluster) {
    let address = cluster.address(1).to_string();
    let port = BULK_PORT.to_string();
    for way in [&["-n", "64M"][..], &["-n", "64M", "-R"]] {
        let mut client = cluster.run(0, "iperf3");
        client
            .args(["--json", "-c", &address, "-p", &port])
            .args(way);
        let said = output("iperf3", client, PATIENCE).expect("iperf3 ends");
        let report: Value = serde_json::from_slice(&said.stdout).expect("it reports");
        assert_eq!(report.get("error"), None, "{report:#}");
        let received = report["end"]["sum_received"]["bytes"].as_u64();
        // It does not wait for the last of them.
        assert!(received >= Some(32 << 20), "{report:#}");
    }
    let fetcher = python(cluster, 0, FETCHER, &[&address, &HTTP_PORT.to_string()]);
    let said = output("python3", fetcher, PATIENCE).expect("it ends");
    assert_eq!(text(&said.stdout), "fetched\n", "{}", text(&said.stderr));
}

/// What doctor says of programs that do not read.
fn unread_findings(cluster: &Cluster, node: usize) -> Vec<Value> {
    let mut doctor = cluster.lab().command(node, env!("CARGO_BIN_EXE_tabane"));
    doctor.args([
        "doctor",
        "--alone",
        "--json",
        "--seconds",
        "0.5",
        "--config",
    ]);
    doctor.arg(cluster.file());
    let said = output("tabane doctor", doctor, PATIENCE).expect("it ends");
    let said: Value = serde_json::from_slice(&said.stdout).expect("is JSON");
    let findings = said["findings"].as_array().expect("a list").iter();
    let unread = findings.filter(|finding| finding["cause"] == "unread_program");
    unread.cloned().collect()
}

/// Their state: by whom they are not read, of which program, with which of the ends.
fn listed<'a>(status: &'a Value, reader: &str) -> Vec<&'a Value> {
    let listed = status["node"]["run"]["unread"]["listed"].as_array();
    let listed = listed.expect("a list").iter();
    listed.filter(|it| it["reader"] == reader).collect()
}

#[test]
fn what_is_not_read_stops_nobody_else_and_is_named() {
    let cluster = cluster();
    let bulk_port = BULK_PORT.to_string();
    let _bulk = serve(&cluster, "iperf3", &["-s", "-p", &bulk_port], 1);
    let http = ["-m", "http.server", &HTTP_PORT.to_string()];
    let _http = serve(&cluster, "python3", &http, 2);
    let port = UNREAD_PORT.to_string();
    let (server, ready) = start(python(&cluster, 1, SERVER, &[&port]));
    assert_eq!(ready, "ready\n");
    let address = cluster.address(1).to_string();
    let count = UNREAD.to_string();
    let (writer, full) = start(python(&cluster, 0, WRITER, &[&address, &port, &count]));
    assert!(full.starts_with("all are full after "), "{full}");
    others_go_on(&cluster);

    // The node of the program that does not read names it.
    let all_are = |status: &Value| {
        let unread = &status["node"]["run"]["unread"];
        unread["connections"] == UNREAD && unread["bytes"].as_u64() > Some(0)
    };
    let status = cluster
        .wait_status(1, "all are named", all_are)
        .expect("status");
    let here = listed(&status, "program");
    assert_eq!(here.len(), UNREAD, "{status:#}");
    for unread in here {
        assert_eq!(unread["pid"], server.id(), "{unread:#}");
        assert_eq!(unread["local"], format!("{address}:{UNREAD_PORT}"));
        assert_eq!(unread["peer"], "n0");
        let remote = unread["remote"].as_str().expect("an address");
        assert!(
            remote.starts_with(&format!("{}:", cluster.lab().address(0, 0)))
                || remote.starts_with(&format!("{}:", cluster.address(0))),
            "{remote}"
        );
    }
    // So does that of the program that writes.
    let is_there = |status: &Value| listed(status, "peer").len() == UNREAD;
    let status = cluster
        .wait_status(0, "all are named", is_there)
        .expect("status");
    for unread in listed(&status, "peer") {
        assert_eq!(unread["pid"], writer.id(), "{unread:#}");
        assert_eq!(unread["remote"], format!("{address}:{UNREAD_PORT}"));
    }
    // And doctor, in words.
    let pid = format!("({})", server.id());
    eventually("doctor names the program", || {
        let said = unread_findings(&cluster, 1);
        said.iter().any(|finding| {
            let what = finding["what"].as_str().unwrap_or_default();
            what.contains("has not read from") && what.contains(&pid)
        })
    });
    eventually("doctor names the writer", || {
        let said = unread_findings(&cluster, 0);
        let to = format!("{address}:{UNREAD_PORT} has not read");
        said.iter()
            .any(|it| it["what"].as_str().unwrap_or_default().starts_with(&to))
    });
    // Whoever ends is named no more.
    drop(server);
    for node in [0, 1] {
        let none = |status: &Value| {
            let unread = &status["node"]["run"]["unread"];
            unread["connections"] == 0 && unread["listed"].as_array().is_some_and(Vec::is_empty)
        };
        cluster
            .wait_status(node, "none is named", none)
            .expect("status");
    }
}
