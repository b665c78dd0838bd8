//! The daemon: who may use it, and who may be it.

use std::fs;

use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, output};

use crate::common::*;
use crate::users::*;

const HERE: &str = "print('here')";

/// A cluster whose file has these lines, too, not started.
fn with_lines(lines: &str) -> Cluster {
    let lab = lab(&LabConfig::default());
    let cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    add(&cluster, lines);
    cluster
}

fn add(cluster: &Cluster, lines: &str) {
    let file = fs::read_to_string(cluster.file()).expect("can be read");
    fs::write(cluster.file(), file + lines).expect("can be written");
}

#[test]
fn only_those_whom_the_file_names_may_use_the_daemon() {
    if !has_users() {
        return;
    }
    let mut cluster = with_lines(&format!("[run]\nusers = [\"{GOOD}\"]\n"));
    cluster.start(0).expect("starts");
    let tabane = ForAll::new();
    let said = |user| said_by(under_run(&cluster, &tabane, 0, user, HERE));
    assert_eq!(said(GOOD), "here\n");
    let refused = said(EVIL);
    assert!(refused.contains("does not let this user"), "{refused}");
    let limits = cluster.status(0).expect("status")["node"]["limits_hit"].take();
    assert_eq!(limits["run_forbidden"], 1);

    add(&cluster, "off = true\n");
    let mut reload = cluster.tabane(0);
    reload.arg("reload");
    let reloaded = output("tabane reload", reload, PATIENCE).expect("ends");
    assert!(reloaded.status.success(), "{}", text(&reloaded.stderr));
    let refused = said(GOOD);
    assert!(refused.contains("does not let this user"), "{refused}");
}

#[test]
fn nobody_else_can_be_the_daemon() {
    if !has_users() {
        return;
    }
    let mut cluster = with_lines("");
    // The names by which it was found once, and where a user's own would be.
    let script = format!(
        "\
sockets = []
def take(kind, path):
    s = socket.socket(socket.AF_UNIX, kind)
    try:
        s.bind(path)
        s.listen()
        sockets.append(s)
    except OSError as e:
        pass
def directory(path):
    try:
        os.makedirs(path, 0o777)
    except OSError:
        pass
net = os.stat('/proc/self/ns/net').st_ino
for end in '', '-{GOOD}':
    take(socket.SOCK_STREAM, '\\0tabane' + end)
    take(socket.SOCK_SEQPACKET, '\\0tabane-run' + end)
for base in '/run/tabane', '/tmp/tabane-{GOOD}':
    for end in '', '-own':
        directory(f'{{base}}/net-{{net}}{{end}}')
        take(socket.SOCK_STREAM, f'{{base}}/net-{{net}}{{end}}/control')
        take(socket.SOCK_SEQPACKET, f'{{base}}/net-{{net}}{{end}}/run')
print('ready', flush=True)
time.sleep(600)
"
    );
    let (_posing, _) = serve(plainly(&cluster, 0, EVIL, &script));
    let tabane = ForAll::new();
    let mut status = of_user(&cluster, 0, GOOD, tabane.path());
    status.arg("status");
    let status = output("tabane status", status, PATIENCE).expect("ends");
    let said = text(&status.stderr);
    assert!(said.contains("no daemon runs here"), "{said}");
    cluster.start(0).expect("nobody keeps it from starting");
    assert_eq!(
        said_by(under_run(&cluster, &tabane, 0, GOOD, HERE)),
        "here\n"
    );
    let _ = fs::remove_dir_all(format!("/tmp/tabane-{GOOD}"));
}

/// A trace tells how much two nodes say to each other, and when: that is not everybody's business.
#[test]
fn only_those_who_administer_may_trace() {
    if !has_users() {
        return;
    }
    let mut cluster = with_lines("");
    cluster.start(0).expect("starts");
    let tabane = ForAll::new();
    let mut trace = of_user(&cluster, 0, GOOD, tabane.path());
    trace.args(["trace", "n1", "--seconds", "1"]);
    let refused = output("tabane trace", trace, PATIENCE).expect("ends");
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("only root, or the user"), "{said}");
    assert!(!cluster.log(0).contains("n1 is traced"));
}
