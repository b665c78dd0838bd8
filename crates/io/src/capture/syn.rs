//! The first packet of a TCP connection, as the program's kernel made it: read, sent once more,
//! refused. Pure: bytes in, bytes out.

use std::net::{IpAddr, SocketAddr};

use super::packet::{TCP, packet, put_checksum};

/// Longest packet that is looked at: headers, options, and the data of TCP Fast Open.
pub(crate) const SYN_BYTES_MAX: usize = 2048;

const TCP_BYTES_MIN: usize = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const CHECKSUM_AT: usize = 16;

/// A SYN that waits for the far end to accept or refuse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Syn {
    /// The program's end.
    pub source: SocketAddr,
    /// Whom it wants.
    pub destination: SocketAddr,
    sequence: u32,
    /// The packet, its TCP checksum filled in (on loopback the kernel leaves that out).
    packet: Vec<u8>,
}

impl Syn {
    /// Reads an IP packet; `None` if it is anything else than a whole SYN without ACK.
    pub fn read(packet: &[u8]) -> Option<Syn> {
        if packet.len() > SYN_BYTES_MAX {
            return None;
        }
        let (source, destination, header_bytes, packet_bytes) = match packet.first()? >> 4 {
            4 => read_v4(packet)?,
            6 => read_v6(packet)?,
            _ => return None,
        };
        let mut packet = packet.get(..packet_bytes)?.to_vec();
        let tcp = packet.get_mut(header_bytes..)?;
        let flags = *tcp.get(13)?;
        let offset = usize::from(tcp[12] >> 4) * 4;
        if flags & (FIN | SYN | RST | ACK) != SYN || offset < TCP_BYTES_MIN || offset > tcp.len() {
            return None;
        }
        let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let (source, destination) = (
            SocketAddr::new(source, port(0)),
            SocketAddr::new(destination, port(2)),
        );
        let sequence = u32::from_be_bytes(tcp[4..8].try_into().ok()?);
        put_checksum(tcp, CHECKSUM_AT, TCP, source.ip(), destination.ip());
        Some(Syn {
            source,
            destination,
            sequence,
            packet,
        })
    }

    /// The packet, to be sent once more.
    pub fn packet(&self) -> &[u8] {
        &self.packet
    }

    /// The packet that refuses it (RFC 9293 section 3.10.7.1).
    pub fn refusal(&self) -> Vec<u8> {
        let mut tcp = [0; TCP_BYTES_MIN];
        tcp[0..2].copy_from_slice(&self.destination.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&self.source.port().to_be_bytes());
        tcp[8..12].copy_from_slice(&self.sequence.wrapping_add(1).to_be_bytes());
        tcp[12] = (TCP_BYTES_MIN as u8 / 4) << 4;
        tcp[13] = RST | ACK;
        let (from, to) = (self.destination.ip(), self.source.ip());
        put_checksum(&mut tcp, CHECKSUM_AT, TCP, from, to);
        packet(from, to, TCP, &tcp)
    }
}

type Read = (IpAddr, IpAddr, usize, usize);

fn read_v4(packet: &[u8]) -> Option<Read> {
    let header_bytes = usize::from(packet[0] & 15) * 4;
    let packet_bytes = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
    if *packet.get(9)? != TCP || fragment != 0 || header_bytes < 20 || header_bytes > packet_bytes {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(octets.into()))
    };
    Some((address(12)?, address(16)?, header_bytes, packet_bytes))
}

/// Extension headers, which no kernel puts before a SYN of its own, are not read.
fn read_v6(packet: &[u8]) -> Option<Read> {
    const HEADER_BYTES: usize = 40;
    let payload = usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
    if *packet.get(6)? != TCP {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(octets.into()))
    };
    let packet_bytes = HEADER_BYTES + payload;
    Some((address(8)?, address(24)?, HEADER_BYTES, packet_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN from port 40000 to port 80 with the option MSS 1460.
    fn syn(from: IpAddr, to: IpAddr) -> Vec<u8> {
        let mut tcp = vec![0; 24];
        tcp[0..2].copy_from_slice(&40_000u16.to_be_bytes());
        tcp[2..4].copy_from_slice(&80u16.to_be_bytes());
        tcp[4..8].copy_from_slice(&0xffff_ffffu32.to_be_bytes());
        tcp[12] = 6 << 4;
        tcp[13] = SYN;
        tcp[20..24].copy_from_slice(&[2, 4, 5, 0xb4]);
        packet(from, to, TCP, &tcp)
    }

    fn pairs() -> [(IpAddr, IpAddr, usize); 2] {
        let parse = |text: &str| text.parse().unwrap();
        [
            (parse("10.77.0.1"), parse("10.77.0.2"), 20),
            (parse("fd00::1"), parse("fd00::2"), 40),
        ]
    }

    /// Whether the checksum over pseudo header and segment is right: then the sum is all ones.
    fn is_sound(tcp: &[u8], from: IpAddr, to: IpAddr) -> bool {
        let mut copy = tcp.to_vec();
        put_checksum(&mut copy, CHECKSUM_AT, TCP, from, to);
        copy == tcp
    }

    #[test]
    fn a_syn_is_read_and_gets_its_checksum() {
        for (from, to, header_bytes) in pairs() {
            let mut bytes = syn(from, to);
            // The link layer's padding is no part of it.
            bytes.extend([0; 7]);
            let read = Syn::read(&bytes).unwrap();
            assert_eq!(read.source, SocketAddr::new(from, 40_000));
            assert_eq!(read.destination, SocketAddr::new(to, 80));
            assert_eq!(read.packet().len(), bytes.len() - 7);
            assert!(is_sound(&read.packet()[header_bytes..], from, to));
        }
    }

    #[test]
    fn a_refusal_resets_what_the_syn_began() {
        for (from, to, header_bytes) in pairs() {
            let refusal = Syn::read(&syn(from, to)).unwrap().refusal();
            let tcp = &refusal[header_bytes..];
            assert_eq!(tcp[0..4], [0, 80, 0x9c, 0x40]);
            // It acknowledges the SYN, whose number was the last before 0.
            assert_eq!((tcp[8..12].to_vec(), tcp[13]), (vec![0; 4], RST | ACK));
            assert!(is_sound(tcp, to, from));
        }
    }

    #[test]
    fn what_is_no_syn_is_not_read() {
        for (from, to, header_bytes) in pairs() {
            let whole = syn(from, to);
            for cut in 0..whole.len() {
                assert_eq!(Syn::read(&whole[..cut]), None);
            }
            for flags in [0, FIN, RST, ACK, SYN | ACK, SYN | RST, SYN | FIN] {
                let mut other = whole.clone();
                other[header_bytes + 13] = flags;
                assert_eq!(Syn::read(&other), None);
            }
            let mut udp = whole.clone();
            udp[if header_bytes == 20 { 9 } else { 6 }] = 17;
            assert_eq!(Syn::read(&udp), None);
            let mut long = whole.clone();
            long[header_bytes + 12] = 15 << 4;
            assert_eq!(Syn::read(&long), None);
        }
    }
}
