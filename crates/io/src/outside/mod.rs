//! The device that leads outside, read and written beside the kernel's own TCP/IP (packet(7)).
//!
//! What comes for the cluster's addresses is read here, and dropped behind by a [rule], so that the kernel answers nothing of it, not even
//! who has the address. What of it is the host's own is given back to its kernel by a [TUN](Tun). So the host is silent
//! at these addresses when this process is gone, however it ended.
//!
//! What is sent waits in the device's queue with the sender's socket charged for it until the device is done with it: the socket's buffer is
//! what bounds the queue.

mod filter;
mod inlet;
mod port;
mod rule;
#[cfg(test)]
mod tests;
mod tun;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys::{
    check, check_fd, check_len, get_option, grow_buffer, packet_address, retry, set_option,
};
use crate::vnic::HEADER_BYTES;

pub use inlet::{Addresses, Inlet, take_off};
pub use port::HeldPort;
pub use rule::{keep_silent, speak_again};
pub use tun::Tun;

/// What may wait to be read, bytes: 100 ms of 1 Gb/s.
const RECEIVE_BUFFER_BYTES: usize = 12 << 20;
/// Longest packet that a device hands over uncut, with the `virtio_net_hdr`.
pub const PACKET_BYTES_MAX: usize = 65_536 + HEADER_BYTES;
/// An address of Ethernet.
pub type Mac = [u8; 6];
/// Length of Ethernet's header.
const ETHERNET_BYTES: usize = 14;
/// Where a `virtio_net_hdr` has how long all headers are, and where a checksum begins: in what is behind it (linux/virtio_net.h).
const HDR_LEN_AT: usize = 2;
const CSUM_START_AT: usize = 6;
/// The least buffer of a socket that the kernel grants.
const SEND_BUFFER_BYTES_MIN: usize = 16 * 1024;

// linux/if_packet.h
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
// linux/sockios.h
const SIOCOUTQ: libc::Ioctl = 0x5411;
/// All protocols, as the packet socket wants it.
const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// What stood in front of a packet that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// What it is of: an ethertype.
    pub protocol: u16,
    /// Who has sent it, on this network.
    pub from: Mac,
}

/// The device, for the cluster's addresses. What is read has a `virtio_net_hdr` of 10 bytes in front, and no header of Ethernet; what
/// is written has both, the former first.
#[derive(Debug)]
pub struct Outside {
    hears: OwnedFd,
    speaks: OwnedFd,
    dropped: u64,
}

impl Outside {
    /// Of the device with this number: what comes there for `addresses`, or asks who has them. `queue_bytes` may wait to be sent at once.
    ///
    /// # Errors
    /// There is no such device, or the process may not (CAP_NET_RAW).
    pub fn open(device: u32, addresses: &[IpAddr], queue_bytes: usize) -> io::Result<Outside> {
        let hears = packet_socket()?;
        // Before it hears anything.
        let program = filter::program(addresses);
        crate::sys::set_program(&hears, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        set_option(&hears, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        let (force, plain) = (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
        grow_buffer(hears.as_fd(), force, plain, RECEIVE_BUFFER_BYTES)?;
        socket2::SockRef::from(&hears).bind(&packet_address(device, EVERY_PROTOCOL))?;
        let speaks = packet_socket()?;
        // Without a protocol it hears nothing.
        socket2::SockRef::from(&speaks).bind(&packet_address(device, 0))?;
        let outside = Outside {
            hears,
            speaks,
            dropped: 0,
        };
        outside.set_queue_bytes(queue_bytes)?;
        Ok(outside)
    }

    /// So much may wait to be sent at once, in bytes as the kernel counts them, some more than those of packets.
    ///
    /// # Errors
    /// Not expected.
    pub fn set_queue_bytes(&self, bytes: usize) -> io::Result<()> {
        // The kernel doubles what it is asked for (socket(7)).
        let half = (bytes.max(SEND_BUFFER_BYTES_MIN) / 2).min(i32::MAX as usize);
        set_option(&self.speaks, libc::SOL_SOCKET, libc::SO_SNDBUF, half as i32)
    }

    /// What waits to be sent, in the same bytes.
    pub fn queued_bytes(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: SIOCOUTQ writes one int.
        let asked =
            check(unsafe { libc::ioctl(self.speaks.as_raw_fd(), SIOCOUTQ, &raw mut bytes) });
        asked.map_or(0, |_| bytes.max(0) as usize)
    }

    /// Takes the next packet. The buffer's content is replaced. `None` when there is none.
    ///
    /// # Errors
    /// The device was switched off or removed.
    pub fn read(&self, packet: &mut Vec<u8>) -> io::Result<Option<Heard>> {
        packet.clear();
        packet.reserve(PACKET_BYTES_MAX);
        loop {
            match receive(&self.hears, packet.spare_capacity_mut()) {
                // One that is longer, or has not even Ethernet's header, makes no sense.
                Ok((bytes, _)) if bytes > packet.capacity() || bytes < HEADER_BYTES => {}
                Ok((bytes, heard)) => {
                    // SAFETY: the kernel wrote `bytes` bytes, which are within the capacity.
                    unsafe { packet.set_len(bytes) };
                    for at in [HDR_LEN_AT, CSUM_START_AT] {
                        let word = u16::from_le_bytes([packet[at], packet[at + 1]]);
                        let word = word.saturating_sub(ETHERNET_BYTES as u16);
                        packet[at..at + 2].copy_from_slice(&word.to_le_bytes());
                    }
                    return Ok(Some(heard));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a frame, its parts in order: at most 1024. Whether there was room: if not, the [sender](Outside::sender) becomes writable when there is.
    ///
    /// # Errors
    /// It was not sent and need not be tried again: the device's queue is full by what others send, the device is off or gone, or the
    /// frame makes no sense.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        let sent = retry(|| {
            // SAFETY: `IoSlice` is guaranteed to be laid out as `iovec`; the kernel only reads from it.
            check_len(unsafe {
                libc::writev(
                    self.speaks.as_raw_fd(),
                    parts.as_ptr().cast(),
                    parts.len() as i32,
                )
            })
        });
        match sent {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What becomes readable when something has come.
    pub fn receiver(&self) -> BorrowedFd<'_> {
        self.hears.as_fd()
    }

    /// What becomes writable when there is room again.
    pub fn sender(&self) -> BorrowedFd<'_> {
        self.speaks.as_fd()
    }

    /// How many frames had no room for want of being read, so far.
    pub fn dropped(&mut self) -> u64 {
        // struct tpacket_stats: packets, drops
        let stats = get_option(&self.hears, libc::SOL_PACKET, PACKET_STATISTICS, [0_u32; 2]);
        self.dropped += stats.map_or(0, |stats| u64::from(stats[1]));
        self.dropped
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers.
    let socket = check_fd(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    Ok(socket)
}

/// Takes one packet, its `virtio_net_hdr` in front; its true length, which may be beyond that of `buffer`, without Ethernet's header, and
/// what that said.
fn receive(socket: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<(usize, Heard)> {
    let mut ethernet = [0_u8; ETHERNET_BYTES];
    let (header, behind) = buffer.split_at_mut(HEADER_BYTES);
    let mut parts = [
        libc::iovec {
            iov_base: header.as_mut_ptr().cast(),
            iov_len: header.len(),
        },
        libc::iovec {
            iov_base: ethernet.as_mut_ptr().cast(),
            iov_len: ethernet.len(),
        },
        libc::iovec {
            iov_base: behind.as_mut_ptr().cast(),
            iov_len: behind.len(),
        },
    ];
    // SAFETY: integers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    let bytes = retry(|| {
        // SAFETY: the parts are those of `buffer`, and `ethernet`. MSG_TRUNC has the kernel tell the packet's true length, not write
        // beyond them.
        check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) })
    })?;
    let mut from = Mac::default();
    from.copy_from_slice(&ethernet[6..12]);
    let heard = Heard {
        protocol: u16::from_be_bytes([ethernet[12], ethernet[13]]),
        from,
    };
    Ok((bytes.saturating_sub(ETHERNET_BYTES), heard))
}
