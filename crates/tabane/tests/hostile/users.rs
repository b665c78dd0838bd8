//! Users of a node, with user numbers of their own, and their programs.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tabane_io::credentials::own_uid;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};
use tempfile::TempDir;

use crate::common::*;

/// An ordinary user who means harm.
pub const EVIL: u32 = 12_345;
/// One who does not.
pub const GOOD: u32 = 2000;
const ROOT: u32 = 0;

/// One that users who may not look into anybody's home can run.
pub const PYTHON: &str = "/usr/bin/python3";

/// What hostile programs share. `enter(pid)` moves into the namespaces of another process of the same user,
/// in which this one then may do everything, and which no seccomp filter of `tabane run` watches.
const PRELUDE: &str = "\
import array, ctypes, fcntl, os, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def enter(pid):
    # Those of a program that has not begun yet are those of the node still.
    while os.readlink(f'/proc/{pid}/ns/net') == os.readlink('/proc/self/ns/net'):
        time.sleep(0.01)
    for kind in 'user', 'net':
        fd = os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY)
        if libc.setns(fd, 0) != 0:
            raise OSError(ctypes.get_errno(), 'setns')
def daemon(name):
    return f'/run/tabane/net-{os.stat(\"/proc/self/ns/net\").st_ino}/{name}'
def agent():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(daemon('run'))
    return s
def tell(agent, message, sockets=()):
    fds = array.array('i', [s.fileno() for s in sockets])
    data = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if sockets else []
    agent.sendmsg([message.encode()], data)
def begin(agent, sockets):
    tell(agent, '{\"says\":\"begin\",\"own\":[[\"10.99.0.1\",24]],\"pid\":1,\"command\":\"evil\"}', sockets)
# As `tabane run` hands them over: to be made by who has all rights in a network namespace.
def capture():
    v4, v6, raw = socket.AF_INET, socket.AF_INET6, socket.SOCK_RAW
    kinds = [(socket.AF_NETLINK, socket.SOCK_RAW, 12)]
    kinds += [(family, raw, 255) for family in (v4, v6, v4, v6)]
    kinds += [(v6, socket.SOCK_STREAM, 0), (v6, socket.SOCK_DGRAM, 0)]
    sockets = [socket.socket(*kind) for kind in kinds]
    sockets[5].bind(('::', 0))
    sockets[5].listen()
    sockets[6].bind(('::', 0))
    return sockets
# A network namespace in which this process has all rights.
def alone():
    if libc.unshare(0x10000000 | 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), 'unshare')
    with socket.socket() as s:
        # SIOCSIFFLAGS: up and running.
        fcntl.ioctl(s, 0x8914, struct.pack('16sh14x', b'lo', 0x41))
";

/// Begins as `tabane run` does, with sockets of a network namespace in which this user has all rights.
pub const BEGUN: &str = "\
place = agent()
control = socket.socket(socket.AF_UNIX)
control.connect(daemon('control'))
alone()
sockets = capture()
begin(place, sockets)
assert place.recv(1000) == b'{\"says\":\"go\"}'
def ended():
    place.settimeout(30)
    try:
        while said := place.recv(1000):
            if b'ended' in said:
                return said.decode()
    except OSError as e:
        return type(e).__name__
    return 'closed'
";

/// Whether tests may have several users: who is not root is one alone.
pub fn has_users() -> bool {
    own_uid() == ROOT
}

/// `tabane` where all users may run it.
pub struct ForAll {
    _directory: TempDir,
    program: PathBuf,
}

impl ForAll {
    pub fn new() -> ForAll {
        let directory = TempDir::new().expect("is made");
        let program = directory.path().join("tabane");
        // By a process that has ended: a program that a fork has open for writing cannot be run (ETXTBSY), and
        // other tests of this process fork meanwhile.
        let mut copy = Command::new("cp");
        copy.arg(tabane()).arg(&program);
        assert!(copy.status().expect("starts").success());
        for path in [directory.path(), &program] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("is ours");
        }
        ForAll {
            _directory: directory,
            program,
        }
    }

    pub fn path(&self) -> &Path {
        &self.program
    }
}

/// A program of a user on a node.
pub fn of_user(cluster: &Cluster, node: usize, uid: u32, program: &Path) -> Command {
    let mut command = cluster.lab().command(node, "setpriv");
    let id = uid.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    command.arg(program).current_dir("/").stdin(Stdio::null());
    command
}

fn with_script(mut command: Command, script: &str) -> Command {
    command.arg("-c").arg(format!("{PRELUDE}{script}"));
    command.stdout(Stdio::piped());
    command
}

/// A program in Python of a user.
pub fn plainly(cluster: &Cluster, node: usize, uid: u32, script: &str) -> Command {
    with_script(of_user(cluster, node, uid, Path::new(PYTHON)), script)
}

/// The same under `tabane run`.
pub fn under_run(
    cluster: &Cluster,
    tabane: &ForAll,
    node: usize,
    uid: u32,
    script: &str,
) -> Command {
    let mut run = of_user(cluster, node, uid, tabane.path());
    run.args(["run", "--", PYTHON]);
    with_script(run, script)
}

/// Starts a program, and waits for the first line that it says; returns the rest of what it says too.
pub fn start(command: Command) -> (Program, String, impl BufRead) {
    let mut program = Program::start("a program", command).expect("starts");
    let mut said = String::new();
    let mut stdout = BufReader::new(program.take_stdout().expect("is piped"));
    stdout.read_line(&mut said).expect("can be read");
    (program, said, stdout)
}

/// One that is to be ready.
pub fn serve(command: Command) -> (Program, impl BufRead) {
    let (program, said, rest) = start(command);
    assert_eq!(said, "ready\n");
    (program, rest)
}

/// What a program says that ends by itself.
pub fn said_by(command: Command) -> String {
    let said = output("a program", command, PATIENCE).expect("ends");
    text(&said.stdout) + &text(&said.stderr)
}
