//! The daemon under a service manager, which this test plays: it listens at
//! `NOTIFY_SOCKET` as systemd does (sd_notify(3)).

mod common;

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use common::*;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, output};
use tabane_lab::{Fault, LabConfig};

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

/// What `/proc` says of each thread of node 0's daemon under this key.
fn of_each_thread(cluster: &Cluster, key: &str) -> Vec<String> {
    let pid = cluster.daemon(0).expect("runs").id();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it has threads");
    let of_thread = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.expect("is read").path().join("status");
        let status = std::fs::read_to_string(path).expect("is read");
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.expect("is told").trim().to_owned()
    };
    tasks.map(of_thread).collect()
}

/// The four capabilities of its unit.
const KEPT: u64 = 1 << 2 | 1 << 10 | 1 << 12 | 1 << 13;

fn is_bare(cluster: &Cluster) {
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        for bits in of_each_thread(cluster, set) {
            let bits = u64::from_str_radix(&bits, 16).expect("a number");
            assert_eq!(bits & !KEPT, 0, "{set} {bits:x}");
        }
    }
    assert!(
        of_each_thread(cluster, "NoNewPrivs:")
            .iter()
            .all(|it| it == "1")
    );
}

/// With threads for metrics and for Multipath TCP.
#[test]
fn however_it_is_started_it_has_no_more_privileges_than_its_unit() {
    let lab = lab(&LabConfig::default());
    let config = ClusterConfig::default();
    let mut cluster = Cluster::new(lab, tabane(), config).expect("is written");
    let text = std::fs::read_to_string(cluster.file()).expect("is read");
    std::fs::write(
        cluster.file(),
        format!("metrics = 9577\nmptcp = true\n{text}"),
    )
    .expect("is written");
    cluster.start(0).expect("starts");
    cluster.start(1).expect("starts");
    eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);
    assert!(of_each_thread(&cluster, "Name:").len() > 1);
    is_bare(&cluster);
}

/// Only root can become somebody else, and have a machine for itself on which there is this user.
#[test]
fn roots_daemon_becomes_its_own_user_if_there_is_one() {
    if tabane_io::credentials::own_uid() != 0 {
        return;
    }
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    let file = std::fs::read_to_string(cluster.file()).expect("is read");
    std::fs::write(cluster.file(), format!("mptcp = true\n{file}")).expect("is written");
    let users = cluster.directory().join("passwd");
    let known = std::fs::read_to_string("/etc/passwd").expect("is read");
    std::fs::write(&users, format!("{known}tabane:x:4711:4712::/:/bin/false\n"))
        .expect("is written");
    let alone = format!(
        "mount --bind {} /etc/passwd && exec \"$@\"",
        users.display()
    );
    let words = ["unshare", "--mount", "sh", "-c", &alone, "sh"];
    let up = up_behind(&cluster, 0, &words);
    cluster.start_as(0, up).expect("starts");
    cluster.start(1).expect("starts");
    eventually("pings are answered", || pings(&cluster, 0, 1, 3, 56) == 3);
    is_bare(&cluster);
    for (key, id) in [("Uid:", "4711"), ("Gid:", "4712")] {
        let told = of_each_thread(&cluster, key);
        let is_its = |ids: &String| ids.split_whitespace().all(|it| it == id);
        assert!(told.iter().all(is_its), "{told:?}");
    }
    assert!(
        of_each_thread(&cluster, "Groups:")
            .iter()
            .all(String::is_empty)
    );
    assert!(cluster.log(0).contains("goes on as user 4711"));

    // So does the program that it has left to put back what it changes of the kernel's settings.
    let pid = cluster.daemon(0).expect("runs").id();
    let children =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("is read");
    let keeper =
        std::fs::read_to_string(format!("/proc/{}/status", children.trim())).expect("it is there");
    let of_keeper = |key: &str| keeper.lines().find_map(|line| line.strip_prefix(key));
    assert_eq!(
        of_keeper("Uid:\t"),
        Some("4711\t4711\t4711\t4711"),
        "{keeper}"
    );
    assert_eq!(of_keeper("CapEff:\t"), Some("0000000000003404"), "{keeper}");

    // It makes its device anew, and reads a file that is root's alone.
    let mut ip = cluster.lab().command(0, "ip");
    ip.args(["link", "delete", "tab0"]);
    assert!(
        output("ip", ip, PATIENCE)
            .expect("ip ends")
            .status
            .success()
    );
    eventually("pings are answered again", || {
        pings(&cluster, 0, 1, 3, 56) == 3
    });
    let mut reload = cluster.lab().command(0, tabane());
    reload.arg("reload");
    let reload = output("tabane", reload, PATIENCE).expect("ends");
    assert!(reload.status.success(), "{}", text(&reload.stderr));
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

/// Has a program take its standard error for the journal.
const AS_SERVICE: &str = "export JOURNAL_STREAM=$(stat -Lc %d:%i /proc/$$/fd/2); exec \"$@\"";

/// As the journal reads it: the number goes, and `journalctl --priority` knows the line by it.
#[test]
fn lines_for_the_journal_say_how_much_they_matter() {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    let is_journal = ["sh", "-c", AS_SERVICE, "sh"];
    let up = up_behind(&cluster, 0, &is_journal);
    cluster.start_as(0, up).expect("starts");
    // What a child inherits is not the journal's if it writes elsewhere.
    let up = up_behind(&cluster, 1, &["env", "JOURNAL_STREAM=1:1"]);
    cluster.start_as(1, up).expect("starts");
    wait_path(&cluster, 0, "up");
    cluster.lab().fail(1, Fault::Carrier, None).expect("fails");
    eventually("the failure is told", || {
        [0, 1]
            .iter()
            .all(|node| cluster.log(*node).contains("redundancy lost"))
    });
    let log = cluster.log(0);
    for line in log.lines() {
        let is_warning = ["failed:", "redundancy lost", "warning:"];
        let is_warning = is_warning.iter().any(|word| line.contains(word));
        assert_eq!(line.starts_with("<4>"), is_warning, "{log}");
        assert!(line.starts_with("<4>") || line.starts_with("<6>"), "{log}");
    }
    assert!(cluster.log(1).lines().all(|line| line.starts_with("20")));
}

/// What keeps a service from starting is what somebody has to act on.
#[test]
fn a_refused_file_is_a_warning_in_the_journal() {
    let lab = lab(&LabConfig::default());
    let cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    let right = std::fs::read_to_string(cluster.file()).expect("is read");
    let wrong = format!("prot = 1\nwrie = 2\n{right}");
    std::fs::write(cluster.file(), wrong).expect("is written");
    let mut up = Command::new("sh");
    up.args(["-c", AS_SERVICE, "sh"]).arg(tabane());
    up.arg("up").arg("--config").arg(cluster.file());
    let ended = output("tabane", up, PATIENCE).expect("it ends");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.lines().count() >= 2, "{said}");
    assert!(said.lines().all(|line| line.starts_with("<4>")), "{said}");
}
