//! Redis with sentinels, which say who leads.

use std::fs;

use super::*;

/// The first node's server is followed by the others'.
fn redis(site: &Site, node: usize) -> Program {
    let directory = shown(site, &format!("redis-{node}"));
    fs::create_dir_all(&directory).expect("can be made");
    let mut words = vec![
        "--port",
        "6379",
        "--dir",
        &directory,
        "--protected-mode",
        "no",
    ];
    let leader = site.address(0).to_string();
    words.extend(["--repl-diskless-sync-delay", "0", "--save", ""]);
    if node != 0 {
        words.extend(["--replicaof", &leader, "6379"]);
    }
    serve(site, node, "redis-server", &words, 6379)
}

/// Each asks the store for what another one has missed too: two must agree.
fn sentinel(site: &Site, node: usize) -> Program {
    let file = shown(site, &format!("sentinel-{node}.conf"));
    let text = format!(
        "port 26379\ndir {}\nprotected-mode no\nlogfile {file}.log\n\
         sentinel monitor store {} 6379 2\nsentinel down-after-milliseconds store 5000\n\
         sentinel failover-timeout store 10000\n",
        site.directory().display(),
        site.address(0)
    );
    fs::write(&file, text).expect("can be written");
    serve(site, node, "redis-sentinel", &[&file], 26379)
}

/// No sentinel misses anybody as links fail. When the leader is gone, another one leads, and has what two had.
#[test]
fn redis_sentinel() {
    let site = three();
    let mut members = [0, 1, 2].map(|node| redis(&site, node));
    let _sentinels = [0, 1, 2].map(|node| sentinel(&site, node));
    let asks = |node: usize, port: &str, words: &[&str]| {
        let address = site.address(node).to_string();
        let mut cli = under_run(&site, 0, "redis-cli", &["-h", &address, "-p", port]);
        cli.args(words);
        asked("redis-cli", cli)
    };
    let knows = |node: usize, what: &str| {
        let said = asks(node, "26379", &["info", "sentinel"]);
        said.contains(what)
    };
    for node in [0, 1, 2] {
        eventually("each sentinel knows all", || {
            knows(node, "status=ok") && knows(node, "slaves=2,sentinels=3")
        });
    }
    let set = |script: &str| {
        under_run(
            &site,
            2,
            "sh",
            &["-c", script, &site.address(0).to_string()],
        )
    };
    let script = "for n in $(seq 200); do redis-cli -h $0 set key:$n $n || exit 1; done";
    assert_eq!(
        across_failures(&site, "redis-cli set", set(script)),
        "OK\n".repeat(200)
    );
    for node in [0, 1, 2] {
        let log = fs::read_to_string(shown(&site, &format!("sentinel-{node}.conf.log")));
        let log = log.expect("is there");
        assert!(!log.contains("+sdown"), "{log}");
    }
    // It asks a sentinel each time. What a follower has not got may be lost: it is set again.
    let script = "for n in $(seq 201 300); do while :; do
        leader=$(redis-cli -h n1 -p 26379 sentinel get-master-addr-by-name store | head -n 1)
        said=$(printf 'set key:%s %s\\nwait 1 1000\\n' $n $n | redis-cli -h $leader 2>&1)
        case $said in OK*[12]) break ;; esac
    done; done";
    across_failures_and_an_end(&site, "redis-cli set", set(script), &mut members[0]);
    members[0] = redis(&site, 0);
    let roles = || [0, 1, 2].map(|node| asks(node, "6379", &["role"]));
    eventually("one leads, the others follow it", || {
        let roles = roles();
        let count = |role: &str| roles.iter().filter(|said| said.starts_with(role)).count();
        count("master") == 1 && count("slave") == 2
    });
    let mut keys: Vec<String> = (1..=300).map(|n| format!("{n}\n")).collect();
    keys.sort();
    for node in [0, 1, 2] {
        let script = "return redis.call('mget', unpack(redis.call('keys', 'key:*')))";
        eventually("each has all", || {
            let said = asks(node, "6379", &["eval_ro", script, "0"]);
            let mut values: Vec<String> = said.lines().map(|n| format!("{n}\n")).collect();
            values.sort();
            values == keys
        });
    }
}
