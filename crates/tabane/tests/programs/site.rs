//! Where the tests of unmodified programs run them, start their servers, and have links fail meanwhile.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output, socket_address};
use tabane_lab::{Fault, LabError};

use crate::common::*;

/// How long a link is down, and then up before another one goes.
pub const FAILURE: Duration = Duration::from_millis(200);
/// What is moved to have links fail meanwhile.
pub const FILE_BYTES: usize = 64 << 20;

/// Where programs run, and what carries their TCP.
pub struct Site {
    cluster: Cluster,
    pub is_mptcp: bool,
}

impl Site {
    /// With and without bundles.
    pub fn each() -> impl Iterator<Item = Site> {
        let config = |mptcp| ClusterConfig {
            mptcp,
            ..ClusterConfig::default()
        };
        [false, true].into_iter().map(move |is_mptcp| {
            let cluster = Cluster::up(lab(&slow_links()), tabane(), config(is_mptcp));
            let cluster = cluster.expect("the cluster comes up");
            if is_mptcp {
                cluster.wait_steered().expect("all is steered");
            }
            Site { cluster, is_mptcp }
        })
    }

    pub fn run(&self, node: usize, program: &str) -> Command {
        match self.is_mptcp {
            false => self.cluster.run(node, program),
            true => self.cluster.run_by_mptcp(node, program),
        }
    }

    pub fn address(&self, node: usize) -> IpAddr {
        match self.is_mptcp {
            false => self.cluster.address(node),
            true => self.lab().address(node, 0),
        }
    }

    pub fn run_listens(
        &self,
        node: usize,
        program: &mut Program,
        port: u16,
    ) -> Result<(), LabError> {
        match self.is_mptcp {
            false => self.cluster.run_listens(node, program, port),
            true => program.listens(port),
        }
    }
}

impl From<Cluster> for Site {
    fn from(cluster: Cluster) -> Site {
        Site {
            cluster,
            is_mptcp: false,
        }
    }
}

impl Deref for Site {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl DerefMut for Site {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.cluster
    }
}

pub fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

pub fn under_run(cluster: &Site, node: usize, program: &str, arguments: &[&str]) -> Command {
    let mut command = cluster.run(node, program);
    command.args(arguments).current_dir(cluster.directory());
    command.stdin(Stdio::null());
    command
}

/// A server that has begun to listen.
pub fn serve(cluster: &Site, node: usize, program: &str, arguments: &[&str], port: u16) -> Program {
    let command = under_run(cluster, node, program, arguments);
    serve_by(cluster, node, program, command, port)
}

pub fn serve_by(cluster: &Site, node: usize, name: &str, command: Command, port: u16) -> Program {
    let mut server = begin(cluster, node, name, command, port);
    listens(cluster, node, &mut server, port);
    server
}

/// A server that will listen on a port.
pub fn begin(cluster: &Site, node: usize, name: &str, mut command: Command, port: u16) -> Program {
    // Not to the test's own: whoever reads that would wait for the last of the server's processes.
    let log = fs::File::create(server_log(cluster, node, port)).expect("can be written");
    command.stdout(Stdio::null()).stderr(log);
    Program::start(name, command).expect("starts")
}

/// Waits until it listens there.
pub fn listens(cluster: &Site, node: usize, server: &mut Program, port: u16) {
    let listens = cluster.run_listens(node, server, port);
    listens.unwrap_or_else(|error| {
        let said = fs::read_to_string(server_log(cluster, node, port)).unwrap_or_default();
        panic!("{error}\n{said}")
    });
}

/// Where a server's errors are.
pub fn server_log(cluster: &Site, node: usize, port: u16) -> PathBuf {
    cluster.directory().join(format!("{node}-{port}.log"))
}

/// What a client says, across failures of one link after the other for as long as it runs; at
/// least one struck it.
pub fn across_failures(cluster: &Site, name: &str, command: Command) -> String {
    across_failures_and(cluster, name, command, |_| {})
}

/// As [`across_failures`]; after each failure something else may be done, which is told how many there were.
pub fn across_failures_and(
    cluster: &Site,
    name: &str,
    mut command: Command,
    mut and: impl FnMut(usize),
) -> String {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = Program::start(name, command).expect("starts");
    let mut failures = 0;
    while client.ended().expect("is known").is_none() {
        let link = failures % 2;
        cluster
            .lab()
            .fail(link, Fault::Silent, None)
            .expect("fails");
        sleep(FAILURE);
        cluster.lab().heal(link).expect("heals");
        sleep(FAILURE);
        failures += 1;
        and(failures);
        assert!(failures < 300, "{name} does not end");
    }
    assert!(failures > 0);
    well(name, &client.output(PATIENCE).expect("ends"))
}

/// What was said by a program that must have ended well.
pub fn well(name: &str, said: &Output) -> String {
    let (out, err) = (text(&said.stdout), text(&said.stderr));
    assert!(
        said.status.success(),
        "{name}: {}\n{out}\n{err}",
        said.status
    );
    out + &err
}

/// Always the same: xorshift64 (Marsaglia, 2003).
pub fn random() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(88_172_645_463_325_252_u64), |state| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        Some(state ^ (state << 17))
    })
}

/// A file that no two pieces are alike of.
pub fn content(cluster: &Site, name: &str) -> PathBuf {
    content_of(cluster, name, FILE_BYTES)
}

pub fn content_of(cluster: &Site, name: &str, bytes: usize) -> PathBuf {
    let path = cluster.directory().join(name);
    let words = random().take(bytes / 8).flat_map(u64::to_le_bytes);
    fs::write(&path, words.collect::<Vec<u8>>()).expect("can be written");
    path
}

pub fn same(one: &Path, other: &Path) {
    let read = |path: &Path| fs::read(path).expect("can be read");
    assert!(
        read(one) == read(other),
        "{} is another file",
        other.display()
    );
}

/// Runs git to its end, as nobody in particular.
pub fn git(arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    for setting in ["user.name=n", "user.email=e", "safe.directory=*"] {
        git.args(["-c", setting]);
    }
    git.args(arguments);
    well("git", &output("git", git, PATIENCE).expect("ends"))
}

/// A repository that has a file.
pub fn git_repository(place: &str, file: &Path) {
    git(&["init", "-q", place]);
    fs::copy(file, Path::new(place).join("file")).expect("can be copied");
    git(&["-C", place, "add", "."]);
    git(&["-C", place, "commit", "-q", "-m", "file"]);
}

pub fn url(cluster: &Site, node: usize, port: u16, path: &str) -> String {
    format!(
        "http://{}/{path}",
        socket_address(cluster.address(node), port)
    )
}

/// nginx with two workers that each have a listener of their own.
pub fn nginx(cluster: &Site, node: usize, port: u16) -> Program {
    let command = nginx_that(
        cluster,
        node,
        port,
        "access_log off;",
        &format!("listen {port} reuseport;"),
    );
    serve_by(cluster, node, "nginx", command, port)
}

/// The same, to be started, with a log and listeners of one's own.
pub fn nginx_that(cluster: &Site, node: usize, port: u16, log: &str, listen: &str) -> Command {
    let root = cluster.directory().display();
    let file = cluster.directory().join(format!("nginx-{port}.conf"));
    let conf = format!(
        "user root; daemon off; worker_processes 2; pid {root}/nginx-{port}.pid; error_log stderr;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ {log} sendfile on; client_body_temp_path {root}; proxy_temp_path {root};\n\
         fastcgi_temp_path {root}; uwsgi_temp_path {root}; scgi_temp_path {root};\n\
         server {{ {listen} location / {{ root {root}; }} }} }}\n"
    );
    fs::write(&file, conf).expect("can be written");
    let file = file.display().to_string();
    under_run(cluster, node, "nginx", &["-e", "stderr", "-c", &file])
}

/// `transfer.go`, built without cgo in this directory.
pub fn go_transfer(directory: &Path) -> String {
    let program = directory.join("goprogram").display().to_string();
    let mut build = Command::new("go");
    // Not optimised: its library is built as well, and that is most of the work.
    build.args(["build", "-gcflags=all=-N -l", "-o", &program]);
    build.arg(here("transfer.go"));
    build
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .env("GO111MODULE", "off");
    build.env("GOCACHE", directory.join("gocache"));
    // However long a busy machine takes: the compiler knows nothing of tabane.
    well("go", &build.output().expect("starts"));
    program
}

/// As no root: PostgreSQL would not begin, and who is root in rsync's server is made to be nobody.
pub const AS_NO_ROOT: [&str; 4] = ["--user", "--map-user=1000", "--map-group=1000", "--"];

/// Where the distribution has the server's programs: not in PATH.
pub fn postgresql_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let version = versions.flatten().map(|entry| entry.path()).max();
    version.expect("PostgreSQL is installed").join("bin")
}

/// A new database in a directory of its own, whom everybody may ask and follow.
pub fn postgresql_data(site: &Site, node: usize, data: &str) {
    let mut initdb = site.lab().command(node, "unshare");
    initdb
        .args(AS_NO_ROOT)
        .arg(postgresql_programs().join("initdb"));
    initdb.args(["-D", data, "-A", "trust", "-U", "tabane", "--no-sync"]);
    initdb.current_dir(site.directory());
    well("initdb", &output("initdb", initdb, PATIENCE).expect("ends"));
    let hosts = ["all", "replication"].map(|what| format!("host {what} all all trust\n"));
    let hba = Path::new(data).join("pg_hba.conf");
    fs::write(&hba, hosts.concat() + "local all all trust\n").expect("can be written");
}

/// The server of these data on port 5432, to be started.
pub fn postgresql(site: &Site, node: usize, data: &str) -> Command {
    let mut postgres = under_run(site, node, "unshare", &AS_NO_ROOT);
    postgres.arg(postgresql_programs().join("postgres"));
    // Without a socket in the file system, which every node sees.
    postgres.args(["-D", data, "-k", "", "-h", "*", "-p", "5432", "-F"]);
    postgres
}

/// Waits until a node's database has started.
pub fn postgresql_answers(site: &Site, node: usize) {
    let address = site.address(node).to_string();
    let program = postgresql_programs()
        .join("pg_isready")
        .display()
        .to_string();
    eventually("the database has started", || {
        let ready = under_run(site, node, &program, &["-q", "-h", &address]);
        let said = output("pg_isready", ready, PATIENCE).expect("ends");
        said.status.success()
    });
}

/// An ssh server whose only account is in a password file that is mounted over the machine's in
/// its own view. Returns what reaches it.
pub fn sshd(cluster: &Site, node: usize) -> (Program, String) {
    const START: &str = "mount --bind \"$1\" /etc/passwd && shift && exec \"$@\"";
    let directory = cluster.directory().display().to_string();
    for key in ["host", "user"] {
        let mut make = Command::new("ssh-keygen");
        make.args([
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-f",
            &format!("{directory}/{key}"),
        ]);
        well(
            "ssh-keygen",
            &output("ssh-keygen", make, PATIENCE).expect("ends"),
        );
    }
    let write = |name: &str, text: String| {
        fs::write(format!("{directory}/{name}"), text).expect("can be written");
    };
    write("passwd", format!("user:x:1000:1000::{directory}:/bin/sh\n"));
    write(
        "sshd_config",
        format!(
            "Port 2222\nHostKey {directory}/host\nAuthorizedKeysFile {directory}/user.pub\n\
             PidFile none\nSubsystem sftp internal-sftp\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nUseDNS no\n"
        ),
    );
    let mut start = under_run(
        cluster,
        node,
        "unshare",
        &["--mount", "--map-root-user", "--"],
    );
    start.args([
        "sh",
        "-c",
        START,
        "sh",
        &format!("{directory}/passwd"),
        "unshare",
    ]);
    start.args(AS_NO_ROOT).arg("/usr/sbin/sshd");
    start.args(["-D", "-e", "-f", &format!("{directory}/sshd_config")]);
    let server = serve_by(cluster, node, "sshd", start, 2222);
    let shell = format!(
        "ssh -F none -i {directory}/user -p 2222 -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
    );
    (server, shell)
}
