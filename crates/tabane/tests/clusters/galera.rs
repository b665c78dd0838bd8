//! MariaDB, each member of which takes writes.

use std::fs;
use std::process::Stdio;

use super::*;

/// Where a member's data are, new.
fn mariadb_data(site: &Site, node: usize) -> String {
    let data = shown(site, &format!("mariadb-{node}"));
    let mut install = under_run(site, node, "unshare", &AS_NO_ROOT);
    install.args(["mariadb-install-db", "--no-defaults"]);
    install.arg(format!("--datadir={data}"));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    asked("mariadb-install-db", install);
    data
}

/// A member of three, which asks the others for what it has not got.
fn galera(site: &Site, node: usize, first: bool) -> Program {
    let data = shown(site, &format!("mariadb-{node}"));
    let all = [0, 1, 2]
        .map(|node| site.address(node).to_string())
        .join(",");
    let mut server = under_run(site, node, "unshare", &AS_NO_ROOT);
    server.args(["mariadbd", "--no-defaults"]);
    for (option, value) in [
        ("datadir", data.clone()),
        ("socket", format!("{data}/socket")),
        ("pid-file", format!("{data}/pid")),
        ("bind-address", "0.0.0.0".to_owned()),
        ("innodb-buffer-pool-size", "64M".to_owned()),
        ("innodb-flush-log-at-trx-commit", "0".to_owned()),
        ("innodb-autoinc-lock-mode", "2".to_owned()),
        ("binlog-format", "ROW".to_owned()),
        ("wsrep-on", "ON".to_owned()),
        (
            "wsrep-provider",
            "/usr/lib/galera/libgalera_smm.so".to_owned(),
        ),
        ("wsrep-cluster-address", format!("gcomm://{all}")),
        ("wsrep-node-address", site.address(node).to_string()),
        ("wsrep-sst-method", "rsync".to_owned()),
    ] {
        server.arg(format!("--{option}={value}"));
    }
    server.args(first.then_some("--wsrep-new-cluster"));
    serve_by(site, node, "mariadbd", server, 3306)
}

/// Writers at each member at once; all members stay in one group, and have the same rows.
#[test]
fn galera_of_three() {
    let site = three();
    mariadb_data(&site, 0);
    let mut members = vec![galera(&site, 0, true)];
    let grant = "create user tabane; grant all on *.* to tabane; create database d;
        create table d.t (id bigint auto_increment primary key, n bigint, text char(200))";
    let root = |statement: &str| {
        let words = ["--no-defaults", "-u", "root", "-e", statement];
        let mut root = under_run(&site, 0, "mariadb", &words);
        root.arg(format!("--socket={}/socket", shown(&site, "mariadb-0")));
        root
    };
    eventually("the first member serves", || {
        let said = output("mariadb", root("select 1"), PATIENCE).expect("ends");
        said.status.success()
    });
    asked("mariadb", root(grant));
    for node in [1, 2] {
        fs::create_dir(shown(&site, &format!("mariadb-{node}"))).expect("is new");
        members.push(galera(&site, node, false));
    }
    let sql = |node: usize, script: &str| {
        let address = site.address(node).to_string();
        let mut client = under_run(
            &site,
            (node + 1) % 3,
            "mariadb",
            &["--no-defaults", "-h", &address],
        );
        client.args([
            "-u",
            "tabane",
            "--batch",
            "--skip-column-names",
            "-e",
            script,
            "d",
        ]);
        client
    };
    let group = |node: usize| {
        let status = "show status where variable_name in
            ('wsrep_cluster_size', 'wsrep_cluster_conf_id', 'wsrep_local_state_comment')";
        asked("mariadb", sql(node, status))
    };
    for node in [0, 1, 2] {
        eventually("all are members", || {
            let said = group(node);
            said.contains("wsrep_cluster_size\t3") && said.contains("Synced")
        });
    }
    let before = group(1);
    let insert = |from: usize, to: usize| {
        let rows =
            (from..to).map(|n| format!("insert into t (n, text) values ({n}, repeat('{n}', 20));"));
        rows.collect::<String>()
    };
    // One each at two members, as links fail.
    let mut second = sql(1, &insert(1000, 2000));
    second.stdout(Stdio::piped()).stderr(Stdio::piped());
    let second = Program::start("mariadb", second).expect("starts");
    across_failures(&site, "mariadb", sql(0, &insert(0, 1000)));
    well("mariadb", &second.output(PATIENCE).expect("ends"));
    assert_eq!(group(1), before, "the group was another one");
    members[2].kill();
    across_failures(&site, "mariadb", sql(0, &insert(2000, 3000)));
    members[2] = galera(&site, 2, false);
    let sum = "set wsrep_sync_wait = 1; select count(*), sum(n), bit_xor(crc32(concat(id, ' ', n, text))) from t";
    eventually("who comes back has all", || {
        let said = output("mariadb", sql(2, sum), PATIENCE).expect("ends");
        text(&said.stdout).starts_with("3000\t4498500\t")
    });
    let sums = [0, 1, 2].map(|node| asked("mariadb", sql(node, sum)));
    assert!(sums.iter().all(|one| *one == sums[0]), "{sums:#?}");
}
