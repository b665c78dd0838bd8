//! The report for `tabane status`.

use std::collections::BTreeMap;
use std::time::Duration;

use tabane_cluster::PublicKey;
use tabane_engine::LoopTurn;
use tabane_io::clock::unix_ms;
use tabane_io::vnic::Backend;
use tabane_proto::wire::Witness;
use tabane_proto::{
    PathStatus as PathReport, PeerId, PeerStats, Rejection, RelayedStatus as RelayedReport, Time,
    link,
};

use super::events;
use super::limits;
use super::nic::Nic;
use super::redundancy::Redundancy;
use super::refused::Entry;
use super::run::Daemon;
use crate::agent::Agent;
use crate::status::{
    LinkStatus, NodeStatus, PathState, PathStatus, PeerState, PeerStatus, RefusedStatus,
    RelayedStatus, RunStatus, SCHEMA, StatusReport, VnicStatus,
};

/// When something of the engine's clock happened, for people and machines.
struct Since {
    unix_ms: u64,
    ago: Duration,
}

fn since(now: Time, then: Time) -> Since {
    let ago = now.since(then);
    Since {
        unix_ms: unix_ms().saturating_sub(ago.as_millis() as u64),
        ago,
    }
}

/// The state of everything.
pub fn report(daemon: &Daemon, turn: &LoopTurn<'_>) -> StatusReport {
    let spec = &daemon.cluster.nodes[daemon.me];
    let links: Vec<_> = turn.link_status().into_iter().map(link_status).collect();
    let peer = |(id, index): &_| peer_status(daemon, turn, &links, *id, *index);
    let peers = daemon.peers.iter().filter_map(peer).collect();
    let bundles = turn.node.bundle_count();
    StatusReport {
        schema: SCHEMA,
        node: NodeStatus {
            name: spec.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ms: daemon.started_unix_ms,
            uptime_s: turn.now.since(daemon.started).as_secs(),
            wire: daemon.cluster.wire,
            limits_hit: limits::hit(daemon, turn),
            limits_hit_lately: BTreeMap::new(),
            dropped: dropped(turn),
            dropped_lately: BTreeMap::new(),
            vnic: daemon
                .nic
                .as_ref()
                .and_then(|nic| vnic_status(nic, spec.vnic?)),
            pid: std::process::id(),
            busy_us: turn.busy.as_micros() as u64,
            links,
            run: run(daemon, turn),
            mptcp: daemon.helm.report().map(|report| report.status.clone()),
            mptcp_trouble: daemon.helm.failed().map(str::to_owned),
            bundles_direct: bundles.direct,
            bundles_max: bundles.limit,
            gateway: daemon.gateway_status(turn.now),
            flows: daemon.flow_rules.borrow().status(),
            findings: daemon.health.findings(),
        },
        peers,
        refused: refused(daemon, turn.now),
    }
}

/// Programs under `tabane run`.
fn run(daemon: &Daemon, turn: &LoopTurn<'_>) -> RunStatus {
    let agent = daemon.agent.as_ref();
    let status = |agent: &Agent| agent.status(turn.now, turn.node, unix_ms());
    agent.map(status).unwrap_or_default()
}

/// Peers that were not admitted.
fn refused(daemon: &Daemon, now: Time) -> Vec<RefusedStatus> {
    let listed = daemon.refused.listed(now);
    let status = |entry: &Entry| {
        let (first, last) = (since(now, entry.first), since(now, entry.last));
        let peer = daemon.cluster.node_at(entry.address.ip());
        RefusedStatus {
            address: entry.address,
            link: entry.link.0,
            peer: peer.map(|node| node.name.clone()),
            reason: entry.reason,
            text: entry.text.clone(),
            count: entry.count,
            first_unix_ms: first.unix_ms,
            last_unix_ms: last.unix_ms,
            last_s: last.ago.as_secs(),
        }
    };
    listed.into_iter().map(status).collect()
}

/// Every reason to drop a datagram, if it ever happened.
fn dropped(turn: &LoopTurn<'_>) -> BTreeMap<String, u64> {
    let stats = turn.node.node_stats();
    let counts = Rejection::ALL.map(|reason| (reason.name(), stats.rejected(reason)));
    let mut dropped = BTreeMap::new();
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        dropped.insert(name.to_owned(), count);
    }
    let flood: u64 = turn.link_status().iter().map(|link| link.flood_drops).sum();
    if flood > 0 {
        dropped.insert("flood".to_owned(), flood);
    }
    dropped
}

fn vnic_status(nic: &Nic, address: (std::net::IpAddr, u8)) -> Option<VnicStatus> {
    Some(VnicStatus {
        name: nic.name().to_owned(),
        address: format!("{}/{}", address.0, address.1),
        mtu_bytes: nic.mtu_bytes(),
        backend: match nic.vnic().backend() {
            Backend::Tap => "tap",
            _ => "veth",
        }
        .to_owned(),
        trouble: nic.condition().trouble().map(str::to_owned),
    })
}

fn link_status(link: tabane_engine::LinkStatus) -> LinkStatus {
    LinkStatus {
        link: link.id.0,
        address: link.address,
        device: link.device,
        up: link.up,
        receive_buffer_bytes: link.buffers.map(|b| b.receive_bytes as u64),
        send_buffer_bytes: link.buffers.map(|b| b.send_bytes as u64),
        rx_receives: link.counters.receives,
        rx_datagrams: link.counters.datagrams_received,
        rx_dropped: link.counters.kernel_drops,
        tx_piecewise: link.counters.gso_refused,
        tx_refused: link.refused,
        icmp_errors: link.counters.stray_errors,
    }
}

fn peer_status(
    daemon: &Daemon,
    turn: &LoopTurn<'_>,
    links: &[LinkStatus],
    id: PeerId,
    index: usize,
) -> Option<PeerStatus> {
    let stats = turn.node.peer_stats(id)?;
    let at = since(turn.now, stats.since);
    let redundancy = Redundancy::of(&stats, turn.now);
    let paths = stats.paths.iter();
    Some(PeerStatus {
        name: daemon.cluster.nodes[index].name.clone(),
        state: match stats.state {
            tabane_proto::PeerState::Connecting => PeerState::Connecting,
            tabane_proto::PeerState::Up => PeerState::Up,
            tabane_proto::PeerState::Down => PeerState::Down,
            tabane_proto::PeerState::OnDemand => PeerState::OnDemand,
        },
        since_unix_ms: at.unix_ms,
        since_s: at.ago.as_secs(),
        why: why(turn.now, daemon, index, &stats),
        session_age_s: stats.session_since.map(|s| turn.now.since(s).as_secs()),
        public: stats.public.map(|key| PublicKey(key).to_string()),
        memory_bytes: stats.memory_bytes as u64,
        failures: daemon.redundancy.failures(id),
        paths_up: redundancy.paths_up,
        paths_configured: redundancy.paths_configured,
        redundancy_lost: redundancy.is_lost,
        queued_bytes: turn.node.queued_bytes(id) as u64,
        paths: paths
            .filter_map(|p| path_status(turn.now, daemon, links, id, p))
            .collect(),
        relayed: (stats.relayed.iter())
            .map(|path| relayed_status(turn, path))
            .collect(),
    })
}

fn relayed_status(turn: &LoopTurn<'_>, path: &RelayedReport) -> RelayedStatus {
    let at = since(turn.now, path.since);
    let name = |relay: &PeerId| turn.node.peer_name(*relay).unwrap_or("?").to_owned();
    RelayedStatus {
        via: path.relays.iter().map(name).collect(),
        state: path_state(path.state),
        since_unix_ms: at.unix_ms,
        since_s: at.ago.as_secs(),
        rtt_us: path.stats.rtt.map(micros),
        tx_bytes: path.stats.bytes_sent,
        rx_bytes: path.stats.bytes_received,
    }
}

fn path_state(state: link::PathState) -> PathState {
    match state {
        link::PathState::Untested => PathState::Connecting,
        link::PathState::Up => PathState::Up,
        link::PathState::Suspect => PathState::Suspect,
        link::PathState::Down => PathState::Down,
    }
}

fn micros(time: Duration) -> u32 {
    time.as_micros().min(u128::from(u32::MAX)) as u32
}

fn why(now: Time, daemon: &Daemon, index: usize, stats: &PeerStats) -> Option<String> {
    match stats.state {
        tabane_proto::PeerState::Up | tabane_proto::PeerState::OnDemand => None,
        tabane_proto::PeerState::Down => Some("no link to it works".to_owned()),
        tabane_proto::PeerState::Connecting => {
            let spec = &daemon.cluster.nodes[index];
            let refused = daemon
                .refused
                .newest(now, |address| spec.has_address(address));
            Some(refused.map_or_else(
                || "no answer to handshakes yet".to_owned(),
                |why| format!("it is refused: {why}"),
            ))
        }
    }
}

/// Why a path is down, or carries nothing though it is up.
fn path_why(path: &PathReport, links: &[LinkStatus]) -> Option<String> {
    match path.state {
        link::PathState::Down => Some(why_down(path, links).to_owned()),
        _ if path.stats.is_narrow => Some(format!(
            "no packets of more than {} bytes pass: programs' data goes here only while no other link works",
            path.stats.mtu_bytes
        )),
        _ => None,
    }
}

fn why_down(path: &PathReport, links: &[LinkStatus]) -> &'static str {
    let link = links.iter().find(|link| link.link == path.link.0);
    match path.witness {
        // That made it fail. Something else keeps it down: the peer's end, or another switch.
        Witness::KernelLink if link.is_some_and(|link| link.up) => {
            "the link is up again, but its probes are not answered"
        }
        witness => events::witness(witness),
    }
}

fn path_status(
    now: Time,
    daemon: &Daemon,
    links: &[LinkStatus],
    peer: PeerId,
    path: &PathReport,
) -> Option<PathStatus> {
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
        state: path_state(path.state),
        since_unix_ms: at.unix_ms,
        since_s: at.ago.as_secs(),
        why: path_why(path, links),
        rtt_us: s.rtt.map(micros),
        tx_rate_mbps: rounded(rates.tx_mbps),
        rx_rate_mbps: rounded(rates.rx_mbps),
        capacity_mbps: (s.capacity_bytes_per_s > 0.0)
            .then_some(rounded(s.capacity_bytes_per_s * 8e-6)),
        capacity_proven: s.capacity_is_proven,
        granted_mbps: s.granted_bytes_per_s.map(|rate| rounded(rate * 8e-6)),
        loss_percent: (s.packets_sent > 0).then_some(rounded(s.loss_ratio * 100.0)),
        tx_packets: s.packets_sent,
        tx_bytes: s.bytes_sent,
        tx_lost_packets: s.packets_lost,
        tx_late_packets: s.packets_lost_falsely,
        tx_copies_left_out: s.copies_left_out,
        rx_packets: s.packets_received,
        rx_bytes: s.bytes_received,
        resent_bytes: s.bytes_lost,
        failures: s.failures,
        mtu_bytes: s.mtu_bytes as u32,
    })
}

/// To three decimals: what is behind them is noise, and long to read.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
