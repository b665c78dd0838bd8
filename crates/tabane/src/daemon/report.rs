//! What `tabane status` is told.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tabane_io::vnic::Backend;
use tabane_proto::{Node, PathStatus as PathReport, PeerId, PeerStats, Time, link};

use super::events;
use super::nic::{self, Nic};
use super::run::Daemon;
use crate::status::{
    NodeStatus, PathState, PathStatus, PeerState, PeerStatus, SCHEMA, StatusReport, VnicStatus,
};
use crate::vswitch::DropReason;

/// When something of the engine's clock happened, for people and machines.
struct Since {
    unix_ms: u64,
    ago: Duration,
}

fn since(now: Time, then: Time) -> Since {
    let ago = now.since(then);
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Since {
        unix_ms: wall.saturating_sub(ago).as_millis() as u64,
        ago,
    }
}

/// The state of everything.
pub fn report(now: Time, daemon: &Daemon, node: &Node) -> StatusReport {
    let spec = &daemon.cluster.nodes[daemon.me];
    StatusReport {
        schema: SCHEMA,
        node: NodeStatus {
            name: spec.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: now.since(daemon.started).as_secs(),
            wire: daemon.cluster.wire,
            limits_hit: limits_hit(daemon, node),
            vnic: daemon
                .nic
                .as_ref()
                .and_then(|nic| vnic_status(nic, spec.vnic?)),
        },
        peers: daemon
            .peers
            .iter()
            .filter_map(|(id, index)| peer_status(now, daemon, node, *id, *index))
            .collect(),
    }
}

fn vnic_status(nic: &Nic, address: (std::net::IpAddr, u8)) -> Option<VnicStatus> {
    Some(VnicStatus {
        name: nic::NAME.to_owned(),
        address: format!("{}/{}", address.0, address.1),
        mtu_bytes: nic.vnic().mtu(),
        backend: match nic.vnic().backend() {
            Backend::Tap => "tap",
            _ => "veth",
        }
        .to_owned(),
    })
}

/// Every limit and every reason to drop something, if it ever happened.
fn limits_hit(daemon: &Daemon, node: &Node) -> BTreeMap<String, u64> {
    let s = node.node_stats();
    let mut all = vec![
        ("packets_malformed", s.malformed),
        ("packets_of_unknown_session", s.unknown_session),
        ("packets_forged", s.forged),
        ("packets_replayed", s.replayed),
        ("packets_on_wrong_link", s.cross_path),
        ("packets_with_bad_record", s.bad_record),
        ("protocol_violations", s.violation),
        ("handshakes_of_strangers", s.stranger),
        ("handshakes_refused", s.refused),
        ("handshakes_answered_with_cookie", s.cookies_sent),
        ("frames_for_unconnected_peer", s.frames_unreachable),
        ("frames_queue_full", s.frames_queue_full),
        ("events_dropped", s.events_dropped),
    ];
    if let Some(nic) = &daemon.nic {
        all.push(("vnic_queue_full", nic.counters.queue_full));
        all.push(("vnic_frames_refused", nic.counters.refused));
        all.push(("vnic_writes_failed", nic.counters.write_failed));
    }
    let mut hit: BTreeMap<_, _> = all
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(k, n)| (k.to_owned(), n))
        .collect();
    for reason in DropReason::ALL {
        let count = daemon
            .nic
            .as_ref()
            .map_or(0, |nic| nic.counters.dropped[reason.index()]);
        if count > 0 {
            hit.insert(format!("vnic_{}", reason.name()), count);
        }
    }
    hit
}

fn peer_status(
    now: Time,
    daemon: &Daemon,
    node: &Node,
    id: PeerId,
    index: usize,
) -> Option<PeerStatus> {
    let stats = node.peer_stats(id)?;
    let spec = &daemon.cluster.nodes[index];
    let at = since(now, stats.since);
    Some(PeerStatus {
        name: spec.name.clone(),
        state: match stats.state {
            tabane_proto::PeerState::Connecting => PeerState::Connecting,
            tabane_proto::PeerState::Up => PeerState::Up,
            tabane_proto::PeerState::Down => PeerState::Down,
        },
        since_unix_ms: at.unix_ms,
        since_s: at.ago.as_secs(),
        why: why(&stats),
        session_age_s: stats.session_since.map(|s| now.since(s).as_secs()),
        memory_bytes: stats.memory_bytes as u64,
        paths: stats
            .paths
            .iter()
            .filter_map(|p| path_status(now, daemon, id, p))
            .collect(),
    })
}

fn why(stats: &PeerStats) -> Option<String> {
    match stats.state {
        tabane_proto::PeerState::Up => None,
        tabane_proto::PeerState::Connecting => Some("no answer to handshakes yet".to_owned()),
        tabane_proto::PeerState::Down => Some("no link to it works".to_owned()),
    }
}

fn path_status(now: Time, daemon: &Daemon, peer: PeerId, path: &PathReport) -> Option<PathStatus> {
    let local = daemon.cluster.nodes[daemon.me]
        .links
        .get(path.link.index())
        .copied()
        .flatten()?;
    let at = since(now, path.since);
    let s = &path.stats;
    let rates = daemon.rates.of(peer, path.link);
    Some(PathStatus {
        link: path.link.0,
        local,
        remote: path.remote,
        state: match path.state {
            link::PathState::Untested => PathState::Connecting,
            link::PathState::Up => PathState::Up,
            link::PathState::Suspect => PathState::Suspect,
            link::PathState::Down => PathState::Down,
        },
        since_unix_ms: at.unix_ms,
        since_s: at.ago.as_secs(),
        why: (path.state == link::PathState::Down)
            .then(|| events::witness(path.witness).to_owned()),
        rtt_us: s
            .rtt
            .map(|rtt| rtt.as_micros().min(u128::from(u32::MAX)) as u32),
        tx_rate_mbps: rates.tx_mbps,
        rx_rate_mbps: rates.rx_mbps,
        capacity_mbps: (s.capacity_bytes_per_s > 0.0).then_some(s.capacity_bytes_per_s * 8e-6),
        loss_percent: (s.packets_sent > 0).then_some(s.loss_ratio * 100.0),
        tx_packets: s.packets_sent,
        tx_bytes: s.bytes_sent,
        rx_packets: s.packets_received,
        rx_bytes: s.bytes_received,
        resent_bytes: s.bytes_lost,
        mtu_bytes: s.mtu_bytes as u32,
    })
}
