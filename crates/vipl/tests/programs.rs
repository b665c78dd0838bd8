//! Programs in C of each dialect, and what becomes of processes.

mod common;

use std::process::Command;

use common::{C11, C89, C99, CPP17, CPP98, KEY, Running, Workshop, package};

const ENVIRONMENT: [(&str, &str); 2] = [("TABANE_KEY", KEY), ("TABANE_LINKS", "127.0.0.1")];

#[test]
fn programs_of_each_dialect_compile_and_run() {
    let workshop = Workshop::new();
    for dialect in ["dialect_095", "dialect_10", "dialect_mixed"] {
        let file = package("tests/c").join(dialect).with_extension("c");
        for compiler in [C89, C99, C11, CPP98, CPP17] {
            let program = workshop.program(compiler, &file, dialect);
            let mut command = Command::new(program);
            command.envs(ENVIRONMENT);
            let ended = command.status().expect("runs");
            assert!(ended.success(), "{dialect}: {ended}");
        }
    }
}

#[test]
fn a_nic_is_not_the_fork_s() {
    let workshop = Workshop::new();
    let program = workshop.program(C99, &package("tests/c/fork.c"), "fork");
    let ended = Command::new(program).envs(ENVIRONMENT).status();
    let ended = ended.expect("runs");
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_peer_that_is_killed_is_lost() {
    let workshop = Workshop::new();
    let program = workshop.program(C99, &package("tests/c/lost.c"), "lost");
    let who = std::process::id().to_string();
    let run = |role: &str| {
        let mut command = Command::new(&program);
        command.args([role, &who]).envs(ENVIRONMENT);
        command.env("TABANE_PEER_TIMEOUT", "0.5");
        Running::start(&mut command)
    };
    let (server, mut client) = (run("server"), run("client"));
    // The client says when it is connected, and then waits.
    assert_eq!(client.line(), "connected\n");
    // It is killed.
    drop(server);
    client.end();
}

#[test]
fn what_was_sent_arrives_though_the_program_ends() {
    let workshop = Workshop::new();
    let program = workshop.program(C99, &package("tests/c/ends.c"), "ends");
    let who = format!("ends {}", std::process::id());
    let run = |role: &str| {
        let mut command = Command::new(&program);
        Running::start(command.args([role, &who]).envs(ENVIRONMENT))
    };
    let (server, client) = (run("server"), run("client"));
    client.end();
    server.end();
}

#[test]
fn where_no_port_is_left_nobody_is_waited_for() {
    let workshop = Workshop::new();
    let program = workshop.program(C99, &package("tests/c/doors.c"), "doors");
    let mut command = Command::new(program);
    // An address that nobody else uses, and the last port that there is.
    let alone = [("TABANE_LINKS", "127.7.7.7"), ("TABANE_VI_PORT", "65535")];
    let said = command.envs(ENVIRONMENT).envs(alone).output();
    let said = said.expect("runs");
    let line = String::from_utf8(said.stderr).expect("is text");
    assert!(said.status.success(), "{}: {line}", said.status);
    assert!(line.contains("TABANE_VI_PORT"), "{line}");
}

#[test]
fn what_the_environment_says_wrong_is_said_in_a_line() {
    let workshop = Workshop::new();
    let program = workshop.program(C99, &package("tests/c/open.c"), "open");
    for (name, value, says) in [
        ("TABANE_KEY", "secret", "TABANE_KEY=(not shown): "),
        ("TABANE_LINKS", "nothing0", "TABANE_LINKS=nothing0: "),
        ("TABANE_VI_PORT", "many", "TABANE_VI_PORT=many: "),
        ("TABANE_PORTS", "1", "TABANE_PORTS=1: "),
    ] {
        let mut command = Command::new(&program);
        command.envs(ENVIRONMENT).env(name, value);
        let said = command.output().expect("runs");
        // `VIP_ERROR_RESOURCE`.
        assert_eq!(said.status.code(), Some(3), "{name}");
        let line = String::from_utf8(said.stderr).expect("is text");
        assert!(line.starts_with(&format!("tabane: {says}")), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
