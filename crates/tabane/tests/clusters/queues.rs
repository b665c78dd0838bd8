//! Queues and messages, by servers of a cluster.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use tabane_lab::cluster::Dialogue;

use super::*;

/// A server of three, with a store of its own.
fn nats(site: &Site, node: usize) -> Program {
    let routes = [0, 1, 2].map(|node| format!("nats://{}:6222", site.address(node)));
    let (root, routes) = (site.directory().display(), routes.join(", "));
    let text = format!(
        "server_name: n{node}\nlisten: \"0.0.0.0:4222\"\n\
         jetstream {{ store_dir: \"{root}/nats-{node}\" }}\n\
         cluster {{ name: three, listen: \"0.0.0.0:6222\", routes: [ {routes} ] }}\n"
    );
    let file = site.directory().join(format!("nats-{node}.conf"));
    fs::write(&file, text).expect("can be written");
    let file = file.display().to_string();
    serve(site, node, "nats-server", &["-c", &file], 4222)
}

/// What is published is heard at another server, each once and in order; what is stored stays, also without its leader.
#[test]
fn nats_of_three() {
    let site = three();
    let mut members = [0, 1, 2].map(|node| nats(&site, node));
    let all = [0, 1, 2].map(|node| site.address(node).to_string());
    let client = |node: usize, arguments: &[&str]| python(&site, node, "nats.py", arguments);
    let made = across_failures(&site, "create", client(0, &["create", &all[0]]));
    assert!(made.starts_with("created"), "{made}");
    let mut listens = client(2, &["listen", &all[2], "2000"]);
    listens.stderr(Stdio::inherit());
    let mut listens = Dialogue::start("listen", listens).expect("listens");
    let said = across_failures(
        &site,
        "publish",
        client(0, &["publish", &all[1], "1", "2000"]),
    );
    // By one connection, without trying again.
    assert_eq!(said, "published by 1\n");
    listens.says("all of it").expect("has heard all");

    let stored = |node: usize, count: &str| -> Value {
        let said = asked("read", client(node, &["read", &all[node], count]));
        let report = said.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(report.expect("reports")).expect("is JSON")
    };
    let report = stored(0, "2000");
    let leader = report["leader"]
        .as_str()
        .and_then(|name| name.strip_prefix('n'));
    let leader: usize = leader.and_then(|n| n.parse().ok()).expect("one leads");
    let mut hosts = all.clone();
    // It asks one that stays.
    hosts.rotate_left((leader + 1) % 3);
    let more = client(0, &["publish", &hosts.join(","), "2001", "3000"]);
    let said = across_failures_and_an_end(&site, "publish", more, &mut members[leader]);
    assert!(said.starts_with("published"), "{said}");
    let other = (leader + 1) % 3;
    assert_eq!(stored(other, "3000")["messages"], 3000);
    members[leader] = nats(&site, leader);
    eventually("who comes back has all", || {
        stored(leader, "3000")["current"] == serde_json::json!([true, true])
    });
}

/// A broker of three, begun, that look for each other at the beginning, and what tells them each other's ports.
fn rabbitmq(site: &Site, node: usize) -> (Program, Program) {
    let root = site.directory().join(format!("rabbitmq-{node}"));
    fs::create_dir(&root).expect("is new");
    let cookie = root.join(".erlang.cookie");
    fs::write(&cookie, "tabane").expect("can be written");
    fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).expect("is its owner's");
    fs::write(root.join("plugins"), "[].\n").expect("can be written");
    let members = [0, 1, 2].map(|node| {
        format!(
            "cluster_formation.classic_config.nodes.{} = rabbit@n{node}\n",
            node + 1
        )
    });
    let text = format!(
        "loopback_users = none\ncluster_formation.peer_discovery_backend = classic_config\n{}",
        members.concat()
    );
    fs::write(root.join("rabbitmq.conf"), text).expect("can be written");
    // Erlang asks for the machine's name; by DNS it would wait, as no server of that answers in a lab.
    fs::write(root.join("inetrc"), "{lookup, [file]}.\n").expect("can be written");
    let ports = serve(site, node, "epmd", &[], 4369);
    let mut server = rabbitmq_program(site, node, "rabbitmq-server");
    // It is started as by systemd: not behind a shell that would outlive it.
    server.env("RUNNING_UNDER_SYSTEMD", "true");
    (ports, begin(site, node, "rabbitmq-server", server, 5672))
}

/// A program of the broker's on a node.
fn rabbitmq_program(site: &Site, node: usize, name: &str) -> Command {
    let root = site.directory().join(format!("rabbitmq-{node}"));
    let program = format!("/usr/lib/rabbitmq/bin/{name}");
    let mut command = under_run(site, node, &program, &[]);
    command.current_dir(&root).env("HOME", &root);
    command.env("ERL_FLAGS", "-start_epmd false");
    command.env("ERL_INETRC", root.join("inetrc"));
    command.env("RABBITMQ_NODENAME", format!("rabbit@n{node}"));
    for (name, value) in [
        ("CONF_ENV_FILE", "none"),
        ("CONFIG_FILE", "rabbitmq.conf"),
        ("ENABLED_PLUGINS_FILE", "plugins"),
        ("MNESIA_BASE", "mnesia"),
        ("LOG_BASE", "log"),
        ("PID_FILE", "pid"),
    ] {
        command.env(format!("RABBITMQ_{name}"), root.join(value));
    }
    command
}

/// What is confirmed is read, once and in order, from another member, and the members never miss each other.
#[test]
fn rabbitmq_of_three() {
    let site = three();
    // Each waits for the others before it listens.
    let mut members = [0, 1, 2].map(|node| rabbitmq(&site, node));
    for (node, (_, server)) in members.iter_mut().enumerate() {
        listens(&site, node, server, 5672);
    }
    let status = |node: usize| {
        let mut ctl = rabbitmq_program(&site, node, "rabbitmqctl");
        ctl.args(["--formatter", "json", "cluster_status"]);
        let said = output("rabbitmqctl", ctl, PATIENCE).expect("ends");
        let report: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        (
            report["running_nodes"].as_array().map_or(0, Vec::len),
            report["partitions"].clone(),
        )
    };
    eventually("all are members", || status(0).0 == 3);
    let all = [0, 1, 2].map(|node| site.address(node).to_string());
    let client = |arguments: &[&str]| python(&site, 0, "rabbitmq.py", arguments);
    let said = across_failures(&site, "publish", client(&["publish", &all[1], "1", "3000"]));
    assert_eq!(said, "published by 1\n");
    assert_eq!(status(2), (3, serde_json::json!({})));
    let hosts = [&all[2], &all[0]].map(String::as_str).join(",");
    let more = client(&["publish", &hosts, "3001", "4000"]);
    let (_, member) = &mut members[1];
    let said = across_failures_and_an_end(&site, "publish", more, member);
    assert!(said.starts_with("published"), "{said}");
    let said = across_failures(&site, "consume", client(&["consume", &all[2], "4000"]));
    assert_eq!(said, "all of it\n");
}
