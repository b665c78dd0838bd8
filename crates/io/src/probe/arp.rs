//! ARP for IPv4 over Ethernet (RFC 826, RFC 5227).

use std::net::Ipv4Addr;

/// Everybody on the network.
pub const ETHERNET_BROADCAST: [u8; 6] = [0xff; 6];

const ETHERNET_BYTES: usize = 14;
/// Ethernet header and ARP packet.
const FRAME_BYTES: usize = ETHERNET_BYTES + 28;
/// Hardware Ethernet, protocol IPv4, lengths 6 and 4.
const FIXED: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ETHERTYPE: [u8; 2] = [8, 6];

/// Question or answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArpKind {
    /// Who has the target's IP address?
    Request,
    /// The sender has the sender's IP address.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArpPacket {
    /// Question or answer.
    pub kind: ArpKind,
    /// Ethernet address of the sender.
    pub sender_mac: [u8; 6],
    /// Its IP address; unspecified in a probe (RFC 5227, section 2.1.1), which changes
    /// nobody's tables.
    pub sender_ip: Ipv4Addr,
    /// Ethernet address of the target; zero in a request.
    pub target_mac: [u8; 6],
    /// Its IP address.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// A question to everybody for the owner of `target`.
    #[must_use]
    pub fn request(sender_mac: [u8; 6], sender_ip: Ipv4Addr, target: Ipv4Addr) -> ArpPacket {
        ArpPacket {
            kind: ArpKind::Request,
            sender_mac,
            sender_ip,
            target_mac: [0; 6],
            target_ip: target,
        }
    }

    /// As an Ethernet frame: a request to everybody, a reply to its target.
    #[must_use]
    pub fn to_frame(&self) -> [u8; FRAME_BYTES] {
        let (destination, operation) = match self.kind {
            ArpKind::Request => (ETHERNET_BROADCAST, 1),
            ArpKind::Reply => (self.target_mac, 2),
        };
        let mut frame = [0; FRAME_BYTES];
        frame[..6].copy_from_slice(&destination);
        frame[6..12].copy_from_slice(&self.sender_mac);
        frame[12..14].copy_from_slice(&ETHERTYPE);
        frame[14..20].copy_from_slice(&FIXED);
        frame[21] = operation;
        frame[22..28].copy_from_slice(&self.sender_mac);
        frame[28..32].copy_from_slice(&self.sender_ip.octets());
        frame[32..38].copy_from_slice(&self.target_mac);
        frame[38..42].copy_from_slice(&self.target_ip.octets());
        frame
    }

    /// Reads an Ethernet frame; `None` if it is no ARP packet for IPv4 over Ethernet.
    #[must_use]
    pub fn from_frame(frame: &[u8]) -> Option<ArpPacket> {
        let frame: &[u8; FRAME_BYTES] = frame.get(..FRAME_BYTES)?.try_into().ok()?;
        if frame[12..14] != ETHERTYPE || frame[14..20] != FIXED {
            return None;
        }
        let kind = match frame[20..22] {
            [0, 1] => ArpKind::Request,
            [0, 2] => ArpKind::Reply,
            _ => return None,
        };
        let mac = |at: usize| <[u8; 6]>::try_from(&frame[at..at + 6]).unwrap_or_default();
        let ip = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
        Some(ArpPacket {
            kind,
            sender_mac: mac(22),
            sender_ip: ip(28),
            target_mac: mac(32),
            target_ip: ip(38),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ask = ArpPacket::request([1; 6], Ipv4Addr::new(10, 0, 0, 1), [10, 0, 0, 2].into());
        let frame = ask.to_frame();
        assert_eq!(frame[..6], ETHERNET_BROADCAST);
        assert_eq!(ArpPacket::from_frame(&frame), Some(ask));
        let answer = ArpPacket {
            kind: ArpKind::Reply,
            target_mac: [1; 6],
            ..ask
        };
        let mut padded = answer.to_frame().to_vec();
        padded.resize(60, 0);
        assert_eq!(padded[..6], [1; 6]);
        assert_eq!(ArpPacket::from_frame(&padded), Some(answer));
    }

    #[test]
    fn other_frames_are_none() {
        let frame =
            ArpPacket::request([1; 6], [10, 0, 0, 1].into(), [10, 0, 0, 2].into()).to_frame();
        for at in (12..20).chain([21]) {
            let mut broken = frame;
            broken[at] ^= 0x40;
            assert_eq!(ArpPacket::from_frame(&broken), None, "{at}");
        }
        assert_eq!(ArpPacket::from_frame(&frame[..41]), None);
        assert_eq!(ArpPacket::from_frame(&[]), None);
    }
}
