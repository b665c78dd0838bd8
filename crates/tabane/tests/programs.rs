//! Programs nobody here wrote, unmodified, under `tabane run`, while links fail: carried by the bundle,
//! some also by steered Multipath TCP.
//!
//! Each is given enough to do that links fail meanwhile, and what comes out of it is compared
//! with what it must be.

mod common;

use std::fs;
use std::net::IpAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::*;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output, socket_address};
use tabane_lab::{Fault, LabError};

/// How long a link is down, and then up before another one goes.
const FAILURE: Duration = Duration::from_millis(200);
/// What is moved to have links fail meanwhile.
const FILE_BYTES: usize = 64 << 20;

/// Where programs run, and what carries their TCP.
struct Site {
    cluster: Cluster,
    is_mptcp: bool,
}

impl Site {
    /// With and without bundles.
    fn each() -> impl Iterator<Item = Site> {
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

    fn run(&self, node: usize, program: &str) -> Command {
        match self.is_mptcp {
            false => self.cluster.run(node, program),
            true => self.cluster.run_by_mptcp(node, program),
        }
    }

    fn address(&self, node: usize) -> IpAddr {
        match self.is_mptcp {
            false => self.cluster.address(node),
            true => self.lab().address(node, 0),
        }
    }

    fn run_listens(&self, node: usize, program: &mut Program, port: u16) -> Result<(), LabError> {
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

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

fn under_run(cluster: &Site, node: usize, program: &str, arguments: &[&str]) -> Command {
    let mut command = cluster.run(node, program);
    command.args(arguments).current_dir(cluster.directory());
    command.stdin(Stdio::null());
    command
}

/// A server that has begun to listen.
fn serve(cluster: &Site, node: usize, program: &str, arguments: &[&str], port: u16) -> Program {
    let command = under_run(cluster, node, program, arguments);
    serve_by(cluster, node, program, command, port)
}

fn serve_by(cluster: &Site, node: usize, name: &str, mut command: Command, port: u16) -> Program {
    // Not to the test's own: whoever reads that would wait for the last of the server's processes.
    let path = cluster.directory().join(format!("{port}.log"));
    let log = fs::File::create(&path).expect("can be written");
    command.stdout(Stdio::null()).stderr(log);
    let mut server = Program::start(name, command).expect("starts");
    let listens = cluster.run_listens(node, &mut server, port);
    listens.unwrap_or_else(|error| {
        let said = fs::read_to_string(&path).unwrap_or_default();
        panic!("{error}\n{said}")
    });
    server
}

/// What a client says, across failures of one link after the other for as long as it runs; at
/// least one struck it.
fn across_failures(cluster: &Site, name: &str, mut command: Command) -> String {
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
        assert!(failures < 300, "{name} does not end");
    }
    assert!(failures > 0);
    well(name, &client.output(PATIENCE).expect("ends"))
}

/// What was said by a program that must have ended well.
fn well(name: &str, said: &Output) -> String {
    let (out, err) = (text(&said.stdout), text(&said.stderr));
    assert!(
        said.status.success(),
        "{name}: {}\n{out}\n{err}",
        said.status
    );
    out + &err
}

/// Always the same: xorshift64 (Marsaglia, 2003).
fn random() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(88_172_645_463_325_252_u64), |state| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        Some(state ^ (state << 17))
    })
}

/// A file that no two pieces are alike of.
fn content(cluster: &Site, name: &str) -> PathBuf {
    let path = cluster.directory().join(name);
    let words = random().take(FILE_BYTES / 8).flat_map(u64::to_le_bytes);
    fs::write(&path, words.collect::<Vec<u8>>()).expect("can be written");
    path
}

fn same(one: &Path, other: &Path) {
    let read = |path: &Path| fs::read(path).expect("can be read");
    assert!(
        read(one) == read(other),
        "{} is another file",
        other.display()
    );
}

fn url(cluster: &Site, node: usize, port: u16, path: &str) -> String {
    format!(
        "http://{}/{path}",
        socket_address(cluster.address(node), port)
    )
}

/// nginx with two workers that each have a listener of their own.
fn nginx(cluster: &Site, node: usize, port: u16) -> Program {
    let root = cluster.directory().display();
    let file = cluster.directory().join("nginx.conf");
    let conf = format!(
        "user root; daemon off; worker_processes 2; pid {root}/nginx.pid; error_log stderr;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {root}; proxy_temp_path {root};\n\
         fastcgi_temp_path {root}; uwsgi_temp_path {root}; scgi_temp_path {root};\n\
         server {{ listen {port} reuseport; location / {{ root {root}; }} }} }}\n"
    );
    fs::write(&file, conf).expect("can be written");
    let file = file.display().to_string();
    serve(cluster, node, "nginx", &["-e", "stderr", "-c", &file], port)
}

/// Downloads the file and compares it.
fn curl(cluster: &Site, node: usize, url: &str, original: &Path) {
    let copy = cluster.directory().join("copy");
    let shown = copy.display().to_string();
    let client = under_run(cluster, node, "curl", &["-sS", "--fail", "-o", &shown, url]);
    across_failures(cluster, "curl", client);
    same(original, &copy);
}

#[test]
fn curl_and_nginx() {
    for cluster in Site::each() {
        let file = content(&cluster, "file");
        let _nginx = nginx(&cluster, 1, 8080);
        curl(&cluster, 0, &url(&cluster, 1, 8080, "file"), &file);
        // By name, where it has one, many small ones, over connections that are kept.
        fs::write(cluster.directory().join("small"), [b's'; 4000]).expect("can be written");
        let range = match cluster.is_mptcp {
            false => "http://n1:8080/small?[1-2000]".to_owned(),
            true => url(&cluster, 1, 8080, "small?[1-2000]"),
        };
        let arguments = [
            "-sS",
            "--fail",
            "--parallel",
            "--parallel-max",
            "50",
            "-o",
            "/dev/null",
        ];
        let mut client = under_run(&cluster, 0, "curl", &arguments);
        client.args(["-w", "%{http_code} %{size_download}\n", &range]);
        let said = across_failures(&cluster, "curl", client);
        assert_eq!(
            said.lines().filter(|line| *line == "200 4000").count(),
            2000,
            "{said}"
        );
    }
}

#[test]
fn haproxy_between_curl_and_nginx() {
    let cluster = Site::from(cluster_on(&tabane_lab::LabConfig {
        nodes: 3,
        ..slow_links()
    }));
    let file = content(&cluster, "file");
    let _nginx = nginx(&cluster, 2, 8080);
    let conf = cluster.directory().join("haproxy.cfg");
    let text = "defaults\n mode http\n timeout connect 30s\n timeout client 60s\n timeout server 60s\n\
                frontend f\n bind :8081\n default_backend b\n\
                backend b\n server s n2:8080 check\n";
    fs::write(&conf, text).expect("can be written");
    let conf = conf.display().to_string();
    let _haproxy = serve(&cluster, 1, "haproxy", &["-db", "-f", &conf], 8081);
    curl(&cluster, 0, &url(&cluster, 1, 8081, "file"), &file);
}

#[test]
fn go_without_a_c_library() {
    for cluster in Site::each() {
        let file = content(&cluster, "file");
        let program = cluster.directory().join("goprogram");
        let mut build = Command::new("go");
        // Not optimised: its library is built as well, and that is most of the work.
        build
            .args(["build", "-gcflags=all=-N -l"])
            .arg("-o")
            .arg(&program)
            .arg(here("transfer.go"));
        build
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=mod")
            .env("GO111MODULE", "off");
        build.env("GOCACHE", cluster.directory().join("gocache"));
        // However long a busy machine takes: the compiler knows nothing of tabane.
        well("go", &build.output().expect("starts"));
        let (program, file_name) = (program.display().to_string(), file.display().to_string());
        let _server = serve(&cluster, 1, &program, &["serve", ":8082", &file_name], 8082);
        let copy = cluster.directory().join("copy");
        let to = url(&cluster, 1, 8082, "file");
        let client = under_run(
            &cluster,
            0,
            &program,
            &["fetch", &to, &copy.display().to_string()],
        );
        across_failures(&cluster, "the Go program", client);
        same(&file, &copy);
    }
}

#[test]
fn python_http_server_and_urllib() {
    for cluster in Site::each() {
        let file = content(&cluster, "file");
        let _server = serve(&cluster, 1, "python3", &["-m", "http.server", "8083"], 8083);
        let copy = cluster.directory().join("copy");
        let script = "import sys, urllib.request, shutil\n\
                      with urllib.request.urlopen(sys.argv[1]) as r, open(sys.argv[2], 'wb') as f:\n\
                      \x20   shutil.copyfileobj(r, f)";
        let (from, to) = (url(&cluster, 1, 8083, "file"), copy.display().to_string());
        let client = under_run(&cluster, 0, "python3", &["-c", script, &from, &to]);
        across_failures(&cluster, "urllib", client);
        same(&file, &copy);
    }
}

#[test]
fn node_js() {
    let cluster = Site::from(cluster_on(&slow_links()));
    let file = content(&cluster, "file");
    let script = here("transfer.js").display().to_string();
    let original = file.display().to_string();
    let _server = serve(
        &cluster,
        1,
        "node",
        &[&script, "serve", "8084", &original],
        8084,
    );
    let copy = cluster.directory().join("copy");
    let (from, to) = (url(&cluster, 1, 8084, "file"), copy.display().to_string());
    let client = under_run(&cluster, 0, "node", &[&script, "fetch", &from, &to]);
    across_failures(&cluster, "node", client);
    same(&file, &copy);
}

#[test]
fn redis() {
    for cluster in Site::each() {
        let arguments = ["--port", "6379", "--save", "", "--protected-mode", "no"];
        let _server = serve(&cluster, 1, "redis-server", &arguments, 6379);
        let address = cluster.address(1).to_string();
        let arguments = [
            "-h", &address, "-c", "200", "-n", "50000", "-d", "512", "-P", "16", "-q",
        ];
        let mut client = under_run(&cluster, 0, "redis-benchmark", &arguments);
        client.args(["-t", "set,get,lpush,mset"]);
        let said = across_failures(&cluster, "redis-benchmark", client);
        assert!(said.contains("MSET") && !said.contains("rror"), "{said}");
    }
}

/// Members of one node, each under a `tabane run` of its own, find each other as those of others: all slots are
/// served, and replicas follow.
#[test]
fn redis_cluster() {
    const PORTS: [u16; 3] = [7000, 7001, 7002];
    let site = Site::from(cluster_on(&slow_links()));
    let member = |node: usize, port: u16| {
        let directory = site.directory().join(format!("{node}-{port}"));
        fs::create_dir(&directory).expect("is new");
        let (directory, port_said) = (directory.display().to_string(), port.to_string());
        let arguments = [
            "--port",
            &port_said,
            "--dir",
            &directory,
            "--save",
            "",
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "5000",
            "--protected-mode",
            "no",
        ];
        serve(&site, node, "redis-server", &arguments, port)
    };
    let members = [0, 1].map(|node| PORTS.map(|port| member(node, port)));
    let ends = [0, 1].map(|node| PORTS.map(|port| socket_address(site.address(node), port)));
    let client = |arguments: &[&str]| under_run(&site, 0, "redis-cli", arguments);
    let mut create = client(&["--cluster", "create"]);
    create
        .args(ends.as_flattened())
        .args(["--cluster-replicas", "1", "--cluster-yes"]);
    let made = across_failures(&site, "redis-cli --cluster create", create);
    assert!(made.contains("All 16384 slots covered"), "{made}");
    let first = site.address(0).to_string();
    let load = client(&[
        "-h",
        &first,
        "-p",
        "7000",
        "--cluster",
        "call",
        &ends[0][0],
        "ping",
    ]);
    let said = across_failures(&site, "redis-cli --cluster call", load);
    assert_eq!(said.matches("PONG").count(), 6, "{said}");
    // Each member decides for itself whether the cluster serves, some time after it was made.
    for end in ends.as_flattened() {
        let (address, port) = end.rsplit_once(':').expect("a port");
        eventually("each member says that the cluster serves", || {
            let info = client(&["-h", address, "-p", port, "cluster", "info"]);
            let said = output("redis-cli", info, PATIENCE).expect("ends");
            text(&said.stdout).contains("cluster_state:ok")
        });
    }
    // Keys of all slots, by redirections from member to member.
    let script = "for n in $(seq 200); do redis-cli -c -h $0 -p 7000 set key:$n $n; done";
    let sets = under_run(&site, 0, "sh", &["-c", script, &first]);
    let said = across_failures(&site, "redis-cli set", sets);
    let others = said.lines().filter(|answer| *answer != "OK");
    let others: Vec<&str> = others.collect();
    assert!(others.is_empty(), "not OK: {others:#?}");
    assert_eq!(said.lines().count(), 200);
    let check = client(&["--cluster", "check", &ends[1][2]]);
    let said = well(
        "redis-cli",
        &output("redis-cli", check, PATIENCE).expect("ends"),
    );
    assert!(said.contains("200 keys in 3 masters"), "{said}");
    assert!(
        said.contains("All nodes agree about slots configuration"),
        "{said}"
    );
    drop(members);
}

#[test]
fn memcached() {
    let cluster = Site::from(cluster_on(&slow_links()));
    let arguments = ["-u", "root", "-p", "11211", "-U", "0", "-m", "256"];
    let _server = serve(&cluster, 1, "memcached", &arguments, 11211);
    let script = here("memcache.py").display().to_string();
    let address = cluster.address(1).to_string();
    let client = under_run(&cluster, 0, "python3", &[&script, &address, "11211"]);
    let said = across_failures(&cluster, "the memcached client", client);
    assert_eq!(said, "all of it\n");
}

/// As no root: PostgreSQL would not begin.
const AS_NO_ROOT: [&str; 4] = ["--user", "--map-user=1000", "--map-group=1000", "--"];

#[test]
fn postgresql_and_pgbench() {
    let cluster = Site::from(cluster_on(&slow_links()));
    let data = cluster.directory().join("data").display().to_string();
    let binaries = postgresql();
    let program = |name: &str| binaries.join(name).display().to_string();
    let mut initdb = cluster.lab().command(1, "unshare");
    initdb.args(AS_NO_ROOT).arg(program("initdb"));
    initdb.args(["-D", &data, "-A", "trust", "-U", "tabane", "--no-sync"]);
    initdb.current_dir(cluster.directory());
    well("initdb", &output("initdb", initdb, PATIENCE).expect("ends"));
    let hba = cluster.directory().join("data/pg_hba.conf");
    fs::write(&hba, "host all all 0.0.0.0/0 trust\nlocal all all trust\n").expect("can be written");
    let directory = cluster.directory().display().to_string();
    let mut postgres = under_run(&cluster, 1, "unshare", &AS_NO_ROOT);
    postgres.arg(program("postgres"));
    postgres.args(["-D", &data, "-k", &directory, "-h", "*", "-p", "5432", "-F"]);
    let _server = serve_by(&cluster, 1, "postgres", postgres, 5432);
    let address = cluster.address(1).to_string();
    let connection = ["-h", &address, "-p", "5432", "-U", "tabane"];
    let pgbench = |arguments: &[&str]| {
        let mut client = under_run(&cluster, 0, "pgbench", &connection);
        client.args(arguments).arg("postgres");
        client
    };
    eventually("the database has started", || {
        let mut ready = under_run(&cluster, 0, &program("pg_isready"), &["-q"]);
        ready.args(["-h", &address]);
        let said = output("pg_isready", ready, PATIENCE).expect("ends");
        said.status.success()
    });
    across_failures(&cluster, "pgbench -i", pgbench(&["-i", "-s", "5", "-q"]));
    let load = pgbench(&["-c", "8", "-j", "2", "-t", "500"]);
    let said = across_failures(&cluster, "pgbench", load);
    assert!(said.contains("4000/4000"), "{said}");
    assert!(said.contains("number of failed transactions: 0"), "{said}");
}

/// Where the distribution has the server's programs: not in PATH.
fn postgresql() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let version = versions.flatten().map(|entry| entry.path()).max();
    version.expect("PostgreSQL is installed").join("bin")
}

#[test]
fn iperf3_each_way() {
    for cluster in Site::each() {
        for back in [false, true] {
            let _server = serve(&cluster, 1, "iperf3", &["-s", "-1"], 5201);
            let address = cluster.address(1).to_string();
            let mut client = under_run(
                &cluster,
                0,
                "iperf3",
                &["-c", &address, "-t", "3", "--json"],
            );
            client.args(["-P", "4"]).args(back.then_some("-R"));
            let said = across_failures(&cluster, "iperf3", client);
            let report: serde_json::Value = serde_json::from_str(&said).expect("reports");
            let bytes = report["end"]["sum_received"]["bytes"].as_u64();
            assert!(bytes.is_some_and(|bytes| bytes > 0), "{said}");
        }
    }
}

/// Links that fail one after the other, by a fixed seed: which, how, at which node, how long it is
/// down and up.
fn random_failures(cluster: &Site, count: usize) {
    let mut random = random();
    let mut below = |limit: u64| (random.next().unwrap_or(0) >> 32) % limit;
    for _ in 0..count {
        let (link, fault, node) = FAILURES[below(FAILURES.len() as u64) as usize];
        cluster.lab().fail(link, fault, node).expect("fails");
        sleep(Duration::from_millis(100 + below(300)));
        cluster.lab().heal(link).expect("heals");
        sleep(Duration::from_millis(100 + below(400)));
    }
}

/// 200 at once, of nginx, redis and iperf3: none breaks.
#[test]
fn hundreds_of_connections_through_twenty_failures() {
    for cluster in Site::each() {
        fs::write(cluster.directory().join("page"), [b'x'; 2000]).expect("can be written");
        let _nginx = nginx(&cluster, 1, 8080);
        let arguments = ["--port", "6379", "--save", "", "--protected-mode", "no"];
        let _redis = serve(&cluster, 1, "redis-server", &arguments, 6379);
        let _iperf3 = serve(&cluster, 1, "iperf3", &["-s", "-1"], 5201);
        let address = cluster.address(1).to_string();
        let page = url(&cluster, 1, 8080, "page");
        let clients: [(&str, &[&str]); 3] = [
            (
                "wrk",
                &["-c", "100", "-t", "2", "-d", "15", "--timeout", "10", &page],
            ),
            ("iperf3", &["-c", &address, "-P", "50", "-t", "15"]),
            (
                "redis-benchmark",
                &[
                    "-h", &address, "-c", "50", "-n", "100000", "-t", "set", "-q",
                ],
            ),
        ];
        let started = clients.map(|(name, arguments)| {
            let mut client = under_run(&cluster, 0, name, arguments);
            client.stdout(Stdio::piped()).stderr(Stdio::piped());
            (name, Program::start(name, client).expect("starts"))
        });
        random_failures(&cluster, 20);
        for (name, client) in started {
            let said = well(name, &client.output(PATIENCE).expect("ends"));
            let broken = ["rror", "Non-2xx", "refused", "reset"];
            assert!(
                !broken.iter().any(|word| said.contains(word)),
                "{name}: {said}"
            );
        }
    }
}

/// An ssh server whose only account is in a password file that is mounted over the machine's in
/// its own view. Returns what reaches it.
fn sshd(cluster: &Site) -> (Program, String) {
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
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nUseDNS no\n"
        ),
    );
    let mut start = under_run(cluster, 1, "unshare", &["--mount", "--map-root-user", "--"]);
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
    let server = serve_by(cluster, 1, "sshd", start, 2222);
    let shell = format!(
        "ssh -F none -i {directory}/user -p 2222 -o StrictHostKeyChecking=no \
         -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
    );
    (server, shell)
}

#[test]
fn ssh_rsync_and_git() {
    let cluster = Site::from(cluster_on(&slow_links()));
    let file = content(&cluster, "file");
    let (_server, shell) = sshd(&cluster);
    let address = cluster.address(1).to_string();
    let copy = cluster.directory().join("copy");
    let (from, to) = (
        format!("user@{address}:{}", file.display()),
        copy.display().to_string(),
    );
    let client = under_run(
        &cluster,
        0,
        "rsync",
        &["--whole-file", "-e", &shell, &from, &to],
    );
    across_failures(&cluster, "rsync", client);
    same(&file, &copy);

    let original = cluster.directory().join("original").display().to_string();
    let clone = cluster.directory().join("clone").display().to_string();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "-c",
            "safe.directory=*",
        ]);
        git.args(arguments);
        well("git", &output("git", git, PATIENCE).expect("ends"))
    };
    git(&["init", "-q", &original]);
    fs::copy(&file, cluster.directory().join("original/file")).expect("can be copied");
    git(&["-C", &original, "add", "."]);
    git(&["-C", &original, "commit", "-q", "-m", "file"]);
    let from = format!("ssh://user@{address}:2222{original}");
    let mut client = under_run(&cluster, 0, "git", &["clone", "-q", &from, &clone]);
    client.env("GIT_SSH_COMMAND", &shell);
    across_failures(&cluster, "git clone", client);
    same(&file, &cluster.directory().join("clone/file"));
}

#[test]
fn open_mpi() {
    let cluster = Site::from(cluster_on(&slow_links()));
    let directory = cluster.directory().display().to_string();
    let program = format!("{directory}/exchange");
    let source = here("exchange.c").display().to_string();
    let mut build = Command::new("mpicc");
    build.args(["-O1", "-o", &program, &source]);
    well("mpicc", &output("mpicc", build, PATIENCE).expect("ends"));
    let (_server, shell) = sshd(&cluster);
    let hosts = format!("{}:1,{}:1", cluster.address(0), cluster.address(1));
    let mut client = under_run(&cluster, 0, "mpirun", &["--host", &hosts, "-np", "2"]);
    client.args([
        "--allow-run-as-root",
        "--bind-to",
        "none",
        "--oversubscribe",
    ]);
    for (name, value) in [
        ("plm", "rsh"),
        ("plm_rsh_agent", &format!("{shell} -l user")),
        ("plm_rsh_no_tree_spawn", "1"),
        ("orte_tmpdir_base", &directory),
        ("oob_tcp_if_include", "10.99.0.0/24"),
        ("pml", "ob1"),
        ("btl", "self,tcp"),
        ("btl_tcp_if_include", "10.99.0.0/24"),
        ("mpi_yield_when_idle", "1"),
    ] {
        client.args(["--mca", name, value]);
    }
    client.arg(&program);
    let said = across_failures(&cluster, "mpirun", client);
    assert_eq!(said.matches("all of it").count(), 2, "{said}");
}
