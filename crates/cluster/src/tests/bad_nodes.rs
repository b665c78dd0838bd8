//! Files whose nodes are wrong, by themselves or beside each other.

use super::assert_table;

#[test]
fn names() {
    let long = format!(
        "{{KEY}}{{N0}}[[node]]\nname = \"{}\"\nlinks = [\"10.77.0.2\"]\n",
        "x".repeat(64)
    );
    assert_table(&[
        (
            "{KEY}{N0}[[node]]\nlinks = [\"10.77.0.2\"]\n",
            "c:5: this node has no `name`; add name = \"…\"",
        ),
        (
            "{KEY}{N0}[[node]]\nname = 3\nlinks = [\"10.77.0.2\"]\n",
            "c:6: `name` is not a text in quotes; a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit",
        ),
        (
            "{KEY}{N0}[[node]]\nname = \"\"\nlinks = [\"10.77.0.2\"]\n",
            "c:6: \"\" cannot be a node's name; a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit",
        ),
        (
            "{KEY}{N0}[[node]]\nname = \"-x\"\nlinks = [\"10.77.0.2\"]\n",
            "c:6: \"-x\" cannot be a node's name; a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit",
        ),
        (
            "{KEY}{N0}[[node]]\nname = \"knöd el\\n\"\nlinks = [\"10.77.0.2\"]\n",
            "c:6: \"knöd el\\n\" cannot be a node's name; a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit",
        ),
        (
            &long,
            "c:6: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" cannot be a node's name; a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit",
        ),
        (
            "{KEY}{N0}[[node]]\nname = \"localhost\"\nlinks = [\"10.77.0.2\"]\n",
            "c:6: \"localhost\" cannot be a node's name: programs take it for an address; give the node a name such as \"n1\"",
        ),
        (
            "{KEY}{N0}[[node]]\nname = \"10.77.0.2\"\nlinks = [\"10.77.0.2\"]\n",
            "c:6: \"10.77.0.2\" cannot be a node's name: programs take it for an address; give the node a name such as \"n1\"",
        ),
        (
            "{KEY}{N0}[[node]]\nname = \"n0\"\nlinks = [\"10.77.0.2\"]\n",
            "c:5: node \"n0\" is already there (line 2); give every node a name of its own",
        ),
    ]);
}

/// The second node has these links.
fn links(cases: &[(&str, &str)]) {
    for (links, expected) in cases {
        let file = format!("{{KEY}}{{N0}}[[node]]\nname = \"n1\"\nlinks = {links}\n");
        assert_table(&[(&file, expected)]);
    }
}

#[test]
fn links_by_themselves() {
    assert_table(&[(
        "{KEY}{N0}[[node]]\nname = \"n1\"\n",
        "c:5: this node has no `links`; write links = [\"ADDRESS\", …], one address for each network in the same order on every node, \"\" where the node has none",
    )]);
    links(&[
        (
            "\"10.77.0.2\"",
            "c:7: `links` is not a list; write links = [\"ADDRESS\", …], one address for each network in the same order on every node, \"\" where the node has none",
        ),
        (
            "[]",
            "c:7: this node is on no network; write links = [\"ADDRESS\", …], one address for each network in the same order on every node, \"\" where the node has none",
        ),
        (
            "[\"\", \"\"]",
            "c:7: this node is on no network; write links = [\"ADDRESS\", …], one address for each network in the same order on every node, \"\" where the node has none",
        ),
        (
            "[7]",
            "c:7: link 0 is not a text in quotes; write links = [\"ADDRESS\", …], one address for each network in the same order on every node, \"\" where the node has none",
        ),
        (
            "[\"host.example\"]",
            "c:7: link 0, \"host.example\", is not an IP address; write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, without port or interface",
        ),
        (
            "[\"10.77.0.256\"]",
            "c:7: link 0, \"10.77.0.256\", is not an IP address; write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, without port or interface",
        ),
        (
            "[\"10.77.0.2/24\"]",
            "c:7: link 0, \"10.77.0.2/24\", is not an IP address; write \"10.77.0.2\", without the length of the network",
        ),
        (
            "[\"10.77.0.2:7577\"]",
            "c:7: link 0, \"10.77.0.2:7577\", is not an IP address; write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, without port or interface",
        ),
        (
            "[\"fe80::1%eth0\"]",
            "c:7: link 0, \"fe80::1%eth0\", is not an IP address; write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, without port or interface",
        ),
    ]);
}

#[test]
fn links_no_nic_can_have() {
    links(&[
        (
            "[\"0.0.0.0\"]",
            "c:7: link 0, \"0.0.0.0\", stands for any address; write the address of the node's own NIC on that network",
        ),
        (
            "[\"224.0.0.1\"]",
            "c:7: link 0, \"224.0.0.1\", is a multicast address; write the address of the node's own NIC on that network",
        ),
        (
            "[\"255.255.255.255\"]",
            "c:7: link 0, \"255.255.255.255\", is the broadcast address; write the address of the node's own NIC on that network",
        ),
        (
            "[\"::ffff:10.77.0.2\"]",
            "c:7: link 0, \"::ffff:10.77.0.2\", is an IPv4 address in IPv6 clothes; write it as IPv4",
        ),
        (
            "[\"fe80::1\"]",
            "c:7: link 0, \"fe80::1\", is a link-local address, which says nothing without its interface; give the NIC an address such as fd00:0:0:1::1 and write that",
        ),
        (
            "[\"10.77.0.2\", \"10.77.1.2\", \"10.77.2.2\", \"10.77.3.2\", \"10.77.4.2\", \"10.77.5.2\", \"10.77.6.2\", \"10.77.7.2\", \"10.77.8.2\"]",
            "c:7: this node has 9 links; at most 8 are possible",
        ),
        (
            "[\"10.77.0.2\",\n\"10.77.1\",\n 4]",
            "c:8: link 1, \"10.77.1\", is not an IP address; write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, without port or interface\nc:9: link 2 is not a text in quotes; write links = [\"ADDRESS\", …], one address for each network in the same order on every node, \"\" where the node has none",
        ),
    ]);
}

#[test]
fn links_beside_each_other() {
    links(&[
        (
            "[\"10.77.0.1\", \"10.77.1.2\"]",
            "c:7: 10.77.0.1 is already link 0 of node \"n0\" (line 4); every link of every node has an address of its own",
        ),
        (
            "[\"10.77.0.2\", \"10.77.0.2\"]",
            "c:7: link 1 has the same address as link 0, 10.77.0.2; every link of every node has an address of its own",
        ),
        (
            "[\"10.77.0.2\", \"10.77.0.1\"]",
            "c:7: 10.77.0.1 is already link 0 of node \"n0\" (line 4); every link of every node has an address of its own",
        ),
        (
            "[\"fd00::1\", \"10.77.1.2\"]",
            "c:7: link 0 is fd00::1, but that of node \"n0\" is 10.77.0.1; use either IPv4 or IPv6 for all nodes of one network",
        ),
    ]);
    assert_table(&[
        (
            "{KEY}[[node]]\nname = \"a\"\nlinks = [\"10.0.0.1\", \"10.0.0.2\"]\n[[node]]\nname = \"b\"\nlinks = [\"10.0.0.3\", \"10.0.0.4\"]\n",
            "c:7: networks 0 (10.0.0.0/30) and 1 (10.0.0.0/29) overlap, because of link 1 of node \"b\", 10.0.0.4; the i-th entry of every `links` is on network i, and networks do not overlap; are two entries swapped?",
        ),
        (
            "{KEY}[[node]]\nname = \"a\"\nlinks = [\"10.0.0.2\", \"10.0.0.1\"]\n[[node]]\nname = \"b\"\nlinks = [\"\", \"10.0.0.3\"]\n",
            "c:7: networks 0 (10.0.0.2/32) and 1 (10.0.0.0/30) overlap, because of link 1 of node \"b\", 10.0.0.3; the i-th entry of every `links` is on network i, and networks do not overlap; are two entries swapped?",
        ),
        (
            "{KEY}[[node]]\nname = \"a\"\nlinks = [\"fd00::1\", \"fd00::2\"]\n[[node]]\nname = \"b\"\nlinks = [\"fd00::3\", \"fd00::4\"]\n",
            "c:7: networks 0 (fd00::/126) and 1 (fd00::/125) overlap, because of link 1 of node \"b\", fd00::4; the i-th entry of every `links` is on network i, and networks do not overlap; are two entries swapped?",
        ),
    ]);
}

/// Two nodes with these virtual NICs.
fn vnics(cases: &[(&str, &str, &str)]) {
    for (first, second, expected) in cases {
        let file = format!("{{KEY}}{{N0}}vnic = {first}\n{{N1}}vnic = {second}\n");
        assert_table(&[(&file, expected)]);
    }
}

const GOOD: &str = "\"10.99.0.1/24\"";

#[test]
fn virtual_nics_by_themselves() {
    vnics(&[
        (
            GOOD,
            "3",
            "c:9: `vnic` is not a text in quotes; write an address and the length of its network, such as \"10.99.0.1/24\"",
        ),
        (
            GOOD,
            "\"10.99.0.2\"",
            "c:9: vnic \"10.99.0.2\" is not an address with the length of its network; write an address and the length of its network, such as \"10.99.0.1/24\"",
        ),
        (
            GOOD,
            "\"10.99.0.2/33\"",
            "c:9: vnic \"10.99.0.2/33\" is not an address with the length of its network; write an address and the length of its network, such as \"10.99.0.1/24\"",
        ),
        (
            GOOD,
            "\"10.99.0.2/+24\"",
            "c:9: vnic \"10.99.0.2/+24\" is not an address with the length of its network; write an address and the length of its network, such as \"10.99.0.1/24\"",
        ),
        (
            GOOD,
            "\"10.99.0.2/32\"",
            "c:9: vnic \"10.99.0.2/32\" is no network for several nodes; the network of the virtual NICs holds all of them, and nothing else",
        ),
        (
            GOOD,
            "\"10.99.0.2/0\"",
            "c:9: vnic \"10.99.0.2/0\" is no network for several nodes; the network of the virtual NICs holds all of them, and nothing else",
        ),
        (
            GOOD,
            "\"10.99.0.0/24\"",
            "c:9: vnic \"10.99.0.0/24\" is the network's own or its broadcast address; take another address of 10.99.0.0/24",
        ),
        (
            GOOD,
            "\"10.99.0.255/24\"",
            "c:9: vnic \"10.99.0.255/24\" is the network's own or its broadcast address; take another address of 10.99.0.0/24",
        ),
        (
            GOOD,
            "\"127.0.0.1/8\"",
            "c:9: vnic \"127.0.0.1/8\" is a loopback address; write an address and the length of its network, such as \"10.99.0.1/24\"",
        ),
        (
            GOOD,
            "\"239.0.0.1/24\"",
            "c:9: vnic \"239.0.0.1/24\" is a multicast address; write an address and the length of its network, such as \"10.99.0.1/24\"",
        ),
        (
            GOOD,
            "\"fe80::1/64\"",
            "c:9: vnic \"fe80::1/64\" is a link-local address, which says nothing without its interface; write an address and the length of its network, such as \"10.99.0.1/24\"",
        ),
    ]);
}

#[test]
fn virtual_nics_beside_each_other_and_links() {
    vnics(&[
        (
            GOOD,
            "\"10.99.0.1/24\"",
            "c:9: vnic 10.99.0.1 is already that of node \"n0\" (line 5); every node has a vnic address of its own",
        ),
        (
            GOOD,
            "\"10.98.0.2/24\"",
            "c:9: vnic 10.98.0.2/24 is in 10.98.0.0/24, but that of node \"n0\" is in 10.99.0.0/24; the virtual NICs of all nodes are in one network",
        ),
        (
            GOOD,
            "\"10.99.0.2/16\"",
            "c:9: vnic 10.99.0.2/16 is in 10.99.0.0/16, but that of node \"n0\" is in 10.99.0.0/24; the virtual NICs of all nodes are in one network",
        ),
        (
            GOOD,
            "\"fd00::2/64\"",
            "c:9: vnic fd00::2/64 is in fd00::/64, but that of node \"n0\" is in 10.99.0.0/24; the virtual NICs of all nodes are in one network",
        ),
        (
            "\"10.77.1.3/24\"",
            "\"10.77.1.4/24\"",
            "c:5: the network of the virtual NICs, 10.77.1.0/24, contains link 1 of node \"n0\" (10.77.1.1, line 4); take a network that nothing else uses, such as 10.99.0.0/24",
        ),
        (
            "\"10.0.0.3/8\"",
            "\"10.0.0.4/8\"",
            "c:5: the network of the virtual NICs, 10.0.0.0/8, contains link 0 of node \"n0\" (10.77.0.1, line 4); take a network that nothing else uses, such as 10.99.0.0/24\nc:5: the network of the virtual NICs, 10.0.0.0/8, contains link 1 of node \"n0\" (10.77.1.1, line 4); take a network that nothing else uses, such as 10.99.0.0/24",
        ),
    ]);
}

#[test]
fn public_keys() {
    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let right = "run `tabane key` on that node, and write the line that it prints";
    let cases = [
        ("7".to_owned(), "`public` is not a text in quotes"),
        (
            "\"\"".to_owned(),
            "`public` has 0 characters, but a key has 44",
        ),
        (
            format!("\"{}\"", super::KEY),
            "`public` has 64 characters, but a key has 44",
        ),
        (
            format!("\"{}\"", &KEY[1..]),
            "`public` has 43 characters, but a key has 44",
        ),
        (
            format!("\"{}\"", KEY.replace('w', "ö")),
            "`public` has characters that are not Base64",
        ),
        (
            format!("\"{}\"", KEY.replace("8=", "9=")),
            "`public` does not end as a key does, so some of it is missing",
        ),
        (
            format!("\"{}=\"", "A".repeat(43)),
            "`public` is no key: all its bytes are 0",
        ),
    ];
    for (public, expected) in cases {
        let file = format!("{{KEY}}{{N0}}public = {public}\n{{N1}}");
        assert_table(&[(&file, &format!("c:5: {expected}; {right}"))]);
    }
    assert_table(&[
        (
            &format!("{{KEY}}{{N0}}public = \"{KEY}\"\n{{N1}}public = \"{KEY}\"\n"),
            "c:9: `public` of node \"n1\" is that of node \"n0\" (line 5), too; every node has a key of its own: on one of them, move its node.key away, run `tabane key`, and write the line that it prints",
        ),
        (
            "{KEY}node_key_file = 7\n{N0}{N1}",
            "c:2: `node_key_file` is not a path in quotes; write the path at which every node has its own private key, or leave it out",
        ),
    ]);
}
