//! The virtual NIC as a veth pair: the host uses one end, we read and write the
//! other through packet sockets ([`Queues`]).
//!
//! The far end lives in a network namespace of its own that only our sockets
//! keep alive. So the host sees one device, no other program's packets get at
//! the far end, and when this process dies, however it dies, the kernel removes
//! namespace, far end and device.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::queues::Queues;
use super::{End, MTU_BYTES_MAX, Made, VnicError, VnicOptions};
use crate::netlink::RouteSocket;
use crate::netlink::route::LinkSettings;
use crate::sys::{check, check_fd};

/// The largest packet of a veth (`GSO_MAX_SIZE`).
const GSO_BYTES_MAX: u32 = 524_280;

/// The far end's place: sockets of the namespace it is in.
struct FarSide {
    packets: Queues,
    route: RouteSocket,
    hidden: bool,
}

/// Makes the pair and switches its far end on.
pub(super) fn make(near: &mut RouteSocket, options: &VnicOptions<'_>) -> Result<Made, VnicError> {
    let mut far = match hidden_side() {
        Ok(far) => far,
        Err(_) => far_side(false).map_err(VnicError::step("open a packet socket"))?,
    };
    let peer = peer_name(options.name);
    let namespace = namespace_of(&far).map_err(VnicError::step("find the hidden namespace"))?;
    near.add_veth(options.name, &peer, namespace.as_ref().map(AsFd::as_fd))
        .map_err(VnicError::step("make a veth pair"))?;
    let gso_bytes_max = options.gso_bytes_max.min(GSO_BYTES_MAX);
    let made = set_up_far_end(&mut far, &peer, gso_bytes_max);
    if let Err(error) = made {
        if let Ok(Some(link)) = near.link(options.name) {
            let _ = near.delete_link(link.index);
        }
        return Err(error);
    }
    let cuts_datagrams = far.packets.cuts_datagrams();
    Ok(Made {
        end: End::Packets(far.packets),
        hidden: far.hidden,
        cuts_datagrams,
        gso_bytes_max,
    })
}

fn set_up_far_end(far: &mut FarSide, peer: &str, gso_bytes_max: u32) -> Result<(), VnicError> {
    let link = super::find(&mut far.route, peer)?;
    // Fails if there is no IPv6; then there is nothing to silence.
    let _ = far.route.silence_ipv6(link.index);
    far.route
        .set_offload_bytes(link.index, gso_bytes_max)
        .map_err(VnicError::step("set the largest packet"))?;
    let settings = LinkSettings {
        // Whatever MTU the host's end has.
        mtu: Some(MTU_BYTES_MAX),
        up: true,
        ..LinkSettings::default()
    };
    far.route
        .set_link(link.index, settings)
        .map_err(VnicError::step("set the MTU"))?;
    far.packets
        .listen(link.index)
        .map_err(VnicError::step("read the veth pair"))
}

/// The far end's name where it must stay in sight, 15 bytes at most.
fn peer_name(name: &str) -> String {
    let kept = (0..=name.len().min(10))
        .rev()
        .find(|&end| name.is_char_boundary(end));
    format!("{}-peer", &name[..kept.unwrap_or(0)])
}

/// Sockets in a new network namespace. The namespace is made on a thread that
/// then ends, so that this one stays where it is.
fn hidden_side() -> io::Result<FarSide> {
    let make = || {
        // SAFETY: takes no pointers; concerns this thread alone.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
        far_side(true)
    };
    let thread = std::thread::Builder::new().spawn(make)?;
    thread
        .join()
        .unwrap_or_else(|_| Err(io::Error::other("the thread that makes it failed")))
}

/// The hidden namespace as a descriptor.
fn namespace_of(far: &FarSide) -> io::Result<Option<OwnedFd>> {
    if !far.hidden {
        return Ok(None);
    }
    let fd = far.packets.speaker().as_raw_fd();
    // SAFETY: SIOCGSKNS takes no argument and returns a new descriptor.
    check_fd(unsafe { libc::ioctl(fd, libc::SIOCGSKNS as _) }).map(Some)
}

/// Sockets in the namespace of this thread; those for packets receive nothing yet.
fn far_side(hidden: bool) -> io::Result<FarSide> {
    Ok(FarSide {
        packets: Queues::new()?,
        route: RouteSocket::new()?,
        hidden,
    })
}
