//! The virtual NIC as a TAP (Documentation/networking/tuntap.rst of Linux).

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::{End, HEADER_BYTES, Made, VnicError, VnicOptions};
use crate::sys::{check, interface_request};

/// No packet of a TAP is larger (`GSO_LEGACY_MAX_SIZE`).
const GSO_BYTES_MAX: u32 = 65_536;

/// What every kernel that has USO or not can do.
const OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// UDP segmentation; Linux 6.2 and later.
const OFFLOADS_UDP: libc::c_uint = libc::TUN_F_USO4 | libc::TUN_F_USO6;

/// Makes the device. It is gone when the descriptor is closed.
pub(super) fn make(options: &VnicOptions<'_>) -> Result<Made, VnicError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(VnicError::NoTun)?;
    let fd = OwnedFd::from(file);
    attach(&fd, options.name).map_err(|error| match error.raw_os_error() {
        // In use, or a device of another kind.
        Some(libc::EBUSY | libc::EEXIST | libc::EINVAL) => VnicError::NameTaken {
            name: options.name.to_owned(),
        },
        _ => VnicError::step("make a TAP device")(error),
    })?;
    let step = "choose the offloads of the TAP";
    set_header_bytes(&fd).map_err(VnicError::step(step))?;
    let cuts_datagrams = set_offloads(&fd, OFFLOADS | OFFLOADS_UDP).is_ok();
    if !cuts_datagrams {
        set_offloads(&fd, OFFLOADS).map_err(VnicError::step(step))?;
    }
    let gso_bytes_max = options.gso_bytes_max.min(GSO_BYTES_MAX);
    Ok(Made {
        end: End::Tap(fd),
        hidden: true,
        cuts_datagrams,
        gso_bytes_max,
    })
}

fn attach(fd: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
    Ok(())
}

fn set_header_bytes(fd: &OwnedFd) -> io::Result<()> {
    let bytes = HEADER_BYTES as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const bytes) })?;
    Ok(())
}

fn set_offloads(fd: &OwnedFd, offloads: libc::c_uint) -> io::Result<()> {
    let argument = libc::c_ulong::from(offloads);
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as _, argument) })?;
    Ok(())
}
