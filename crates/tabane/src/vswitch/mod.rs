//! Switching for the virtual NIC: which node a frame is for. Pure: frames in,
//! verdicts out.
//!
//! Every frame has its `virtio_net_hdr` of [`VNET_HDR_BYTES`] in front, as read
//! from and written to the device.
//!
//! MAC addresses follow from the vnic addresses of the cluster file
//! ([`mac_of`]), so nothing is learned and nothing unknown is flooded: questions
//! for a node's MAC (ARP, IPv6 neighbour solicitations) are answered here. Only
//! broadcast and multicast go to all nodes, among them questions for addresses
//! that are not in the file, such as a service address that moves between nodes.

mod flow;
mod frame;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;

use tabane_cluster::{Mac, mac_of};

pub use flow::{FlowNumbers, flow_hash};
pub use frame::VNET_HDR_BYTES;

use frame::{Arp, ETHERTYPE_ARP, ETHERTYPE_IPV6, Ethernet, Neighbour, NeighbourKind};

/// A peer, by the caller's numbering.
pub type PeerIndex = usize;

/// Where a frame from the virtual NIC has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// To this peer.
    Unicast(PeerIndex),
    /// To all peers.
    Flood,
    /// Nowhere: it was a question, and this frame, written back to the virtual
    /// NIC, is the answer.
    Reply(Vec<u8>),
    /// Nowhere; to be counted.
    Drop(DropReason),
}

/// Why a frame from the virtual NIC goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Too short to be a frame, or an ARP packet that makes no sense.
    Malformed,
    /// Its source is not the virtual NIC's MAC (as of a bridge on top of it);
    /// the peer would refuse it.
    ForeignSource,
    /// No node has its destination MAC.
    UnknownDestination,
    /// It asks for, or announces, this node's own address: nobody else has it.
    OwnAddress,
}

impl DropReason {
    /// All of them, in the order of [`DropReason::index`].
    pub const ALL: [Self; 4] = [
        Self::Malformed,
        Self::ForeignSource,
        Self::UnknownDestination,
        Self::OwnAddress,
    ];

    /// For an array of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in the status report's `limits_hit`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "vnic_dropped_malformed",
            Self::ForeignSource => "vnic_dropped_foreign_source",
            Self::UnknownDestination => "vnic_dropped_unknown_destination",
            Self::OwnAddress => "vnic_dropped_own_address",
        }
    }
}

/// The switch of one node's virtual NIC. Made anew when peers come or go.
#[derive(Debug, Clone)]
pub struct VSwitch {
    own_mac: Mac,
    own_ip: IpAddr,
    by_mac: HashMap<Mac, PeerIndex>,
    by_ip: HashMap<IpAddr, PeerIndex>,
    mac_of_peer: HashMap<PeerIndex, Mac>,
}

impl VSwitch {
    /// For the virtual NIC with these addresses (usually `own_mac` is
    /// [`mac_of`]`(own_ip)`), beside the virtual NICs of `peers`.
    ///
    /// Addresses are all different, and so are their MACs: the cluster file is
    /// refused otherwise.
    pub fn new(own_mac: Mac, own_ip: IpAddr, peers: &[(PeerIndex, IpAddr)]) -> Self {
        let all = peers.iter().copied();
        Self {
            own_mac,
            own_ip,
            by_mac: all.clone().map(|(peer, ip)| (mac_of(ip), peer)).collect(),
            by_ip: all.clone().map(|(peer, ip)| (ip, peer)).collect(),
            mac_of_peer: all.map(|(peer, ip)| (peer, mac_of(ip))).collect(),
        }
    }

    /// Where `frame`, read from the virtual NIC, has to go. Never panics,
    /// whatever the bytes; allocates only for [`Verdict::Reply`].
    pub fn classify(&self, frame: &[u8]) -> Verdict {
        let Some(ethernet) = Ethernet::parse(frame) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        if ethernet.source != self.own_mac {
            return Verdict::Drop(DropReason::ForeignSource);
        }
        if !ethernet.tagged
            && let Some(verdict) = self.answer(&ethernet)
        {
            return verdict;
        }
        if ethernet.is_multicast() {
            return Verdict::Flood;
        }
        match self.by_mac.get(&ethernet.destination) {
            Some(&peer) => Verdict::Unicast(peer),
            None => Verdict::Drop(DropReason::UnknownDestination),
        }
    }

    /// The verdict if the frame asks for a MAC that is known here, or makes no
    /// sense; `None` if it is to be switched as any other.
    fn answer(&self, ethernet: &Ethernet<'_>) -> Option<Verdict> {
        match ethernet.ethertype {
            ETHERTYPE_ARP => {
                let Some(arp) = Arp::parse(ethernet.payload) else {
                    return Some(Verdict::Drop(DropReason::Malformed));
                };
                let reply = |mac| arp.reply_frame(mac);
                arp.is_request
                    .then(|| self.answer_for(arp.target.into(), reply))?
            }
            ETHERTYPE_IPV6 => {
                let neighbour = Neighbour::parse(ethernet.payload)?;
                let reply = |mac| neighbour.reply_frame(ethernet.source, mac);
                let is_question = neighbour.kind == NeighbourKind::Solicitation;
                is_question.then(|| self.answer_for(neighbour.target.into(), reply))?
            }
            _ => None,
        }
    }

    fn answer_for(&self, target: IpAddr, reply: impl Fn(Mac) -> Vec<u8>) -> Option<Verdict> {
        if target == self.own_ip {
            return Some(Verdict::Drop(DropReason::OwnAddress));
        }
        let peer = self.by_ip.get(&target)?;
        Some(Verdict::Reply(reply(*self.mac_of_peer.get(peer)?)))
    }

    /// May `frame`, which came from `from`, be written to the virtual NIC?
    ///
    /// Not if its source is another MAC than that peer's (this node's own would
    /// be a loop), if its destination is neither this node nor several, or if it
    /// claims another node's address by ARP or neighbour discovery. Never
    /// panics, whatever the bytes.
    pub fn accept(&self, frame: &[u8], from: PeerIndex) -> bool {
        let Some(ethernet) = Ethernet::parse(frame) else {
            return false;
        };
        let is_for_us = ethernet.destination == self.own_mac || ethernet.is_multicast();
        let is_from_peer = self.mac_of_peer.get(&from) == Some(&ethernet.source);
        is_for_us && is_from_peer && self.claims_are_true(&ethernet, from)
    }

    /// Does the frame leave alone the addresses of all nodes but `from`?
    fn claims_are_true(&self, ethernet: &Ethernet<'_>, from: PeerIndex) -> bool {
        let may_claim = |address: IpAddr| {
            address != self.own_ip && self.by_ip.get(&address).is_none_or(|&p| p == from)
        };
        match ethernet.ethertype {
            ETHERTYPE_ARP => Arp::parse(ethernet.payload).is_some_and(|arp| {
                arp.sender_mac == ethernet.source && may_claim(arp.sender.into())
            }),
            ETHERTYPE_IPV6 => Neighbour::parse(ethernet.payload).is_none_or(|neighbour| {
                let target_is_true = match neighbour.kind {
                    NeighbourKind::Advertisement => may_claim(neighbour.target.into()),
                    NeighbourKind::Redirect => false,
                    NeighbourKind::Solicitation | NeighbourKind::Router => true,
                };
                target_is_true && may_claim(neighbour.source.into())
            }),
            _ => true,
        }
    }
}
