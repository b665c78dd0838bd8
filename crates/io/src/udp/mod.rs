//! One UDP socket per link, in bursts.
//!
//! A burst is up to [`SEGMENTS_MAX`] datagrams for one destination handed to
//! the kernel in one call (UDP generic segmentation offload, GSO); the kernel
//! joins them again on arrival where it can (GRO). That is what makes UDP in
//! user space fast: the stack is walked once per burst, not once per datagram.
//!
//! Written against the system calls rather than on `quinn-udp`, for what that
//! library (0.6) does not let through: it turns GSO off for the rest of the
//! socket's life on the first EINVAL, which is also what a burst gets while the
//! address is missing from the NIC, a state we must come back from; it drops
//! truncated datagrams uncounted; it does not read the kernel's drop counter;
//! and it switches on a time stamp and two more control messages for every
//! packet that nobody here reads, which cost 4% of processor time on bursts of
//! 44 and 13% on lone datagrams (send and receive over loopback).

mod error;
mod filter;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use crate::process::Unshared;
use crate::sys::{grow_buffer, set_option};

pub use error::{RecvError, SendError, UdpError};
pub use filter::{FILTER_INSTRUCTIONS_MAX, FILTER_PAYLOAD, Instruction};
pub use receive::{BATCH_RECEIVES, RECEIVE_BYTES, ReceiveBatch};
pub use send::{BURST_BYTES_MAX, SEGMENTS_MAX};

/// The receive buffer asked for, bytes. A burst of a fast sender must fit while
/// the loop is busy elsewhere; below 8 MiB the prototypes lost packets.
pub const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// The send buffer asked for, bytes: some thirty bursts on their way to the wire.
pub const SEND_BUFFER_BYTES: usize = 2 << 20;

/// The kernel buffers granted to a socket, in bytes as one asks for them (the
/// kernel itself reserves twice as much). Less than
/// [`RECEIVE_BUFFER_BYTES`] or [`SEND_BUFFER_BYTES`] means that the process
/// lacks CAP_NET_ADMIN and `net.core.rmem_max` or `net.core.wmem_max` is lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// Receive buffer granted.
    pub receive_bytes: usize,
    /// Send buffer granted.
    pub send_bytes: usize,
}

/// Whether a socket uses one network device only.
#[derive(Debug)]
pub enum DeviceBinding {
    /// No device was named.
    Unasked,
    /// Sends and receives through the named device only.
    Bound,
    /// The kernel did not let us (before Linux 5.7 that takes CAP_NET_RAW); the
    /// routing table chooses the device.
    Refused(io::Error),
}

/// Counters of a socket since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams (or joined bursts) the kernel dropped because the receive
    /// buffer was full or their checksum was wrong. As of the last packet received.
    pub kernel_drops: u64,
    /// Receives, each of one datagram or of a burst the kernel joined.
    pub receives: u64,
    /// Datagrams in them.
    pub datagrams_received: u64,
    /// Receives longer than the buffer, dropped.
    pub truncated: u64,
    /// Bursts the device would not segment, sent one datagram a call.
    pub gso_refused: u64,
    /// Errors that belong to an earlier datagram or another host (ICMP), ignored.
    pub stray_errors: u64,
}

/// The UDP socket of one link. Not blocking; IPv4 or IPv6 as its address is.
///
/// Datagrams have the don't-fragment flag and ignore any path MTU that the kernel may
/// have learnt from ICMP (`IP_PMTUDISC_PROBE`): the socket's user finds the MTU, and a
/// forged ICMP message cannot shrink it.
///
/// A socket bound to a device that is removed stays dead even if a device of
/// the same name comes back: make a new one then.
///
/// A fork of the process does not have it, and so does not hold its port.
#[derive(Debug)]
pub struct LinkSocket {
    /// In front of the socket, because it must be dropped first.
    _unshared: Unshared,
    socket: Socket,
    binding: DeviceBinding,
    counters: Cell<UdpCounters>,
    /// `SO_RXQ_OVFL` as last seen; it is 32 bits wide and wraps.
    drops_seen: Cell<u32>,
    /// Bursts still to be sent piecewise before GSO is tried again.
    piecewise: Cell<u32>,
}

/// A UDP port of one address, reserved from now on: a port that is only found free may
/// be another's when it is bound. [`LinkSocket::of`] makes a link's socket of it.
#[derive(Debug)]
pub struct Claim {
    socket: Socket,
    address: SocketAddr,
}

impl Claim {
    /// Of this port, or of any one if it is 0, on this address of this host.
    ///
    /// # Errors
    /// [`UdpError`]: the port is in use, the address not ours or not permitted.
    pub fn new(address: SocketAddr) -> Result<Claim, UdpError> {
        let failed = |step| move |source| UdpError::new(step, address, None, source);
        let socket = new_socket(address).map_err(failed("open a socket"))?;
        socket.bind(&address.into()).map_err(failed("bind"))?;
        let bound = socket.local_addr().map_err(failed("bind"))?;
        Ok(Claim {
            socket,
            address: bound.as_socket().unwrap_or(address),
        })
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A socket without an address.
fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

impl LinkSocket {
    /// A socket on `address`, which must be an address of this host, held to
    /// `device` (a device name) where given and permitted; [`LinkSocket::device_binding`]
    /// tells. Also tells how large the kernel's buffers became.
    ///
    /// # Errors
    /// [`UdpError`]: the address is in use, not ours or not permitted, or the
    /// device does not exist.
    pub fn bind(
        address: SocketAddr,
        device: Option<&str>,
    ) -> Result<(LinkSocket, BufferSizes), UdpError> {
        let opened = new_socket(address);
        let socket =
            opened.map_err(|source| UdpError::new("open a socket", address, device, source))?;
        LinkSocket::on(socket, address, device, |socket| {
            socket.bind(&address.into())
        })
    }

    /// The same for a claimed port.
    ///
    /// # Errors
    /// [`UdpError`]: the device does not exist.
    pub fn of(claim: Claim, device: Option<&str>) -> Result<(LinkSocket, BufferSizes), UdpError> {
        LinkSocket::on(claim.socket, claim.address, device, |_| Ok(()))
    }

    /// A link's socket of one that `bind` binds, where it is not bound yet.
    fn on(
        socket: Socket,
        address: SocketAddr,
        device: Option<&str>,
        bind: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> Result<(LinkSocket, BufferSizes), UdpError> {
        let failed = |step| move |source| UdpError::new(step, address, device, source);
        let binding = match device.map(|name| socket.bind_device(Some(name.as_bytes()))) {
            None => DeviceBinding::Unasked,
            Some(Ok(())) => DeviceBinding::Bound,
            Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                DeviceBinding::Refused(error)
            }
            Some(Err(error)) => return Err(failed("bind to the device")(error)),
        };
        configure(&socket, address).map_err(failed("set the socket's options"))?;
        let buffers = grow_buffers(&socket).map_err(failed("size the socket's buffers"))?;
        bind(&socket).map_err(failed("bind"))?;
        let link = LinkSocket {
            _unshared: Unshared::new(socket.as_fd()),
            socket,
            binding,
            counters: Cell::default(),
            drops_seen: Cell::new(0),
            piecewise: Cell::new(0),
        };
        Ok((link, buffers))
    }

    /// Whether the socket is held to its device.
    #[must_use]
    pub fn device_binding(&self) -> &DeviceBinding {
        &self.binding
    }

    /// The address and port bound to.
    ///
    /// # Errors
    /// None in practice.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> UdpCounters {
        self.counters.get()
    }

    fn count(&self, change: impl FnOnce(&mut UdpCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn configure(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        let probe = libc::IPV6_PMTUDISC_PROBE;
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)?;
        // Without it the kernel would fragment to the path MTU all the same.
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
    } else {
        let probe = libc::IP_PMTUDISC_PROBE;
        set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe)?;
    }
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    // Linux before 5.0 has no GRO; datagrams then come one by one, only slower.
    if let Err(error) = set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
        && error.raw_os_error() != Some(libc::ENOPROTOOPT)
    {
        return Err(error);
    }
    Ok(())
}

fn grow_buffers(socket: &Socket) -> io::Result<BufferSizes> {
    let fd = socket.as_fd();
    Ok(BufferSizes {
        receive_bytes: grow_buffer(
            fd,
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVBUF,
            RECEIVE_BUFFER_BYTES,
        )?,
        send_bytes: grow_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER_BYTES)?,
    })
}
