//! Databases.

use std::fs;
use std::process::Command;

use tabane_lab::cluster::{PATIENCE, output};

use crate::common::outside::OUTSIDE;
use crate::scene::{FAMILIES, Failure, Scene, names_clients};
use crate::site::{postgresql, postgresql_answers, postgresql_data, well};

through_each_failure!(postgresql_and_pgbench, redis);

/// Sessions that stay, and a new one for each transaction.
fn postgresql_and_pgbench(failure: Failure) {
    let mut scene = Scene::new(failure);
    let data = scene.path("data");
    postgresql_data(&scene.site, scene.node, &data);
    let mut server = postgresql(&scene.site, scene.node, &data);
    server.args(["-c", "log_connections=on"]);
    let _server = scene.serve("postgres", server, 5432);
    postgresql_answers(&scene.site, scene.node);
    let ask = |family: usize, program, arguments: &[&str]| {
        let host = OUTSIDE[family];
        let mut client = scene.client(family, program, &["-h", host, "-p", "5432", "-U", "tabane"]);
        client.args(arguments).arg("postgres");
        client
    };
    let at_once = |name, command| well(name, &output(name, command, PATIENCE).expect("ends"));
    at_once("pgbench -i", ask(0, "pgbench", &["-i", "-s", "4", "-q"]));
    let mut clients = Vec::new();
    for family in FAMILIES {
        let stay = ask(family, "pgbench", &["-n", "-c", "4", "-t", "200"]);
        let come_and_go = ask(family, "pgbench", &["-n", "-C", "-c", "2", "-t", "50"]);
        clients.extend([("pgbench", stay), ("pgbench -C", come_and_go)]);
    }
    let counts = "select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts) from pgbench_history";
    let count = ask(1, "psql", &["-A", "-t", "-c", counts]);
    for said in scene.through_from(200 << 10, clients) {
        assert!(said.contains("number of failed transactions: 0"), "{said}");
        assert!(!said.contains("rror"), "{said}");
    }
    // Each that was said to be done has been done once.
    assert_eq!(at_once("psql", count), "1800|t\n");
    names_clients(&scene.log(5432));
}

/// Many clients that ask one thing after the other, and large values both ways.
fn redis(failure: Failure) {
    const PORT: &str = "6379";
    let mut scene = Scene::new(failure);
    let file = scene.file();
    let mut server = scene.inside(
        "redis-server",
        &["--port", PORT, "--save", "", "--protected-mode", "no"],
    );
    let log = scene.path("redis.log");
    server.args([
        "--bind",
        "*",
        "-::*",
        "--loglevel",
        "verbose",
        "--logfile",
        &log,
    ]);
    let _server = scene.serve("redis-server", server, 6379);
    let ask = |family: usize, program, arguments: &[&str]| -> Command {
        let mut client = scene.client(family, program, &["-h", OUTSIDE[family], "-p", PORT]);
        client.args(arguments);
        client
    };
    let mut clients = Vec::new();
    for family in FAMILIES {
        let load = [
            "-c", "200", "-n", "10000", "-d", "512", "-q", "-t", "set,get",
        ];
        clients.push(("redis-benchmark", ask(family, "redis-benchmark", &load)));
        let mut set = ask(
            family,
            "redis-cli",
            &["-x", "set", &format!("file{family}")],
        );
        set.stdin(fs::File::open(&file).expect("is there"));
        clients.push(("redis-cli set", set));
    }
    let get = |family: usize| {
        (
            "redis-cli get",
            ask(family, "redis-cli", &["get", &format!("file{family}")]),
        )
    };
    let gets = FAMILIES.map(get);
    for said in scene.through(clients) {
        assert!(said == "OK\n" || said.contains("GET"), "{said}");
        assert!(!said.contains("rror"), "{said}");
    }
    let whole = fs::read(&file).expect("can be read");
    for (name, get) in gets {
        let said = output(name, get, PATIENCE).expect("ends");
        assert!(
            said.stdout.strip_suffix(b"\n") == Some(&whole[..]),
            "it is another value"
        );
    }
    let log = fs::read_to_string(log).expect("can be read");
    let accepted = log.lines().filter(|line| line.contains(" Accepted "));
    names_clients(&accepted.collect::<Vec<_>>().join("\n"));
}
