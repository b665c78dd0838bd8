//! A packet socket (packet(7)) on one device: packets that arrive there, before any
//! firewall of this machine.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use socket2::{Domain, Socket, Type};

use crate::sys::set_option;

const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP: u8 = 17;

/// Which frames to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// A UDP datagram seen on its way in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpSeen {
    /// From where.
    pub from: IpAddr,
    /// From which port.
    pub from_port: u16,
    /// To which port.
    pub to_port: u16,
}

/// Sees frames that arrive at one device and sends frames from it. Needs CAP_NET_RAW.
#[derive(Debug)]
pub struct PacketSocket {
    socket: Socket,
}

impl PacketSocket {
    /// On the device with the index `device`. Not blocking.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_RAW; no such device.
    pub fn open(device: u32, protocol: Protocol) -> io::Result<PacketSocket> {
        let number = match protocol {
            Protocol::Arp => libc::ETH_P_ARP,
            Protocol::Ipv4 => libc::ETH_P_IP,
            Protocol::Ipv6 => libc::ETH_P_IPV6,
        } as u16;
        // Protocol 0 receives nothing until it is bound.
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
        // Linux before 4.20 has no such option; its users tell own frames by their sender.
        let _ = set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
        socket.bind(&crate::sys::packet_address(device, number.to_be()))?;
        Ok(PacketSocket { socket })
    }

    /// Sends a whole Ethernet frame.
    ///
    /// # Errors
    /// What the system says: the device is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.send(frame).map(drop)
    }

    /// The next frame that has arrived, truncated to `buffer`; `None` if there is none.
    ///
    /// # Errors
    /// What the system says: the device is down.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match crate::sys::retry(|| (&self.socket).read(buffer)) {
            Ok(length) => Ok(Some(&buffer[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl UdpSeen {
    /// Reads an Ethernet frame; `None` if it is no first fragment of UDP over
    /// IPv4, nor UDP right after the header of IPv6.
    #[must_use]
    pub fn from_frame(frame: &[u8]) -> Option<UdpSeen> {
        let packet = frame.get(ETHERNET_BYTES..)?;
        let (from, header_bytes): (IpAddr, _) = match frame.get(12..14)? {
            [0x08, 0x00] => {
                let header = packet.get(..IPV4_BYTES)?;
                let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
                if header[9] != UDP || offset != 0 {
                    return None;
                }
                let from = <[u8; 4]>::try_from(&header[12..16]).ok()?;
                (
                    Ipv4Addr::from(from).into(),
                    usize::from(header[0] & 0x0f) * 4,
                )
            }
            [0x86, 0xdd] => {
                let header = packet.get(..IPV6_BYTES)?;
                let from = <[u8; 16]>::try_from(&header[8..24]).ok()?;
                if header[6] != UDP {
                    return None;
                }
                (Ipv6Addr::from(from).into(), IPV6_BYTES)
            }
            _ => return None,
        };
        let ports = packet.get(header_bytes..header_bytes + 4)?;
        Some(UdpSeen {
            from,
            from_port: u16::from_be_bytes([ports[0], ports[1]]),
            to_port: u16::from_be_bytes([ports[2], ports[3]]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated::isolated;
    use crate::netlink::RouteSocket;
    use crate::netlink::route::LinkSettings;
    use crate::probe::ArpPacket;

    #[test]
    fn a_udp_datagram_is_recognised_and_noise_is_not() {
        let mut frame = vec![0; 14 + 20 + 8];
        (frame[12], frame[14], frame[23]) = (8, 0x45, UDP);
        frame[26..30].copy_from_slice(&[10, 77, 0, 2]);
        frame[34..38].copy_from_slice(&[0x1d, 0x99, 0x00, 0x09]);
        let seen = UdpSeen {
            from: "10.77.0.2".parse().unwrap(),
            from_port: 7577,
            to_port: 9,
        };
        assert_eq!(UdpSeen::from_frame(&frame), Some(seen));
        for length in 0..38 {
            assert_eq!(UdpSeen::from_frame(&frame[..length]), None);
        }
        frame[21] = 7;
        assert_eq!(UdpSeen::from_frame(&frame), None, "a later fragment");

        let mut frame = vec![0; 14 + 40 + 4];
        (frame[12], frame[13], frame[20], frame[37]) = (0x86, 0xdd, UDP, 9);
        frame[57] = 7;
        let seen = UdpSeen::from_frame(&frame).unwrap();
        assert_eq!((seen.from, seen.to_port), ("::9".parse().unwrap(), 7));
    }

    #[test]
    fn a_frame_sent_at_one_end_of_a_cable_arrives_at_the_other() {
        let name = "probe::packets::tests::a_frame_sent_at_one_end_of_a_cable_arrives_at_the_other";
        isolated(name, || {
            let mut route = RouteSocket::new().unwrap();
            route.add_veth("a", "b", None).unwrap();
            let mut open = |name: &str| {
                let link = route.link(name).unwrap().unwrap();
                let up = LinkSettings {
                    up: true,
                    ..LinkSettings::default()
                };
                route.set_link(link.index, up).unwrap();
                PacketSocket::open(link.index, Protocol::Arp).unwrap()
            };
            let (a, b) = (open("a"), open("b"));
            let ask = ArpPacket::request([2; 6], [10, 9, 9, 1].into(), [10, 9, 9, 2].into());
            let mut buffer = [0; 64];
            // Until the kernel has seen the carrier, it drops packets.
            let arrived = loop {
                a.send(&ask.to_frame()).unwrap();
                if let Some(frame) = b.receive(&mut buffer).unwrap() {
                    break ArpPacket::from_frame(frame);
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            };
            assert_eq!(arrived, Some(ask));
            assert_eq!(a.receive(&mut buffer).unwrap(), None, "what it sent itself");
        });
    }
}
