//! `tabane run`: programs nobody changed, compared with themselves over plain TCP.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::*;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};
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
        Way::Bundle => cluster.run(node, program),
    }
}

/// What `python3` is: it may be a script that looks for it, and takes longer than most cases.
fn interpreter() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut ask = Command::new("python3");
        ask.args(["-c", "import sys; print(sys.executable, end='')"]);
        text(&output("python3", ask, PATIENCE).expect("ends").stdout)
    })
}

fn python(cluster: &Cluster, way: Way, node: usize, arguments: &[&str]) -> Command {
    let mut command = command(cluster, way, node, interpreter());
    command.arg(semantics()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Of IP, and where the other program is found over plain TCP, and under `tabane run`.
type Place = fn(&Cluster, Way) -> String;

/// By the address of its virtual NIC.
fn in_ipv4(cluster: &Cluster, way: Way) -> String {
    match way {
        Way::Plain => cluster.lab().address(1, 0).to_string(),
        Way::Bundle => cluster.address(1).to_string(),
    }
}

/// The same.
fn in_ipv6(_: &Cluster, way: Way) -> String {
    match way {
        Way::Plain => link_v6(0, 2),
        Way::Bundle => format!("{VNIC_V6}2"),
    }
}

/// What client and server of a case print.
fn outcome(cluster: &Cluster, way: Way, place: Place, case: &str, port: u16) -> [String; 2] {
    let (address, port) = (place(cluster, way), port.to_string());
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
    let mut list = Command::new(interpreter());
    list.arg(semantics()).arg("list");
    let said = output("semantics.py", list, PATIENCE).expect("ends");
    let names = text(&said.stdout);
    let numbered = names.lines().zip(20_000..).skip(first).step_by(of);
    numbered
        .map(|(name, port)| (name.to_owned(), port))
        .collect()
}

fn are_those_of_tcp(cluster: &Cluster, place: Place, first: usize, of: usize) {
    let mut differences = String::new();
    let cases = cases(first, of);
    assert!(!cases.is_empty());
    for (case, port) in cases {
        let [plain, bundle] =
            [Way::Plain, Way::Bundle].map(|way| outcome(cluster, way, place, &case, port));
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
    are_those_of_tcp(&cluster(), in_ipv4, 0, 4);
}

#[test]
fn semantics_are_those_of_tcp_2() {
    are_those_of_tcp(&cluster(), in_ipv4, 1, 4);
}

#[test]
fn semantics_are_those_of_tcp_3() {
    are_those_of_tcp(&cluster(), in_ipv4, 2, 4);
}

#[test]
fn semantics_are_those_of_tcp_4() {
    are_those_of_tcp(&cluster(), in_ipv4, 3, 4);
}

#[test]
fn semantics_are_those_of_tcp_in_ipv6_1() {
    are_those_of_tcp(&cluster_of_ipv6(ClusterConfig::default()), in_ipv6, 0, 4);
}

#[test]
fn semantics_are_those_of_tcp_in_ipv6_2() {
    are_those_of_tcp(&cluster_of_ipv6(ClusterConfig::default()), in_ipv6, 1, 4);
}

#[test]
fn semantics_are_those_of_tcp_in_ipv6_3() {
    are_those_of_tcp(&cluster_of_ipv6(ClusterConfig::default()), in_ipv6, 2, 4);
}

#[test]
fn semantics_are_those_of_tcp_in_ipv6_4() {
    are_those_of_tcp(&cluster_of_ipv6(ClusterConfig::default()), in_ipv6, 3, 4);
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
    is_itself(&cluster, |program| cluster.run(0, program));
}

/// Some supervisors and containers start everything so.
#[test]
fn one_whose_children_are_nobodys_is_started_as_others() {
    let cluster = cluster();
    let words = ["env", "--ignore-signal=CHLD"];
    let mut run = tabane_behind(&cluster, 0, &words, "run");
    run.args(["--", "echo", "runs"]).stdin(Stdio::null());
    let said = output("tabane run", run, PATIENCE).expect("ends");
    assert_eq!(text(&said.stdout), "runs\n", "{}", text(&said.stderr));
}

/// A script that starts programs so may itself be started so.
#[test]
fn one_within_another_changes_nothing() {
    let cluster = cluster();
    let (tabane, file) = (tabane().display(), cluster.file().display().to_string());
    let place = "readlink /proc/self/ns/net";
    let run = format!("{tabane} run --config {file} --");
    let script = format!("{place}; {run} {place}; {run} getent hosts n1; {run} sh -c 'exit 7'");
    let (code, said) = run_of(&cluster, 0, &script);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((code, lines.len()), (Some(7), 3), "{said}");
    assert_eq!(lines[0], lines[1]);
    assert!(lines[2].contains(&cluster.address(1).to_string()), "{said}");
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

/// Where the disk is full or may not be written, as in a container's image, nothing is lacking.
#[test]
fn nodes_are_found_by_their_names_where_nothing_can_be_written() {
    let cluster = cluster();
    let mut command = tabane_behind(&cluster, 0, &["env", "TMPDIR=/nowhere"], "run");
    let script = "getent hosts n1; readlink /proc/self/ns/net; ls /proc/hosts";
    command.args(["--", "sh", "-c", script]);
    command.stdin(Stdio::null());
    let said = output("tabane run", command, PATIENCE).expect("ends");
    let (out, err) = (text(&said.stdout), text(&said.stderr));
    assert!(out.contains(&cluster.address(1).to_string()), "{out}{err}");
    // What was mounted for that is seen by nobody.
    assert!(out.contains("net:["), "{out}{err}");
    assert!(!out.contains("/proc/hosts"), "{out}{err}");
    assert!(!err.contains("warning"), "{err}");
}

/// Client and server of a case, each started in its way, at an address of node 1; what both say.
fn talk(cluster: &Cluster, ways: [Way; 2], case: &str, to: [&str; 2]) -> String {
    let [server_way, client_way] = ways;
    let arguments = |side| [side, case, to[0], to[1]];
    let command = python(cluster, server_way, 1, &arguments("serve"));
    let mut server = Program::start("server", command).expect("starts");
    let mut stdout = BufReader::new(server.take_stdout().expect("is piped"));
    let mut served = String::new();
    stdout.read_line(&mut served).expect("is ready");
    let client = python(cluster, client_way, 0, &arguments("connect"));
    let said = output("client", client, PATIENCE).expect("ends");
    stdout.read_to_string(&mut served).expect("can be read");
    server.wait(PATIENCE).expect("ends");
    text(&said.stdout) + &text(&said.stderr) + &served
}

#[test]
fn one_end_alone_speaks_plainly() {
    let cluster = cluster();
    let addresses = [cluster.address(1), cluster.lab().address(1, 1)].map(|ip| ip.to_string());
    let cases = ["DatagramsToAnyAddress", "DatagramsOfAnyPort"];
    let talk = |ways, case, address: &str| talk(&cluster, ways, case, [address, "8080"]);
    // Before anything else: the agent gives a port back a moment after its program has ended.
    let plain = addresses
        .each_ref()
        .map(|address| cases.map(|case| talk([Way::Plain; 2], case, address)));
    for ways in [[Way::Plain, Way::Bundle], [Way::Bundle, Way::Plain]] {
        for (address, plain) in addresses.iter().zip(&plain) {
            let said = talk(ways, "Echo", address);
            assert_eq!(said, "b'hello'\nready\nechoed 5\n");
            let said = cases.map(|case| talk(ways, case, address));
            assert_eq!(said, *plain, "{ways:?}");
        }
    }
}

/// In either family: at a link's address a server sees that of the client's link.
#[test]
fn both_ends_see_the_addresses_that_plain_tcp_has() {
    for (cluster, addresses) in [
        (cluster(), ["10.77.0.2", "10.77.1.2"].map(str::to_owned)),
        (
            cluster_of_ipv6(ClusterConfig::default()),
            [0, 1].map(|link| link_v6(link, 2)),
        ),
    ] {
        let vnic = match addresses[0].contains(':') {
            true => format!("{VNIC_V6}2"),
            false => cluster.address(1).to_string(),
        };
        // The plain way first: an agent gives a port back a moment after its program has ended.
        for ways in [[Way::Plain; 2], [Way::Bundle; 2], [Way::Bundle, Way::Plain]] {
            for address in addresses.iter().chain([&vnic]) {
                let said = talk(&cluster, ways, "Addresses", [address, "8080"]);
                let all = "True True\nTrue\nready\nTrue True\n";
                assert_eq!(said, all, "{address} {ways:?}");
            }
        }
    }
}

/// Also at addresses of which the cluster file knows nothing.
#[test]
fn a_server_is_reached_at_every_address_of_its_node() {
    const OTHER: &str = "192.0.2.77";
    let cluster = cluster();
    let via = cluster.lab().address(1, 0).to_string();
    for (node, arguments) in [
        (1, &["address", "add", OTHER, "dev", "eth0"][..]),
        (0, &["route", "add", OTHER, "via", &via]),
    ] {
        cluster.lab().ip(node, arguments).expect("is added");
    }
    for client in [Way::Plain, Way::Bundle] {
        let ways = [Way::Bundle, client];
        let said = talk(&cluster, ways, "EchoToAnyAddress", [OTHER, "8080"]);
        assert_eq!(said, "b'hello'\nready\nTrue\nechoed 5\n", "{client:?}");
        let said = talk(&cluster, ways, "DatagramsToAnyAddress", [OTHER, "8080"]);
        let answers = "b'ONE'\nb'TWO'\nb'END'\nready\nanswered\n";
        assert_eq!(said, answers, "{client:?}");
    }
}

/// One on which tabane has not run since this one's daemon began: plainly, and with its answers.
#[test]
fn a_node_without_a_daemon_is_connected_to_plainly() {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("a file");
    cluster.start(0).expect("starts");
    let at_link = cluster.lab().address(1, 0).to_string();
    let said = talk(
        &cluster,
        [Way::Plain, Way::Bundle],
        "Echo",
        [&at_link, "8080"],
    );
    assert_eq!(said, "b'hello'\nready\nechoed 5\n");
    let nobody = format!("import socket; socket.create_connection(('{at_link}', 8081))");
    let mut client = cluster.run(0, "python3");
    client.args(["-c", &nobody]).stdin(Stdio::null());
    let said = text(&output("python3", client, PATIENCE).expect("ends").stderr);
    assert!(said.contains("ConnectionRefusedError"), "{said}");
    // When there is one, it is asked.
    cluster.start(1).expect("starts");
    wait_path(&cluster, 0, "up");
    let said = talk(&cluster, [Way::Bundle; 2], "Echo", [&at_link, "8082"]);
    assert_eq!(said, "b'hello'\nready\nechoed 5\n");
    let run = cluster.status(0).expect("status")["node"]["run"].take();
    assert_eq!(run["carried"], 1, "{run}");
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
