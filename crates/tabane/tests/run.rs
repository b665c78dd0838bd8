//! `tabane run`: programs nobody changed, compared with themselves over plain TCP.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::*;
use tabane_lab::cluster::{Cluster, PATIENCE, Program, output};
use tabane_lab::{Fault, LabConfig, LinkSpec};

/// How a program is started, and at which address it finds the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// As it is, over one link.
    Plain,
    /// Under `tabane run`, at the address of a virtual NIC.
    Bundle,
}

fn semantics() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/run/semantics.py")
}

/// A program on a node.
fn command(cluster: &Cluster, way: Way, node: usize, program: &str) -> Command {
    match way {
        Way::Plain => cluster.lab().command(node, program),
        Way::Bundle => {
            let mut command = cluster.tabane(node);
            command.arg("run").arg("--config").arg(cluster.file());
            command.args(["--", program]);
            command
        }
    }
}

fn python(cluster: &Cluster, way: Way, node: usize, arguments: &[&str]) -> Command {
    let mut command = command(cluster, way, node, "python3");
    command.arg(semantics()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn address_of(cluster: &Cluster, way: Way, node: usize) -> String {
    match way {
        Way::Plain => cluster.lab().address(node, 0).to_string(),
        Way::Bundle => cluster.address(node).to_string(),
    }
}

/// What client and server of a case print.
fn outcome(cluster: &Cluster, way: Way, case: &str, port: u16) -> [String; 2] {
    let (address, port) = (address_of(cluster, way, 1), port.to_string());
    let arguments = ["serve", case, &address, &port];
    let mut server = Program::start(case, python(cluster, way, 1, &arguments)).expect("starts");
    let mut stdout = BufReader::new(server.take_stdout().expect("is piped"));
    let mut served = String::new();
    stdout.read_line(&mut served).expect("can be read");
    let arguments = ["connect", case, &address, &port];
    let client = python(cluster, way, 0, &arguments);
    let said = output(case, client, PATIENCE).expect("ends");
    stdout.read_to_string(&mut served).expect("can be read");
    let mut connected = text(&said.stdout);
    if !said.status.success() {
        connected += &format!("{}\n{}", said.status, text(&said.stderr));
    }
    let status = server.wait(PATIENCE).expect("ends");
    if !status.success() {
        served += &format!("{status}\n");
    }
    [connected, served]
}

/// Every `of`th case from `first` on, so that several tests share them.
fn cases(first: usize, of: usize) -> Vec<(String, u16)> {
    let mut list = Command::new("python3");
    list.arg(semantics()).arg("list");
    let said = output("semantics.py", list, PATIENCE).expect("ends");
    let names = text(&said.stdout);
    let numbered = names.lines().zip(20_000..).skip(first).step_by(of);
    numbered
        .map(|(name, port)| (name.to_owned(), port))
        .collect()
}

fn are_those_of_tcp(first: usize, of: usize) {
    let cluster = cluster();
    let mut differences = String::new();
    let cases = cases(first, of);
    assert!(!cases.is_empty());
    for (case, port) in cases {
        let [plain, bundle] =
            [Way::Plain, Way::Bundle].map(|way| outcome(&cluster, way, &case, port));
        if plain != bundle {
            differences += &format!("{case}: plain {plain:#?}, under tabane run {bundle:#?}\n");
        }
        assert!(
            plain.iter().all(|said| !said.contains("Error")),
            "{case}: {plain:?}"
        );
    }
    assert!(differences.is_empty(), "{differences}{}", cluster.log(0));
}

#[test]
fn semantics_are_those_of_tcp_1() {
    are_those_of_tcp(0, 4);
}

#[test]
fn semantics_are_those_of_tcp_2() {
    are_those_of_tcp(1, 4);
}

#[test]
fn semantics_are_those_of_tcp_3() {
    are_those_of_tcp(2, 4);
}

#[test]
fn semantics_are_those_of_tcp_4() {
    are_those_of_tcp(3, 4);
}

fn run_of(cluster: &Cluster, node: usize, script: &str) -> (Option<i32>, String) {
    let mut command = command(cluster, Way::Bundle, node, "sh");
    command.args(["-c", script]).stdin(Stdio::null());
    let said = output("sh", command, PATIENCE).expect("ends");
    (said.status.code(), text(&said.stdout) + &text(&said.stderr))
}

#[test]
fn a_program_is_itself() {
    let cluster = cluster();
    assert_eq!(run_of(&cluster, 0, "exit 7").0, Some(7));
    // A signal ends it as a signal.
    assert_eq!(run_of(&cluster, 0, "kill -TERM $$").0, None);
    let (code, said) = run_of(
        &cluster,
        0,
        "pwd; id -u; echo $TABANE_TEST; ls /proc/$$/fd | wc -l",
    );
    let mut plain = cluster.lab().command(0, "sh");
    plain.args([
        "-c",
        "pwd; id -u; echo $TABANE_TEST; ls /proc/$$/fd | wc -l",
    ]);
    let plain = output("sh", plain, PATIENCE).expect("ends");
    assert_eq!((code, said), (Some(0), text(&plain.stdout)));
    let mut missing = command(&cluster, Way::Bundle, 0, "no-such-program");
    missing.stdin(Stdio::null());
    let said = output("no-such-program", missing, PATIENCE).expect("ends");
    assert_eq!(said.status.code(), Some(127));
    assert!(text(&said.stderr).contains("no-such-program"));
}

#[test]
fn nodes_are_found_by_their_names() {
    let cluster = cluster();
    let (code, said) = run_of(&cluster, 0, "getent hosts n1");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&cluster.address(1).to_string()), "{said}");
    // Outside of it nothing has changed.
    let hosts = std::fs::read_to_string("/etc/hosts").expect("is there");
    assert!(!hosts.contains(&cluster.address(1).to_string()));
}

#[test]
fn one_end_alone_speaks_plainly() {
    let cluster = cluster();
    let port = "8080";
    for (server_way, client_way) in [(Way::Plain, Way::Bundle), (Way::Bundle, Way::Plain)] {
        for address in [cluster.address(1), cluster.lab().address(1, 1)] {
            let address = address.to_string();
            let arguments = ["serve", "Echo", &address, port];
            let command = python(&cluster, server_way, 1, &arguments);
            let mut server = Program::start("server", command).expect("starts");
            let mut stdout = BufReader::new(server.take_stdout().expect("is piped"));
            stdout.read_line(&mut String::new()).expect("is ready");
            let arguments = ["connect", "Echo", &address, port];
            let client = python(&cluster, client_way, 0, &arguments);
            let said = output("client", client, PATIENCE).expect("ends");
            assert_eq!(text(&said.stdout), "b'hello'\n", "{}", text(&said.stderr));
            server.wait(PATIENCE).expect("ends");
        }
    }
}

#[test]
fn a_link_that_fails_is_not_noticed() {
    let config = LabConfig {
        links: vec![LinkSpec::mbit(200); 2],
        ..LabConfig::default()
    };
    let cluster = cluster_on(&config);
    let address = cluster.address(1).to_string();
    let arguments = ["serve", "Bulk", &address, "8080"];
    let command = python(&cluster, Way::Bundle, 1, &arguments);
    let mut server = Program::start("server", command).expect("starts");
    let mut stdout = BufReader::new(server.take_stdout().expect("is piped"));
    stdout.read_line(&mut String::new()).expect("is ready");
    let arguments = ["connect", "Bulk", &address, "8080"];
    let client = python(&cluster, Way::Bundle, 0, &arguments);
    let client = Program::start("client", client).expect("starts");
    for link in [0, 1, 0] {
        cluster
            .lab()
            .fail(link, Fault::Silent, None)
            .expect("fails");
        std::thread::sleep(std::time::Duration::from_millis(300));
        cluster.lab().heal(link).expect("heals");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let said = client.output(PATIENCE).expect("ends");
    assert_eq!(text(&said.stdout), "True\n");
    assert!(server.wait(PATIENCE).expect("ends").success());
}
