//! A device's capabilities and settings (`SIOCETHTOOL`, linux/ethtool.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::sys::{check, interface_request};

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// The set of strings that names the features, in the order of their bits.
const ETH_SS_FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;
/// No kernel has had more than a hundred; a larger answer is not believed.
const FEATURES_MAX: usize = 1024;

/// Switches off every feature of the device `name` that `unwanted` picks by its
/// name (as in `ethtool -k`). Any socket will do; its network namespace counts.
pub(crate) fn switch_off(
    socket: impl AsFd,
    name: &str,
    unwanted: impl Fn(&str) -> bool,
) -> io::Result<()> {
    let names = feature_names(&socket, name)?;
    let blocks = names.len().div_ceil(32);
    // command, number of blocks, then (valid, requested) for each block
    let mut request = vec![0u32; 2 + 2 * blocks];
    request[0] = ETHTOOL_SFEATURES;
    request[1] = blocks as u32;
    for (bit, _) in names.iter().enumerate().filter(|(_, name)| unwanted(name)) {
        request[2 + bit / 32 * 2] |= 1 << (bit % 32);
    }
    ethtool(&socket, name, &mut request)
}

fn feature_names(socket: &impl AsFd, name: &str) -> io::Result<Vec<String>> {
    // command, reserved, 64-bit mask of sets, length of the first set
    let mut info = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
    info[2..4].copy_from_slice(&words(1u64 << ETH_SS_FEATURES));
    ethtool(socket, name, &mut info)?;
    let count = (info[4] as usize).min(FEATURES_MAX);
    // command, set, number of strings, then the strings
    let mut strings = vec![0u32; 3 + count * NAME_BYTES / 4];
    strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ethtool(socket, name, &mut strings)?;
    let bytes: Vec<u8> = strings[3..]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    Ok(bytes.chunks(NAME_BYTES).map(crate::netlink::text).collect())
}

fn words(value: u64) -> [u32; 2] {
    let bytes = value.to_ne_bytes();
    [0, 4].map(|at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

/// The features of the device `name` that are on, by their names as in `ethtool -k`,
/// such as `tx-checksum-ip-generic`.
///
/// # Errors
/// No such device, or it has no such thing. Needs no privileges.
pub fn features(name: &str) -> io::Result<Vec<String>> {
    // Any socket will do; it says which network namespace is meant.
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    switched_on(socket, name)
}

/// As [`features`], in the network namespace of `socket`.
pub(crate) fn switched_on(socket: impl AsFd, name: &str) -> io::Result<Vec<String>> {
    let names = feature_names(&socket, name)?;
    let blocks = names.len().div_ceil(32);
    // command, number of blocks, then (available, requested, active, never changed)
    let mut request = vec![0u32; 2 + 4 * blocks];
    request[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    ethtool(&socket, name, &mut request)?;
    let active = |bit: usize| request[2 + bit / 32 * 4 + 2] >> (bit % 32) & 1 == 1;
    let numbered = names.into_iter().enumerate();
    let on = numbered.filter(|(bit, _)| active(*bit));
    Ok(on.map(|(_, name)| name).collect())
}

/// One command; `request` must have room for its answer.
fn ethtool(socket: &impl AsFd, name: &str, request: &mut [u32]) -> io::Result<()> {
    let mut ifreq = interface_request(name)?;
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `ifreq` points to `request`, which is as long as its command and
    // counts say; both outlive the call.
    check(unsafe { libc::ioctl(fd, libc::SIOCETHTOOL as _, &raw mut ifreq) })?;
    Ok(())
}
