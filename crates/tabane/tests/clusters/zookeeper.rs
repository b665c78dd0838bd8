//! ZooKeeper.

use std::fs;
use std::process::Stdio;

use tabane_lab::cluster::Dialogue;

use super::*;

/// A server of three. Its data stay when it ends.
fn zookeeper(site: &Site, node: usize) -> Program {
    let directory = shown(site, &format!("zookeeper-{node}"));
    fs::create_dir_all(&directory).expect("can be made");
    let servers = [0, 1, 2].map(|node| {
        let address = site.address(node);
        format!("server.{}={address}:2888:3888;0.0.0.0:2181\n", node + 1)
    });
    let text = format!(
        "dataDir={directory}\ntickTime=1000\ninitLimit=20\nsyncLimit=10\n\
         admin.enableServer=false\n4lw.commands.whitelist=*\n{}",
        servers.concat()
    );
    let file = format!("{directory}/zoo.cfg");
    fs::write(&file, text).expect("can be written");
    fs::write(format!("{directory}/myid"), format!("{}\n", node + 1)).expect("can be written");
    let classes = format!("{directory}:/usr/share/java/zookeeper.jar");
    let mut server = under_run(site, node, "java", &["-Xmx128m", "-cp", &classes]);
    server.args(["-Dzookeeper.forceSync=no", "-XX:TieredStopAtLevel=1"]);
    server.args(["org.apache.zookeeper.server.quorum.QuorumPeerMain", &file]);
    serve_by(site, node, "zookeeper", server, 2181)
}

/// A session lives, and a watch sees every change, across all failures of links and the end of a member.
#[test]
fn zookeeper_of_three() {
    let site = three();
    let mut members = [0, 1, 2].map(|node| zookeeper(&site, node));
    let hosts = [0, 1, 2].map(|node| format!("{}:2181", site.address(node)));
    let client = |node: usize, arguments: &[&str]| python(&site, node, "zookeeper.py", arguments);
    let all = hosts.join(",");
    asked("create", client(0, &["create", &all]));
    let mut watch = client(2, &["watch", &all, "900"]);
    watch.stderr(Stdio::null());
    let mut watch = Dialogue::start("watch", watch).expect("watches");
    let said = across_failures(
        &site,
        "change",
        client(0, &["change", &hosts[1], "1", "200"]),
    );
    assert_eq!(said, "changed in one session, tries 200\n");
    let leads = |node: &usize| {
        let said = asked("leads", client(0, &["leads", &hosts[*node]]));
        said.contains("leader")
    };
    let leader = [0, 1, 2].iter().position(leads).expect("one leads");
    let more = client(0, &["change", &all, "201", "900"]);
    let said = across_failures_and_an_end(&site, "change", more, &mut members[leader]);
    assert!(said.starts_with("changed"), "{said}");
    watch.says("all of it").expect("has seen the last change");
    members[leader] = zookeeper(&site, leader);
    eventually("who comes back has all", || {
        let read = client(0, &["read", &hosts[leader], "900"]);
        let said = output("read", read, PATIENCE).expect("ends");
        said.status.success()
    });
}
