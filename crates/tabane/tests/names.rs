//! The nodes' names in `/etc/hosts`: written, changed and taken away, also by daemons that are killed. Each node has an `/etc` of
//! its own here.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use common::*;
use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, output};

/// What the machine's owner has written.
const OWN: &str = "127.0.0.1\tlocalhost\n10.1.1.1 N1 other # no newline";

/// Not what a new file has.
const MODE: u32 = 0o604;

/// Where a node's `/etc` is.
fn etc(cluster: &Cluster, node: usize) -> PathBuf {
    cluster.directory().join(format!("etc-{node}"))
}

fn hosts(cluster: &Cluster, node: usize) -> String {
    fs::read_to_string(etc(cluster, node).join("hosts")).expect("is there")
}

/// Nodes that are not started, whose cluster file wants names, and whose hosts file has `text`.
fn idle(nodes: usize, text: &str) -> Cluster {
    let config = LabConfig {
        nodes,
        ..LabConfig::default()
    };
    let cluster = Cluster::new(lab(&config), tabane(), ClusterConfig::default()).expect("a file");
    want(&cluster, true);
    for node in 0..nodes {
        let etc = etc(&cluster, node);
        fs::create_dir(&etc).expect("is made");
        for name in ["passwd", "group"] {
            fs::copy(format!("/etc/{name}"), etc.join(name)).expect("is copied");
        }
        fs::write(etc.join("nsswitch.conf"), "hosts: files\n").expect("is written");
        let hosts = etc.join("hosts");
        fs::write(&hosts, text).expect("is written");
        fs::set_permissions(hosts, fs::Permissions::from_mode(MODE)).expect("is ours");
    }
    cluster
}

/// Whether the cluster file wants names.
fn want(cluster: &Cluster, names: bool) {
    let text = fs::read_to_string(cluster.file()).expect("is there");
    let text = text.replace("[vnic]\nhosts = true\n", "");
    let more = if names { "[vnic]\nhosts = true\n" } else { "" };
    fs::write(cluster.file(), format!("{text}{more}")).expect("is written");
}

/// Words in front of a program that give it the node's `/etc`, or something of it, by this script.
fn within(cluster: &Cluster, node: usize, script: &str) -> Vec<String> {
    let script = script.replace("ETC", &etc(cluster, node).display().to_string());
    let script = format!("{script} && exec \"$@\"");
    ["unshare", "-m", "sh", "-c", &script, "sh"]
        .map(str::to_owned)
        .into()
}

const WHOLE: &str = "mount --bind ETC /etc";

fn start(cluster: &mut Cluster, node: usize, script: &str) {
    let words = within(cluster, node, script);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let up = up_behind(cluster, node, &words);
    cluster.start_as(node, up).expect("starts");
}

fn said_within(cluster: &Cluster, node: usize, program: &[&str]) -> String {
    let words = within(cluster, node, WHOLE);
    let mut command = cluster.lab().command(node, &words[0]);
    command.args(&words[1..]).args(program);
    let done = output(program[0], command, PATIENCE).expect("ends");
    text(&done.stdout) + &text(&done.stderr)
}

fn wait_hosts(cluster: &Cluster, node: usize, what: &str, is_so: impl Fn(&str) -> bool) {
    eventually(&format!("{what}: {}", hosts(cluster, node)), || {
        is_so(&hosts(cluster, node))
    });
}

/// What a daemon writes, with these lines of names.
fn block(cluster: &Cluster, node: usize, begin: &str, lines: &[&str]) -> String {
    let file = cluster.file();
    let mark = format!("# tabane n{node} {}", file.display());
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!("{mark} begin{begin}\n{lines}{mark} end\n")
}

fn reload(cluster: &Cluster, node: usize) -> String {
    let mut reload = cluster.tabane(node);
    reload.arg("reload");
    let done = output("tabane reload", reload, PATIENCE).expect("ends");
    assert!(done.status.success(), "{}", text(&done.stderr));
    text(&done.stdout)
}

#[test]
fn names_are_there_as_long_as_the_daemon() {
    let mut cluster = idle(2, OWN);
    let (first, second) = (cluster.address(0), cluster.address(1));
    let own = format!("{first}\tn0 n0.tabane");
    let (long, both) = (
        format!("{second}\tn1.tabane"),
        format!("{second}\tn1 n1.tabane"),
    );
    let cut = ", behind a line without newline";
    let here = format!("{OWN}\n{}", block(&cluster, 0, cut, &[&own, &long]));
    for node in [0, 1] {
        start(&mut cluster, node, WHOLE);
    }
    wait_hosts(&cluster, 0, "names come", |text| text == here);
    let written = fs::metadata(etc(&cluster, 0).join("hosts")).expect("is there");
    assert_eq!(written.mode() & 0o777, MODE);
    let line = "/etc/hosts:2: n1 is 10.1.1.1 here, but";
    eventually("the owner's own line is told", || {
        cluster.log(0).contains(line)
    });
    cluster
        .wait_status(0, "all paths are up", tabane_lab::cluster::all_paths_up)
        .expect("status");
    let said = said_within(&cluster, 0, &["ping", "-c1", "-W10", "n1.tabane"]);
    assert!(
        said.contains(&format!("bytes from n1.tabane ({second})")),
        "{said}"
    );
    let file = cluster.file().display().to_string();
    let doctor = ["doctor", "--json", "--seconds", "1", "--config", &file];
    let doctor = [&[env!("CARGO_BIN_EXE_tabane")], &doctor[..]].concat();
    let doctor = || said_within(&cluster, 0, &doctor);
    let found = doctor();
    assert!(
        found.contains("/etc/hosts:2 says that n1 is 10.1.1.1"),
        "{found}"
    );

    // Somebody replaces the file.
    fs::write(etc(&cluster, 0).join("hosts"), "# mine\n").expect("is written");
    let found = doctor();
    assert!(
        found.contains("no line of /etc/hosts says that n1 is"),
        "{found}"
    );
    let whole = format!("# mine\n{}", block(&cluster, 0, "", &[&own, &both]));
    assert_eq!(reload(&cluster, 0), "nothing has changed\n");
    wait_hosts(&cluster, 0, "they are written again", |text| text == whole);

    want(&cluster, false);
    assert_eq!(
        reload(&cluster, 0),
        "the nodes' names are in /etc/hosts no more\n"
    );
    wait_hosts(&cluster, 0, "names go", |text| text == "# mine\n");
    want(&cluster, true);
    reload(&cluster, 0);
    wait_hosts(&cluster, 0, "names come again", |text| text == whole);

    assert!(cluster.stop(0).expect("ends").success());
    assert_eq!(hosts(&cluster, 0), "# mine\n");
    // The last line gets back what it had.
    cluster.kill(1).expect("ends");
    wait_hosts(&cluster, 1, "a killed daemon's names go", |text| {
        text == OWN
    });
}

/// The scribe of a daemon.
fn scribe_of(cluster: &Cluster, node: usize) -> u32 {
    let daemon = cluster.daemon(node).expect("runs").id();
    let path = format!("/proc/{daemon}/task/{daemon}/children");
    let children = fs::read_to_string(path).expect("is there");
    let is_scribe = |pid: &&str| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        words.is_ok_and(|words| words.contains("\0scribe\0"))
    };
    let found = children.split_whitespace().find(is_scribe);
    found
        .and_then(|pid| pid.parse().ok())
        .expect("there is one")
}

#[test]
fn what_a_crash_has_left_is_replaced() {
    let mut cluster = idle(2, "");
    start(&mut cluster, 0, WHOLE);
    wait_hosts(&cluster, 0, "names come", |text| text.contains("n1"));
    let whole = hosts(&cluster, 0);
    let scribe = scribe_of(&cluster, 0).to_string();
    let killed = Command::new("kill").args(["-KILL", &scribe]).status();
    assert!(killed.expect("runs").success());
    cluster.kill(0).expect("ends");
    assert_eq!(hosts(&cluster, 0), whole);
    let changed = whole.replace("n1", "n7");
    let path = etc(&cluster, 0).join("hosts");
    fs::write(&path, format!("a\n{changed}b\n")).expect("is written");
    start(&mut cluster, 0, WHOLE);
    wait_hosts(&cluster, 0, "they are right again", |text| {
        text == format!("a\n{whole}b\n")
    });
    cluster.stop(0).expect("ends");
    assert_eq!(hosts(&cluster, 0), "a\nb\n");
    // Names that nobody wants any more go as well.
    fs::write(&path, format!("a\n{changed}b\n")).expect("is written");
    want(&cluster, false);
    start(&mut cluster, 0, WHOLE);
    wait_hosts(&cluster, 0, "what was left goes", |text| text == "a\nb\n");
}

#[test]
fn a_file_that_is_a_mount_is_written_in_place_and_one_that_is_read_only_is_told_once() {
    let mut cluster = idle(2, "a\n");
    let inode = |cluster: &Cluster| {
        fs::metadata(etc(cluster, 0).join("hosts"))
            .expect("is there")
            .ino()
    };
    let before = inode(&cluster);
    start(&mut cluster, 0, "mount --bind ETC/hosts /etc/hosts");
    wait_hosts(&cluster, 0, "names come", |text| text.contains("n1.tabane"));
    assert_eq!(inode(&cluster), before);
    cluster.stop(0).expect("ends");
    assert_eq!(hosts(&cluster, 0), "a\n");

    let read_only = "mount --bind ETC /etc && mount -o remount,bind,ro /etc";
    start(&mut cluster, 1, read_only);
    let trouble =
        "/etc/hosts: cannot be written, so the nodes' names do not resolve: read-only file system";
    eventually("it says so", || cluster.log(1).contains(trouble));
    reload(&cluster, 1);
    assert!(cluster.stop(1).expect("ends").success());
    assert_eq!(cluster.log(1).matches("cannot be written").count(), 1);
    assert_eq!(hosts(&cluster, 1), "a\n");
}

#[test]
fn names_come_and_go_with_nodes_that_join_and_leave() {
    let mut cluster = idle(2, "a\n");
    let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    let seed = cluster.lab().address(0, 0);
    for node in [0, 1] {
        let file = cluster.directory().join(format!("n{node}.toml"));
        let (link, vnic) = (cluster.lab().address(node, 0), cluster.address(node));
        let text = format!(
            "key = \"{key}\"\n[mesh]\njoin = [\"{seed}\"]\n[vnic]\nhosts = true\n\
             [[node]]\nname = \"n{node}\"\nlinks = [\"{link}\"]\nvnic = \"{vnic}/24\"\n"
        );
        fs::write(&file, text).expect("is written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("is private");
        let words = within(&cluster, node, WHOLE);
        let mut up = cluster.lab().command(node, &words[0]);
        up.args(&words[1..]).arg(tabane());
        up.arg("up").arg("--config").arg(file);
        cluster.start_as(node, up).expect("starts");
    }
    let joined = format!("{}\tn1 n1.tabane\n", cluster.address(1));
    wait_hosts(&cluster, 0, "n1 joins", |text| text.contains(&joined));
    let mut leave = cluster.tabane(1);
    leave.arg("leave");
    let done = output("tabane leave", leave, PATIENCE).expect("ends");
    assert!(done.status.success(), "{}", text(&done.stderr));
    wait_hosts(&cluster, 0, "n1 leaves", |text| {
        text.contains("\tn0 n0.tabane\n") && !text.contains("n1.tabane")
    });
}
