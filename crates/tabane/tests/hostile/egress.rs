//! What leaves a node plainly is the program's user's to that node's kernel: its firewall tells users apart as
//! it does without tabane.

use std::path::{Path, PathBuf};

use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};

use crate::common::*;
use crate::users::*;

/// Ports of servers on another node that no daemon hosts.
const TCP: u16 = 7000;
const UDP: u16 = 7001;
/// More than a place has sockets ready for.
const AT_ONCE: usize = 100;

/// The first node's firewall refuses what a user sends to these ports.
fn refuse(cluster: &Cluster, user: u32) {
    let table = format!(
        "table inet guard {{\n\
         chain out {{\n\
         type filter hook output priority 0;\n\
         meta skuid {user} tcp dport {TCP} counter reject with tcp reset\n\
         meta skuid {user} udp dport {UDP} counter drop\n\
         }}\n}}"
    );
    let mut nft = cluster.lab().command(0, "nft");
    nft.arg(table);
    let set = output("nft", nft, PATIENCE).expect("ends");
    assert!(set.status.success(), "{}", text(&set.stderr));
}

/// Servers on the other node, which is not under `tabane run`: of TCP and of UDP, that repeat what they hear.
fn servers(cluster: &Cluster) -> Program {
    let script = format!(
        "\
def tcp():
    listener = socket.socket()
    listener.bind(('', {TCP}))
    listener.listen({AT_ONCE})
    while True:
        s = listener.accept()[0]
        s.sendall(b'heard')
        s.close()
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind(('', {UDP}))
threading.Thread(target=tcp, daemon=True).start()
time.sleep(0.1)
print('ready', flush=True)
while True:
    data, whom = udp.recvfrom(100)
    udp.sendto(data, whom)
"
    );
    serve(plainly(cluster, 1, 0, &script)).0
}

/// What a user's program under `tabane run` on the first node is answered, by both.
fn answers(cluster: &Cluster, tabane: &ForAll, user: u32) -> String {
    let to = cluster.address(1);
    let script = format!(
        "\
def tcp():
    sockets = [socket.socket() for _ in range({AT_ONCE})]
    for s in sockets:
        s.setblocking(False)
        s.connect_ex(('{to}', {TCP}))
    heard = set()
    for s in sockets:
        s.settimeout(10)
        try:
            heard.add(s.recv(100).decode())
        except OSError as e:
            heard.add(type(e).__name__)
    return sorted(heard)
def udp():
    sockets = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(20)]
    for s in sockets:
        s.settimeout(3)
        s.sendto(b'heard', ('{to}', {UDP}))
    heard = set()
    for s in sockets:
        try:
            heard.add(s.recv(100).decode())
        except OSError as e:
            heard.add(type(e).__name__)
            break
    return sorted(heard)
print(tcp(), udp())
"
    );
    said_by(under_run(cluster, tabane, 0, user, &script))
}

#[test]
fn what_leaves_a_node_plainly_is_its_users() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let _servers = servers(&cluster);
    refuse(&cluster, EVIL);
    let good = answers(&cluster, &tabane, GOOD);
    assert_eq!(good, "['heard'] ['heard']\n");
    let evil = answers(&cluster, &tabane, EVIL);
    assert_eq!(evil, "['ConnectionRefusedError'] ['TimeoutError']\n");
}

/// What a program sends from a port that it has bound, too.
#[test]
fn what_leaves_by_a_port_is_its_users() {
    if !has_users() {
        return;
    }
    let (cluster, tabane) = (cluster(), ForAll::new());
    let _servers = servers(&cluster);
    let nft = |words: &[&str]| {
        let mut nft = cluster.lab().command(0, "nft");
        nft.args(words);
        let done = output("nft", nft, PATIENCE).expect("ends");
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    nft(&[&format!(
        "table inet count {{\n\
         counter of_user {{}}\n\
         counter of_others {{}}\n\
         chain out {{\n\
         type filter hook output priority 0;\n\
         meta skuid {EVIL} udp dport {UDP} counter name of_user\n\
         meta skuid != {EVIL} udp dport {UDP} counter name of_others\n\
         }}\n}}"
    )]);
    let script = format!(
        "\
for family, address, to, own in (
    (socket.AF_INET, '', '{to}', 6000),
    (socket.AF_INET6, '::', '::ffff:{to}', 6001),
):
    for port in own, 0:
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.settimeout(10)
            s.bind((address, port))
            s.sendto(b'heard', (to, {UDP}))
            print(s.recv(100).decode(), s.getsockname()[1] == port, flush=True)
",
        to = cluster.address(1)
    );
    let said = said_by(under_run(&cluster, &tabane, 0, EVIL, &script));
    assert_eq!(said, "heard True\nheard False\n".repeat(2));
    let count = |name| nft(&["list", "counter", "inet", "count", name]);
    let (user, others) = (count("of_user"), count("of_others"));
    assert!(user.contains("packets 4 "), "{user}");
    assert!(others.contains("packets 0 "), "{others}");
}

/// A control group of the test's own, of the second version.
struct Group {
    path: PathBuf,
}

impl Group {
    /// None: this machine has no such groups, or keeps them.
    fn new() -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("is there");
        let mut mounts = mounts.lines().map(|line| line.split(' '));
        let root = mounts.find_map(|mut words| {
            let path = words.nth(1)?;
            (words.next() == Some("cgroup2")).then_some(path)
        })?;
        let path = Path::new(root).join(format!("tabane-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        Some(Group { path })
    }

    /// As `nft` calls it.
    fn name(&self) -> String {
        let name = self.path.strip_prefix("/sys/fs/cgroup").expect("is there");
        name.display().to_string()
    }

    /// A shell's words for: in this group from now on.
    fn enter(&self) -> String {
        format!("echo $$ >{}/cgroup.procs", self.path.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it has ended, or the test has failed already.
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Rules by control group hold as well.
#[test]
fn what_leaves_a_node_plainly_is_of_the_programs_control_group() {
    if !has_users() {
        return;
    }
    let Some(group) = Group::new() else {
        eprintln!("not tried: this machine has no control groups of the second version to be made");
        return;
    };
    let cluster = cluster();
    let _servers = servers(&cluster);
    let table = format!(
        "table inet guard {{\n\
         chain out {{\n\
         type filter hook output priority 0;\n\
         socket cgroupv2 level 1 \"{}\" tcp dport {TCP} reject with tcp reset\n\
         }}\n}}",
        group.name()
    );
    let mut nft = cluster.lab().command(0, "nft");
    nft.arg(table);
    let set = output("nft", nft, PATIENCE).expect("ends");
    assert!(set.status.success(), "{}", text(&set.stderr));
    let script = format!(
        "import socket\n\
         try:\n\
         \x20s = socket.create_connection(('{}', {TCP}), 10)\n\
         \x20print(s.recv(100).decode())\n\
         except OSError as e:\n\
         \x20print(type(e).__name__)",
        cluster.address(1)
    );
    for (enter, expected) in [
        (":".to_owned(), "heard\n"),
        (group.enter(), "ConnectionRefusedError\n"),
    ] {
        let mut run = cluster.lab().command(0, "sh");
        run.args(["-c", &format!("{enter}; exec \"$@\"")])
            .arg("sh")
            .arg(cluster.program())
            .args(["run", "--config"])
            .arg(cluster.file())
            .args(["--", PYTHON, "-c", &script]);
        assert_eq!(said_by(run), expected, "{enter}");
    }
}
