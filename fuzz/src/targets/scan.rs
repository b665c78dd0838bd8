//! Any bytes as what a machine of the network says to `tabane init --scan` or `--answer`: understood only if tabane would say
//! just that, and what is proposed can be written into a file and shown on a terminal.

use std::net::IpAddr;

use tabane_program::init::scan::links::{Own, propose};
use tabane_program::init::scan::words::Words;

/// Feeds it `datagram`.
pub fn run(datagram: &[u8]) {
    let Some(words) = Words::parse(datagram) else {
        return;
    };
    assert_eq!(words.encode(), datagram);
    let Words::Answer(answer) = words else {
        return;
    };
    let own = Own {
        interface: "eth0".to_owned(),
        addresses: vec![(IpAddr::from([10, 77, 0, 1]), 24)],
    };
    let mut renamed = answer.clone();
    renamed.answerer[0] ^= 1;
    let proposal = propose("n0", &[own], &[(0, answer), (0, renamed)]);
    for (name, _) in &proposal.nodes {
        assert!(tabane_cluster::is_node_name(name), "{name:?}");
    }
    for warning in &proposal.warnings {
        assert!(!warning.contains(char::is_control), "{warning:?}");
    }
}
