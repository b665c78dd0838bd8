//! Metrics as Prometheus would fetch them, and what an operator sees of a
//! link that fails.

mod common;

use std::fs;
use std::process::Stdio;

use common::*;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, output};
use tabane_lab::{Fault, LabConfig};

const PORT: u16 = 9577;

/// Two nodes that serve metrics.
fn cluster_with_metrics() -> Cluster {
    cluster_with(&LabConfig::default(), |file| {
        format!("metrics = {PORT}\n{file}")
    })
}

/// What curl says on node 0: exit code, and what it got, with the answer's head.
fn curl(cluster: &Cluster, path: &str) -> (Option<i32>, String) {
    let mut curl = cluster.lab().command(0, "curl");
    curl.args(["--silent", "--include", "--max-time", "30"]);
    curl.arg(format!("http://127.0.0.1:{PORT}{path}"));
    let got = output("curl", curl, PATIENCE).expect("curl ends");
    (got.status.code(), text(&got.stdout))
}

fn scrape(cluster: &Cluster) -> String {
    let (code, got) = curl(cluster, "/metrics");
    assert_eq!(code, Some(0), "{got}");
    assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
    assert!(got.ends_with("# EOF\n"), "{got}");
    got
}

/// Scrapes until all of these lines are there.
fn scrape_until(cluster: &Cluster, lines: &[&str]) {
    eventually(&format!("{lines:?} in the metrics"), || {
        let got = scrape(cluster);
        lines
            .iter()
            .all(|wanted| got.lines().any(|line| line == *wanted))
    });
}

fn count(log: &str, what: &str) -> usize {
    log.lines().filter(|line| line.contains(what)).count()
}

#[test]
fn a_scrape_sees_a_link_fail_and_redundancy_lost() {
    let cluster = cluster_with_metrics();
    scrape_until(
        &cluster,
        &[
            "tabane_peer_up{peer=\"n1\"} 1",
            "tabane_path_up{peer=\"n1\",link=\"1\"} 1",
            "tabane_peer_redundancy_lost{peer=\"n1\"} 0",
            "tabane_path_failures_total{peer=\"n1\",link=\"1\"} 0",
        ],
    );
    cluster.lab().fail(1, Fault::Silent, None).expect("fails");
    scrape_until(
        &cluster,
        &[
            "tabane_peer_up{peer=\"n1\"} 1",
            "tabane_path_up{peer=\"n1\",link=\"0\"} 1",
            "tabane_path_up{peer=\"n1\",link=\"1\"} 0",
            "tabane_peer_redundancy_lost{peer=\"n1\"} 1",
            "tabane_path_failures_total{peer=\"n1\",link=\"1\"} 1",
        ],
    );
    let mut status = cluster.tabane(0);
    status.arg("status");
    let shown = text(
        &output("tabane status", status, PATIENCE)
            .expect("ends")
            .stdout,
    );
    assert!(
        shown.contains("redundancy lost: 1 of 2 links works"),
        "{shown}"
    );

    cluster.lab().heal(1).expect("heals");
    scrape_until(
        &cluster,
        &[
            "tabane_path_up{peer=\"n1\",link=\"1\"} 1",
            "tabane_peer_redundancy_lost{peer=\"n1\"} 0",
        ],
    );
    let log = cluster.log(0);
    assert_eq!(count(&log, "n1: redundancy lost"), 1, "{log}");
    assert_eq!(count(&log, "n1: redundancy regained"), 1, "{log}");
}

#[test]
fn scrapers_that_hang_or_talk_nonsense_are_in_nobodys_way() {
    let cluster = cluster_with_metrics();
    scrape(&cluster);
    let to = format!("TCP:127.0.0.1:{PORT}");
    let mute: Vec<Program> = (0..20)
        .map(|_| {
            let mut socat = cluster.lab().command(0, "socat");
            socat.args(["-", &to]);
            socat.stdin(Stdio::piped());
            socat.stdout(Stdio::null()).stderr(Stdio::null());
            Program::start("socat", socat).expect("socat starts")
        })
        .collect();
    let mut flood = cluster.lab().command(0, "socat");
    flood.args(["-u", "OPEN:/dev/zero", &to]);
    let mut flood = Program::start_quiet("socat", flood).expect("socat starts");
    // It is refused after so many bytes and cannot go on.
    flood.wait(PATIENCE).expect("ends");
    // Of those that still connect, one may take its place.
    eventually("a scrape among them succeeds", || {
        curl(&cluster, "/metrics").1.ends_with("# EOF\n")
    });
    assert_eq!(pings(&cluster, 0, 1, 3, 56), 3);
    cluster.status(0).expect("the daemon answers");
    drop(mute);

    let (code, got) = curl(&cluster, "/");
    assert_eq!(code, Some(0), "{got}");
    assert!(got.starts_with("HTTP/1.1 404 "), "{got}");
    assert!(got.ends_with("the metrics are at /metrics\n"), "{got}");
}

#[test]
fn without_the_key_nothing_listens() {
    const REFUSED: i32 = 7;
    let cluster = cluster();
    assert_eq!(curl(&cluster, "/metrics").0, Some(REFUSED));
}

#[test]
fn an_address_that_cannot_be_had_is_told_and_no_reason_to_stop() {
    let lab = lab(&LabConfig::default());
    let mut cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is written");
    let file = cluster.file();
    let text = fs::read_to_string(&file).expect("is read");
    fs::write(&file, format!("metrics = \"10.9.9.9:{PORT}\"\n{text}")).expect("is written");
    cluster.start(0).expect("starts");
    eventually("the log tells it", || {
        cluster
            .log(0)
            .contains("warning: metrics cannot be served at 10.9.9.9:9577")
    });
    let add = ["address", "add", "10.9.9.9/32", "dev", "lo"];
    cluster.lab().ip(0, &add).expect("is added");
    eventually("they are served once it can be had", || {
        cluster
            .log(0)
            .contains("metrics are at http://10.9.9.9:9577/metrics")
    });
}

#[test]
fn another_address_with_the_same_port_is_served_after_a_reload() {
    let cluster = cluster_with_metrics();
    let file = cluster.file();
    let text = fs::read_to_string(&file).expect("is read");
    // The second one was there before.
    for (address, times) in [("0.0.0.0", 1), ("127.0.0.1", 2)] {
        let line = format!("metrics = \"{address}:{PORT}\"");
        let rest = text.split_once('\n').expect("the line of metrics").1;
        fs::write(&file, format!("{line}\n{rest}")).expect("is written");
        let mut reload = cluster.tabane(0);
        reload.arg("reload");
        let done = output("tabane", reload, PATIENCE).expect("ends");
        assert!(done.status.success(), "{}", common::text(&done.stderr));
        let told = format!("metrics are at http://{address}:{PORT}/metrics");
        eventually(&told, || count(&cluster.log(0), &told) == times);
        scrape(&cluster);
    }
    let log = cluster.log(0);
    assert!(!log.contains("cannot be served"), "{log}");
}

#[test]
fn what_the_daemon_finds_wrong_is_in_status_log_and_metrics_until_it_is_mended() {
    let cluster = cluster_with_metrics();
    let past = ["10.99.0.2/32", "via", "10.77.0.2"];
    let route = |verb| {
        let words = [&["route", verb], &past[..]].concat();
        cluster.lab().ip(0, &words).expect("is changed");
    };
    route("add");
    let metric = "tabane_finding{code=\"vnic_route\",severity=\"degraded\"} 1";
    scrape_until(&cluster, &[metric]);
    let status = cluster.status(0).expect("status");
    let found = &status["node"]["findings"];
    assert_eq!(found[0]["code"], "vnic_route", "{found:#}");
    assert_eq!(found[0]["peers"], serde_json::json!(["n1"]), "{found:#}");
    assert!(found[0]["mend"].is_string(), "{found:#}");
    let said = |words: &[&str]| {
        let mut command = cluster.tabane(0);
        command.args(words);
        let done = output("tabane status", command, PATIENCE).expect("ends");
        (done.status.code(), text(&done.stdout))
    };
    let (_, shown) = said(&["status"]);
    assert!(shown.contains("[vnic_route]"), "{shown}");
    let (code, checked) = said(&["status", "--check"]);
    assert_eq!(code, Some(1), "{checked}");
    assert!(checked.contains("[vnic_route]"), "{checked}");

    route("del");
    eventually("nothing is found any more", || {
        !scrape(&cluster).contains("vnic_route")
    });
    let log = cluster.log(0);
    assert_eq!(count(&log, "found: Packets to n1 "), 1, "{log}");
    assert_eq!(count(&log, "no longer: Packets to n1 "), 1, "{log}");
    let other = cluster.log(1);
    assert_eq!(count(&other, "found: "), 0, "{other}");
}
