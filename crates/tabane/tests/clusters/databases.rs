//! Databases whose members follow one another.

use super::*;

/// The primary answers when the standby has done the same; a standby that takes over has all that was answered.
#[test]
fn postgresql_replication() {
    let site = Site::from(cluster_on(&slow_links()));
    let [primary, standby] = ["primary", "standby"].map(|name| shown(&site, name));
    postgresql_data(&site, 1, &primary);
    let mut start = postgresql(&site, 1, &primary);
    start.args([
        "-c",
        "synchronous_standby_names=*",
        "-c",
        "wal_keep_size=1GB",
    ]);
    start.args(["-c", "synchronous_commit=remote_apply"]);
    let mut first = serve_by(&site, 1, "postgres", start, 5432);
    postgresql_answers(&site, 1);
    let mut fill = pgbench(&site, &["-i", "-s", "5", "-q"]);
    // There is no standby yet that could be waited for.
    fill.env("PGOPTIONS", "-c synchronous_commit=local");
    across_failures(&site, "pgbench -i", fill);

    let address = site.address(1).to_string();
    let program = |name: &str| postgresql_programs().join(name).display().to_string();
    let mut copy = under_run(&site, 0, "unshare", &AS_NO_ROOT);
    copy.arg(program("pg_basebackup"));
    copy.args([
        "-h", &address, "-U", "tabane", "-D", &standby, "-R", "-c", "fast",
    ]);
    across_failures(&site, "pg_basebackup", copy);
    let verify = under_run(&site, 0, &program("pg_verifybackup"), &[&standby]);
    asked("pg_verifybackup", verify);
    let second = postgresql(&site, 0, &standby);
    let _second = serve_by(&site, 0, "postgres", second, 5432);
    let sender = "select pid, sync_state from pg_stat_replication";
    eventually("the standby follows", || {
        psql(&site, 1, sender).contains("|sync")
    });
    let before = psql(&site, 1, sender);

    let load = pgbench(&site, &["-c", "8", "-j", "2", "-t", "200"]);
    let said = across_failures(&site, "pgbench", load);
    assert!(said.contains("1600/1600"), "{said}");
    assert!(said.contains("number of failed transactions: 0"), "{said}");
    assert_eq!(
        psql(&site, 1, sender),
        before,
        "the standby had to come again"
    );
    let [here, there] = [1, 0].map(|node| psql(&site, node, CONTENT));
    assert_eq!(here, there);

    first.kill();
    assert_eq!(psql(&site, 0, "select pg_promote()"), "t\n");
    assert_eq!(psql(&site, 0, CONTENT), here);
    psql(&site, 0, "delete from pgbench_history");
}

/// What pgbench has left, so that no row could be another one.
const CONTENT: &str = "select count(*), sum(hashtext(a::text)::bigint) from pgbench_accounts a
    union all select count(*), sum(hashtext(h::text)::bigint) from pgbench_history h
    union all select count(*), sum(hashtext(t::text)::bigint) from pgbench_tellers t";

/// pgbench with the server on node 1.
fn pgbench(site: &Site, arguments: &[&str]) -> Command {
    let address = site.address(1).to_string();
    let mut client = under_run(site, 0, "pgbench", &["-h", &address, "-U", "tabane"]);
    client.args(arguments).arg("postgres");
    client
}

/// What a node's server answers to an SQL statement, asked from the other node.
fn psql(site: &Site, node: usize, statement: &str) -> String {
    let address = site.address(node).to_string();
    let mut client = under_run(site, 1 - node, "psql", &["-h", &address, "-U", "tabane"]);
    client.args(["-Atc", statement, "postgres"]);
    asked("psql", client)
}
