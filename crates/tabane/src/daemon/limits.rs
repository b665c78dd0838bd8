//! All limits that a daemon may hit, and all reasons to drop something, by their names in `tabane
//! status` and the metrics (docs/status.md).

use std::collections::BTreeMap;

use tabane_engine::LoopTurn;
use tabane_io::udp::UdpCounters;
use tabane_proto::NodeStats;
use tabane_proto::op::OpStats;

use super::nic::NicCounters;
use super::run::Daemon;
use crate::agent::Agent;
use crate::vswitch::{DropReason, Refusal};

/// A limit's name, and how often it was hit.
type Hit = (&'static str, u64);

/// Those that were hit.
pub fn hit(daemon: &Daemon, turn: &LoopTurn<'_>) -> BTreeMap<String, u64> {
    let mut hit = BTreeMap::new();
    let mut add = |hits: &[Hit]| {
        for (name, count) in hits.iter().filter(|(_, count)| *count > 0) {
            *hit.entry((*name).to_owned()).or_default() += count;
        }
    };
    add(&of_node(turn.node.node_stats()));
    let ids = daemon.peers.iter().map(|(peer, _)| *peer);
    for stats in ids.filter_map(|peer| turn.node.peer_stats(peer)) {
        add(&of_peer(&stats.op));
    }
    for link in turn.link_status() {
        add(&of_link(&link.counters));
    }
    if let Some(agent) = &daemon.agent {
        add(&Agent::limits_hit(agent));
    }
    if let Some(nic) = &daemon.nic {
        add(&of_nic(&nic.counters));
    }
    hit
}

fn of_node(stats: &NodeStats) -> [Hit; 6] {
    [
        ("packets_with_bad_record", stats.bad_record),
        ("protocol_violations", stats.violation),
        ("frames_for_unconnected_peer", stats.frames_unreachable),
        ("frames_queue_full", stats.frames_queue_full),
        ("events_dropped", stats.events_dropped),
        ("memory_short", stats.memory_short),
    ]
}

fn of_peer(stats: &OpStats) -> [Hit; 7] {
    [
        ("frames_given_up", stats.frames_given_up),
        ("frames_skipped", stats.frames_skipped),
        ("frames_dropped", stats.frames_dropped),
        ("frames_overdue", stats.frames_overdue),
        ("frames_crowded_out", stats.frames_crowded_out),
        ("streams_refused", stats.streams_refused),
        ("owners_full", stats.owners_full),
    ]
}

fn of_link(counters: &UdpCounters) -> [Hit; 3] {
    [
        ("socket_buffer_full", counters.kernel_drops),
        ("datagrams_truncated", counters.truncated),
        ("segmentation_refused", counters.gso_refused),
    ]
}

fn of_nic(counters: &NicCounters) -> Vec<Hit> {
    let dropped = |reason: DropReason| (reason.name(), counters.dropped[reason.index()]);
    let refused = |refusal: Refusal| (refusal.name(), counters.refused[refusal.index()]);
    let mut hits = vec![
        ("vnic_overrun", counters.overrun),
        ("vnic_queue_full", counters.queue_full),
        ("vnic_writes_failed", counters.write_failed),
    ];
    hits.extend(Refusal::ALL.map(refused));
    hits.extend(DropReason::ALL.map(dropped));
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_documented() {
        let documentation = include_str!("../../../../docs/status.md");
        let mut hits = of_node(&NodeStats::default()).to_vec();
        hits.extend(of_peer(&OpStats::default()));
        hits.extend(of_link(&UdpCounters::default()));
        hits.extend(of_nic(&NicCounters::default()));
        for (name, _) in hits {
            let row = format!("| `{name}` |");
            assert!(documentation.contains(&row), "{name} is missing");
        }
    }
}
