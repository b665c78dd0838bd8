use super::*;
use crate::status::topology::{Ambiguity, Network, SCHEMA, Switch, Trunk};

fn switch(id: &str, nodes: &[&str]) -> Switch {
    Switch {
        id: id.to_owned(),
        nodes: nodes.iter().copied().map(str::to_owned).collect(),
        confidence: 0.99,
    }
}

fn trunk(a: &str, b: &str, hops: u32) -> Trunk {
    Trunk {
        between: (a.to_owned(), b.to_owned()),
        mbps: None,
        hops,
        confidence: 0.99,
    }
}

/// Two switches with nodes under one without, a third with nodes below the second, and a node that nobody knows.
fn example() -> Topology {
    let network = Network {
        link: 0,
        switches: vec![
            switch("s0", &["n0", "n1"]),
            switch("s1", &["n2"]),
            switch("s2", &["n3", "n4"]),
            switch("s3", &[]),
        ],
        trunks: vec![
            trunk("s0", "s3", 1),
            trunk("s1", "s3", 1),
            trunk("s1", "s2", 2),
        ],
        ambiguous: vec![vec!["n5".to_owned()]],
        doubts: vec![Ambiguity {
            nodes: vec!["n5".to_owned()],
            switches: Vec::new(),
        }],
    };
    Topology {
        schema: SCHEMA,
        measured_unix_ms: 1_000,
        networks: vec![network],
    }
}

#[test]
fn slurm_has_nodes_at_leaves_and_one_root() {
    let text = formats::slurm(&example()).expect("switches are known");
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "SwitchName=s0 Nodes=n0,n1",
            "SwitchName=s3 Switches=s0",
            "SwitchName=s2 Nodes=n3,n4",
            "SwitchName=s1 Nodes=n2",
            "SwitchName=s1-up Switches=s1,s3,s2",
            "SwitchName=unknown-nodes Nodes=n5",
            "SwitchName=unknown Switches=s1-up,unknown-nodes",
        ]
    );
    let nothing = Topology {
        networks: Vec::new(),
        ..example()
    };
    assert!(formats::slurm(&nothing).is_err());
}

#[test]
fn a_table_has_every_node_and_says_what_is_not_known() {
    let text = show::table(&example(), 61_000);
    assert_eq!(
        text,
        "Measured 1m00s ago.\n\n\
         link 0\n  \
           s1  99%  n2\n    \
             s3  99%  (no nodes)\n      \
               s0  99%  n0 n1\n    \
             s2  99%  n3 n4  2 trunks away\n  \
           not known: where n5 is\n"
    );
}

#[test]
fn drawings_have_every_switch_node_and_trunk() {
    let (dot, svg) = (formats::dot(&example()), show::svg(&example()));
    for name in ["s0", "s1", "s2", "s3", "n0", "n1", "n2", "n3", "n4", "n5"] {
        assert!(dot.contains(&format!("\"0/{name}\"")), "{name}: {dot}");
        assert!(svg.contains(name), "{name}: {svg}");
    }
    assert_eq!(dot.matches("penwidth").count(), 3);
    assert_eq!(svg.matches("<path").count(), 3);
}

#[test]
fn what_does_not_hang_together_has_a_root_each() {
    let mut topology = example();
    topology.networks[0].trunks.remove(1);
    let network = &topology.networks[0];
    let roots: Vec<&str> = tree::trees(network)
        .iter()
        .map(|tree| network.switches[tree.switch].id.as_str())
        .collect();
    assert_eq!(roots, ["s3", "s1"]);
}

#[test]
fn ids_of_an_earlier_survey_are_kept_though_nodes_are_numbered_anew() {
    let before = &example().networks[0];
    let names = ["n4", "n3", "n2", "n1", "n0"].map(str::to_owned);
    let map = before.as_map(&names);
    assert_eq!(map.switches[0].nodes, [3, 4]);
    let mut anew = tabane_proto::topology::Map {
        switches: map.switches.iter().rev().cloned().collect(),
        ..tabane_proto::topology::Map::default()
    };
    for (at, switch) in anew.switches.iter_mut().enumerate() {
        switch.id = at as u32;
    }
    anew.keep_ids(&map);
    let network = Network::of(0, &anew, &names, &["n5".to_owned()]);
    let same = |id: &str| network.switches.iter().find(|s| s.id == id);
    assert_eq!(
        same("s0").map(|s| &s.nodes[..]),
        Some(&["n1", "n0"].map(str::to_owned)[..])
    );
    assert_eq!(same("s2").map(|s| s.nodes.len()), Some(2));
    assert_eq!(network.doubts, before.doubts);
}
