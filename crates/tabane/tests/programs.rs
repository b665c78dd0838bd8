//! Programs nobody here wrote, unmodified, under `tabane run`, while links fail: carried by the bundle,
//! some also by steered Multipath TCP.
//!
//! Each is given enough to do that links fail meanwhile, and what comes out of it is compared
//! with what it must be.

mod common;
#[path = "programs/site.rs"]
mod site;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use common::*;
use site::*;
use tabane_lab::cluster::{PATIENCE, Program, output, socket_address};

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
        let (program, file_name) = (go_transfer(cluster.directory()), file.display().to_string());
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

#[test]
fn postgresql_and_pgbench() {
    let cluster = Site::from(cluster_on(&slow_links()));
    let data = cluster.directory().join("data").display().to_string();
    postgresql_data(&cluster, 1, &data);
    let postgres = postgresql(&cluster, 1, &data);
    let _server = serve_by(&cluster, 1, "postgres", postgres, 5432);
    postgresql_answers(&cluster, 1);
    let address = cluster.address(1).to_string();
    let connection = ["-h", &address, "-p", "5432", "-U", "tabane"];
    let pgbench = |arguments: &[&str]| {
        let mut client = under_run(&cluster, 0, "pgbench", &connection);
        client.args(arguments).arg("postgres");
        client
    };
    across_failures(&cluster, "pgbench -i", pgbench(&["-i", "-s", "5", "-q"]));
    let load = pgbench(&["-c", "8", "-j", "2", "-t", "500"]);
    let said = across_failures(&cluster, "pgbench", load);
    assert!(said.contains("4000/4000"), "{said}");
    assert!(said.contains("number of failed transactions: 0"), "{said}");
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

#[test]
fn ssh_rsync_and_git() {
    let cluster = Site::from(cluster_on(&slow_links()));
    let file = content(&cluster, "file");
    let (_server, shell) = sshd(&cluster, 1);
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
    git_repository(&original, &file);
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
    let (_server, shell) = sshd(&cluster, 1);
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
