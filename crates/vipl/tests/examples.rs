//! The examples in C, as a reader of them would run them: two processes of one node, and two nodes of a lab, of which a link
//! fails while they are at work.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{C99, Running, Workshop, package};
use tabane_lab::{Fault, Lab, LabConfig, LinkSpec};

const EXAMPLES: [&str; 4] = ["pingpong", "bandwidth", "rdma_write", "rdma_read"];

fn compiled(workshop: &Workshop, name: &str) -> PathBuf {
    let source = package("examples").join(name).with_extension("c");
    workshop.program(C99, &source, name)
}

#[test]
fn two_processes_of_a_node() {
    let workshop = Workshop::new();
    for name in EXAMPLES {
        let program = compiled(&workshop, name);
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.args(arguments);
            command.env("TABANE_LINKS", "127.0.0.1");
            command.env("TABANE_VI_HOSTS", "here=127.0.0.1");
            Running::start(&mut command)
        };
        let server = run(&[]);
        let client = run(&["here"]);
        let (client, server) = (client.end(), server.end());
        assert!(
            (client + &server).contains("bytes"),
            "{name} says what it did"
        );
    }
}

/// Bytes that the second link of a node has sent: the system's own count.
fn carried(lab: &Lab, node: usize) -> u64 {
    let said = lab.command(node, "cat").arg("/proc/net/dev").output();
    let said = String::from_utf8(said.expect("runs").stdout).expect("is text");
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("eth1:"));
    let numbers = line.expect("there is such a link").split_whitespace();
    numbers
        .skip(8)
        .map(|n| n.parse().expect("a number"))
        .next()
        .unwrap_or(0)
}

/// Runs a program on a node with both its links.
fn run_on(lab: &Lab, node: usize, program: &Path, hosts: &str, arguments: &[&str]) -> Running {
    let mut command = lab.command(node, program);
    let links = format!("{},{}", lab.address(node, 0), lab.address(node, 1));
    command.env("TABANE_LINKS", links);
    command.env("TABANE_VI_HOSTS", hosts).args(arguments);
    Running::start(&mut command)
}

#[test]
fn two_nodes_of_which_a_link_fails() {
    let workshop = Workshop::new();
    let config = LabConfig {
        links: vec![LinkSpec::mbit(200); 2],
        ..LabConfig::default()
    };
    let lab = Lab::up(&config).expect("a lab");
    let program = compiled(&workshop, "bandwidth");
    let hosts =
        (0..2).map(|node| format!("n{node}={}+{}", lab.address(node, 0), lab.address(node, 1)));
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let run = |node: usize, arguments: &[&str]| run_on(&lab, node, &program, &hosts, arguments);
    let server = run(0, &[]);
    // 100 MB: at 400 Mb/s it takes two seconds, and one link fails for good when it has carried 10 of them.
    let client = run(1, &["n0", "1048576", "100"]);
    while carried(&lab, 1) < 10 << 20 {
        thread::sleep(Duration::from_millis(5));
    }
    lab.fail(1, Fault::Silent, None).expect("a fault");
    client.end();
    let said = server.end();
    assert!(said.starts_with("100 messages, 104857600 bytes"), "{said}");
    // Now the other one fails, before two processes find each other.
    lab.heal(1).expect("it is mended");
    lab.fail(0, Fault::Silent, None).expect("a fault");
    let program = compiled(&workshop, "pingpong");
    let run = |node: usize, arguments: &[&str]| run_on(&lab, node, &program, &hosts, arguments);
    let (server, client) = (run(0, &[]), run(1, &["n0"]));
    client.end();
    server.end();
}
