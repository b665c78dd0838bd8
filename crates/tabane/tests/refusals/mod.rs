//! A cluster whose daemon's system calls are refused, and what must not come of it.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tabane_lab::cluster::{
    Cluster, ClusterConfig, Dialogue, PATIENCE, Program, all_paths_up, output,
};

use crate::common::*;

/// A call that is refused.
pub struct Refusal {
    /// As strace(1) calls it.
    pub call: &'static str,
    /// Why, as errno(3) calls it; those that it has in life first.
    pub errors: &'static [&'static str],
    of: Of,
    /// Whether it is made, however idle the node is.
    is_made: bool,
    /// How often it may be tried in a second at most.
    tries_max: u32,
    /// What the log tells, some things no more than once a minute.
    told: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Daemon,
    Keeper,
}

/// What looks, begins and ends something. Of what is ready and cannot be taken, two listeners, each is tried after
/// 16 ms again, some by two calls.
const SELDOM: u32 = 300;
/// What packets and events need: tried after a millisecond again, for each link.
const OFTEN: u32 = 4000;

const ALL: &[&str] = &["ENOMEM", "ENOBUFS", "EMFILE", "EPERM"];
const BUFFERS: &[&str] = &["ENOBUFS", "ENOMEM", "EPERM", "EMFILE"];
const FILES: &[&str] = &["EMFILE", "ENOMEM", "ENOBUFS", "EPERM"];

const fn asked(call: &'static str, errors: &'static [&'static str]) -> Refusal {
    Refusal {
        call,
        errors,
        of: Of::Daemon,
        is_made: true,
        tries_max: SELDOM,
        told: "",
    }
}

const fn told(told: &'static str, refusal: Refusal) -> Refusal {
    Refusal { told, ..refusal }
}

const fn carries(refusal: Refusal) -> Refusal {
    Refusal {
        tries_max: OFTEN,
        ..refusal
    }
}

const fn perhaps(refusal: Refusal) -> Refusal {
    Refusal {
        is_made: false,
        ..refusal
    }
}

const fn keepers(refusal: Refusal) -> Refusal {
    Refusal {
        of: Of::Keeper,
        ..refusal
    }
}

/// Devices, sockets, clients, programs.
pub const ASKED: &[Refusal] = &[
    told(BLIND, asked("socket", FILES)),
    told("control socket: ", asked("accept4", ALL)),
    told("control socket: ", asked("epoll_ctl", ALL)),
    told(BLIND, asked("bind", ALL)),
    asked("setsockopt", ALL),
    asked("getsockopt", BUFFERS),
    asked("openat", FILES),
    perhaps(asked("ioctl", ALL)),
    asked("fcntl", FILES),
    perhaps(asked("clone3", ALL)),
    perhaps(asked("getsockname", BUFFERS)),
    perhaps(asked("listen", ALL)),
    perhaps(asked("statx", ALL)),
];

/// What the log tells of devices that could not be listed, and that they could be again.
const BLIND: &str = "the kernel does not tell this host's devices";
const SEES: &str = "the kernel tells this host's devices again";

/// Packets, frames, and the wait for them.
pub const CARRIED: &[Refusal] = &[
    told(
        "does not tell of events",
        carries(asked("epoll_pwait2", ALL)),
    ),
    told(BLIND, carries(asked("sendto", BUFFERS))),
    carries(asked("sendmsg", BUFFERS)),
    told(BLIND, carries(asked("recvfrom", BUFFERS))),
    carries(asked("recvmsg", ALL)),
    carries(asked("recvmmsg", ALL)),
    carries(asked("write", BUFFERS)),
    carries(perhaps(asked("writev", BUFFERS))),
    carries(asked("read", ALL)),
    perhaps(asked("timer_settime", ALL)),
    perhaps(asked("madvise", ALL)),
];

/// Routes, endpoints, limits, and the way to the daemon.
pub const OF_THE_KEEPER: &[Refusal] = &[
    keepers(asked("sendto", BUFFERS)),
    keepers(asked("recvfrom", BUFFERS)),
    keepers(asked("setsockopt", ALL)),
    keepers(asked("socket", FILES)),
    keepers(asked("read", ALL)),
    keepers(perhaps(asked("bind", ALL))),
    keepers(perhaps(asked("openat", FILES))),
];

/// Says lines back. It is told what it hears within its patience or that it heard nothing.
const SPEAKS: &str = "\
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
print('ready', flush=True)
for line in sys.stdin:
    try:
        s.sendall(line.encode())
        print(s.recv(100).decode().strip() or 'closed', flush=True)
    except OSError as error:
        print(error, flush=True)
";

const PORT: u16 = 8080;
const PORT_OF_RUN: u16 = 8081;
/// What the log may tell of one refusal, beside what it tells of the events.
const LINES_MAX: usize = 50;
/// In so long, something is tried several times.
const SOME_TRIES: Duration = Duration::from_secs(2);
/// How long each of four events lasts: all together longer than a second, after which the daemon looks at many
/// things again.
const MOMENT: Duration = Duration::from_millis(300);

/// What must stay as it is on node 0.
#[derive(PartialEq, Eq, Debug)]
struct Scene {
    nic: String,
    endpoints: BTreeSet<String>,
    routes: BTreeSet<String>,
    rules: BTreeSet<String>,
}

/// Two nodes that steer Multipath TCP; over `tab0` and under `tabane run` a connection each.
pub struct Stage {
    connections: Vec<Dialogue>,
    _servers: Vec<Program>,
    cluster: Cluster,
    scene: Scene,
    /// The link that is to fail: each in turn, as one that returns often waits ever longer.
    link: usize,
}

impl Stage {
    pub fn set() -> Stage {
        let config = ClusterConfig {
            mptcp: true,
            ..ClusterConfig::default()
        };
        let lab = lab(&tabane_lab::LabConfig::default());
        let cluster = Cluster::up(lab, tabane(), config).expect("the cluster comes up");
        cluster.wait_steered().expect("is steered");
        let echo = |port| format!("TCP-LISTEN:{port},fork,reuseaddr");
        let mut plain = cluster.lab().command(1, "socat");
        plain.args([&echo(PORT), "EXEC:cat"]);
        let mut plain = Program::start_quiet("socat", plain).expect("starts");
        plain.listens(PORT).expect("listens");
        let mut run = cluster.run(1, "socat");
        run.args([&echo(PORT_OF_RUN), "EXEC:cat"]);
        let mut run = Program::start_quiet("socat", run).expect("starts");
        cluster
            .run_listens(1, &mut run, PORT_OF_RUN)
            .expect("listens");
        let speaks = |mut python: Command, port: u16| {
            let (host, port) = (cluster.address(1).to_string(), port.to_string());
            python.args(["-c", SPEAKS, &host, &port]);
            Dialogue::start("python3", python).expect("connects")
        };
        let connections = vec![
            speaks(cluster.lab().command(0, "python3"), PORT),
            speaks(cluster.run(0, "python3"), PORT_OF_RUN),
        ];
        Stage {
            connections,
            _servers: vec![plain, run],
            scene: scene(&cluster),
            link: 1,
            cluster,
        }
    }

    /// Has the kernel refuse a call while much happens; then all is as it was.
    pub fn refuse(&mut self, refusal: &Refusal, error: &str) {
        let name = format!("{} {error}", refusal.call);
        let log_before = self.cluster.log(0).len();
        let injection = Injection::begin(&self.cluster, refusal, error);
        events(&self.cluster, self.link);
        self.link = 1 - self.link;
        let tried = injection.end();
        let log = &self.cluster.log(0)[log_before..];
        assert!(tried.count > 0 || !refusal.is_made, "{name}: is not made");
        let most = f64::from(refusal.tries_max) * tried.time.as_secs_f64();
        assert!(
            f64::from(tried.count) <= most,
            "{name}: tried {} times in {:?}; the log:\n{log}",
            tried.count,
            tried.time
        );
        assert!(log.lines().count() < LINES_MAX, "{name}: the log:\n{log}");
        let log = self.cluster.log(0);
        assert!(log.contains(refusal.told), "{name} is not told:\n{log}");
        self.is_as_before(&name);
    }

    /// Has the kernel refuse a call of the daemon while something is struck that cannot be mended without, until
    /// the log tells so; then it is mended.
    pub fn strike(&self, (call, error): (&'static str, &str), words: &str, told: &str) {
        let injection = Injection::begin(&self.cluster, &asked(call, ALL), error);
        said(&self.cluster, 0, words);
        eventually(told, || self.cluster.log(0).contains(told));
        // Others are told no more.
        thread::sleep(SOME_TRIES);
        injection.end();
        eventually("steering is as it was", || {
            let scene = scene(&self.cluster);
            (scene.endpoints, scene.routes)
                == (self.scene.endpoints.clone(), self.scene.routes.clone())
        });
        eventually("a ping is answered", || {
            pings(&self.cluster, 0, 1, 1, 56) == 1
        });
        let log = self.cluster.log(0);
        assert_eq!(log.matches(told).count(), 1, "told once:\n{log}");
    }

    /// The process that steers for node 0.
    pub fn keeper(&self) -> u32 {
        keeper_of(&self.cluster, 0)
    }

    fn is_as_before(&mut self, name: &str) {
        let cluster = &self.cluster;
        let explained = |what: &str| format!("{name}: {what}; the log:\n{}", cluster.log(0));
        // What was not seen meanwhile is seen now.
        let last = |words| cluster.log(0).rfind(words);
        eventually(&explained("it sees again"), || last(SEES) >= last(BLIND));
        for node in 0..2 {
            cluster
                .wait_status(node, &explained("all paths are up"), all_paths_up)
                .expect("status");
        }
        assert_eq!(
            said(cluster, 0, NIC_NUMBER),
            self.scene.nic,
            "{}",
            explained("another tab0")
        );
        eventually(&explained("all is as it was"), || {
            scene(cluster) == self.scene
        });
        eventually(&explained("a ping is answered"), || {
            pings(cluster, 0, 1, 1, 56) == 1
        });
        for connection in &mut self.connections {
            connection.tell(name).expect("hears");
            let heard = connection.says("").expect("says");
            assert_eq!(
                heard.trim(),
                name,
                "a connection is broken: {}",
                cluster.log(0)
            );
        }
    }
}

const NIC_NUMBER: &str = "cat /sys/class/net/tab0/ifindex";

fn scene(cluster: &Cluster) -> Scene {
    // It may be gone for a moment.
    let mut cat = cluster.lab().command(0, "sh");
    cat.args(["-c", NIC_NUMBER]);
    let nic = output("sh", cat, PATIENCE).expect("ends");
    let lines = |words| said(cluster, 0, words).lines().map(str::to_owned).collect();
    Scene {
        nic: text(&nic.stdout),
        endpoints: lines("ip mptcp endpoint show"),
        routes: lines("ip route show proto 77"),
        rules: lines("ip rule"),
    }
}

/// A link fails and returns, its address goes and comes, a program and a client come. What these are told is
/// their own affair.
fn events(cluster: &Cluster, link: usize) {
    let mut status = cluster.tabane(0);
    status.args(["status", "--json"]);
    let _client = Program::start_quiet("tabane status", status).expect("starts");
    let mut program = cluster.run(0, "socat");
    program.args(["TCP-LISTEN:8082", "-"]);
    let _program = Program::start_quiet("socat", program).expect("starts");
    let mut ping = cluster.lab().command(0, "ping");
    ping.args(["-n", "-i", "0.05", &cluster.address(1).to_string()]);
    let _ping = Program::start_quiet("ping", ping).expect("starts");
    let device = format!("eth{link}");
    let address = format!("{}/24", cluster.lab().address(0, link));
    for change in [
        ["link", "set", &device, "down"],
        ["link", "set", &device, "up"],
    ] {
        cluster.lab().ip(0, &change).expect("is set");
        thread::sleep(MOMENT);
    }
    for action in ["del", "add"] {
        let change = ["address", action, &address, "dev", &device];
        cluster.lab().ip(0, &change).expect("is changed");
        thread::sleep(MOMENT);
    }
}

/// `strace` at a process.
struct Injection {
    strace: Program,
    told: PathBuf,
    begun: Instant,
}

struct Tried {
    count: u32,
    time: Duration,
}

impl Injection {
    fn begin(cluster: &Cluster, refusal: &Refusal, error: &str) -> Injection {
        let pid = match refusal.of {
            Of::Daemon => cluster.daemon(0).expect("runs").id(),
            Of::Keeper => keeper_of(cluster, 0),
        };
        let told = cluster.directory().join("strace");
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-e", "signal=none", "-o"])
            .arg(&told);
        strace.args(["-e", &format!("trace={}", refusal.call)]);
        strace.args(["-e", &format!("inject={}:error={error}", refusal.call)]);
        strace.args(["-p", &pid.to_string()]);
        strace.stdin(Stdio::null());
        let strace = Program::start("strace", strace).expect("starts");
        eventually("strace is at the daemon", || is_traced(pid));
        Injection {
            strace,
            told,
            begun: Instant::now(),
        }
    }

    fn end(mut self) -> Tried {
        self.strace.terminate().expect("is there");
        let _ = self.strace.wait(PATIENCE).expect("ends");
        let told = fs::read_to_string(&self.told).expect("can be read");
        let refused = told.lines().filter(|line| line.contains("(INJECTED)"));
        Tried {
            count: u32::try_from(refused.count()).expect("is small"),
            time: self.begun.elapsed(),
        }
    }
}

fn is_traced(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("lives");
    tasks.flatten().all(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let mut lines = status.lines();
        lines.any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    })
}
