//! A TUN with offloads: packets of IP, each with its `virtio_net_hdr` in front (Documentation/networking/tuntap.rst of Linux).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys::{check_len, retry};
use crate::tuntap::{attach, choose_offloads, is_tun, open};
use crate::vnic::HEADER_BYTES;

/// No packet of a TUN is longer (`GSO_LEGACY_MAX_SIZE`).
const PACKET_BYTES_MAX: usize = 65_536;

/// As read(2) and write(2) (preadv2(2)).
const NO_OFFSET: libc::off_t = -1;

/// A TUN. Its device is gone when the last descriptor is closed.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Makes the device in the network namespace of this thread. It is off, and has no address.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, the process may not (CAP_NET_ADMIN in the namespace), or there is such a device already.
    pub fn make(name: &str) -> io::Result<Tun> {
        let fd = open()?;
        attach(&fd, name, libc::IFF_TUN)?;
        choose_offloads(&fd)?;
        Ok(Tun(fd))
    }

    /// One that somebody else has made, who may have it as well. What is read and written here waits for nothing, whatever that one has set
    /// (`RWF_NOWAIT`).
    ///
    /// # Errors
    /// It is none, and comes back.
    pub fn from_descriptor(fd: OwnedFd) -> Result<Tun, OwnedFd> {
        match is_tun(&fd) {
            true => Ok(Tun(fd)),
            false => Err(fd),
        }
    }

    /// Takes the next packet that the namespace sends, which may be of any content and length. Its content is replaced. Whether there was one.
    ///
    /// # Errors
    /// The device was switched off or removed.
    pub fn read(&self, packet: &mut Vec<u8>) -> io::Result<bool> {
        packet.clear();
        packet.reserve(PACKET_BYTES_MAX + HEADER_BYTES);
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
        let part = libc::iovec {
            iov_base: packet.as_ptr().cast_mut().cast(),
            iov_len: packet.len(),
        };
        retry(|| {
            // SAFETY: the part describes `packet`, which the kernel only reads.
            check_len(unsafe {
                libc::pwritev2(
                    self.0.as_raw_fd(),
                    &raw const part,
                    1,
                    NO_OFFSET,
                    libc::RWF_NOWAIT,
                )
            })
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
    let part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: the part describes `buffer`.
    check_len(unsafe {
        libc::preadv2(
            fd.as_raw_fd(),
            &raw const part,
            1,
            NO_OFFSET,
            libc::RWF_NOWAIT,
        )
    })
}
