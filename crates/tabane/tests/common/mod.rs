//! What the tests of the running daemon share. They drive the program as a
//! user does, in labs of their own, and wait without asserting how long it took.
#![allow(dead_code, missing_docs, reason = "each test binary uses its part")]

pub mod outside;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tabane_lab::cluster::{
    Cluster, ClusterConfig, PATIENCE, Program, all_paths_up, output, path_state, socket_address,
};
use tabane_lab::{Fault, Lab, LabConfig, LinkSpec};

/// Every kind of failure of one of two links: of which, and at which node only.
pub const FAILURES: [(usize, Fault, Option<usize>); 6] = [
    (0, Fault::Silent, None),
    (1, Fault::Silent, None),
    (0, Fault::Carrier, None),
    (1, Fault::OneWay, Some(0)),
    (0, Fault::OneWay, Some(1)),
    (1, Fault::Carrier, Some(1)),
];

pub fn tabane() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tabane"))
}

/// Two nodes on two links, everything up.
pub fn cluster() -> Cluster {
    cluster_on(&LabConfig::default())
}

pub fn cluster_on(config: &LabConfig) -> Cluster {
    Cluster::up(lab(config), tabane(), ClusterConfig::default()).expect("the cluster comes up")
}

/// The kinds of device that can be made here.
pub fn backends() -> Vec<&'static str> {
    let tun = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    match tun {
        Ok(_) => vec!["packet", "tap"],
        Err(_) => vec!["packet"],
    }
}

pub fn lab(config: &LabConfig) -> Lab {
    Lab::up(config).expect("the lab comes up")
}

/// Nodes of such a lab, everything up, with a cluster file that this has changed.
pub fn cluster_with(config: &LabConfig, change: impl FnOnce(String) -> String) -> Cluster {
    let mut cluster =
        Cluster::new(lab(config), tabane(), ClusterConfig::default()).expect("a file");
    let file = std::fs::read_to_string(cluster.file()).expect("is there");
    std::fs::write(cluster.file(), change(file)).expect("can be written");
    let nodes = 0..cluster.lab().nodes();
    for node in nodes.clone() {
        cluster.start(node).expect("starts");
    }
    for node in nodes {
        cluster
            .wait_status(node, "all paths are up", all_paths_up)
            .expect("status");
    }
    cluster
}

/// Two nodes on two links with IPv6 only, everything up.
pub fn cluster_of_ipv6(config: ClusterConfig) -> Cluster {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), config).expect("a file");
    let mut file = std::fs::read_to_string(cluster.file()).expect("is there");
    for (node, host) in [(0, 1), (1, 2)] {
        let vnic = format!("{}/24", cluster.address(node));
        file = file.replace(&vnic, &format!("{VNIC_V6}{host}/64"));
        for link in [0, 1] {
            let (old, address) = (cluster.lab().address(node, link), link_v6(link, host));
            file = file.replace(&format!("\"{old}\""), &format!("\"{address}\""));
            let (address, device) = (format!("{address}/64"), format!("eth{link}"));
            let add = ["address", "add", &address, "nodad", "dev", &device];
            cluster.lab().ip(node, &add).expect("is added");
        }
    }
    std::fs::write(cluster.file(), file).expect("can be written");
    for node in [0, 1] {
        cluster.start(node).expect("starts");
    }
    for link in [0, 1] {
        wait_path(&cluster, link, "up");
    }
    cluster
}

/// Where the virtual NICs of [`cluster_of_ipv6`] are.
pub const VNIC_V6: &str = "fd99::";

/// The address of its first or second node on a link; they count from 1 there.
pub fn link_v6(link: usize, host: usize) -> String {
    format!("fd77:{}::{host}", link + 1)
}

/// A program on a node, started by another one with these words, if there are any.
pub fn behind(cluster: &Cluster, node: usize, words: &[&str], program: &str) -> Command {
    let words = [words, &[program]].concat();
    let mut command = cluster.lab().command(node, words[0]);
    command.args(&words[1..]);
    command
}

/// The same for `tabane` with a command of its own and the cluster file.
pub fn tabane_behind(cluster: &Cluster, node: usize, words: &[&str], own: &str) -> Command {
    let mut command = behind(cluster, node, words, env!("CARGO_BIN_EXE_tabane"));
    command.arg(own).arg("--config").arg(cluster.file());
    command
}

/// `tabane up` on a node, started as [`behind`] says.
pub fn up_behind(cluster: &Cluster, node: usize, words: &[&str]) -> Command {
    tabane_behind(cluster, node, words, "up")
}

/// Starts it, and waits until all its paths are up.
pub fn start_behind(cluster: &mut Cluster, node: usize, words: &[&str]) {
    let up = up_behind(cluster, node, words);
    cluster.start_as(node, up).expect("starts");
    cluster
        .wait_status(node, "all paths are up", all_paths_up)
        .expect("status");
}

/// Slow enough that a transfer lasts while things happen to it.
pub fn slow_links() -> LabConfig {
    LabConfig {
        links: vec![LinkSpec::mbit(200); 2],
        ..LabConfig::default()
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// How many of `count` pings of `size` bytes, from node to node over `tab0`,
/// are answered within ten seconds. All are sent at once: as soon as one is answered,
/// `ping` waits no longer than `-i` for what is missing, whatever `-W` says.
pub fn pings(cluster: &Cluster, from: usize, to: usize, count: usize, size: usize) -> usize {
    let mut ping = cluster.lab().command(from, "ping");
    let (count, size) = (count.to_string(), size.to_string());
    ping.args(["-n", "-l", &count, "-i", "10", "-W", "10"]);
    ping.args(["-c", &count, "-s", &size]);
    ping.arg(cluster.address(to).to_string());
    let said = text(&output("ping", ping, PATIENCE).expect("ping ends").stdout);
    said.lines()
        .filter(|line| line.contains("bytes from"))
        .count()
}

/// `redis-server` on node 1, as long as this lives, and `redis-benchmark` on node 0, to be started.
pub fn redis(cluster: &Cluster, args: &[&str]) -> (Program, Command) {
    const PORT: u16 = 6379;
    let (address, port) = (cluster.address(1).to_string(), PORT.to_string());
    let mut server = cluster.lab().command(1, "redis-server");
    server.args(["--bind", &address, "--port", &port, "--save", "", "--dir"]);
    server
        .arg(cluster.directory())
        .args(["--protected-mode", "no"]);
    let mut server = Program::start_quiet("redis-server", server).expect("redis starts");
    server.listens(PORT).expect("redis listens");
    let mut benchmark = cluster.lab().command(0, "redis-benchmark");
    benchmark.args(["-h", &address, "-p", &port, "-q", "--csv", "-t", "set,get"]);
    benchmark.args(args);
    (server, benchmark)
}

/// One transfer by iperf3 from node 0 to node 1; its report.
pub fn iperf(cluster: &Cluster, args: &[&str]) -> Value {
    iperf_to(cluster, &cluster.address(1).to_string(), args)
}

/// The same to another address of node 1.
pub fn iperf_to(cluster: &Cluster, address: &str, args: &[&str]) -> Value {
    // A server would take a datagram that the transfer before sent, and comes late, for its client's.
    static PORT: AtomicU16 = AtomicU16::new(5201);
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    let mut server = cluster.lab().command(1, "iperf3");
    server.args(["-s", "-1", "-p", &port.to_string()]);
    let mut server = Program::start_quiet("iperf3", server).expect("iperf3 starts");
    server.listens(port).expect("iperf3 listens");
    let mut client = cluster.lab().command(0, "iperf3");
    client.args(["--json", "-c", address, "-p", &port.to_string()]);
    let said = output(
        "iperf3",
        {
            client.args(args);
            client
        },
        PATIENCE,
    )
    .expect("iperf3 ends");
    let report: Value = serde_json::from_slice(&said.stdout).expect("iperf3 reports");
    assert_eq!(report.get("error"), None, "{report:#}");
    report
}

/// `ip address ACTION` with the address of node 0's link 1.
pub fn address(cluster: &Cluster, action: &str) {
    let address = format!("{}/24", cluster.lab().address(0, 1));
    let change = ["address", action, &address, "dev", "eth1"];
    cluster.lab().ip(0, &change).expect("is changed");
}

/// Wait until node 0 says this of its path to node 1 over a link.
pub fn wait_path(cluster: &Cluster, link: usize, state: &str) -> Value {
    let what = format!("link {link} is {state}");
    let is_so = |status: &Value| path_state(status, "n1", link) == Some(state);
    cluster.wait_status(0, &what, is_so).expect("status")
}

/// A program on a node, and what it prints.
pub fn said(cluster: &Cluster, node: usize, words: &str) -> String {
    let mut words = words.split(' ');
    let program = words.next().expect("a program");
    let mut command = cluster.lab().command(node, program);
    command.args(words);
    let done = output(program, command, PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout)
}

/// A program under `tabane run`, started by `run`, is as it is by itself, but for its network.
pub fn is_itself(cluster: &Cluster, run: impl Fn(&str) -> Command) {
    let ended = |mut command: Command| {
        command.stdin(Stdio::null());
        output("a program", command, PATIENCE).expect("ends")
    };
    let shell = |mut shell: Command, script: &str| {
        shell.args(["-c", script]).env("TABANE_TEST", "kept");
        ended(shell)
    };
    assert_eq!(shell(run("sh"), "exit 7").status.code(), Some(7));
    // A signal ends it as a signal.
    assert_eq!(shell(run("sh"), "kill -TERM $$").status.code(), None);
    let script = "pwd; id -u; echo $TABANE_TEST; exec ls /proc/self/fd";
    let plain = shell(cluster.lab().command(0, "sh"), script);
    let done = shell(run("sh"), script);
    assert_eq!(done.status.code(), Some(0));
    assert_eq!(text(&done.stdout), text(&plain.stdout));
    assert_eq!(text(&done.stderr), "");
    let missing = ended(run("no-such-program"));
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("no-such-program"));
    // One that is there and may not be run.
    let (file, path) = (cluster.file(), cluster.directory().display().to_string());
    for program in [file.display().to_string(), "cluster.toml".to_owned()] {
        let mut command = run(&program);
        command.env("PATH", &path);
        let done = ended(command);
        assert_eq!(done.status.code(), Some(126), "{}", text(&done.stderr));
    }
}

/// Where [`socat_pair`] listens.
pub const PORT: u16 = 5000;
const BLOCK_BYTES: usize = 64 * 1024;

/// One TCP connection through `tab0`: what is written to the first, on node 0, can be
/// read from the second, on node 1.
pub fn socat_pair(cluster: &Cluster) -> (Program, Program) {
    let mut receiver = cluster.lab().command(1, "socat");
    receiver.args(["-u", &format!("TCP-LISTEN:{PORT}"), "-"]);
    receiver.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut receiver = Program::start("socat", receiver).expect("socat starts");
    receiver.listens(PORT).expect("socat listens");
    let mut sender = cluster.lab().command(0, "socat");
    let to = socket_address(cluster.address(1), PORT);
    sender.args(["-u", "-", &format!("TCP:{to}")]);
    sender.stdin(Stdio::piped());
    let sender = Program::start("socat", sender).expect("socat starts");
    (sender, receiver)
}

/// Random bytes on their way from node 0 to node 1 over one TCP connection of
/// `socat` through `tab0`, each compared as it arrives.
pub struct Stream {
    stop: Arc<AtomicBool>,
    arrived: Arc<AtomicU64>,
    sender: Program,
    receiver: Program,
    write: JoinHandle<u64>,
    compare: JoinHandle<()>,
}

impl Stream {
    pub fn start(cluster: &Cluster) -> Stream {
        let (mut sender, mut receiver) = socat_pair(cluster);
        let stop = Arc::new(AtomicBool::new(false));
        let arrived = Arc::new(AtomicU64::new(0));
        let mut input = sender.take_stdin().expect("is a pipe");
        let mut end = receiver.take_stdout().expect("is a pipe");
        let (stopped, count) = (stop.clone(), arrived.clone());
        let write = move || {
            let (mut random, mut block) = (Random::new(), vec![0; BLOCK_BYTES]);
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                random.fill(&mut block);
                input.write_all(&block).expect("the connection lives");
                sent += block.len() as u64;
            }
            sent
        };
        let compare = move || {
            let (mut random, mut expected) = (Random::new(), vec![0; BLOCK_BYTES]);
            let mut block = vec![0; BLOCK_BYTES];
            while let length @ 1.. = read_block(&mut end, &mut block) {
                random.fill(&mut expected);
                let at = count.fetch_add(length as u64, Ordering::Relaxed);
                assert!(
                    block[..length] == expected[..length],
                    "wrong bytes after {at}"
                );
            }
        };
        let (write, compare) = (thread::spawn(write), thread::spawn(compare));
        Stream {
            stop,
            arrived,
            sender,
            receiver,
            write,
            compare,
        }
    }

    /// Wait until another `bytes` have arrived: it goes on.
    pub fn flows(&self, bytes: u64) {
        let wanted = self.arrived.load(Ordering::Relaxed) + bytes;
        eventually("the stream goes on", || {
            assert!(!self.compare.is_finished(), "the stream ended");
            self.arrived.load(Ordering::Relaxed) >= wanted
        });
    }

    /// End it: all that was sent arrived, and both programs end well.
    pub fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.write.join().expect("the sender was not broken off");
        assert!(self.sender.wait(PATIENCE).expect("ends").success());
        assert!(self.receiver.wait(PATIENCE).expect("ends").success());
        self.compare.join().expect("what arrived was right");
        assert_eq!(self.arrived.load(Ordering::Relaxed), sent);
    }
}

/// Reads until the block is full or the stream at its end.
fn read_block(from: &mut impl Read, block: &mut [u8]) -> usize {
    let mut filled = 0;
    while filled < block.len() {
        match from.read(&mut block[filled..]).expect("the pipe is read") {
            0 => break,
            length => filled += length,
        }
    }
    filled
}

/// Bytes without a pattern a lost or doubled piece could hide in
/// (Marsaglia, Xorshift RNGs, 2003).
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    pub fn fill(&mut self, block: &mut [u8]) {
        for word in block.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes()[..word.len()]);
        }
    }
}

/// The process that a daemon has started to steer, once there is one.
pub fn keeper_of(cluster: &Cluster, node: usize) -> u32 {
    let daemon = cluster.daemon(node).expect("runs").id().to_string();
    let is_keeper = |pid: &String| {
        let read =
            |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let stat = read("stat");
        // Behind the name, which may have anything in it: state and parent.
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split(' ').nth(2));
        parent == Some(&daemon) && read("cmdline").contains("\0keeper\0")
    };
    let mut found = None;
    eventually("there is a keeper", || {
        let all = std::fs::read_dir("/proc").expect("is there").flatten();
        let mut pids = all.map(|entry| text(entry.file_name().as_encoded_bytes()));
        found = pids.find(is_keeper);
        found.is_some()
    });
    found.and_then(|pid| pid.parse().ok()).expect("was found")
}
