//! Sockets of this node that represent those of programs in namespaces of their own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{MsgHdr, SockRef, Socket};

use super::{BACKLOG, accept, datagrams};
use crate::sys::get_option;

// asm-generic/socket.h
const SO_BINDTOIFINDEX: libc::c_int = 62;

/// Only the address of an error is needed, not the datagram.
const ERROR_BYTES: usize = 16;

/// With whom a socket shares its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// One of IPv6 leaves IPv4 to others.
    pub only_v6: bool,
    /// SO_REUSEADDR.
    pub by_address: bool,
    /// SO_REUSEPORT.
    pub by_port: bool,
}

impl Sharing {
    /// The sharing of a socket.
    pub(crate) fn of(socket: SockRef<'_>, is_v6: bool) -> io::Result<Sharing> {
        Ok(Sharing {
            only_v6: is_v6 && socket.only_v6()?,
            by_address: socket.reuse_address()?,
            by_port: socket.reuse_port()?,
        })
    }
}

/// A plain TCP socket in this thread's network namespace that has a port, and may listen there. Non-blocking,
/// unless somebody has set it to block.
#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    pub(super) const fn new(bound: Socket) -> Listener {
        Listener(bound)
    }

    /// Whether it still has this port, as it was bound: another owner of the socket may have given it up, or
    /// have limited it to one device, so that others may have it at another.
    pub fn has(&self, address: SocketAddr, only_v6: bool) -> bool {
        let option = |level, name| get_option(&self.0, level, name, 0);
        // Before Linux 5.1 no kernel tells; there nobody else has the socket.
        let device = option(libc::SOL_SOCKET, SO_BINDTOIFINDEX).unwrap_or_default();
        let is_local =
            |local: SocketAddr| (local.ip(), local.port()) == (address.ip(), address.port());
        let families = || option(libc::SOL_IPV6, libc::IPV6_V6ONLY);
        device == device_of(address)
            && self.local_address().is_ok_and(is_local)
            && (address.is_ipv4() || families().is_ok_and(|only| (only != 0) == only_v6))
    }

    /// Whether it listens (SO_ACCEPTCONN, socket(7)).
    pub fn listens(&self) -> bool {
        let listens = get_option(&self.0, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, 0);
        listens.is_ok_and(|listens| listens != 0)
    }

    /// Its address.
    ///
    /// # Errors
    /// Not expected.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.0.local_addr()?.as_socket();
        address.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Listens there from now on.
    ///
    /// # Errors
    /// Somebody else does.
    pub fn listen(&self) -> io::Result<()> {
        self.0.listen(BACKLOG)
    }

    /// Gives up the port now, and pending connections. (Another owner of the socket may make it linger at
    /// that moment.)
    pub fn end(self) {
        let _ = self.0.set_linger(None);
    }

    /// The next connection, non-blocking, its source, and which of this node's addresses it is to. `None` if
    /// there is none, also if it no longer listens.
    ///
    /// # Errors
    /// No descriptors are left; the connection still waits then.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr, SocketAddr)>> {
        match accept(self.0.accept()) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            accepted => accepted,
        }
    }
}

/// The device that who binds an address has it at; 0: all.
fn device_of(address: SocketAddr) -> libc::c_int {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id().cast_signed(),
        _ => 0,
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A plain socket of UDP in this thread's network namespace that has a port. Never waits.
#[derive(Debug)]
pub struct Datagrams {
    socket: Socket,
    is_v6: bool,
}

/// The fate of a sent datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// There was nobody at its destination.
    Nobody(SocketAddr),
    /// Something else.
    Other,
}

impl Datagrams {
    pub(super) const fn new(socket: Socket, is_v6: bool) -> Datagrams {
        Datagrams { socket, is_v6 }
    }

    /// Its address.
    ///
    /// # Errors
    /// Not expected.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?.as_socket();
        address.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The next datagram: its source, which of this node's addresses it is to, and its length in `buffer`.
    /// `None` if there is none.
    ///
    /// # Errors
    /// What became of a datagram that was sent: see [`Datagrams::next_told`].
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(SocketAddr, IpAddr, usize)>> {
        let received = datagrams::receive(&self.socket, buffer, 0)?;
        received
            .map(|received| {
                let to = received.to.ok_or(io::ErrorKind::InvalidData)?;
                Ok((received.from, to.ip(), received.bytes))
            })
            .transpose()
    }

    /// The fate of a sent datagram. `None` if nothing more is known.
    pub fn next_told(&self) -> Option<Told> {
        let mut buffer = [0; ERROR_BYTES];
        match datagrams::receive(&self.socket, &mut buffer, libc::MSG_ERRQUEUE) {
            Ok(told) => {
                let told = told?;
                let is_refusal = told.error == Some(libc::ECONNREFUSED as u32);
                Some(if is_refusal {
                    Told::Nobody(told.from)
                } else {
                    Told::Other
                })
            }
            // It does not say which datagram it is about.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Some(Told::Other),
            Err(_) => None,
        }
    }

    /// Sends a datagram, from `source` or else the address that the route has; never waits.
    ///
    /// # Errors
    /// Those of send(2), but not errors of earlier datagrams.
    pub fn send(&self, source: Option<IpAddr>, to: SocketAddr, data: &[u8]) -> io::Result<()> {
        let to = match (self.is_v6, to) {
            (true, SocketAddr::V4(v4)) => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            _ => to,
        };
        let control = source.map_or_else(Vec::new, |source| self.source_message(source));
        let (to, data) = (to.into(), [io::IoSlice::new(data)]);
        let mut message = MsgHdr::new().with_addr(&to).with_buffers(&data);
        if !control.is_empty() {
            message = message.with_control(&control);
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let sent = self.socket.sendmsg(&message, flags);
        match sent {
            // The error may be about an earlier datagram, and then this one was not sent.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.socket.sendmsg(&message, flags)?;
            }
            sent => drop(sent?),
        }
        Ok(())
    }

    /// The control message that sets the source address (ip(7), IP_PKTINFO; RFC 3542 section 6).
    fn source_message(&self, source: IpAddr) -> Vec<u8> {
        const ANY_DEVICE: [u8; 4] = [0; 4];
        let (level, kind, data) = match (self.is_v6, source) {
            (false, IpAddr::V4(v4)) => {
                let unused = Ipv4Addr::UNSPECIFIED.octets();
                let data = [ANY_DEVICE, v4.octets(), unused].concat();
                (libc::SOL_IP, libc::IP_PKTINFO, data)
            }
            (_, IpAddr::V4(v4)) => {
                let data = [&v4.to_ipv6_mapped().octets()[..], &ANY_DEVICE].concat();
                (libc::SOL_IPV6, libc::IPV6_PKTINFO, data)
            }
            (_, IpAddr::V6(v6)) => {
                let data = [&v6.octets()[..], &ANY_DEVICE].concat();
                (libc::SOL_IPV6, libc::IPV6_PKTINFO, data)
            }
        };
        // A multiple of the alignment already.
        let header_bytes = size_of::<libc::cmsghdr>();
        let bytes = header_bytes + data.len();
        let mut control = bytes.to_ne_bytes().to_vec();
        control.extend(level.to_ne_bytes());
        control.extend(kind.to_ne_bytes());
        control.extend(data);
        control.resize(bytes.next_multiple_of(size_of::<usize>()), 0);
        control
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
