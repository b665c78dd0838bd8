//! The virtual NIC as a TAP (Documentation/networking/tuntap.rst of Linux).

use super::{End, Made, VnicError, VnicOptions};
use crate::tuntap::{attach, choose_offloads, open};

/// No packet of a TAP is larger (`GSO_LEGACY_MAX_SIZE`).
const GSO_BYTES_MAX: u32 = 65_536;

/// Makes the device. It is gone when the descriptor is closed.
pub(super) fn make(options: &VnicOptions<'_>) -> Result<Made, VnicError> {
    let fd = open().map_err(VnicError::NoTun)?;
    attach(&fd, options.name, libc::IFF_TAP).map_err(|error| match error.raw_os_error() {
        // In use, or a device of another kind.
        Some(libc::EBUSY | libc::EEXIST | libc::EINVAL) => VnicError::NameTaken {
            name: options.name.to_owned(),
        },
        _ => VnicError::step("make a TAP device")(error),
    })?;
    let step = "choose the offloads of the TAP";
    let cuts_datagrams = choose_offloads(&fd).map_err(VnicError::step(step))?;
    let gso_bytes_max = options.gso_bytes_max.min(GSO_BYTES_MAX);
    Ok(Made {
        end: End::Tap(fd),
        hidden: true,
        cuts_datagrams,
        gso_bytes_max,
    })
}
