//! Errors, by what the caller must do.

use std::net::SocketAddr;
use std::{error, fmt, io};

/// Why a link's socket could not be made.
#[derive(Debug)]
pub struct UdpError {
    step: &'static str,
    address: SocketAddr,
    device: Option<String>,
    /// The kernel's error.
    pub source: io::Error,
}

impl UdpError {
    pub(super) fn new(
        step: &'static str,
        address: SocketAddr,
        device: Option<&str>,
        source: io::Error,
    ) -> UdpError {
        UdpError {
            step,
            address,
            device: device.map(str::to_owned),
            source,
        }
    }

    /// True where the link is only down, that is, the address is not (or not
    /// yet) on this host or its device is missing: trying again later may work.
    #[must_use]
    pub fn is_link_down(&self) -> bool {
        is_link_down(&self.source)
    }
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(device) = &self.device {
            write!(f, " on {device}")?;
        }
        write!(f, ": could not {}: {}", self.step, self.source)?;
        f.write_str(match self.source.raw_os_error() {
            Some(libc::EADDRINUSE) => {
                "; another program, or another tabane, uses this address and UDP port: \
                 stop it or choose another port"
            }
            Some(libc::EADDRNOTAVAIL) => "; the address must be one of this host's own",
            Some(libc::ENODEV) => "; there is no such network device",
            Some(libc::EACCES) => "; ports below 1024 need privileges: choose a higher one",
            _ => "",
        })
    }
}

impl error::Error for UdpError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Why a burst was not sent. In every case the caller still has the datagrams.
#[derive(Debug)]
pub enum SendError {
    /// The socket's send buffer is full: wait until it is writable.
    WouldBlock,
    /// The device's queue or the kernel's memory is exhausted: try again a
    /// little later; becoming writable will not tell.
    NoBuffers,
    /// The device is down or gone: nothing leaves by this link until that changes.
    LinkDown(io::Error),
    /// There is no route to this address (ENETUNREACH, EHOSTUNREACH), it is invalid (port 0), or
    /// this host's own address is no longer on the device (EINVAL). The kernel does not say
    /// which; check the device. Other addresses may still be reachable.
    NoRoute(io::Error),
    /// A datagram is larger than the MTU of the device.
    TooBig,
    /// Any other error, for example EPERM from a local firewall rule: this burst was refused; it
    /// says nothing about the link.
    Other(io::Error),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> SendError {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => SendError::WouldBlock,
            Some(libc::ENOBUFS | libc::ENOMEM) => SendError::NoBuffers,
            Some(libc::EMSGSIZE) => SendError::TooBig,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL) => {
                SendError::NoRoute(error)
            }
            _ if is_link_down(&error) => SendError::LinkDown(error),
            _ => SendError::Other(error),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::WouldBlock => f.write_str("the socket's send buffer is full"),
            SendError::NoBuffers => f.write_str("the kernel or the device has no buffers left"),
            SendError::LinkDown(error) => write!(f, "the link is down: {error}"),
            SendError::NoRoute(error) => write!(f, "there is no way to this address: {error}"),
            SendError::TooBig => f.write_str("the datagram is larger than the device's MTU"),
            SendError::Other(error) => error.fmt(f),
        }
    }
}

impl error::Error for SendError {}

/// Why nothing could be received. "Nothing there" is not an error.
#[derive(Debug)]
pub enum RecvError {
    /// The device is down or gone.
    LinkDown(io::Error),
    /// Anything else; not expected.
    Other(io::Error),
}

impl From<io::Error> for RecvError {
    fn from(error: io::Error) -> RecvError {
        if is_link_down(&error) {
            RecvError::LinkDown(error)
        } else {
            RecvError::Other(error)
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::LinkDown(error) => write!(f, "the link is down: {error}"),
            RecvError::Other(error) => error.fmt(f),
        }
    }
}

impl error::Error for RecvError {}

/// EINVAL is what Linux answers to a send from an address that is no longer on
/// any device (`ip_route_output_key_hash_rcu`); our arguments are checked before.
fn is_link_down(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EHOSTDOWN
                | libc::ENODEV
                | libc::ENXIO
                | libc::EADDRNOTAVAIL
                | libc::EINVAL
        )
    )
}

/// Errors that an ICMP message about an earlier datagram left on the socket.
/// They name a host or port, never our link, and anyone on the wire can send them.
pub(super) fn is_stray(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::ECONNRESET | libc::ENOPROTOOPT | libc::EPROTO)
    )
}
