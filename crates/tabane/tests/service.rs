//! The daemon under a service manager, which this test plays: it listens at
//! `NOTIFY_SOCKET` as systemd does (sd_notify(3)).

mod common;

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use common::*;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, output};

/// What the daemon tells next.
fn told(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = manager.recv(&mut buffer).expect("the daemon tells");
    text(&buffer[..length])
}

#[test]
fn the_manager_is_told_of_the_start_every_interval_and_the_end() {
    const SIGSTOP: i32 = 19;
    const SIGCONT: i32 = 18;
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    let socket = cluster.directory().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("is bound");
    manager.set_read_timeout(Some(PATIENCE)).expect("is set");

    let mut up = up_behind(&cluster, 0, &[]);
    up.env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "100000");
    cluster.start_as(0, up).expect("starts");
    assert_eq!(told(&manager), "READY=1");
    for _ in 0..3 {
        assert_eq!(told(&manager), "WATCHDOG=1");
    }

    // A loop that does not turn says nothing; so systemd would restart it.
    cluster
        .daemon(0)
        .expect("runs")
        .signal(SIGSTOP)
        .expect("stops");
    eventually("it is stopped", || is_stopped(&cluster));
    manager.set_nonblocking(true).expect("is set");
    while manager.recv(&mut [0; 64]).is_ok() {}
    manager.set_nonblocking(false).expect("is set");
    cluster
        .daemon(0)
        .expect("runs")
        .signal(SIGCONT)
        .expect("goes on");
    assert_eq!(told(&manager), "WATCHDOG=1");

    assert!(cluster.stop(0).expect("ends").success());
    let last = std::iter::repeat_with(|| told(&manager)).find(|said| said != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
}

/// Its queue may be full: what it is to know is told again, long before the next time is due.
#[test]
fn a_manager_that_does_not_listen_for_a_while_is_told_again() {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    let socket = cluster.directory().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("is bound");
    let others = UnixDatagram::unbound().expect("is made");
    others.set_nonblocking(true).expect("is set");
    while others.send_to(b"FROM=others", &socket).is_ok() {}

    let mut up = up_behind(&cluster, 0, &[]);
    let hour_us = "3600000000";
    up.env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", hour_us);
    cluster.start_as(0, up).expect("starts");
    let why = "cannot notify the service manager";
    eventually("it is not heard", || cluster.log(0).contains(why));
    manager.set_read_timeout(Some(PATIENCE)).expect("is set");
    let mut words = std::iter::repeat_with(|| told(&manager)).filter(|said| said != "FROM=others");
    assert_eq!(words.next().as_deref(), Some("READY=1"));
    assert_eq!(words.next().as_deref(), Some("WATCHDOG=1"));
}

#[test]
fn after_a_crash_it_starts_again_with_the_privileges_of_its_unit() {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    let up = |cluster: &Cluster| {
        let mut up = as_the_unit(cluster);
        up.arg("up").arg("--config").arg(cluster.file());
        up
    };
    cluster.start(1).expect("starts");
    cluster.start_as(0, up(&cluster)).expect("starts");
    cluster.kill(0).expect("is killed");
    cluster
        .start_as(0, up(&cluster))
        .expect("starts after a crash");
    eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);
    assert!(cluster.stop(0).expect("ends").success());
    let mut ip = cluster.lab().command(0, "ip");
    ip.args(["-brief", "link", "show"]);
    let left = text(&output("ip", ip, PATIENCE).expect("ip ends").stdout);
    assert!(!left.contains("tab0"), "{left}");
}

#[test]
fn its_unit_has_it_read_its_file_anew() {
    let unit = include_str!("../../../dist/systemd/tabane.service");
    let words = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key));
        line.expect("the unit says it").split(' ')
    };
    let (mut start, mut reload) = (words("ExecStart="), words("ExecReload="));
    assert_eq!(start.next(), reload.next(), "the same program");

    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    let mut up = as_the_unit(&cluster);
    up.args(start).arg("--config").arg(cluster.file());
    cluster.start_as(0, up).expect("starts");
    let run = |cluster: &Cluster| {
        let mut command = as_the_unit(cluster);
        command.args(reload.clone());
        output("tabane", command, PATIENCE).expect("ends").status
    };
    let file = cluster.file();
    let text = std::fs::read_to_string(&file).expect("is read");
    let more = format!("{text}[[node]]\nname = \"n2\"\nlinks = [\"10.77.0.3\", \"10.77.1.3\"]\n");
    std::fs::write(&file, more).expect("is written");
    assert!(run(&cluster).success());
    let peers = |cluster: &Cluster| {
        let status = cluster.status(0).expect("the daemon answers");
        status["peers"].as_array().map(Vec::len)
    };
    assert_eq!(peers(&cluster), Some(2));

    std::fs::write(&file, "wire = \"plane\"\n").expect("is written");
    assert!(!run(&cluster).success(), "the manager is told");
    assert_eq!(peers(&cluster), Some(2));
}

/// The program with the privileges that its unit leaves it.
fn as_the_unit(cluster: &Cluster) -> Command {
    let mut command = cluster.lab().command(0, "setpriv");
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"]);
    command.arg(tabane());
    command
}

fn is_stopped(cluster: &Cluster) -> bool {
    let pid = cluster.daemon(0).expect("runs").id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("is there");
    // PID (NAME) STATE …; the name may hold anything, but is followed by the last bracket.
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('T'))
}
