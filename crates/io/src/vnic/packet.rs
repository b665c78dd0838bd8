//! The virtual NIC as a veth pair: the host uses one end, we read and write the
//! other through a packet socket (packet(7)).
//!
//! The far end lives in a network namespace of its own that only our sockets
//! keep alive. So the host sees one device, no other program's packets get at
//! the far end, and when this process dies, however it dies, the kernel removes
//! namespace, far end and device.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{Backend, Made, VnicError, VnicOptions};
use crate::netlink::RouteSocket;
use crate::netlink::route::LinkSettings;
use crate::sys::{check, check_fd, get_option, grow_buffer, set_option};

/// The largest packet of a veth (`GSO_MAX_SIZE`).
const GSO_BYTES_MAX: u32 = 524_280;

/// What the packet backend may hold for us to read, bytes; the counterpart of
/// a TAP's transmit queue of a thousand frames.
pub const QUEUE_BYTES: usize = 64 << 20;

/// What may be on its way into the host, bytes.
const SEND_BUFFER_BYTES: usize = 8 << 20;

// linux/if_packet.h
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// All protocols, as the packet socket wants it.
const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// The far end's place: sockets of the namespace it is in.
struct FarSide {
    packets: OwnedFd,
    queue_bytes: usize,
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
    let made = set_up_far_end(&mut far, &peer, options.mtu, gso_bytes_max);
    if let Err(error) = made {
        if let Ok(Some(link)) = near.link(options.name) {
            let _ = near.delete_link(link.index);
        }
        return Err(error);
    }
    Ok(Made {
        fd: far.packets,
        backend: Backend::Packet,
        hidden: far.hidden,
        gso_bytes_max,
        queue_bytes: Some(far.queue_bytes),
    })
}

fn set_up_far_end(
    far: &mut FarSide,
    peer: &str,
    mtu: u32,
    gso_bytes_max: u32,
) -> Result<(), VnicError> {
    let link = super::find(&mut far.route, peer)?;
    // Fails where there is no IPv6; then there is nothing to silence.
    let _ = far.route.silence_ipv6(link.index);
    far.route
        .set_offload_bytes(link.index, gso_bytes_max)
        .map_err(VnicError::step("set the largest packet"))?;
    let settings = LinkSettings {
        mtu: Some(mtu),
        up: true,
        ..LinkSettings::default()
    };
    far.route
        .set_link(link.index, settings)
        .map_err(VnicError::step("set the MTU"))?;
    listen(&far.packets, link.index).map_err(VnicError::step("read the veth pair"))
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
    let fd = far.packets.as_raw_fd();
    // SAFETY: SIOCGSKNS takes no argument and returns a new descriptor.
    check_fd(unsafe { libc::ioctl(fd, libc::SIOCGSKNS as _) }).map(Some)
}

/// Sockets in the namespace of this thread; the packet socket hears nothing yet.
fn far_side(hidden: bool) -> io::Result<FarSide> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes no pointers.
    let packets = check_fd(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    set_option(&packets, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    set_option(&packets, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    let (read, write) = (QUEUE_BYTES, SEND_BUFFER_BYTES);
    let fd = packets.as_fd();
    let queue_bytes = grow_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, read)?;
    grow_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, write)?;
    Ok(FarSide {
        packets,
        queue_bytes,
        route: RouteSocket::new()?,
        hidden,
    })
}

/// Has the socket hear, and speak for, the device `index`.
fn listen(packets: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: integers and bytes only; zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = EVERY_PROTOCOL;
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: pointer and length describe `address`.
    check(unsafe {
        libc::bind(
            packets.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// The frames the socket had no room for since the last call.
pub(super) fn take_drops(packets: &OwnedFd) -> io::Result<u32> {
    // struct tpacket_stats: packets, drops
    Ok(get_option(packets, libc::SOL_PACKET, PACKET_STATISTICS, [0u32; 2])?[1])
}
