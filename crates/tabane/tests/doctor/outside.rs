//! The outside address: faults are put in force one after another, in one lab, and each is named.

use std::fs;

use tabane_lab::cluster::{Cluster, PATIENCE, output};
use tabane_lab::{Fault, OutsideSpec};

use crate::common::outside::{gateway, outside, wait_standby};
use crate::common::*;
use crate::diagnosis::*;

/// Causes that are about the outside address, notes too.
fn named(said: &Diagnosis) -> Vec<&str> {
    let findings = said.value["findings"].as_array().expect("findings");
    let causes = findings.iter().filter_map(|f| f["cause"].as_str());
    let is_of_it = |cause: &&str| {
        cause.starts_with("outside_")
            || cause.contains("gateway")
            || cause.contains("router")
            || *cause == "no_standby"
    };
    causes.filter(is_of_it).collect()
}

/// Doctor on a node, until it names just these; what is under way is not told at once.
fn names(cluster: &Cluster, node: usize, wanted: &[&str]) -> Diagnosis {
    let mut last = None;
    eventually(&format!("{wanted:?} are named on node {node}"), || {
        let said = doctor(cluster, node);
        let mut causes = named(&said);
        causes.sort_unstable();
        let is_it = causes == wanted;
        last = Some(said);
        is_it
    });
    last.expect("it was asked")
}

/// The evidence and what would be right of a finding.
fn words(said: &Diagnosis, cause: &str) -> String {
    let findings = said.value["findings"].as_array().expect("findings");
    let finding = findings
        .iter()
        .find(|f| f["cause"] == cause)
        .expect("it is named");
    format!("{} {}", finding["evidence"], finding["mend"])
}

/// Adds lines to `[gateway]`, the last table of the file, which one node reads.
fn change(cluster: &Cluster, node: usize, more: &str) {
    let file = cluster.file();
    let text = fs::read_to_string(&file).expect("is read");
    let begins = text.find("[gateway]\n").expect("there is one");
    let (before, after) = text.split_at(begins + "[gateway]\n".len());
    fs::write(&file, format!("{before}{more}{after}")).expect("is written");
    run_tabane(cluster, node, "reload");
}

fn run_tabane(cluster: &Cluster, node: usize, what: &str) {
    let mut tabane = cluster.tabane(node);
    tabane.arg(what);
    let done = output("tabane", tabane, PATIENCE).expect("ends");
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn each_fault_of_the_outside_is_named() {
    let cluster = outside(OutsideSpec::default());
    wait_standby(&cluster, 0);
    names(&cluster, 0, &[]);
    names(&cluster, 2, &[]);

    // A router that is not there, a rate that the device has not, and few ports.
    let more = "routers = [\"203.0.113.254\"]\nrate = \"400gbit\"\nports_per_node = 1\n";
    change(&cluster, 0, more);
    let mut python = cluster.run(2, "python3");
    python.args(["-c", "import socket\na, b = socket.socket(), socket.socket()\na.bind(('', 8080)); a.listen()\ntry: b.bind(('', 8081)); b.listen()\nexcept OSError as e: print(e.errno)"]);
    let said = output("python3", python, PATIENCE).expect("ends");
    assert_eq!(
        text(&said.stdout),
        "105\n",
        "ENOBUFS: {}",
        text(&said.stderr)
    );
    let said = names(
        &cluster,
        0,
        &["outside_full", "outside_slow", "router_silent"],
    );
    assert!(words(&said, "router_silent").contains("203.0.113.254"));
    assert!(
        words(&said, "outside_full").contains("1 port refused"),
        "{}",
        said.value
    );
    assert!(words(&said, "outside_slow").contains("the file says 400000 Mb/s"));

    // Somebody has taken an address off.
    let address = ["address", "del", "203.0.113.1/24", "dev", "ext0"];
    run(&cluster, 0, "ip", &address);
    let said = names(
        &cluster,
        0,
        &[
            "outside_address_missing",
            "outside_full",
            "outside_slow",
            "router_silent",
        ],
    );
    assert!(words(&said, "outside_address_missing").contains("does not list 203.0.113.1"));

    // The one that stands by has no cable, and then neither has the one that serves.
    cluster
        .lab()
        .fail_outside(Fault::Carrier, Some(1))
        .expect("fails");
    let said = names(&cluster, 1, &["gateway_not_ready"]);
    assert!(
        words(&said, "gateway_not_ready").contains("ext0 has no carrier"),
        "{}",
        said.value
    );
    // The port was refused to a program of node 2.
    names(&cluster, 2, &["no_standby", "outside_full"]);
    cluster
        .lab()
        .fail_outside(Fault::Carrier, Some(0))
        .expect("fails");
    cluster
        .wait_status(2, "nobody serves", |status| {
            gateway(status)["serving"].is_null()
        })
        .expect("status");
    // What else is said of a device without carrier depends on its driver.
    let said = doctor(&cluster, 0);
    let words_of = words(&said, "no_gateway");
    assert!(words_of.contains("ext0 has no carrier"), "{words_of}");
    assert!(
        words_of.contains("`tabane doctor` on n1 says why"),
        "{words_of}"
    );
    let said = names(&cluster, 2, &["no_gateway", "outside_full"]);
    assert!(words(&said, "no_gateway").contains("n0 says that it could not serve"));
}
