//! Common parts of TUN and TAP (Documentation/networking/tuntap.rst of Linux): each packet has its `virtio_net_hdr` in front.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::sys::{check, interface_request};
use crate::vnic::HEADER_BYTES;

/// Offloads of every kernel, with or without USO.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// UDP segmentation; Linux 6.2 and later.
const OFFLOADS_UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// A descriptor to [`attach`] to a device.
///
/// # Errors
/// There is no `/dev/net/tun`, or it may not be opened.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    Ok(options.open("/dev/net/tun")?.into())
}

/// Makes the device, of a kind (`IFF_TUN`, `IFF_TAP`), in the network namespace of this thread.
///
/// # Errors
/// The process may not, or there is a device of this name already.
pub(crate) fn attach(fd: &OwnedFd, name: &str, kind: libc::c_int) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    Ok(())
}

/// Enables packets that are not yet cut or checksummed. Returns whether UDP segmentation is included.
///
/// # Errors
/// Not expected.
pub(crate) fn choose_offloads(fd: &OwnedFd) -> io::Result<bool> {
    let bytes = HEADER_BYTES as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const bytes) })?;
    let cuts_datagrams = set_offloads(fd, OFFLOADS | OFFLOADS_UDP).is_ok();
    if !cuts_datagrams {
        set_offloads(fd, OFFLOADS)?;
    }
    Ok(cuts_datagrams)
}

fn set_offloads(fd: &OwnedFd, offloads: libc::c_uint) -> io::Result<()> {
    let argument = libc::c_ulong::from(offloads);
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, argument) })?;
    Ok(())
}

/// Whether it is one of a TUN, with that header.
pub(crate) fn is_tun(fd: &OwnedFd) -> bool {
    // SAFETY: integers and pointers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // SAFETY: TUNGETIFF writes one `ifreq`.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) };
    // SAFETY: the kernel has filled in its flags.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    asked == 0 && flags & wanted == wanted && flags & libc::IFF_TAP == 0
}
