//! Which node this machine is, and whether the file fits it.

use super::super::{Cluster, InterfaceAddress, Problem, check_here, identify};
use super::parse;

fn cluster() -> Cluster {
    parse("{KEY}{N0}vnic = \"10.99.0.1/24\"\n{N1}vnic = \"10.99.0.2/24\"\n")
        .unwrap()
        .0
}

/// `eth0 10.77.0.1/24, …`
fn own(list: &str) -> Vec<InterfaceAddress> {
    let one = |text: &str| {
        let (interface, rest) = text.split_once(' ').unwrap();
        let (address, prefix) = rest.split_once('/').unwrap();
        InterfaceAddress {
            interface: interface.to_owned(),
            address: address.parse().unwrap(),
            prefix: prefix.parse().unwrap(),
        }
    };
    list.split(", ")
        .filter(|t| !t.is_empty())
        .map(one)
        .collect()
}

const HERE: &str = "lo 127.0.0.1/8, eth0 10.77.0.2/24, eth1 10.77.1.2/24";

fn identified(own_list: &str, name: Option<&str>) -> String {
    match identify(&cluster(), &own(own_list), name) {
        Ok(index) => index.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_node_finds_itself() {
    assert_eq!(identified(HERE, None), "1");
    assert_eq!(identified("eth0 10.77.0.1/24", None), "0");
    assert_eq!(identified("eth1 10.77.1.1/24", None), "0");
    assert_eq!(identified(HERE, Some("n1")), "1");
    assert_eq!(
        identified("a 10.77.0.1/24, b 10.77.0.2/24", Some("n1")),
        "1"
    );
}

#[test]
fn a_node_that_cannot_find_itself() {
    let table = [
        (
            "lo 127.0.0.1/8, eth0 192.168.0.1/24",
            None,
            "c: none of the nodes has an address of this machine (here: 192.168.0.1; in the file: 10.77.0.1, 10.77.1.1, 10.77.0.2, 10.77.1.2); add this machine's addresses as `links` of a [[node]], or give its interfaces the addresses in the file",
        ),
        (
            "lo 127.0.0.1/8",
            None,
            "c: none of the nodes has an address of this machine (here: 127.0.0.1; in the file: 10.77.0.1, 10.77.1.1, 10.77.0.2, 10.77.1.2); add this machine's addresses as `links` of a [[node]], or give its interfaces the addresses in the file",
        ),
        (
            "",
            None,
            "c: none of the nodes has an address of this machine (here: none; in the file: 10.77.0.1, 10.77.1.1, 10.77.0.2, 10.77.1.2); add this machine's addresses as `links` of a [[node]], or give its interfaces the addresses in the file",
        ),
        (
            "a 10.77.0.1/24, b 10.77.0.2/24",
            None,
            "c:6: both node \"n0\" and node \"n1\" have an address of this machine; say which one to be, as with --node n0",
        ),
        (
            HERE,
            Some("n7"),
            "c: there is no node \"n7\"; the nodes are n0, n1",
        ),
        (
            HERE,
            Some("database"),
            "c: there is no node \"database\"; the nodes are n0, n1",
        ),
        (
            HERE,
            Some("n0"),
            "c:2: none of the addresses of node \"n0\" is on this machine (here: 10.77.0.2, 10.77.1.2); check --node, and that its interfaces have their addresses",
        ),
    ];
    for (own, name, expected) in table {
        assert_eq!(identified(own, name), expected, "{own} {name:?}");
    }
}

fn checked(file: &str, me: usize, own_list: &str) -> String {
    let cluster = parse(file).unwrap().0;
    let problems = check_here(&cluster, me, &own(own_list));
    problems
        .iter()
        .map(Problem::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_file_against_the_machine() {
    const PAIR: &str = "{KEY}{N0}{N1}";
    const SWAPPED: &str =
        "{KEY}{N0}[[node]]\nname = \"n1\"\nlinks = [\"10.77.1.2\", \"10.77.0.2\"]\n";
    const VNIC: &str = "{KEY}{N0}vnic = \"10.99.0.1/24\"\n{N1}vnic = \"10.99.0.2/24\"\n";
    let table = [
        (PAIR, HERE, ""),
        (VNIC, HERE, ""),
        (
            PAIR,
            "eth0 10.77.0.2/24",
            "c:7: warning: link 1, 10.77.1.2, is on no interface of this machine now; it stays down until it is",
        ),
        (
            PAIR,
            "eth0 10.77.0.2/16, eth1 10.77.1.2/16",
            "c:7: link 0 (10.77.0.0/16 on eth0) and link 1 (10.77.0.0/16 on eth1) are in overlapping networks; each link is on a network of its own; change the addresses or the lengths of the networks on these interfaces",
        ),
        (
            PAIR,
            "eth0 10.77.0.2/24, eth0 10.77.1.2/24",
            "c:7: warning: links 0 and 1 are both on eth0; they are no faster than one and fail together; use a NIC for each link",
        ),
        (
            PAIR,
            "eth0 10.77.0.2/32, eth1 10.77.1.2/24",
            "c:4: warning: link 0 of node \"n0\", 10.77.0.1, is outside of the network of link 0 here (10.77.0.2/32 on eth0); it is reached only if a router is in between",
        ),
        (
            SWAPPED,
            "eth0 10.77.1.2/24, eth1 10.77.0.2/24",
            "c:4: link 0 of node \"n0\", 10.77.0.1, is in the network of link 1 here (10.77.0.0/24 on eth1); link 0 here is in 10.77.1.0/24; are two entries swapped?\nc:4: link 1 of node \"n0\", 10.77.1.1, is in the network of link 0 here (10.77.1.0/24 on eth0); link 1 here is in 10.77.0.0/24; are two entries swapped?",
        ),
        (
            VNIC,
            "eth0 10.77.0.2/8, eth1 10.77.1.2/24",
            "c:8: link 0 (10.0.0.0/8 on eth0) and link 1 (10.77.1.0/24 on eth1) are in overlapping networks; each link is on a network of its own; change the addresses or the lengths of the networks on these interfaces\nc:9: the network of the virtual NICs, 10.99.0.0/24, overlaps that of link 0 here (10.0.0.0/8 on eth0); take a network that nothing else uses",
        ),
        (
            VNIC,
            "eth0 10.77.0.2/24, eth1 10.77.1.2/24, tab0 10.99.0.2/24",
            "c:9: vnic 10.99.0.2 is already an address of tab0; end what set it (another `tabane up`?), or take another address",
        ),
    ];
    for (file, own, expected) in table {
        assert_eq!(checked(file, 1, own), expected, "{file} {own}");
    }
}

#[test]
fn names_that_nothing_leads_to_are_told() {
    let (cluster, _) =
        parse("{KEY}{N0}vnic = \"10.99.0.1/24\"\n{N1}[vnic]\nhosts = true\n").unwrap();
    let problems = check_here(&cluster, 1, &own(HERE));
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "c:6: warning: node \"n1\" has no `vnic`, so no names are written into /etc/hosts here; \
          add `vnic`, or leave `hosts` out of `[vnic]` on this machine"
        ]
    );
    let own = own("eth0 10.77.0.1/24, eth1 10.77.1.1/24");
    assert_eq!(check_here(&cluster, 0, &own), []);
}
