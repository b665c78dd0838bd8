//! A daemon that can open no more files goes on with those it has.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::*;
use serde_json::Value;
use tabane_lab::cluster::{
    Cluster, Dialogue, PATIENCE, Program, all_paths_up, output, path_state, socket_address,
};

fn limit_files(pid: u32, soft: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &pid.to_string()]);
    prlimit.arg(format!("--nofile={soft}:"));
    let done = output("prlimit", prlimit, PATIENCE).expect("prlimit ends");
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// So that the next one it opens would be one too many.
fn exhaust(pid: u32) {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("is listed");
    let numbers = open.flatten().map(|entry| entry.file_name());
    let open: BTreeSet<u32> = numbers
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect();
    let free = (0..).find(|number| !open.contains(number)).expect("one is");
    limit_files(pid, &free.to_string());
}

#[test]
fn without_descriptors_it_carries_on_and_catches_up_later() {
    let cluster = cluster_on(&slow_links());
    let pid = cluster.daemon(0).expect("runs").id();
    let stream = Stream::start(&cluster);
    exhaust(pid);
    for _ in 0..20 {
        assert!(cluster.status(0).is_err(), "a client was served");
    }
    address(&cluster, "del");
    let gone = |status: &_| path_state(status, "n0", 1) == Some("down");
    cluster
        .wait_status(1, "n1 misses it", gone)
        .expect("status");
    address(&cluster, "add");
    stream.flows(4_000_000);
    limit_files(pid, "1024");
    for node in 0..2 {
        let what = "all paths are up again";
        cluster
            .wait_status(node, what, all_paths_up)
            .expect("status");
    }
    stream.finish();
    let log = cluster.log(0);
    let said = log.lines().filter(|line| line.contains("open files"));
    assert!(
        said.count() <= 3,
        "said once each, not for each try:\n{log}"
    );
}

fn under_run(cluster: &Cluster, node: usize, program: &[&str]) -> Program {
    let mut command = cluster.run(node, program[0]);
    command.args(&program[1..]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Program::start(program[0], command).expect("starts")
}

#[test]
fn connections_of_programs_leave_descriptors_for_all_else() {
    const FILES: usize = 128;
    let mut cluster = cluster();
    cluster.stop(0).expect("stops");
    let limit = format!("--nofile={FILES}:{FILES}");
    start_behind(&mut cluster, 0, &["prlimit", &limit]);
    let _server = under_run(&cluster, 1, &["socat", "TCP-LISTEN:8080,fork", "EXEC:cat"]);
    let listens = |status: &Value| status["node"]["run"]["ports"] == 1;
    cluster
        .wait_status(1, "it listens", listens)
        .expect("status");
    let connect = "\
import socket, sys
sockets = [socket.socket() for _ in range(60)]
for s in sockets:
    s.setblocking(False)
    s.connect_ex((sys.argv[1], 8080))
sys.stdin.read()
";
    let address = cluster.address(1).to_string();
    let client = under_run(&cluster, 0, &["python3", "-c", connect, &address]);
    // Three of four files, beside 64 of the daemon, are for connections, one each. Of these one
    // program has three of four at most.
    let is_full = |status: &Value| {
        let node = &status["node"];
        node["run"]["connections"] == (FILES - 64) * 3 / 4 * 3 / 4
            && node["limits_hit"]["run_share_full"].as_u64() > Some(0)
    };
    cluster
        .wait_status(0, "it is full", is_full)
        .expect("status");
    // Another program, also of the same user, finds something still.
    let to = socket_address(cluster.address(1), 8080);
    let mut other = under_run(&cluster, 0, &["socat", "-", &format!("TCP:{to}")]);
    let mut input = other.take_stdin().expect("is piped");
    input.write_all(b"hello").expect("can be written");
    drop(input);
    let said = other.output(PATIENCE).expect("ends");
    assert_eq!(text(&said.stdout), "hello");
    drop(client);
    let is_empty = |status: &Value| status["node"]["run"]["connections"] == 0;
    cluster
        .wait_status(0, "it is empty", is_empty)
        .expect("status");
}

#[test]
fn without_descriptors_connections_of_programs_are_turned_away() {
    let cluster = cluster();
    let pid = cluster.daemon(1).expect("runs").id();
    let echo = under_run(
        &cluster,
        1,
        &["socat", "TCP-LISTEN:8080,fork,reuseaddr", "EXEC:cat"],
    );
    let listens = |status: &Value| status["node"]["run"]["ports"] == 1;
    cluster
        .wait_status(1, "it listens", listens)
        .expect("status");
    exhaust(pid);
    // A plain program finds the node's own listener.
    let to = socket_address(cluster.lab().address(1, 0), 8080);
    let mut plain = cluster.lab().command(0, "socat");
    plain.args(["-u", &format!("TCP:{to}"), "-"]);
    let turned_away = output("socat", plain, PATIENCE).expect("ends");
    assert!(turned_away.stdout.is_empty());
    limit_files(pid, "1024");
    let status = cluster.status(1).expect("status");
    assert_eq!(status["node"]["limits_hit"]["run_descriptors_full"], 1);
    let to = socket_address(cluster.address(1), 8080);
    let mut client = under_run(&cluster, 0, &["socat", "-", &format!("TCP:{to}")]);
    let mut input = client.take_stdin().expect("is piped");
    input.write_all(b"hello").expect("can be written");
    drop(input);
    let said = client.output(PATIENCE).expect("ends");
    assert_eq!(text(&said.stdout), "hello");
    drop(echo);
}

/// What stays outside of a program's namespace, and makes the sockets by which it leaves.
fn finder_of(program: u32) -> u32 {
    let name = format!("tabane: finder of {program}");
    let processes = fs::read_dir("/proc").expect("is there").flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_it = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text(&words).trim_end_matches('\0') == name
    };
    pids.find(is_it).expect("is beside it")
}

/// Who can open no more files can connect nowhere, and does again when that is over.
#[test]
fn a_program_whose_user_has_no_descriptors_left_is_served_again() {
    let cluster = cluster();
    let mut server = cluster.lab().command(1, "socat");
    server.args(["TCP-LISTEN:8080,fork,reuseaddr", "EXEC:cat"]);
    let mut server = Program::start("socat", server).expect("starts");
    server.listens(8080).expect("listens");
    let connects = "\
import socket, sys
print('ready', flush=True)
for line in sys.stdin:
    s = socket.socket()
    s.settimeout(2)
    try:
        s.connect((sys.argv[1], 8080))
        print('connected', flush=True)
    except TimeoutError:
        print('waits', flush=True)
    s.close()
";
    let address = cluster.address(1).to_string();
    let mut client = cluster.run(0, "python3");
    client.args(["-c", connects, &address]);
    let mut client = Dialogue::start("client", client).expect("starts");
    let finder = finder_of(client.id());
    exhaust(finder);
    // Some sockets are ready still.
    eventually("no socket is left", || {
        client.tell("connect").expect("hears");
        client.says("").expect("tries") == "waits\n"
    });
    limit_files(finder, "1024");
    eventually("there are some again", || {
        client.tell("connect").expect("hears");
        client.says("").expect("tries") == "connected\n"
    });
}
