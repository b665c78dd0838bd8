//! Links with several switches, which pass a frame on when it is there whole.

mod common;

use common::*;
use tabane_lab::{Fault, Lab, LabConfig, LabError, LinkSpec};

/// Two switches with two nodes each under a third one, on two links. A full frame is 1.23 ms on each wire.
fn tree() -> Lab {
    let config = LabConfig {
        nodes: 4,
        links: vec![LinkSpec::mbit(10); 2],
        tree: vec![2, 2],
        ..LabConfig::default()
    };
    Lab::up(&config).expect("a lab comes up")
}

/// The least round trip of some pings of this payload, in ms.
fn least_ms(lab: &Lab, from: usize, to: usize, link: usize, bytes: u32) -> f64 {
    let mut ping = lab.command(from, "ping");
    ping.args(["-q", "-c", "20", "-i", "0.02", "-s", &bytes.to_string()]);
    ping.arg(lab.address(to, link).to_string());
    let said = text(&run(ping).stdout);
    let times = said.lines().find(|line| line.starts_with("rtt"));
    let times = times.and_then(|line| line.split(" = ").nth(1));
    let least = times.and_then(|times| times.split('/').next());
    let least = least.and_then(|least| least.parse().ok());
    least.unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn every_switch_on_the_way_holds_a_frame_until_it_is_there() {
    let lab = tree();
    for link in 0..2 {
        // One switch between: the wires to it and from it, there and back.
        let near = least_ms(&lab, 0, 1, link, 1472);
        // Three: four wires.
        let far = least_ms(&lab, 0, 2, link, 1472);
        assert!(near >= 4.0 * 1.23 - 0.1, "{near} ms");
        assert!(far >= 8.0 * 1.23 - 0.1, "{far} ms");
        assert!(near < far, "{near} ms, {far} ms");
        assert!(least_ms(&lab, 3, 0, link, 56) < far);
    }
}

#[test]
fn frames_of_all_sizes_reach_all_nodes_and_names_of_a_tree_are_shown() {
    let lab = tree();
    for (from, to) in [(0, 1), (1, 2), (2, 0), (3, 2), (0, 3)] {
        for size in [0, 56, 1472] {
            assert_eq!(pings(&lab, from, to, 0, 3, size), 3, "n{from} to n{to}");
        }
        assert_eq!(pings(&lab, from, to, 0, 3, 1473), 0, "longer than the MTU");
    }
    assert_eq!(lab.summary().tree, [2, 2]);
}

#[test]
fn its_links_do_not_fail() {
    let lab = tree();
    for refused in [
        lab.fail(0, Fault::Silent, None),
        lab.heal(0),
        lab.unplug(0, 1),
    ] {
        assert!(matches!(refused, Err(LabError::BadInput(_))), "{refused:?}");
    }
}
