//! Sockets that lead out of a node, made by a process of the user whose programs send by them, or are reached
//! at them.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::plain::{Datagrams, Listener, Sharing};
use super::{begin_connecting, bind_to_address, check_handed_on, read_now};
use crate::sys::{get_option, set_option};

// asm-generic/socket.h
const SO_NETNS_COOKIE: libc::c_int = 71;

/// A network namespace, by the number that the kernel knows it by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network(u64);

impl Network {
    /// That of this thread; `None`: the kernel does not tell (before Linux 5.14).
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn own() -> io::Result<Option<Network>> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        match Network::of(&socket) {
            Ok(network) => Ok(Some(network)),
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The namespace of a socket, wherever its user has gone.
    fn of(socket: &impl AsFd) -> io::Result<Network> {
        get_option(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, 0).map(Network)
    }
}

/// A plain socket that leads out of a node, made by a process of the user whose program sends by it: to the
/// kernel (rules by user or cgroup, audit) its traffic is that user's, whoever sends it. The port that it is
/// bound to is the user's as well, whoever binds it: the kernel shares it (SO_REUSEPORT) only with that user's
/// sockets.
#[derive(Debug)]
pub struct Outward {
    socket: Socket,
    is_v6: bool,
}

impl Outward {
    /// One of this process and of this thread's network namespace: of TCP, or of UDP.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(is_tcp: bool, is_v6: bool) -> io::Result<Outward> {
        let (domain, kind, protocol) = kind_of(is_tcp, is_v6);
        let socket = Socket::new(domain, kind.nonblocking(), Some(protocol))?;
        if is_tcp {
            socket.set_out_of_band_inline(true)?;
            socket.set_tcp_nodelay(true)?;
        }
        Ok(Outward { socket, is_v6 })
    }

    /// Takes a descriptor from another process, which may be anybody's.
    ///
    /// # Errors
    /// It is something else, or of another network namespace than this one, and is returned. (A port in
    /// another namespace, or of another protocol, would be mistaken for one of this node.)
    pub fn from_descriptor(
        descriptor: OwnedFd,
        is_tcp: bool,
        is_v6: bool,
        network: Option<Network>,
    ) -> Result<Outward, OwnedFd> {
        let (domain, kind, protocol) = kind_of(is_tcp, is_v6);
        let is_known = check_handed_on(&descriptor, &[(domain, kind)]).is_ok()
            && get_option(&descriptor, libc::SOL_SOCKET, libc::SO_PROTOCOL, 0)
                .is_ok_and(|it| it == libc::c_int::from(protocol))
            && network.is_none_or(|own| Network::of(&descriptor).is_ok_and(|it| it == own));
        if !is_known {
            return Err(descriptor);
        }
        let socket = descriptor.into();
        Ok(Outward { socket, is_v6 })
    }

    /// Binds a port (0: one that is free), to become a [`Listener`].
    ///
    /// # Errors
    /// Somebody else has it, or one may not, or the node does not have the address.
    pub fn bind_to_listen(&self, address: SocketAddr, sharing: Sharing) -> io::Result<()> {
        // Remains of earlier connections are in the program's namespace, whose kernel has checked them.
        let by_address = true;
        self.share(Sharing {
            by_address,
            ..sharing
        })?;
        // Its connections have it from there.
        self.socket.set_out_of_band_inline(true)?;
        self.socket.bind(&address.into())
    }

    /// Has a port, to become [`Datagrams`].
    ///
    /// # Errors
    /// Somebody has the port, or one may not, or the node does not have the address.
    pub fn bind_for_datagrams(&self, address: SocketAddr, sharing: Sharing) -> io::Result<()> {
        self.share(sharing)?;
        set_option(&self.socket, libc::SOL_IP, libc::IP_PKTINFO, 1)?;
        set_option(&self.socket, libc::SOL_IP, libc::IP_RECVERR, 1)?;
        if self.is_v6 {
            set_option(&self.socket, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            set_option(&self.socket, libc::SOL_IPV6, libc::IPV6_RECVERR, 1)?;
        }
        self.socket.bind(&address.into())
    }

    /// Sets the sharing for the next bind, whatever it was made with.
    fn share(&self, sharing: Sharing) -> io::Result<()> {
        self.socket.set_reuse_address(sharing.by_address)?;
        self.socket.set_reuse_port(sharing.by_port)?;
        if self.is_v6 {
            self.socket.set_only_v6(sharing.only_v6)?;
        }
        Ok(())
    }

    /// Connects it, from one of the addresses of the namespace it was made in, if given. Does not block unless
    /// somebody has set it to; when it is writable, it is connected or has its error.
    ///
    /// # Errors
    /// The target is known at once to be unreachable; or the namespace does not have that address, or must not
    /// show it.
    pub fn connect(&self, from: Option<IpAddr>, to: SocketAddr) -> io::Result<()> {
        if from.is_some_and(|from| from.is_loopback() && !to.ip().is_loopback()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        if let Some(from) = from {
            bind_to_address(&self.socket, from)?;
        }
        begin_connecting(&self.socket, to)
    }

    /// Sends a datagram to its peer; never waits.
    ///
    /// # Errors
    /// Those of send(2), including errors of an earlier datagram; then this one is not sent.
    pub fn send(&self, data: &[u8]) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        self.socket.send_with_flags(data, flags).map(drop)
    }

    /// Receives a datagram; never waits.
    ///
    /// # Errors
    /// As recv(2) has: also what became of one that was sent.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        read_now(&self.socket, buffer)
    }
}

fn kind_of(is_tcp: bool, is_v6: bool) -> (Domain, Type, Protocol) {
    let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
    match is_tcp {
        true => (domain, Type::STREAM, Protocol::TCP),
        false => (domain, Type::DGRAM, Protocol::UDP),
    }
}

/// Its port, once it is bound to listen.
impl From<Outward> for Listener {
    fn from(outward: Outward) -> Listener {
        Listener::new(outward.socket)
    }
}

/// Its port, once it is bound for datagrams.
impl From<Outward> for Datagrams {
    fn from(outward: Outward) -> Datagrams {
        Datagrams::new(outward.socket, outward.is_v6)
    }
}

/// Its connection, once it is connected.
impl From<Outward> for TcpStream {
    fn from(outward: Outward) -> TcpStream {
        outward.socket.into()
    }
}

impl AsFd for Outward {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether this thread's network namespace has an address: packets to it stay inside.
pub fn has_address(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}
