//! TCP through a VXLAN: what a way makes of datagrams that its host sends one by one.

use std::net::{IpAddr, Ipv4Addr};

use super::contest::Contest;
use crate::measure::two_nodes;
use crate::{Report, Settings, iperf};
use tabane_lab::cluster::Wire;
use tabane_lab::peers::Congestion;
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabError, LinkSpec};

/// The usual one of a network that is carried by another one with 1,500.
const INNER_MTU: &str = "1450";

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let contest = Contest {
        title: "One TCP stream through a VXLAN, 2 × 1 Gb/s".into(),
        note: format!("The inner MTU is {INNER_MTU}. Cubic."),
        ways: &[
            Way::Tcp { link: 0 },
            Way::Tabane(Wire::Encrypted),
            Way::Tabane(Wire::Plain),
        ],
        tools: &[],
        figures: &["Gb/s", "CPU s/GB"],
        batches: vec![vec!["VXLAN".into()]],
    };
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    Ok(contest.run(settings, &config, dig, |contestant, _| {
        let load = iperf::Load {
            seconds: settings.seconds,
            omit_s: 1.0,
            congestion: Some(Congestion::Cubic),
            both_ways: false,
        };
        let outcome = iperf::run_to(&contestant.stand, inner(1), load)?;
        Ok(vec![vec![outcome.gbps, outcome.cpu_s_per_gb]])
    }))
}

/// Make the tunnel, at both of its ends.
fn dig(arena: &Arena) -> Result<(), LabError> {
    for node in [0, 1] {
        let (own, other) = (arena.address(node), arena.address(1 - node));
        let make = format!("link add vx0 type vxlan id 7 dstport 4789 local {own} remote {other}");
        let address = format!("address add {}/24 dev vx0", inner(node));
        let up = format!("link set vx0 mtu {INNER_MTU} up");
        for line in [make, address, up] {
            arena.lab().ip(node, &line.split(' ').collect::<Vec<_>>())?;
        }
    }
    Ok(())
}

/// The address of a node inside.
fn inner(node: usize) -> IpAddr {
    Ipv4Addr::new(10, 60, 0, node as u8 + 1).into()
}
