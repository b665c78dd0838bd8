//! Facts about the links' networks: who answers ARP, which links hear each other, and
//! what arrives for our port before any firewall.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use tabane_io::probe::{ArpKind, ArpPacket, PacketSocket, Protocol, UdpSeen};

use super::Mac;

/// Longest ARP frame, or enough of a UDP one.
const FRAME_BYTES: usize = 128;
/// Frames taken in at one look at most, so that bulk does not hold up the rest.
const FRAMES_PER_LOOK: usize = 2000;

/// A link to listen and ask on.
pub struct Port {
    pub link: u8,
    pub mac: Mac,
    pub address: Ipv4Addr,
    /// Peers' addresses to ask for, and the same peer's on other links.
    pub peers: Vec<Wanted>,
    arp: PacketSocket,
}

/// A peer's address on a link, and those that it has on others.
pub struct Wanted {
    pub ip: Ipv4Addr,
    pub others: Vec<Ipv4Addr>,
}

/// Somebody said on a link that it has an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    pub link: u8,
    pub ip: Ipv4Addr,
    pub mac: Mac,
}

/// Packets that arrive on a link for our port.
struct Capture {
    link: u8,
    mac: Option<Mac>,
    socket: PacketSocket,
    counts: BTreeMap<IpAddr, u64>,
}

impl Capture {
    fn look(&mut self, udp_port: u16) {
        let mut buffer = [0; FRAME_BYTES];
        for _ in 0..FRAMES_PER_LOOK {
            let Ok(Some(frame)) = self.socket.receive(&mut buffer) else {
                return;
            };
            // A switch that does not know an address yet sends everything to everybody.
            let is_for_us = self.mac.is_none_or(|mac| frame.starts_with(&mac));
            if let Some(seen) = UdpSeen::from_frame(frame)
                && is_for_us
                && seen.to_port == udp_port
                && (self.counts.len() < KEPT_MAX || self.counts.contains_key(&seen.from))
            {
                *self.counts.entry(seen.from).or_default() += 1;
            }
        }
    }
}

/// All links that can be listened on.
#[derive(Default)]
pub struct Network {
    ports: Vec<Port>,
    answers: Vec<Answer>,
    /// (sent on this link, heard on that one).
    heard: Vec<(u8, u8)>,
    captures: Vec<Capture>,
    udp_port: u16,
}

impl Network {
    /// Listens for our UDP port.
    pub fn new(udp_port: u16) -> Network {
        Network {
            udp_port,
            ..Network::default()
        }
    }

    /// Listens for ARP on a link.
    pub fn add(
        &mut self,
        link: u8,
        device: u32,
        mac: Mac,
        address: Ipv4Addr,
        peers: Vec<Wanted>,
    ) -> std::io::Result<()> {
        self.ports.push(Port {
            link,
            mac,
            address,
            peers,
            arp: PacketSocket::open(device, Protocol::Arp)?,
        });
        Ok(())
    }

    /// Counts what arrives for our port on a link, addressed to its device.
    pub fn capture(
        &mut self,
        link: u8,
        device: u32,
        mac: Option<Mac>,
        is_ipv4: bool,
    ) -> std::io::Result<()> {
        let protocol = if is_ipv4 {
            Protocol::Ipv4
        } else {
            Protocol::Ipv6
        };
        self.captures.push(Capture {
            link,
            mac,
            socket: PacketSocket::open(device, protocol)?,
            counts: BTreeMap::new(),
        });
        Ok(())
    }

    /// Asks on every link for its peers and, with a probe that changes nobody's tables
    /// (RFC 5227), for its own address. Where several answer for one peer, they are asked for its other addresses, too: a
    /// machine answers for all that it has, with each of its NICs on this network, unless it was told not to (`arp_ignore`,
    /// the kernel's `ip-sysctl`).
    pub fn ask(&self) {
        for port in &self.ports {
            let own = ArpPacket::request(port.mac, Ipv4Addr::UNSPECIFIED, port.address);
            // A device that is down is detected elsewhere.
            let _ = port.arp.send(&own.to_frame());
            for peer in &port.peers {
                let several = self.macs(port.link, peer.ip.into()).len() > 1;
                let others = peer.others.iter().filter(|_| several);
                for ip in [&peer.ip].into_iter().chain(others) {
                    let ask = ArpPacket::request(port.mac, port.address, *ip);
                    let _ = port.arp.send(&ask.to_frame());
                }
            }
        }
    }

    /// Takes in arrivals.
    pub fn look(&mut self) {
        let macs: Vec<(u8, Mac)> = self.ports.iter().map(|p| (p.link, p.mac)).collect();
        let mut buffer = [0; FRAME_BYTES];
        for port in &self.ports {
            for _ in 0..FRAMES_PER_LOOK {
                let Ok(Some(frame)) = port.arp.receive(&mut buffer) else {
                    break;
                };
                let Some(packet) = ArpPacket::from_frame(frame) else {
                    continue;
                };
                let own = macs.iter().find(|(_, mac)| *mac == packet.sender_mac);
                match (own, packet.kind) {
                    // If both NICs have one MAC address, they cannot be distinguished.
                    (Some((link, _)), ArpKind::Request) if *link != port.link => {
                        add(&mut self.heard, (*link, port.link));
                    }
                    (None, ArpKind::Reply) => {
                        let answer = Answer {
                            link: port.link,
                            ip: packet.sender_ip,
                            mac: packet.sender_mac,
                        };
                        add(&mut self.answers, answer);
                    }
                    _ => {}
                }
            }
        }
        for capture in &mut self.captures {
            capture.look(self.udp_port);
        }
    }

    /// Whether anybody could be asked on a link.
    pub fn asked_on(&self, link: u8) -> bool {
        self.ports.iter().any(|p| p.link == link)
    }

    /// Ethernet addresses that answered for `ip` on a link.
    pub fn macs(&self, link: u8, ip: IpAddr) -> Vec<Mac> {
        let matching = self.answers.iter();
        matching
            .filter(|a| a.link == link && IpAddr::V4(a.ip) == ip)
            .map(|a| a.mac)
            .collect()
    }

    /// Those of them that answered there for another address of the same peer, too: they are that peer's.
    pub fn its_macs(&self, link: u8, ip: IpAddr) -> Vec<Mac> {
        let wanted = self.ports.iter().filter(|port| port.link == link);
        let wanted = wanted
            .flat_map(|port| &port.peers)
            .filter(|it| IpAddr::V4(it.ip) == ip);
        let others: Vec<IpAddr> = wanted
            .flat_map(|it| &it.others)
            .map(|ip| (*ip).into())
            .collect();
        let mut macs = self.macs(link, ip);
        macs.retain(|mac| others.iter().any(|ip| self.macs(link, *ip).contains(mac)));
        macs
    }

    /// Links that heard what was sent on this one.
    pub fn heard_on(&self, link: u8) -> Vec<u8> {
        let pairs = self.heard.iter().filter(|(from, _)| *from == link);
        pairs.map(|(_, on)| *on).collect()
    }

    /// Arrivals for our port on a link, if they were captured.
    pub fn arrivals(&self, link: u8) -> Option<BTreeMap<IpAddr, u64>> {
        let found = self.captures.iter().find(|c| c.link == link);
        found.map(|c| c.counts.clone())
    }
}

/// Bounded: a network that answers with ever new addresses must not fill memory.
const KEPT_MAX: usize = 4096;

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if list.len() < KEPT_MAX && !list.contains(&item) {
        list.push(item);
    }
}
