//! `tabane bugreport`: all that helps is in it, and no key.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use common::*;
use tabane_lab::cluster::{Cluster, PATIENCE, output};

const SECOND: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const MISTYPED: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1";
const IN_COMMENT: &str = "an-old-pass-phrase";
const OF_ENVIRONMENT: &str = "99aabbccddeeff0099aabbccddeeff0099aabbccddeeff0099aabbccddeeff00";
const OF_LOG: &str = "77665544332211007766554433221100776655443322110077665544332211aa";

/// `tabane bugreport` on node 0, of this cluster file, with keys wherever there may be some.
fn bugreport(cluster: &Cluster, words: &[&str]) -> Output {
    let mut command: Command = cluster.lab().command(0, "env");
    let directory = cluster.directory().display();
    let path = std::env::var("PATH").unwrap_or_default();
    command.arg(format!("PATH={directory}/bin:{path}"));
    command.arg(format!("TABANE_KEY={OF_ENVIRONMENT}"));
    command.arg(format!("TABANE_KEY_FILE={directory}/key"));
    command.arg(tabane()).arg("bugreport").args(words);
    command
        .arg("--config")
        .arg(cluster.directory().join("shown.toml"));
    output("tabane bugreport", command, PATIENCE).expect("ends")
}

/// Keys in the file, beside it, in its comments and in the log. Returns all of them.
fn plant(cluster: &Cluster) -> Vec<String> {
    let directory = cluster.directory();
    let file = fs::read_to_string(cluster.file()).expect("is there");
    let key = file.lines().find_map(|line| line.strip_prefix("key = \""));
    let key = key.expect("has a key").trim_end_matches('"').to_owned();
    let planted = format!(
        "second_key = \"{SECOND}\"\nkay = \"{MISTYPED}\"\n# key = \"{IN_COMMENT}\"\nnode_key_file = \"{}/own.key\"\n{file}",
        directory.display()
    );
    let private = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=";
    for (name, text) in [
        ("shown.toml", planted.as_str()),
        ("own.key", private),
        ("key", OF_ENVIRONMENT),
    ] {
        let path = directory.join(name);
        fs::write(&path, text).expect("can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("is its owner's");
    }
    // A journal of which somebody has logged keys.
    let journal = directory.join("bin/journalctl");
    fs::create_dir(directory.join("bin")).expect("can be made");
    let says = format!(
        "#!/bin/sh\necho 'n1: connected'\necho 'key={OF_LOG} {private} {}'\n",
        key.to_uppercase()
    );
    fs::write(&journal, says).expect("can be written");
    fs::set_permissions(&journal, fs::Permissions::from_mode(0o755)).expect("may be run");
    let others = [
        SECOND,
        MISTYPED,
        IN_COMMENT,
        OF_ENVIRONMENT,
        OF_LOG,
        private,
    ];
    let mut keys: Vec<String> = others.map(str::to_owned).into();
    keys.extend([key.to_uppercase(), key]);
    keys
}

#[test]
fn it_has_what_helps_and_no_key_wherever_one_is() {
    let cluster = cluster();
    let keys = plant(&cluster);
    let path = cluster.directory().join("report.txt").display().to_string();
    let done = bugreport(&cluster, &[&path]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report = fs::read_to_string(&path).expect("is written");
    for key in &keys {
        // A good part of one is too much, too.
        assert!(!report.contains(&key[..key.len() / 2]), "{key}: {report}");
        assert!(!report.contains(&key[key.len() / 2..]), "{key}: {report}");
    }
    let version = format!("version {}", env!("CARGO_PKG_VERSION"));
    for part in [
        &version,
        "TABANE_KEY_FILE",
        "\"schema\": 1",
        "watched for",
        "10.77.0.2",
        "n1: connected",
        "net.core.rmem_max = ",
        "eth1",
        "/proc/version",
    ] {
        assert!(report.contains(part), "no {part:?} in {report}");
    }
    let mode = fs::metadata(&path).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // It overwrites nothing, and prints as well.
    let again = bugreport(&cluster, &[&path]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("exists"),
        "{}",
        text(&again.stderr)
    );
    let printed = text(&bugreport(&cluster, &[]).stdout);
    assert!(printed.contains("==== tabane status --json"));
    assert!(keys.iter().all(|key| !printed.contains(key.as_str())));
}

#[test]
fn without_daemon_and_file_it_says_so() {
    let mut cluster = cluster();
    cluster.stop(0).expect("stops");
    let mut command = cluster.lab().command(0, tabane());
    command.args(["bugreport", "--config", "/nowhere/cluster.toml"]);
    let done = output("tabane bugreport", command, PATIENCE).expect("ends");
    let report = text(&done.stdout);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(report.contains("no daemon runs here"), "{report}");
    assert!(report.contains("not shown: no such file"), "{report}");
}
