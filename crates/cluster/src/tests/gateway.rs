//! `[gateway]`: the way outside.

use std::net::IpAddr;

use super::super::{
    CONNECTIONS_PER_NODE, Cluster, GATEWAYS_MAX, GatewaySpec, LineQueue, PORTS_PER_NODE,
};
use super::{assert_table, parse, said};

/// The table begins in line 14, behind five nodes: n0, n1, and r0 to r2.
const NODES: &str = "{KEY}{N0}vnic = \"10.99.0.1/24\"\n{N1}\
                     [[node]]\nname = \"r[0-2]\"\nlinks = [\"10.77.0.[3-5]\"]\n\n\n";
const RIGHT_NODES: &str =
    "write nodes = [\"NAME\", …]: the first that is there serves, the others stand by";
const RIGHT_INTERFACE: &str = "write the name of the device that leads outside, such as \"eth2\", or one for each gateway, \
                               as in { n0 = \"eth2\", n9 = \"enp3s0\" }";
const RIGHT_ADDRESSES: &str = "write one address of a family at most, with the length of its network, as in addresses = \
                               [\"203.0.113.1/24\", \"2001:db8::1/64\"]";
const RIGHT_ROUTERS: &str = "write one address of a family at most, as in routers = [\"203.0.113.254\", \"2001:db8::fe\"], \
                             or leave it out if there are none";

/// What every table needs, a line each: 15 to 17.
const NEEDED: [(&str, &str); 3] = [
    ("nodes", "[\"n1\", \"n0\"]"),
    ("addresses", "[\"203.0.113.1/24\", \"2001:db8::1/64\"]"),
    ("interface", "\"ext0\""),
];

/// A file whose table has `value` for `key`, in line 15 to 17 if it is needed, else in line 18.
fn with(key: &str, value: &str) -> String {
    let mut file = format!("{NODES}[gateway]\n");
    for (needed, usual) in NEEDED {
        let value = if needed == key { value } else { usual };
        file += &format!("{needed} = {value}\n");
    }
    if !NEEDED.iter().any(|(needed, _)| *needed == key) {
        file += &format!("{key} = {value}\n");
    }
    file
}

/// All that must be said of each value of `key`.
fn values(key: &str, cases: &[(&str, &str)]) {
    for (value, expected) in cases {
        assert_table(&[(&with(key, value), expected)]);
    }
}

fn good(file: &str) -> GatewaySpec {
    let (Cluster { gateway, .. }, warnings) = parse(file).expect("a good file");
    assert_eq!(warnings, []);
    gateway.expect("is there")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("is an address")
}

#[test]
fn what_is_needed() {
    let expected = GatewaySpec {
        nodes: vec![1, 0],
        addresses: vec![(ip("203.0.113.1"), 24), (ip("2001:db8::1"), 64)],
        interfaces: vec!["ext0".to_owned(), "ext0".to_owned()],
        routers: Vec::new(),
        rate_bps: None,
        queue: LineQueue::Fair,
        ports_per_node: PORTS_PER_NODE,
        connections_per_node: CONNECTIONS_PER_NODE,
    };
    assert_eq!(good(&with("queue", "\"fair\"")), expected);
    assert_eq!(good(&with("routers", "[]")), expected);
}

#[test]
fn every_key() {
    let file = format!(
        "{NODES}[gateway]\nnodes = [\"n1\", \"r[1-2]\"]\naddresses = [\"2001:db8::1/127\", \"203.0.113.0/31\"]\n\
         interface = {{ \"r2\" = \"c\", n1 = \"enp3s0f0np0.123\", \"r1\" = \"b%0\" }}\n\
         routers = [\"2001:db8::\", \"203.0.113.1\"]\nrate = \"1500Kbit\"\nqueue = \"kernel\"\n\
         ports_per_node = 65_535\nconnections_per_node = 1_000_000\n"
    );
    let expected = GatewaySpec {
        nodes: vec![1, 3, 4],
        addresses: vec![(ip("203.0.113.0"), 31), (ip("2001:db8::1"), 127)],
        interfaces: ["enp3s0f0np0.123", "b%0", "c"].map(str::to_owned).to_vec(),
        routers: vec![ip("203.0.113.1"), ip("2001:db8::")],
        rate_bps: Some(1_500_000),
        queue: LineQueue::Kernel,
        ports_per_node: 65_535,
        connections_per_node: 1_000_000,
    };
    assert_eq!(good(&file), expected);
}

#[test]
fn keys_that_lack_or_are_unknown_are_told_at_once() {
    assert_table(&[
        (
            &format!("{NODES}[gateway]\nrouter = [\"203.0.113.254\"]\nspeed = 3\n"),
            &format!(
                "c:14: `[gateway]` has no `nodes`; {RIGHT_NODES}\n\
                 c:14: `[gateway]` has no `interface`; {RIGHT_INTERFACE}\n\
                 c:14: `[gateway]` has no `addresses`; {RIGHT_ADDRESSES}\n\
                 c:15: unknown key `router`; did you mean `routers`?\n\
                 c:16: unknown key `speed`; the keys of `[gateway]` are nodes, addresses, interface, routers, rate, queue, \
                 ports_per_node, connections_per_node"
            ),
        ),
        (
            "{KEY}gateway = \"n0\"\n{N0}{N1}",
            "c:2: `gateway` is not a table; write `[gateway]` on a line of its own, and `nodes`, `addresses` and `interface` \
             below it",
        ),
        (
            "{KEY}{N0}{N1}[gatway]\n",
            "c:8: unknown key `gatway`; did you mean `gateway`?",
        ),
    ]);
}

#[test]
fn nodes() {
    let no_text = format!("c:15: `nodes` has an entry that is not a text in quotes; {RIGHT_NODES}");
    let no_list = format!("c:15: `nodes` is not a list; {RIGHT_NODES}");
    let none = format!("c:15: `nodes` names no gateway; {RIGHT_NODES}");
    values(
        "nodes",
        &[
            ("[\"r[0-2]\"]", ""),
            ("[]", &none),
            ("\"n0\"", &no_list),
            ("[\"n0\", 1]", &no_text),
            (
                "[\"node-of-another-cluster\"]",
                "c:15: there is no node \"node-of-another-cluster\"; the nodes are n0, n1, r0, r1, r2",
            ),
            (
                "[\"n0\",\n\"abc12\", \"\", \"r[2-3]\"]",
                "c:16: there is no node \"abc12\"; the nodes are n0, n1, r0, r1, r2\n\
                 c:16: there is no node \"\"; the nodes are n0, n1, r0, r1, r2\n\
                 c:16: there is no node \"r3\"; the nodes are n0, n1, r0, r1, r2",
            ),
            (
                "[\"n0\", \"r1\",\n\"r[0-1]\", \"n0\"]",
                "c:16: gateway \"r1\" is already there (line 15); name each once\n\
                 c:16: gateway \"n0\" is already there (line 15); name each once",
            ),
            (
                "[\"r[2-0]\"]",
                "c:15: `nodes`: \"2-0\" descends; write the smaller number first",
            ),
        ],
    );
    let near = "{KEY}[[node]]\nname = \"rack[0-9]\"\nlinks = [\"10.77.0.[1-10]\"]\n[gateway]\nnodes = [\"rakc3\", \"other\"]\n\
                addresses = [\"203.0.113.1/24\"]\ninterface = \"e\"\n";
    assert_table(&[(
        near,
        "c:6: there is no node \"rakc3\"; did you mean \"rack3\"?\n\
         c:6: there is no node \"other\"; it has 10 nodes, see their `name`",
    )]);
}

#[test]
fn as_many_gateways_as_possible() {
    let file = |count: usize| {
        format!(
            "{{KEY}}[[node]]\nname = \"n[1-{count}]\"\nlinks = [\"10.77.0.[1-{count}]\"]\n[gateway]\n\
             nodes = [\"n1\",\n\"n[2-{count}]\"]\naddresses = [\"203.0.113.1/24\"]\ninterface = {{ n1 = \"a\" }}\n"
        )
    };
    let most = said(parse(&file(GATEWAYS_MAX)));
    assert!(
        most.starts_with("c:9: `interface` has none for \"n2\"; "),
        "{most}"
    );
    assert_table(&[(
        &file(GATEWAYS_MAX + 1),
        "c:7: there are more than 15 gateways; name those that have a line to the outside; a few that stand by suffice",
    )]);
}

/// What is written in a few bytes may stand for much.
#[test]
fn a_long_list_of_ranges_is_not_read_to_its_end() {
    let ranges = vec!["\"n[0-16383]\""; 100_000].join(",");
    let said = said(parse(&with("nodes", &format!("[{ranges}]"))));
    assert!(said.starts_with("c:15: there are more than 15"), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn interfaces() {
    let right = "write one that `ip link` shows: 1 to 15 bytes, without `/`, `:` and blanks";
    for name in [
        "",
        ".",
        "..",
        "a/b",
        "a b",
        "a\\tb",
        "eth0:1",
        "a\\n",
        "\u{a0}",
        "sixteen-bytes-xx",
        "sixtéen-bytes-x",
    ] {
        let shown = name.replace('\u{a0}', "\\u{a0}");
        let said = format!("c:17: interface \"{shown}\" cannot be the name of a device; {right}");
        values("interface", &[(&format!("\"{name}\""), &said)]);
    }
    let neither = format!(
        "c:17: `interface` is neither a text in quotes nor a table of them; {RIGHT_INTERFACE}"
    );
    values(
        "interface",
        &[
            ("\"fifteen-bytes-x\"", ""),
            (
                "\"lo\"",
                "c:17: interface \"lo\" does not lead outside; write the device that does, such as \"eth2\"",
            ),
            (
                "\"tab0\"",
                "c:17: interface \"tab0\" does not lead outside; write the device that does, such as \"eth2\"",
            ),
            ("[\"a\", \"b\"]", &neither),
            ("3", &neither),
        ],
    );
}

#[test]
fn interfaces_of_each() {
    let lacks_n0 = format!("c:17: `interface` has none for \"n0\"; {RIGHT_INTERFACE}");
    let lacks_both =
        format!("c:17: `interface` has none for \"n1\"; {RIGHT_INTERFACE}\n{lacks_n0}");
    let no_text = format!("c:17: `interface` of \"n0\" is not a text in quotes; {RIGHT_INTERFACE}");
    values(
        "interface",
        &[
            ("{ n0 = \"a\", n1 = \"b\" }", ""),
            ("{ n1 = \"b\" }", &lacks_n0),
            ("{}", &lacks_both),
            (
                "{ n0 = \"a\", n1 = \"b\", r1 = \"c\" }",
                "c:17: `interface` names \"r1\", which is no gateway; the gateways are n1, n0",
            ),
            ("{ n0 = 2, n1 = \"b\" }", &no_text),
            (
                "{ n0 = \"lo\", n1 = \"\" }",
                "c:17: interface \"lo\" does not lead outside; write the device that does, such as \"eth2\"\n\
                 c:17: interface \"\" cannot be the name of a device; write one that `ip link` shows: 1 to 15 bytes, without \
                 `/`, `:` and blanks",
            ),
        ],
    );
    // As a table of its own, with its own lines; and a name with a dot, once in quotes and once not.
    let file = "{KEY}[[node]]\nname = \"n[0-1].rack\"\nlinks = [\"10.77.0.[1-2]\"]\n[gateway]\nnodes = [\"n[0-1].rack\"]\n\
                addresses = [\"203.0.113.1/24\"]\n[gateway.interface]\n\"n0.rack\" = \"a\"\nn1.rack = \"b\"\nn1rack = \"b\"\n";
    assert_table(&[(
        file,
        &format!(
            "c:8: `interface` has none for \"n1.rack\"; {RIGHT_INTERFACE}\n\
             c:10: `interface` of \"n1\" is a table; put the name of a node that has a dot in quotes\n\
             c:11: `interface` names \"n1rack\", which is no gateway; did you mean \"n1.rack\"?"
        ),
    )]);
}

/// What must be said of an address that is the only one.
fn addresses(cases: &[(&str, &str)]) {
    for (address, expected) in cases {
        let shown = format!("c:16: address \"{address}\" {expected}");
        values("addresses", &[(&format!("[\"{address}\"]"), &shown)]);
    }
}

#[test]
fn addresses_by_themselves() {
    let no_list = format!("c:16: `addresses` is not a list; {RIGHT_ADDRESSES}");
    let none = format!("c:16: `addresses` has none; {RIGHT_ADDRESSES}");
    let no_text =
        format!("c:16: `addresses` has an entry that is not a text in quotes; {RIGHT_ADDRESSES}");
    values(
        "addresses",
        &[
            ("\"203.0.113.1/24\"", &no_list),
            ("[]", &none),
            ("[24]", &no_text),
        ],
    );
    let unread = "is not an address with the length of its network; write an address and the length of its network, such as \
                  \"203.0.113.1/24\"";
    let outside = "write one that the outside reaches the cluster at";
    for text in [
        "",
        "n0/24",
        "203.0.113.1/",
        "203.0.113.1/+24",
        "203.0.113.1/24/24",
        "fe80::1%ext0/64",
    ] {
        addresses(&[(text, unread)]);
    }
    for text in [
        "203.0.113.1/0",
        "203.0.113.1/32",
        "203.0.113.1/33",
        "203.0.113.1/999",
    ] {
        addresses(&[(
            text,
            "is in no network with others; write a length from 1 to 31, such as /24",
        )]);
    }
    for text in ["2001:db8::1/0", "2001:db8::1/128", "2001:db8::1/129"] {
        addresses(&[(
            text,
            "is in no network with others; write a length from 1 to 127, such as /64",
        )]);
    }
    for (text, what) in [
        ("127.0.0.1/8", "is a loopback address"),
        ("::1/64", "is a loopback address"),
        ("239.0.0.1/24", "is a multicast address"),
        ("ff02::1/64", "is a multicast address"),
        ("0.0.0.0/24", "stands for any address"),
        ("::/64", "stands for any address"),
        ("255.255.255.255/24", "is the broadcast address"),
        ("169.254.1.1/16", "is a link-local address"),
        (
            "fe80::1/64",
            "is a link-local address, which says nothing without its interface",
        ),
        (
            "::ffff:203.0.113.1/120",
            "is an IPv4 address in IPv6 clothes",
        ),
    ] {
        addresses(&[(text, &format!("{what}; {outside}"))]);
    }
    addresses(&[
        (
            "203.0.113.1",
            "has no length of its network; write it behind the address, such as \"203.0.113.1/24\"",
        ),
        (
            "2001:db8::1",
            "has no length of its network; write it behind the address, such as \"2001:db8::1/64\"",
        ),
        (
            "203.0.113.0/24",
            "is the network's own or its broadcast address; take another address of 203.0.113.0/24",
        ),
        (
            "203.0.113.255/24",
            "is the network's own or its broadcast address; take another address of 203.0.113.0/24",
        ),
        (
            "2001:db8::/64",
            "is the network's own or its broadcast address; take another address of 2001:db8::/64",
        ),
    ]);
}

#[test]
fn addresses_beside_others() {
    let taken = "take one that no node has: it is the cluster's, whichever gateway serves";
    let vnics = "c:16: address 10.99.0.200 is in the network of the virtual NICs, 10.99.0.0/24; take one of the network \
                 outside; virtual NICs have one that nothing else uses";
    values(
        "addresses",
        &[
            ("[\"10.77.0.200/24\"]", ""),
            (
                "[\"203.0.113.1/24\",\n\"203.0.113.2/24\", \"203.0.113.1/24\"]",
                "c:17: address 203.0.113.2 is the second one of IPv4, beside 203.0.113.1 (line 16); one of each family is possible\n\
                 c:17: address 203.0.113.1 is the second one of IPv4, beside 203.0.113.1 (line 16); one of each family is possible",
            ),
            (
                "[\"2001:db8::1/64\", \"203.0.113.1/24\", \"2001:db8::2/64\"]",
                "c:16: address 2001:db8::2 is the second one of IPv6, beside 2001:db8::1 (line 16); one of each family is possible",
            ),
            (
                "[\"10.77.1.2/24\"]",
                &format!("c:16: address 10.77.1.2 is link 1 of node \"n1\" (line 8); {taken}"),
            ),
            ("[\"10.99.0.200/16\"]", vnics),
        ],
    );
}

#[test]
fn routers() {
    let no_list = format!("c:18: `routers` is not a list; {RIGHT_ROUTERS}");
    let no_text =
        format!("c:18: `routers` has an entry that is not a text in quotes; {RIGHT_ROUTERS}");
    let unread = format!("c:18: router \"gw\" is not an IP address; {RIGHT_ROUTERS}");
    let far = "write its address in that network, or of IPv6 the one of its link (fe80::…): it is reached without another router";
    let far = [
        ("203.0.114.1", "203.0.113.0/24"),
        ("fec0::1", "2001:db8::/64"),
        ("::1", "2001:db8::/64"),
        ("0.0.0.0", "203.0.113.0/24"),
    ]
    .map(|(router, network)| {
        let said = format!("c:18: router {router} is not in the network outside, {network}; {far}");
        (format!("[\"{router}\"]"), said)
    });
    for (value, said) in &far {
        values("routers", &[(value, said)]);
    }
    let of_link = good(&with("routers", "[\"fe80::1\", \"203.0.113.254\"]"));
    assert_eq!(of_link.routers, [ip("203.0.113.254"), ip("fe80::1")]);
    let scoped = "c:18: router \"fe80::1%ext0\" is not an IP address; write \"fe80::1\", without a device: it is that of `interface`";
    values("routers", &[("[\"fe80::1%ext0\"]", scoped)]);
    values(
        "routers",
        &[
            ("\"203.0.113.254\"", &no_list),
            ("[254]", &no_text),
            ("[\"gw\"]", &unread),
            (
                "[\"203.0.113.254/24\"]",
                "c:18: router \"203.0.113.254/24\" is not an IP address; write \"203.0.113.254\", without the length of the network",
            ),
            (
                "[\"203.0.113.1\"]",
                "c:18: router 203.0.113.1 is the address of the cluster itself; write the router's own address; without a \
                 router the outside is that network only",
            ),
            (
                "[\"203.0.113.255\"]",
                "c:18: router 203.0.113.255 is the own or the broadcast address of 203.0.113.0/24; write the address of the router",
            ),
            (
                "[\"203.0.113.2\",\n\"203.0.113.3\"]",
                "c:19: router 203.0.113.3 is the second one of IPv4, beside 203.0.113.2 (line 18); one of each family is possible",
            ),
        ],
    );
}

/// One mistake is told once.
#[test]
fn a_router_is_held_against_the_addresses_that_can_be_read() {
    let file = |addresses: &str| {
        format!(
            "{NODES}[gateway]\nnodes = [\"n0\"]\naddresses = [{addresses}]\ninterface = \"e\"\nrouters = [\"2001:db8::fe\"]\n"
        )
    };
    assert_table(&[
        (
            &file("\"203.0.113.1/24\""),
            "c:18: router 2001:db8::fe has no address of IPv6 beside it; add one to `addresses`, or leave the router out",
        ),
        (
            &file("\"203.0.113.1/24\", \"2001:db8::1\""),
            "c:16: address \"2001:db8::1\" has no length of its network; write it behind the address, such as \"2001:db8::1/64\"",
        ),
        (
            &file(""),
            &format!("c:16: `addresses` has none; {RIGHT_ADDRESSES}"),
        ),
    ]);
}

#[test]
fn rates() {
    for (text, rate_bps) in [
        ("1mbit", 1_000_000),
        ("1000kbit", 1_000_000),
        ("1Gbit", 1_000_000_000),
        ("400gbit", 400_000_000_000),
    ] {
        let gateway = good(&with("rate", &format!("\"{text}\"")));
        assert_eq!(gateway.rate_bps, Some(rate_bps), "{text}");
    }
    let right = "write a whole number and kbit, mbit or gbit, such as \"1gbit\", from 1mbit to 400gbit, or leave it out for the \
                 device's own speed";
    for text in [
        "",
        "gbit",
        "1",
        "1bit",
        "1tbit",
        "1gb",
        "1gbps",
        "1 gbit",
        "+1gbit",
        "-1gbit",
        "1.5gbit",
        "0mbit",
        "999kbit",
        "401gbit",
        "18446744074gbit",
        "99999999999999999999gbit",
    ] {
        let said = format!("c:18: rate \"{text}\" is not one that a line could have; {right}");
        values("rate", &[(&format!("\"{text}\""), &said)]);
    }
    let said = format!("c:18: `rate` is not a text in quotes; {right}");
    values("rate", &[("1_000_000_000", &said)]);
}

#[test]
fn queue_and_numbers() {
    let right = "write \"fair\" (the default), or \"kernel\" to leave the queue to the device";
    values(
        "queue",
        &[
            ("\"kernel\"", ""),
            (
                "\"Fair\"",
                &format!("c:18: queue cannot be \"Fair\"; {right}"),
            ),
            (
                "false",
                &format!("c:18: `queue` is not a text in quotes; {right}"),
            ),
        ],
    );
    for (key, max, default) in [
        ("ports_per_node", 65_535, 4096),
        ("connections_per_node", 1_000_000, 50_000),
    ] {
        let above = (max + 1).to_string();
        for value in [
            "0",
            &above,
            "-1",
            "1.5",
            "\"1\"",
            "true",
            "99999999999999999999",
        ] {
            let said = format!(
                "c:18: {key} is not a number from 1 to {max}; write one without quotes, or leave it out for {default}"
            );
            values(key, &[(value, &said)]);
        }
        values(key, &[("1", "")]);
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_file() {
    let file = "{KEY}{N0}{N1}[gateway]\nnodes = [\"n0\", \"n7\"]\naddresses = [\"203.0.113.0/24\"]\ninterface = { n0 = \"lo\" }\n\
                routers = [\"x\"]\nrate = \"1\"\nqueue = \"red\"\nports_per_node = 0\nconnections_per_node = 0\nmtu = 1500\n";
    let said = said(parse(file));
    let places: Vec<&str> = said
        .lines()
        .map(|line| line.split(": ").next().expect("has a place"))
        .collect();
    let expected = [9, 10, 11, 11, 12, 13, 14, 15, 16, 17].map(|line| format!("c:{line}"));
    assert_eq!(places, expected, "{said}");
}
