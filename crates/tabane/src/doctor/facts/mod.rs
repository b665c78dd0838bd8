//! Observed facts, without any judgement.

mod device;
mod flows;
mod gather;
mod machine;
mod measure;
mod network;
mod pings;
mod vnic;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use tabane_io::netlink::Interface;
use tabane_io::probe::KnockAnswer;

use super::finding::Unseen;
use crate::mpi::installed::Mpi;
use crate::names::Lack;
use crate::status::{LinkStatus, PathStatus, PeerStatus, StatusReport};

pub use gather::{Order, gather};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Everything that was seen.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// How long was watched, seconds.
    pub seconds: f64,
    /// The daemon's reports; `None` if none runs.
    pub daemon: Option<Watched>,
    /// The daemon's answer, if it was no status.
    pub daemon_trouble: Option<String>,
    /// This node's name.
    pub node: Option<String>,
    /// UDP port of the cluster.
    pub port: u16,
    /// Problems of the cluster file, or between it and this machine.
    pub file_problems: Vec<String>,
    /// The virtual NIC, if the daemon made one.
    pub vnic: Option<VnicFacts>,
    /// The ways to peers' addresses on the bundle.
    pub vnic_ways: Vec<VnicWay>,
    /// What `/etc/hosts` lacks of the nodes' names, if they are wanted there.
    pub names: Option<Lack>,
    /// This node's links.
    pub links: Vec<OwnLink>,
    /// The ways to the peers that were looked at.
    pub paths: Vec<PathFacts>,
    /// The machine.
    pub machine: Machine,
    /// TCP connections over the virtual NIC.
    pub flows: Vec<Flow>,
    /// Facts for MPI jobs.
    pub mpi: MpiFacts,
    /// The device outside, if this node is a gateway.
    pub outside: Option<OutsideFacts>,
    /// What could not be examined.
    pub unseen: Vec<Unseen>,
}

/// Conditions for MPI jobs on this machine.
#[derive(Debug, Clone, Default)]
pub struct MpiFacts {
    /// MPIs in the caller's path.
    pub installed: Vec<Mpi>,
    /// Why `tabane mpi` would start none of them, or not here.
    pub trouble: Option<String>,
    /// Whether a variable of the provider is set.
    pub is_wanted: bool,
}

/// The daemon's reports during the watch.
#[derive(Debug, Clone)]
pub struct Watched {
    /// At the beginning.
    pub first: StatusReport,
    /// Meanwhile, in order; the newest when the watching ended.
    pub between: Vec<StatusReport>,
    /// Seconds from the first to the last of `readings`, or to `last` if there are none.
    pub seconds: f64,
    /// The report a moment after the watch, when the fate of packets in flight is known.
    pub last: StatusReport,
}

impl Watched {
    /// All that it said, in order.
    pub fn readings(&self) -> impl Iterator<Item = &StatusReport> {
        let first = std::iter::once(&self.first);
        first.chain(&self.between).chain([&self.last])
    }
}

/// The virtual NIC: as the daemon made it, and as it is.
#[derive(Debug, Clone)]
pub struct VnicFacts {
    /// Its name.
    pub name: String,
    /// Its address with the prefix's length.
    pub address: String,
    /// The device of this name, if there is one.
    pub device: Option<Interface>,
}

/// The way of programs' packets to a peer's address on the bundle.
#[derive(Debug, Clone)]
pub struct VnicWay {
    /// The peer's name.
    pub peer: String,
    /// The address.
    pub address: IpAddr,
    /// Where the kernel sends them.
    pub leaves: Leaves,
    /// Pings that way, if they go by the virtual NIC; `None`: there could be none.
    pub pings: Option<Pings>,
    /// This machine's firewall did not let one out.
    pub is_forbidden: bool,
}

/// Where packets leave this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaves {
    /// By this device.
    By(String),
    /// Nowhere, and why.
    Nowhere(String),
}

/// The device of a gateway that leads outside.
#[derive(Debug, Clone)]
pub struct OutsideFacts {
    /// Its name in the cluster file.
    pub name: String,
    /// The device of this name, if there is one.
    pub device: Option<Interface>,
    /// Its speed, if that is known.
    pub speed_mbps: Option<u32>,
}

/// One of this node's links.
#[derive(Debug, Clone, Default)]
pub struct OwnLink {
    /// Its number.
    pub number: u8,
    /// Its address.
    pub address: Option<IpAddr>,
    /// The device that has the address.
    pub device: Option<Device>,
    /// Whether another program has the UDP port (only tried without a daemon).
    pub port_taken: bool,
    /// Links whose device heard broadcasts from this one's.
    pub heard_on: Vec<u8>,
    /// Ethernet addresses of others that answer for this link's address.
    pub claimants: Vec<Mac>,
    /// Datagrams for our port that arrived at the device, by sender; `None` if
    /// that was not looked at.
    pub arrivals: Option<BTreeMap<IpAddr, u64>>,
}

/// A network device.
#[derive(Debug, Clone, Default)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: Option<Mac>,
    /// Its MTU.
    pub mtu_bytes: u32,
    /// Switched on.
    pub up: bool,
    /// Connected.
    pub carrier: bool,
    /// Length of the network prefix of the link's address.
    pub prefix: u8,
    /// Its speed, if it is known.
    pub speed_mbps: Option<u32>,
    /// It cannot send and receive at once.
    pub half_duplex: bool,
    /// There is hardware behind it.
    pub physical: bool,
    /// Offloads that are on, by their names in `ethtool -k`; `None` if not known.
    pub features: Option<Vec<String>>,
    /// Increase of its error counters during the watch, by their names in
    /// `/sys/class/net/*/statistics`.
    pub errors: BTreeMap<String, u64>,
}

/// How many were sent and answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pings {
    /// Sent.
    pub sent: u32,
    /// Answered.
    pub answered: u32,
}

/// A way to a peer.
#[derive(Debug, Clone)]
pub struct PathFacts {
    /// The peer's name.
    pub peer: String,
    /// The link.
    pub link: u8,
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// Small pings; `None` if there could be none.
    pub small: Option<Pings>,
    /// At how many times small ones were lost, those in a row being one; `None` if that is
    /// not known.
    pub lost_times: Option<u32>,
    /// Pings as large as the device's MTU.
    pub large: Option<Pings>,
    /// The answer from the peer's port; only tried where the path does not work.
    pub knock: Option<KnockAnswer>,
    /// Ethernet addresses that answered for the peer's; `None` if ARP could not be used.
    pub macs: Option<Vec<Mac>>,
    /// Those of them that are the peer's for sure, if several answered: they answered for its other addresses, too.
    pub its_macs: Vec<Mac>,
    /// The Ethernet address that the kernel sends to.
    pub neighbour: Option<Mac>,
    /// Whether the kernel got no answer when it asked for the peer.
    pub neighbour_failed: bool,
    /// The device of this machine that has the peer's address, where that is not reached.
    pub own_device: Option<Device>,
}

/// The machine.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// `net.core.rmem_max`.
    pub rmem_max_bytes: Option<u64>,
    /// `net.core.wmem_max`.
    pub wmem_max_bytes: Option<u64>,
    /// Share of the time the busiest processor spent on network interrupts (softirq).
    pub softirq_share_max: f64,
    /// Share of the time that the hypervisor gave to others.
    pub stolen_share: f64,
    /// Share of the time that the daemon ran.
    pub daemon_ran_share: Option<f64>,
    /// Share of the time that it was ready to run and waited for a processor.
    pub daemon_waited_share: Option<f64>,
    /// Share of the time that a quota kept its control group from running on some processor.
    pub daemon_throttled_share: Option<f64>,
    /// Datagrams our port's sockets had no room for, while watching.
    pub socket_drops: u64,
    /// Datagrams of UDP with a wrong checksum, in this network namespace, while watching.
    pub checksum_errors: u64,
    /// Packets the kernel dropped before any socket, machine-wide, while watching.
    pub backlog_drops: u64,
    /// The kernel's source of time.
    pub clocksource: Option<String>,
    /// Cost of one clock reading.
    pub clock_read_ns: f64,
    /// By how much the wall clock ran ahead of the steady one while watching, seconds.
    pub wall_jump_s: f64,
    /// The wall clock, seconds since 1970.
    pub wall_unix_s: u64,
}

/// A TCP connection over the virtual NIC, while it was watched.
#[derive(Debug, Clone)]
pub struct Flow {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// For how long there was something to send, seconds.
    pub busy_s: f64,
    /// For how much of that the other end granted no window.
    pub window_limited_s: f64,
    /// The least that ever waited here to be read.
    pub unread_bytes_min: u64,
    /// Bytes that the other end acknowledged.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
}

impl Facts {
    /// The link of this number.
    pub fn link(&self, number: u8) -> Option<&OwnLink> {
        self.links.iter().find(|l| l.number == number)
    }

    /// The device of a link.
    pub fn device(&self, number: u8) -> Option<&Device> {
        self.link(number)?.device.as_ref()
    }

    /// The daemon's last report of a peer.
    pub fn peer(&self, name: &str) -> Option<&PeerStatus> {
        let peers = &self.daemon.as_ref()?.last.peers;
        peers.iter().find(|p| p.name == name)
    }

    /// The daemon's reports of a path, from the beginning and from the end.
    pub fn path_status(&self, peer: &str, link: u8) -> Option<PathWatch<'_>> {
        let daemon = self.daemon.as_ref()?;
        let peer = daemon.first.peers.iter().find(|p| p.name == peer)?;
        Some(PathWatch {
            first: path_of(&daemon.first, &peer.name, link)?,
            last: path_of(&daemon.last, &peer.name, link)?,
            watched: daemon,
            peer: &peer.name,
        })
    }

    /// The daemon's reports of one of its links, from the beginning and from the end.
    pub fn link_status(&self, number: u8) -> Option<LinkWatch<'_>> {
        let daemon = self.daemon.as_ref()?;
        Some(LinkWatch {
            first: daemon.first.node.links.iter().find(|l| l.link == number)?,
            last: daemon.last.node.links.iter().find(|l| l.link == number)?,
        })
    }
}

fn path_of<'a>(report: &'a StatusReport, peer: &str, link: u8) -> Option<&'a PathStatus> {
    let peer = report.peers.iter().find(|p| p.name == peer)?;
    peer.paths.iter().find(|p| p.link == link)
}

/// If one direction carries this many times the other's bytes, the other carries only
/// acknowledgements.
const MOSTLY: u64 = 8;

/// A path while it was watched.
#[derive(Debug, Clone, Copy)]
pub struct PathWatch<'a> {
    /// At the beginning.
    pub first: &'a PathStatus,
    /// At the end.
    pub last: &'a PathStatus,
    watched: &'a Watched,
    peer: &'a str,
}

impl<'a> PathWatch<'a> {
    /// All that the daemon said of it, in order.
    pub fn readings(&self) -> impl Iterator<Item = &'a PathStatus> {
        let (peer, link) = (self.peer, self.first.link);
        let reports = self.watched.readings();
        reports.filter_map(move |report| path_of(report, peer, link))
    }

    /// Packets sent meanwhile.
    pub fn sent(&self) -> u64 {
        since(self.first.tx_packets, self.last.tx_packets)
    }

    /// Lost packets of those, or of the moment before; without those known to have been
    /// only late.
    pub fn lost(&self) -> u64 {
        let late = since(self.first.tx_late_packets, self.last.tx_late_packets);
        let lost = since(self.first.tx_lost_packets, self.settled().tx_lost_packets);
        lost.saturating_sub(late)
    }

    /// At how many times packets were found lost, of how many.
    pub fn lost_times(&self) -> (usize, usize) {
        let counts: Vec<u64> = self.readings().map(|p| p.tx_lost_packets).collect();
        let grown = counts.windows(2).filter(|two| two[1] > two[0]);
        (grown.count(), counts.len().saturating_sub(1))
    }

    /// The state after the watch, when spurious losses have been recognised.
    fn settled(&self) -> &'a PathStatus {
        let newest = self.watched.between.last();
        let path = newest.and_then(|report| path_of(report, self.peer, self.first.link));
        path.unwrap_or(self.last)
    }

    /// Packets received meanwhile.
    pub fn received(&self) -> u64 {
        since(self.first.rx_packets, self.last.rx_packets)
    }

    /// Whether far more came than went: then the outgoing packets are acknowledgements,
    /// whose loss nobody counts.
    pub fn mostly_received(&self) -> bool {
        let sent = since(self.first.tx_bytes, self.last.tx_bytes);
        let received = since(self.first.rx_bytes, self.last.rx_bytes);
        received / MOSTLY > sent
    }

    /// The rate sent meanwhile, Mb/s.
    pub fn sent_mbps(&self) -> f64 {
        let bytes = since(self.first.tx_bytes, self.settled().tx_bytes);
        bytes as f64 * 8e-6 / self.watched.seconds.max(1e-3)
    }
}

/// One of the daemon's links at the beginning and at the end.
#[derive(Debug, Clone, Copy)]
pub struct LinkWatch<'a> {
    /// At the beginning.
    pub first: &'a LinkStatus,
    /// At the end.
    pub last: &'a LinkStatus,
}

impl LinkWatch<'_> {
    /// By how much a counter grew meanwhile.
    pub fn grown(&self, counter: impl Fn(&LinkStatus) -> u64) -> u64 {
        since(counter(self.first), counter(self.last))
    }
}

/// The increase of a counter; one that was reset (a socket opened again) counts from zero.
pub fn since(first: u64, last: u64) -> u64 {
    last.checked_sub(first).unwrap_or(last)
}
