//! Others set the same kernel: rules, endpoints, limits. What is theirs stays, what is tabane's comes back, and
//! what cannot be steered is told.

use serde_json::Value;

use super::*;

/// A cluster without daemons yet, on whose nodes each link has a table of its own, as cloud-init makes them and
/// guides to Multipath TCP say.
fn with_tables() -> Cluster {
    let cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    for (node, link) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let own = cluster.lab().address(node, link);
        let route =
            format!("ip route add 10.77.{link}.0/24 dev eth{link} src {own} table 10{link}");
        said(&cluster, node, &route);
        let rule = format!("ip rule add from {own} lookup 10{link}");
        said(&cluster, node, &rule);
    }
    cluster
}

fn start(cluster: &mut Cluster) -> Vec<Kernel> {
    let before = (0..2).map(|node| kernel(cluster, node)).collect();
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    before
}

/// Wait until as many routes of a node's as there are links are taken, in whatever table.
fn wait_taken(cluster: &Cluster) {
    for (node, link) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let [own, to] = [node, 1 - node].map(|node| cluster.lab().address(node, link));
        let get = format!("ip route get fibmatch {to} from {own}");
        eventually(&format!("{to} is steered to"), || {
            said(cluster, node, &get).contains("proto 77")
        });
    }
}

/// What node 0 says that it does not steer, once it is as wanted.
pub fn wait_unsteered(cluster: &Cluster, count: usize) -> Vec<Value> {
    let unsteered = |status: &Value| {
        let list = status["node"]["mptcp"]["unsteered"].as_array();
        list.cloned().unwrap_or_default()
    };
    let what = format!("{count} unsteered");
    let is_so =
        |status: &Value| status["node"]["mptcp"].is_object() && unsteered(status).len() == count;
    unsteered(&cluster.wait_status(0, &what, is_so).expect("status"))
}

/// What doctor on node 0 finds of steering: the links, and how that is known.
fn doctor(cluster: &Cluster) -> Vec<(Value, String)> {
    let mut doctor = tabane_behind(cluster, 0, &[], "doctor");
    doctor.args(["--alone", "--json", "--seconds", "0.5"]);
    let done = output("tabane doctor", doctor, PATIENCE).expect("ends");
    let said: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let findings = said["findings"].as_array().expect("a list").iter();
    let of_steering = findings.filter(|finding| finding["cause"] == "not_steered");
    let seen = |finding: &Value| {
        finding["evidence"][0]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    of_steering
        .map(|finding| (finding["links"].clone(), seen(finding)))
        .collect()
}

/// How often a node's log says this.
fn told(cluster: &Cluster, node: usize, what: &str) -> usize {
    cluster.log(node).matches(what).count()
}

/// Without a rule of its own before theirs nothing that is steered would be taken.
#[test]
fn with_a_table_for_each_link_a_stream_survives_failures() {
    let mut cluster = with_tables();
    let before = start(&mut cluster);
    wait_taken(&cluster);
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_carried(&cluster, &[0, 1]);
    for link in [0, 1] {
        silence(&cluster, link);
        wait_carried(&cluster, &[1 - link]);
        // From the address itself, to the one on the failed link.
        let ping = format!("ping -c 1 -W 5 -I 10.77.{link}.1 10.77.{link}.2");
        said(&cluster, 0, &ping);
        heal(&cluster, link);
        wait_carried(&cluster, &[0, 1]);
    }
    flow.finish();
    wait_unsteered(&cluster, 0);
    for (node, before) in before.iter().enumerate() {
        assert!(cluster.stop(node).expect("stops").success());
        wait_restored(&cluster, node, before);
        let left = said(&cluster, node, "ip route show table all proto 77");
        assert_eq!(left, "");
    }
}

#[test]
fn in_ipv6_rules_are_seen_too() {
    let cluster = cluster_of_ipv6(STEERED);
    for (node, link) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let [own, to] = [node, 1 - node].map(|node| link_v6(link, node + 1));
        let network = link_v6(link, 0).replace("::0", "::/64");
        let route = format!("ip -6 route add {network} dev eth{link} table 10{link}");
        said(&cluster, node, &route);
        let rule = format!("ip -6 rule add from {own} lookup 10{link}");
        said(&cluster, node, &rule);
        let get = format!("ip -6 route get fibmatch {to} from {own}");
        eventually("it is steered", || {
            said(&cluster, node, &get).contains("proto 77")
        });
    }
    for link in [0, 1] {
        cluster
            .lab()
            .fail(link, Fault::Silent, None)
            .expect("fails");
        let [own, to] = [1, 2].map(|host| link_v6(link, host));
        let get = format!("ip -6 route get {to} from {own}");
        eventually("a detour", || said(&cluster, 0, &get).contains(" via "));
        wait_path(&cluster, link, "down");
        cluster.lab().heal(link).expect("heals");
        wait_path(&cluster, link, "up");
    }
}

/// Somebody adds rules while all is steered, and removes tabane's; and then it is killed.
#[test]
fn rules_that_come_later_are_seen() {
    let (mut cluster, before) = steered(&on(2));
    let rules = || said(&cluster, 0, "ip rule show table 7577");
    assert_eq!(rules(), "", "none is needed");
    let get = "ip route get fibmatch 10.77.1.2 from 10.77.1.1";
    let is_taken = || said(&cluster, 0, get).contains("proto 77");
    said(&cluster, 0, "ip route add 10.77.1.0/24 dev eth1 table 101");
    for add in ["from 10.77.1.1 lookup 101", "from all lookup 101 pref 50"] {
        said(&cluster, 0, &format!("ip rule add {add}"));
        eventually("a rule comes before it", || {
            !rules().is_empty() && is_taken()
        });
    }
    assert!(rules().starts_with("49:"), "{}", rules());
    let ours = rules();
    said(&cluster, 0, "ip rule delete pref 49");
    eventually("it is back", || rules() == ours && is_taken());
    assert_eq!(told(&cluster, 0, "`50: from all lookup 101`"), 1, "once");
    said(&cluster, 0, "ip rule delete pref 50");
    said(&cluster, 0, "ip rule delete from 10.77.1.1");
    said(&cluster, 0, "ip route flush table 101");
    cluster.kill(0).expect("is killed");
    wait_restored(&cluster, 0, &before[0]);
    assert_eq!(said(&cluster, 0, "ip route show table all proto 77"), "");
}

#[test]
fn a_rule_that_comes_first_is_named() {
    const RULE: &str = "0: from 10.77.1.1 lookup 101";
    let mut cluster = with_tables();
    said(&cluster, 0, "ip rule add pref 0 from 10.77.1.1 lookup 101");
    let before = start(&mut cluster);
    let named = wait_unsteered(&cluster, 1).remove(0);
    assert_eq!(named["local"], "10.77.1.1");
    assert_eq!(named["peers"], serde_json::json!(["n1"]));
    let why = named["why"].as_str().expect("says why");
    assert!(why.contains(RULE), "{why}");
    let mut status = cluster.lab().command(0, tabane());
    status.arg("status");
    let table = text(
        &output("tabane status", status, PATIENCE)
            .expect("ends")
            .stdout,
    );
    let lines = format!("  link 1 to n1 is not steered\n    ({why})\n");
    assert!(table.contains(&lines), "{table}");
    assert_eq!(doctor(&cluster), [(serde_json::json!([1]), why.to_owned())]);
    assert_eq!(told(&cluster, 0, RULE), 1, "once");
    // The other link is steered.
    silence_of(&cluster, 0);
    cluster.lab().heal(0).expect("heals");
    said(&cluster, 0, "ip rule delete pref 0 from 10.77.1.1");
    wait_unsteered(&cluster, 0);
    wait_taken(&cluster);
    assert_eq!(doctor(&cluster), []);
    assert!(cluster.stop(0).expect("stops").success());
    let rules = kernel(&cluster, 0).rules;
    assert_eq!(
        before[0]
            .rules
            .replace(&format!("{}\n", RULE.replacen(' ', "\t", 1)), ""),
        rules
    );
}

/// A link fails silently, and node 0 reaches the other's address there by the other link.
fn silence_of(cluster: &Cluster, link: usize) {
    cluster
        .lab()
        .fail(link, Fault::Silent, None)
        .expect("fails");
    let [own, to] = [0, 1].map(|node| cluster.lab().address(node, link));
    let get = format!("ip route get {to} from {own}");
    eventually("a detour", || said(cluster, 0, &get).contains(" via "));
}

/// What somebody forbids is not got around.
#[test]
fn a_rule_that_forbids_is_named_and_kept() {
    const RULE: &str = "100: from 10.77.1.1 to 10.77.1.2 prohibit";
    let mut cluster = with_tables();
    let rule = "ip rule add pref 100 from 10.77.1.1 to 10.77.1.2 prohibit";
    said(&cluster, 0, rule);
    start(&mut cluster);
    let named = wait_unsteered(&cluster, 1).remove(0);
    let why = named["why"].as_str().expect("says why");
    assert!(why.contains(RULE), "{why}");
    assert_eq!(doctor(&cluster), [(serde_json::json!([1]), why.to_owned())]);
    let mut ping = cluster.lab().command(0, "ping");
    ping.args(["-c", "1", "-W", "1", "-I", "10.77.1.1", "10.77.1.2"]);
    let ping = output("ping", ping, PATIENCE).expect("ends");
    assert!(!ping.status.success(), "it is forbidden yet");
}

#[test]
fn endpoints_and_limits_that_others_remove_come_back() {
    const REMOVED: &str = "somebody has removed endpoints of tabane's (10.77.0.1, 10.77.1.1)";
    const LOWERED: &str = "somebody has set the limits to 0 subflows and 0 addresses";
    let (mut cluster, before) = steered(&on(2));
    let set = kernel(&cluster, 0);
    assert_ne!(set.endpoints, before[0].endpoints);
    for _ in 0..2 {
        said(&cluster, 0, "ip mptcp endpoint flush");
        said(
            &cluster,
            0,
            "ip mptcp limits set subflows 0 add_addr_accepted 0",
        );
        eventually("they are back", || kernel(&cluster, 0) == set);
    }
    eventually("it is told", || told(&cluster, 0, LOWERED) > 0);
    assert_eq!(
        (told(&cluster, 0, REMOVED), told(&cluster, 0, LOWERED)),
        (1, 1)
    );
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_carried(&cluster, &[0, 1]);
    flow.finish();
    // Theirs are what was found last.
    assert!(cluster.stop(0).expect("stops").success());
    let limits = "add_addr_accepted 0 subflows 0";
    eventually("limits are theirs", || {
        kernel(&cluster, 0).limits.trim() == limits
    });
}

/// As NetworkManager makes them.
#[test]
fn an_endpoint_of_others_with_a_device_stays_and_is_named() {
    const THEIRS: &str = "10.77.1.1 id 9 subflow dev eth1";
    let mut cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    said(
        &cluster,
        0,
        "ip mptcp endpoint add 10.77.1.1 dev eth1 id 9 subflow",
    );
    let before = start(&mut cluster);
    let named = wait_unsteered(&cluster, 1).remove(0);
    assert_eq!(
        (&named["local"], &named["peers"]),
        (&"10.77.1.1".into(), &serde_json::json!([]))
    );
    let why = named["why"].as_str().expect("says why");
    assert!(
        why.contains("10.77.1.1 (id 9)") && why.contains("eth1"),
        "{why}"
    );
    assert_eq!(doctor(&cluster), [(serde_json::json!([1]), why.to_owned())]);
    assert_eq!(told(&cluster, 0, why), 1, "once");
    let endpoints = || said(&cluster, 0, "ip mptcp endpoint show");
    assert!(endpoints().contains(THEIRS), "{}", endpoints());
    said(&cluster, 0, "ip mptcp endpoint delete id 9");
    wait_unsteered(&cluster, 0);
    eventually("there is one of tabane's", || {
        endpoints().contains("10.77.1.1 id 24")
    });
    assert!(before[0].endpoints.contains(THEIRS), "{before:?}");
}
