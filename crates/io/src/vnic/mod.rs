//! The virtual NIC: an Ethernet device whose other end is this process.
//!
//! Frames pass with a `virtio_net_hdr` in front, so that the kernel need
//! neither cut large packets to the MTU nor compute checksums that the other
//! side's kernel would only check again. There are two ways to make such a
//! device, a TAP ([`Backend::Tap`]) and a veth pair whose other end is read
//! through packet sockets ([`Backend::Packet`]).
//!
//! The packet backend is better in bulk because it admits packets beyond 64 KiB:
//! through two processes and UDP, one TCP stream had a third more throughput
//! for a fifth less processor time per byte (350 KB packets, MTU 1500) than
//! through TAPs of MTU 62000. It adds some 2 µs to a lone packet, and at equal
//! packet size the two are alike.

mod error;
mod packet;
mod queues;
mod routers;
mod tagged;
mod tap;
#[cfg(test)]
mod tests;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::netlink::route::LinkSettings;
use crate::netlink::{LinkFacts, RouteSocket};
use crate::sys::{check_len, retry};

pub use error::VnicError;
pub use queues::{QUEUE_BYTES, QUEUES};

use queues::Queues;

/// The length of the `virtio_net_hdr` in front of every frame (the short form
/// of the virtio specification, 5.1.6, in the machine's byte order).
pub const HEADER_BYTES: usize = 10;

/// The shortest Ethernet frame there is: two addresses and a type.
const ETHERNET_HEADER_BYTES: usize = 14;

/// How much longer an Ethernet frame may be than its IP packet: the Ethernet header, VLAN
/// tags, and a reserve.
const FRAME_OVERHEAD_BYTES: usize = 64;

/// No device of ours has a larger MTU.
const MTU_BYTES_MAX: u32 = 65_535;

/// Marks a device as ours, so that one left behind by a crashed daemon can be distinguished
/// from another program's with the same name.
const ALIAS: &str = "virtual NIC of tabane";

/// How to make the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The packet backend where the process has the privileges for it, else the TAP.
    #[default]
    Auto,
    /// A TAP: packets up to 64 KiB. Needs CAP_NET_ADMIN and `/dev/net/tun`.
    Tap,
    /// A veth pair and packet sockets: packets up to 512 KiB (BIG TCP). Needs
    /// CAP_NET_ADMIN and CAP_NET_RAW, and with CAP_SYS_ADMIN hides the other
    /// end of the pair in a network namespace of its own.
    Packet,
}

/// Options of a device.
#[derive(Clone, Copy, Debug)]
pub struct VnicOptions<'a> {
    /// Its name, at most 15 bytes.
    pub name: &'a str,
    /// Its Ethernet address; must be a locally administered unicast address.
    pub mac: [u8; 6],
    /// The largest IP packet, bytes: 68..=65521 for the TAP, 68..=65535 otherwise.
    pub mtu: u32,
    /// Its addresses with the lengths of their network prefixes; each brings
    /// the route to its network.
    pub addresses: &'a [(IpAddr, u8)],
    /// The largest packet the kernel may hand over uncut, bytes. At most
    /// 65536 for the TAP and 524280 for the packet backend; more is reduced to that.
    pub gso_bytes_max: u32,
    /// Frames the TAP holds for us; the packet backend is bounded in bytes instead.
    pub tx_queue_length: u32,
    /// How to make it.
    pub backend: Backend,
}

/// Frames that did not pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnicCounters {
    /// Dropped by the kernel because we did not read fast enough.
    pub kernel_drops: u64,
    /// Longer than [`Vnic::frame_bytes_max`]; dropped.
    pub truncated: u64,
}

/// The virtual NIC. Not blocking. Dropping it removes the device.
#[derive(Debug)]
pub struct Vnic {
    end: End,
    route: RouteSocket,
    link: LinkFacts,
    gso_bytes_max: u32,
    hidden: bool,
    cuts_datagrams: bool,
    truncated: u64,
    packet_drops: u64,
    believes: Vec<String>,
}

/// A device with its other end, not yet set up.
struct Made {
    end: End,
    hidden: bool,
    cuts_datagrams: bool,
    gso_bytes_max: u32,
}

/// The device's backend.
#[derive(Debug)]
enum End {
    Tap(OwnedFd),
    Packets(Queues),
}

impl Vnic {
    /// Makes the device in the network namespace of the calling thread and
    /// switches it on. A device of this name that an earlier process of ours
    /// left behind is removed first; so only one may run per namespace and
    /// name, and the caller sees to that.
    ///
    /// # Errors
    /// [`VnicError`] says what is missing and what to do about it. Nothing is
    /// left behind then.
    pub fn open(options: &VnicOptions<'_>) -> Result<Vnic, VnicError> {
        check_options(options)?;
        let mut route =
            RouteSocket::new().map_err(VnicError::step("ask the kernel about links"))?;
        remove_leftover(&mut route, options.name)?;
        let made = match options.backend {
            Backend::Tap => tap::make(options)?,
            Backend::Packet => packet::make(&mut route, options)?,
            Backend::Auto => match packet::make(&mut route, options) {
                Ok(made) => made,
                Err(first) => tap::make(options).map_err(|second| match second {
                    // No TAP at all on this host: then the other reason tells more.
                    VnicError::NoTun(_) => first,
                    _ => second,
                })?,
            },
        };
        let link = find(&mut route, options.name)?;
        let mut vnic = Vnic {
            end: made.end,
            route,
            link,
            gso_bytes_max: made.gso_bytes_max,
            hidden: made.hidden,
            cuts_datagrams: made.cuts_datagrams,
            truncated: 0,
            packet_drops: 0,
            believes: Vec::new(),
        };
        // From here on dropping `vnic` removes the device.
        vnic.set_up(options)?;
        Ok(vnic)
    }

    fn set_up(&mut self, options: &VnicOptions<'_>) -> Result<(), VnicError> {
        let index = self.link.index;
        let settings = LinkSettings {
            mtu: Some(options.mtu),
            mac: Some(options.mac),
            tx_queue_length: Some(options.tx_queue_length),
            alias: Some(ALIAS),
            up: false,
        };
        self.route
            .set_link(index, settings)
            .map_err(VnicError::step("set the MTU and address"))?;
        self.route
            .set_offload_bytes(index, self.gso_bytes_max)
            .map_err(VnicError::step("set the largest packet"))?;
        crate::ethtool::switch_off(&self.route, options.name, |feature| {
            !is_carried(feature) || feature == UDP_SEGMENTATION && !self.cuts_datagrams
        })
        .map_err(VnicError::step("choose the offloads"))?;
        // Before it is on: then the first advertisement may come.
        self.believes = routers::disbelieve(&mut self.route, index, options.name);
        for (address, prefix) in options.addresses {
            self.route
                .add_address(index, *address, *prefix)
                .map_err(VnicError::step("give the device its address"))?;
        }
        let up = LinkSettings {
            up: true,
            ..LinkSettings::default()
        };
        self.route
            .set_link(index, up)
            .map_err(VnicError::step("switch the device on"))?;
        self.link = find(&mut self.route, options.name)?;
        // Linux before 6.3 has no BIG TCP for IPv4, and reports none.
        self.gso_bytes_max = self.link.gso_bytes_max.max(self.link.gso_ipv4_bytes_max);
        Ok(())
    }

    /// How the device was made: never [`Backend::Auto`].
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.end {
            End::Tap(_) => Backend::Tap,
            End::Packets(_) => Backend::Packet,
        }
    }

    /// The kernel's number of the device.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.link.index
    }

    /// The largest IP packet of the device, bytes, as it was made or set here.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.link.mtu
    }

    /// Gives the device another MTU, bytes, as [`VnicOptions::mtu`].
    ///
    /// # Errors
    /// The kernel refuses: it is out of range, or the device is gone.
    pub fn set_mtu(&mut self, bytes: u32) -> io::Result<()> {
        let settings = LinkSettings {
            mtu: Some(bytes),
            ..LinkSettings::default()
        };
        self.route.set_link(self.link.index, settings)?;
        self.link.mtu = bytes;
        Ok(())
    }

    /// The largest packet the kernel hands over uncut, bytes, as granted.
    #[must_use]
    pub fn gso_bytes_max(&self) -> u32 {
        self.gso_bytes_max
    }

    /// Settings by which the host may still accept routers and routes from the device, as
    /// sysctl(8) names them: /proc/sys is read-only. Usually none.
    #[must_use]
    pub fn believes(&self) -> &[String] {
        &self.believes
    }

    /// Whether frames may be UDP packets to be cut into datagrams, in both directions (since
    /// Linux 6.2).
    #[must_use]
    pub fn cuts_datagrams(&self) -> bool {
        self.cuts_datagrams
    }

    /// Whether the other end of a veth pair is out of sight in a namespace of
    /// its own. True for a TAP, which has none.
    #[must_use]
    pub fn is_peer_hidden(&self) -> bool {
        self.hidden
    }

    /// How many bytes may wait for us in each of the packet backend's [`QUEUES`], as granted:
    /// [`QUEUE_BYTES`], or `net.core.rmem_max` where the process has no
    /// CAP_NET_ADMIN outside of its own namespaces. `None` for a TAP.
    #[must_use]
    pub fn queue_bytes(&self) -> Option<usize> {
        match &self.end {
            End::Tap(_) => None,
            End::Packets(queues) => Some(queues.bytes()),
        }
    }

    /// The room [`Vnic::read`] needs, bytes, header included.
    #[must_use]
    pub fn frame_bytes_max(&self) -> usize {
        // Somebody else may set the MTU, too.
        self.gso_bytes_max.max(MTU_BYTES_MAX) as usize + FRAME_OVERHEAD_BYTES + HEADER_BYTES
    }

    /// Reads a frame from the host: [`HEADER_BYTES`] of `virtio_net_hdr`, then the Ethernet
    /// frame. Returns the length of both, or `None` if nothing waits.
    ///
    /// # Errors
    /// `InvalidInput` if `buffer` is shorter than [`Vnic::frame_bytes_max`];
    /// `NetworkDown` or `NotFound` when the device was switched off or removed.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if buffer.len() < self.frame_bytes_max() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "buffer too small for a frame",
            ));
        }
        // SAFETY: initialised memory is never made uninitialised here: the kernel
        // only writes to it.
        let buffer = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
        self.read_uninit(buffer)
    }

    /// Like [`Vnic::read`], into a reused buffer: its content is replaced, it grows to
    /// [`Vnic::frame_bytes_max`] once, and nothing is zeroed first. Returns whether there was
    /// a frame.
    ///
    /// # Errors
    /// `NetworkDown` or `NotFound` when the device was switched off or removed.
    pub fn read_frame(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        frame.clear();
        frame.reserve(self.frame_bytes_max());
        let Some(bytes) = self.read_uninit(frame.spare_capacity_mut())? else {
            return Ok(false);
        };
        // SAFETY: the kernel wrote `bytes` bytes, which are within the capacity.
        unsafe { frame.set_len(bytes) };
        Ok(true)
    }

    fn read_uninit(&mut self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Option<usize>> {
        loop {
            let read = match &mut self.end {
                End::Tap(tap) => retry(|| read_tap(tap, buffer)),
                End::Packets(queues) => queues.read(buffer),
            };
            match read {
                Ok(bytes) if bytes > buffer.len() => self.truncated += 1,
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(device_error(error)),
            }
        }
    }

    /// Hands one frame to the host, its parts in order: [`HEADER_BYTES`] of
    /// `virtio_net_hdr`, then the Ethernet frame. At most 1024 parts.
    ///
    /// # Errors
    /// The frame was not delivered. `WouldBlock`: it can be tried again.
    /// `InvalidInput`: the header or the frame makes no sense. `NetworkDown` or
    /// `NotFound`: the device was switched off or removed. Anything else: the
    /// kernel had no room for it.
    pub fn write(&mut self, frame: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes: usize = frame.iter().map(|part| part.len()).sum();
        if bytes < HEADER_BYTES + ETHERNET_HEADER_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too short for a frame",
            ));
        }
        let end = match &self.end {
            End::Tap(tap) => tap,
            End::Packets(queues) => queues.speaker(),
        };
        let (fd, parts) = (end.as_raw_fd(), frame.len().min(i32::MAX as usize) as i32);
        retry(|| {
            // SAFETY: `IoSlice` is guaranteed to be laid out as `iovec`; the
            // kernel only reads from it.
            check_len(unsafe { libc::writev(fd, frame.as_ptr().cast(), parts) })
        })
        .map(drop)
        .map_err(device_error)
    }

    /// Counters of lost frames.
    ///
    /// # Errors
    /// Not expected while the device exists.
    pub fn counters(&mut self) -> io::Result<VnicCounters> {
        let kernel_drops = match &self.end {
            End::Tap(_) => {
                let link = self
                    .route
                    .link_at(self.link.index)
                    .map_err(io::Error::from)?;
                link.ok_or(io::ErrorKind::NotFound)?.tx_dropped
            }
            End::Packets(queues) => {
                self.packet_drops += queues.take_drops()?;
                self.packet_drops
            }
        };
        Ok(VnicCounters {
            kernel_drops,
            truncated: self.truncated,
        })
    }
}

impl Drop for Vnic {
    fn drop(&mut self) {
        // Without this a veth pair would vanish only when the packet sockets' namespace is
        // cleared away, some time later. If it fails the device is gone already.
        let _ = self.route.delete_link(self.link.index);
    }
}

impl AsFd for Vnic {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.end {
            End::Tap(tap) => tap.as_fd(),
            End::Packets(queues) => queues.as_fd(),
        }
    }
}

fn read_tap(tap: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (at, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: pointer and length describe `buffer`.
    check_len(unsafe { libc::read(tap.as_raw_fd(), at, length) })
}

/// The offload that hands over datagrams of UDP uncut, as ethtool names it.
const UDP_SEGMENTATION: &str = "tx-udp-segmentation";

/// Which offloads `virtio_net_hdr` can tell the other side about. The others
/// (tunnels, SCTP, VLAN tags beside the packet) would be lost on the way, so
/// the kernel is to do them itself before the frame gets here.
fn is_carried(feature: &str) -> bool {
    match feature {
        "tx-checksum-sctp"
        | "tx-gso-partial"
        | "tx-gso-list"
        | "tx-vlan-hw-insert"
        | "tx-vlan-stag-hw-insert" => false,
        "tx-tcp-segmentation"
        | "tx-tcp6-segmentation"
        | "tx-tcp-ecn-segmentation"
        | "tx-tcp-mangleid-segmentation"
        | UDP_SEGMENTATION => true,
        other => !(other.starts_with("tx-") && other.ends_with("-segmentation")),
    }
}

/// A TAP that is switched off says EIO or EBADFD.
fn device_error(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EIO | libc::EBADFD) => io::Error::from_raw_os_error(libc::ENETDOWN),
        Some(libc::ENXIO | libc::ENODEV) => io::Error::new(io::ErrorKind::NotFound, error),
        _ => error,
    }
}

fn check_options(options: &VnicOptions<'_>) -> Result<(), VnicError> {
    let name = options.name;
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    if name.is_empty() || name.len() > 15 || name == "." || name == ".." || name.contains(odd) {
        return Err(VnicError::InvalidName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// Removes the device `name` if a crashed process of ours left it behind: a veth pair whose
/// far end could not be hidden outlives its process. The caller must ensure that no living
/// process has it. Not an error if there is no such device; others' devices are not touched.
///
/// # Errors
/// The kernel refuses; without CAP_NET_ADMIN it does.
pub fn remove_left_behind(name: &str) -> Result<(), VnicError> {
    let mut route = RouteSocket::new().map_err(VnicError::step("ask the kernel about links"))?;
    match remove_leftover(&mut route, name) {
        Err(VnicError::NameTaken { .. }) => Ok(()),
        other => other,
    }
}

fn remove_leftover(route: &mut RouteSocket, name: &str) -> Result<(), VnicError> {
    match route
        .link(name)
        .map_err(VnicError::step("list the links"))?
    {
        Some(link) if link.alias == ALIAS => route
            .delete_link(link.index)
            .map_err(VnicError::step("remove the old device")),
        Some(_) => Err(VnicError::NameTaken {
            name: name.to_owned(),
        }),
        None => Ok(()),
    }
}

fn find(route: &mut RouteSocket, name: &str) -> Result<LinkFacts, VnicError> {
    let gone = || VnicError::step("find the new device")(io::Error::from(io::ErrorKind::NotFound));
    route
        .link(name)
        .map_err(VnicError::step("list the links"))?
        .ok_or_else(gone)
}
