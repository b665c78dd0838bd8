//! Sockets of this node that stand for those of programs in namespaces of their own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, MsgHdr, Protocol, SockRef, Socket, Type};

use super::{
    BACKLOG, accept, begin_connecting, bind_to_address, check_handed_on, datagrams, read_now,
};
use crate::sys::set_option;

/// Of an error only whom it came from is wanted, not what had been sent.
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
    /// That of a socket.
    pub(crate) fn of(socket: SockRef<'_>, is_v6: bool) -> io::Result<Sharing> {
        Ok(Sharing {
            only_v6: is_v6 && socket.only_v6()?,
            by_address: socket.reuse_address()?,
            by_port: socket.reuse_port()?,
        })
    }

    /// A socket to be bound with this sharing.
    fn socket(self, address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, kind.nonblocking(), Some(protocol))?;
        socket.set_reuse_address(self.by_address)?;
        socket.set_reuse_port(self.by_port)?;
        if address.is_ipv6() {
            socket.set_only_v6(self.only_v6)?;
        }
        Ok(socket)
    }
}

/// A plain socket that leads out of a node, made by a process of the user whose program speaks by it: to the
/// kernel (rules by user or cgroup, audit) what leaves is that user's, whoever sends it.
#[derive(Debug)]
pub struct Outward(Socket);

impl Outward {
    /// One of this process and of this thread's network namespace: of TCP, or of UDP.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(is_tcp: bool, is_v6: bool) -> io::Result<Outward> {
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let (kind, protocol) = match is_tcp {
            true => (Type::STREAM, Protocol::TCP),
            false => (Type::DGRAM, Protocol::UDP),
        };
        let socket = Socket::new(domain, kind.nonblocking(), Some(protocol))?;
        if is_tcp {
            socket.set_out_of_band_inline(true)?;
            socket.set_tcp_nodelay(true)?;
        }
        Ok(Outward(socket))
    }

    /// What another process handed on, which may be anybody.
    ///
    /// # Errors
    /// It is something else, and given back.
    pub fn from_descriptor(
        descriptor: OwnedFd,
        is_tcp: bool,
        is_v6: bool,
    ) -> Result<Outward, OwnedFd> {
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let kind = if is_tcp { Type::STREAM } else { Type::DGRAM };
        match check_handed_on(&descriptor, &[(domain, kind)]) {
            Ok(()) => Ok(Outward(descriptor.into())),
            Err(_) => Err(descriptor),
        }
    }

    /// Connects it, from one of the addresses of the namespace it was made in if that is given. Not blocking
    /// if nobody has set it to block; when it is writable, it is connected or has its error.
    ///
    /// # Errors
    /// It cannot be reached, as far as is known at once; or the namespace does not have that address, or
    /// nobody else may see it.
    pub fn connect(&self, from: Option<IpAddr>, to: SocketAddr) -> io::Result<()> {
        if from.is_some_and(|from| from.is_loopback() && !to.ip().is_loopback()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if let Some(from) = from {
            bind_to_address(&self.0, from)?;
        }
        begin_connecting(&self.0, to)
    }

    /// Sends a datagram to whom it is connected to; never waits.
    ///
    /// # Errors
    /// As send(2) has; also what became of an earlier one, and this one is not sent then.
    pub fn send(&self, data: &[u8]) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        self.0.send_with_flags(data, flags).map(drop)
    }

    /// Receives a datagram; never waits.
    ///
    /// # Errors
    /// As recv(2) has: also what became of one that was sent.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        read_now(&self.0, buffer)
    }
}

/// Its connection, once it is connected.
impl From<Outward> for TcpStream {
    fn from(outward: Outward) -> TcpStream {
        outward.0.into()
    }
}

impl AsFd for Outward {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether this thread's network namespace has an address: what is sent to one that it has stays within it.
pub fn has_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// A plain socket of TCP in this thread's network namespace that has a port, and may listen there. Not
/// blocking.
#[derive(Debug)]
pub struct Listener(Socket);

impl Listener {
    /// Has a port (of 0: one that is free).
    ///
    /// # Errors
    /// Somebody else has it, or one may not, or the node does not have the address.
    pub fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Listener> {
        let socket = sharing.socket(address, Type::STREAM, Protocol::TCP)?;
        // What is left of earlier connections is in the namespace of the program, whose kernel has looked.
        socket.set_reuse_address(true)?;
        // Its connections have it from there.
        socket.set_out_of_band_inline(true)?;
        socket.bind(&address.into())?;
        Ok(Listener(socket))
    }

    /// Where it is bound.
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

    /// The next connection, not blocking, from whom, and to which of this node's addresses. `None` when
    /// there is none.
    ///
    /// # Errors
    /// No descriptors are left; the connection still waits then.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr, SocketAddr)>> {
        accept(self.0.accept())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A plain socket of UDP in this thread's network namespace. Not blocking.
#[derive(Debug)]
pub struct Datagrams {
    socket: Socket,
    is_v6: bool,
}

impl Datagrams {
    /// Binds one.
    ///
    /// # Errors
    /// Somebody has the port, or one may not, or the node does not have the address.
    pub fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<Datagrams> {
        let socket = sharing.socket(address, Type::DGRAM, Protocol::UDP)?;
        let is_v6 = address.is_ipv6();
        set_option(&socket, libc::SOL_IP, libc::IP_PKTINFO, 1)?;
        set_option(&socket, libc::SOL_IP, libc::IP_RECVERR, 1)?;
        if is_v6 {
            set_option(&socket, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            set_option(&socket, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)?;
        }
        socket.bind(&address.into())?;
        Ok(Datagrams { socket, is_v6 })
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// Not expected.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?.as_socket();
        address.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The next datagram: from whom, to which of this node's addresses, and how many bytes of it are
    /// in `buffer`. `None` when there is none.
    ///
    /// # Errors
    /// What became of a datagram that was sent: see [`Datagrams::next_refusal`].
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(SocketAddr, IpAddr, usize)>> {
        let received = datagrams::receive(&self.socket, buffer, 0)?;
        received
            .map(|received| {
                let to = received.to.ok_or(io::ErrorKind::InvalidData)?;
                Ok((received.from, to.ip(), received.bytes))
            })
            .transpose()
    }

    /// Whom a datagram was sent to for whom there was nobody. `None` when no more is known.
    pub fn next_refusal(&self) -> Option<SocketAddr> {
        loop {
            let mut buffer = [0; ERROR_BYTES];
            let flags = libc::MSG_ERRQUEUE;
            let told = datagrams::receive(&self.socket, &mut buffer, flags).ok()??;
            if told.error == Some(libc::ECONNREFUSED as u32) {
                return Some(told.from);
            }
        }
    }

    /// Sends a datagram, from `source` or else the address that the route to there has.
    ///
    /// # Errors
    /// As send(2) has; what became of an earlier datagram is not among them.
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
        let sent = self.socket.sendmsg(&message, libc::MSG_NOSIGNAL);
        match sent {
            // It may be told of an earlier one, and this one not sent.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.socket.sendmsg(&message, libc::MSG_NOSIGNAL)?;
            }
            sent => drop(sent?),
        }
        Ok(())
    }

    /// The ancillary message that says which address is to be the source (ip(7), IP_PKTINFO; RFC 3542
    /// section 6).
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
