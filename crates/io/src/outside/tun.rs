//! A TUN with offloads: packets of IP, each with its `virtio_net_hdr` in front (Documentation/networking/tuntap.rst of Linux).

use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::sys::{check, check_len, interface_request, retry};

/// As docs/protocol.md has it, without `num_buffers`.
const HEADER_BYTES: libc::c_int = 10;
/// No packet of a TUN is longer (`GSO_LEGACY_MAX_SIZE`).
const PACKET_BYTES_MAX: usize = 65_536;
/// What every kernel can do, and UDP segmentation, of Linux 6.2 and later.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
const OFFLOADS_UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// A TUN. Its device is gone when the last descriptor is closed.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes the device in the network namespace of this thread. It is off, and has no address.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, the process may not (CAP_NET_ADMIN in the namespace), or there is such a device already.
    pub fn make(name: &str) -> io::Result<Tun> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        let fd = OwnedFd::from(file);
        let mut request = interface_request(name)?;
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
        let header_bytes = HEADER_BYTES;
        // SAFETY: TUNSETVNETHDRSZ reads one int.
        check(unsafe {
            libc::ioctl(
                fd.as_raw_fd(),
                libc::TUNSETVNETHDRSZ as _,
                &raw const header_bytes,
            )
        })?;
        if set_offloads(&fd, OFFLOADS | OFFLOADS_UDP).is_err() {
            set_offloads(&fd, OFFLOADS)?;
        }
        Ok(Tun(fd))
    }

    /// One that somebody else has made.
    pub const fn from_descriptor(fd: OwnedFd) -> Tun {
        Tun(fd)
    }

    /// Takes the next packet that the namespace sends. Its content is replaced. Whether there was one.
    ///
    /// # Errors
    /// The device was switched off or removed.
    pub fn read(&self, packet: &mut Vec<u8>) -> io::Result<bool> {
        packet.clear();
        packet.reserve(PACKET_BYTES_MAX + HEADER_BYTES as usize);
        let room = packet.spare_capacity_mut();
        match retry(|| read(&self.0, room)) {
            Ok(bytes) => {
                // SAFETY: the kernel wrote `bytes` bytes, which are within the capacity.
                unsafe { packet.set_len(bytes) };
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Hands a packet to the namespace.
    ///
    /// # Errors
    /// It was not delivered: it makes no sense, there is no room for it, or the device was switched off or removed.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(packet)];
        retry(|| {
            // SAFETY: `IoSlice` is guaranteed to be laid out as `iovec`; the kernel only reads from it.
            check_len(unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr().cast(), 1) })
        })
        .map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn read(fd: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (at, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: pointer and length describe `buffer`.
    check_len(unsafe { libc::read(fd.as_raw_fd(), at, length) })
}

fn set_offloads(fd: &OwnedFd, offloads: libc::c_uint) -> io::Result<()> {
    let argument = libc::c_ulong::from(offloads);
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, argument) })?;
    Ok(())
}
