//! `tabane run --via mptcp`: programs that nobody changed.

use super::*;

/// What kinds of sockets a program gets, each by a process or thread of its own.
const SOCKETS: &str = "
import os, socket, sys, threading
TCP, MPTCP = 6, 262
NAMES = {TCP: 'tcp', MPTCP: 'mptcp', 17: 'udp', 0: 'unix'}
def kind(*what):
    with socket.socket(*what) as s:
        return NAMES[s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL)]
print('v4', kind(), 'v6', kind(socket.AF_INET6, socket.SOCK_STREAM, TCP), flush=True)
print('udp', kind(socket.AF_INET, socket.SOCK_DGRAM), 'unix', kind(socket.AF_UNIX), flush=True)
thread = threading.Thread(target=lambda: print('thread', kind(), flush=True))
thread.start()
thread.join()
if os.fork() == 0:
    print('fork', kind(), flush=True)
    os.execvp(sys.argv[1], sys.argv[1:])
os.wait()
with socket.socket() as s:
    s.setblocking(False)
    print(os.get_inheritable(s.fileno()), os.fstat(s.fileno()).st_uid == os.geteuid())
";
/// As the exec'd child of [`SOCKETS`]: one more.
const ONE_MORE: &str = "
import socket
print('exec', socket.socket().getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL))
";
const WARNING: &str = "tabane: warning: ";

/// The program's output and what was said beside it.
fn sockets(mut python: std::process::Command) -> (String, String) {
    python.args(["-c", SOCKETS, "python3", "-c", ONE_MORE]);
    python.stdin(Stdio::null());
    let done = output("python3", python, PATIENCE).expect("ends");
    let told = text(&done.stderr);
    assert!(done.status.success(), "{told}");
    (text(&done.stdout), told)
}

const ALL_MPTCP: &str = "v4 mptcp v6 mptcp\nudp udp unix unix\nthread mptcp\nfork mptcp\nexec 262\n\
                         False True\n";

fn cluster_without_daemons() -> Cluster {
    Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster")
}

#[test]
fn a_program_is_itself() {
    let (cluster, _) = steered(&on(2));
    is_itself(&cluster, |program| cluster.run_by_mptcp(0, program));
}

#[test]
fn tcp_sockets_are_of_multipath_tcp_and_no_others() {
    let (cluster, _) = steered(&on(2));
    let (said, told) = sockets(cluster.run_by_mptcp(0, "python3"));
    assert_eq!((said.as_str(), told.as_str()), (ALL_MPTCP, ""));
    // One within another: nothing more.
    let mut twice = cluster.run_by_mptcp(0, tabane());
    twice.args(["run", "--via", "mptcp", "--", "python3"]);
    let (said, told) = sockets(twice);
    assert_eq!((said.as_str(), told.as_str()), (ALL_MPTCP, ""));
}

/// Its sockets must be those of the network that it is in.
#[test]
fn a_program_that_leaves_the_network_has_plain_tcp() {
    let cluster = cluster_without_daemons();
    let mut elsewhere = cluster.run_by_mptcp(0, "unshare");
    elsewhere.args(["--net", "python3"]);
    let (said, _) = sockets(elsewhere);
    assert_eq!(said.matches("mptcp").count(), 0, "{said}");
}

#[test]
fn without_a_daemon_that_steers_it_is_told_so() {
    let cluster = cluster_without_daemons();
    let (said, told) = sockets(cluster.run_by_mptcp(0, "python3"));
    assert_eq!(said, ALL_MPTCP);
    assert!(
        told.starts_with(&format!("{WARNING}nothing steers")),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn without_multipath_tcp_the_program_runs_by_tcp() {
    let cluster = cluster_without_daemons();
    super::said(&cluster, 0, "sysctl -w net.mptcp.enabled=0");
    let (said, told) = sockets(cluster.run_by_mptcp(0, "python3"));
    assert_eq!(said, ALL_MPTCP.replace("mptcp", "tcp").replace("262", "6"));
    let expected = "no Multipath TCP for the program: it is switched off; `sysctl -w";
    assert!(told.starts_with(&format!("{WARNING}{expected}")), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    // Switched off later, it is plain TCP, too.
    super::said(&cluster, 0, "sysctl -w net.mptcp.enabled=1");
    let mut later = cluster.run_by_mptcp(0, "sh");
    later.args([
        "-c",
        "sysctl -qw net.mptcp.enabled=0; exec \"$@\"",
        "sh",
        "python3",
    ]);
    let (said, _) = sockets(later);
    assert_eq!(said, ALL_MPTCP.replace("mptcp", "tcp").replace("262", "6"));
}

#[test]
fn within_a_bundle_it_is_the_bundles() {
    let mut cluster = cluster_without_daemons();
    cluster.start(0).expect("starts");
    let mut within = cluster.run(0, tabane());
    within.args(["run", "--via", "mptcp", "--", "python3"]);
    let (said, told) = sockets(within);
    assert!(!said.contains("mptcp"), "{said}");
    assert!(told.contains("runs under `tabane run` already"), "{told}");
}

/// Whoever answers calls is there as long as one may be made, and no longer.
#[test]
fn the_supervisor_ends_with_the_last_of_what_the_program_started() {
    let cluster = cluster_without_daemons();
    let mut shell = cluster.run_by_mptcp(0, "sh");
    shell.args([
        "-c",
        "exec 3<&0; (read go <&3; exec python3 -c \"$0\") & exit 0",
        ONE_MORE,
    ]);
    let mut shell = {
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        Program::start("sh", shell).expect("starts")
    };
    let name = format!("^tabane: supervisor of {}$", shell.id());
    let supervisors = || {
        let mut list = cluster.lab().command(0, "pgrep");
        list.args(["-fc", &name]);
        let done = output("pgrep", list, PATIENCE).expect("ends");
        text(&done.stdout).trim().to_owned()
    };
    let input = shell.take_stdin().expect("is a pipe");
    let mut said = BufReader::new(shell.take_stdout().expect("is a pipe"));
    assert!(shell.wait(PATIENCE).expect("ends").success());
    // It is left behind before it has its name.
    eventually("it is beside the program", || supervisors() == "1");
    drop(input);
    let mut line = String::new();
    said.read_line(&mut line).expect("can be read");
    assert_eq!(line, "exec 262\n");
    eventually("it has ended", || supervisors() == "0");
}
