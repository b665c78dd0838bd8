//! Stores whose members agree by votes.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::*;

/// A store of three members, `node` being where one runs. Its data stay when it ends.
fn etcd(site: &Site, node: usize) -> Program {
    let url = |node: usize, port: u16| format!("http://{}:{port}", site.address(node));
    let peers = [0, 1, 2].map(|node| format!("n{node}={}", url(node, 2380)));
    let data = site.directory().join(format!("etcd-{node}"));
    let mut member = under_run(
        site,
        node,
        "etcd",
        &["--logger", "zap", "--log-level", "warn"],
    );
    member.arg("--data-dir").arg(data);
    for (option, value) in [
        ("--name", format!("n{node}")),
        ("--listen-client-urls", "http://0.0.0.0:2379".to_owned()),
        ("--listen-peer-urls", "http://0.0.0.0:2380".to_owned()),
        ("--advertise-client-urls", url(node, 2379)),
        ("--initial-advertise-peer-urls", url(node, 2380)),
        ("--initial-cluster", peers.join(",")),
        // A busy machine is no reason to vote again.
        ("--heartbeat-interval", "300".to_owned()),
        ("--election-timeout", "3000".to_owned()),
    ] {
        member.args([option, &value]);
    }
    serve_by(site, node, "etcd", member, 2380)
}

/// Nothing is lost and nothing fails as links do; with its leader gone the store goes on, and who comes back has all.
#[test]
fn etcd_of_three() {
    let site = three();
    let mut members = [0, 1, 2].map(|node| etcd(&site, node));
    let ends = [0, 1, 2].map(|node| format!("{}:2379", site.address(node)));
    let all = ends.join(",");
    let asks = |node: usize, words: &[&str]| {
        let mut etcdctl = under_run(&site, node, "etcdctl", words);
        etcdctl.args(["--endpoints", &all]);
        etcdctl
    };
    eventually("the store serves", || {
        let health = asks(0, &["endpoint", "health"]);
        let said = output("etcdctl", health, PATIENCE).expect("ends");
        said.status.success()
    });
    let seen = site.directory().join("seen");
    let mut watch = asks(2, &["watch", "--prefix", "key:", "--rev", "1"]);
    watch.stderr(Stdio::null());
    watch.stdout(fs::File::create(&seen).expect("can be written"));
    let watch = Program::start("etcdctl", watch).expect("starts");

    let puts = |script: &str| under_run(&site, 0, "sh", &["-c", script, &all]);
    let put = "for n in $(seq 100); do etcdctl --endpoints $0 put key:$n $n || exit 1; done";
    let said = across_failures(&site, "etcdctl put", puts(put));
    assert_eq!(said, "OK\n".repeat(100));

    let leader = leader(&reported(asks(0, &["endpoint", "status"])));
    // While there is no leader a put fails, on every network: it is asked for again.
    let put = "for n in $(seq 101 200); do
        until etcdctl --endpoints $0 put key:$n $n 2>&-; do :; done
    done";
    let said = across_failures_and_an_end(&site, "etcdctl put", puts(put), &mut members[leader]);
    assert_eq!(said, "OK\n".repeat(100));
    members[leader] = etcd(&site, leader);
    eventually("all members hold the same", || {
        let told = asks(0, &["endpoint", "hashkv", "-w", "json"]);
        let said = output("etcdctl", told, PATIENCE).expect("ends");
        let told: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        let hash = |member: usize| told[member]["HashKV"]["hash"].as_u64();
        hash(0).is_some() && hash(0) == hash(1) && hash(1) == hash(2)
    });
    let mut get = under_run(&site, 0, "etcdctl", &["get", "--prefix", "key:"]);
    get.args(["--print-value-only", "--consistency", "s"]);
    get.args(["--endpoints", &ends[leader]]);
    let mut values: Vec<u32> = numbers(&asked("etcdctl get", get)).collect();
    values.sort_unstable();
    assert_eq!(values, (1..=200).collect::<Vec<_>>());
    eventually("who watches has seen every put, in order", || {
        // A put that failed may have been done all the same: it is seen twice then.
        let text = fs::read_to_string(&seen).expect("is there");
        let mut values: Vec<u32> = numbers(&text).collect();
        values.dedup();
        values == (1..=200).collect::<Vec<_>>()
    });
    drop(watch);
}

/// What `etcdctl -w json` says.
fn reported(mut etcdctl: Command) -> Value {
    etcdctl.args(["-w", "json"]);
    serde_json::from_str(&asked("etcdctl", etcdctl)).expect("is JSON")
}

/// Which member leads, by what all say of themselves.
fn leader(status: &Value) -> usize {
    let leads =
        |member: &Value| member["Status"]["header"]["member_id"] == member["Status"]["leader"];
    let mut members = status.as_array().into_iter().flatten();
    members.position(leads).expect("one leads")
}

/// The lines that are numbers.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.lines().filter_map(|line| line.parse().ok())
}
