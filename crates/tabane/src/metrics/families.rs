//! Every metric there is: its name, type, unit, labels, meaning, and where in
//! the report its values are. `docs/metrics.md` says the same to users.

use std::collections::BTreeMap;

use tabane_cluster::Wire;

use super::exposition::Samples;
use super::gateway;
use crate::status::{
    FlowStatus, LinkStatus, PathState, PathStatus, PeerState, PeerStatus, Reader, StatusReport,
    UnreadOfUser,
};

/// Paths beyond this many have no samples, only their peers have: no scraper
/// could use them, and they would fill the memory with text. It is enough for
/// the largest cluster with two links.
pub const PATHS_MAX: usize = 32_768;

/// A metric family.
#[derive(Debug)]
pub struct Family {
    /// Its name, without the `_total` of a counter's sample.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its unit, which its name ends with.
    pub unit: Unit,
    /// The labels of each sample.
    pub labels: &'static [&'static str],
    /// Its help text.
    pub help: &'static str,
    /// Takes the values out of a report.
    pub samples: fn(&StatusReport, &mut Samples<'_>),
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the daemon restarts.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or yes (1) and no (0).
    None,
    /// Seconds; for times since 1970-01-01 UTC, too.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// 0 to 1.
    Ratio,
}

impl Unit {
    /// The end of the metric's name.
    pub fn suffix(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::Seconds => Some("seconds"),
            Unit::Bytes => Some("bytes"),
            Unit::BytesPerSecond => Some("bytes_per_second"),
            Unit::Ratio => Some("ratio"),
        }
    }
}

const PEER: &[&str] = &["peer"];
const PATH: &[&str] = &["peer", "link"];
const LINK: &[&str] = &["link"];
const FLOW: &[&str] = &["which", "how"];
const UNREAD: &[&str] = &["uid", "reader"];

/// rate() over a counter that appears with its first event misses that event. So
/// counters that the daemon reports only after their first event are 0 here before.
pub(super) const DROP_REASONS: &[&str] = &[
    "asked_for_cookie",
    "crossed",
    "flood",
    "forged",
    "malformed",
    "misrouted",
    "no_links_left",
    "not_relayed",
    "reflected",
    "refused",
    "replayed",
    "stale",
    "stranger",
    "too_many_handshakes",
    "too_old",
    "unknown_session",
    "wrong_link",
];

/// All of them, in the order of the exposition.
pub fn families() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().chain(gateway::FAMILIES)
}

const FAMILIES: &[Family] = &[
    Family {
        name: "tabane_node_info",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["node", "version", "wire"],
        help: "Always 1; this node's name, the version of its daemon, and how packets travel.",
        samples: |report, out| {
            let node = &report.node;
            let wire = match node.wire {
                Wire::Encrypted => "encrypted",
                Wire::Plain => "plain",
            };
            out.add(&[&node.name, &node.version, wire], 1.0);
        },
    },
    Family {
        name: "tabane_start_time_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: &[],
        help: "When the daemon started, seconds since 1970-01-01 UTC.",
        samples: |report, out| out.add(&[], report.node.started_unix_ms as f64 / 1e3),
    },
    Family {
        name: "tabane_busy_seconds",
        kind: Kind::Counter,
        unit: Unit::Seconds,
        labels: &[],
        help: "How long the daemon's loop has worked. It has one thread: a second of it in a second is all there is.",
        samples: |report, out| out.add(&[], report.node.busy_us as f64 * 1e-6),
    },
    Family {
        name: "tabane_finding",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["code", "severity"],
        help: "How many findings of this code the daemon has now; absent if none. `tabane doctor` explains the codes.",
        samples: |report, out| {
            let mut counts: BTreeMap<(&str, &str), u32> = BTreeMap::new();
            for finding in &report.node.findings {
                let of = (finding.code.as_str(), finding.severity.name());
                *counts.entry(of).or_default() += 1;
            }
            for ((code, severity), count) in counts {
                out.add(&[code, severity], f64::from(count));
            }
        },
    },
    Family {
        name: "tabane_flow_bytes",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        labels: FLOW,
        help: "What this node has sent of the traffic of a `[[flow]]` of the cluster file.",
        samples: |report, out| each_flow(report, out, |flow| flow.bytes),
    },
    Family {
        name: "tabane_flow_dropped_packets",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: FLOW,
        help: "Packets of `tab0` that the rate of a `[[flow]]` has dropped.",
        samples: |report, out| each_flow(report, out, |flow| flow.packets_dropped),
    },
    Family {
        name: "tabane_link_up",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: LINK,
        help: "1 if the system says that this node's own link can be used, 0 if not.",
        samples: |report, out| each_link(report, out, |link| f64::from(u8::from(link.up))),
    },
    Family {
        name: "tabane_link_overrun_datagrams",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: LINK,
        help: "Datagrams, or bursts that the kernel had joined, that found the receive buffer of the link's socket full.",
        samples: |report, out| each_link(report, out, |link| link.rx_dropped as f64),
    },
    Family {
        name: "tabane_vnic_info",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["device", "address", "backend"],
        help: "Always 1; this node's virtual NIC. Absent without one.",
        samples: |report, out| {
            if let Some(vnic) = &report.node.vnic {
                out.add(&[&vnic.name, &vnic.address, &vnic.backend], 1.0);
            }
        },
    },
    Family {
        name: "tabane_vnic_mtu_bytes",
        kind: Kind::Gauge,
        unit: Unit::Bytes,
        labels: &["device"],
        help: "MTU of the virtual NIC.",
        samples: |report, out| {
            if let Some(vnic) = &report.node.vnic {
                out.add(&[&vnic.name], f64::from(vnic.mtu_bytes));
            }
        },
    },
    Family {
        name: "tabane_run_programs",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Programs under `tabane run`, each with all that it started.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&[], run.programs.len() as f64);
        },
    },
    Family {
        name: "tabane_run_connections",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["by"],
        help: "Connections of programs under `tabane run` that are carried now, by a bundle or by plain TCP.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&["bundle"], run.connections as f64);
            out.add(&["plain"], run.plain_connections as f64);
        },
    },
    Family {
        name: "tabane_run_unread_connections",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: UNREAD,
        help: "Connections of a user's programs that have stood still for a second or longer since the program (`reader` is `program`) or the other end (`peer`) does not read. Users of whom little waits are `others` together.",
        samples: |report, out| each_unread(report, out, |of_user| of_user.connections as f64),
    },
    Family {
        name: "tabane_run_unread_bytes",
        kind: Kind::Gauge,
        unit: Unit::Bytes,
        labels: UNREAD,
        help: "What waits here of these connections.",
        samples: |report, out| each_unread(report, out, |of_user| of_user.bytes as f64),
    },
    Family {
        name: "tabane_run_unread_longest_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: UNREAD,
        help: "How long the longest of them has stood still.",
        samples: |report, out| each_unread(report, out, |of_user| of_user.longest_s as f64),
    },
    Family {
        name: "tabane_run_datagram_flows",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Pairs of ends that programs under `tabane run` send datagrams between now.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&[], run.datagram_flows as f64);
        },
    },
    Family {
        name: "tabane_run_ports",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Ports of programs under `tabane run` at which others reach them now.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&[], run.ports as f64);
        },
    },
    Family {
        name: "tabane_run_connections_begun",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["by"],
        help: "Connections of programs under `tabane run` that were carried, by a bundle or by plain TCP.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&["bundle"], run.carried as f64);
            out.add(&["plain"], run.plain as f64);
        },
    },
    Family {
        name: "tabane_run_connections_accepted",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "Those carried by a bundle that programs of other nodes began.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&[], run.accepted as f64);
        },
    },
    Family {
        name: "tabane_run_connections_refused",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "Connections that programs under `tabane run` began and that were refused.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&[], run.refused as f64);
        },
    },
    Family {
        name: "tabane_run_connections_cut_off",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "Connections that were reset since no link to the far end had worked for all_links_down_s.",
        samples: |report, out| {
            let run = &report.node.run;
            out.add(&[], run.cut_off as f64);
        },
    },
    Family {
        name: "tabane_mptcp_connections",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Connections of Multipath TCP to other nodes now. Absent where it is not steered.",
        samples: |report, out| {
            if let Some(mptcp) = &report.node.mptcp {
                out.add(&[], mptcp.connections as f64);
            }
        },
    },
    Family {
        name: "tabane_mptcp_subflows",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Subflows of these connections now.",
        samples: |report, out| {
            if let Some(mptcp) = &report.node.mptcp {
                out.add(&[], mptcp.subflows as f64);
            }
        },
    },
    Family {
        name: "tabane_mptcp_detours",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Addresses of peers that are reached by another link than their own now, since that has failed.",
        samples: |report, out| {
            if let Some(mptcp) = &report.node.mptcp {
                out.add(&[], mptcp.detours.len() as f64);
            }
        },
    },
    Family {
        name: "tabane_mptcp_detour_since_timestamp_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: &["to", "via"],
        help: "When such a detour began, seconds since 1970-01-01 UTC; to the address, by way of the other.",
        samples: |report, out| {
            for detour in report.node.mptcp.iter().flat_map(|mptcp| &mptcp.detours) {
                let (to, via) = (detour.to.to_string(), detour.via.to_string());
                out.add(&[&to, &via], detour.since_unix_ms as f64 / 1e3);
            }
        },
    },
    Family {
        name: "tabane_mptcp_steered",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "How often a detour was made or ended.",
        samples: |report, out| {
            if let Some(mptcp) = &report.node.mptcp {
                out.add(&[], mptcp.steered as f64);
            }
        },
    },
    Family {
        name: "tabane_limit_hits",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["limit"],
        help: "How often a limit was met; the names are those of limits_hit in docs/status.md. Absent until it was.",
        samples: |report, out| {
            for (limit, count) in &report.node.limits_hit {
                out.add(&[limit], *count as f64);
            }
        },
    },
    Family {
        name: "tabane_dropped_datagrams",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["reason"],
        help: "Datagrams that arrived and were not used; the reasons are those of dropped in docs/status.md.",
        samples: |report, out| {
            let dropped = &report.node.dropped;
            for reason in DROP_REASONS.iter().filter(|r| !dropped.contains_key(**r)) {
                out.add(&[reason], 0.0);
            }
            for (reason, count) in dropped {
                out.add(&[reason], *count as f64);
            }
        },
    },
    Family {
        name: "tabane_peer_up",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: PEER,
        help: "Whether the peer is connected. Stays 1 for 10 s after its last path has failed; tabane_peer_paths_up tells at once.",
        samples: |report, out| {
            each_peer(report, out, |peer| Some(flag(peer.state == PeerState::Up)));
        },
    },
    Family {
        name: "tabane_peer_state",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["peer", "state"],
        help: "1 for the state the peer is in, 0 for the others: connecting (not seen yet), up, down, on_demand (nothing is to be carried).",
        samples: |report, out| {
            for peer in &report.peers {
                for (name, state) in PEER_STATES {
                    out.add(&[&peer.name, name], flag(peer.state == *state));
                }
            }
        },
    },
    Family {
        name: "tabane_peer_state_since_timestamp_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: PEER,
        help: "When that state began, seconds since 1970-01-01 UTC.",
        samples: |report, out| {
            each_peer(report, out, |peer| Some(peer.since_unix_ms as f64 / 1e3));
        },
    },
    Family {
        name: "tabane_peer_failures",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: PEER,
        help: "How often the peer was connected and then was no longer.",
        samples: |report, out| each_peer(report, out, |peer| Some(peer.failures as f64)),
    },
    Family {
        name: "tabane_peer_paths_up",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: PEER,
        help: "How many of the paths to the peer work.",
        samples: |report, out| each_peer(report, out, |peer| Some(peer.paths_up as f64)),
    },
    Family {
        name: "tabane_peer_paths_configured",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: PEER,
        help: "How many paths to the peer the cluster file makes possible.",
        samples: |report, out| each_peer(report, out, |peer| Some(peer.paths_configured as f64)),
    },
    Family {
        name: "tabane_peer_redundancy_lost",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: PEER,
        help: "1 if several paths to the peer are possible and fewer than two work; not before it was connected once.",
        samples: |report, out| each_peer(report, out, |peer| Some(flag(peer.redundancy_lost))),
    },
    Family {
        name: "tabane_peer_session_age_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: PEER,
        help: "Time since the last handshake with the peer. Absent before the first.",
        samples: |report, out| each_peer(report, out, |peer| peer.session_age_s.map(|s| s as f64)),
    },
    Family {
        name: "tabane_peer_key_shown",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: PEER,
        help: "1 if the peer has shown that it holds the key of its `public` in the cluster file, 0 if the cluster key alone. Absent before the first handshake.",
        samples: |report, out| {
            each_peer(report, out, |peer| {
                peer.session_age_s.map(|_| flag(peer.public.is_some()))
            });
        },
    },
    Family {
        name: "tabane_peer_memory_bytes",
        kind: Kind::Gauge,
        unit: Unit::Bytes,
        labels: PEER,
        help: "Memory held for the peer.",
        samples: |report, out| each_peer(report, out, |peer| Some(peer.memory_bytes as f64)),
    },
    Family {
        name: "tabane_path_info",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["peer", "link", "local", "remote"],
        help: "Always 1; the addresses of the path's two ends.",
        samples: |report, out| {
            paths(report, |peer, link, path| {
                let (local, remote) = (path.local.to_string(), path.remote.ip().to_string());
                out.add(&[&peer.name, link, &local, &remote], 1.0);
            });
        },
    },
    Family {
        name: "tabane_path_up",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: PATH,
        help: "Whether the path works; one that is only suspected to have failed does.",
        samples: |report, out| {
            paths(report, |peer, link, path| {
                let works = matches!(path.state, PathState::Up | PathState::Suspect);
                let is_up = works && peer.state == PeerState::Up;
                out.add(&[&peer.name, link], flag(is_up));
            });
        },
    },
    Family {
        name: "tabane_path_state",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["peer", "link", "state"],
        help: "1 for the state the path is in, 0 for the others: connecting (not seen yet), up, suspect, down.",
        samples: |report, out| {
            paths(report, |peer, link, path| {
                for (name, state) in PATH_STATES {
                    out.add(&[&peer.name, link, name], flag(path.state == *state));
                }
            });
        },
    },
    Family {
        name: "tabane_path_state_since_timestamp_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: PATH,
        help: "When that state began, seconds since 1970-01-01 UTC.",
        samples: |report, out| each_path(report, out, |path| Some(path.since_unix_ms as f64 / 1e3)),
    },
    Family {
        name: "tabane_path_failures",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: PATH,
        help: "How often the path failed.",
        samples: |report, out| each_path(report, out, |path| Some(path.failures as f64)),
    },
    Family {
        name: "tabane_path_rtt_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: PATH,
        help: "Smoothed round trip time. Absent before the first.",
        samples: |report, out| {
            each_path(report, out, |path| {
                path.rtt_us.map(|us| f64::from(us) / 1e6)
            });
        },
    },
    Family {
        name: "tabane_path_loss_ratio",
        kind: Kind::Gauge,
        unit: Unit::Ratio,
        labels: PATH,
        help: "Share of the packets sent lately that were lost. Absent before any was sent.",
        samples: |report, out| {
            each_path(report, out, |path| {
                path.loss_percent.map(|percent| percent / 1e2)
            });
        },
    },
    Family {
        name: "tabane_path_capacity_bytes_per_second",
        kind: Kind::Gauge,
        unit: Unit::BytesPerSecond,
        labels: PATH,
        help: "What the path can carry, as a full path has shown. Absent while none has.",
        samples: |report, out| {
            each_path(report, out, |path| {
                path.capacity_proven_mbps().map(|mbps| mbps * 1e6 / 8.0)
            });
        },
    },
    Family {
        name: "tabane_path_mtu_bytes",
        kind: Kind::Gauge,
        unit: Unit::Bytes,
        labels: PATH,
        help: "Largest UDP payload known to pass.",
        samples: |report, out| each_path(report, out, |path| Some(f64::from(path.mtu_bytes))),
    },
    Family {
        name: "tabane_path_transmit_bytes",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        labels: PATH,
        help: "Bytes sent on the path, of UDP payload.",
        samples: |report, out| each_path(report, out, |path| Some(path.tx_bytes as f64)),
    },
    Family {
        name: "tabane_path_receive_bytes",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        labels: PATH,
        help: "Bytes received on the path, of UDP payload.",
        samples: |report, out| each_path(report, out, |path| Some(path.rx_bytes as f64)),
    },
    Family {
        name: "tabane_path_transmit_packets",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: PATH,
        help: "Packets sent on the path.",
        samples: |report, out| each_path(report, out, |path| Some(path.tx_packets as f64)),
    },
    Family {
        name: "tabane_path_receive_packets",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: PATH,
        help: "Packets received on the path.",
        samples: |report, out| each_path(report, out, |path| Some(path.rx_packets as f64)),
    },
    Family {
        name: "tabane_path_lost_packets",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: PATH,
        help: "Packets sent on the path and given up for lost.",
        samples: |report, out| each_path(report, out, |path| Some(path.tx_lost_packets as f64)),
    },
    Family {
        name: "tabane_path_resent_bytes",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        labels: PATH,
        help: "Bytes of content that were sent on the path and had to be sent once more.",
        samples: |report, out| each_path(report, out, |path| Some(path.resent_bytes as f64)),
    },
];

const PEER_STATES: &[(&str, PeerState)] = &[
    ("connecting", PeerState::Connecting),
    ("up", PeerState::Up),
    ("down", PeerState::Down),
    ("on_demand", PeerState::OnDemand),
];

const PATH_STATES: &[(&str, PathState)] = &[
    ("connecting", PathState::Connecting),
    ("up", PathState::Up),
    ("suspect", PathState::Suspect),
    ("down", PathState::Down),
];

pub(super) fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn each_peer(
    report: &StatusReport,
    out: &mut Samples<'_>,
    value: impl Fn(&PeerStatus) -> Option<f64>,
) {
    for peer in &report.peers {
        if let Some(value) = value(peer) {
            out.add(&[&peer.name], value);
        }
    }
}

/// One sample for each user with unread connections, in bounded number.
fn each_unread(report: &StatusReport, out: &mut Samples<'_>, value: impl Fn(&UnreadOfUser) -> f64) {
    for of_user in &report.node.run.unread.of_users {
        let uid = of_user
            .uid
            .map_or_else(|| "others".to_owned(), |uid| uid.to_string());
        let reader = match of_user.reader {
            Reader::Program => "program",
            Reader::Peer => "peer",
        };
        out.add(&[&uid, reader], value(of_user));
    }
}

/// Adds a sample of each `[[flow]]`.
fn each_flow(report: &StatusReport, out: &mut Samples<'_>, value: fn(&FlowStatus) -> u64) {
    for flow in &report.node.flows {
        out.add(&[&flow.which, &flow.how], value(flow) as f64);
    }
}

/// Adds a sample of each link of the node.
fn each_link(report: &StatusReport, out: &mut Samples<'_>, value: fn(&LinkStatus) -> f64) {
    for link in &report.node.links {
        out.add(&[&link.link.to_string()], value(link));
    }
}

fn each_path(
    report: &StatusReport,
    out: &mut Samples<'_>,
    value: impl Fn(&PathStatus) -> Option<f64>,
) {
    paths(report, |peer, link, path| {
        if let Some(value) = value(path) {
            out.add(&[&peer.name, link], value);
        }
    });
}

/// Calls `each` with every path, its peer, and its link as the label has it.
fn paths(report: &StatusReport, mut each: impl FnMut(&PeerStatus, &str, &PathStatus)) {
    let peers = report.peers.iter();
    let all = peers.flat_map(|peer| peer.paths.iter().map(move |path| (peer, path)));
    for (peer, path) in all.take(PATHS_MAX) {
        each(peer, &path.link.to_string(), path);
    }
}
