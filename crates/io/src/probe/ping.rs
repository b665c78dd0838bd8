//! ICMP echo (RFC 792, RFC 4443).

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::checksum::{fold, sum};
use crate::sys::set_option;

/// ICMP header: type, code, checksum, identifier, sequence number.
const HEADER_BYTES: usize = 8;

/// A socket that pings one address.
///
/// Ordinary users may have one where `net.ipv4.ping_group_range` allows it; else it needs
/// CAP_NET_RAW.
#[derive(Debug)]
pub struct Ping {
    socket: Socket,
    is_ipv4: bool,
    /// A raw socket sees all answers of the host; this tells which are ours.
    identifier: Option<u16>,
    buffer: Vec<u8>,
}

impl Ping {
    /// From `local`, and through `device` where that is permitted, to `remote`.
    ///
    /// # Errors
    /// `PermissionDenied`: not for this user. Else `local` is not this machine's,
    /// or there is no way to `remote`.
    pub fn open(local: IpAddr, device: Option<&str>, remote: IpAddr) -> io::Result<Ping> {
        let is_ipv4 = remote.is_ipv4();
        let protocol = if is_ipv4 {
            Protocol::ICMPV4
        } else {
            Protocol::ICMPV6
        };
        let domain = Domain::for_address(SocketAddr::new(remote, 0));
        let (socket, is_raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, true),
        };
        let _ = device.map(|name| socket.bind_device(Some(name.as_bytes())));
        // Nothing is cut on the way: a ping that is too large does not arrive.
        if is_ipv4 {
            let probe = libc::IP_PMTUDISC_PROBE;
            set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe)?;
        } else {
            let probe = libc::IPV6_PMTUDISC_PROBE;
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
        }
        socket.bind(&SocketAddr::new(local, 0).into())?;
        socket.connect(&SocketAddr::new(remote, 0).into())?;
        Ok(Ping {
            socket,
            is_ipv4,
            identifier: is_raw.then(next_identifier),
            buffer: vec![0; 1 << 16],
        })
    }

    /// Sends one; its IP packet has `packet_bytes` (at least 28 with IPv4, 48 with IPv6).
    ///
    /// # Errors
    /// `EMSGSIZE`: larger than the device's MTU. Else what the system says.
    pub fn send(&self, sequence: u16, packet_bytes: usize) -> io::Result<()> {
        let ip_header_bytes = if self.is_ipv4 { 20 } else { 40 };
        let bytes = packet_bytes
            .saturating_sub(ip_header_bytes)
            .max(HEADER_BYTES);
        let mut message = vec![0; bytes];
        message[0] = if self.is_ipv4 { 8 } else { 128 };
        message[4..6].copy_from_slice(&self.identifier.unwrap_or(0).to_be_bytes());
        message[6..8].copy_from_slice(&sequence.to_be_bytes());
        if self.is_ipv4 {
            // The kernel does it for ICMPv6, and for sockets that are not raw.
            let sum = !fold(sum(&message));
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.socket.send(&message).map(drop)
    }

    /// The sequence number of the next answer; `None` if none comes within `patience`.
    ///
    /// # Errors
    /// What the system says; an ICMP error about a ping is no error here.
    pub fn receive(&mut self, patience: Duration) -> io::Result<Option<u16>> {
        let until = std::time::Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            self.socket
                .set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
            match (&self.socket).read(&mut self.buffer) {
                Ok(length) => {
                    let answer = self.read_answer(length);
                    if answer.is_some() {
                        return Ok(answer);
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(None),
                    ErrorKind::Interrupted
                    | ErrorKind::ConnectionRefused
                    | ErrorKind::HostUnreachable
                    | ErrorKind::NetworkUnreachable => {}
                    _ => return Err(error),
                },
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    fn read_answer(&self, length: usize) -> Option<u16> {
        let packet = self.buffer.get(..length)?;
        // Only a raw socket of IPv4 has the IP header in front.
        let header_bytes = match (self.is_ipv4, self.identifier) {
            (true, Some(_)) => usize::from(packet.first()? & 0x0f) * 4,
            _ => 0,
        };
        let message = packet.get(header_bytes..)?;
        let number = |at| {
            Some(u16::from_be_bytes(
                message.get(at..at + 2)?.try_into().ok()?,
            ))
        };
        let is_answer = *message.first()? == if self.is_ipv4 { 0 } else { 129 };
        let is_ours = self.identifier.is_none_or(|own| number(4) == Some(own));
        number(6).filter(|_| is_answer && is_ours)
    }
}

/// Unique in this process, and most likely different from others' as well.
fn next_identifier() -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let process = std::process::id() as u16;
    process
        .rotate_left(7)
        .wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated::isolated;
    use crate::netlink::RouteSocket;
    use crate::netlink::route::LinkSettings;

    #[test]
    fn the_loopback_answers_both_sizes_and_each_its_own() {
        isolated(
            "probe::ping::tests::the_loopback_answers_both_sizes_and_each_its_own",
            || {
                let mut route = RouteSocket::new().unwrap();
                let lo = route.link("lo").unwrap().unwrap().index;
                let up = LinkSettings {
                    up: true,
                    ..LinkSettings::default()
                };
                route.set_link(lo, up).unwrap();
                let to = "127.0.0.1".parse().unwrap();
                let (mut one, mut other) = (
                    Ping::open(to, None, to).unwrap(),
                    Ping::open(to, None, to).unwrap(),
                );
                // Answers are there before the call is over; the wait is for a loaded machine.
                let patience = Duration::from_secs(20);
                one.send(7, 84).unwrap();
                other.send(8, 1500).unwrap();
                assert_eq!(one.receive(patience).unwrap(), Some(7));
                assert_eq!(other.receive(patience).unwrap(), Some(8));
                assert_eq!(one.receive(Duration::ZERO).unwrap(), None);
                let error = one.send(9, 65_540).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
            },
        );
    }
}
