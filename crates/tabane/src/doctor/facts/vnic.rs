//! The way that programs' packets take to peers' addresses on the bundle.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tabane_cluster::Cluster;
use tabane_io::netlink::{HostRoutes, Interface};
use tabane_io::probe::Ping;

use super::{Leaves, Pings, VnicWay};
use crate::status::{PeerState, PeerStatus, StatusReport};

/// The most peers that are looked at.
const PEERS_MAX: usize = 64;
/// Pings to each.
const PINGS: u16 = 5;
const PING_BYTES: usize = 84;
const PING_EVERY: Duration = Duration::from_millis(20);
/// How long answers are waited for: bulk over the bundle delays them.
const GRACE: Duration = Duration::from_secs(1);

/// Looks at the ways to all connected peers that have such an address; pings them, unless it is to be quiet.
pub fn ways(
    report: &StatusReport,
    (cluster, me): (&Cluster, usize),
    interfaces: &[Interface],
    is_quiet: bool,
) -> Vec<VnicWay> {
    let own = cluster.nodes[me].vnic.map(|(address, _)| address);
    let (Some(vnic), Some(own)) = (&report.node.vnic, own) else {
        return Vec::new();
    };
    let of: BTreeMap<&str, IpAddr> = (cluster.nodes.iter())
        .filter_map(|node| Some((node.name.as_str(), node.vnic?.0)))
        .collect();
    let is_there = |peer: &&PeerStatus| peer.state == PeerState::Up;
    let peers = report.peers.iter().filter(is_there).take(PEERS_MAX);
    let mut routes = HostRoutes::open().ok();
    let way = |peer: &PeerStatus| {
        let address = *of.get(peer.name.as_str())?;
        let leaves = leaves(routes.as_mut()?, address, interfaces)?;
        Some(VnicWay {
            peer: peer.name.clone(),
            address,
            leaves,
            pings: None,
            is_forbidden: false,
        })
    };
    let mut ways: Vec<VnicWay> = peers.filter_map(way).collect();
    if !is_quiet {
        ping(own, &vnic.name, &mut ways);
    }
    ways
}

fn leaves(routes: &mut HostRoutes, to: IpAddr, interfaces: &[Interface]) -> Option<Leaves> {
    match routes.lookup(to, None) {
        Ok(found) => {
            let number = found.route.device?;
            let device = interfaces.iter().find(|device| device.index == number)?;
            Some(Leaves::By(device.name.clone()))
        }
        Err(error) => Some(Leaves::Nowhere(tabane_cluster::plain(&error))),
    }
}

/// Pings all that are reached by the device, at the same time.
fn ping(own: IpAddr, device: &str, ways: &mut [VnicWay]) {
    let goes_there = |way: &VnicWay| way.leaves == Leaves::By(device.to_owned());
    let open = |way: &VnicWay| {
        goes_there(way)
            .then(|| Ping::open(own, None, way.address).ok())
            .flatten()
    };
    let mut pings: Vec<Option<Ping>> = ways.iter().map(open).collect();
    for (way, ping) in ways.iter_mut().zip(&pings) {
        way.pings = ping.as_ref().map(|_| Pings::default());
    }
    for number in 0..PINGS {
        for (way, ping) in ways.iter_mut().zip(&pings) {
            let (Some(sent), Some(ping)) = (&mut way.pings, ping) else {
                continue;
            };
            match ping.send(number, PING_BYTES) {
                Ok(()) => sent.sent += 1,
                Err(error) => way.is_forbidden |= error.kind() == ErrorKind::PermissionDenied,
            }
        }
        std::thread::sleep(PING_EVERY);
    }
    let until = Instant::now() + GRACE;
    for (way, ping) in ways.iter_mut().zip(&mut pings) {
        let (Some(sent), Some(ping)) = (&mut way.pings, ping) else {
            continue;
        };
        while sent.answered < sent.sent {
            let left = until.saturating_duration_since(Instant::now());
            match ping.receive(left) {
                Ok(Some(_)) => sent.answered += 1,
                Ok(None) | Err(_) => break,
            }
        }
    }
}
