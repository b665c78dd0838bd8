//! iperf3, and names by UDP and TCP.

use std::fmt::Write;
use std::fs;

use serde_json::Value;
use tabane_lab::cluster::{PATIENCE, output};

use crate::common::eventually;
use crate::common::outside::OUTSIDE;
use crate::scene::{FAMILIES, Failure, Scene, address_of_client, names_clients};

through_each_failure!(iperf3, dnsmasq_and_dig);

/// How each transfer is to be.
const WAYS: [&[&str]; 6] = [
    &["-P", "4"],
    &["-R"],
    &["--bidir"],
    &["-u", "-b", "10M", "-l", "1200"],
    &["-u", "-b", "10M", "-l", "1200", "-R"],
    &["-u", "-b", "10M", "-l", "4000", "--bidir"],
];

/// All ways of both families at the same time, each with a server of its own.
fn iperf3(failure: Failure) {
    let mut scene = Scene::new(failure);
    let all: Vec<_> = FAMILIES
        .iter()
        .flat_map(|family| WAYS.map(|way| (*family, way)))
        .zip(5201..)
        .collect();
    let mut servers = Vec::new();
    let mut clients = Vec::new();
    for ((family, way), port) in &all {
        let (port_said, log) = (port.to_string(), scene.path(&format!("iperf3-{port}")));
        let server = scene.inside("iperf3", &["-s", "-1", "-p", &port_said, "--logfile", &log]);
        servers.push(scene.serve("iperf3", server, *port));
        let arguments = [
            "--json",
            "-t",
            "4",
            "-c",
            OUTSIDE[*family],
            "-p",
            &port_said,
        ];
        let mut client = scene.client(*family, "iperf3", &arguments);
        client.args(*way);
        clients.push(("iperf3", client));
    }
    for (said, ((family, way), port)) in scene.through(clients).iter().zip(&all) {
        // Behind it may be a warning, of datagrams that are to be cut.
        let mut said_first = serde_json::Deserializer::from_str(said).into_iter::<Value>();
        let report = said_first.next().expect("reports").expect("reports");
        assert_eq!(report.get("error"), None, "{way:?} {report:#}");
        let mut sums = vec!["sum_received"];
        if way.contains(&"--bidir") {
            sums.push("sum_received_bidir_reverse");
        }
        if way.contains(&"-u") {
            sums = vec!["sum"];
        }
        for sum in sums {
            let bytes = report["end"][sum]["bytes"].as_u64();
            assert!(bytes.is_some_and(|bytes| bytes > 0), "{way:?} {sum} {said}");
        }
        let log = fs::read_to_string(scene.path(&format!("iperf3-{port}"))).expect("is there");
        assert!(log.contains(address_of_client(*family)), "{log}");
    }
    for mut server in servers {
        assert!(server.wait(PATIENCE).expect("ends").success());
    }
}

/// Clients ask for many names, by datagrams, and each over a connection of its own. A datagram may be lost: dig says so, and asks again.
fn dnsmasq_and_dig(failure: Failure) {
    const PORT: &str = "5300";
    const NAMES: usize = 1000;
    let mut scene = Scene::new(failure);
    let (mut hosts, mut names, mut expected) = (String::new(), String::new(), String::new());
    for n in 0..NAMES {
        let address = format!("198.51.{}.{}", 100 + n / 200, n % 200);
        let _ = writeln!(hosts, "{address} h{n}.example");
        let _ = writeln!(names, "h{n}.example A");
        expected += &format!("{address}\n");
    }
    fs::write(scene.path("hosts"), hosts).expect("can be written");
    fs::write(scene.path("names"), names).expect("can be written");
    let mut server = scene.inside(
        "dnsmasq",
        &["-k", "-C", "/dev/null", "-p", PORT, "-h", "-R"],
    );
    server.arg(format!("--addn-hosts={}", scene.path("hosts")));
    server.args([
        "--log-queries=extra",
        "--log-facility=-",
        "--user=",
        "--pid-file=",
    ]);
    let _server = scene.serve("dnsmasq", server, 5300);
    let dig = |family: usize, arguments: &[&str]| {
        let host = format!("@{}", OUTSIDE[family]);
        let mut dig = scene.client(family, "dig", &[&host, "-p", PORT, "+short"]);
        dig.args(arguments);
        dig
    };
    let mut clients = Vec::new();
    for family in FAMILIES {
        let batch = ["-f", &scene.path("names")];
        for way in [&["+notcp", "+tries=20", "+timeout=1"][..], &["+tcp"]] {
            clients.push(("dig", dig(family, &[way, &batch].concat())));
        }
    }
    eventually("dnsmasq answers", || {
        let one = dig(0, &["h0.example"]);
        output("dig", one, PATIENCE).expect("ends").stdout == b"198.51.100.0\n"
    });
    for said in scene.through_from(100 << 10, clients) {
        let answers = said
            .lines()
            .filter(|line| !(line.starts_with(";;") && line.ends_with("timed out")));
        let answers = answers.flat_map(|line| [line, "\n"]).collect::<String>();
        assert!(answers == expected, "{said}");
    }
    names_clients(&scene.log(5300));
}
