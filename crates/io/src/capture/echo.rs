//! Pings: echo requests of the namespace's programs, sent on to their targets by a socket outside.
//!
//! The namespace's kernel would answer them for every address, since every address is its own; that is
//! switched off.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::packet::{self, ICMP, ICMP_V6, Unreachable};
use super::{Capture, begin_connecting, check_handed_on, datagrams, read_now};
use crate::sys::set_option;

/// Settings by which the kernel answers no echo requests, for IPv4 and for IPv6
/// (Documentation/networking/ip-sysctl.rst).
const ANSWER_NONE: [&str; 2] = [
    "/proc/sys/net/ipv4/icmp_echo_ignore_all",
    "/proc/sys/net/ipv6/icmp/echo_ignore_all",
];
/// Type, code, checksum, identifier, sequence number (RFC 792, RFC 4443 section 4).
const HEADER_BYTES: usize = 8;
const REQUEST_V4: u8 = 8;
const REQUEST_V6: u8 = 128;
const REPLY_V4: u8 = 0;
const REPLY_V6: u8 = 129;
// linux/icmp.h, linux/icmpv6.h
const SOL_RAW: libc::c_int = 255;
const ICMP_FILTER: libc::c_int = 1;
const ICMPV6_FILTER: libc::c_int = 1;

/// The two ends of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Echo {
    /// The program's address.
    pub from: IpAddr,
    /// Whom it asks.
    pub to: IpAddr,
    /// By which its programs tell their own answers.
    pub identifier: u16,
}

/// Hears the echo requests of a network namespace.
#[derive(Debug)]
pub struct Echoes {
    sockets: [Socket; 2],
}

impl Echoes {
    /// Receives those of this thread's namespace; its kernel no longer answers any.
    ///
    /// # Errors
    /// The thread may not, or the kernel's settings cannot be changed: it answers as before.
    pub fn open() -> io::Result<Echoes> {
        let v4 = Socket::new(Domain::IPV4, raw(), Some(Protocol::ICMPV4))?;
        // A bit for each type that is not wanted.
        set_option(&v4, SOL_RAW, ICMP_FILTER, !(1_u32 << REQUEST_V4))?;
        set_option(&v4, libc::SOL_IP, libc::IP_PKTINFO, 1)?;
        let v6 = Socket::new(Domain::IPV6, raw(), Some(Protocol::ICMPV6))?;
        let mut unwanted = [u32::MAX; 8];
        unwanted[usize::from(REQUEST_V6) / 32] &= !(1 << (REQUEST_V6 % 32));
        set_option(&v6, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, unwanted)?;
        set_option(&v6, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        ANSWER_NONE
            .iter()
            .try_for_each(|setting| std::fs::write(setting, "1"))?;
        Ok(Echoes { sockets: [v4, v6] })
    }

    /// The next request, with its message in `buffer`; `None` if there is none.
    ///
    /// # Errors
    /// Not expected.
    pub fn next<'a>(
        &self,
        is_v6: bool,
        buffer: &'a mut [u8],
    ) -> io::Result<Option<(Echo, &'a mut [u8])>> {
        let socket = &self.sockets[usize::from(is_v6)];
        while let Some(received) = datagrams::receive(socket, buffer, 0)? {
            let packet = buffer.get(..received.bytes).unwrap_or_default();
            // Of IPv4 with the header of IP.
            let header_bytes = match (is_v6, packet.first()) {
                (false, Some(first)) => usize::from(first & 0xf) * 4,
                _ => 0,
            };
            let message = header_bytes..packet.len();
            if let (Some(to), Some(identifier)) = (received.to, number_at(packet, header_bytes + 4))
                && message.len() >= HEADER_BYTES
            {
                let echo = Echo {
                    from: received.from.ip(),
                    to: to.ip(),
                    identifier,
                };
                return Ok(Some((echo, &mut buffer[message])));
            }
        }
        Ok(None)
    }

    /// Descriptors to wait for them, for IPv4 and for IPv6.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.sockets[0].as_fd(), self.sockets[1].as_fd()]
    }
}

/// Asks one address outside.
#[derive(Debug)]
pub struct Pinger {
    socket: Socket,
    is_v6: bool,
    /// It sees all answers of the host, and has to tell its own; the kernel does otherwise.
    is_raw: bool,
}

impl Pinger {
    /// A socket of this process and of this thread's network namespace. Ordinary users may have one
    /// where `net.ipv4.ping_group_range` allows it; else it needs CAP_NET_RAW.
    ///
    /// # Errors
    /// `PermissionDenied`: not for this user. No descriptors are left.
    pub fn new(is_v6: bool) -> io::Result<Pinger> {
        let (domain, protocol) = match is_v6 {
            true => (Domain::IPV6, Protocol::ICMPV6),
            false => (Domain::IPV4, Protocol::ICMPV4),
        };
        let datagrams = Type::DGRAM.nonblocking();
        let (socket, is_raw) = match Socket::new(domain, datagrams, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (Socket::new(domain, raw(), Some(protocol))?, true),
        };
        // Errors from routers should arrive, too.
        let (level, option) = match is_v6 {
            true => (libc::SOL_IPV6, libc::IPV6_RECVERR),
            false => (libc::SOL_IP, libc::IP_RECVERR),
        };
        set_option(&socket, level, option, 1)?;
        Ok(Pinger {
            socket,
            is_v6,
            is_raw,
        })
    }

    /// Takes a descriptor from another process of this user.
    ///
    /// # Errors
    /// It is something else.
    pub fn from_descriptor(descriptor: OwnedFd, is_v6: bool) -> io::Result<Pinger> {
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let is_raw = check_handed_on(&descriptor, &[(domain, Type::RAW)]).is_ok();
        if !is_raw {
            check_handed_on(&descriptor, &[(domain, Type::DGRAM)])?;
        }
        Ok(Pinger {
            socket: descriptor.into(),
            is_v6,
            is_raw,
        })
    }

    /// From now on sends to this target only.
    ///
    /// # Errors
    /// There is no way to there.
    pub fn connect(&self, to: IpAddr) -> io::Result<()> {
        begin_connecting(&self.socket, SocketAddr::new(to, 0))
    }

    /// Sends a request, which keeps its identifier unless the kernel chooses the socket's.
    ///
    /// # Errors
    /// As send(2) has.
    pub fn send(&self, message: &mut [u8]) -> io::Result<()> {
        if self.is_raw && !self.is_v6 {
            packet::put_icmp_checksum(message);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        self.socket.send_with_flags(message, flags).map(drop)
    }

    /// The next answer to a request with this identifier, in `buffer`. `None`: something else came.
    ///
    /// # Errors
    /// As recv(2) has: `WouldBlock`, and what became of a request.
    pub fn receive<'a>(
        &self,
        identifier: u16,
        buffer: &'a mut [u8],
    ) -> io::Result<Option<&'a mut [u8]>> {
        let bytes = read_now(&self.socket, buffer)?;
        let packet = buffer.get_mut(..bytes).unwrap_or_default();
        let header_bytes = match (self.is_raw && !self.is_v6, packet.first()) {
            (true, Some(first)) => usize::from(first & 0xf) * 4,
            _ => 0,
        };
        let is_own = !self.is_raw || number_at(packet, header_bytes + 4) == Some(identifier);
        let message = packet.get_mut(header_bytes..).unwrap_or_default();
        let reply = if self.is_v6 { REPLY_V6 } else { REPLY_V4 };
        let is_answer = message.len() >= HEADER_BYTES && message[0] == reply;
        Ok((is_answer && is_own).then_some(message))
    }

    /// Discards errors that the kernel keeps after reporting them.
    pub fn forget_errors(&self) {
        while let Ok(Some(_)) = datagrams::receive(&self.socket, &mut [], libc::MSG_ERRQUEUE) {}
    }
}

impl AsFd for Pinger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Capture {
    /// Gives a program the answer to its request, made of any echo message.
    ///
    /// # Errors
    /// It is longer than a packet may be.
    pub fn answer_echo(&self, echo: Echo, message: &mut [u8]) -> io::Result<()> {
        let (protocol, reply) = match echo.from {
            IpAddr::V4(_) => (ICMP, REPLY_V4),
            IpAddr::V6(_) => (ICMP_V6, REPLY_V6),
        };
        if !(HEADER_BYTES..=packet::DATAGRAM_BYTES_MAX).contains(&message.len()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        message[0] = reply;
        message[4..6].copy_from_slice(&echo.identifier.to_be_bytes());
        match echo.from {
            IpAddr::V4(_) => packet::put_icmp_checksum(message),
            IpAddr::V6(_) => packet::put_checksum(message, 2, ICMP_V6, echo.to, echo.from),
        }
        let answer = packet::packet(echo.to, echo.from, protocol, message);
        self.answer(&answer, echo.from)
    }

    /// Tells a program that its request with this message does not arrive, and why.
    ///
    /// # Errors
    /// Not expected.
    pub fn refuse_echo(&self, echo: Echo, message: &[u8], why: Unreachable) -> io::Result<()> {
        let protocol = if echo.from.is_ipv4() { ICMP } else { ICMP_V6 };
        let head = &message[..message.len().min(HEADER_BYTES)];
        let head = packet::packet(echo.from, echo.to, protocol, head);
        let told = packet::unreachable(echo.from, echo.to, why, &head);
        self.answer(&told, echo.from)
    }
}

const fn raw() -> Type {
    Type::RAW.nonblocking()
}

fn number_at(packet: &[u8], at: usize) -> Option<u16> {
    let bytes = packet.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}
