//! Files with a wrong entry outside of the nodes, or no TOML at all.

use super::super::{Cluster, NODES_MAX};
use super::{KEY, assert_table, fill, parse, said};

#[test]
fn not_toml() {
    assert_table(&[
        (
            "{KEY}wire = plain\n{N0}{N1}",
            "c:2: is not TOML: string values must be quoted, expected literal string; write `word = \"text\"`, and `[[node]]` before each node, as `tabane init` shows",
        ),
        (
            "{KEY}wire = \"plain\n{N0}{N1}",
            "c:2: is not TOML: invalid basic string, expected `\"`; write `word = \"text\"`, and `[[node]]` before each node, as `tabane init` shows",
        ),
        (
            "{KEY}[[node]\n",
            "c:2: is not TOML: unclosed array table, expected `]`; write `word = \"text\"`, and `[[node]]` before each node, as `tabane init` shows",
        ),
        (
            "{KEY}port = 1\nport = 2\n{N0}{N1}",
            "c:3: is not TOML: duplicate key; keep one of the two",
        ),
        (
            "\u{0}",
            "c:1: is not TOML: key with no value, expected `=`; write `word = \"text\"`, and `[[node]]` before each node, as `tabane init` shows\nc:1: is not TOML: invalid unquoted key, expected letters, numbers, `-`, `_`; write `word = \"text\"`, and `[[node]]` before each node, as `tabane init` shows",
        ),
    ]);
}

/// A key is easily mistyped in ways that are no TOML.
#[test]
fn a_key_that_is_no_toml_is_not_shown() {
    for file in [
        format!("key = {KEY}\n"),
        format!("key = \"{KEY}\n"),
        format!("key = '{KEY}\"\n"),
        format!("key \"{KEY}\"\n"),
        format!("key : {KEY}\n"),
        format!("{KEY}\n"),
        format!("key = [{KEY}\n"),
    ] {
        let said = said(Cluster::parse("c".as_ref(), &file, 0o600));
        assert!(said.starts_with("c:1: is not TOML: "), "{said}");
        assert!(!said.contains(&KEY[8..16]), "shown: {said}");
    }
}

#[test]
fn unknown_keys() {
    assert_table(&[
        (
            "{KEY}prot = 7577\n{N0}{N1}",
            "c:2: unknown key `prot`; did you mean `port`?",
        ),
        (
            "{KEY}Wire = \"plain\"\n{N0}{N1}",
            "c:2: unknown key `Wire`; did you mean `wire`?",
        ),
        (
            "{KEY}colour = \"red\"\n{N0}{N1}",
            "c:2: unknown key `colour`; the keys are key, key_file, second_key, second_key_file, node_key_file, wire, port, metrics, mptcp, run, vnic, mesh, gateway, flow, node",
        ),
        (
            "{KEY}{N0}vinc = \"10.99.0.1/24\"\n{N1}",
            "c:5: unknown key `vinc`; did you mean `vnic`?",
        ),
        (
            "{KEY}{N0}weight = 3\n{N1}",
            "c:5: unknown key `weight`; the keys of a node are name, links, vnic, metrics, public",
        ),
        (
            "{KEY}\"a\\nb\\u001b[31m\" = 3\n{N0}{N1}",
            "c:2: unknown key `a\\nb\\u{1b}[31m`; the keys are key, key_file, second_key, second_key_file, node_key_file, wire, port, metrics, mptcp, run, vnic, mesh, gateway, flow, node",
        ),
        (
            "{KEY}{N0}{N1}[mesh]\nx = 1\n",
            "c:9: unknown key `x`; the keys of `[mesh]` are bundles, join, forget_after_s, relay, relay_mbps",
        ),
    ]);
}

#[test]
fn keys() {
    let digits = |n| format!("key = \"{}\"\n{{N0}}{{N1}}", &KEY.repeat(2)[..n]);
    let zeros = format!("key = \"{}\"\n{{N0}}{{N1}}", "0".repeat(64));
    assert_table(&[
        (
            "{N0}{N1}",
            "c: there is neither `key` nor `key_file`; add one; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one",
        ),
        (
            "key = \"\"\n{N0}{N1}",
            "c:1: the key is too short: 0 of 64 digits; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one",
        ),
        (
            &digits(63),
            "c:1: the key is too short: 63 of 64 digits; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one",
        ),
        (
            &digits(66),
            "c:1: the key is too long: 66 digits instead of 64; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one",
        ),
        (
            &zeros,
            "c:1: the key can be guessed: all its bytes are the same; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one",
        ),
        (
            "key = \"X42+LoreY1y4k3CBp5+qfA2eS8sE3y3sY9RkQmYy8lc=\"\n{N0}{N1}",
            "c:1: the key has characters that are not hexadecimal digits; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one",
        ),
        (
            "key = 12\n{N0}{N1}",
            "c:1: `key` is not a text in quotes; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one",
        ),
        (
            "{KEY}key_file = \"k\"\n{N0}{N1}",
            "c:2: there are both `key` and `key_file`; keep one of them",
        ),
        (
            "key_file = 3\n{N0}{N1}",
            "c:1: `key_file` is not a text in quotes; write the path of the file that holds the key",
        ),
        (
            "key_file = \"/nonexistent/k\"\n{N0}{N1}",
            "c:1: key_file /nonexistent/k cannot be read: no such file or directory; check the path",
        ),
        (
            "key_file = \"/\"\n{N0}{N1}",
            "c:1: key_file / cannot be read: not a regular file; name a regular file, not a directory, pipe or device",
        ),
        (
            "key_file = \"/dev/zero\"\n{N0}{N1}",
            "c:1: key_file /dev/zero cannot be read: not a regular file; name a regular file, not a directory, pipe or device",
        ),
    ]);
}

#[test]
fn wire_and_port() {
    assert_table(&[
        (
            "{KEY}wire = \"clear\"\n{N0}{N1}",
            "c:2: wire cannot be \"clear\"; write \"encrypted\" (the default), or \"plain\" for trusted wires only",
        ),
        (
            "{KEY}wire = true\n{N0}{N1}",
            "c:2: `wire` is not a text in quotes; write \"encrypted\" (the default), or \"plain\" for trusted wires only",
        ),
        (
            "{KEY}port = 0\n{N0}{N1}",
            "c:2: port is not a UDP port; write a number from 1 to 65535 without quotes, or leave it out for 7577",
        ),
        (
            "{KEY}port = 65536\n{N0}{N1}",
            "c:2: port is not a UDP port; write a number from 1 to 65535 without quotes, or leave it out for 7577",
        ),
        (
            "{KEY}port = -1\n{N0}{N1}",
            "c:2: port is not a UDP port; write a number from 1 to 65535 without quotes, or leave it out for 7577",
        ),
        (
            "{KEY}port = \"7577\"\n{N0}{N1}",
            "c:2: port is not a UDP port; write a number from 1 to 65535 without quotes, or leave it out for 7577",
        ),
        (
            "{KEY}port = 7577.5\n{N0}{N1}",
            "c:2: port is not a UDP port; write a number from 1 to 65535 without quotes, or leave it out for 7577",
        ),
    ]);
}

#[test]
fn no_nodes() {
    assert_table(&[
        (
            "{KEY}",
            "c: there are no nodes yet; add a `[[node]]` with `name` and `links` for each machine; in a file made by `tabane init`, fill in the examples and remove the `#` before them",
        ),
        (
            "{KEY}node = []\n",
            "c:2: there are no nodes yet; add a `[[node]]` with `name` and `links` for each machine; in a file made by `tabane init`, fill in the examples and remove the `#` before them",
        ),
        (
            "{KEY}node = 3\n",
            "c:2: `node` is not a list of nodes; write `[[node]]` on a line of its own before each node, with `name` and `links` below it",
        ),
        (
            "{KEY}node = [3]\n",
            "c:2: `node` has an entry that is no node; write `[[node]]` on a line of its own before each node, with `name` and `links` below it",
        ),
        (
            "{KEY}[node]\nname = \"n0\"\n",
            "c:2: `node` is not a list of nodes; write `[[node]]` on a line of its own before each node, with `name` and `links` below it",
        ),
        (
            "{KEY}{N0}",
            "c:2: this is the only node; a cluster has at least two; add a `[[node]]` for each machine, or `join` in `[mesh]` if nodes are to join",
        ),
    ]);
}

#[test]
fn more_nodes_than_possible() {
    let text = fill("{KEY}") + &"[[node]]\n".repeat(NODES_MAX + 1);
    assert_eq!(
        said(Cluster::parse("c".as_ref(), &text, 0o600)),
        "c:2: there are 16385 nodes; at most 16384 are possible"
    );
}

#[test]
fn everything_wrong_is_told_at_once_in_the_order_of_the_file() {
    assert_table(&[(
        "prot = 3\nkey = \"12\"\nwire = \"no\"\n[[node]]\nname = \"a b\"\nlinks = [\"x\"]\n\
         [[node]]\nlinks = [\"10.0.0.2\"]\nvnic = \"10.99.0.1\"\n",
        "c:1: unknown key `prot`; did you mean `port`?\nc:2: the key is too short: 2 of 64 digits; a key is 64 hexadecimal digits (32 bytes), the same on every node; `tabane init` or `openssl rand -hex 32` makes one\nc:3: wire cannot be \"no\"; write \"encrypted\" (the default), or \"plain\" for trusted wires only\nc:5: \"a b\" cannot be a node's name; a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit\nc:6: link 0, \"x\", is not an IP address; write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, without port or interface\nc:7: this node has no `name`; add name = \"…\"\nc:9: vnic \"10.99.0.1\" is not an address with the length of its network; write an address and the length of its network, such as \"10.99.0.1/24\"",
    )]);
}

#[test]
fn metrics() {
    let right = "write a TCP port without quotes, such as 9577, for this machine only, or \"ADDRESS:PORT\", such as \"0.0.0.0:9577\", for others too";
    for (value, what) in [
        ("\"9577\"", "metrics \"9577\" is no address and port"),
        (
            "\"localhost:9577\"",
            "metrics \"localhost:9577\" is no address and port",
        ),
        (
            "\"10.0.0.1\"",
            "metrics \"10.0.0.1\" is no address and port",
        ),
        (
            "\"10.0.0.1:0\"",
            "metrics \"10.0.0.1:0\" is no address and port",
        ),
        ("0", "`metrics` is no TCP port"),
        ("65536", "`metrics` is no TCP port"),
        ("-1", "`metrics` is no TCP port"),
        ("true", "`metrics` is no TCP port"),
        ("[9577]", "`metrics` is no TCP port"),
    ] {
        assert_table(&[
            (
                &format!("{{KEY}}metrics = {value}\n{{N0}}{{N1}}"),
                &format!("c:2: {what}; {right}"),
            ),
            (
                &format!("{{KEY}}{{N0}}metrics = {value}\n{{N1}}"),
                &format!("c:5: {what}; {right}"),
            ),
        ]);
    }
}

#[test]
fn run() {
    let right = "write one from 1 to 31536000 without quotes, or leave it out for 900";
    for value in ["0", "31536001", "-1", "1.5", "\"900\"", "true"] {
        let what = "all_links_down_s is not a number of seconds that connections could wait";
        assert_table(&[(
            &format!("{{KEY}}{{N0}}{{N1}}[run]\nall_links_down_s = {value}\n"),
            &format!("c:9: {what}; {right}"),
        )]);
    }
    for value in ["0", "\"never\"", "[]"] {
        assert_table(&[(
            &format!("{{KEY}}{{N0}}{{N1}}[run]\nplain_tcp = {value}\n"),
            "c:9: plain_tcp is neither true nor false; write `plain_tcp = false` to have nothing between \
             nodes carried in the clear, or leave it out",
        )]);
    }
    for (key, value) in [
        ("users", "\"alice\""),
        ("users", "[1000]"),
        ("users", "[\"\"]"),
        ("group", "[\"hpc\"]"),
        ("group", "\"a:b\""),
        ("off", "\"yes\""),
    ] {
        let found = said(parse(&format!(
            "{{KEY}}{{N0}}{{N1}}[run]\n{key} = {value}\n"
        )));
        assert!(found.starts_with(&format!("c:9: {key} is n")), "{found}");
    }
    assert_table(&[
        (
            "{KEY}run = 900\n{N0}{N1}",
            "c:2: `run` is not a table; write `[run]` on a line of its own, and `all_links_down_s = 900` below it",
        ),
        (
            "{KEY}run.all_links_down = 900\n{N0}{N1}",
            "c:2: unknown key `all_links_down`; did you mean `all_links_down_s`?",
        ),
    ]);
}

#[test]
fn mtu_of_the_virtual_nics() {
    let right = "write one from 1280 to 65521 without quotes, or leave it out for 62000";
    for value in [
        "1279",
        "65522",
        "-1",
        "1.5",
        "\"1500\"",
        "true",
        "99999999999999999999",
    ] {
        assert_table(&[(
            &format!("{{KEY}}{{N0}}{{N1}}[vnic]\nmtu = {value}\n"),
            &format!("c:9: mtu is not a number of bytes that a packet could have; {right}"),
        )]);
    }
    assert_table(&[
        (
            "{KEY}vnic = \"10.99.0.1/24\"\n{N0}{N1}",
            "c:2: `vnic` is not a table; write `[vnic]` on a line of its own, and `mtu = 1500` below it; \
             a node's address stands below its `[[node]]`",
        ),
        (
            "{KEY}vnic.mut = 1500\n{N0}{N1}",
            "c:2: unknown key `mut`; did you mean `mtu`?",
        ),
        (
            "{KEY}vnic.hosts = \"yes\"\n{N0}{N1}",
            "c:2: hosts is neither true nor false; \
             write `hosts = true` to have the nodes' names in /etc/hosts, or leave it out",
        ),
    ]);
}

#[test]
fn flow() {
    const RIGHT_PORT: &str =
        "write a number from 1 to 65535, a range as in \"5000-5010\", or a list of these";
    let with = |text: &str| format!("{{KEY}}{{N0}}{{N1}}[[flow]]\n{text}\n");
    let bad_port = format!("c:9: port is neither a port nor a range of ports; {RIGHT_PORT}");
    for port in [
        "0",
        "65536",
        "\"80-\"",
        "\"81-80\"",
        "\"http\"",
        "[]",
        "[80, true]",
    ] {
        let file = with(&format!("port = {port}\ncarry = \"mirror\""));
        assert_eq!(said(parse(&file)), bad_port, "{port}");
    }
    for (text, expected) in [
        (
            "carry = \"mirror\"",
            "c:8: this `[[flow]]` does not say which traffic; say which with `port`, `protocol`, `dscp` or `net`",
        ),
        (
            "port = 80",
            "c:8: this `[[flow]]` says nothing of its traffic; say how with `carry`, `link` or `rate`",
        ),
        (
            "port = 80\nlink = 2",
            "c:10: no node has a link 2; count the addresses in `links` from 0",
        ),
        (
            "port = 80\nlink = 8",
            "c:10: link is not the number of a link; write one from 0 to 7 without quotes",
        ),
        (
            "port = 80\nlink = 1\ncarry = \"mirror\"",
            "c:10: there are both `carry` and `link`; keep one of them: one says over which links, the other names the one",
        ),
        (
            "protocol = \"sctp\"\nlink = 1",
            "c:9: protocol is neither tcp nor udp; write \"tcp\" or \"udp\", or leave it out for all",
        ),
        (
            "dscp = 64\nlink = 1",
            "c:9: dscp is not a code point; write a number from 0 to 63, or a name such as \"ef\", \"cs5\" or \"af41\" (RFC 4594)",
        ),
        (
            "net = \"n1\"\nlink = 1",
            "c:9: net is neither an address nor a network; write an address or a network of either end, such as \"10.99.0.3\" or \"10.99.0.0/28\"",
        ),
        (
            "port = 80\ncarry = \"both\"",
            "c:10: carry cannot be \"both\"; write \"mirror\" (each packet on two links), \"stripe\" (each packet on the link that delivers it soonest), or leave it out",
        ),
        (
            "port = 80\nrate = \"1mb\"",
            "c:10: rate \"1mb\" is not one that a line could have; write a whole number and kbit, mbit or gbit, such as \"200mbit\", from 1mbit to 400gbit, or leave it out",
        ),
        (
            "port = 80\nlink = 1\n[[flow]]\nport = \"80-80\"\nlink = 0",
            "c:11: this `[[flow]]` speaks of the same traffic as one before it; keep one of them: the first would hold",
        ),
        (
            "ports = 80\nlink = 1",
            "c:8: this `[[flow]]` does not say which traffic; say which with `port`, `protocol`, `dscp` or `net`\nc:9: unknown key `ports`; did you mean `port`?",
        ),
    ] {
        assert_eq!(said(parse(&with(text))), expected, "{text}");
    }
    let file = with("port = 80\nlink = 1").replace("[[flow]]", "[flow]");
    assert_eq!(
        said(parse(&file)),
        "c:8: `flow` is not a list of flows; write `[[flow]]` on a line of its own before each, with `port = 5060` or the like below it"
    );
    let file = with("port = 80\nlink = 1");
    let many: String = (0..33)
        .map(|n| format!("[[flow]]\nport = {}\nlink = 1\n", n + 1))
        .collect();
    assert_eq!(
        said(parse(
            &file.replace("[[flow]]\nport = 80\nlink = 1\n", &many)
        )),
        "c:8: there are 33 `[[flow]]`; at most 32 are possible"
    );
}

#[test]
fn mesh() {
    let mesh = |text: &str| format!("{{KEY}}{{N0}}{{N1}}[mesh]\n{text}\n");
    let relay =
        "write `relay = false` if this node is to relay nothing for others, or leave it out";
    let mbps = "write a number from 1 to 1000000 without quotes, or leave it out for what the links carry; \
                `relay = false` is none at all";
    let bundles = "write a number from 4 to 65535 without quotes, \"all\" for a bundle with every node, or leave it out for 64";
    for (text, said) in [
        (
            "relays = true",
            "c:9: unknown key `relays`; did you mean `relay`?".to_owned(),
        ),
        (
            "relay = 1",
            format!("c:9: relay is neither true nor false; {relay}"),
        ),
        (
            "relay_mbps = 0",
            format!("c:9: relay_mbps is not a rate in Mb/s; {mbps}"),
        ),
        (
            "relay_mbps = \"500\"",
            format!("c:9: relay_mbps is not a rate in Mb/s; {mbps}"),
        ),
        ("relay_mbps = 500", String::new()),
        ("bundles = 4", String::new()),
        (
            "bundles = 3",
            "c:9: warning: bundles = 3 is too few for a mesh; 4 are used; write 4 or more, or leave it out for 64"
                .to_owned(),
        ),
        ("bundles = \"all\"", String::new()),
        (
            "bundles = 0",
            format!("c:9: bundles is not a number of bundles; {bundles}"),
        ),
        (
            "bundles = \"many\"",
            format!("c:9: bundles is not a number of bundles; {bundles}"),
        ),
    ] {
        assert_table(&[(&mesh(text), &said)]);
    }
    let join = "write addresses of links of nodes that are seldom down, as in join = [\"10.77.0.1\", \"10.77.1.1\"]; \
                an empty list is right on a node that others join";
    let forget = "write seconds from 10 to 31536000 without quotes, or leave it out for 600";
    for (text, said) in [
        ("join = []", String::new()),
        ("join = [\"10.77.0.1\"]\nforget_after_s = 60", String::new()),
        (
            "join = true",
            format!("c:9: join is not a list of addresses; {join}"),
        ),
        (
            "join = [\"n0\", 7]",
            format!("c:9: join: \"n0\" is not an IP address; {join}\nc:9: join: an entry is not an IP address; {join}"),
        ),
        (
            "join = [\"127.0.0.1\"]",
            format!("c:9: join: 127.0.0.1 is no address of a link of another node; {join}"),
        ),
        (
            "join = [\"10.77.0.1\", \"10.77.0.1\"]",
            "c:9: join: 10.77.0.1 is already there; name each once".to_owned(),
        ),
        (
            "join = []\nforget_after_s = 9",
            format!("c:10: forget_after_s is not a number of seconds; {forget}"),
        ),
        (
            "forget_after_s = 60",
            "c:9: forget_after_s has no meaning without `join`; leave it out, or write `join = [\"ADDRESS\", …]` if nodes \
             are to join that are not in the file"
                .to_owned(),
        ),
    ] {
        assert_table(&[(&mesh(text), &said)]);
    }
    assert_table(&[("{KEY}{N0}[mesh]\njoin = []\n", "")]);
    let right = "write `[mesh]` on a line of its own; nodes without a link in common that works then reach each other \
                 through others";
    assert_table(&[(
        "{KEY}mesh = true\n{N0}{N1}",
        &format!("c:2: `mesh` is not a table; {right}"),
    )]);
}
