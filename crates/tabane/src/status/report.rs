//! A node's report about itself. The names are an interface for programs: they stay; new ones may
//! come. `docs/status.md` describes them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use tabane_cluster::Wire;

use super::finding::FindingStatus;
use super::gateway::GatewayStatus;
use super::mptcp::MptcpStatus;
use super::refused::RefusedStatus;
use super::run::RunStatus;

/// Value of [`StatusReport::schema`]. Grows if a name changes its meaning or goes.
pub const SCHEMA: u32 = 1;

/// The state of a node, its peers and paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Version of these names: [`SCHEMA`].
    pub schema: u32,
    /// The node itself.
    pub node: NodeStatus,
    /// All other nodes of the cluster file, in its order.
    pub peers: Vec<PeerStatus>,
    /// Who was not admitted, the newest first; bounded.
    #[serde(default)]
    pub refused: Vec<RefusedStatus>,
}

/// The node that was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name in the cluster file.
    pub name: String,
    /// Version of its daemon.
    pub version: String,
    /// When the daemon started, milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// How packets travel.
    pub wire: Wire,
    /// How often each limit was hit since the start; only those that were.
    pub limits_hit: BTreeMap<String, u64>,
    /// By how much each has grown in the last 5 to 10 minutes; only those that have.
    #[serde(default)]
    pub limits_hit_lately: BTreeMap<String, u64>,
    /// How many datagrams were dropped for each reason; only those that were.
    #[serde(default)]
    pub dropped: BTreeMap<String, u64>,
    /// By how much each has grown in the last 5 to 10 minutes; only those that have. What was dropped before the daemon
    /// first reported, as it started, is none of it.
    #[serde(default)]
    pub dropped_lately: BTreeMap<String, u64>,
    /// Its virtual NIC, if it has one.
    pub vnic: Option<VnicStatus>,
    /// Process id of its daemon, as the daemon sees it.
    #[serde(default)]
    pub pid: u32,
    /// How long its loop has worked since the daemon started, microseconds; it has one thread,
    /// so a second of it in a second is all there is.
    #[serde(default)]
    pub busy_us: u64,
    /// Its own links.
    #[serde(default)]
    pub links: Vec<LinkStatus>,
    /// Programs under `tabane run`.
    #[serde(default)]
    pub run: RunStatus,
    /// The kernel's Multipath TCP, if it is steered.
    #[serde(default)]
    pub mptcp: Option<MptcpStatus>,
    /// Why the kernel's Multipath TCP is not steered at all, in words; `null`: it is, or it is not to be.
    #[serde(default)]
    pub mptcp_trouble: Option<String>,
    /// With how many peers it has a bundle over links.
    #[serde(default)]
    pub bundles_direct: usize,
    /// With how many it may have one; `null`: with all.
    #[serde(default)]
    pub bundles_max: Option<usize>,
    /// The cluster's gateway, if it has one.
    #[serde(default)]
    pub gateway: Option<GatewayStatus>,
    /// The `[[flow]]` of the cluster file, in its order.
    #[serde(default)]
    pub flows: Vec<FlowStatus>,
    /// What the daemon finds wrong, worst first; it looks once a minute.
    #[serde(default)]
    pub findings: Vec<FindingStatus>,
}

/// How some traffic is carried, and how much of it this node has sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Which traffic, as `tcp port 873`.
    pub which: String,
    /// How it is carried, as `link 1, at most 200mbit`.
    pub how: String,
    /// The link that it is meant for; `null`: for none.
    pub link: Option<u8>,
    /// How much of it this node sends at most, bits a second; `null`: there is no limit.
    pub rate_bps: Option<u64>,
    /// Bytes of it that this node has sent: packets of `tab0`, and what programs under `tabane run` wrote.
    pub bytes: u64,
    /// Connections of programs under `tabane run` that it speaks of, since it holds.
    pub connections: u64,
    /// Packets of `tab0` that its rate has dropped.
    pub packets_dropped: u64,
}

/// One of the node's own links, as the operating system has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its number: 0..=7.
    pub link: u8,
    /// Its address and UDP port.
    pub address: SocketAddr,
    /// The device that has the address; `null` if none has.
    pub device: Option<String>,
    /// Whether the system says that it can be used.
    pub up: bool,
    /// Receive buffer that the kernel granted; `null` without a socket.
    pub receive_buffer_bytes: Option<u64>,
    /// Send buffer that the kernel granted.
    pub send_buffer_bytes: Option<u64>,
    /// Receives since the socket was opened: each one datagram, or several that the kernel joined.
    pub rx_receives: u64,
    /// Datagrams in them.
    pub rx_datagrams: u64,
    /// Datagrams, or joined bursts, that found the receive buffer full.
    pub rx_dropped: u64,
    /// Bursts that the device would not segment and that went out one by one.
    pub tx_piecewise: u64,
    /// Bursts that a rule of this machine refused to let out.
    pub tx_refused: u64,
    /// ICMP errors about what was sent, from wherever.
    pub icmp_errors: u64,
}

/// A virtual NIC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VnicStatus {
    /// The device: `tab0`, unless somebody has renamed it.
    pub name: String,
    /// Address and prefix length: `10.99.0.1/24`.
    pub address: String,
    /// Its MTU now.
    pub mtu_bytes: u32,
    /// What it is made of: `tap` or `veth`.
    pub backend: String,
    /// What somebody has done to it since the daemon made it, in words; `null`: nothing.
    #[serde(default)]
    pub trouble: Option<String>,
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name in the cluster file.
    pub name: String,
    /// Is it connected?
    pub state: PeerState,
    /// When this state began, milliseconds since 1970-01-01 UTC.
    pub since_unix_ms: u64,
    /// How long ago that is, seconds.
    pub since_s: u64,
    /// Why it is in this state, in words; `null` if there is nothing to say.
    pub why: Option<String>,
    /// Seconds since the last handshake; `null` before the first.
    pub session_age_s: Option<u64>,
    /// Its `public` of the cluster file, if it has shown to be the holder; `null`: it shows the cluster key alone, or
    /// there is no session.
    #[serde(default)]
    pub public: Option<String>,
    /// Memory held for it.
    pub memory_bytes: u64,
    /// How often it was connected and then was no longer, since the daemon started.
    #[serde(default)]
    pub failures: u64,
    /// How many of its paths work; none unless it is up.
    #[serde(default)]
    pub paths_up: usize,
    /// How many paths to it the cluster file makes possible.
    #[serde(default)]
    pub paths_configured: usize,
    /// Several paths are possible, and fewer than two of them work.
    #[serde(default)]
    pub redundancy_lost: bool,
    /// Bytes that wait to be sent to it.
    #[serde(default)]
    pub queued_bytes: u64,
    /// The paths to it, by link number.
    pub paths: Vec<PathStatus>,
    /// Those through other nodes, while they are used: no link in common works.
    #[serde(default)]
    pub relayed: Vec<RelayedStatus>,
}

/// A path through other nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelayedStatus {
    /// The nodes that it leads through, in order.
    pub via: Vec<String>,
    /// Does it work?
    pub state: PathState,
    /// When this state began, milliseconds since 1970-01-01 UTC.
    pub since_unix_ms: u64,
    /// How long ago that is, seconds.
    pub since_s: u64,
    /// Smoothed round trip time; `null` before the first.
    pub rtt_us: Option<u32>,
    /// Bytes sent, of UDP payload.
    pub tx_bytes: u64,
    /// Bytes received, of UDP payload.
    pub rx_bytes: u64,
}

/// Is a peer connected?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerState {
    /// No handshake has succeeded yet.
    Connecting,
    /// At least one path works.
    Up,
    /// It was connected; now no path works.
    Down,
    /// Nothing is to be carried: it is connected to when something is.
    #[serde(rename = "on_demand")]
    OnDemand,
}

/// One link here with the peer's on the same network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// Number of the link and network: 0..=7.
    pub link: u8,
    /// The link's own address.
    pub local: IpAddr,
    /// Where packets to the peer go.
    pub remote: SocketAddr,
    /// Does it work?
    pub state: PathState,
    /// When this state began, milliseconds since 1970-01-01 UTC.
    pub since_unix_ms: u64,
    /// How long ago that is, seconds.
    pub since_s: u64,
    /// Why it is in this state: which witness said so; or why it carries nothing though it is up; `null` if there is
    /// nothing to say.
    pub why: Option<String>,
    /// Smoothed round trip time; `null` before the first.
    pub rtt_us: Option<u32>,
    /// What was sent lately, megabits per second.
    pub tx_rate_mbps: f64,
    /// What was received lately, megabits per second.
    pub rx_rate_mbps: f64,
    /// What the path can carry, by estimate; `null` before there is one.
    pub capacity_mbps: Option<f64>,
    /// Whether the path was given all it can carry when that was estimated.
    #[serde(default)]
    pub capacity_proven: bool,
    /// What the peer grants while many send to it, in Mb/s; `None` if nothing limits this path.
    #[serde(default)]
    pub granted_mbps: Option<f64>,
    /// Packets lost lately of those sent; `null` if none were sent.
    pub loss_percent: Option<f64>,
    /// Packets sent since the path is there.
    pub tx_packets: u64,
    /// Bytes sent, of UDP payload.
    pub tx_bytes: u64,
    /// Packets sent that were given up as lost.
    #[serde(default)]
    pub tx_lost_packets: u64,
    /// Those of them that had arrived after all, late.
    #[serde(default)]
    pub tx_late_packets: u64,
    /// Second copies of mirrored content left out since the path had no room for them.
    #[serde(default)]
    pub tx_copies_left_out: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, of UDP payload.
    pub rx_bytes: u64,
    /// Bytes of content that were sent here and had to be sent once more.
    pub resent_bytes: u64,
    /// How often the path failed since it is there.
    #[serde(default)]
    pub failures: u64,
    /// Largest UDP payload that passes, as found out.
    pub mtu_bytes: u32,
}

impl PathStatus {
    /// What the path can carry, if it was full when that was estimated: else the estimate says little.
    pub fn capacity_proven_mbps(&self) -> Option<f64> {
        self.capacity_mbps.filter(|_| self.capacity_proven)
    }

    /// Whether the peer's grant, while several send to it, limits this path: about as much is
    /// sent.
    pub fn is_limited_by_grant(&self) -> bool {
        const USED_MIN: f64 = 0.7;
        let used = |granted: f64| self.tx_rate_mbps >= granted * USED_MIN;
        self.granted_mbps.is_some_and(used)
    }
}

/// Does a path work?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Not yet known to work.
    Connecting,
    /// It works.
    Up,
    /// It may have failed; it is being probed and gets no new content.
    Suspect,
    /// It failed; probes go on.
    Down,
}
