//! Many connections at once, and connections within one.

use std::fs;

use serde_json::Value;

use super::*;

/// As many as iperf3 can, both ways at once.
#[test]
fn iperf3_of_128_both_ways() {
    for site in Site::each() {
        let _server = serve(&site, 1, "iperf3", &["-s", "-1"], 5201);
        let address = site.address(1).to_string();
        let mut client = under_run(&site, 0, "iperf3", &["-c", &address, "-t", "5"]);
        client.args(["-P", "128", "--bidir", "--json"]);
        let directory = site.directory().join("report.json");
        client.args(["--logfile", &directory.display().to_string()]);
        across_failures(&site, "iperf3", client);
        let report = fs::read(&directory).expect("is there");
        let report: Value = serde_json::from_slice(&report).expect("reports");
        assert_eq!(report.get("error"), None, "{report:#}");
        let streams = report["end"]["streams"].as_array().expect("are listed");
        assert_eq!(streams.len(), 256);
        for way in ["sum_received", "sum_received_bidir_reverse"] {
            let bytes = report["end"][way]["bytes"].as_u64();
            assert!(bytes.is_some_and(|bytes| bytes > 0), "{way}: {report:#}");
        }
    }
}

/// A tunnel of each sort through one ssh, open across all failures: what comes out of each is what went in.
#[test]
fn ssh_tunnels() {
    let site = Site::from(cluster_on(&slow_links()));
    let file = content(&site, "file");
    let _there = nginx(&site, 1, 8080);
    let _here = nginx(&site, 0, 8081);
    let (_server, shell) = sshd(&site, 1);
    let mut words = shell.split(' ');
    let mut ssh = under_run(&site, 0, words.next().expect("ssh"), &[]);
    ssh.args(words)
        .args(["-N", "-o", "ExitOnForwardFailure=yes"]);
    ssh.args(["-L", "9001:127.0.0.1:8080", "-R", "9002:127.0.0.1:8081"]);
    ssh.args(["-D", "9003", &format!("user@{}", site.address(1))]);
    let mut tunnels = serve_by(&site, 0, "ssh", ssh, 9003);
    let there = url(&site, 1, 8080, "file");
    let ways: [(&str, usize, &[&str]); 3] = [
        ("-L", 0, &["http://127.0.0.1:9001/file"]),
        ("-R", 1, &["http://127.0.0.1:9002/file"]),
        ("-D", 0, &["--socks5", "127.0.0.1:9003", &there]),
    ];
    for (way, node, arguments) in ways {
        let copy = site.directory().join(format!("copy{way}"));
        let mut curl = under_run(&site, node, "curl", &["-sS", "--fail", "-o"]);
        curl.arg(&copy).args(arguments);
        across_failures(&site, &format!("curl by ssh {way}"), curl);
        same(&file, &copy);
    }
    assert_eq!(tunnels.ended().expect("is known"), None, "ssh has ended");
}
