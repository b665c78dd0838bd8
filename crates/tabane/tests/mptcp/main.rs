//! `mptcp = true`: the kernel's own Multipath TCP, steered by tabane's liveness.

#[path = "../common/mod.rs"]
mod common;
mod keeper;
mod others;
mod via;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use common::*;
use tabane_lab::Fault;
use tabane_lab::cluster::{Cluster, ClusterConfig, PATIENCE, Program, Wire, output};
use tabane_lab::{LabConfig, LinkSpec};

const PORT: u16 = 5001;
const SOME_BYTES: u64 = 2_000_000;

/// All that steering may change on a node.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Kernel {
    endpoints: String,
    limits: String,
    routes: String,
    rules: String,
}

fn kernel(cluster: &Cluster, node: usize) -> Kernel {
    let routes = said(cluster, node, "ip route");
    // That of the virtual NIC goes a little after its daemon.
    let routes = routes.lines().filter(|line| !line.contains("tab0"));
    Kernel {
        endpoints: said(cluster, node, "ip mptcp endpoint show"),
        limits: said(cluster, node, "ip mptcp limits show"),
        routes: routes.collect::<Vec<_>>().join("\n"),
        rules: said(cluster, node, "ip rule"),
    }
}

/// Wait until node 0 reaches node 1's address on this link by another, or by itself, and node 1
/// likewise.
fn wait_detour(cluster: &Cluster, link: usize, wanted: bool) {
    for node in 0..2 {
        let [own, to] = [node, 1 - node].map(|node| cluster.lab().address(node, link).to_string());
        eventually(&format!("detour to {to}: {wanted}"), || {
            let mut get = cluster.lab().command(node, "ip");
            get.args(["route", "get", &to, "from", &own]);
            // Of a device that was switched off there is none at first.
            let route = output("ip", get, PATIENCE).expect("it ends");
            route.status.success() && text(&route.stdout).contains(" via ") == wanted
        });
    }
}

/// The links that the connections to [`PORT`] use, seen from node 0.
fn links_used(cluster: &Cluster) -> Vec<usize> {
    let listed = said(
        cluster,
        0,
        &format!("ss -tnH state established dport {PORT}"),
    );
    let mut links: Vec<usize> = (0..cluster.lab().links())
        .filter(|link| {
            let ends = [0, 1].map(|node| format!("{}:", cluster.lab().address(node, *link)));
            let mut lines = listed.lines();
            lines.any(|line| ends.iter().all(|end| line.contains(end)))
        })
        .collect();
    links.sort_unstable();
    links
}

fn wait_links(cluster: &Cluster, wanted: &[usize]) {
    let mut seen = Vec::new();
    eventually(&format!("subflows on {wanted:?}"), || {
        seen = links_used(cluster);
        seen == wanted
    });
}

/// Bytes on their way over one connection of MPTCP, each checked as it arrives.
struct Flow {
    arrived: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    reader: JoinHandle<()>,
    sender: Program,
    receiver: Program,
}

impl Flow {
    /// From node 0 to an address of node 1.
    fn start(cluster: &Cluster, link: usize) -> Flow {
        Flow::to(cluster, &cluster.lab().address(1, link).to_string())
    }

    fn to(cluster: &Cluster, address: &str) -> Flow {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/mptcp/stream.py");
        let python = |node| {
            let mut python = cluster.lab().command(node, "python3");
            python.arg(&script);
            python
        };
        let mut receiver = python(1);
        receiver.args(["receive", address, &PORT.to_string()]);
        receiver.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut receiver = Program::start("stream.py", receiver).expect("starts");
        receiver.listens(PORT).expect("listens");
        let mut sender = python(0);
        sender.args(["send", address, &PORT.to_string()]);
        sender.stdin(Stdio::piped()).stdout(Stdio::piped());
        let sender = Program::start("stream.py", sender).expect("starts");
        let (arrived, ended) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, end) = (arrived.clone(), ended.clone());
        let lines = BufReader::new(receiver.take_stdout().expect("is a pipe")).lines();
        let reader = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                end.store(line == "end", Ordering::Relaxed);
                let bytes = line.split(' ').next().and_then(|word| word.parse().ok());
                count.fetch_max(bytes.unwrap_or(0), Ordering::Relaxed);
            }
        });
        Flow {
            arrived,
            ended,
            reader,
            sender,
            receiver,
        }
    }

    /// Wait until another `bytes` have arrived: it goes on.
    fn flows(&self, bytes: u64) {
        let wanted = self.arrived.load(Ordering::Relaxed) + bytes;
        eventually("the stream goes on", || {
            assert!(!self.reader.is_finished(), "the stream ended");
            self.arrived.load(Ordering::Relaxed) >= wanted
        });
    }

    /// End it: all that was sent arrived.
    fn finish(mut self) {
        drop(self.sender.take_stdin());
        let sent = self.sender.output(PATIENCE).expect("it ends");
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        assert!(self.receiver.wait(PATIENCE).expect("ends").success());
        self.reader.join().expect("what was said was read");
        assert!(self.ended.load(Ordering::Relaxed));
        let arrived = self.arrived.load(Ordering::Relaxed).to_string();
        assert_eq!(text(&sent.stdout).trim(), arrived);
    }
}

const STEERED: ClusterConfig = ClusterConfig {
    wire: Wire::Encrypted,
    vnic: false,
    mptcp: true,
    gateway: false,
};

fn on(links: usize) -> LabConfig {
    LabConfig {
        links: vec![LinkSpec::mbit(200); links],
        ..LabConfig::default()
    }
}

/// A cluster whose daemons steer, and what the kernels of its nodes were like before.
fn steered(config: &LabConfig) -> (Cluster, Vec<Kernel>) {
    let mut cluster = Cluster::new(lab(config), tabane(), STEERED).expect("a cluster");
    let nodes = cluster.lab().nodes();
    let before = (0..nodes).map(|node| kernel(&cluster, node)).collect();
    for node in 0..nodes {
        cluster.start(node).expect("starts");
    }
    cluster.wait_steered().expect("all is steered");
    (cluster, before)
}

/// A kernel that does not check what it joins was seen to deliver wrong bytes.
#[test]
fn whether_the_kernel_checks_what_it_joins_is_said() {
    const MENDED_BY: &str = "`sysctl -w net.mptcp.checksum_enabled=1`";
    let mut cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    said(&cluster, 0, "sysctl -w net.mptcp.checksum_enabled=0");
    said(&cluster, 1, "sysctl -w net.mptcp.checksum_enabled=1");
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    cluster.wait_steered().expect("all is steered");
    eventually("node 0 says so", || cluster.log(0).contains(MENDED_BY));
    assert!(!cluster.log(1).contains(MENDED_BY), "{}", cluster.log(1));
}

/// Wait until a node's kernel is as it was.
fn wait_restored(cluster: &Cluster, node: usize, before: &Kernel) {
    eventually("all is put back", || kernel(cluster, node) == *before);
}

fn silence(cluster: &Cluster, link: usize) {
    cluster
        .lab()
        .fail(link, Fault::Silent, None)
        .expect("fails");
    wait_detour(cluster, link, true);
}

fn heal(cluster: &Cluster, link: usize) {
    cluster.lab().heal(link).expect("heals");
    wait_detour(cluster, link, false);
}

/// Bytes that node 1 has received on a link so far.
fn received(cluster: &Cluster, link: usize) -> u64 {
    let path = format!("cat /sys/class/net/eth{link}/statistics/rx_bytes");
    said(cluster, 1, &path).trim().parse().expect("a number")
}

/// Wait until these links carry the stream, and no other does.
fn wait_carried(cluster: &Cluster, links: &[usize]) {
    eventually(&format!("the stream is on {links:?}"), || {
        let all = 0..cluster.lab().links();
        let before: Vec<_> = all.clone().map(|link| received(cluster, link)).collect();
        thread::sleep(std::time::Duration::from_millis(100));
        let carries = |link: &usize| received(cluster, *link) - before[*link] > 200_000;
        all.filter(carries).collect::<Vec<_>>() == links
    });
}

#[test]
fn a_stream_survives_failures_of_either_link() {
    let (mut cluster, before) = steered(&on(2));
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_links(&cluster, &[0, 1]);
    for (link, fault, node) in FAILURES {
        cluster.lab().fail(link, fault, node).expect("fails");
        wait_detour(&cluster, link, true);
        wait_carried(&cluster, &[1 - link]);
        heal(&cluster, link);
        wait_carried(&cluster, &[0, 1]);
    }
    wait_links(&cluster, &[0, 1]);
    flow.finish();
    for (node, before) in before.iter().enumerate() {
        assert!(cluster.stop(node).expect("stops").success());
        wait_restored(&cluster, node, before);
    }
}

#[test]
fn a_connection_begun_while_a_link_is_down_has_it_when_it_returns() {
    let (cluster, _) = steered(&on(2));
    for link in [0, 1] {
        silence(&cluster, link);
        let flow = Flow::start(&cluster, link);
        flow.flows(SOME_BYTES);
        heal(&cluster, link);
        wait_links(&cluster, &[0, 1]);
        wait_carried(&cluster, &[0, 1]);
        flow.finish();
    }
}

#[test]
fn in_ipv6_a_stream_survives_failures_of_either_link() {
    let cluster = cluster_of_ipv6(STEERED);
    let endpoints = || said(&cluster, 0, "ip mptcp endpoint show").lines().count();
    eventually("all is steered", || endpoints() == 2);
    let flow = Flow::to(&cluster, &link_v6(0, 2));
    flow.flows(SOME_BYTES);
    wait_carried(&cluster, &[0, 1]);
    for (link, fault, node) in FAILURES {
        cluster.lab().fail(link, fault, node).expect("fails");
        wait_path(&cluster, link, "down");
        wait_carried(&cluster, &[1 - link]);
        cluster.lab().heal(link).expect("heals");
        wait_path(&cluster, link, "up");
        wait_carried(&cluster, &[0, 1]);
    }
    flow.finish();
}

/// All links but the last fail, one after the other, and return.
fn all_but_one_fail(links: usize) {
    let (cluster, _) = steered(&on(links));
    let flow = Flow::start(&cluster, 1);
    flow.flows(SOME_BYTES);
    let all: Vec<_> = (0..links).collect();
    wait_links(&cluster, &all);
    for link in 0..links - 1 {
        silence(&cluster, link);
        wait_carried(&cluster, &all[link + 1..]);
    }
    for link in (0..links - 1).rev() {
        heal(&cluster, link);
        wait_carried(&cluster, &all[link..]);
    }
    flow.finish();
}

#[test]
fn three_links_lose_two() {
    all_but_one_fail(3);
}

#[test]
fn four_links_lose_three() {
    all_but_one_fail(4);
}

/// A cluster whose node 0 has this setting, for which it steers nothing, as its log says; and what that
/// node's kernel had before.
fn not_steered(setting: &str, why: &str) -> (Cluster, Kernel) {
    let mut cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    said(&cluster, 0, &format!("sysctl -w {setting}"));
    let before = kernel(&cluster, 0);
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    wait_path(&cluster, 1, "up");
    let said = format!("Multipath TCP is not steered: {why}");
    eventually("the log says so", || cluster.log(0).contains(&said));
    let is_told = |status: &serde_json::Value| {
        let trouble = status["node"]["mptcp_trouble"].as_str();
        trouble.is_some_and(|told| told.starts_with(why))
    };
    cluster
        .wait_status(0, "it is told", is_told)
        .expect("status");
    (cluster, before)
}

/// Where the kernel drops what does not come from where it would send (strict rp_filter, RFC 3704),
/// the probes of a link that is on a detour would be dropped, and it would never return.
#[test]
fn where_reverse_paths_are_strict_nothing_is_steered() {
    let (cluster, before) = not_steered(
        "net.ipv4.conf.eth1.rp_filter=1",
        "eth1 takes only what comes from",
    );
    wait_restored(&cluster, 0, &before);
    for link in [0, 1] {
        cluster
            .lab()
            .fail(link, Fault::Silent, None)
            .expect("fails");
        wait_path(&cluster, link, "down");
        cluster.lab().heal(link).expect("heals");
        wait_path(&cluster, link, "up");
    }
}

/// The greater one of the settings of all devices and of one counts: this is loose.
#[test]
fn where_reverse_paths_are_loose_links_return() {
    let mut cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    for node in 0..2 {
        said(&cluster, node, "sysctl -w net.ipv4.conf.eth1.rp_filter=1");
        said(&cluster, node, "sysctl -w net.ipv4.conf.all.rp_filter=2");
        cluster.start(node).expect("starts");
    }
    cluster.wait_steered().expect("all is steered");
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_links(&cluster, &[0, 1]);
    for link in [0, 1] {
        silence(&cluster, link);
        wait_carried(&cluster, &[1 - link]);
        heal(&cluster, link);
        wait_carried(&cluster, &[0, 1]);
    }
    flow.finish();
}

/// What waits for a neighbour's answer on a link that is left would wait for three seconds, and TCP
/// sends nothing again that is still in a queue. (So it is after a lost carrier, which empties the
/// kernel's table; here it is somebody else who does not answer.)
#[test]
fn nothing_waits_for_a_neighbour_on_a_link_that_is_left() {
    const NOBODY: &str = "10.77.0.200";
    let (cluster, _) = steered(&on(2));
    let neighbours = || said(&cluster, 0, "ip neigh show dev eth0");
    // After its start a daemon has the kernel forget such neighbours for a while.
    eventually("it is given up", || {
        let mut ping = cluster.lab().command(0, "ping");
        ping.args(["-c", "1", "-W", "4", NOBODY]);
        output("ping", ping, PATIENCE).expect("ends");
        neighbours().contains("FAILED")
    });
    silence(&cluster, 0);
    eventually("it is forgotten", || !neighbours().contains(NOBODY));
}

#[test]
fn an_address_goes_and_returns_under_a_stream() {
    let (cluster, _) = steered(&on(2));
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_links(&cluster, &[0, 1]);
    address(&cluster, "del");
    wait_path(&cluster, 1, "down");
    wait_detour(&cluster, 1, true);
    // Its subflow could not even be told of its loss: from the address and to it all goes on.
    said(&cluster, 0, "ping -c 1 -W 5 -I 10.77.1.1 10.77.1.2");
    wait_carried(&cluster, &[0]);
    address(&cluster, "add");
    wait_path(&cluster, 1, "up");
    wait_carried(&cluster, &[0, 1]);
    let kept = "ip route show table local proto 77";
    eventually("only the device has it", || {
        said(&cluster, 0, kept).is_empty()
    });
    flow.finish();
}

/// With a device that is switched off the kernel drops its routes, too.
#[test]
fn a_device_is_switched_off_and_on_under_a_stream() {
    let (cluster, _) = steered(&on(2));
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_links(&cluster, &[0, 1]);
    for link in [1, 0] {
        said(&cluster, 0, &format!("ip link set eth{link} down"));
        wait_detour(&cluster, link, true);
        wait_carried(&cluster, &[1 - link]);
        said(&cluster, 0, &format!("ip link set eth{link} up"));
        wait_detour(&cluster, link, false);
        wait_carried(&cluster, &[0, 1]);
    }
    flow.finish();
}

/// At boot an address may come late, and until then the default route leads to its network.
#[test]
fn with_a_default_route_a_link_that_comes_late_is_used() {
    let mut cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    let gateway = cluster.lab().address(1, 0);
    said(&cluster, 0, &format!("ip route add default via {gateway}"));
    address(&cluster, "del");
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    eventually("the keeper's own detour", || {
        let detours = said(&cluster, 0, "ip route show proto 77");
        detours.contains("10.77.1.2 via 10.77.0.2")
    });
    address(&cluster, "add");
    wait_path(&cluster, 1, "up");
    wait_detour(&cluster, 1, false);
    cluster.wait_steered().expect("all is steered");
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_carried(&cluster, &[0, 1]);
    flow.finish();
}

/// The number of a device is another one when it is made anew.
#[test]
fn a_device_that_is_made_anew_is_used() {
    let (cluster, _) = steered(&on(2));
    silence(&cluster, 1);
    for change in [
        "ip link add moved type bridge",
        "ip link set eth1 master moved",
        "ip address del 10.77.1.1/24 dev eth1",
        "ip address add 10.77.1.1/24 dev moved",
        "ip link set moved up",
    ] {
        said(&cluster, 0, change);
    }
    heal(&cluster, 1);
    let direct = said(&cluster, 0, "ip route get 10.77.1.2");
    assert!(direct.contains("dev moved"), "{direct}");
    cluster.wait_steered().expect("all is steered");
}

/// Nobody tells of the paths to it, so connections with it are the kernel's affair.
#[test]
fn with_a_peer_without_a_daemon_nothing_is_touched() {
    let mut cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    let before = [0, 1].map(|node| kernel(&cluster, node));
    cluster.start(0).expect("starts");
    let endpoints = || said(&cluster, 0, "ip mptcp endpoint show").lines().count();
    eventually("node 0 has its endpoints", || endpoints() == 2);
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    let steered = kernel(&cluster, 0);
    let fail = |fault| cluster.lab().fail(1, fault, None).expect("fails");
    for fault in [Fault::Silent, Fault::OneWay] {
        fail(fault);
        flow.flows(4 * SOME_BYTES);
        assert_eq!(kernel(&cluster, 0), steered);
        cluster.lab().heal(1).expect("heals");
    }
    flow.finish();
    assert_eq!(kernel(&cluster, 1), before[1]);
    assert!(cluster.stop(0).expect("stops").success());
    wait_restored(&cluster, 0, &before[0]);
}

#[test]
fn a_daemon_that_is_killed_leaves_what_it_found() {
    let (mut cluster, before) = steered(&on(2));
    let flow = Flow::start(&cluster, 1);
    flow.flows(SOME_BYTES);
    wait_links(&cluster, &[0, 1]);
    silence(&cluster, 0);
    for node in 0..2 {
        cluster.kill(node).expect("is killed");
    }
    // Endpoints stay for as long as a connection lives by them: it goes on.
    wait_detour(&cluster, 0, false);
    cluster.lab().heal(0).expect("heals");
    wait_links(&cluster, &[0, 1]);
    flow.flows(SOME_BYTES);
    flow.finish();
    for (node, before) in before.iter().enumerate() {
        wait_restored(&cluster, node, before);
    }
}

#[test]
fn the_next_daemon_takes_over_what_connections_live_by() {
    let (mut cluster, before) = steered(&on(2));
    let flow = Flow::start(&cluster, 0);
    flow.flows(SOME_BYTES);
    wait_links(&cluster, &[0, 1]);
    for node in 0..2 {
        cluster.kill(node).expect("is killed");
    }
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    wait_path(&cluster, 1, "up");
    silence(&cluster, 1);
    wait_carried(&cluster, &[0]);
    heal(&cluster, 1);
    wait_carried(&cluster, &[0, 1]);
    flow.finish();
    for (node, before) in before.iter().enumerate() {
        assert!(cluster.stop(node).expect("stops").success());
        wait_restored(&cluster, node, before);
    }
}

#[test]
fn what_the_operator_made_stays() {
    let mut cluster = Cluster::new(lab(&on(2)), tabane(), STEERED).expect("a cluster");
    let own = cluster.lab().address(0, 1);
    said(
        &cluster,
        0,
        &format!("ip mptcp endpoint add {own} id 7 subflow"),
    );
    said(
        &cluster,
        0,
        "ip mptcp limits set subflows 8 add_addr_accepted 8",
    );
    said(&cluster, 0, "ip route add 10.77.1.2/32 via 10.77.0.2");
    let before = kernel(&cluster, 0);
    for node in 0..2 {
        cluster.start(node).expect("starts");
    }
    let has = |what: &str, part: &str| what.contains(part.trim());
    eventually("link 0 is announced", || {
        has(&kernel(&cluster, 0).endpoints, "10.77.0.1 id 240 signal")
    });
    wait_path(&cluster, 1, "up");
    cluster.lab().fail(1, Fault::Silent, None).expect("fails");
    wait_path(&cluster, 1, "down");
    eventually("the peer has a detour", || {
        has(&kernel(&cluster, 1).routes, "10.77.1.1 via 10.77.0.1")
    });
    // By the operator's route nothing can be steered, and that is told.
    let told = others::wait_unsteered(&cluster, 1).remove(0);
    assert_eq!(told["local"], "10.77.1.1", "{told}");
    let during = kernel(&cluster, 0);
    assert!(has(&during.endpoints, &before.endpoints), "{during:?}");
    assert_eq!(during.limits, before.limits);
    assert!(
        has(&during.routes, "10.77.1.2 via 10.77.0.2 dev eth0"),
        "{during:?}"
    );
    assert!(cluster.stop(0).expect("stops").success());
    wait_restored(&cluster, 0, &before);
}

#[test]
fn without_multipath_tcp_the_rest_works() {
    let (cluster, before) = not_steered("net.mptcp.enabled=0", "it is switched off; `sysctl");
    assert_eq!(kernel(&cluster, 0), before);
}
