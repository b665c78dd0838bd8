//! Files that are right.

use std::net::IpAddr;

use super::super::{ALL_LINKS_DOWN, Cluster, DEFAULT_PORT, MeshSpec, RunUsers, Wire};
use super::{assert_table, parse};

fn good(template: &str) -> Cluster {
    let (cluster, warnings) = parse(template).expect("a good file");
    assert_eq!(warnings, []);
    cluster
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_shortest_file() {
    let cluster = good("{KEY}{N0}{N1}");
    assert_eq!(cluster.key.bytes()[..2], [0x5f, 0x8d]);
    assert_eq!(cluster.wire, Wire::Encrypted);
    assert_eq!(cluster.port, DEFAULT_PORT);
    assert_eq!(cluster.metrics_of(0), None);
    assert!(!cluster.mptcp);
    assert_eq!(cluster.mesh, MeshSpec::default());
    assert_eq!(cluster.gateway, None);
    assert_eq!(cluster.run.all_links_down, ALL_LINKS_DOWN);
    assert!(cluster.run.plain_tcp);
    assert_eq!(cluster.run_users, RunUsers::default());
    assert_eq!(cluster.vnic.mtu_bytes, crate::VNIC_MTU_BYTES);
    assert!(!cluster.vnic.hosts);
    let names: Vec<_> = cluster.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["n0", "n1"]);
    let n1 = &cluster.nodes[1];
    assert_eq!(n1.links, [Some(ip("10.77.0.2")), Some(ip("10.77.1.2"))]);
    assert_eq!(n1.vnic, None);
    assert_eq!((n1.lines.node, &n1.lines.links[..]), (5, &[7, 7][..]));
}

#[test]
fn every_key() {
    let cluster = good(
        "{KEY}wire = \"plain\"\nport = 9000\nmetrics = 9577\nmptcp = true\n\
         [[node]]\nname = \"rack-1.node_A\"\nlinks = [\"fd00:0:0:1::1\",\n\"10.1.0.1\"]\nvnic = \"10.99.0.1/24\"\n\
         [[node]]\nname = \"2\"\nlinks = [\"\", \"10.1.0.2\"]\nvnic = \"10.99.0.2/24\"\nmetrics = \"[::]:80\"\n\
         [run]\nall_links_down_s = 7\nplain_tcp = false\nusers = [\"alice\", \"1000\"]\ngroup = \"hpc\"\n[vnic]\nmtu = 1_500\nhosts = true\n[mesh]\nbundles = 12\nrelay = false\nrelay_mbps = 500\n",
    );
    let expected = MeshSpec {
        bundles: Some(12),
        relay: false,
        relay_mbps: Some(500),
    };
    assert_eq!(cluster.mesh, expected);
    assert_eq!(cluster.run.all_links_down.as_secs(), 7);
    assert!(!cluster.run.plain_tcp);
    let expected = RunUsers {
        off: false,
        users: Some(vec!["alice".to_owned(), "1000".to_owned()]),
        group: Some("hpc".to_owned()),
    };
    assert_eq!(cluster.run_users, expected);
    assert_eq!((cluster.vnic.mtu_bytes, cluster.vnic.hosts), (1500, true));
    assert_eq!(cluster.wire, Wire::Plain);
    assert_eq!(cluster.port, 9000);
    assert!(cluster.mptcp);
    let [a, b] = &cluster.nodes[..] else {
        panic!("two nodes")
    };
    assert_eq!(a.links, [Some(ip("fd00:0:0:1::1")), Some(ip("10.1.0.1"))]);
    assert_eq!(a.lines.links, [8, 9]);
    assert_eq!(a.vnic, Some((ip("10.99.0.1"), 24)));
    let metrics = [0, 1].map(|node| cluster.metrics_of(node).unwrap().to_string());
    assert_eq!(metrics, ["127.0.0.1:9577", "[::]:80"]);
    assert_eq!(b.links, [None, Some(ip("10.1.0.2"))]);
    assert_eq!(b.addresses().collect::<Vec<_>>(), [(1, ip("10.1.0.2"))]);
}

#[test]
fn ipv6_throughout() {
    let cluster = good(
        "{KEY}[[node]]\nname = \"a\"\nlinks = [\"fd00:0:0:1::1\", \"fd00:0:0:2::1\"]\nvnic = \"fd99::1/64\"\n\
         [[node]]\nname = \"b\"\nlinks = [\"fd00:0:0:1::2\", \"fd00:0:0:2::2\"]\nvnic = \"fd99::2/64\"\n",
    );
    assert_eq!(cluster.nodes[1].vnic, Some((ip("fd99::2"), 64)));
}

#[test]
fn nodes_may_have_fewer_links_than_others() {
    let cluster = good("{KEY}{N0}[[node]]\nname = \"n1\"\nlinks = [\"10.77.0.2\"]\n");
    assert_eq!(cluster.nodes[1].links.len(), 1);
}

#[test]
fn neither_the_cluster_nor_its_errors_show_the_key() {
    let cluster = good("{KEY}{N0}{N1}");
    let shown = format!("{cluster:?}");
    assert!(shown.contains("ClusterKey(secret)"), "{shown}");
    assert!(!shown.contains("5f8d"), "{shown}");
}

#[test]
fn right_files_with_something_to_think_about() {
    assert_table(&[
        (
            "{KEY}{N0}[[node]]\nname = \"n1\"\nlinks = [\"10.77.1.2\", \"10.77.0.2\"]\n",
            "c:7: warning: networks 0 (10.77.0.0/23) and 1 (10.77.0.0/23) overlap, because of link 0 of node \"n1\", 10.77.1.2; are two entries swapped? It is right only if routers are between these nodes",
        ),
        (
            "{KEY}[[node]]\nname = \"a\"\nlinks = [\"10.0.0.1\"]\n[[node]]\nname = \"b\"\nlinks = [\"\", \"10.0.1.2\"]\n[[node]]\nname = \"d\"\nlinks = [\"\", \"10.0.1.3\"]\n",
            "c:5: warning: node \"a\" and node \"b\" have no network in common (and 1 more pairs of nodes); they cannot reach each other directly; give both a link on one network",
        ),
    ]);
}
