//! Switching for the virtual NIC: which node a frame is for. Pure: frames in,
//! verdicts out.
//!
//! Every frame has its `virtio_net_hdr` of [`VNET_HDR_BYTES`] in front, as read
//! from and written to the device.
//!
//! MAC addresses are derived from the vnic addresses of the cluster file ([`mac_of`]), so nothing
//! is learned and nothing unknown is flooded: questions for a node's MAC (ARP, IPv6 neighbour
//! solicitations) are answered here. Only broadcast and multicast go to all nodes, including
//! questions for addresses that are not in the file, such as a service address that moves between
//! nodes.

mod flow;
pub(crate) mod frame;
pub(crate) mod offload;
#[cfg(test)]
mod tests;
mod train;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use tabane_cluster::{Mac, mac_of};

pub use flow::{FlowNumbers, flow_hash, flow_header};
pub use frame::VNET_HDR_BYTES;
pub use train::Trains;

use frame::{
    Arp, ETHERNET_BYTES, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, Neighbour,
    NeighbourKind, Packet, TAG_BYTES,
};

/// A peer, by the caller's numbering.
pub type PeerIndex = usize;

/// Where a frame from the virtual NIC must go.
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
    /// It asks for, or announces, this node's own address, which nobody else has.
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

/// Why a frame from a peer is not written to the virtual NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is not from the peer's MAC, or not for this node, or makes no sense.
    Frame,
    /// It comes from, or claims by ARP or neighbour discovery, the address of another node or of
    /// this one.
    ForeignAddress,
    /// It is, or may be as far as can be seen, a router advertisement or a redirect (RFC 4861, RFC
    /// 792).
    Routing,
    /// Its `virtio_net_hdr` asks for something invalid.
    Offload,
    /// It is longer than the virtual NIC's MTU lets pass; the kernel would lose it without a word.
    TooLong,
}

impl Refusal {
    /// All of them, in the order of [`Refusal::index`].
    pub const ALL: [Self; 5] = [
        Self::Frame,
        Self::ForeignAddress,
        Self::Routing,
        Self::Offload,
        Self::TooLong,
    ];

    /// For an array of counters.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in the status report's `limits_hit`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frame => "vnic_frames_refused",
            Self::ForeignAddress => "vnic_refused_foreign_address",
            Self::Routing => "vnic_refused_routing",
            Self::Offload => "vnic_refused_offload",
            Self::TooLong => "vnic_refused_too_long",
        }
    }
}

/// Whose an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// This node's.
    Own,
    Peer(PeerIndex),
}

/// The switch of one node's virtual NIC. Made anew when peers come or go.
#[derive(Debug, Clone)]
pub struct VSwitch {
    own_mac: Mac,
    own_ip: IpAddr,
    /// The longest frame that the virtual NIC takes from a peer, without its `virtio_net_hdr`.
    frame_bytes_max: usize,
    by_mac: HashMap<Mac, PeerIndex>,
    by_ip: HashMap<IpAddr, PeerIndex>,
    peers: HashMap<PeerIndex, (Mac, IpAddr)>,
    /// The owner of each node address, including those that a kernel derives from its MAC.
    owners: HashMap<IpAddr, Owner>,
}

/// The link-local address that a kernel makes from a MAC (RFC 4291, appendix A).
fn link_local_of(mac: Mac) -> IpAddr {
    let [a, b, c, d, e, f] = mac.map(u16::from);
    let (first, last) = ((a ^ 2) << 8 | b, e << 8 | f);
    Ipv6Addr::new(0xfe80, 0, 0, 0, first, c << 8 | 0xff, 0xfe00 | d, last).into()
}

impl VSwitch {
    /// For the virtual NIC with these addresses (usually `own_mac` is
    /// [`mac_of`]`(own_ip)`), beside the virtual NICs of `peers`.
    ///
    /// Addresses are all different, and so are their MACs: the cluster file is
    /// refused otherwise.
    pub fn new(own_mac: Mac, own_ip: IpAddr, peers: &[(PeerIndex, IpAddr)]) -> Self {
        let all = peers.iter().copied();
        let nodes = all
            .clone()
            .map(|(peer, ip)| (Owner::Peer(peer), mac_of(ip), ip))
            .chain([(Owner::Own, own_mac, own_ip)]);
        Self {
            own_mac,
            own_ip,
            frame_bytes_max: usize::MAX,
            by_mac: all.clone().map(|(peer, ip)| (mac_of(ip), peer)).collect(),
            by_ip: all.clone().map(|(peer, ip)| (ip, peer)).collect(),
            peers: all.map(|(peer, ip)| (peer, (mac_of(ip), ip))).collect(),
            owners: nodes
                .flat_map(|(owner, mac, ip)| [(ip, owner), (link_local_of(mac), owner)])
                .collect(),
        }
    }

    /// The virtual NIC has this MTU, bytes.
    pub fn set_mtu(&mut self, bytes: u32) {
        // As the kernel counts: with an Ethernet header and a tag, whether there is one or not.
        self.frame_bytes_max = bytes as usize + ETHERNET_BYTES + TAG_BYTES;
    }

    /// Where `frame`, read from the virtual NIC, must go. Never panics, whatever the bytes;
    /// allocates only for [`Verdict::Reply`].
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

    /// The verdict if the frame asks for a MAC that is known here, or is invalid; `None` if it is
    /// to be switched like any other.
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
                let neighbour = Neighbour::of(&Packet::of(ethernet)?)?;
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
        let (mac, _) = self.peers.get(self.by_ip.get(&target)?)?;
        Some(Verdict::Reply(reply(*mac)))
    }

    /// Whether `frame`, which came from `from`, may be written to the virtual NIC.
    ///
    /// Never panics, whatever the bytes. The same rules hold behind VLAN tags: the kernel removes
    /// some of them.
    ///
    /// # Errors
    /// [`Refusal`] says why not. An address that no node of the file has is free: that of a service
    /// that moves between nodes, or of a network behind one.
    pub fn accept(&self, frame: &[u8], from: PeerIndex) -> Result<(), Refusal> {
        let ethernet = Ethernet::parse(frame).ok_or(Refusal::Frame)?;
        let (mac, ip) = self.peers.get(&from).ok_or(Refusal::Frame)?;
        let is_for_us = ethernet.destination == self.own_mac || ethernet.is_multicast();
        if !is_for_us || ethernet.source != *mac {
            return Err(Refusal::Frame);
        }
        if !offload::is_sound(frame, &ethernet) {
            return Err(Refusal::Offload);
        }
        let frame_bytes = frame.len() - VNET_HDR_BYTES;
        if frame_bytes > self.frame_bytes_max && !offload::is_to_be_cut(frame) {
            return Err(Refusal::TooLong);
        }
        // Most come from the one address that needs no search.
        let may_claim = |address: IpAddr| {
            let owner = || self.owners.get(&address);
            let is_true = address == *ip || owner().is_none_or(|o| *o == Owner::Peer(from));
            is_true.then_some(()).ok_or(Refusal::ForeignAddress)
        };
        match ethernet.ethertype {
            ETHERTYPE_ARP => {
                let arp = Arp::parse(ethernet.payload).ok_or(Refusal::Frame)?;
                if arp.sender_mac != ethernet.source {
                    return Err(Refusal::ForeignAddress);
                }
                may_claim(arp.sender.into())
            }
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => {
                let packet = Packet::of(&ethernet).ok_or(Refusal::Frame)?;
                may_claim(packet.source)?;
                if packet.is_of_routers() {
                    return Err(Refusal::Routing);
                }
                match Neighbour::of(&packet) {
                    Some(neighbour) if neighbour.kind == NeighbourKind::Advertisement => {
                        may_claim(neighbour.target.into())
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
