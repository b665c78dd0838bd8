//! Nodes that are written in a line.

use super::{assert_table, parse};

fn file(lines: &str) -> String {
    format!("{{KEY}}[[node]]\n{lines}\n")
}

#[test]
fn a_thousand_nodes_are_written_in_a_line() {
    let lines = "name = \"n[000-999]\"\nlinks = [\"10.77.[0-3].[1-250]\", \"\", \"fd00::[1-1000]\"]\n\
                 vnic = \"10.99.[0-3].[1-250]/22\"\nmetrics = 9577";
    let (cluster, warnings) = parse(&file(lines)).expect("a good file");
    assert_eq!(warnings, []);
    assert_eq!(cluster.nodes.len(), 1000);
    for (index, name, link, far, vnic) in [
        (0, "n000", "10.77.0.1", "fd00::1", "10.99.0.1"),
        (249, "n249", "10.77.0.250", "fd00::250", "10.99.0.250"),
        (250, "n250", "10.77.1.1", "fd00::251", "10.99.1.1"),
        (999, "n999", "10.77.3.250", "fd00::1000", "10.99.3.250"),
    ] {
        let node = &cluster.nodes[index];
        assert_eq!(node.name, name);
        let links = [
            Some(link.parse().unwrap()),
            None,
            Some(far.parse().unwrap()),
        ];
        assert_eq!(node.links, links);
        assert_eq!(node.vnic, Some((vnic.parse().unwrap(), 22)));
        assert_eq!((node.lines.node, node.lines.vnic), (2, 5));
    }
    assert_eq!(cluster.metrics_of(7), "127.0.0.1:9577".parse().ok());
}

#[test]
fn ranges_that_do_not_fit_are_said_once() {
    let right_range =
        "write a range as [000-999], a list as [1,3,7-9], every second one as [0-10/2]";
    let right_count = "write a range with one for each node, in the order of their names";
    for (lines, said) in [
        (
            "name = \"n[0-\"\nlinks = [\"10.77.0.1\"]",
            format!("c:2: this is the only node; a cluster has at least two; add a `[[node]]` for each machine, or `join` in `[mesh]` if nodes are to join\nc:3: `name`: a bracket of \"n[0-\" is alone; {right_range}"),
        ),
        (
            "name = \"n[0-3]\"\nlinks = [\"10.77.0.[1-5]\", \"10.77.1.1\"]",
            format!(
                "c:4: link 0, \"10.77.0.[1-5]\", stands for 5, but `name` for 4 nodes; {right_count}\n\
                 c:4: link 1, \"10.77.1.1\", stands for 1, but `name` for 4 nodes; {right_count}"
            ),
        ),
        (
            "name = \"n[0-3]\"\nlinks = [\"10.77.0.[4-1]\"]",
            "c:4: link 0: \"4-1\" descends; write the smaller number first".to_owned(),
        ),
        (
            "name = \"n[0-3]\"\nlinks = [\"10.77.0.[1-4]\"]\nvnic = \"10.99.0.[1-4/2]/24\"",
            format!("c:5: `vnic`, \"10.99.0.[1-4/2]/24\", stands for 2, but `name` for 4 nodes; {right_count}"),
        ),
        (
            "name = \"-[0-999]\"\nlinks = [\"10.77.[0-3].[1-250]\"]",
            "c:3: \"-0\" cannot be a node's name; a name has 1 to 63 letters, digits, `-`, `_` or `.`, and begins with a letter or digit".to_owned(),
        ),
        (
            "name = \"n[0-3]\"\nlinks = [\"10.77.0.[254-257]\"]",
            "c:4: link 0, \"10.77.0.256\", is not an IP address; write an address such as \"10.77.0.1\" or \"fd00::1\", not a host name, without port or interface".to_owned(),
        ),
        (
            "name = \"n[0-16384]\"\nlinks = [\"10.77.0.1\"]",
            "c:2: this is the only node; a cluster has at least two; add a `[[node]]` for each machine, or `join` in `[mesh]` if nodes are to join\nc:3: `name`: \"0-16384\" stands for too many; at most 16384 nodes are possible".to_owned(),
        ),
        (
            "name = \"n[0-1]\"\nlinks = [\"10.77.0.[1-2]\"]\npublic = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"",
            "c:5: 2 nodes cannot have one `public`; give each node that has a key of its own a `[[node]]` of its own".to_owned(),
        ),
    ] {
        assert_table(&[(&file(lines), &said)]);
    }
}

#[test]
fn a_line_of_a_thousand_mistakes_is_told_of_in_a_few() {
    let nodes = "[[node]]\nname = \"n[0-999]\"\nlinks = [\"10.77.[0-3].[1-250]\"]\n";
    let error = parse(&format!("{{KEY}}{nodes}{nodes}")).expect_err("each node is there twice");
    let said: Vec<String> = error.problems.iter().map(|p| p.to_string()).collect();
    assert_eq!(said.len(), 6, "{said:?}");
    let last_name = "c:5: node \"n2\" is already there (line 2) (and 997 more like it); give every node a name of its own";
    assert_eq!(said[2], last_name);
}

#[test]
fn no_more_nodes_than_possible_are_written_in_lines() {
    let ten_thousand = |name: char, net: u8| {
        format!("[[node]]\nname = \"{name}[0-9999]\"\nlinks = [\"10.{net}.[0-99].[1-100]\"]\n")
    };
    let text = format!("{{KEY}}{}{}", ten_thousand('a', 1), ten_thousand('b', 2));
    assert_table(&[(
        &text,
        "c:5: there are 20000 nodes; at most 16384 are possible",
    )]);
}
