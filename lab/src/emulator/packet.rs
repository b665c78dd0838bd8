//! Packet sockets (packet(7)) on a device inside a lab, used from outside.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::namespace::Place;
use crate::sys;

const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// Asked for; an ordinary user gets `net.core.rmem_max`.
const RECEIVE_BUFFER_BYTES: libc::c_int = 64 << 20;

/// Sends or receives whole frames with their virtio-net header in front.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Gets what arrives at the device, and never what leaves by it.
    pub fn receiver(place: &Place, device: &str) -> io::Result<Self> {
        let socket = PacketSocket::new(place)?;
        sys::set_option(socket.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        let fd = socket.as_fd();
        sys::set_option(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            RECEIVE_BUFFER_BYTES,
        )
        .or_else(|_| {
            sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        })?;
        socket.bind(device, libc::ETH_P_ALL)?;
        Ok(socket)
    }

    /// As [`receiver`](PacketSocket::receiver), told when each frame came; it can send as well.
    pub fn stamping(place: &Place, device: &str) -> io::Result<Self> {
        let socket = PacketSocket::receiver(place, device)?;
        sys::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        Ok(socket)
    }

    /// Sends by the device.
    pub fn sender(place: &Place, device: &str) -> io::Result<Self> {
        let socket = PacketSocket::new(place)?;
        socket.bind(device, 0)?;
        Ok(socket)
    }

    fn new(place: &Place) -> io::Result<Self> {
        let kind = (libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0);
        let socket = place
            .sockets(&[kind])?
            .pop()
            .ok_or_else(|| io::Error::other("no socket came"))?;
        sys::set_option(socket.as_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        Ok(PacketSocket(socket))
    }

    fn bind(&self, device: &str, protocol: libc::c_int) -> io::Result<()> {
        sys::bind_packet(self.as_fd(), device, protocol)
    }

    /// The next frame's length, or `None` when there is none now. It can be
    /// longer than `buffer`; then only its beginning is there.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: `buffer` is writable for its whole length.
        let got = unsafe {
            libc::recv(
                self.0.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                libc::MSG_TRUNC,
            )
        };
        // Errors are the device going down; it comes up again.
        usize::try_from(got).ok()
    }

    /// As [`receive`](PacketSocket::receive), and when it came, of [`sys::monotonic_ns`]: by the kernel if this is
    /// [`stamping`](PacketSocket::stamping), else now.
    pub fn receive_at(&self, buffer: &mut [u8], clock: &sys::Clock) -> Option<(usize, u64)> {
        let (bytes, stamp_ns) = sys::receive_stamped(self.as_fd(), buffer)?;
        let at_ns =
            stamp_ns.map_or_else(sys::monotonic_ns, |stamp_ns| clock.monotonic_ns(stamp_ns));
        Some((bytes, at_ns))
    }

    /// Take the next frame and forget it.
    pub fn discard(&self) {
        self.receive(&mut [0; 16]);
    }

    /// A frame the kernel refuses (the device is down) is lost, as on any cable.
    pub fn send(&self, frame: &[u8]) {
        // SAFETY: `frame` is readable for its whole length.
        unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
