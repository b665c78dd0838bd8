//! iperf3: streams and datagrams, each way.

use std::fs;

use serde_json::Value;
use tabane_lab::cluster::PATIENCE;

use crate::common::outside::OUTSIDE;
use crate::scene::{FAMILIES, Failure, Scene, address_of_client};

through_each_failure!(iperf3);

/// How each transfer is to be. (Not datagrams both ways by one iperf3: it takes what comes first on a stream for the
/// server's answer, and fails now and then.)
const WAYS: [&[&str]; 6] = [
    &["-P", "4"],
    &["-R"],
    &["--bidir"],
    &["-u", "-b", "10M", "-l", "1200"],
    &["-u", "-b", "10M", "-l", "4000"],
    &["-u", "-b", "10M", "-l", "4000", "-R"],
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
        let mut server = scene.inside("iperf3", &["-s", "-1", "-p", &port_said]);
        server.args(["-i", "0.5", "--forceflush", "--logfile", &log]);
        servers.push(scene.serve("iperf3", server, *port));
        let arguments = [
            "--json",
            "-t",
            // All have begun by then, also on a busy machine.
            "8",
            "-c",
            OUTSIDE[*family],
            "-p",
            &port_said,
        ];
        let mut client = scene.client(*family, "iperf3", &arguments);
        client.args(*way);
        clients.push(("iperf3", client));
    }
    // One that loses its first datagram never begins.
    let have_begun = |scene: &Scene| {
        let has_begun = |port: u16| iperf3_log(scene, port).contains("sec ");
        all.iter().all(|(_, port)| has_begun(*port))
    };
    for (said, ((family, way), port)) in scene.through_when(have_begun, clients).iter().zip(&all) {
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
        let log = iperf3_log(&scene, *port);
        assert!(log.contains(address_of_client(*family)), "{log}");
    }
    for mut server in servers {
        assert!(server.wait(PATIENCE).expect("ends").success());
    }
}

fn iperf3_log(scene: &Scene, port: u16) -> String {
    fs::read_to_string(scene.path(&format!("iperf3-{port}"))).expect("is there")
}
